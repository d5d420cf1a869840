/* SPDX-License-Identifier: MIT
 *
 * A way past the wire into the memory of a peer that is a process of this host. The queue pair stays with its engine, which offers RDMA
 * WRITEs and READs to it and sends all else, and whatever this does not take, as always. So every refusal, and all that is told of one,
 * is the wire's.
 *
 * Order: the engine counts what it hands to the wire, in units of its own, and its peer shows how many of these have been taken in and
 * executed. Nothing goes past what has not.
 *
 * Caller holds qp->lock.
 */
#ifndef VB_QUEUE_BYPASS_H
#define VB_QUEUE_BYPASS_H

#include <stdbool.h>
#include <stdint.h>

struct vb_bypass;
struct vb_send_wqe;

/* What is moved at once, at most. A system call costs as much as copying some KiB, and where the kernel has page tables of its own (KPTI)
 * under an emulator, as much as 64 KiB. */
enum {
	VB_BYPASS_ROW = 64,              /* elements of their lists */
	VB_BYPASS_ROW_BYTES = 1 << 20,
};

struct vb_bypass {
	/* How many units has the peer taken in? False: no way leads there, now. */
	bool (*taken)(struct vb_bypass *bypass, uint64_t *count);
	/* Asked directly behind that: some bytes of that WRITE or READ from `offset` on, *moved of them. False: by wire, all of it; bytes
	 * that were moved before do no harm. */
	bool (*move)(struct vb_bypass *bypass, struct vb_send_wqe *wqe, uint32_t offset, uint32_t *moved);
	/* The same of a row of WRITEs, or of READs, that name one key, whole, in order. False: as if nothing had been asked, move each. */
	bool (*move_row)(struct vb_bypass *bypass, struct vb_send_wqe *const row[], unsigned count);
	/* So many units of the peer have been taken in, and what they asked for is done. */
	void (*took)(struct vb_bypass *bypass, uint64_t count);
	/* Before units are handed to the wire; and before anything is made of one that has come: a thread that hears of it sees
	 * all that was written before it was sent, by the bypass and by the application. */
	void (*sends)(struct vb_bypass *bypass);
	void (*hears)(struct vb_bypass *bypass);
};

#endif
