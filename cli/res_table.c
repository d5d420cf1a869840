/* SPDX-License-Identifier: MIT
 *
 * `verbena res` for people: a block for each process, a table for each kind of object in it.
 */
#include <stdio.h>
#include <string.h>

#include "cli/names.h"
#include "cli/res.h"
#include "cli/shown.h"
#include "cli/terminal.h"
#include "memory/fault.h"

static struct vb_cli_colours colour;

/* How many of this kind are on the device asked for. Kinds whose objects have no device yet count always. */
static unsigned count_wanted(const struct vb_cli_res_options *options, const struct vb_cli_holder *holder,
			     enum vb_resource_kind kind, uint32_t (*device)(const union vb_resource *))
{
	unsigned wanted = 0;

	for (unsigned i = 0; options->kind[kind] && i < holder->count[kind]; i++)
		wanted += vb_cli_res_wants(options, holder, device(&holder->of[kind][i]));
	return wanted;
}

static uint32_t qp_device(const union vb_resource *r) { return r->qp.interface_index; }
static uint32_t cq_device(const union vb_resource *r) { return r->cq.interface_index; }
static uint32_t srq_device(const union vb_resource *r) { return r->srq.interface_index; }
static uint32_t wq_device(const union vb_resource *r) { return r->wq.interface_index; }
static uint32_t rwq_table_device(const union vb_resource *r) { return r->rwq_table.interface_index; }
static uint32_t mr_device(const union vb_resource *r) { return r->mr.interface_index; }
static uint32_t pd_device(const union vb_resource *r) { return r->pd.interface_index; }
static uint32_t cm_id_device(const union vb_resource *r) { return r->cm_id.interface_index; }

static const char *peer_address(const struct vb_resource_qp *qp, char text[INET6_ADDRSTRLEN])
{
	return vb_cli_gid_is_zero(qp->peer_gid) ? "-" : vb_cli_gid_address(qp->peer_gid, text);
}

static int widest_peer(const struct vb_cli_holder *holder)
{
	char text[INET6_ADDRSTRLEN];
	size_t widest = strlen("PEER");

	for (unsigned i = 0; i < holder->count[VB_RESOURCE_QP]; i++) {
		size_t width = strlen(peer_address(&holder->of[VB_RESOURCE_QP][i].qp, text));

		widest = width > widest ? width : widest;
	}
	return (int)widest;
}

static int widest_type(const struct vb_cli_holder *holder)
{
	size_t widest = strlen("TYPE");

	for (unsigned i = 0; i < holder->count[VB_RESOURCE_QP]; i++) {
		size_t width = strlen(vb_cli_qp_type_name(holder->of[VB_RESOURCE_QP][i].qp.type));

		widest = width > widest ? width : widest;
	}
	return (int)widest;
}

static const char *qp_state_colour(uint32_t state)
{
	const char *name = vb_cli_qp_state_name(state);

	if (!strcmp(name, "RTS"))
		return colour.good;
	return !strcmp(name, "ERR") || !strcmp(name, "SQE") ? colour.bad : "";
}

enum { DEVICE_ROOM = VB_CLI_SHOWN_ROOM(64) };

static const char *device_of(const struct vb_cli_holder *holder, uint32_t interface_index, char text[DEVICE_ROOM])
{
	return vb_cli_shown(vb_cli_holder_device(holder, interface_index), text, DEVICE_ROOM);
}

static void print_qp(const struct vb_cli_holder *holder, const struct vb_resource_qp *qp, int type_width, int peer_width)
{
	char address[INET6_ADDRSTRLEN], send[24], receive[24], device[DEVICE_ROOM];

	snprintf(send, sizeof(send), "%u/%u", qp->send_posted, qp->send_depth);
	if (qp->srq)
		snprintf(receive, sizeof(receive), "SRQ %u", qp->srq);
	else
		snprintf(receive, sizeof(receive), "%u/%u", qp->receive_posted, qp->receive_depth);
	printf("    0x%06x  %-*s  %s%-5s%s  %-*s  ", qp->qpn, type_width, vb_cli_qp_type_name(qp->type), qp_state_colour(qp->state),
	       vb_cli_qp_state_name(qp->state), colour.plain, peer_width, peer_address(qp, address));
	if (vb_cli_gid_is_zero(qp->peer_gid))
		printf("%-8s", "-");
	else
		printf("0x%06x", qp->peer_qpn);
	printf("  0x%06x  0x%06x  0x%06x  %11s  %11s  %u,%u  %s", qp->send_psn, qp->acknowledged_psn, qp->expected_psn, send,
	       receive, qp->send_cq, qp->receive_cq, device_of(holder, qp->interface_index, device));
	if (qp->round_trip)
		printf("  rtt %.1f us", (double)qp->round_trip / 1000);
	if (qp->rate)
		printf("  %s %.2f Gb/s", vb_cli_control_name(qp->control), (double)qp->rate / 1e9);
	if (qp->through_memory)
		printf("  memory");
	if (qp->draining)
		printf("  draining");
	printf("\n");
	if (qp->fault != VB_FAULT_NONE && qp->fault < VB_FAULT_COUNT)
		printf("              %sfailed: %s%s\n", colour.bad, vb_fault_sentence((enum vb_fault)qp->fault),
		       colour.plain);
}

static void print_qps(const struct vb_cli_res_options *options, const struct vb_cli_holder *holder)
{
	unsigned wanted = count_wanted(options, holder, VB_RESOURCE_QP, qp_device);
	int type_width = widest_type(holder), peer_width = widest_peer(holder);

	if (wanted == 0)
		return;
	printf("  %u queue pair%s\n    %s%-8s  %-*s  %-5s  %-*s  %-8s  %8s  %8s  %8s  %11s  %11s  %s%s\n", wanted,
	       wanted == 1 ? "" : "s", colour.faint, "QPN", type_width, "TYPE", "STATE", peer_width, "PEER", "PEER QPN", "SENDS",
	       "ACKED", "EXPECTS", "SEND", "RECEIVE", "CQS  DEVICE", colour.plain);
	for (unsigned i = 0; i < holder->count[VB_RESOURCE_QP]; i++) {
		const struct vb_resource_qp *qp = &holder->of[VB_RESOURCE_QP][i].qp;

		if (vb_cli_res_wants(options, holder, qp->interface_index))
			print_qp(holder, qp, type_width, peer_width);
	}
}

static void print_cqs(const struct vb_cli_res_options *options, const struct vb_cli_holder *holder)
{
	static const char *const armed[] = { "not armed", "armed for solicited events", "armed" };
	unsigned wanted = count_wanted(options, holder, VB_RESOURCE_CQ, cq_device);

	if (wanted == 0)
		return;
	printf("  %u completion queue%s\n", wanted, wanted == 1 ? "" : "s");
	for (unsigned i = 0; i < holder->count[VB_RESOURCE_CQ]; i++) {
		const struct vb_resource_cq *cq = &holder->of[VB_RESOURCE_CQ][i].cq;

		if (!vb_cli_res_wants(options, holder, cq->interface_index))
			continue;
		printf("    cq %-6u %u of %u waiting, %u user%s, %s, %s%s%s%s\n", cq->number, cq->waiting, cq->capacity,
		       cq->users, cq->users == 1 ? "" : "s", cq->has_channel ? "channel" : "no channel",
		       armed[cq->armed < 3 ? cq->armed : 0], cq->overrun ? colour.bad : "",
		       cq->overrun ? ", OVERRUN" : "", cq->overrun ? colour.plain : "");
	}
}

static void print_srqs(const struct vb_cli_res_options *options, const struct vb_cli_holder *holder)
{
	unsigned wanted = count_wanted(options, holder, VB_RESOURCE_SRQ, srq_device);

	if (wanted == 0)
		return;
	printf("  %u shared receive queue%s\n", wanted, wanted == 1 ? "" : "s");
	for (unsigned i = 0; i < holder->count[VB_RESOURCE_SRQ]; i++) {
		const struct vb_resource_srq *srq = &holder->of[VB_RESOURCE_SRQ][i].srq;

		if (vb_cli_res_wants(options, holder, srq->interface_index))
			printf("    srq %-5u %u of %u posted, limit %u, pd %u, %u queue pair%s\n", srq->number,
			       srq->posted, srq->depth, srq->limit, srq->pd, srq->users, srq->users == 1 ? "" : "s");
	}
}

static void print_wqs(const struct vb_cli_res_options *options, const struct vb_cli_holder *holder)
{
	unsigned wanted = count_wanted(options, holder, VB_RESOURCE_WQ, wq_device);

	if (wanted == 0)
		return;
	printf("  %u work queue%s\n", wanted, wanted == 1 ? "" : "s");
	for (unsigned i = 0; i < holder->count[VB_RESOURCE_WQ]; i++) {
		const struct vb_resource_wq *wq = &holder->of[VB_RESOURCE_WQ][i].wq;

		if (vb_cli_res_wants(options, holder, wq->interface_index))
			printf("    wq 0x%06x  %s, %u of %u posted, pd %u, cq %u, %u table entr%s\n", wq->wq_num,
			       vb_cli_wq_state_name(wq->state), wq->posted, wq->depth, wq->pd, wq->cq, wq->users,
			       wq->users == 1 ? "y" : "ies");
	}
}

static void print_rwq_tables(const struct vb_cli_res_options *options, const struct vb_cli_holder *holder)
{
	unsigned wanted = count_wanted(options, holder, VB_RESOURCE_RWQ_TABLE, rwq_table_device);

	if (wanted == 0)
		return;
	printf("  %u indirection table%s\n", wanted, wanted == 1 ? "" : "s");
	for (unsigned i = 0; i < holder->count[VB_RESOURCE_RWQ_TABLE]; i++) {
		const struct vb_resource_rwq_table *table = &holder->of[VB_RESOURCE_RWQ_TABLE][i].rwq_table;

		if (vb_cli_res_wants(options, holder, table->interface_index))
			printf("    table %-5u %u entr%s, %u work queue%s, %u queue pair%s\n", table->number, table->size,
			       table->size == 1 ? "y" : "ies", table->queues, table->queues == 1 ? "" : "s", table->users,
			       table->users == 1 ? "" : "s");
	}
}

static void print_mrs(const struct vb_cli_res_options *options, const struct vb_cli_holder *holder)
{
	unsigned wanted = count_wanted(options, holder, VB_RESOURCE_MR, mr_device);
	char access[VB_CLI_ACCESS_ROOM];

	if (wanted == 0)
		return;
	printf("  %u memory region%s\n", wanted, wanted == 1 ? "" : "s");
	for (unsigned i = 0; i < holder->count[VB_RESOURCE_MR]; i++) {
		const struct vb_resource_mr *mr = &holder->of[VB_RESOURCE_MR][i].mr;

		if (!vb_cli_res_wants(options, holder, mr->interface_index))
			continue;
		printf("    key 0x%08x  ", mr->key);
		if (mr->length == UINT64_MAX)
			printf("all of memory");
		else
			printf("%llu bytes at 0x%llx", (unsigned long long)mr->length, (unsigned long long)mr->address);
		if (mr->iova != mr->address)
			printf(", named 0x%llx", (unsigned long long)mr->iova);
		printf(", pd %u, %s\n", mr->pd, vb_cli_access_text(mr->access, access));
	}
}

static void print_pds(const struct vb_cli_res_options *options, const struct vb_cli_holder *holder)
{
	unsigned wanted = count_wanted(options, holder, VB_RESOURCE_PD, pd_device);
	char device[DEVICE_ROOM];

	if (wanted == 0)
		return;
	printf("  %u protection domain%s\n", wanted, wanted == 1 ? "" : "s");
	for (unsigned i = 0; i < holder->count[VB_RESOURCE_PD]; i++) {
		const struct vb_resource_pd *pd = &holder->of[VB_RESOURCE_PD][i].pd;

		if (vb_cli_res_wants(options, holder, pd->interface_index))
			printf("    pd %-6u %u object%s, %s\n", pd->number, pd->users, pd->users == 1 ? "" : "s",
			       device_of(holder, pd->interface_index, device));
	}
}

static void print_cm_ids(const struct vb_cli_res_options *options, const struct vb_cli_holder *holder)
{
	unsigned wanted = count_wanted(options, holder, VB_RESOURCE_CM_ID, cm_id_device);
	char from[VB_CLI_ENDPOINT_ROOM], to[VB_CLI_ENDPOINT_ROOM];

	if (wanted == 0)
		return;
	printf("  %u communication id%s\n", wanted, wanted == 1 ? "" : "s");
	for (unsigned i = 0; i < holder->count[VB_RESOURCE_CM_ID]; i++) {
		const struct vb_resource_cm_id *id = &holder->of[VB_RESOURCE_CM_ID][i].cm_id;

		if (!vb_cli_res_wants(options, holder, id->interface_index))
			continue;
		printf("    cm_id 0x%08x  %-4s  %s%-13s%s  %s", id->number, vb_cli_port_space_name(id->port_space),
		       !strcmp(id->state, "ESTABLISHED") ? colour.good : "", id->state, colour.plain,
		       vb_cli_endpoint_text(&id->source, from));
		if (!strcmp(id->state, "LISTENING"))
			printf("  backlog %u of %u", id->waiting, id->backlog);
		else
			printf(" -> %s", vb_cli_endpoint_text(&id->destination, to));
		if (id->local_qpn)
			printf("  QPN 0x%06x", id->local_qpn);
		if (id->peer_qpn)
			printf("  peer QPN 0x%06x", id->peer_qpn);
		printf("\n");
	}
}

void vb_cli_res_print_table(const struct vb_cli_res_options *options, const struct vb_cli_holders *holders)
{
	char user[VB_CLI_USER_ROOM], program[VB_CLI_SHOWN_ROOM(sizeof(holders->row[0].program))];

	colour = vb_cli_colours_get();
	for (unsigned i = 0; i < holders->count; i++) {
		const struct vb_cli_holder *holder = &holders->row[i];

		printf("%s%s%s%s  pid %u  of %s\n", i ? "\n" : "", colour.strong,
		       vb_cli_shown(holder->program, program, sizeof(program)), colour.plain, holder->pid,
		       vb_cli_user_name(holder->uid, user));
		if (holder->error)
			printf("  %sdoes not answer%s: %s. Is it stopped?\n", colour.bad, colour.plain,
			       strerror(holder->error));
		print_qps(options, holder);
		print_cqs(options, holder);
		print_srqs(options, holder);
		print_wqs(options, holder);
		print_rwq_tables(options, holder);
		print_mrs(options, holder);
		print_pds(options, holder);
		print_cm_ids(options, holder);
		if (holder->left_out)
			printf("  and %u more objects\n", holder->left_out);
	}
	if (holders->count == 0)
		puts(options->pid ? "That process is not one of yours that uses Verbena."
				  : "No process uses Verbena here.");
}
