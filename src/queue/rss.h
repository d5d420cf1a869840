/* SPDX-License-Identifier: MIT
 *
 * Receive side scaling: a queue pair without queues of its own, whose frames are spread over work queues (queue/wq.h). The Toeplitz hash
 * (wire/toeplitz.h) of the fields that the program chose, modulo the size of its indirection table, is the entry whose work queue takes the
 * frame. So the frames of a flow keep their order, and flows meet different queues.
 *
 *   IPv4, IPv6   the addresses, where chosen for the frame's version
 *   TCP, UDP     the ports, where chosen for the frame's protocol; not of fragments, of which only the first has ports
 *   others       what has none of the chosen fields goes to entry 0
 *
 * Source comes before destination, addresses before ports; fields that were not chosen are left out.
 */
#ifndef VB_QUEUE_RSS_H
#define VB_QUEUE_RSS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/toeplitz.h"

struct vb_flow_key;
struct vb_qp;
struct vb_wq;

#define VB_RSS_FIELDS                                                                                                                 \
	((uint64_t)IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6 | IBV_RX_HASH_SRC_PORT_TCP | \
	 IBV_RX_HASH_DST_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP)

struct vb_rss_table {
	uint32_t users;                  /* atomic: queue pairs */
	uint32_t size;                   /* a power of two */
	uint32_t queues;                 /* different work queues among the entries: the first so many of those behind them */
	struct vb_wq *entries[];
};

/* Counts itself on the work queues, once for each entry. NULL: no memory. */
struct vb_rss_table *vb_rss_table_create(struct vb_wq *const *entries, uint32_t size);
void vb_rss_table_destroy(struct vb_rss_table *table);

/* Of a queue pair. */
struct vb_rss {
	struct vb_rss_table *table;
	uint64_t fields;                 /* IBV_RX_HASH_* */
	uint8_t key[VB_TOEPLITZ_KEY];
};

/* As the program wrote it. -EOPNOTSUPP: another function, or fields that are not known here. -EINVAL: a key of another length, or no
 * fields where there is a choice. */
int vb_rss_parse(struct vb_rss *rss, const struct ibv_rx_hash_conf *conf, struct vb_rss_table *table);

uint32_t vb_rss_hash(const struct vb_rss *rss, const struct vb_flow_key *frame);

/* The work queue of a frame: its receives, PD and CQ are the queue pair's from now on. Caller holds qp->lock. */
void vb_rss_choose(struct vb_qp *qp, const struct vb_flow_key *frame);
/* How many frames may come so that a work queue that has receives has enough for all of them? 0: none has any. */
uint32_t vb_rss_room(const struct vb_rss *rss);

#endif
