/* SPDX-License-Identifier: MIT
 *
 * Queue pairs through memory, by the CQs that their completions go to. A pass (pairs.c) looks at all queue pairs of the
 * process under one lock, `progress`; threads that poll CQs of their own would wait for each other there, and fetch
 * each other's cache lines. So a thread that polls looks at the queue pairs of that CQ, under the CQ's own lock, and
 * makes a pass only now and then.
 *
 * What a queue pair leads to is taken away under `progress` and under the locks of its pollers: either is enough to look at it.
 *
 * A CQ of many queue pairs is left to passes, which know by doorbells whom to look at.
 */
#include "io/clock.h"
#include "io/event.h"
#include "links/memory/memory_link.h"
#include "queue/qp.h"

enum {
	FEW = 16,                          /* are looked at one by one */
	TAKES_PER_POLL = 16,
	POLLS_PER_PASS = 32,               /* though there be nothing else to do */
};

/* `uses`: as how many users of its CQ it counts (queue/completion_queue.h). */
static void join(struct vb_poller *poller, struct vb_list *list, struct vb_list *node, uint32_t uses)
{
	vb_lock_take(&poller->lock);
	vb_list_append(list, node);
	__atomic_store_n(&poller->pairs, poller->pairs + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&poller->uses, poller->uses + uses, __ATOMIC_RELAXED);
	vb_lock_release(&poller->lock);
}

/* Whether it is in a list is looked at under the lock: those that join beside it write to it. */
static void quit(struct vb_poller *poller, struct vb_list *node, uint32_t uses)
{
	vb_lock_take(&poller->lock);
	if (!vb_list_is_empty(node)) {
		vb_list_remove(node);
		__atomic_store_n(&poller->pairs, poller->pairs - 1, __ATOMIC_RELAXED);
		__atomic_store_n(&poller->uses, poller->uses - uses, __ATOMIC_RELAXED);
	}
	vb_lock_release(&poller->lock);
}

/* An XRC sender has no CQ for receives, and a receiver none that is the same for all: vb_pollers_follow. */
static struct vb_poller *sender_of(const struct vb_qp *qp)
{
	return qp->send_cq ? qp->send_cq->poller : NULL;
}

static struct vb_poller *receiver_of(const struct vb_qp *qp)
{
	return qp->recv_cq && !qp->xrc_domain ? qp->recv_cq->poller : NULL;
}

void vb_pollers_join(const struct vb_qp *qp, struct vb_pair *pair)
{
	struct vb_poller *sender = sender_of(qp), *receiver = receiver_of(qp);

	vb_list_init(&pair->as_sender);
	vb_list_init(&pair->as_receiver);
	if (sender)
		join(sender, &sender->senders, &pair->as_sender, receiver == sender ? 2 : 1);
	if (receiver && receiver != sender)
		join(receiver, &receiver->receivers, &pair->as_receiver, 1);
}

void vb_pollers_quit(const struct vb_qp *qp, struct vb_pair *pair)
{
	struct vb_poller *sender = sender_of(qp), *receiver = receiver_of(qp);

	if (sender)
		quit(sender, &pair->as_sender, receiver == sender ? 2 : 1);
	if (receiver && receiver != sender)
		quit(receiver, &pair->as_receiver, 1);
	if (pair->receiver)
		quit(pair->receiver, &pair->as_receiver, 0);
	pair->receiver = NULL;
}

void vb_pollers_follow(const struct vb_qp *qp, struct vb_pair *pair)
{
	struct vb_poller *receiver = qp->recv_cq ? qp->recv_cq->poller : NULL;

	__atomic_store_n(&pair->strays, false, __ATOMIC_RELAXED);
	if (receiver == pair->receiver)
		return;
	/* XRC: it is the SRQ that uses the CQ. */
	if (pair->receiver)
		quit(pair->receiver, &pair->as_receiver, 0);
	pair->receiver = receiver;
	if (receiver)
		join(receiver, &receiver->receivers, &pair->as_receiver, 0);
}

void vb_pollers_leave(struct vb_pair *pair, const struct vb_cq *cq)
{
	if (!pair->receiver || pair->receiver != cq->poller)
		return;
	quit(pair->receiver, &pair->as_receiver, 0);
	pair->receiver = NULL;
}

/* Does nothing come by other links, or at most for queue pairs without a peer that complete elsewhere? A thread that waits for those polls
 * there: a pass now and then is enough. UCX keeps such a UD queue pair. With the sockets looked at in each vain poll eight bytes between
 * two ranks of Open MPI took 0.75 us, and 0.55 so. */
static bool is_alone(const struct vb_link *link, const struct vb_poller *poller)
{
	return vb_link_carries_all(link) ||
	       (vb_link_carries_all_peers(link) &&
		__atomic_load_n(&poller->uses, __ATOMIC_RELAXED) == __atomic_load_n(poller->users, __ATOMIC_RELAXED));
}

static bool look_at_sender(struct vb_same_host *same_host, struct vb_pair *pair, const struct vb_poller *poller, vb_time now)
{
	const struct vb_qp *qp = __atomic_load_n(&pair->qp, __ATOMIC_ACQUIRE);

	return qp && vb_pair_look(same_host, pair, now, receiver_of(qp) == poller);
}

static bool look_at_own(struct vb_same_host *same_host, struct vb_poller *poller, vb_time now)
{
	bool done = false;

	/* Another thread polls this very CQ. */
	if (!vb_lock_try(&poller->lock))
		return false;
	VB_LIST_FOR_EACH(node, &poller->senders)
		done |= look_at_sender(same_host, vb_container_of(node, struct vb_pair, as_sender), poller, now);
	VB_LIST_FOR_EACH(node, &poller->receivers)
		done |= vb_pair_look(same_host, vb_container_of(node, struct vb_pair, as_receiver), now, true);
	vb_lock_release(&poller->lock);
	return done;
}

/* As many as there are, until there is no more room or one of them needs more than that. */
static int take_from_own(struct vb_same_host *same_host, struct vb_poller *poller, const struct vb_cq *cq, int room, struct ibv_wc *wc)
{
	int taken = 0, more = 0;

	if (!vb_lock_try(&poller->lock))
		return -1;
	for (struct vb_list *node = poller->senders.next; node != &poller->senders && more >= 0 && taken < room; node = node->next) {
		more = vb_pair_take(same_host, vb_container_of(node, struct vb_pair, as_sender), cq, room - taken, wc + taken);
		taken += more > 0 ? more : 0;
	}
	for (struct vb_list *node = poller->receivers.next; node != &poller->receivers && more >= 0 && taken < room; node = node->next) {
		more = vb_pair_take(same_host, vb_container_of(node, struct vb_pair, as_receiver), cq, room - taken, wc + taken);
		taken += more > 0 ? more : 0;
	}
	vb_lock_release(&poller->lock);
	return taken > 0 ? taken : more;
}

/* Of several polls one goes the ordinary way, so that nothing is put off for long that is no message. */
int vb_pollers_take(struct vb_link *link, struct vb_poller *poller, const struct vb_cq *cq, int room, struct ibv_wc *wc)
{
	struct vb_schedule *schedule = link->schedule;
	uint32_t pairs = __atomic_load_n(&poller->pairs, __ATOMIC_RELAXED);
	uint32_t polls = __atomic_load_n(&poller->polls, __ATOMIC_RELAXED) + 1;
	int taken;

	if (pairs == 0 || pairs > FEW || schedule->abandoned || __atomic_load_n(&schedule->spinner.watched, __ATOMIC_RELAXED) ||
	    polls % TAKES_PER_POLL == 0)
		return -1;
	__atomic_store_n(&poller->polls, polls, __ATOMIC_RELAXED);
	taken = take_from_own(vb_same_host_of(link), poller, cq, room, wc);
	if (taken < 0 || (taken == 0 && !(is_alone(link, poller) &&
					  vb_schedule_active(schedule) == 0)))
		return -1;
	if (vb_spinner_must_yield(&poller->vain_polls, 1, taken > 0))
		(void)vb_schedule_yield();
	return taken;
}

bool vb_pollers_poll(struct vb_link *link, struct vb_poller *poller, vb_time now, bool *done)
{
	struct vb_schedule *schedule = link->schedule;
	uint32_t pairs = __atomic_load_n(&poller->pairs, __ATOMIC_RELAXED);
	uint32_t polls = __atomic_load_n(&poller->polls, __ATOMIC_RELAXED) + 1;

	if (pairs == 0 || pairs > FEW)
		return false;
	__atomic_store_n(&poller->polls, polls, __ATOMIC_RELAXED);
	*done = look_at_own(vb_same_host_of(link), poller, now);
	if (polls % POLLS_PER_PASS == 0)
		return false;
	return *done || (is_alone(link, poller) && vb_timers_next(&schedule->timers) > now &&
			 vb_schedule_active(schedule) == 0);
}
