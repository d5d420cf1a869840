/* SPDX-License-Identifier: MIT
 *
 * How a thread of a program with sockets over RDMA sleeps until something comes, and not until the engine thread has taken it
 * (schedule/waiter.h). As wire/placing_call.h does it.
 *
 * begin, arm what is to wake the thread if another takes it, look, settle, sleep on the descriptor and on the completion channels, end; if
 * it was the descriptor: woken. Look.
 */
#ifndef VB_WIRE_SLEEPING_CALL_H
#define VB_WIRE_SLEEPING_CALL_H

#include <stdint.h>

struct ibv_cq;

#define VB_SLEEPING_MAGIC UINT64_C(0x9d5662506c616303) /* no pointer, as VB_PLACING_MAGIC */

enum { VB_SLEEPING_VERSION = 3 };

enum vb_sleeping_verb {
	/* The thread is about to sleep. 0: `fd` is readable when something has come, and the thread makes the passes until the end. EBUSY:
	 * it is woken by completion channels alone. */
	VB_SLEEPING_BEGIN,
	VB_SLEEPING_END,
	VB_SLEEPING_PASS,                /* what has come is delivered, and armed CQs raise their events */
	VB_SLEEPING_DISARM,              /* of `cq`. 0: it was armed, and has raised no event for that. EALREADY: it was not */
	VB_SLEEPING_SETTLE,              /* as the last thing before it sleeps: a pass, if something has come that `fd` does not tell of */
	VB_SLEEPING_WOKEN,               /* by `fd`, and the thread looks after this: it is not readable any more if nothing more comes */
	VB_SLEEPING_PRIVATE,             /* who waits for the channel of `cq` says so by these calls, and by none else (wire/waiting.h) */
};

struct vb_sleeping_call {
	uint64_t magic;
	uint32_t version, verb;
	struct ibv_cq *cq;
	int fd;                          /* stays libibverbs'. As long as the device is open */
};

#endif
