/* SPDX-License-Identifier: MIT
 *
 * `verbena top --json`: the rates between two samples, of processes and of queue pairs.
 */
#include "cli/json.h"
#include "cli/names.h"
#include "cli/top.h"

static void print_process(FILE *out, const struct vb_cli_process_rates *row)
{
	char user[VB_CLI_USER_ROOM];

	fprintf(out, "{\"pid\": %u, \"program\": ", row->process->process.pid);
	vb_cli_json_string(out, row->process->program);
	fprintf(out, ", \"user\": ");
	vb_cli_json_string(out, vb_cli_user_name(row->process->process.uid, user));
	fprintf(out, ", \"queue_pairs\": %u, \"out_per_s\": %.1f, \"in_per_s\": %.1f, \"retries_per_s\": %.1f, "
	       "\"drops_per_s\": %.1f, \"work_bytes_per_s\": %.0f, "
	       "\"received_bytes_per_s\": %.0f}",
	       row->process->process.queue_pairs, row->out, row->in, row->retries, row->lost, row->work_bytes,
	       row->received_bytes);
}

static void print_qp(FILE *out, const struct vb_cli_qp_rates *row)
{
	const struct vb_resource_qp *qp = row->qp;
	char address[INET6_ADDRSTRLEN];

	fprintf(out, "{\"pid\": %u, \"qpn\": %u, \"type\": \"%s\", \"state\": \"%s\", \"way\": \"%s\", \"device\": ", row->holder->pid,
	       qp->qpn, vb_cli_qp_type_name(qp->type), vb_cli_qp_state_name(qp->state), vb_cli_way_name(qp));
	vb_cli_json_string(out, vb_cli_holder_device(row->holder, qp->interface_index));
	fprintf(out, ", \"peer_address\": ");
	if (vb_cli_gid_is_zero(qp->peer_gid))
		fprintf(out, "null");
	else
		fprintf(out, "\"%s\"", vb_cli_gid_address(qp->peer_gid, address));
	fprintf(out, ", \"peer_qpn\": %u, \"out_per_s\": %.1f, \"in_per_s\": %.1f, \"send_posted\": %u, \"receive_posted\": %u, "
	       "\"round_trip_ns\": %llu, \"work_bytes_per_s\": %.0f, \"received_bytes_per_s\": %.0f}",
	       qp->peer_qpn, row->out, row->in, qp->send_posted, qp->receive_posted, (unsigned long long)qp->round_trip,
	       row->work_bytes, row->received_bytes);
}

int vb_cli_top_print_json(FILE *out, const struct vb_cli_sample *older, const struct vb_cli_sample *newer, enum vb_cli_sort sort)
{
	struct vb_cli_rates rates;
	int error = vb_cli_rates_compute(older, newer, sort, &rates);

	if (error)
		return error;
	fprintf(out, "{\"seconds\": %.3f,\n \"processes\": [", (double)(newer->when - older->when) / 1e9);
	for (unsigned i = 0; i < rates.processes; i++) {
		fprintf(out, "%s\n  ", i ? "," : "");
		print_process(out, &rates.process[i]);
	}
	fprintf(out, "],\n \"qps\": [");
	for (unsigned i = 0; i < rates.qps; i++) {
		fprintf(out, "%s\n  ", i ? "," : "");
		print_qp(out, &rates.qp[i]);
	}
	fprintf(out, "]}\n");
	vb_cli_rates_free(&rates);
	return 0;
}
