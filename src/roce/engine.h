/* SPDX-License-Identifier: MIT
 *
 * The engine's state of one queue pair, kept behind struct vb_qp, and what the files of this room call of each
 * other.
 *
 * The requester's position in PSNs (24 bits that wrap), oldest to newest:
 *
 *        acknowledged          send                high
 *   ---------|------------------|-------------------|--------------->
 *     done   |  sent, no answer |  sent once, to be | never sent
 *            |  yet             |  sent again       |
 *
 * In the ordinary case send == high. Loss moves `send` back (go-back-N, IBA 9.7.5.1.1); the work queue element it
 * stands in follows from the PSN, because each element notes its first PSN when it is started. While the oldest
 * outstanding request is a read, `acknowledged` is also the PSN of the next response packet.
 */
#ifndef VB_ROCE_ENGINE_H
#define VB_ROCE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/time.h"
#include "memory/place.h"
#include "queue/qp.h"
#include "queue/work.h"
#include "roce/congestion.h"
#include "roce/tally.h"
#include "wire/burst.h"
#include "wire/psn.h"
#include "wire/roce_packet.h"

/* A read (or a piece of one) or an atomic that was requested and whose response is not complete. */
struct vb_roce_asked {
	struct psn first;
	uint32_t packets;                /* of the response */
	bool in_parts;                   /* some of it was asked for again, alone */
	bool singly;                     /* each packet of the response may say ONLY (singly.c) */
};

/* Responses that came ahead of a missing one, and are in their places (early.c). */
struct vb_roce_early {
	uint64_t *bits;                  /* one for each PSN; NULL: none was ever missing */
	uint32_t count;                  /* of those set; all lie behind `acknowledged`, and within reach of it */
	bool ask_owed;
	bool asked;                      /* for what is missing from asked_from on */
	struct psn asked_from;
	vb_time asked_at;
	bool sampling;                   /* how long it takes from asking for a gap that was just seen to the answer */
	struct psn sample_psn;
	vb_time sample_began;

	/* Of a peer that remembers all that it was asked. */
	bool all_owed;                   /* gaps from ask_from on, up to `last`; else the first one again */
	struct psn ask_from;
	struct psn asked_to;             /* gaps before it were asked for, or are owed */
	struct psn last;                 /* of those set */
};

/* What the responder does with packets that come ahead of a missing one. */
enum vb_roce_peer { VB_PEER_UNKNOWN, VB_PEER_SELECTIVE, VB_PEER_GO_BACK_N };

/* What the peer has told of, of the packets ahead of a missing one (missing.c). */
struct vb_roce_missing {
	uint64_t *came;                  /* a bit for each PSN; NULL: the peer does not tell */
	struct psn forgotten;            /* bits before it are clear */
	struct psn filled;               /* gaps before it were sent again */
	struct psn told;                 /* the last that came */
	struct psn filled_from;          /* `acknowledged` when gaps were last filled, */
	vb_time filled_at;               /* and the time */
};

/* WRITEs that leave as a series of short ones (series.c). */
struct vb_roce_series {
	bool allowed;
	uint32_t rkey;
	uint64_t begin, end;             /* what the peer is known to take by this key, when it comes to it; equal: nothing */
};

struct vb_roce_requester {
	struct psn acknowledged, send, high;
	uint32_t send_index;             /* element in which `send` stands; UC, UD: all before it is sent */
	uint32_t in_flight;              /* charge of request packets between acknowledged and send */
	uint32_t since_ack_request;      /* charge since the last packet that asked for an acknowledgement */

	/* Reads and atomics, oldest first: tail..asked_sent were asked, asked_sent..head must be asked again. */
	struct vb_roce_asked *asked;     /* NULL until the first read */
	struct vb_roce_asked asked_spare; /* what `asked` points to when there was no memory for more */
	uint32_t asked_capacity;
	uint32_t asked_tail, asked_sent, asked_head;
	uint32_t read_in_flight;         /* charge of response packets on their way to us */
	bool asked_all;                  /* that may be under way, when a read was last to be asked for */
	struct vb_roce_early early;
	bool peer_remembers;             /* all that it was asked for, and answers parts of it in any order */
	uint8_t peer_probes;             /* that were to show it */
	struct psn peer_probed;          /* the last of them */
	bool peer_ask_owed;
	uint16_t long_reads;             /* asked for while it was not known (singly.c) */
	uint32_t wide_period;            /* when a wide window was last asked for (wide.c) */
	bool peer_acknowledges;          /* short messages, unasked (late.c) */
	uint16_t asked_in_vain;          /* such messages that no completion waited for */
	bool peer_takes_piggyback;       /* acknowledgements that go with messages (piggyback.c) */
	uint16_t acks_beside;            /* that went beside messages while it was not known */
	bool lost_ask_owed;              /* such a peer lacks this request alone */
	struct psn lost_ask;

	/* End-to-end credits (IBA 9.7.7.2), counted in messages that take a receive. */
	bool credits_known;
	uint32_t credit_limit;           /* messages the responder has receives for */
	uint32_t receives_started;       /* messages begun */
	bool probing;                    /* a message was begun without credit: the rest of it waits for an answer */
	uint32_t receives_acknowledged;  /* up to and with the message that was acknowledged last, whole or in part */

	struct vb_roce_congestion congestion;

	/* Round trips (one sample at a time, never of a packet sent twice) and the timers made of them. */
	bool sampling;
	struct psn sample_psn;
	vb_time sample_began;
	vb_time round_trip, variation;   /* 0: never measured */
	vb_time least_timeout;           /* of a retransmission */
	unsigned backoff;                /* doublings of the retransmission timeout */
	uint8_t stretch, probe_stretch;  /* those that stay until a round trip is measured: of this timeout, and of the probe's wait */
	bool expired, probed;            /* since the last progress; probed: for no loss that was known */
	bool gap_seen;                   /* packets were missing where others came, since the timeout last expired */
	uint8_t expiries;                /* that were answered, without a sample since */
	vb_time expired_at;              /* when the timeout last did */
	struct psn expired_high;         /* `high` at that time */
	vb_time retransmit_at;           /* VB_TIME_NEVER: nothing outstanding */
	vb_time probe_at;                /* VB_TIME_NEVER: not to be expected, or sent */
	bool probe_owed;
	vb_time waiting_since;           /* last progress, or when the oldest outstanding packet was first sent */
	vb_time extension;               /* how much longer than asked this wait may take (vb_roce_extend_wait); until the next progress */
	uint32_t retransmissions;        /* since the last progress */
	bool again_owed;                 /* went back, and nothing has left since */

	vb_time rnr_until;               /* 0: not waiting for a receiver that was not ready */
	uint32_t rnr_retries;            /* used since the last progress */

	/* A single packet sent again instead of all behind it (selective.c). */
	enum vb_roce_peer peer;
	bool peer_has_kept;              /* packets, once */
	uint8_t peer_doubts;             /* answers in succession that say it does not, since */
	bool selective_owed;
	bool selective_active;           /* `selective_psn` is owed or sent again, and not acknowledged */
	bool selective_tells;            /* after a NAK: the answer shows what the peer does */
	bool selective_again;            /* sent more than once */
	bool selective_before;           /* since we last went back */
	uint8_t lost_in_a_row;
	uint8_t probes;                  /* since the last progress */
	struct psn selective_psn, selective_high; /* and `high` at that time */
	vb_time lost_at;                 /* last known loss; 0: none */
	vb_time selective_trip;          /* how long a selective retransmit takes to be answered; 0: never measured */
	struct vb_roce_missing missing;
	struct vb_roce_series series;

	/* Where and when the position was last moved back, so that the same loss does not do it twice. */
	bool rewound;
	struct psn rewound_to;
	vb_time rewound_at;

	/* UC, UD, and RC with a rate (pace.c). */
	vb_time paced;                   /* when what was sent would have left at the rate */
	uint32_t pace_rest;              /* picoseconds that `paced` leaves out */
	vb_time pace_until;              /* 0: does not wait */
	struct vb_roce_flow *flow;       /* flow.c; NULL: the pace was never in the way */

	vb_time local_retry_at;          /* 0: no local work waits for a peer on this host that copies through a window */

	struct vb_work_failure failure;
};

/* A read or atomic that the peer asked of us, kept until as many newer ones came (IBA 9.4.5, 9.7.7): to be
 * answered, and answered again when the answer was lost. */
enum { VB_ROCE_PARTS = 8 };
struct vb_roce_resource {
	bool is_atomic;
	bool is_write;                   /* an atomic that is answered as a read of no bytes */
	bool owed;                       /* an answer, or the rest of one, is still to be sent */
	bool again;                      /* asked a second time */
	bool singly;                     /* a read that is answered by packets that are each an ONLY (singly.c) */
	struct psn first;
	uint32_t packets;
	uint32_t msn;
	struct vb_pd *pd;
	const struct vb_srq *srq;        /* XRC: that the request named */
	uint32_t rkey;
	uint32_t length;
	uint64_t address;
	uint64_t original;               /* atomic: what stood there */
	uint32_t begin, next;            /* the answer under way: its first packet and the next one to send */
	uint32_t byte_end;               /* and where it ends, in bytes from `address` */
	/* What follows it: other parts that were asked for again, and the rest of the answer that they interrupt. In order. */
	uint32_t parts;
	struct {
		uint32_t begin, byte_end;
	} part[VB_ROCE_PARTS];
};

/* Requests that came ahead of one that is missing (reorder.c). All of them lie behind `expected`, and within reach of it. */
enum { VB_ROCE_REORDER_BLOCKS = 16 };
struct vb_roce_reorder_block;
struct vb_roce_reorder {
	uint32_t mtu;
	uint32_t count;                  /* places taken, by packets or by a dispute about them */
	size_t bytes;                    /* of the blocks */
	struct vb_roce_reorder_block *block[VB_ROCE_REORDER_BLOCKS]; /* by PSN */
	struct vb_roce_reorder_block *ready;     /* empty ones */
};

enum vb_roce_underway { VB_UNDERWAY_NOTHING, VB_UNDERWAY_SEND, VB_UNDERWAY_WRITE };

struct vb_roce_responder {
	struct psn expected;
	uint32_t msn;

	/* The message that has begun and not ended. */
	enum vb_roce_underway underway;
	uint32_t received;               /* bytes of it */
	uint64_t write_address;
	uint32_t write_rkey, write_length;
	bool has_receive;                /* `taken` belongs to the message under way (UC: or to the next) */
	struct vb_taken_receive taken;

	/* What is owed to the peer, besides the resources' answers, which go first. */
	bool ack_owed;
	struct psn ack_psn;              /* of the last SEND or WRITE packet executed */
	bool ack_of_write;               /* that was a WRITE, which no completion tells of */
	bool ack_partial;                /* the one owed speaks for less: the peer repeats, and has come to ack_partial_psn */
	struct psn ack_partial_psn;
	bool ack_withheld;               /* until the peer's repetition asks for it, or this QP ends */
	struct psn repeated, repeated_while; /* the last packet that came again, and `expected` at that time */
	bool is_known;                   /* to a peer of our own: it need not ask for acknowledgements (late.c), and may piggyback */
	bool ack_rides;                  /* with the message that is made next (piggyback.c) */
	vb_time late_at;                 /* one of them is to be, by then, or one that awaits an answer; 0: none */
	bool awaits;                     /* the one owed, up to `awaited` (await.c) */
	struct psn awaited;
	uint8_t awaited_in_vain;         /* in a row */
	uint16_t await_left_out;         /* so many leave at once, for that */
	bool nak_owed;
	bool nak_outstanding;            /* told that `expected` is missing: silent until it comes (C9-114) */
	bool fatal;                      /* the NAK owed or sent was the end of this QP */
	uint8_t nak_syndrome;
	struct psn nak_psn;
	struct vb_roce_reorder reorder;

	struct vb_roce_resource *resources;
	uint32_t resource_capacity;
	uint32_t resource_head;          /* free running: the next to use */
	uint32_t resource_count;         /* in use, at most the capacity */
	uint32_t resources_owed;
	uint32_t owed_from;              /* number of one, free running: none before it is owed */

	bool tells_all;                  /* of each packet that comes ahead */
	struct psn came_ahead;           /* the last of them */
	bool drops_ahead;                /* as an adapter: what comes ahead of a missing packet is not kept */
	bool begins_anew;                /* nor what came before it of the same message */
	struct vb_roce_report *reports;  /* flow.c; NULL: never asked */
	uint8_t report_room;
	bool reports_owed;
	uint32_t message_charge;         /* UC, UD: of the last message; 0: it took no receive */
	bool cnp_owed;
	vb_time cnp_sent, cnp_interval;
};

struct vb_roce_engine {
	uint32_t mtu;
	bool answers_waited;             /* the last burst was filled by answers: now requests have their turn first */
	struct vb_roce_tally tally;
	struct vb_hold placing, sending; /* hold.c */
	struct vb_roce_requester requester;
	struct vb_roce_responder responder;
};

/* What it keeps of a send WQE. Valid once the work has been started. */
struct vb_roce_note {
	struct psn first_psn;
	uint32_t packets : 31;           /* PSNs it takes: requests sent, or responses expected */
	uint32_t series : 1;             /* each of them is a WRITE of its own (series.c) */
	uint32_t progress;               /* of a read: response packets placed so far */
	uint32_t receives_through;       /* messages that take a receive, from the first to this one: for credits */
};
_Static_assert(sizeof(struct vb_roce_note) % 8 == 0, "WQEs behind it would not be aligned");

static inline struct vb_roce_note *vb_roce_note(const struct vb_send_wqe *wqe)
{
	return vb_send_wqe_note(wqe, sizeof(struct vb_roce_note));
}

static inline struct vb_roce_engine *vb_roce_engine(struct vb_qp *qp)
{
	return vb_qp_engine(qp);
}

static inline const struct vb_roce_engine *vb_roce_engine_of(const struct vb_qp *qp)
{
	return (const void *)(qp + 1);
}

/* How far a is ahead of b where it cannot be behind: a message may take 2^23 PSNs, half the circle. */
static inline uint32_t psn_ahead(struct psn a, struct psn b)
{
	return (a.v - b.v) & VB_PSN_MASK;
}

/* Packets of a message of that length: at least one (IBA 9.7.2). */
static inline uint32_t vb_roce_packets(uint32_t length, uint32_t mtu)
{
	return length == 0 ? 1 : (uint32_t)(((uint64_t)length + mtu - 1) / mtu);
}

/* Payload of packet number `index` of a message. */
static inline uint32_t vb_roce_payload(uint32_t length, uint32_t mtu, uint32_t index)
{
	uint64_t offset = (uint64_t)index * mtu;
	uint64_t left = offset < length ? length - offset : 0;

	return left < mtu ? (uint32_t)left : mtu;
}

static inline enum vb_roce_position vb_roce_position(bool first, bool last)
{
	if (first)
		return last ? VB_POSITION_ONLY : VB_POSITION_FIRST;
	return last ? VB_POSITION_LAST : VB_POSITION_MIDDLE;
}

static inline bool vb_roce_requester_outstanding(const struct vb_roce_requester *requester)
{
	return !psn_equal(requester->acknowledged, requester->high);
}

/* Packets of a message to or from GPU memory are fetched and placed together, as each fetch is a call of its driver: so many bytes at a
 * time, on the stack. One by one, 64 MiB of NCCL's all-reduce went at 0.025 GB/s. */
enum { VB_ROCE_STAGED = 32 << 10 };

/* ---- hold.c: checks made once for a batch ---- */
/* Where `length` bytes at `offset` of a list are, if they lie within one element that has plain memory; else NULL,
 * go by the ordinary access. */
uint8_t *vb_roce_hold_list(struct vb_qp *qp, struct vb_hold *hold, const struct ibv_sge *list, unsigned count,
			   uint64_t offset, uint32_t length, uint32_t rights);
/* The same in a range that the peer named. */
struct vb_roce_range {
	struct vb_pd *pd;
	uint64_t address;
	uint32_t rkey, length;
};
uint8_t *vb_roce_hold_remote(struct vb_qp *qp, struct vb_hold *hold, const struct vb_roce_range *message,
			     uint32_t offset, uint32_t length, uint32_t rights);
void vb_roce_hold_end_batch(struct vb_qp *qp);
void vb_roce_hold_end_send(struct vb_qp *qp);

static inline enum vb_roce_service vb_roce_service(const struct vb_qp *qp)
{
	switch (qp->type) {
	case IBV_QPT_UC:
		return VB_SERVICE_UC;
	case IBV_QPT_UD:
		return VB_SERVICE_UD;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return VB_SERVICE_XRC;
	default:
		return VB_SERVICE_RC;
	}
}

/* ---- packet.c: packet building, shared by the roles ---- */
void vb_roce_prepare(const struct vb_qp *qp, struct vb_roce_packet *packet, int opcode, struct psn psn);

/* ---- roce.c ---- */
/* Of its host, or the process's. */
const struct vb_roce_policy *vb_roce_policy_of(const struct vb_qp *qp);

/* Every entry ends here; builds with the option `invariants` check. */
void vb_roce_check_invariants(struct vb_qp *qp);

/* ---- requester.c: work requests become packets ---- */
/* Append what RC may send now. Returns true when there is more than the burst had room for. */
bool vb_roce_requester_send(struct vb_qp *qp, vb_time now, struct vb_burst *out);
/* The short way of all that vb_roce_send would do, where that is to send one short message. False: it is not, and nothing was done. */
bool vb_roce_requester_send_lone(struct vb_qp *qp, vb_time now, struct vb_burst *out);

/* ---- requester_rewind.c: its position moves ---- */
/* Go back (or, after a late answer, forward) to the oldest packet that was not acknowledged. What is done was
 * retired. */
void vb_roce_requester_rewind(struct vb_qp *qp, vb_time now);

/* ---- missing.c: all missing packets, where the peer tells which came ---- */
void vb_roce_missing_open(struct vb_roce_requester *requester);
void vb_roce_missing_close(struct vb_roce_requester *requester);
/* A NAK told that this packet came ahead of a missing one. */
void vb_roce_missing_told(struct vb_qp *qp, vb_time now, struct psn came);
/* The next gap is owed; false: there is none. */
bool vb_roce_missing_next(struct vb_roce_requester *requester);

/* ---- series.c: a WRITE as several ---- */
void vb_roce_series_open(struct vb_roce_series *series, bool allowed);
/* Asked when it starts, and once: what is sent again must be what was sent before. */
bool vb_roce_series_suits(struct vb_qp *qp, const struct vb_send_wqe *wqe, uint32_t packets, vb_time now);

/* ---- selective.c: one packet instead of all ---- */
/* The oldest packet is missing: is it enough to send it alone? Then it is owed. */
bool vb_roce_selective_begin(struct vb_qp *qp, vb_time now);
/* Must all others wait for what the peer makes of it? */
bool vb_roce_selective_holds(const struct vb_roce_requester *requester);
/* Nothing comes: send it in any case. */
void vb_roce_selective_probe(struct vb_roce_requester *requester);
void vb_roce_selective_send(struct vb_qp *qp, struct vb_burst *out);
/* `acknowledged` has moved, by a positive acknowledgement or by a NAK. */
void vb_roce_selective_answered(struct vb_qp *qp, vb_time now, bool positive);
static inline void vb_roce_selective_end(struct vb_roce_requester *requester)
{
	requester->selective_active = requester->selective_owed = false;
}

/* ---- work.c: what every service does with a work queue element ---- */
/* What a work request is on the wire. */
struct vb_roce_work {
	enum vb_roce_kind kind;
	uint8_t suffix;                  /* VB_HEADER_IMMEDIATE, VB_HEADER_IETH or 0 */
};
const struct vb_roce_work *vb_roce_work(enum ibv_wr_opcode opcode);

enum vb_roce_progress { VB_PROGRESS_SENT, VB_PROGRESS_BURST_FULL, VB_PROGRESS_MUST_WAIT };

/* Spans that a packet's payload may have before it is copied instead. */
enum { VB_WORK_SPANS = 8 };

/* Begin an element: local checks, its PSNs; local work is executed. False: it failed, which waits for its turn. */
bool vb_roce_work_start(struct vb_qp *qp, struct vb_send_wqe *wqe, vb_time now);
/* Headers of packet `index` of a SEND or WRITE. */
void vb_roce_work_headers(struct vb_qp *qp, const struct vb_send_wqe *wqe, uint32_t index,
			  struct vb_roce_packet *packet);
/* Its payload and off it goes. MUST_WAIT: it failed. */
enum vb_roce_progress vb_roce_work_append(struct vb_qp *qp, struct vb_send_wqe *wqe, uint32_t index,
					  const struct vb_path *path, struct vb_roce_packet *packet,
					  struct vb_burst *out);
/* Packets between the first and the last of a message differ in PSN and payload only, those of a series in their address too:
 * `count` of them from `index` on, with the headers of `packet`, of which the last asks for an acknowledgement if `packet` does.
 * Returns how many were appended; 0: there is no room, or their memory is not of the simple kind, and they must go one by one.
 * Where fewer were appended than asked none asks for an acknowledgement. */
uint32_t vb_roce_work_append_alike(struct vb_qp *qp, const struct vb_send_wqe *wqe, uint32_t index, uint32_t count,
				   struct vb_roce_packet *packet, struct vb_burst *out);
/* The element fails when those before it are done. First fault wins. */
void vb_roce_work_fail(struct vb_qp *qp, const struct vb_send_wqe *wqe, enum ibv_wc_status status,
		       const struct vb_fault_record *why);

/* ---- pace.c ---- */
/* UC, UD that know nothing of the receiver: may a packet of this charge leave now? Books it if so. */
bool vb_roce_work_paced(struct vb_roce_requester *requester, uint32_t charge, vb_time now);
/* RC with a rate: may a packet leave now? A run of them counts as one. */
bool vb_roce_pace_allows(struct vb_roce_requester *requester, vb_time now);
void vb_roce_pace_sent(struct vb_roce_requester *requester, vb_time now, uint32_t count, uint32_t payload);

/* ---- flow.c: flow control of UC and UD ---- */
/* May a packet of this charge leave now? Books it if so. */
bool vb_roce_flow_allows(struct vb_qp *qp, const struct vb_send_wqe *wqe, uint32_t charge, vb_time now);
/* UC: how many packets of this charge may leave at once, and that they did. 0: they must be tried singly. */
uint32_t vb_roce_flow_room(const struct vb_roce_requester *requester, uint32_t charge);
void vb_roce_flow_sent(struct vb_roce_requester *requester, uint32_t charge);
/* After packets: the probe that is due, if one is. */
void vb_roce_flow_ask(struct vb_qp *qp, struct vb_burst *out);
/* RC: one that says no more than that a report would be understood. */
void vb_roce_flow_probe(struct vb_qp *qp, struct psn psn, struct vb_burst *out);
void vb_roce_flow_reported(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet);
void vb_roce_flow_close(struct vb_roce_requester *requester);
void vb_roce_flow_probed(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet);
/* The reports that are owed. Returns true when the burst was full before all were in it. */
bool vb_roce_flow_report(struct vb_qp *qp, struct vb_burst *out);
/* A message of so many bytes took a receive. */
static inline void vb_roce_flow_took(struct vb_roce_engine *engine, uint32_t length)
{
	uint32_t charge = vb_roce_charge(length, vb_roce_packets(length, engine->mtu));

	engine->responder.message_charge = charge < VB_PACE_PACKET ? VB_PACE_PACKET : charge;
}
void vb_roce_flow_forget(struct vb_roce_responder *responder);

/* ---- await.c: acknowledgements that await an answer; vb_roce_await_answer begins it ---- */

/* It has left with one; it must leave without. */
void vb_roce_await_answered(struct vb_roce_responder *responder);
void vb_roce_await_expired(struct vb_roce_responder *responder);

/* ---- late.c: acknowledgements that no completion waits for ---- */
/* Will the peer acknowledge this message, the last in its queue, unasked? */
bool vb_roce_late_will_do(const struct vb_qp *qp, const struct vb_send_wqe *wqe, vb_time now);
/* It was asked for. */
void vb_roce_late_asked(struct vb_qp *qp, const struct vb_send_wqe *wqe);
/* A message came that did not ask. */
void vb_roce_late_owe(struct vb_qp *qp, vb_time now);

/* ---- piggyback.c: acknowledgements that go with messages ---- */
/* One is owed, and a message of one packet is about to be made: may it go with that? */
bool vb_roce_piggyback_suits(struct vb_qp *qp);
/* It goes with this packet; and the packet was made. */
void vb_roce_piggyback_put(struct vb_qp *qp, struct vb_roce_packet *packet);
void vb_roce_piggyback_sent(struct vb_roce_responder *responder);

/* ---- requester_reads.c: read and atomic requests ---- */
/* Something was done so many times that a peer of our own could do better: is it time to ask whether it is one? The first time after
 * `enough`, again at twice, four times and eight times as many. */
static inline bool vb_roce_is_time_to_ask(uint16_t *times, unsigned enough)
{
	if (*times > 8 * enough)
		return false;
	++*times;
	return *times >= enough && (*times & (*times - 1)) == 0;
}
/* Is this a peer of our own? */
void vb_roce_probe_peer(struct vb_qp *qp, struct vb_burst *out);
/* Ask for the end of what was asked last again, out of turn. */
void vb_roce_reads_probe(struct vb_qp *qp, struct vb_send_wqe *wqe, struct vb_burst *out);
enum vb_roce_progress vb_roce_reads_ask(struct vb_qp *qp, struct vb_send_wqe *wqe, vb_time now, struct vb_burst *out);
static inline bool vb_roce_reads_is_idle(const struct vb_roce_requester *requester)
{
	return requester->asked_tail == requester->asked_head;
}
static inline struct vb_roce_asked *vb_roce_reads_at(const struct vb_roce_requester *requester, uint32_t index)
{
	return &requester->asked[index % requester->asked_capacity];
}
void vb_roce_reads_clear(struct vb_roce_requester *requester);
/* A NAK tells that the request with this PSN was lost. True: it is owed alone, and all behind it is kept. */
bool vb_roce_reads_lost(struct vb_qp *qp, vb_time now, struct psn psn);
void vb_roce_reads_ask_lost(struct vb_qp *qp, struct vb_burst *out);
/* What was asked for, and is not here whole, to which the PSN belongs; NULL: none. And its element. */
static inline struct vb_roce_asked *vb_roce_reads_find(const struct vb_roce_requester *requester, struct psn psn)
{
	for (uint32_t i = requester->asked_tail; i != requester->asked_sent; i++) {
		struct vb_roce_asked *asked = vb_roce_reads_at(requester, i);

		if (psn_ahead(psn, asked->first) < asked->packets)
			return asked;
	}
	return NULL;
}
struct vb_send_wqe *vb_roce_reads_element(struct vb_qp *qp, struct psn psn);
/* Ask for what is missing before the first response that was kept. */
void vb_roce_reads_ask_missing(struct vb_qp *qp, vb_time now, struct vb_burst *out);

/* ---- singly.c: responses in full runs ---- */
/* May the response to a read, of so many packets, come in packets that are each an ONLY? */
bool vb_roce_singly_suits(const struct vb_roce_requester *requester, uint32_t packets);
/* One was asked for. */
void vb_roce_singly_asked(struct vb_roce_requester *requester, uint32_t packets);

/* ---- wide.c: much is asked for at once ---- */
/* A long read begins, or another piece of one, of a peer of our own. */
void vb_roce_wide_ask(struct vb_qp *qp, vb_time now);
/* One of the places there are in that period. */
bool vb_roce_wide_take(struct vb_receive_share *share, uint32_t period);

/* ---- early.c: responses that came ahead of a missing one ---- */
/* Remember that it came. False: it is too far ahead, or there is no memory. */
bool vb_roce_early_add(struct vb_roce_requester *requester, struct psn psn);
bool vb_roce_early_has(const struct vb_roce_requester *requester, struct psn psn);
void vb_roce_early_remove(struct vb_roce_requester *requester, struct psn psn);
/* Those that follow `acknowledged`, `most` of them, are no longer ahead. Returns how many. */
uint32_t vb_roce_early_take(struct vb_roce_requester *requester, uint32_t most);
/* How many are missing before the first that was kept. There is one. */
uint32_t vb_roce_early_gap(const struct vb_roce_requester *requester);
/* The same from `psn` on, which lies before the last that was kept. */
uint32_t vb_roce_early_gap_at(const struct vb_roce_requester *requester, struct psn psn);
/* Something was kept, or the missing one is still missing: is it time to ask for it? */
void vb_roce_early_told(struct vb_qp *qp, vb_time now, vb_time same_loss);
/* The next response has come. */
void vb_roce_early_arrived(struct vb_roce_requester *requester, vb_time now);
/* Nothing comes: ask for the first gap in any case. */
void vb_roce_early_probe(struct vb_roce_requester *requester);
/* What was kept will come again. */
void vb_roce_early_forget(struct vb_roce_requester *requester);
void vb_roce_early_close(struct vb_roce_requester *requester);

/* ---- completer.c: answers to our requests ---- */
void vb_roce_completer_receive(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet);
/* A positive acknowledgement that came with a request. */
void vb_roce_completer_acknowledged(struct vb_qp *qp, vb_time now, struct psn psn, uint8_t syndrome);
/* `count` packets of one MTU of the response to what was asked for first were placed. `syndrome`: of the AETH of the last; NULL: they have
 * none, and none is the last of what was asked for. */
void vb_roce_completer_took(struct vb_qp *qp, vb_time now, uint32_t count, const uint8_t *syndrome);
/* `count` packets of one MTU were placed, ahead of one that is missing. */
void vb_roce_completer_kept(struct vb_qp *qp, vb_time now, uint32_t count);
/* Complete, in order, what is done; tell a failure whose turn has come; tell the end of a drain. */
void vb_roce_completer_retire(struct vb_qp *qp, vb_time now);
/* Is there anything that retire would complete? */
bool vb_roce_completer_owes(struct vb_qp *qp);

/* ---- responder.c and its parts: requests of the peer ---- */
void vb_roce_responder_receive(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet);
bool vb_roce_responder_send(struct vb_qp *qp, vb_time now, struct vb_burst *out);
bool vb_roce_responder_owes(const struct vb_qp *qp);

/* bulk_writes.c: see vb_roce_receive_bulk, of which it is a part. */
struct vb_icrc_prefix;
struct vb_roce_bulk;
void vb_roce_bulk_writes(struct vb_qp *qp, const struct vb_path *from, struct vb_icrc_prefix *prefix, struct vb_roce_bulk *got);
/* Those that were kept, from the expected one on. Returns how many there were. */
uint32_t vb_roce_bulk_kept_writes(struct vb_qp *qp);
/* bulk_ahead.c: the same, of packets ahead of the one that is expected. False: the first is none. */
bool vb_roce_bulk_ahead(struct vb_qp *qp, const struct vb_path *from, struct vb_icrc_prefix *prefix, struct vb_roce_bulk *got);
/* bulk_early.c: the same, of responses ahead of the one that is expected, which are all alike. False: the first is the expected one. */
bool vb_roce_bulk_early(struct vb_qp *qp, vb_time now, const struct vb_path *from, struct vb_icrc_prefix *prefix, struct vb_roce_bulk *got);
/* Is it like what lies in its place already? */
bool vb_roce_ahead_is_the_same(struct vb_qp *qp, const struct vb_roce_packet *packet);

/* responder_outcome.c */
void vb_roce_responder_owe_acknowledgement(struct vb_qp *qp);
/* The requester goes on after it. */
void vb_roce_responder_owe_nak(struct vb_roce_responder *responder, uint8_t syndrome, struct psn psn);
/* The peer's request is at fault: NAK, and this QP is at its end. `taken`: complete the receive in hand with
 * `status`. */
void vb_roce_responder_refuse(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet,
			      enum vb_nak_code code, const struct vb_fault_record *why, enum ibv_wc_status status);
/* Fill in and push the completion of the receive in hand. */
void vb_roce_responder_complete(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet, uint32_t length);
void vb_roce_fault_of_packet(const struct vb_qp *qp, const struct vb_roce_packet *packet, enum vb_fault fault,
			     struct vb_fault_record *why);

/* reorder.c */
void vb_roce_reorder_open(struct vb_roce_reorder *reorder, uint32_t mtu);
enum vb_roce_kept { VB_KEPT, VB_KEPT_NOT, VB_KEPT_DISPUTED, VB_KEPT_IN_PLACE };
/* DISPUTED: another one came before, unlike it; from now on neither is there. IN_PLACE: one came before, and its payload is not here. */
enum vb_roce_kept vb_roce_reorder_keep(struct vb_roce_reorder *reorder, struct psn expected, const struct vb_roce_packet *packet);
/* NULL: it is not there. */
const struct vb_roce_packet *vb_roce_reorder_find(struct vb_roce_reorder *reorder, struct psn psn);
void vb_roce_reorder_forget(struct vb_roce_reorder *reorder, struct psn psn, uint32_t count);
/* Without `keep` (bulk_ahead.c). Is there room, and nothing came before? Then a packet may be kept in that room, with `mtu` bytes, */
bool vb_roce_reorder_is_free(struct vb_roce_reorder *reorder, struct psn expected, struct psn psn);
uint8_t *vb_roce_reorder_place(struct vb_roce_reorder *reorder, struct psn psn, struct vb_roce_packet **packet);
void vb_roce_reorder_kept(struct vb_roce_reorder *reorder, struct psn psn);
/* or its payload is in its place in memory. Disputed: neither it nor one that came after it is there. */
void vb_roce_reorder_placed(struct vb_roce_reorder *reorder, struct psn psn, bool ack_request);
void vb_roce_reorder_dispute(struct vb_roce_reorder *reorder, struct psn psn);
/* How many there are from `psn` on; they are forgotten. *ack_request: one of them asked for an acknowledgement. */
uint32_t vb_roce_reorder_take_placed(struct vb_roce_reorder *reorder, struct psn psn, bool *ack_request);
void vb_roce_reorder_clear(struct vb_roce_reorder *reorder);

/* responder_checks.c */
enum vb_roce_answer {
	VB_ANSWER_EXECUTE,
	VB_ANSWER_DROP,
	VB_ANSWER_RNR,
	VB_ANSWER_INVALID_REQUEST,
	VB_ANSWER_REMOTE_ACCESS,
	VB_ANSWER_TOO_LONG,              /* for the receive it took */
};
enum vb_roce_answer vb_roce_check_request(struct vb_qp *qp, const struct vb_roce_packet *packet,
					  struct vb_fault_record *why);
bool vb_roce_check_sequence(const struct vb_roce_responder *responder, const struct vb_roce_opcode *op);
bool vb_roce_check_length(const struct vb_qp *qp, const struct vb_roce_packet *packet, struct vb_fault_record *why);
bool vb_roce_check_rkey(struct vb_qp *qp, const struct vb_roce_packet *packet, struct vb_fault_record *why);
bool vb_roce_take_receive(struct vb_qp *qp);

/* responder_reads.c: resources */
enum vb_roce_room { VB_ROOM_YES, VB_ROOM_TOO_MANY, VB_ROOM_NO_MEMORY };
enum vb_roce_room vb_roce_resources_room(struct vb_qp *qp);
void vb_roce_resources_add_read(struct vb_qp *qp, const struct vb_roce_packet *packet);
void vb_roce_resources_add_atomic(struct vb_qp *qp, const struct vb_roce_packet *packet, uint64_t original);
void vb_roce_resources_add_atomic_write(struct vb_qp *qp, const struct vb_roce_packet *packet);
/* A duplicate: answer again. False: nothing is known of it, or it asks for something else. */
bool vb_roce_resources_repeat(struct vb_qp *qp, const struct vb_roce_packet *packet);
/* Returns true when the burst was full before all was sent. */
bool vb_roce_resources_send(struct vb_qp *qp, vb_time now, struct vb_burst *out);
/* Are the answers that are owed a whole run of packets that are alike? */
bool vb_roce_resources_fill_run(const struct vb_roce_responder *responder, uint32_t mtu);
void vb_roce_resources_clear(struct vb_roce_responder *responder);
/* The SRQ that these requests named is gone: they are not answered, nor known when asked again. */
void vb_roce_resources_forget(struct vb_roce_responder *responder, const struct vb_srq *srq);

/* ---- unreliable.c, datagram.c ---- */
void vb_roce_unreliable_receive(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet);
bool vb_roce_unreliable_send(struct vb_qp *qp, vb_time now, struct vb_burst *out);
void vb_roce_datagram_receive(struct vb_qp *qp, vb_time now, const struct vb_roce_packet *packet);
bool vb_roce_datagram_send(struct vb_qp *qp, vb_time now, struct vb_burst *out);
/* Tell those who look over our shoulder (queue/watch.h). */
void vb_roce_datagram_dropped(struct vb_qp *qp, const struct vb_roce_packet *packet, enum vb_drop_cause cause);

/* ---- timers.c ---- */
void vb_roce_timers_sent(struct vb_qp *qp, vb_time now, struct psn psn, bool answer_expected, bool retransmission);
/* The peer answered up to requester->acknowledged. */
void vb_roce_timers_progress(struct vb_qp *qp, vb_time now);
void vb_roce_timers_rewound(struct vb_qp *qp, vb_time now);
void vb_roce_timers_sent_selectively(struct vb_qp *qp, vb_time now);
void vb_roce_timers_selective_answered(struct vb_roce_requester *requester, vb_time sample);
void vb_roce_timers_receiver_not_ready(struct vb_qp *qp, vb_time now, uint8_t code);
/* Only where round trips are known. */
void vb_roce_timers_arm_probe(struct vb_roce_requester *requester, vb_time now);
bool vb_roce_timers_is_losing(const struct vb_roce_requester *requester, vb_time now);
vb_time vb_roce_timers_retransmit(const struct vb_qp *qp);
/* How many of the tries that the application asked for had passed without progress when we last went back. */
uint32_t vb_roce_timers_retries(const struct vb_qp *qp);

/* ---- timers_expire.c ---- */
vb_time vb_roce_timers_next(const struct vb_qp *qp);
void vb_roce_timers_expire(struct vb_qp *qp, vb_time now);

/* ---- credits.c ---- */
uint8_t vb_roce_credits_encode(uint32_t receives);
uint32_t vb_roce_credits_decode(uint8_t code);
/* Of a positive acknowledgement: with the credits that the receive queue stands for. */
uint8_t vb_roce_acknowledge_syndrome(const struct vb_qp *qp);

#endif
