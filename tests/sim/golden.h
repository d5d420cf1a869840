/* SPDX-License-Identifier: MIT
 *
 * Captures of the kernel's rxe as the simulator's tests need them: all packets of a file, and the queue pairs that
 * requests in it are for.
 */
#ifndef VB_SIM_GOLDEN_H
#define VB_SIM_GOLDEN_H

#include "sim/testing.h"
#include "wire/roce_packet.h"

enum { GOLDEN_ENDS = 16, GOLDEN_PACKETS = 4096, GOLDEN_DATAGRAM = 9216 };

/* One queue pair of the captured machines, as the target of requests. */
struct golden_end {
	uint8_t address[16], peer[16];
	uint32_t qpn;
	enum ibv_qp_type type;
	uint32_t mtu;
	uint32_t first_psn;
	uint32_t qkey;
	unsigned requests;
};

struct golden_file {
	char name[256];
	struct vb_roce_packet *packets;
	uint8_t (*bytes)[GOLDEN_DATAGRAM];
	unsigned count;
	struct golden_end ends[GOLDEN_ENDS];
	unsigned end_count;
};

/* Fails the test when a file cannot be read or holds something that is not as it should be. */
void golden_open(struct golden_file *file, const char *folder, const char *name);
void golden_close(struct golden_file *file);
bool golden_name_has(const struct golden_file *file, const char *part);
enum ibv_mtu golden_mtu(const struct golden_end *end);
/* Is it a request for this queue pair? */
bool golden_is_for(const struct vb_roce_packet *packet, const struct golden_end *end);
/* Call `play` with every capture of the folder and of the older kernel's below it. */
void golden_each(const char *folder, void (*play)(struct golden_file *file));

#endif
