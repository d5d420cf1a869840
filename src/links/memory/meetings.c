/* SPDX-License-Identifier: MIT
 *
 * See meetings.h.
 */
#include "links/memory/meetings.h"

#include <signal.h>
#include <stdlib.h>

#include "io/clock.h"
#include "io/event.h"
#include "links/memory/memory_link.h"
#include "local/bypass.h"

struct question {
	struct vb_list node;
	uint32_t qpn;                      /* of ours */
	struct vb_meeting meeting;
};

static struct vb_memory_meetings *meetings_of(struct vb_meetings *meetings)
{
	return (struct vb_memory_meetings *)meetings;
}

/* ---- a queue pair and its peer ---- */

void vb_meetings_part(struct vb_same_host *same_host, struct vb_qp *qp, struct vb_pair *pair)
{
	struct vb_local_bypass *bypass = pair->bypass;

	if (!bypass)
		return;
	qp->transport->bypassed(qp, NULL);
	pair->bypass = NULL;
	__atomic_sub_fetch(&same_host->bypasses, 1, __ATOMIC_RELAXED);
	vb_memory_dismiss_peer(qp->host->memory);
	vb_local_bypass_close(bypass);
	vb_host_peers_put(same_host, pair->host_peer);
	pair->host_peer = NULL;
}

/* Takes the host peer. Caller holds progress and qp->lock. */
static void join(struct vb_same_host *same_host, struct vb_qp *qp, const struct vb_meeting *meeting, struct vb_host_peer *host_peer)
{
	const struct vb_local_meeting shown = {
		.table = (uint32_t)meeting->table,
		.peer_qpn = meeting->peer_qpn,
		.connection = meeting->connection,
	};
	struct vb_pair *pair = vb_pair_of(same_host, qp);
	bool connected = qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD;

	/* Of a connection before, under the same number. */
	vb_meetings_part(same_host, qp, pair);
	/* Where there is GPU memory the peer cannot copy for itself. */
	if (connected && qp->transport->bypassed && vb_memory_admit_peer(qp->host->memory)) {
		pair->bypass = vb_local_bypass_open(qp, same_host->segment, &host_peer->peer, &shown);
		if (!pair->bypass)
			vb_memory_dismiss_peer(qp->host->memory);
	}
	if (!pair->bypass) {
		vb_host_peers_put(same_host, host_peer);
		return;
	}
	pair->host_peer = host_peer;
	__atomic_add_fetch(&same_host->bypasses, 1, __ATOMIC_RELAXED);
	qp->transport->bypassed(qp, vb_local_bypass_way(pair->bypass));
}

/* ---- asking ---- */

static void answer(struct vb_same_host *same_host, const struct question *question)
{
	struct vb_schedule *schedule = same_host->schedule;
	struct vb_host_peer *host_peer = NULL;
	struct vb_qp *qp;

	if (vb_host_peers_resolve(same_host, question->meeting.gid, question->meeting.peer_qpn, &host_peer) != VB_RESOLVED_HOST_PEER)
		return;
	vb_lock_take(&schedule->progress);
	qp = vb_schedule_find(schedule, question->qpn);
	if (qp) {
		vb_lock_take(&qp->lock);
		join(same_host, qp, &question->meeting, host_peer);
		vb_lock_release(&qp->lock);
	} else {
		vb_host_peers_put(same_host, host_peer);
	}
	vb_lock_release(&schedule->progress);
}

/* NULL: there is none, and this thread is to end. */
static struct question *take(struct vb_memory_meetings *meetings)
{
	struct question *question = NULL;

	vb_lock_take(&meetings->lock);
	if (!vb_list_is_empty(&meetings->waiting) && !meetings->stops) {
		question = vb_container_of(meetings->waiting.next, struct question, node);
		vb_list_remove(&question->node);
	}
	meetings->runs = question != NULL;
	vb_lock_release(&meetings->lock);
	return question;
}

static void *run(void *argument)
{
	struct vb_memory_meetings *meetings = argument;
	struct question *question;

	vb_thread_prepare("verbena-meets");
	while ((question = take(meetings)) != NULL) {
		answer(meetings->same_host, question);
		free(question);
	}
	/* It joins us before it sleeps. */
	vb_schedule_kick(meetings->same_host->schedule);
	return NULL;
}

/* Caller holds the lock, which the thread has given back for the last time. */
static void join_thread(struct vb_memory_meetings *meetings)
{
	if (meetings->has_thread)
		pthread_join(meetings->thread, NULL);
	__atomic_store_n(&meetings->has_thread, false, __ATOMIC_RELAXED);
}

/* Caller holds the lock. */
static void start(struct vb_memory_meetings *meetings)
{
	sigset_t all, before;

	if (meetings->runs || meetings->stops)
		return;
	join_thread(meetings);
	/* Signals belong to the application's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	meetings->runs = pthread_create(&meetings->thread, NULL, run, meetings) == 0;
	__atomic_store_n(&meetings->has_thread, meetings->runs, __ATOMIC_RELAXED);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void ask(struct vb_memory_meetings *meetings, uint32_t qpn, const struct vb_meeting *meeting)
{
	struct question *question = malloc(sizeof(*question));

	if (!question)
		return;
	question->qpn = qpn;
	question->meeting = *meeting;
	vb_lock_take(&meetings->lock);
	vb_list_append(&meetings->waiting, &question->node);
	start(meetings);
	vb_lock_release(&meetings->lock);
}

static void meet(struct vb_meetings *asked, struct vb_qp *qp, const struct vb_meeting *meeting)
{
	struct vb_memory_meetings *meetings = meetings_of(asked);
	struct vb_host_peer *host_peer;

	/* More devices are open than a segment has tables. */
	if (meeting->table < 0)
		return;
	host_peer = vb_host_peers_known(meetings->same_host, meeting->gid, meeting->peer_qpn);
	if (host_peer)
		join(meetings->same_host, qp, meeting, host_peer);
	else
		ask(meetings, qp->qpn, meeting);
}

/* ---- beginning and end ---- */

void vb_meetings_open(struct vb_memory_meetings *meetings, struct vb_same_host *same_host)
{
	meetings->meetings.meet = meet;
	meetings->same_host = same_host;
	vb_list_init(&meetings->waiting);
	vb_lock_init(&meetings->lock, VB_RANK_MEETINGS);
}

void vb_meetings_rest(struct vb_memory_meetings *meetings)
{
	if (!__atomic_load_n(&meetings->has_thread, __ATOMIC_RELAXED))
		return;
	vb_lock_take(&meetings->lock);
	if (!meetings->runs)
		join_thread(meetings);
	vb_lock_release(&meetings->lock);
}

void vb_meetings_abandon(struct vb_memory_meetings *meetings)
{
	meetings->has_thread = false;
}

void vb_meetings_close(struct vb_memory_meetings *meetings)
{
	if (!meetings->same_host)
		return;
	vb_lock_take(&meetings->lock);
	meetings->stops = true;
	vb_lock_release(&meetings->lock);
	if (meetings->has_thread)
		pthread_join(meetings->thread, NULL);
	while (!vb_list_is_empty(&meetings->waiting)) {
		struct question *question = vb_container_of(meetings->waiting.next, struct question, node);

		vb_list_remove(&question->node);
		free(question);
	}
}
