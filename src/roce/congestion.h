/* SPDX-License-Identifier: MIT
 *
 * How much may be on its way. RoCE adapters lean on a lossless network; we lean on the receiver's socket buffer,
 * which an ordinary user cannot make larger than net.core.rmem_max (212,992 bytes, of which the kernel grants twice
 * in its own accounting: 425,984 bytes of buffers, their overhead included). What does not fit is lost without a
 * word, so the requester keeps a window: requests that were not acknowledged, and read responses that were asked
 * for and did not come, each bounded by bytes. Loss, an ECN echo (CNP) and a timeout shrink it, arrivals let it
 * grow.
 *
 * A packet is charged for its payload and for the kernel's overhead in holding it.
 */
#ifndef VB_ROCE_CONGESTION_H
#define VB_ROCE_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "roce/control.h"
#include "wire/psn.h"

enum {
	/* Headers, and the share of a buffer's bookkeeping. A lone 1 KiB datagram holds about 2.3 KB of the receiver's
	 * allowance, one in a GRO bundle hardly more than its payload; this is between the two, loss tells the rest. */
	VB_CHARGE_OVERHEAD = 256,
	VB_WINDOW_START = 128 * 1024,
	/* Below the buffer's 425,984 bytes, with room left for other QPs of the same process. */
	VB_WINDOW_MAX = 384 * 1024,
	VB_WINDOW_MIN = 16 * 1024,
	/* A window never holds fewer packets than this, or large MTUs could not be pipelined. */
	VB_WINDOW_MIN_PACKETS = 8,
	/* Ask for an acknowledgement this many times per window: it opens again before it is used up. */
	VB_ACK_REQUESTS_PER_WINDOW = 4,
	VB_ACK_REQUESTS_PER_WIDE_WINDOW = 3,
	VB_WINDOW_WIDE = 256 * 1024,
	/* When the window opens a little, wait for this much before sending: one system call carries up to 64
	 * packets. */
	VB_BATCH_PACKETS = 64,

	/* UC, UD: of a receiver that reports, and does not know its buffer. 1 KiB datagrams that come one by one fill 345 KB so. */
	VB_FLOW_WINDOW = 192 * 1024,

	VB_READ_WINDOW_START = 256 * 1024,
	/* Of a few that read, where the buffer is much larger (wide.c); until a response is lost. */
	VB_READ_WINDOW_WIDE = 1024 * 1024,
	VB_READ_PIECES_WIDE = 2,         /* so many pieces are asked for as one; of these, three fit in */
	/* One request asks for at most this much, as its response is not flow-controlled any further. Reads up to 128 KiB look on
	 * the wire as an adapter's do. */
	VB_READ_PIECE_MAX = 132 * 1024,
	VB_READ_PIECE_MAX_PACKETS = 128,
	VB_READ_PIECE_MIN_PACKETS = 8,
};

/* UC and UD have no acknowledgements: to peers that do not report what they took (flow.c) they are paced by time. One byte of charge
 * per nanosecond is 8 Gb/s. A burst goes
 * at once; after it, half a burst at a time, so that a system call carries many packets. */
#define VB_PACE_PACKET 832 /* no packet counts for less: what a receiver needs for a small one, and a little more */
#define VB_PACE_BURST VB_MICROSECONDS(192)
#define VB_PACE_RESUME VB_MICROSECONDS(96)

/* Of one QP, a CNP is sent at most this often, and obeyed at most this often. */
#define VB_CNP_INTERVAL VB_MICROSECONDS(50)

struct vb_roce_window {
	uint32_t size;
	uint32_t most;                   /* it may grow to */
	uint32_t threshold;              /* below it the window doubles every round trip */
	uint32_t ceiling;                /* where loss was met last: approached slowly */
	bool recovering;                 /* one loss is answered once: until this is acknowledged */
	struct psn recovered_at;
	uint32_t lost;                   /* packets, of those before `counted_to`; 0: none */
	struct psn counted_to;
};

struct vb_roce_congestion {
	const struct vb_roce_algorithm *algorithm;
	uint32_t mtu;
	bool window_is_fixed;
	struct vb_roce_window requests;  /* ours, that were not acknowledged */
	struct vb_roce_window responses; /* asked for, and not here yet */
	vb_time cut_at;                  /* by a CNP */

	/* Algorithms that have a rate. */
	uint64_t rate, line_rate;        /* bits a second; 0: no limit */
	vb_time burst;
	const struct vb_timely_parameters *timely_parameters;
	union {
		struct vb_dcqcn dcqcn;
		struct vb_timely timely;
	};
};

void vb_roce_congestion_init(struct vb_roce_congestion *congestion, uint32_t mtu, const struct vb_roce_policy *policy);

static inline uint32_t vb_roce_charge(uint32_t payload, uint32_t packets)
{
	return payload + packets * VB_CHARGE_OVERHEAD;
}

/* ---- common to all algorithms: responses that were asked for ---- */
void vb_roce_congestion_arrived(struct vb_roce_congestion *congestion, uint32_t charge, uint32_t in_flight,
				struct psn psn);
void vb_roce_congestion_response_lost(struct vb_roce_congestion *congestion, struct psn high);
/* May the window of responses be a wide one? */
void vb_roce_congestion_widen(struct vb_roce_congestion *congestion, bool may);
/* So many in a row, and those behind them came. */
void vb_roce_congestion_some_responses_lost(struct vb_roce_congestion *congestion, uint32_t packets, struct psn high);
/* Just one request is known to be lost, and those around it arrived: a buffer that overflows loses many. */
void vb_roce_congestion_one_lost(struct vb_roce_congestion *congestion, struct psn high);

/* ---- the window (see the rows of vb_roce_algorithms for what they mean) ---- */
void vb_roce_window_start(struct vb_roce_congestion *congestion, const struct vb_roce_policy *policy);
void vb_roce_window_acknowledged(struct vb_roce_congestion *congestion, uint32_t charge, uint32_t in_flight,
				 struct psn psn);
/* Packets up to `high` were under way when a request was lost. */
void vb_roce_window_lost(struct vb_roce_congestion *congestion, struct psn high);
/* Nothing was heard for a whole timeout. */
void vb_roce_window_timed_out(struct vb_roce_congestion *congestion);
bool vb_roce_window_notified(struct vb_roce_congestion *congestion, vb_time now);

/* ---- dcqcn.c ---- */
void vb_dcqcn_start(struct vb_roce_congestion *congestion, const struct vb_roce_policy *policy);
bool vb_dcqcn_notified(struct vb_roce_congestion *congestion, vb_time now);
void vb_dcqcn_passed(struct vb_roce_congestion *congestion, vb_time now, uint64_t bytes);
/* As it would be found now, in 1/VB_DCQCN_ONE. */
uint32_t vb_dcqcn_alpha(const struct vb_roce_congestion *congestion, vb_time now);

/* ---- timely.c ---- */
void vb_timely_start(struct vb_roce_congestion *congestion, const struct vb_roce_policy *policy);
bool vb_timely_notified(struct vb_roce_congestion *congestion, vb_time now);
void vb_timely_round_trip(struct vb_roce_congestion *congestion, vb_time sample);

uint32_t vb_roce_congestion_floor(const struct vb_roce_congestion *congestion);
/* Packets to ask for with one read request, of the `left` that are wanted; `singly`: all of the response are alike (singly.c). */
uint32_t vb_roce_congestion_read_piece(const struct vb_roce_congestion *congestion, uint32_t left, bool singly);

#endif
