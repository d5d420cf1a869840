/* SPDX-License-Identifier: MIT
 *
 * The queue pair: state, attributes, both work queues, and the engine that carries it.
 */
#ifndef VB_QUEUE_QP_H
#define VB_QUEUE_QP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/time.h"
#include "memory/fault.h"
#include "memory/region.h"
#include "queue/completion_queue.h"
#include "queue/host.h"
#include "queue/receive_queue.h"
#include "queue/rss.h"
#include "queue/send_queue.h"
#include "queue/srq.h"
#include "queue/transport.h"
#include "queue/watch.h"
#include "queue/xrc.h"
#include "wire/path.h"

struct vb_qp {
	struct vb_lock lock;
	uint32_t qpn;
	enum ibv_qp_type type;
	enum ibv_qp_state state;
	bool draining;                   /* SQD asked, work still outstanding */
	bool last_wqe_event_sent;
	bool communication_established;  /* COMM_EST raised */
	bool signal_all;
	unsigned create_flags;
	uint32_t opcodes;                /* bits 1 << IBV_WR_*: what may be posted. This and the next: from the profile */
	uint32_t max_message;
	uint32_t max_read_sge;
	struct vb_pd *pd;
	struct vb_cq *send_cq, *recv_cq;
	struct vb_srq *srq;              /* NULL: own receive queue */
	struct vb_pd *receive_pd;        /* of the regions that receives name: the SRQ's where there is one (IBA 10.2.9), else ours */
	/* XRC_RECV: the four above (PDs, recv_cq, srq) are those of the SRQ that the last request named, or NULL (queue/xrc.h). */
	struct vb_xrc_domain *xrc_domain;
	struct vb_list in_domain;
	struct vb_send_queue send;
	struct vb_receive_queue receive;
	uint64_t received_bytes;         /* of all messages that receives were used up for */
	struct ibv_qp_attr attr;         /* everything modify has set, as query returns it (cap: granted) */
	struct vb_path path;             /* RC, UC: to the peer */
	uint8_t stray_source[16];        /* of the last packet that came from elsewhere and was dropped; zeros: none */
	uint32_t path_mtu;               /* bytes */
	uint32_t burst_bytes;            /* raw packets with a rate limit: what may leave at once */
	uint16_t pkey;                   /* what pkey_index stands for: of packets it sends and takes */
	struct vb_fault_record fault;    /* the first one: why this QP failed */
	const struct vb_queue_host *host;
	const struct vb_transport *transport;
	void *owner;                     /* the public object */
	/* NULL but for receive side scaling: recv_cq, srq and receive_pd are those of the work queue that the last frame went to. */
	struct vb_rss *rss;

	/* For the schedule (schedule/schedule.h) and the simulator. */
	struct vb_list active;           /* has something to send */
	bool is_active;                  /* atomic: it is in a list, or is being put there */
	uint8_t active_lane;             /* atomic: in which */
	vb_time timer_armed;             /* when its timer entry fires, VB_TIME_NEVER: none */
	uint32_t timer_index;
	void *scheduler;
};

struct vb_qp_config {
	enum ibv_qp_type type;
	struct vb_pd *pd;
	struct vb_cq *send_cq, *recv_cq;
	struct vb_srq *srq;
	struct vb_xrc_domain *xrc_domain; /* XRC_RECV, which has neither PD nor CQs nor SRQ */
	const struct vb_rss *rss;        /* or NULL; copied. It has no queues then: neither CQs nor SRQ */
	struct ibv_qp_cap cap;           /* asked */
	bool signal_all;
	unsigned create_flags;           /* IBV_QP_CREATE_*; only BLOCK_SELF_MCAST_LB is known */
	uint32_t qpn;                    /* 24 bits, given by the caller */
	const struct vb_allocator *allocator; /* of its queues, or NULL */
};

/* -EINVAL: a cap over the limits, NULL CQ or PD. -EOPNOTSUPP: type. -ENOMEM. Counts itself on PD, CQs, SRQ. */
int vb_qp_create(const struct vb_qp_config *config, const struct vb_queue_host *host,
		 const struct vb_transport *transport, void *owner, struct vb_qp **qp);
/* Also discards its completions. The caller has made sure that no other thread can reach it. */
void vb_qp_destroy(struct vb_qp *qp);

/* Whose receives it completes: a work queue's, or its own. */
static inline uint32_t vb_qp_receive_number(const struct vb_qp *qp)
{
	return qp->rss ? qp->srq->number : qp->qpn;
}

/* Acknowledged, and resent until it is: RC and both kinds of XRC. */
static inline bool vb_qp_is_reliable(const struct vb_qp *qp)
{
	return qp->type != IBV_QPT_UC && qp->type != IBV_QPT_UD && qp->type != IBV_QPT_RAW_PACKET;
}

/* Connected to one queue pair that is connected to it: RC, UC and both kinds of XRC. */
static inline bool vb_qp_has_peer(const struct vb_qp *qp)
{
	return qp->type != IBV_QPT_UD && qp->type != IBV_QPT_RAW_PACKET;
}

/* The port's table (queue/host.h) is another now. Takes qp->lock. */
void vb_qp_pkeys_changed(struct vb_qp *qp);

static inline void *vb_qp_engine(struct vb_qp *qp)
{
	return qp + 1;
}

/* ibv_modify_qp: checks against the profile's table (profiles/qp_transitions.h) and the ranges of each attribute,
 * changes nothing unless all is well. `path` is attr->ah_attr resolved (needed with IBV_QP_AV). active_mtu: of the
 * port. 0 or -errno. Takes qp->lock. */
int vb_qp_modify(struct vb_qp *qp, const struct ibv_qp_attr *attr, int attr_mask, const struct vb_path *path,
		 enum ibv_mtu active_mtu, vb_time now);
/* The public objects in init_attr (context, CQs, SRQ) are the caller's to fill in. Takes qp->lock. */
void vb_qp_query(struct vb_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init_attr);

/* ibv_post_send / ibv_post_recv: 0 or positive errno, *bad_wr at the first not taken. Work of the WRs before it stands.
 * Caller holds qp->lock, and afterwards lets the engine send. In ERR the work is flushed here. */
int vb_qp_post_send(struct vb_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr, vb_time now);
int vb_qp_post_receive(struct vb_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr, vb_time now);

/* For the ibv_wr_* builders, whose list is put together without qp->lock (struct vb_send_list). `check` is what post_send runs
 * on each WR once filled in: 0 or errno, and needs no lock. commit: the list becomes work (or is flushed in ERR), or none of
 * it does: errno. Caller holds qp->lock. */
int vb_qp_check_send(struct vb_qp *qp, const struct vb_send_wqe *wqe);
int vb_qp_commit_list(struct vb_qp *qp, const struct vb_send_list *list, vb_time now);

/* The key that a bind gives a window: of what the consumer asks for, type 2 takes the low 8 bits (IBA 10.6.7.2.1);
 * adapters ignore the others, and so do we. */
static inline uint32_t vb_window_key_granted(const struct ibv_mw *mw, uint32_t asked)
{
	return mw->type == IBV_MW_TYPE_2 ? (mw->rkey & ~0xffu) | (asked & 0xff) : asked;
}

/* A connection was made: to RTS, where the profile says that nothing else leads there. -EINVAL: it does not, from this
 * state. Caller holds qp->lock. */
int vb_qp_connected(struct vb_qp *qp, vb_time now);

/* ---- for engines; caller holds qp->lock ---- */

/* Complete the oldest send work request (qp->send.tail) and retire it: makes a completion when signalled or failed. Its
 * place and those before it are free when that completion is polled. */
void vb_qp_complete_send(struct vb_qp *qp, enum ibv_wc_status status, enum vb_fault fault, vb_time now);

/* The same, successfully, for a poller whose completion queue lets it pass (vb_cq_lets_pass). False: it was not
 * signalled, *wc is as before. Only where none of them looks (host->watch, host->observer). */
bool vb_qp_complete_send_to(struct vb_qp *qp, struct ibv_wc *wc);

/* Take the next receive from the own or the shared queue. */
bool vb_qp_take_receive(struct vb_qp *qp, struct vb_taken_receive *taken);
void vb_qp_complete_receive(struct vb_qp *qp, const struct vb_completion *completion);

/* The send side failed: the oldest WQE completes with `status`, the QP goes to ERR (RC) or SQE (UC, UD), what follows
 * is flushed. */
void vb_qp_fail_send(struct vb_qp *qp, enum ibv_wc_status status, const struct vb_fault_record *why, vb_time now);

/* The receive side failed: complete `taken` (may be NULL) with status, raise `event` (0: none), go to ERR and flush. With receive side
 * scaling it is the work queue of the receive that fails, and nothing else. */
void vb_qp_fail_receive(struct vb_qp *qp, const struct vb_taken_receive *taken, enum ibv_wc_status status,
			const struct vb_fault_record *why, enum ibv_event_type event, bool raise_event, vb_time now);

/* A receive is about to complete with an error that leaves the queue pair alone (UD): for those who look. */
void vb_qp_tell_receive_failure(struct vb_qp *qp, const struct vb_taken_receive *taken, enum ibv_wc_status status,
				const struct vb_fault_record *why);

/* To ERR by itself (engine or CQ overrun): flushes both queues, raises LAST_WQE_REACHED on SRQ users. */
void vb_qp_enter_error(struct vb_qp *qp, vb_time now);

/* Raised by the engine once the first packet arrives in RTR. */
void vb_qp_communication_established(struct vb_qp *qp);

/* The engine says that nothing is outstanding any more while draining: SQ_DRAINED if asked for. */
void vb_qp_drained(struct vb_qp *qp);

enum ibv_wc_status vb_fault_to_wc_status(enum vb_fault fault);
enum ibv_wc_opcode vb_wr_to_wc_opcode(enum ibv_wr_opcode opcode);

#endif
