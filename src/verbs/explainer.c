/* SPDX-License-Identifier: MIT
 *
 * See explainer.h. Jobs stand in a list; the thread starts with the first and stays. When the process exits, what was
 * handed over is still written.
 *
 * A peer can provoke failures (datagrams too long for their receives), so explanations are rationed: what is more than
 * EXPLANATIONS_PER_SECOND is counted and told.
 */
#include "verbs/explainer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "base/mutex.h"
#include "io/clock.h"
#include "io/explain_output.h"
#include "io/inquiry.h"
#include "io/thread.h"
#include "progress/endpoint.h"

enum { EXPLANATIONS_PER_SECOND = 50, MOST_WAITING = 64 };
#define PATIENCE VB_MILLISECONDS(2000)
#define GLANCE VB_MICROSECONDS(200)

struct job {
	struct vb_list node;
	struct vb_explain_failure failure;
	struct vb_path path;
};

static struct {
	struct vb_mutex lock;
	pthread_cond_t more;
	struct vb_list jobs;
	unsigned waiting; /* atomic for readers: in the list or in the thread's hands */
	bool runs;
	pid_t pid; /* whose thread it is: a forked child has none */
	vb_time second_began;
	unsigned written, suppressed;
} explainer = {
	.lock = VB_MUTEX_INITIALIZER(VB_RANK_EXPLAINER),
	.more = PTHREAD_COND_INITIALIZER,
	.jobs = {&explainer.jobs, &explainer.jobs},
};

/* Caller holds explainer.lock. */
static bool take_allowance(unsigned *suppressed)
{
	vb_time now = vb_clock_now();

	*suppressed = 0;
	if (explainer.second_began == 0 || now - explainer.second_began >= VB_SECONDS(1)) {
		explainer.second_began = now;
		explainer.written = 0;
	}
	if (explainer.written++ >= EXPLANATIONS_PER_SECOND) {
		explainer.suppressed++;
		return false;
	}
	*suppressed = explainer.suppressed;
	explainer.suppressed = 0;
	return true;
}

void vb_explainer_write(const struct vb_report *report)
{
	char text[VB_REPORT_ROOM];
	unsigned suppressed;
	bool allowed;
	size_t length;

	vb_mutex_lock(&explainer.lock);
	allowed = take_allowance(&suppressed);
	vb_mutex_unlock(&explainer.lock);
	if (!allowed)
		return;
	if (suppressed > 0) {
		struct vb_report more;

		vb_report_begin(&more, "suppressed");
		vb_report_number(&more, "count", suppressed);
		vb_report_say(&more, VB_REPORT_WHAT, "%u explanations before the next were left out", suppressed);
		length = vb_report_render(&more, vb_explain_output_is_json(), (int)getpid(), text, sizeof(text));
		vb_explain_output_write(text, length);
	}
	length = vb_report_render(report, vb_explain_output_is_json(), (int)getpid(), text, sizeof(text));
	vb_explain_output_write(text, length);
}

static void explain(struct vb_explain_failure *failure, const struct vb_path *path)
{
	struct vb_report report;

	if (path) {
		struct vb_inquiry question = {
			.qpn = failure->peer_qpn,
			.asker_qpn = failure->qpn,
			.send_psn = failure->sq_psn,
			.receive_psn = failure->rq_psn,
		};

		failure->reach = vb_inquiry_ask(path, &question, &failure->far);
	}
	vb_explain_failure(failure, &report);
	vb_explainer_write(&report);
}

static void *run(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "verbena-why");
	vb_mutex_lock(&explainer.lock);
	for (;;) {
		struct job *job;

		while (vb_list_is_empty(&explainer.jobs))
			vb_mutex_wait(&explainer.lock, &explainer.more);
		job = vb_container_of(explainer.jobs.next, struct job, node);
		vb_list_remove(&job->node);
		vb_mutex_unlock(&explainer.lock);
		explain(&job->failure, &job->path);
		free(job);
		vb_mutex_lock(&explainer.lock);
		__atomic_sub_fetch(&explainer.waiting, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* Caller holds explainer.lock. */
static bool start(void)
{
	if (explainer.runs && explainer.pid == getpid())
		return true;
	/* In a forked child: what the parent's thread has in hand is the parent's. */
	vb_list_init(&explainer.jobs);
	explainer.waiting = 0;
	explainer.runs = vb_thread_start_detached(run, NULL) == 0;
	explainer.pid = getpid();
	return explainer.runs;
}

void vb_explainer_failure(const struct vb_explain_failure *failure, const struct vb_path *path)
{
	struct vb_explain_failure copy = *failure;
	struct job *job;

	if (!path || !vb_explain_failure_wants_peer(failure)) {
		explain(&copy, NULL);
		return;
	}
	vb_mutex_lock(&explainer.lock);
	job = start() && explainer.waiting < MOST_WAITING ? malloc(sizeof(*job)) : NULL;
	if (job) {
		job->failure = *failure;
		job->path = *path;
		vb_list_append(&explainer.jobs, &job->node);
		__atomic_add_fetch(&explainer.waiting, 1, __ATOMIC_RELAXED);
		pthread_cond_signal(&explainer.more);
	}
	vb_mutex_unlock(&explainer.lock);
	if (!job)
		explain(&copy, NULL);
}

static bool is_busy(void)
{
	return __atomic_load_n(&explainer.waiting, __ATOMIC_ACQUIRE) > 0 && explainer.pid == getpid();
}

static void glance(void)
{
	vb_clock_sleep(GLANCE);
}

void vb_explainer_await(struct vb_endpoint *endpoint)
{
	vb_time deadline = vb_clock_now() + PATIENCE;

	while (is_busy() && vb_clock_now() < deadline) {
		vb_endpoint_progress(endpoint);
		glance();
	}
}

__attribute__((destructor)) static void write_the_rest(void)
{
	vb_time deadline = vb_clock_now() + PATIENCE;

	while (is_busy() && vb_clock_now() < deadline)
		glance();
}
