/* SPDX-License-Identifier: MIT
 *
 * A network of hosts in one process and in virtual time, carried by the same object files as the library: memory,
 * queues and the RoCE engine. Packets are flattened to datagrams, travel (or not) as the network's settings and the
 * seed decide, and are decoded with their ICRC checked, so damage is found the way it is found on a wire.
 *
 *   post -> engine -> burst -> [loss, duplication, corruption, delay] -> buffer -> decode -> engine -> completions
 *
 * A host serves its buffer some time after a packet came, everything at once, as a process that polls a socket
 * does; what does not fit the buffer meanwhile is lost.
 */
#ifndef VB_SIM_H
#define VB_SIM_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/time.h"
#include "memory/region.h"
#include "queue/address.h"
#include "queue/qp.h"
#include "roce/roce.h"
#include "sim/events.h"
#include "sim/packet.h"
#include "wire/roce_packet.h"

struct sim;

enum { SIM_EVENTS = 64, SIM_MILLION = 1000000 };

struct sim_host {
	struct sim *sim;
	unsigned index;
	uint8_t address[16];
	struct vb_memory *memory;
	struct vb_pd pd;
	struct vb_counters counters;
	struct vb_queue_host queue_host;

	/* What was told. */
	enum ibv_event_type event[SIM_EVENTS];
	unsigned events;
	unsigned completion_events;

	/* The socket buffer. */
	size_t buffer_limit;             /* bytes as the kernel counts them; 0: no limit */
	size_t buffer_used;
	uint64_t buffer_drops;
	struct sim_queue buffer;
	bool wake_planned;
	vb_time away_until;              /* the process does not run before: nothing is read, no timer expires */
	bool awaits_answers;             /* its programs look at their memory, and answer (roce/await.c) */

	/* Optional: what has come for queue pair 1, which is a daemon's. */
	void (*take_datagram)(void *context, const struct vb_roce_packet *packet);
	void *datagram_context;

	/* Optional: carries to the host what has come, in place of its buffer; NULL: that was all, for now. What it brings goes to
	 * sim_host_take. */
	void (*carry)(void *context, const struct sim_packet *packet);
	void *carry_context;

	/* Of a network with switches (nic.h). */
	struct sim_port *port;           /* NULL: it is without */
	struct sim_host *next_to_kick;
	bool kick_owed;
};

/* Chances are per million packets. */
struct sim_network {
	uint32_t loss, duplication, reorder, corruption;
	vb_time latency, service_delay;
	vb_time reorder_delay;           /* at most */
	uint64_t picoseconds_per_byte;   /* of each host's line; 0: no limit */
	uint64_t loss_mask;              /* bit i: the i-th packet (of 64, round and round) is lost */
	uint8_t congestion_experienced;  /* 1: every packet arrives marked */
	/* Look at, change or drop (return false) a packet as it leaves. The bytes may not be changed. */
	bool (*filter)(void *context, const struct vb_roce_packet *packet);
	void *filter_context;
};

struct sim {
	uint64_t seed, random_state;
	vb_time now;
	struct sim_network network;
	bool headers_only;               /* packets have no payload: it is counted, and reads as zeros */
	bool lone_datagrams;             /* each packet is sent by itself, with IP identification 0 */
	uint32_t own_bits;               /* of a destination QPN, those that the simulator numbers; 0: all. The others lead to a process */
	struct sim_host **hosts;         /* by index */
	unsigned host_count, host_room;
	struct vb_list active;           /* QPs that may have something to send, of hosts without ports */
	struct sim_host *to_kick;        /* hosts with ports whose QPs may */
	/* Optional: a packet has come for the QP, and the engine is through with it. It may be freed there. */
	void (*progressed)(struct sim *sim, struct vb_qp *qp);
	uint32_t work_requests;          /* of each queue; 0: what tests need */
	struct vb_qp **qps;              /* by QPN */
	uint32_t qp_count, qp_room;
	struct sim_events events;
	struct sim_pool pool;
	struct vb_burst *burst;
	uint64_t packets_sent, packets_lost, packets_corrupted, packets_refused;
	uint64_t packets_in_bulk, deliveries;
	uint64_t steps;
};

struct sim *sim_create(uint64_t seed);
void sim_destroy(struct sim *sim);
uint32_t sim_random(struct sim *sim);
/* 0 .. limit-1 */
uint32_t sim_below(struct sim *sim, uint32_t limit);

struct sim_host *sim_host_add(struct sim *sim, bool ipv6);
bool sim_host_was_told(const struct sim_host *host, enum ibv_event_type event);

struct vb_cq *sim_cq(struct sim_host *host, uint32_t capacity);
void sim_cq_free(struct vb_cq *cq);
struct vb_srq *sim_srq(struct sim_host *host, uint32_t max_wr);
void sim_srq_free(struct vb_srq *srq);

struct sim_region {
	struct sim_host *host;
	uint8_t *bytes;
	size_t length;
	uint32_t key;
};
struct sim_region sim_region(struct sim_host *host, size_t length, unsigned access);
void sim_region_free(struct sim_region *region);
#define SIM_ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
			IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)
/* A key for bytes that are not there: reads give zeros, writes vanish. */
uint32_t sim_null_region(struct sim_host *host);

struct vb_qp *sim_qp(struct sim_host *host, enum ibv_qp_type type, struct vb_cq *send_cq, struct vb_cq *recv_cq,
		     struct vb_srq *srq);
/* XRC_RECV. */
struct vb_qp *sim_xrc_receiver(struct sim_host *host, struct vb_xrc_domain *domain);
void sim_qp_free(struct vb_qp *qp);

struct sim_connection {
	enum ibv_mtu mtu;
	uint32_t psn_a, psn_b;           /* each side's first sent */
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t rd_atomic_a, rd_atomic_b; /* max_dest_rd_atomic of each side, max_rd_atomic of the other */
	unsigned access;
};
extern const struct sim_connection sim_usual;

/* From RESET to RTS, both, the way an application does. */
void sim_connect(struct vb_qp *a, struct vb_qp *b, const struct sim_connection *connection);
/* One of the steps, for tests of states. Returns what modify returns. */
int sim_to_init(struct vb_qp *qp, unsigned access);
int sim_to_rtr(struct vb_qp *qp, const struct vb_qp *peer, const struct sim_connection *connection, uint32_t rq_psn,
	       uint8_t dest_rd_atomic);
int sim_to_rts(struct vb_qp *qp, const struct sim_connection *connection, uint32_t sq_psn, uint8_t rd_atomic);
int sim_modify_state(struct vb_qp *qp, enum ibv_qp_state state);
/* UD: any address; an ibv_ah for it. */
void sim_open_datagram(struct vb_qp *qp, uint32_t qkey, enum ibv_mtu mtu);
struct ibv_ah *sim_ah(struct sim_host *host, const struct sim_host *to);
void sim_ah_free(struct ibv_ah *ah);

/* Post one; the engine sends when time next runs. Return what post returns. */
int sim_post_send(struct vb_qp *qp, struct ibv_send_wr *wr);
int sim_post_receive(struct vb_qp *qp, void *bytes, uint32_t length, uint32_t key, uint64_t wr_id);
/* Let the engine look at the QP. */
void sim_touch(struct vb_qp *qp);

/* Take one completion. */
bool sim_poll(struct vb_cq *cq, struct ibv_wc *wc);

/* Run until nothing is left to do, or until a time. */
void sim_run(struct sim *sim);
void sim_run_to(struct sim *sim, vb_time when);
/* Run until the CQ has something, for at most `limit`; false: it does not. */
bool sim_wait(struct sim *sim, struct vb_cq *cq, struct ibv_wc *wc, vb_time limit);

/* A datagram that no queue pair of the simulator sends. Its fate is that of any packet. */
void sim_send_datagram(struct sim_host *host, const struct vb_path *path, struct vb_roce_packet *packet, const void *payload,
		       size_t length);

/* A whole datagram, its ICRC that of a lone one. Its fate is that of any packet. */
void sim_send_bytes(struct sim *sim, const struct vb_path *path, const void *bytes, size_t length);
/* The datagram has come by `carry`: to its queue pair, with all others that came. */
void sim_host_take(struct sim_host *host, const struct vb_path *from, const void *bytes, size_t length);
void sim_host_serve(struct sim_host *host);

/* Hand a packet to a QP as if it had come from its peer. */
void sim_inject(struct vb_qp *qp, struct vb_roce_packet *packet);

#endif
