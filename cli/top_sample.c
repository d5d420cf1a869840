/* SPDX-License-Identifier: MIT
 *
 * Samples and rates. A queue pair has no counters of its own (its packets would have to be counted twice): its rates are
 * the differences of its PSNs, which grow by one for each packet of a request or of a read's answer. Where it goes through memory
 * there are no packets: its rates are work requests that are done, and messages that used up a receive. Of WRITEs and READs the
 * other side knows nothing then.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/names.h"
#include "cli/top.h"
#include "io/clock.h"

int vb_cli_sample_take(struct vb_daemon_client *daemon, struct vb_cli_sample *sample)
{
	int error = 0;

	*sample = (struct vb_cli_sample){ .when = vb_clock_now() };
	if (daemon->fd < 0) {
		error = vb_daemon_client_connect(daemon, false);
		if (error == -ECONNREFUSED || error == -ECONNRESET)
			return 0;
	}
	if (error == 0)
		error = vb_cli_processes_get(daemon, &sample->processes);
	if (error == 0)
		error = vb_cli_holders_get(daemon, 0, &sample->holders);
	sample->has_daemon = error == 0;
	sample->daemon = *daemon;
	if (error) {
		vb_daemon_client_close(daemon);
		vb_cli_sample_free(sample);
	}
	/* It ended between two samples: the next look finds its successor, if there is one. */
	return error == -ECONNRESET ? 0 : error;
}

void vb_cli_sample_free(struct vb_cli_sample *sample)
{
	vb_cli_processes_free(&sample->processes);
	vb_cli_holders_free(&sample->holders);
}

/* ---- lines ---- */

__attribute__((format(printf, 3, 4)))
static int add_line(struct vb_cli_lines *lines, enum vb_cli_line_style style, const char *format, ...)
{
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
	vsnprintf(lines->line[lines->count].text, sizeof(lines->line[0].text), format, arguments);
	va_end(arguments);
	lines->count++;
	return 0;
}

void vb_cli_lines_free(struct vb_cli_lines *lines)
{
	free(lines->line);
	*lines = (struct vb_cli_lines){ 0 };
}

/* ---- rates ---- */

struct process_row {
	const struct vb_cli_process *process;
	double out, in, retries, lost;
};

struct qp_row {
	const struct vb_cli_holder *holder;
	const struct vb_resource_qp *qp;
	double out, in;
};

static const struct vb_cli_process *find_process(const struct vb_cli_sample *sample, uint32_t pid)
{
	for (unsigned i = 0; i < sample->processes.count; i++)
		if (sample->processes.row[i].process.pid == pid)
			return &sample->processes.row[i];
	return NULL;
}

static const struct vb_resource_qp *find_qp(const struct vb_cli_sample *sample, uint32_t pid, uint32_t qpn)
{
	for (unsigned i = 0; i < sample->holders.count; i++) {
		const struct vb_cli_holder *holder = &sample->holders.row[i];

		if (holder->pid != pid)
			continue;
		for (unsigned j = 0; j < holder->count[VB_RESOURCE_QP]; j++)
			if (holder->of[VB_RESOURCE_QP][j].qp.qpn == qpn)
				return &holder->of[VB_RESOURCE_QP][j].qp;
	}
	return NULL;
}

static double rate(uint64_t before, uint64_t now, double seconds)
{
	return now > before ? (double)(now - before) / seconds : 0;
}

/* PSNs are numbers of 24 bits; one that went back (a retransmission is under way) is no progress. */
static double psn_rate(uint32_t before, uint32_t now, double seconds)
{
	uint32_t ahead = (now - before) & 0xffffff;

	return ahead < 0x800000 ? ahead / seconds : 0;
}

static void rate_qp(const struct vb_resource_qp *was, const struct vb_resource_qp *now, double seconds, double *out, double *in)
{
	*out = *in = 0;
	if (!was || was->state != now->state || was->through_memory != now->through_memory)
		return;
	if (now->through_memory) {
		*out = (now->sends_done - was->sends_done) / seconds;
		*in = (now->receives_done - was->receives_done) / seconds;
	} else {
		*out = psn_rate(was->send_psn, now->send_psn, seconds);
		*in = psn_rate(was->expected_psn, now->expected_psn, seconds);
	}
}

/* What a process's counters, which count packets, do not know of. */
static void add_memory_rates(const struct vb_cli_sample *older, const struct vb_cli_sample *newer, double seconds,
			     struct process_row *row)
{
	uint32_t pid = row->process->process.pid;

	for (unsigned i = 0; i < newer->holders.count; i++) {
		const struct vb_cli_holder *holder = &newer->holders.row[i];

		for (unsigned j = 0; holder->pid == pid && j < holder->count[VB_RESOURCE_QP]; j++) {
			const struct vb_resource_qp *now = &holder->of[VB_RESOURCE_QP][j].qp;
			double out, in;

			if (!now->through_memory)
				continue;
			rate_qp(find_qp(older, pid, now->qpn), now, seconds, &out, &in);
			row->out += out;
			row->in += in;
		}
	}
}

static uint64_t retries(const struct vb_counters *c)
{
	return c->completer_retry_err + c->local_ack_timeout_err;
}

static uint64_t lost(const struct vb_counters *c)
{
	return c->out_of_seq_request + c->duplicate_request + c->dropped_pkts + c->icrc_error + c->malformed_pkts;
}

/* Powers of two are told apart, no finer: two ends of one conversation would change places at every look. */
static int magnitude(double rate)
{
	int power = 0;

	frexp(rate, &power);
	return rate > 0 ? power : INT_MIN;
}

static int busier_process(const void *a, const void *b)
{
	const struct process_row *x = a, *y = b;
	int rank_x = magnitude(x->out + x->in), rank_y = magnitude(y->out + y->in);

	if (rank_x != rank_y)
		return rank_x < rank_y ? 1 : -1;
	return (x->process->process.pid > y->process->process.pid) -
	       (x->process->process.pid < y->process->process.pid);
}

static int busier_qp(const void *a, const void *b)
{
	const struct qp_row *x = a, *y = b;
	int rank_x = magnitude(x->out + x->in), rank_y = magnitude(y->out + y->in);

	if (rank_x != rank_y)
		return rank_x < rank_y ? 1 : -1;
	return (x->qp->qpn > y->qp->qpn) - (x->qp->qpn < y->qp->qpn);
}

/* 950, 12.3k, 4.5M: always within seven characters. */
static const char *short_number(double value, char text[16])
{
	if (value < 10000)
		snprintf(text, 16, "%.0f", value);
	else if (value < 1e6)
		snprintf(text, 16, "%.1fk", value / 1e3);
	else
		snprintf(text, 16, "%.2fM", value / 1e6);
	return text;
}

static int describe_processes(const struct vb_cli_sample *older, const struct vb_cli_sample *newer, double seconds,
			      struct vb_cli_lines *lines)
{
	unsigned count = newer->processes.count;
	struct process_row *row = calloc(count + 1, sizeof(*row));
	char user[VB_CLI_USER_ROOM], out[16], in[16], again[16], bad[16];
	int error = row ? 0 : -ENOMEM;

	for (unsigned i = 0; error == 0 && i < count; i++) {
		const struct vb_cli_process *now = &newer->processes.row[i];
		const struct vb_cli_process *before = find_process(older, now->process.pid);
		const struct vb_counters *was = before ? &before->process.counters : &now->process.counters;

		row[i] = (struct process_row){
			.process = now,
			.out = rate(was->sent_pkts, now->process.counters.sent_pkts, seconds),
			.in = rate(was->rcvd_pkts, now->process.counters.rcvd_pkts, seconds),
			.retries = rate(retries(was), retries(&now->process.counters), seconds),
			.lost = rate(lost(was), lost(&now->process.counters), seconds),
		};
		add_memory_rates(older, newer, seconds, &row[i]);
	}
	if (error == 0)
		qsort(row, count, sizeof(*row), busier_process);
	if (error == 0)
		error = add_line(lines, VB_CLI_LINE_HEADING, "%8s  %-15s  %-12s  %6s  %8s  %8s  %8s  %8s", "PID",
				 "PROGRAM", "USER", "QPS", "OUT/s", "IN/s", "RETRY/s", "DROP/s");
	for (unsigned i = 0; error == 0 && i < count; i++)
		error = add_line(lines, row[i].retries > 0 ? VB_CLI_LINE_BAD : VB_CLI_LINE_PLAIN,
				 "%8u  %-15s  %-12.12s  %6u  %8s  %8s  %8s  %8s", row[i].process->process.pid,
				 row[i].process->program, vb_cli_user_name(row[i].process->process.uid, user),
				 row[i].process->process.queue_pairs, short_number(row[i].out, out),
				 short_number(row[i].in, in), short_number(row[i].retries, again),
				 short_number(row[i].lost, bad));
	free(row);
	return error;
}

static int describe_qp(const struct qp_row *row, struct vb_cli_lines *lines)
{
	const struct vb_resource_qp *qp = row->qp;
	char peer[INET6_ADDRSTRLEN + 16] = "-", address[INET6_ADDRSTRLEN], out[16], in[16], send[24], receive[24],
				     trip[24] = "-";
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
			"%8u  0x%06x  %-4s  %-5s  %-6s  %8s  %8s  %9s  %9s  %10s  %-10s  %s", row->holder->pid, qp->qpn,
			vb_cli_qp_type_name(qp->type), state, qp->through_memory ? "memory" : "wire",
			short_number(row->out, out), short_number(row->in, in), send, receive, trip,
			vb_cli_holder_device(row->holder, qp->interface_index), peer);
}

static int describe_qps(const struct vb_cli_sample *older, const struct vb_cli_sample *newer, double seconds,
			struct vb_cli_lines *lines)
{
	struct qp_row *row;
	unsigned count = 0, at = 0;
	int error;

	for (unsigned i = 0; i < newer->holders.count; i++)
		count += newer->holders.row[i].count[VB_RESOURCE_QP];
	row = calloc(count + 1, sizeof(*row));
	if (!row)
		return -ENOMEM;
	for (unsigned i = 0; i < newer->holders.count; i++) {
		const struct vb_cli_holder *holder = &newer->holders.row[i];

		for (unsigned j = 0; j < holder->count[VB_RESOURCE_QP]; j++, at++) {
			const struct vb_resource_qp *now = &holder->of[VB_RESOURCE_QP][j].qp;
			const struct vb_resource_qp *was = find_qp(older, holder->pid, now->qpn);

			row[at] = (struct qp_row){ .holder = holder, .qp = now };
			rate_qp(was, now, seconds, &row[at].out, &row[at].in);
		}
	}
	qsort(row, count, sizeof(*row), busier_qp);
	error = add_line(lines, VB_CLI_LINE_PLAIN, "%s", "");
	if (error == 0)
		error = add_line(lines, VB_CLI_LINE_HEADING,
				 "%8s  %-8s  %-4s  %-5s  %-6s  %8s  %8s  %9s  %9s  %10s  %-10s  %s", "PID", "QPN", "TYPE",
				 "STATE", "WAY", "OUT/s", "IN/s", "SEND", "RECEIVE", "ROUND TRIP", "DEVICE", "PEER");
	for (unsigned i = 0; error == 0 && i < count; i++)
		error = describe_qp(&row[i], lines);
	free(row);
	return error;
}

int vb_cli_top_describe(const struct vb_cli_sample *older, const struct vb_cli_sample *newer,
			struct vb_cli_lines *lines)
{
	double seconds = (double)(newer->when - older->when) / 1e9;
	char user[VB_CLI_USER_ROOM];
	int error;

	lines->count = 0;
	if (!newer->has_daemon)
		return add_line(lines, VB_CLI_LINE_TITLE, "No verbenad runs in this network namespace.");
	error = add_line(lines, VB_CLI_LINE_TITLE, "verbenad %s, pid %u, of %s: %u process%s", newer->daemon.version,
			 newer->daemon.pid, vb_cli_user_name(newer->daemon.uid, user), newer->processes.count,
			 newer->processes.count == 1 ? "" : "es");
	/* The first look has nothing before it to compare with. */
	if (seconds <= 0)
		seconds = 1;
	if (error == 0)
		error = describe_processes(older, newer, seconds, lines);
	if (error == 0)
		error = describe_qps(older, newer, seconds, lines);
	return error;
}
