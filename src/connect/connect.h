/* SPDX-License-Identifier: MIT
 *
 * The connection manager of one host: all communication ids of all its processes, the ports they are bound to, and the
 * IB CM protocol (IBA chapter 12) between them and their peers. verbenad runs one; so does the simulator.
 *
 * Sans-I/O: MADs come in by vb_connect_receive, commands of processes by vb_connect_command, time by vb_connect_expire;
 * MADs and events go out through struct vb_connect_host. Nothing here blocks, reads a clock or draws random numbers.
 * Not thread safe.
 *
 *   receive.c   a MAD finds its id; THE table (states.c) says what it means there; one function per reaction
 *   commands.c  what a process may ask, and in which states
 *   expire.c    what happens when an answer does not come, or cannot
 *   release.c   what the peer hears of an id whose process lets go
 *   compose.c   messages on their way out            ids.c, ports.c, timers.c   who is found how, bound where, due when
 */
#ifndef VB_CONNECT_CONNECT_H
#define VB_CONNECT_CONNECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "wire/cm_command.h"
#include "wire/path.h"

struct vb_connect;

/* How many ids the owners that share it may have. Lives as long as any id that was counted, owned or not. */
struct vb_connect_quota {
	unsigned count, most;
};

/* Whose ids they are: a process's connection to the daemon. Embedded in the caller's object. */
struct vb_connect_owner {
	struct vb_list ids;
	unsigned count;
	struct vb_connect_quota *quota;  /* NULL: an owner's own limit alone */
};

struct vb_connect_device {
	uint32_t interface_index;
	uint64_t guid;                   /* host order */
	uint8_t active_mtu;              /* enum ibv_mtu */
};

struct vb_connect_host {
	void *context;
	void (*send_mad)(void *context, const struct vb_path *path, const uint8_t mad[256]);
	/* May not call back into the engine. */
	void (*event)(void *context, struct vb_connect_owner *owner, const struct vb_cm_event *event);
	uint32_t (*random)(void *context); /* unpredictable */
	/* The device that has the address (on that interface unless 0). False: no interface of this host has it. */
	bool (*find_device)(void *context, const uint8_t gid[16], uint32_t interface_index,
			    struct vb_connect_device *device);
};

struct vb_connect *vb_connect_create(const struct vb_connect_host *host);
/* Forgets everything; sends nothing. */
void vb_connect_destroy(struct vb_connect *connect);

/* It takes the place of another, whose processes tell of their ids (ADOPT) within VB_CONNECT_ADOPTION. Until then a message about
 * an id that is not known may be about one of those: it is not answered, and its sender repeats it. */
#define VB_CONNECT_ADOPTION VB_SECONDS(2)
void vb_connect_await_adoption(struct vb_connect *connect, vb_time until);

/* A MAD came for QP1. `from->source` is who sent it. Whatever it holds is answered, acted upon or dropped. */
void vb_connect_receive(struct vb_connect *connect, vb_time now, const struct vb_path *from, const void *mad,
			size_t length);

/* The network says (errno) that what we sent to `destination` could not be delivered, and quotes `length` bytes of it. A
 * request for a connection ends with it, as a TCP connect would. */
void vb_connect_undelivered(struct vb_connect *connect, const uint8_t destination[16], const void *mad, size_t length,
			    int error);

void vb_connect_owner_init(struct vb_connect_owner *owner);
/* Carry out a command and fill in the reply to it. */
void vb_connect_command(struct vb_connect *connect, vb_time now, struct vb_connect_owner *owner,
			const struct vb_cm_command *command, struct vb_cm_reply *reply);
/* The process is gone: its peers are told at once. No event reaches this owner any more. */
void vb_connect_owner_gone(struct vb_connect *connect, vb_time now, struct vb_connect_owner *owner);

vb_time vb_connect_next_deadline(const struct vb_connect *connect); /* VB_TIME_NEVER: nothing is pending */
void vb_connect_expire(struct vb_connect *connect, vb_time now);

/* Tell what the owner's ids are, for `verbena res`. */
struct vb_resource_list;
void vb_connect_owner_show(const struct vb_connect_owner *owner, struct vb_resource_list *list);

/* The owner of the id; NULL: none. */
struct vb_connect_owner *vb_connect_owner_of(struct vb_connect *connect, uint32_t id);

/* Ids that exist, those without an owner included, which only wait for a last answer or a timer. */
unsigned vb_connect_count(const struct vb_connect *connect);
unsigned vb_connect_bound_count(const struct vb_connect *connect);

#endif
