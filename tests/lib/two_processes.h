/* SPDX-License-Identifier: MIT
 *
 * Two processes with one queue pair each, connected to the other's over loopback: the test itself, and a child that plays the other side.
 */
#ifndef TESTS_LIB_TWO_PROCESSES_H
#define TESTS_LIB_TWO_PROCESSES_H

#include <stdint.h>
#include <sys/types.h>

#include "lib/world.h"

enum { PARENT, CHILD };

/* What the two tell each other first. */
struct card {
	uint32_t qpn, rkey;
	uint64_t address;
};

/* Give one's own card and take the other's: also how one waits for the other. */
void talk(int fd, const struct card *own, struct card *other);
/* The same with nothing to say. */
void meet(int fd);

/* Each process opens a pair and uses one side of it, connected to the other process's. */
void open_half(struct world *world, struct pair *pair, int side, const struct pair_options *options, int fd, struct card *other);
void close_half(struct world *world, struct pair *pair);
/* A request of `side` to the other process's buffer, at the same offset. */
struct ibv_send_wr half_request(struct pair *pair, int side, const struct card *other, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
				size_t offset, uint32_t length);

/* Starts a child that runs `play`; gives the parent's end of a socket between them. A failed assertion in the child kills it. */
pid_t start(void (*play)(int fd), int *fd);
/* It must end by itself, and well. */
void finish(pid_t child, int fd);

#endif
