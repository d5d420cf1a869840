/* SPDX-License-Identifier: MIT
 *
 * See meetings.h.
 */
#include "links/memory/meetings.h"

#include <stdlib.h>

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

static bool answer_one(void *owner)
{
	struct vb_memory_meetings *meetings = owner;
	struct question *question = NULL;

	vb_lock_take(&meetings->lock);
	if (!vb_list_is_empty(&meetings->waiting) && !meetings->asking.stops) {
		question = vb_container_of(meetings->waiting.next, struct question, node);
		vb_list_remove(&question->node);
	}
	meetings->asking.runs = question != NULL;
	vb_lock_release(&meetings->lock);
	if (!question)
		return false;
	answer(meetings->same_host, question);
	free(question);
	return true;
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
	vb_asking_thread_start(&meetings->asking);
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
	meetings->asking.schedule = same_host->schedule;
	meetings->asking.answer = answer_one;
	meetings->asking.owner = meetings;
	vb_list_init(&meetings->waiting);
	vb_lock_init(&meetings->lock, VB_RANK_MEETINGS);
}

void vb_meetings_rest(struct vb_memory_meetings *meetings)
{
	vb_asking_thread_rest(&meetings->asking, &meetings->lock);
}

void vb_meetings_abandon(struct vb_memory_meetings *meetings)
{
	vb_asking_thread_abandon(&meetings->asking);
}

void vb_meetings_close(struct vb_memory_meetings *meetings)
{
	if (!meetings->same_host)
		return;
	vb_asking_thread_stop(&meetings->asking, &meetings->lock);
	while (!vb_list_is_empty(&meetings->waiting)) {
		struct question *question = vb_container_of(meetings->waiting.next, struct question, node);

		vb_list_remove(&question->node);
		free(question);
	}
}
