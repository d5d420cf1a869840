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

static void print_number(const char *name, uint64_t value)
{
	printf(", \"%s\": %llu", name, (unsigned long long)value);
}

static void print_text(const char *name, const char *text)
{
	printf(", \"%s\": ", name);
	vb_cli_json_string(stdout, text);
}

static void print_device(const struct vb_cli_holder *holder, uint32_t interface_index)
{
	printf("{\"device\": ");
	vb_cli_json_string(stdout, vb_cli_holder_device(holder, interface_index));
}

static void print_address(const char *name, const uint8_t gid[16])
{
	char text[INET6_ADDRSTRLEN];

	if (vb_cli_gid_is_zero(gid))
		printf(", \"%s\": null", name);
	else
		print_text(name, vb_cli_gid_address(gid, text));
}

static void print_qp(const struct vb_cli_holder *holder, const struct vb_resource_qp *qp)
{
	bool failed = qp->fault != VB_FAULT_NONE && qp->fault < VB_FAULT_COUNT;

	print_device(holder, qp->interface_index);
	print_number("qpn", qp->qpn);
	print_text("type", vb_cli_qp_type_name(qp->type));
	print_text("state", vb_cli_qp_state_name(qp->state));
	print_address("local_address", qp->local_gid);
	print_address("peer_address", qp->peer_gid);
	print_number("peer_qpn", qp->peer_qpn);
	print_text("way", qp->through_memory ? "memory" : "roce");
	print_number("path_mtu", qp->path_mtu);
	print_number("source_port", qp->source_port);
	if (qp->through_memory) {
		/* There are no packets. What is left for the peer to execute (SENDs, immediates, atomics) is numbered from 1. */
		printf(", \"sq_psn\": null, \"acknowledged_psn\": null, \"rq_psn\": null");
		print_number("sends_record", qp->send_psn);
		print_number("acknowledged_record", qp->acknowledged_psn);
		print_number("expects_record", qp->expected_psn);
	} else {
		print_number("sq_psn", qp->send_psn);
		print_number("acknowledged_psn", qp->acknowledged_psn);
		print_number("rq_psn", qp->expected_psn);
	}
	print_number("msn", qp->msn);
	print_number("outstanding_packets", qp->outstanding_packets);
	print_number("window_packets", qp->window_packets);
	print_number("outstanding_reads", qp->outstanding_reads);
	print_number("send_posted", qp->send_posted);
	print_number("send_depth", qp->send_depth);
	print_number("receive_posted", qp->receive_posted);
	print_number("receive_depth", qp->receive_depth);
	print_number("sends_done", qp->sends_done);
	print_number("receives_done", qp->receives_done);
	print_number("pd", qp->pd);
	print_number("send_cq", qp->send_cq);
	print_number("receive_cq", qp->receive_cq);
	if (qp->srq)
		print_number("srq", qp->srq);
	else
		printf(", \"srq\": null");
	print_number("retry_count", qp->retry_count);
	print_number("retries_left", qp->retries_left);
	print_number("rnr_retry", qp->rnr_retry);
	print_number("rnr_retries_left", qp->rnr_retries_left);
	print_number("round_trip_ns", qp->round_trip);
	print_number("retransmit_timeout_ns", qp->retransmit_timeout);
	printf(", \"draining\": %s", qp->draining ? "true" : "false");
	if (failed)
		print_text("fault", vb_fault_sentence((enum vb_fault)qp->fault));
	else
		printf(", \"fault\": null");
	printf("}");
}

static void print_cq(const struct vb_cli_holder *holder, const struct vb_resource_cq *cq)
{
	static const char *const armed[] = { "no", "solicited", "any" };

	print_device(holder, cq->interface_index);
	print_number("number", cq->number);
	print_number("capacity", cq->capacity);
	print_number("waiting", cq->waiting);
	print_number("users", cq->users);
	print_text("armed", armed[cq->armed < 3 ? cq->armed : 0]);
	printf(", \"channel\": %s, \"overrun\": %s}", cq->has_channel ? "true" : "false",
	       cq->overrun ? "true" : "false");
}

static void print_srq(const struct vb_cli_holder *holder, const struct vb_resource_srq *srq)
{
	print_device(holder, srq->interface_index);
	print_number("number", srq->number);
	print_number("pd", srq->pd);
	print_number("depth", srq->depth);
	print_number("posted", srq->posted);
	print_number("limit", srq->limit);
	print_number("users", srq->users);
	printf("}");
}

static void print_mr(const struct vb_cli_holder *holder, const struct vb_resource_mr *mr)
{
	char access[VB_CLI_ACCESS_ROOM];

	print_device(holder, mr->interface_index);
	print_number("key", mr->key);
	print_number("address", mr->address);
	print_number("length", mr->length);
	print_number("iova", mr->iova);
	print_number("pd", mr->pd);
	print_text("access", vb_cli_access_text(mr->access, access));
	printf("}");
}

static void print_pd(const struct vb_cli_holder *holder, const struct vb_resource_pd *pd)
{
	print_device(holder, pd->interface_index);
	print_number("number", pd->number);
	print_number("users", pd->users);
	printf("}");
}

static void print_endpoint(const char *name, const struct vb_cm_address *address)
{
	char text[INET6_ADDRSTRLEN];

	if (vb_cli_gid_is_zero(address->gid))
		printf(", \"%s_address\": null", name);
	else {
		printf(", \"%s_address\": ", name);
		vb_cli_json_string(stdout, vb_cli_gid_address(address->gid, text));
	}
	printf(", \"%s_port\": %u", name, address->port);
}

static void print_cm_id(const struct vb_cli_holder *holder, const struct vb_resource_cm_id *id)
{
	print_device(holder, id->interface_index);
	print_number("number", id->number);
	print_text("port_space", vb_cli_port_space_name(id->port_space));
	print_text("state", id->state);
	print_endpoint("local", &id->source);
	print_endpoint("peer", &id->destination);
	print_number("local_qpn", id->local_qpn);
	print_number("peer_qpn", id->peer_qpn);
	print_number("backlog", id->backlog);
	print_number("backlog_waiting", id->waiting);
	printf("}");
}

/* One array: each object of the kind through print_MEMBER. */
#define PRINT(options, holder, name, resource_kind, member)                                                            \
	do {                                                                                                           \
		const char *separator = "";                                                                            \
		if (!(options)->kind[resource_kind])                                                                   \
			break;                                                                                         \
		printf(",\n   \"" name "\": [");                                                                       \
		for (unsigned i = 0; i < (holder)->count[resource_kind]; i++) {                                        \
			const union vb_resource *r = &(holder)->of[resource_kind][i];                                  \
			if (!vb_cli_res_wants(options, holder, r->member.interface_index))                             \
				continue;                                                                              \
			printf("%s\n    ", separator);                                                                 \
			print_##member(holder, &r->member);                                                            \
			separator = ",";                                                                               \
		}                                                                                                      \
		printf("]");                                                                                           \
	} while (0)

static void print_holder(const struct vb_cli_res_options *options, const struct vb_cli_holder *holder)
{
	printf("\n  {\"pid\": %u, \"uid\": %u, \"program\": ", holder->pid, holder->uid);
	vb_cli_json_string(stdout, holder->program);
	printf(", \"answered\": %s, \"left_out\": %u", holder->error ? "false" : "true", holder->left_out);
	PRINT(options, holder, "qps", VB_RESOURCE_QP, qp);
	PRINT(options, holder, "cqs", VB_RESOURCE_CQ, cq);
	PRINT(options, holder, "srqs", VB_RESOURCE_SRQ, srq);
	PRINT(options, holder, "mrs", VB_RESOURCE_MR, mr);
	PRINT(options, holder, "pds", VB_RESOURCE_PD, pd);
	PRINT(options, holder, "cm_ids", VB_RESOURCE_CM_ID, cm_id);
	printf("}");
}

void vb_cli_res_print_json(const struct vb_cli_res_options *options, const struct vb_cli_holders *holders)
{
	printf("[");
	for (unsigned i = 0; i < holders->count; i++) {
		printf("%s", i ? "," : "");
		print_holder(options, &holders->row[i]);
	}
	printf("%s]\n", holders->count ? "\n" : "");
}
