/* SPDX-License-Identifier: MIT
 *
 * What the misuse watch found, and asynchronous events that are not the tail of a failure already told.
 */
#ifndef VB_EXPLAIN_MISUSE_H
#define VB_EXPLAIN_MISUSE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "explain/report.h"
#include "queue/watch.h"

void vb_explain_buffer_changed(uint32_t qpn, uint64_t wr_id, enum ibv_wr_opcode opcode, uint64_t length,
			       struct vb_report *report);
void vb_explain_region_in_use(uint32_t key, uint64_t start, uint64_t length, uint32_t qpn, uint64_t wr_id,
			      bool is_receive, uint32_t others, struct vb_report *report);
void vb_explain_cq_crowded(uint32_t capacity, uint32_t waiting, uint32_t outstanding, uint32_t qpn,
			   struct vb_report *report);
/* `object`: "CQ", "QP", "SRQ", "rdma_cm_id". */
void vb_explain_unacknowledged(const char *object, const char *acknowledge, uint32_t read, uint32_t acknowledged,
			       struct vb_report *report);
/* A field was read that says nothing about this completion. */
void vb_explain_field_not_valid(const char *field, uint32_t qpn, uint64_t wr_id, enum ibv_wc_status status,
				struct vb_report *report);

/* Datagrams that a UD queue pair dropped for one cause. With `drop` NULL the total, told when the queue pair goes. */
struct vb_explain_drops {
	uint32_t qpn, qkey;              /* of the queue pair */
	enum ibv_qp_state state;
	enum vb_drop_cause cause;
	const struct vb_drop *drop;
	uint64_t count;
};
void vb_explain_dropped(const struct vb_explain_drops *drops, struct vb_report *report);

/* CQ_ERR, PORT_ERR, DEVICE_FATAL, GID_CHANGE, SRQ_ERR. `capacity` of the CQ. False: an event that says nothing bad. */
bool vb_explain_event(enum ibv_event_type event, const char *device, uint32_t capacity, struct vb_report *report);

#endif
