/* SPDX-License-Identifier: MIT
 *
 * Our side of the public objects: each begins with the structure the application sees, so that a cast leads from one to
 * the other, and goes on with what is ours.
 *
 *   device --< context >-- session (endpoint, memory table, counters; shared by a context and its imports)
 *   context --< pd, channel, cq, srq, wq, indirection table, qp, ah, mr, mw, dm
 *
 * Every object keeps its context alive: closing a device under live objects (which ibv_close_device(3) allows)
 * silences their queue pairs and leaves the memory until they are gone too.
 */
#ifndef VB_VERBS_OBJECTS_H
#define VB_VERBS_OBJECTS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/mutex.h"
#include "memory/region.h"
#include "profiles/profile.h"
#include "progress/devices.h"
#include "progress/endpoint.h"
#include "queue/address.h"
#include "queue/completion_queue.h"
#include "queue/host.h"
#include "queue/qp.h"
#include "queue/rss.h"
#include "queue/srq.h"
#include "queue/wq.h"
#include "io/descriptor.h"
#include "io/event_fd.h"

/* The headers rename these two; inside we define and call the real ones. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* Providers read fields of their own private structure right behind the public one (libmlx5: 8 bytes at its end),
 * to see whether a device is theirs: they must find zeros. */
struct vb_device {
	struct ibv_device base;
	uint64_t zero[32];
	uint32_t references;             /* atomic: lists and contexts */
	struct vb_device_info info;      /* as of the listing */
	struct vb_profile profile;       /* with the adapter of VERBENA_PROFILE over it */
};

enum vb_counted {
	VB_COUNTED_PD, VB_COUNTED_MR, VB_COUNTED_MW, VB_COUNTED_CQ, VB_COUNTED_SRQ, VB_COUNTED_QP, VB_COUNTED_AH,
	VB_COUNTED_WQ, VB_COUNTED_RWQ_TABLE, VB_COUNTED_KINDS
};

/* What a context shares with the contexts imported from it. */
struct vb_session {
	struct vb_list node;             /* of all sessions of this process */
	uint64_t id;
	uint32_t references;             /* under the list's lock */
	uint32_t number;                 /* of this process's: for people */
	struct vb_endpoint *endpoint;
	struct vb_memory *memory;
	int table;                       /* where processes of this host find the memory's keys; -1: nowhere */
	struct vb_counters *counters;    /* of the device in this process; the endpoint's */
	struct vb_queue_host host;
	char device[IBV_SYSFS_NAME_MAX]; /* host.device: its name */
	uint32_t interface_index;        /* host.interface_index */
	struct vb_profile profile;       /* host.profile */
	uint16_t pkeys[VB_MAX_PKEYS];    /* atomic: host.pkeys, where a subnet manager gives them out */
	uint8_t lmc;                     /* atomic: host.lmc, likewise */
	uint32_t counted[VB_COUNTED_KINDS]; /* atomic: objects there are (verbs/quota.h) */
	struct vb_lock lock;             /* of what follows: what import looks up by handle */
	struct vb_list pds, regions, device_memories, xrc_domains;
	uint32_t next_handle;
	uint64_t device_memory_used;
};

/* Asynchronous events, and who must be told that they were read. */
struct vb_event_queue {
	struct vb_lock lock;
	struct vb_list events;
	uint32_t count;
	struct vb_event_fd event_fd;
};

struct vb_context {
	struct verbs_context public;
	struct vb_device *device;
	struct vb_session *session;
	uint32_t references;             /* atomic: the opening, and every object */
	struct vb_event_queue async;
	struct vb_endpoint_watcher watcher;
	struct vb_lock lock;             /* info, and the lists */
	struct vb_device_info info;      /* as of now */
	bool gone;                       /* the interface vanished */
	bool watched_region;             /* atomic: told of a region deregistered under work */
	struct vb_list qps, cqs, srqs, wqs, rwq_tables;
};

/* A protection domain and the objects that name it: several ibv_pd (parent domains, imports) may stand for one. */
struct vb_shared_pd {
	struct vb_pd pd;                 /* first: queue and memory rooms hand this back */
	struct vb_list node;             /* of the session */
	uint32_t references;             /* under session->lock: the ibv_pds */
};

/* An XRC domain, and what names it: every ibv_open_xrcd of one file. */
struct vb_shared_xrcd {
	struct vb_xrc_domain domain;
	struct vb_list node;             /* of the session */
	bool has_file;
	struct vb_file_identity file;
	uint32_t references;             /* under session->lock: the ibv_xrcds */
};

struct vb_xrcd {
	struct ibv_xrcd base;
	struct vb_shared_xrcd *shared;
	uint32_t users;                  /* atomic: SRQs and queue pairs created through this ibv_xrcd */
};

struct vb_thread_domain {
	struct ibv_td base;
	uint32_t users;                  /* atomic */
};

struct vb_protection_domain {
	struct ibv_pd base;
	struct vb_shared_pd *shared;
	bool imported;
	/* Of a parent domain: */
	struct vb_allocator allocator;   /* the first two of what follows, as queues know them */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment, uint64_t resource_type); /* NULL: none */
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
	struct vb_protection_domain *parent_of;
	struct vb_thread_domain *thread_domain;
	uint32_t references;             /* atomic: the application's, and of what was created through this ibv_pd (vb_domain_hold) */
};

struct vb_channel {
	struct ibv_comp_channel base;
	struct vb_lock lock;
	struct vb_list waiting;          /* CQs with unread events */
	struct vb_event_fd event_fd;
	bool is_raised;                  /* it is, for all that wait in line */
};

/* The misuse watch's notes (watch.h). Of a CQ: atomic. */
struct vb_watched_cq {
	uint32_t expected;               /* completions that posted work can still bring */
	bool told_crowded, told_field;
};

struct vb_watched_send {
	uint32_t sum;                    /* of what it gathers */
	bool valid;
};

/* Of a queue pair: under its lock. */
struct vb_watched_qp {
	struct vb_watched_send *sends;   /* by place in the send queue; NULL until the first */
	uint32_t signalled, receives;    /* counted in the CQs' expected */
	bool told_late, told_buffer;
	uint64_t dropped[VB_DROP_CAUSES];
};

struct vb_completion_queue {
	union {
		struct ibv_cq base;
		struct ibv_cq_ex ex;
	};
	struct vb_cq cq;
	struct vb_poller poller;
	struct vb_list node;             /* of the context */
	uint32_t handle;                 /* as it was given: the public one is the application's to change */
	struct vb_protection_domain *domain; /* the parent domain it was created with, or NULL */
	/* Under the channel's lock. */
	struct vb_list on_channel;
	uint32_t unread;
	uint32_t completion_events_reported;
	/* Under the async queue's lock. */
	uint32_t async_events_reported;
	/* Extended polling: from start_poll to end_poll the completion under the reader's eyes is a copy, because the
	 * reader may post work meanwhile, which must be able to add to this very CQ. */
	struct vb_mutex polling;
	bool single_threaded;
	struct vb_completion current;
	uint64_t wallclock;              /* of the last stamp that was read; wallclock_read: it is the current one's */
	bool wallclock_read;
	struct vb_watched_cq watched;
};

struct vb_shared_receive_queue {
	struct ibv_srq base;
	struct vb_srq srq;
	struct vb_list node;             /* of the context */
	uint32_t handle;
	uint32_t events_reported;        /* under the async queue's lock */
	struct vb_xrcd *xrcd;            /* XRC, or NULL */
};

struct vb_work_queue {
	struct ibv_wq base;
	struct vb_wq wq;
	struct vb_list node;             /* of the context */
	uint32_t handle;
	uint32_t events_reported;        /* under the async queue's lock */
};

struct vb_indirection_table {
	struct ibv_rwq_ind_table base;
	struct vb_list node;             /* of the context */
	uint32_t handle;
	struct vb_rss_table *table;
};

struct vb_multicast_membership {
	struct vb_list node;
	uint8_t gid[16];
};

struct vb_queue_pair {
	union {
		struct ibv_qp base;
		struct ibv_qp_ex ex;
	};
	struct vb_qp *qp;
	struct vb_list node;             /* of the context; alone: withdrawn, or another handle is listed */
	/* XRC_RECV: */
	struct vb_list handles;          /* under qp->lock: of all ibv_qps of this queue pair (ibv_open_qp), a ring without a head */
	bool dying;                      /* under qp->lock: it was the last of them */
	unsigned lane;                   /* that was chosen for it (schedule/lane.h) */
	struct vb_xrcd *xrcd;
	bool extended;                   /* created with send_ops_flags: ibv_qp_to_qp_ex works */
	uint32_t events_reported;        /* under the async queue's lock */
	struct vb_list multicast;        /* under base.mutex */
	uint32_t flows;                  /* atomic: rules that give it frames */
	/* Extended ones: held by the thread that posts sends, from ibv_wr_start to ibv_wr_complete, and with it the list that
	 * is under construction. Not qp->lock: between the two the thread may post receives and poll. */
	struct vb_lock posting;
	struct vb_send_list list;
	struct vb_send_wqe *building;    /* the last of the list */
	int build_error;
	struct vb_watched_qp watched;
};

struct vb_address_handle {
	struct ibv_ah base;
	struct vb_ah ah;
	uint64_t leaves_by;              /* atomic: the last destination's QPN << 16 | source port (vb_address_source_port) */
};

struct vb_device_memory {
	struct ibv_dm base;
	struct vb_list node;             /* of the session */
	struct vb_device_memory *imported_from;
	uint32_t handle;
	uint8_t *bytes;
	size_t length, mapped_length;
	int fd;                          /* -1: of an import. Other processes of this host reach the memory through it */
	uint32_t users;                  /* under session->lock: regions, imports */
};

enum vb_region_backing { VB_BACKING_APPLICATION, VB_BACKING_NULL, VB_BACKING_DMABUF, VB_BACKING_GPU, VB_BACKING_DEVICE_MEMORY };

struct vb_memory_region {
	struct ibv_mr base;
	struct vb_list node;             /* of the session; an import is not on it */
	struct vb_session *session;
	uint32_t handle;                 /* also its key */
	bool imported;
	enum vb_region_backing backing;
	void *mapping;                   /* of a dmabuf */
	size_t mapping_length;
	int sync;                        /* of a dmabuf whose accesses are bracketed: our descriptor + 1, else 0 */
	struct vb_cuda_memory *gpu;      /* or NULL */
	struct vb_device_memory *device_memory;
};

struct vb_memory_window {
	struct ibv_mw base;
	uint32_t handle;
};

static inline struct vb_context *vb_context_of(struct ibv_context *context)
{
	return vb_container_of(context, struct vb_context, public.context);
}

/* From what the application holds to what is ours: the same address. */
#define VB_OWN(function, type, member, public)                                                                 \
	_Static_assert(offsetof(struct type, member) == 0, #type " does not begin with the public object");    \
	static inline struct type *function(struct public *object)                                             \
	{                                                                                                      \
		return (struct type *)(void *)object;                                                          \
	}
VB_OWN(vb_device_of, vb_device, base, ibv_device)
VB_OWN(vb_domain_of, vb_protection_domain, base, ibv_pd)
VB_OWN(vb_xrcd_of, vb_xrcd, base, ibv_xrcd)
VB_OWN(vb_thread_domain_of, vb_thread_domain, base, ibv_td)
VB_OWN(vb_channel_of, vb_channel, base, ibv_comp_channel)
VB_OWN(vb_completion_queue_of, vb_completion_queue, base, ibv_cq)
VB_OWN(vb_shared_receive_queue_of, vb_shared_receive_queue, base, ibv_srq)
VB_OWN(vb_work_queue_of, vb_work_queue, base, ibv_wq)
VB_OWN(vb_indirection_table_of, vb_indirection_table, base, ibv_rwq_ind_table)
VB_OWN(vb_queue_pair_of, vb_queue_pair, base, ibv_qp)
VB_OWN(vb_address_handle_of, vb_address_handle, base, ibv_ah)
VB_OWN(vb_device_memory_of, vb_device_memory, base, ibv_dm)
VB_OWN(vb_memory_region_of, vb_memory_region, base, ibv_mr)
VB_OWN(vb_memory_window_of, vb_memory_window, base, ibv_mw)
#undef VB_OWN

/* Do two contexts name the same device session, so that their objects may be mixed? */
static inline bool vb_same_session(struct ibv_context *a, struct ibv_context *b)
{
	return vb_context_of(a)->session == vb_context_of(b)->session;
}

/* An object belongs to a context and to a protection domain. */
static inline struct vb_pd *vb_pd_of(struct ibv_pd *pd) { return &vb_domain_of(pd)->shared->pd; }

/* Of what is created with it; NULL: the heap. */
static inline const struct vb_allocator *vb_allocator_of(struct ibv_pd *pd)
{
	return pd != NULL && vb_domain_of(pd)->alloc != NULL ? &vb_domain_of(pd)->allocator : NULL;
}

/* What the device says of itself. */
static inline const struct vb_profile *vb_profile_of_context(struct ibv_context *context)
{
	return vb_context_of(context)->session->host.profile;
}

static inline void vb_count_up(uint32_t *users) { __atomic_fetch_add(users, 1, __ATOMIC_RELAXED); }
static inline uint32_t vb_count_down(uint32_t *users) { return __atomic_sub_fetch(users, 1, __ATOMIC_ACQ_REL); }
static inline uint32_t vb_count_read(const uint32_t *users) { return __atomic_load_n(users, __ATOMIC_ACQUIRE); }

/* The two conventions of the API, made from our 0 / -errno exactly once (STYLE 18). */
#define vb_fail_null(negative) (errno = -(negative), NULL)
/* Verbs that return a positive number return "the value of errno" (their manual pages), so it is there too. */
static inline int vb_fail_number(int positive)
{
	if (positive != 0)
		errno = positive;
	return positive;
}

#endif
