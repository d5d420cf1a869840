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

/* ---- rates ---- */

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

static void rate_qp(const struct vb_resource_qp *was, const struct vb_resource_qp *now, double seconds, struct vb_cli_qp_rates *row)
{
	if (!was || was->state != now->state || vb_cli_has_records(was) != vb_cli_has_records(now))
		return;
	if (vb_cli_has_records(now)) {
		row->out = (now->sends_done - was->sends_done) / seconds;
		row->in = (now->receives_done - was->receives_done) / seconds;
	} else {
		row->out = psn_rate(was->send_psn, now->send_psn, seconds);
		row->in = psn_rate(was->expected_psn, now->expected_psn, seconds);
	}
	row->work_bytes = rate(was->work_bytes, now->work_bytes, seconds);
	row->received_bytes = rate(was->received_bytes, now->received_bytes, seconds);
}

/* What a process's counters, which count packets, do not know of: bytes, and what goes through memory without packets. */
static void add_queue_pairs(const struct vb_cli_sample *older, const struct vb_cli_sample *newer, double seconds,
			     struct vb_cli_process_rates *row)
{
	uint32_t pid = row->process->process.pid;

	for (unsigned i = 0; i < newer->holders.count; i++) {
		const struct vb_cli_holder *holder = &newer->holders.row[i];

		for (unsigned j = 0; holder->pid == pid && j < holder->count[VB_RESOURCE_QP]; j++) {
			const struct vb_resource_qp *now = &holder->of[VB_RESOURCE_QP][j].qp;
			struct vb_cli_qp_rates of = { 0 };

			rate_qp(find_qp(older, pid, now->qpn), now, seconds, &of);
			row->work_bytes += of.work_bytes;
			row->received_bytes += of.received_bytes;
			if (!vb_cli_has_records(now))
				continue;
			row->out += of.out;
			row->in += of.in;
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

/* The larger first. */
static int by_size(double x, double y)
{
	int rank_x = magnitude(x), rank_y = magnitude(y);

	return (rank_x < rank_y) - (rank_x > rank_y);
}

static int by_number(uint32_t x, uint32_t y)
{
	return (x > y) - (x < y);
}

static int compare_processes(const void *a, const void *b, void *order)
{
	const struct vb_cli_process_rates *x = a, *y = b;
	int result = 0;

	switch (*(const enum vb_cli_sort *)order) {
	case VB_CLI_SORT_RATE:
		result = by_size(x->out + x->in, y->out + y->in);
		break;
	case VB_CLI_SORT_RETRIES:
		result = by_size(x->retries + x->lost, y->retries + y->lost);
		break;
	case VB_CLI_SORT_PROGRAM:
		result = strcmp(x->process->program, y->process->program);
		break;
	default:
		break;
	}
	return result ? result : by_number(x->process->process.pid, y->process->process.pid);
}

static int compare_qps(const void *a, const void *b, void *order)
{
	const struct vb_cli_qp_rates *x = a, *y = b;
	int result = 0;

	switch (*(const enum vb_cli_sort *)order) {
	case VB_CLI_SORT_RATE:
		result = by_size(x->out + x->in, y->out + y->in);
		break;
	case VB_CLI_SORT_PROGRAM:
		result = strcmp(x->holder->program, y->holder->program);
		break;
	case VB_CLI_SORT_PEER:
		result = memcmp(x->qp->peer_gid, y->qp->peer_gid, sizeof(x->qp->peer_gid));
		break;
	case VB_CLI_SORT_PID:
		result = by_number(x->holder->pid, y->holder->pid);
		break;
	default:
		break;
	}
	return result ? result : by_number(x->qp->qpn, y->qp->qpn);
}

static void rate_processes(const struct vb_cli_sample *older, const struct vb_cli_sample *newer, double seconds,
			   struct vb_cli_rates *rates)
{
	for (unsigned i = 0; i < newer->processes.count; i++) {
		const struct vb_cli_process *now = &newer->processes.row[i];
		const struct vb_cli_process *before = find_process(older, now->process.pid);
		const struct vb_counters *was = before ? &before->process.counters : &now->process.counters;
		struct vb_cli_process_rates *row = &rates->process[rates->processes++];

		*row = (struct vb_cli_process_rates){
			.process = now,
			.out = rate(was->sent_pkts, now->process.counters.sent_pkts, seconds),
			.in = rate(was->rcvd_pkts, now->process.counters.rcvd_pkts, seconds),
			.retries = rate(retries(was), retries(&now->process.counters), seconds),
			.lost = rate(lost(was), lost(&now->process.counters), seconds),
		};
		add_queue_pairs(older, newer, seconds, row);
	}
}

static void rate_qps(const struct vb_cli_sample *older, const struct vb_cli_sample *newer, double seconds,
		     struct vb_cli_rates *rates)
{
	for (unsigned i = 0; i < newer->holders.count; i++) {
		const struct vb_cli_holder *holder = &newer->holders.row[i];

		for (unsigned j = 0; j < holder->count[VB_RESOURCE_QP]; j++) {
			const struct vb_resource_qp *now = &holder->of[VB_RESOURCE_QP][j].qp;
			struct vb_cli_qp_rates *row = &rates->qp[rates->qps++];

			*row = (struct vb_cli_qp_rates){.holder = holder, .qp = now};
			rate_qp(find_qp(older, holder->pid, now->qpn), now, seconds, row);
		}
	}
}

int vb_cli_rates_compute(const struct vb_cli_sample *older, const struct vb_cli_sample *newer, enum vb_cli_sort sort,
			 struct vb_cli_rates *rates)
{
	double seconds = (double)(newer->when - older->when) / 1e9;
	unsigned qps = 0;

	/* The first look has nothing before it to compare with. */
	if (seconds <= 0)
		seconds = 1;
	for (unsigned i = 0; i < newer->holders.count; i++)
		qps += newer->holders.row[i].count[VB_RESOURCE_QP];
	*rates = (struct vb_cli_rates){
		.process = calloc(newer->processes.count + 1, sizeof(*rates->process)),
		.qp = calloc(qps + 1, sizeof(*rates->qp)),
	};
	if (!rates->process || !rates->qp) {
		vb_cli_rates_free(rates);
		return -ENOMEM;
	}
	rate_processes(older, newer, seconds, rates);
	rate_qps(older, newer, seconds, rates);
	qsort_r(rates->process, rates->processes, sizeof(*rates->process), compare_processes, &sort);
	qsort_r(rates->qp, rates->qps, sizeof(*rates->qp), compare_qps, &sort);
	return 0;
}

void vb_cli_rates_free(struct vb_cli_rates *rates)
{
	free(rates->process);
	free(rates->qp);
	*rates = (struct vb_cli_rates){ 0 };
}
