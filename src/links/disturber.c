/* SPDX-License-Identifier: MIT */
#include "links/disturber.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/list.h"
#include "base/log.h"
#include "io/clock.h"
#include "io/event.h"
#include "io/thread.h"
#include "queue/qp.h"
#include "wire/burst.h"
#include "wire/icrc.h"
#include "wire/roce_packet.h"

enum { MOST_WAITING = 4096 };

/* No packet may come to overtake a reordered one: then it goes after all. */
#define PATIENCE VB_MILLISECONDS(1)

struct waiting {
	struct vb_list node;
	vb_time due;
	unsigned behind;                   /* later packets that go first; 0: only time counts */
	struct vb_path path;
	size_t length;
	uint8_t bytes[];
};

struct vb_disturber {
	struct vb_disturber_link link;
	struct vb_faults *faults;
	struct vb_list waiting;
	unsigned waiting_count;
	pthread_cond_t changed;
	pthread_t thread;
	bool thread_runs, stopping;
};

/* Caller holds the lock. */
static void send_waiting(struct vb_disturber *disturber, struct waiting *waiting)
{
	vb_list_remove(&waiting->node);
	disturber->waiting_count--;
	(void)disturber->link.send(disturber->link.context, &waiting->path, waiting->bytes, waiting->length);
	free(waiting);
}

/* Caller holds the lock. False: no room, so it is not kept back after all. */
static bool keep_back(struct vb_disturber *disturber, const struct vb_path *path, const uint8_t *bytes, size_t length,
		      const struct vb_faults_action *action)
{
	struct waiting *waiting = disturber->waiting_count < MOST_WAITING ? malloc(sizeof(*waiting) + length) : NULL;

	if (!waiting)
		return false;
	waiting->due = vb_clock_now() + (action->delay > 0 ? action->delay : PATIENCE);
	waiting->behind = action->behind;
	waiting->path = *path;
	waiting->length = length;
	memcpy(waiting->bytes, bytes, length);
	vb_list_append(&disturber->waiting, &waiting->node);
	disturber->waiting_count++;
	pthread_cond_signal(&disturber->changed);
	return true;
}

/* A packet has gone out: those that wait behind it are one nearer. Caller holds the lock. */
static void overtake(struct vb_disturber *disturber)
{
	VB_LIST_FOR_EACH(node, &disturber->waiting) {
		struct waiting *waiting = vb_container_of(node, struct waiting, node);

		if (waiting->behind > 0 && --waiting->behind == 0)
			send_waiting(disturber, waiting);
	}
}

static void damage(uint8_t *bytes, size_t length, uint32_t noise)
{
	size_t at = noise / 8 % length;

	/* The fifth byte is not covered by the ICRC, so that routers may mark congestion there. */
	bytes[at == 4 ? 0 : at] ^= (uint8_t)(1u << noise % 8);
}

static void decide(struct vb_disturber *disturber, const struct vb_qp *qp, const uint8_t *bytes, struct vb_faults_action *action)
{
	struct vb_faults_packet packet = {
		.qpn = qp->qpn,
		.psn = vb_bth_psn(bytes).v,
		.is_request = vb_roce_opcode(bytes[0])->is_request,
	};

	vb_faults_decide(disturber->faults, &packet, action);
	if (action->drop || action->corrupt || action->duplicate || action->delay > 0 || action->behind > 0)
		VB_COUNT(qp->host->counters, disturbed_pkts);
}

/* Returns whether the run is still there. */
static bool thin_run(struct vb_disturber *disturber, const struct vb_qp *qp, struct vb_burst *burst, uint32_t run)
{
	uint32_t noise[VB_BURST_RUN_PACKETS], damaged[VB_BURST_RUN_PACKETS], damages = 0, left = 0;
	struct vb_faults_action action;
	uint64_t lost = 0;
	size_t length;

	for (uint32_t i = 0; i < burst->run[run].packets; i++) {
		decide(disturber, qp, vb_burst_packet(burst, run, i, &length), &action);
		if (action.drop) {
			lost |= UINT64_C(1) << i;
			continue;
		}
		if (action.corrupt) {
			noise[damages] = action.noise;
			damaged[damages++] = left;
		}
		left++;
	}
	if (lost != 0 && !vb_burst_remove(burst, run, lost))
		return false;
	/* Not before: those that moved have got a new ICRC. */
	for (uint32_t i = 0; i < damages; i++) {
		uint8_t *bytes = vb_burst_packet(burst, run, damaged[i], &length);

		damage(bytes, length, noise[i]);
	}
	return true;
}

void vb_disturber_thin(struct vb_disturber *disturber, const struct vb_qp *qp, struct vb_burst *burst)
{
	for (uint32_t run = 0; run < burst->runs;)
		run += thin_run(disturber, qp, burst, run);
}

bool vb_disturber_keeps_runs(const struct vb_disturber *disturber)
{
	return vb_faults_keep_runs(disturber->faults);
}

bool vb_disturber_send(struct vb_disturber *disturber, const struct vb_qp *qp, const struct vb_path *path, uint8_t *bytes, size_t length)
{
	const struct vb_disturber_link *link = &disturber->link;
	struct vb_faults_action action;
	bool taken = true;

	vb_icrc_store(vb_icrc_headers(vb_icrc_begin(path, 0, length), bytes, length - VB_ICRC_LENGTH), bytes + length - VB_ICRC_LENGTH);
	decide(disturber, qp, bytes, &action);
	if (action.corrupt)
		damage(bytes, length, action.noise);
	link->tell(link->context, qp, path, bytes, length, &action, false);
	if (action.drop)
		return true;
	if ((action.delay == 0 && action.behind == 0) || !keep_back(disturber, path, bytes, length, &action)) {
		taken = link->send(link->context, path, bytes, length);
		overtake(disturber);
	}
	if (action.duplicate) {
		link->tell(link->context, qp, path, bytes, length, &action, true);
		(void)link->send(link->context, path, bytes, length);
	}
	return taken;
}

/* ---- time ---- */

/* Sends what is due; returns when the next one will be. Caller holds the lock. */
static vb_time send_due(struct vb_disturber *disturber, vb_time now)
{
	vb_time next = VB_TIME_NEVER;

	VB_LIST_FOR_EACH(node, &disturber->waiting) {
		struct waiting *waiting = vb_container_of(node, struct waiting, node);

		if (waiting->due <= now)
			send_waiting(disturber, waiting);
		else
			next = vb_time_earlier(next, waiting->due);
	}
	return next;
}

static void *run_thread(void *context)
{
	struct vb_disturber *disturber = context;
	struct vb_mutex *lock = disturber->link.lock;

	vb_thread_prepare("verbena-faults");
	vb_mutex_lock(lock);
	while (!disturber->stopping) {
		vb_time next = send_due(disturber, vb_clock_now());
		struct timespec until = {.tv_sec = (time_t)(next / 1000000000), .tv_nsec = (long)(next % 1000000000)};

		if (next == VB_TIME_NEVER)
			vb_mutex_wait(lock, &disturber->changed);
		else
			vb_mutex_wait_until(lock, &disturber->changed, &until);
	}
	vb_mutex_unlock(lock);
	return NULL;
}

static int start_thread(struct vb_disturber *disturber)
{
	int error = vb_thread_start(&disturber->thread, run_thread, disturber);

	disturber->thread_runs = error == 0;
	return error;
}

int vb_disturber_create(struct vb_disturber **out, const char *specification, const struct vb_disturber_link *link)
{
	struct vb_disturber *disturber = calloc(1, sizeof(*disturber));
	pthread_condattr_t attributes;
	char why[256];
	int error;

	if (!disturber)
		return -ENOMEM;
	disturber->link = *link;
	vb_list_init(&disturber->waiting);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&disturber->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	error = vb_faults_create(&disturber->faults, specification, why, sizeof(why));
	if (error != 0)
		vb_log(VB_LOG_ERROR, "VERBENA_FAULTS: %s", why);
	else
		error = start_thread(disturber);
	if (error != 0) {
		vb_disturber_destroy(disturber);
		return error;
	}
	*out = disturber;
	return 0;
}

void vb_disturber_destroy(struct vb_disturber *disturber)
{
	if (!disturber)
		return;
	if (disturber->thread_runs) {
		vb_mutex_lock(disturber->link.lock);
		disturber->stopping = true;
		pthread_cond_signal(&disturber->changed);
		vb_mutex_unlock(disturber->link.lock);
		pthread_join(disturber->thread, NULL);
	}
	/* The last acknowledgement may be among them. */
	VB_LIST_FOR_EACH(node, &disturber->waiting)
		send_waiting(disturber, vb_container_of(node, struct waiting, node));
	vb_faults_destroy(disturber->faults);
	pthread_cond_destroy(&disturber->changed);
	free(disturber);
}
