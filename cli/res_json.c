/* SPDX-License-Identifier: MIT
 *
 * `verbena res --json`: an array of processes, in each an array for each kind asked for.
 */
#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "cli/names.h"
#include "cli/res.h"
#include "memory/fault.h"

static void print_number(FILE *out, const char *name, uint64_t value)
{
	fprintf(out, ", \"%s\": %llu", name, (unsigned long long)value);
}

static void print_text(FILE *out, const char *name, const char *text)
{
	fprintf(out, ", \"%s\": ", name);
	vb_cli_json_string(out, text);
}

static void print_device(FILE *out, const struct vb_cli_holder *holder, uint32_t interface_index)
{
	fprintf(out, "{\"device\": ");
	vb_cli_json_string(out, vb_cli_holder_device(holder, interface_index));
}

static void print_address(FILE *out, const char *name, const uint8_t gid[16])
{
	char text[INET6_ADDRSTRLEN];

	if (vb_cli_gid_is_zero(gid))
		fprintf(out, ", \"%s\": null", name);
	else
		print_text(out, name, vb_cli_gid_address(gid, text));
}

static void print_qp(FILE *out, const struct vb_cli_holder *holder, const struct vb_resource_qp *qp)
{
	bool failed = qp->fault != VB_FAULT_NONE && qp->fault < VB_FAULT_COUNT;

	print_device(out, holder, qp->interface_index);
	print_number(out, "qpn", qp->qpn);
	print_text(out, "type", vb_cli_qp_type_name(qp->type));
	print_text(out, "state", vb_cli_qp_state_name(qp->state));
	print_address(out, "local_address", qp->local_gid);
	print_address(out, "peer_address", qp->peer_gid);
	print_number(out, "peer_qpn", qp->peer_qpn);
	print_text(out, "way", vb_cli_way_name(qp));
	print_number(out, "path_mtu", qp->path_mtu);
	print_number(out, "source_port", qp->source_port);
	if (vb_cli_has_records(qp)) {
		/* There are no packets. What is left for the peer to execute (SENDs, immediates, atomics) is numbered from 1. */
		fprintf(out, ", \"sq_psn\": null, \"acknowledged_psn\": null, \"rq_psn\": null");
		print_number(out, "sends_record", qp->send_psn);
		print_number(out, "acknowledged_record", qp->acknowledged_psn);
		print_number(out, "expects_record", qp->expected_psn);
	} else {
		print_number(out, "sq_psn", qp->send_psn);
		print_number(out, "acknowledged_psn", qp->acknowledged_psn);
		print_number(out, "rq_psn", qp->expected_psn);
	}
	print_number(out, "msn", qp->msn);
	print_number(out, "outstanding_packets", qp->outstanding_packets);
	print_number(out, "window_packets", qp->window_packets);
	print_text(out, "control", vb_cli_control_name(qp->control));
	if (qp->rate)
		print_number(out, "rate_bits", qp->rate);
	else
		fprintf(out, ", \"rate_bits\": null");
	print_number(out, "outstanding_reads", qp->outstanding_reads);
	print_number(out, "send_posted", qp->send_posted);
	print_number(out, "send_depth", qp->send_depth);
	print_number(out, "receive_posted", qp->receive_posted);
	print_number(out, "receive_depth", qp->receive_depth);
	print_number(out, "sends_done", qp->sends_done);
	print_number(out, "receives_done", qp->receives_done);
	print_number(out, "work_bytes", qp->work_bytes);
	print_number(out, "received_bytes", qp->received_bytes);
	print_number(out, "pd", qp->pd);
	print_number(out, "send_cq", qp->send_cq);
	print_number(out, "receive_cq", qp->receive_cq);
	if (qp->srq)
		print_number(out, "srq", qp->srq);
	else
		fprintf(out, ", \"srq\": null");
	print_number(out, "retry_count", qp->retry_count);
	print_number(out, "retries_left", qp->retries_left);
	print_number(out, "rnr_retry", qp->rnr_retry);
	print_number(out, "rnr_retries_left", qp->rnr_retries_left);
	print_number(out, "round_trip_ns", qp->round_trip);
	print_number(out, "retransmit_timeout_ns", qp->retransmit_timeout);
	fprintf(out, ", \"draining\": %s", qp->draining ? "true" : "false");
	if (failed)
		print_text(out, "fault", vb_fault_sentence((enum vb_fault)qp->fault));
	else
		fprintf(out, ", \"fault\": null");
	fprintf(out, "}");
}

static void print_cq(FILE *out, const struct vb_cli_holder *holder, const struct vb_resource_cq *cq)
{
	static const char *const armed[] = { "no", "solicited", "any" };

	print_device(out, holder, cq->interface_index);
	print_number(out, "number", cq->number);
	print_number(out, "capacity", cq->capacity);
	print_number(out, "waiting", cq->waiting);
	print_number(out, "users", cq->users);
	print_text(out, "armed", armed[cq->armed < 3 ? cq->armed : 0]);
	fprintf(out, ", \"channel\": %s, \"overrun\": %s}", cq->has_channel ? "true" : "false",
	       cq->overrun ? "true" : "false");
}

static void print_srq(FILE *out, const struct vb_cli_holder *holder, const struct vb_resource_srq *srq)
{
	print_device(out, holder, srq->interface_index);
	print_number(out, "number", srq->number);
	print_number(out, "pd", srq->pd);
	print_number(out, "depth", srq->depth);
	print_number(out, "posted", srq->posted);
	print_number(out, "limit", srq->limit);
	print_number(out, "users", srq->users);
	fprintf(out, "}");
}

static void print_wq(FILE *out, const struct vb_cli_holder *holder, const struct vb_resource_wq *wq)
{
	print_device(out, holder, wq->interface_index);
	print_number(out, "number", wq->number);
	print_number(out, "wq_num", wq->wq_num);
	print_text(out, "state", vb_cli_wq_state_name(wq->state));
	print_number(out, "pd", wq->pd);
	print_number(out, "cq", wq->cq);
	print_number(out, "depth", wq->depth);
	print_number(out, "posted", wq->posted);
	print_number(out, "users", wq->users);
	fprintf(out, "}");
}

static void print_rwq_table(FILE *out, const struct vb_cli_holder *holder, const struct vb_resource_rwq_table *table)
{
	print_device(out, holder, table->interface_index);
	print_number(out, "number", table->number);
	print_number(out, "size", table->size);
	print_number(out, "wqs", table->queues);
	print_number(out, "users", table->users);
	fprintf(out, "}");
}

static void print_mr(FILE *out, const struct vb_cli_holder *holder, const struct vb_resource_mr *mr)
{
	char access[VB_CLI_ACCESS_ROOM];

	print_device(out, holder, mr->interface_index);
	print_number(out, "key", mr->key);
	print_number(out, "address", mr->address);
	print_number(out, "length", mr->length);
	print_number(out, "iova", mr->iova);
	print_number(out, "pd", mr->pd);
	print_text(out, "access", vb_cli_access_text(mr->access, access));
	fprintf(out, "}");
}

static void print_pd(FILE *out, const struct vb_cli_holder *holder, const struct vb_resource_pd *pd)
{
	print_device(out, holder, pd->interface_index);
	print_number(out, "number", pd->number);
	print_number(out, "users", pd->users);
	fprintf(out, "}");
}

static void print_endpoint(FILE *out, const char *name, const struct vb_cm_address *address)
{
	char text[INET6_ADDRSTRLEN];

	if (vb_cli_gid_is_zero(address->gid))
		fprintf(out, ", \"%s_address\": null", name);
	else {
		fprintf(out, ", \"%s_address\": ", name);
		vb_cli_json_string(out, vb_cli_gid_address(address->gid, text));
	}
	fprintf(out, ", \"%s_port\": %u", name, address->port);
}

static void print_cm_id(FILE *out, const struct vb_cli_holder *holder, const struct vb_resource_cm_id *id)
{
	print_device(out, holder, id->interface_index);
	print_number(out, "number", id->number);
	print_text(out, "port_space", vb_cli_port_space_name(id->port_space));
	print_text(out, "state", id->state);
	print_endpoint(out, "local", &id->source);
	print_endpoint(out, "peer", &id->destination);
	print_number(out, "local_qpn", id->local_qpn);
	print_number(out, "peer_qpn", id->peer_qpn);
	print_number(out, "backlog", id->backlog);
	print_number(out, "backlog_waiting", id->waiting);
	fprintf(out, "}");
}

/* One array: each object of the kind through print_MEMBER. */
#define PRINT(options, holder, name, resource_kind, member)                                                            \
	do {                                                                                                           \
		const char *separator = "";                                                                            \
		if (!(options)->kind[resource_kind])                                                                   \
			break;                                                                                         \
		fprintf(out, ",\n   \"" name "\": [");                                                                       \
		for (unsigned i = 0; i < (holder)->count[resource_kind]; i++) {                                        \
			const union vb_resource *r = &(holder)->of[resource_kind][i];                                  \
			if (!vb_cli_res_wants(options, holder, r->member.interface_index))                             \
				continue;                                                                              \
			fprintf(out, "%s\n    ", separator);                                                                 \
			print_##member(out, holder, &r->member);                                                            \
			separator = ",";                                                                               \
		}                                                                                                      \
		fprintf(out, "]");                                                                                           \
	} while (0)

static void print_holder(FILE *out, const struct vb_cli_res_options *options, const struct vb_cli_holder *holder)
{
	fprintf(out, "\n  {\"pid\": %u, \"uid\": %u, \"program\": ", holder->pid, holder->uid);
	vb_cli_json_string(out, holder->program);
	fprintf(out, ", \"answered\": %s, \"left_out\": %u", holder->error ? "false" : "true", holder->left_out);
	PRINT(options, holder, "qps", VB_RESOURCE_QP, qp);
	PRINT(options, holder, "cqs", VB_RESOURCE_CQ, cq);
	PRINT(options, holder, "srqs", VB_RESOURCE_SRQ, srq);
	PRINT(options, holder, "wqs", VB_RESOURCE_WQ, wq);
	PRINT(options, holder, "rwq_tables", VB_RESOURCE_RWQ_TABLE, rwq_table);
	PRINT(options, holder, "mrs", VB_RESOURCE_MR, mr);
	PRINT(options, holder, "pds", VB_RESOURCE_PD, pd);
	PRINT(options, holder, "cm_ids", VB_RESOURCE_CM_ID, cm_id);
	fprintf(out, "}");
}

void vb_cli_res_print_json(FILE *out, const struct vb_cli_res_options *options, const struct vb_cli_holders *holders)
{
	fprintf(out, "[");
	for (unsigned i = 0; i < holders->count; i++) {
		fprintf(out, "%s", i ? "," : "");
		print_holder(out, options, &holders->row[i]);
	}
	fprintf(out, "%s]\n", holders->count ? "\n" : "");
}
