/* SPDX-License-Identifier: MIT
 *
 * Queue pairs through memory, by the CQs that their completions go to. A pass (local_pairs.c) looks at all queue pairs of the process
 * under one lock, `progress`; threads that poll CQs of their own would wait for each other there, and fetch each other's cache
 * lines. So whoever polls looks at the queue pairs of that CQ, under the CQ's own lock, and makes a pass only now and then.
 *
 * What a queue pair leads to is taken away under `progress` and under the locks of its pollers: either is enough to look at it.
 *
 * A CQ of many queue pairs is left to passes, which know by bells whom to look at.
 */
#include "io/clock.h"
#include "progress/endpoint_parts.h"
#include "progress/same_host.h"
#include "queue/qp.h"

enum {
	FEW = 16,                          /* are looked at one by one */
	POLLS_PER_PASS = 16,               /* though there be nothing else to do */
};

void vb_poller_init(struct vb_poller *poller)
{
	*poller = (struct vb_poller){0};
	vb_lock_init(&poller->lock);
	vb_list_init(&poller->senders);
	vb_list_init(&poller->receivers);
}

void vb_poller_fini(struct vb_poller *poller)
{
	vb_lock_fini(&poller->lock);
}

static void join(struct vb_poller *poller, struct vb_list *list, struct vb_list *node)
{
	vb_lock_take(&poller->lock);
	vb_list_append(list, node);
	__atomic_store_n(&poller->pairs, poller->pairs + 1, __ATOMIC_RELAXED);
	vb_lock_release(&poller->lock);
}

static void quit(struct vb_poller *poller, struct vb_list *node)
{
	vb_lock_take(&poller->lock);
	vb_list_remove(node);
	__atomic_store_n(&poller->pairs, poller->pairs - 1, __ATOMIC_RELAXED);
	vb_lock_release(&poller->lock);
}

void vb_local_pollers_join(const struct vb_qp *qp, struct vb_binding *binding)
{
	struct vb_poller *sender = qp->send_cq->poller, *receiver = qp->recv_cq->poller;

	vb_list_init(&binding->as_sender);
	vb_list_init(&binding->as_receiver);
	if (sender)
		join(sender, &sender->senders, &binding->as_sender);
	if (receiver && receiver != sender)
		join(receiver, &receiver->receivers, &binding->as_receiver);
}

void vb_local_pollers_quit(const struct vb_qp *qp, struct vb_binding *binding)
{
	if (!vb_list_is_empty(&binding->as_sender))
		quit(qp->send_cq->poller, &binding->as_sender);
	if (!vb_list_is_empty(&binding->as_receiver))
		quit(qp->recv_cq->poller, &binding->as_receiver);
}

static bool look_at_own(struct vb_endpoint *endpoint, struct vb_poller *poller, vb_time now)
{
	bool done = false;

	/* Somebody else polls this very CQ. */
	if (!vb_lock_try(&poller->lock))
		return false;
	VB_LIST_FOR_EACH(node, &poller->senders)
		done |= vb_local_pair_look(endpoint, vb_container_of(node, struct vb_binding, as_sender), now);
	VB_LIST_FOR_EACH(node, &poller->receivers)
		done |= vb_local_pair_look(endpoint, vb_container_of(node, struct vb_binding, as_receiver), now);
	vb_lock_release(&poller->lock);
	return done;
}

bool vb_local_pollers_suffice(struct vb_endpoint *endpoint, struct vb_poller *poller, vb_time now, bool *done)
{
	uint32_t pairs = __atomic_load_n(&poller->pairs, __ATOMIC_RELAXED);
	uint32_t polls = __atomic_load_n(&poller->polls, __ATOMIC_RELAXED) + 1;

	if (pairs == 0 || pairs > FEW)
		return false;
	__atomic_store_n(&poller->polls, polls, __ATOMIC_RELAXED);
	*done = look_at_own(endpoint, poller, now);
	if (polls % POLLS_PER_PASS == 0)
		return false;
	return *done || (vb_local_pairs_are_all(endpoint) && vb_timers_next(&endpoint->timers) > now &&
			 __atomic_load_n(&endpoint->active_count, __ATOMIC_RELAXED) == 0);
}
