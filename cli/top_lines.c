/* SPDX-License-Identifier: MIT
 *
 * The lines of `verbena top`, for a screen or a pipe.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/names.h"
#include "cli/shown.h"
#include "cli/top.h"

__attribute__((format(printf, 3, 4)))
static int add_line(struct vb_cli_lines *lines, enum vb_cli_line_style style, const char *format, ...)
{
	char text[sizeof(lines->line[0].text)];
	va_list arguments;

	if (lines->count == lines->room) {
		unsigned room = lines->room ? 2 * lines->room : 64;
		struct vb_cli_line *larger = realloc(lines->line, room * sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		lines->line = larger;
		lines->room = room;
	}
	lines->line[lines->count].style = style;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	/* Names of programs and devices are in it. */
	(void)vb_cli_shown(text, lines->line[lines->count].text, sizeof(text));
	lines->count++;
	return 0;
}

void vb_cli_lines_free(struct vb_cli_lines *lines)
{
	free(lines->line);
	*lines = (struct vb_cli_lines){ 0 };
}

/* 950, 12.3k, 4.5M: always within seven characters. */
static const char *short_number(double value, char text[16])
{
	if (value < 10000)
		snprintf(text, 16, "%.0f", value);
	else if (value < 1e6)
		snprintf(text, 16, "%.1fk", value / 1e3);
	else if (value < 1e9)
		snprintf(text, 16, "%.2fM", value / 1e6);
	else
		snprintf(text, 16, "%.2fG", value / 1e9);
	return text;
}

static int describe_process(const struct vb_cli_process_rates *row, struct vb_cli_lines *lines)
{
	char user[VB_CLI_USER_ROOM], out[16], in[16], again[16], bad[16], work[16], received[16];

	return add_line(lines, row->retries > 0 ? VB_CLI_LINE_BAD : VB_CLI_LINE_PLAIN,
			"%8u  %-15s  %-12.12s  %6u  %8s  %8s  %9s  %9s  %8s  %8s", row->process->process.pid, row->process->program,
			vb_cli_user_name(row->process->process.uid, user), row->process->process.queue_pairs,
			short_number(row->out, out), short_number(row->in, in), short_number(row->work_bytes, work),
			short_number(row->received_bytes, received), short_number(row->retries, again),
			short_number(row->lost, bad));
}

static int describe_qp(const struct vb_cli_qp_rates *row, struct vb_cli_lines *lines)
{
	const struct vb_resource_qp *qp = row->qp;
	char peer[INET6_ADDRSTRLEN + 16] = "-", address[INET6_ADDRSTRLEN], out[16], in[16], send[24], receive[24],
				     trip[24] = "-", work[16], received[16];
	const char *state = vb_cli_qp_state_name(qp->state);
	bool failed = !strcmp(state, "ERR") || !strcmp(state, "SQE");

	if (!vb_cli_gid_is_zero(qp->peer_gid))
		snprintf(peer, sizeof(peer), "%s 0x%06x", vb_cli_gid_address(qp->peer_gid, address), qp->peer_qpn);
	snprintf(send, sizeof(send), "%u/%u", qp->send_posted, qp->send_depth);
	if (qp->srq)
		snprintf(receive, sizeof(receive), "SRQ %u", qp->srq);
	else
		snprintf(receive, sizeof(receive), "%u/%u", qp->receive_posted, qp->receive_depth);
	if (qp->round_trip)
		snprintf(trip, sizeof(trip), "%.1f us", (double)qp->round_trip / 1000);
	return add_line(lines, failed ? VB_CLI_LINE_BAD : VB_CLI_LINE_PLAIN,
			"%8u  0x%06x  %-8s  %-5s  %-6s  %8s  %8s  %9s  %9s  %9s  %9s  %10s  %-10s  %s", row->holder->pid, qp->qpn,
			vb_cli_qp_type_name(qp->type), state, qp->through_memory ? "memory" : "wire",
			short_number(row->out, out), short_number(row->in, in), short_number(row->work_bytes, work),
			short_number(row->received_bytes, received), send, receive, trip,
			vb_cli_holder_device(row->holder, qp->interface_index), peer);
}

int vb_cli_top_describe(const struct vb_cli_sample *older, const struct vb_cli_sample *newer, enum vb_cli_sort sort,
			struct vb_cli_lines *lines)
{
	struct vb_cli_rates rates;
	char user[VB_CLI_USER_ROOM];
	int error;

	lines->count = 0;
	if (!newer->has_daemon)
		return add_line(lines, VB_CLI_LINE_TITLE, "No verbenad runs in this network namespace.");
	error = vb_cli_rates_compute(older, newer, sort, &rates);
	if (error == 0)
		error = add_line(lines, VB_CLI_LINE_TITLE, "verbenad %s, pid %u, of %s: %u process%s", newer->daemon.version,
				 newer->daemon.pid, vb_cli_user_name(newer->daemon.uid, user), newer->processes.count,
				 newer->processes.count == 1 ? "" : "es");
	if (error == 0)
		error = add_line(lines, VB_CLI_LINE_HEADING, "%8s  %-15s  %-12s  %6s  %8s  %8s  %9s  %9s  %8s  %8s", "PID",
				 "PROGRAM", "USER", "QPS", "OUT/s", "IN/s", "WORK B/s", "RECV B/s", "RETRY/s", "DROP/s");
	for (unsigned i = 0; error == 0 && i < rates.processes; i++)
		error = describe_process(&rates.process[i], lines);
	if (error == 0)
		error = add_line(lines, VB_CLI_LINE_PLAIN, "%s", "");
	if (error == 0)
		error = add_line(lines, VB_CLI_LINE_HEADING,
				 "%8s  %-8s  %-8s  %-5s  %-6s  %8s  %8s  %9s  %9s  %9s  %9s  %10s  %-10s  %s", "PID", "QPN", "TYPE",
				 "STATE", "WAY", "OUT/s", "IN/s", "WORK B/s", "RECV B/s",
				 "SEND", "RECEIVE", "ROUND TRIP", "DEVICE", "PEER");
	for (unsigned i = 0; error == 0 && i < rates.qps; i++)
		error = describe_qp(&rates.qp[i], lines);
	vb_cli_rates_free(&rates);
	return error;
}
