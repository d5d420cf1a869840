/* SPDX-License-Identifier: MIT
 *
 * A record for each destination that is being asked, with two lists in the order of the calls: who has a REQ under way, and who is to
 * send one. Only the first of the latter is ever looked at.
 */
#include "rdmacm/turns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct vb_rdmacm_destination {
	struct vb_list node;
	struct vb_cm_address address;
	uint32_t port_space;
	bool listens;                    /* one of these calls was answered by more than "nobody listens" */
	struct vb_list asked, pending;   /* of turns, by number */
};

static struct vb_rdmacm_destination *destination_at(const struct vb_list *node)
{
	return vb_container_of(node, struct vb_rdmacm_destination, node);
}

static struct vb_rdmacm_turn *turn_at(const struct vb_list *node)
{
	return vb_container_of(node, struct vb_rdmacm_turn, node);
}

static bool is_same(const struct vb_cm_address *a, const struct vb_cm_address *b)
{
	return a->family == b->family && a->port == b->port && a->scope == b->scope && a->service_id == b->service_id &&
	       memcmp(a->gid, b->gid, sizeof(a->gid)) == 0;
}

static struct vb_rdmacm_destination *find(const struct vb_rdmacm_turns *turns, uint32_t port_space, const struct vb_cm_address *to)
{
	VB_LIST_FOR_EACH(node, &turns->destinations)
		if (destination_at(node)->port_space == port_space && is_same(&destination_at(node)->address, to))
			return destination_at(node);
	return NULL;
}

static struct vb_rdmacm_destination *find_or_create(struct vb_rdmacm_turns *turns, uint32_t port_space, const struct vb_cm_address *to)
{
	struct vb_rdmacm_destination *destination = find(turns, port_space, to);

	if (destination != NULL)
		return destination;
	destination = calloc(1, sizeof(*destination));
	if (destination == NULL)
		return NULL;
	destination->address = *to;
	destination->port_space = port_space;
	vb_list_init(&destination->asked);
	vb_list_init(&destination->pending);
	vb_list_append(&turns->destinations, &destination->node);
	return destination;
}

/* As a rule it is the last. */
static void insert(struct vb_list *list, struct vb_rdmacm_turn *turn)
{
	struct vb_list *after = list->previous;

	while (after != list && turn_at(after)->number > turn->number)
		after = after->previous;
	vb_list_append(after->next, &turn->node); /* before what follows it */
}

static void move(struct vb_rdmacm_turn *turn, enum vb_rdmacm_turn_state state, vb_time at)
{
	vb_list_remove(&turn->node);
	turn->state = state;
	turn->at = at;
	insert(state == VB_RDMACM_TURN_ASKED ? &turn->destination->asked : &turn->destination->pending, turn);
}

/* When is the first that waits to ask? */
static vb_time due(const struct vb_rdmacm_destination *destination)
{
	const struct vb_rdmacm_turn *first = turn_at(destination->pending.next), *before = turn_at(destination->asked.next);
	vb_time when = first->state == VB_RDMACM_TURN_REFUSED ? first->at : 0;

	if (destination->listens || vb_list_is_empty(&destination->asked) || before->number > first->number)
		return when;
	return when > before->at + VB_RDMACM_TURN_PATIENCE ? when : before->at + VB_RDMACM_TURN_PATIENCE;
}

void vb_rdmacm_turn_init(struct vb_rdmacm_turn *turn)
{
	*turn = (struct vb_rdmacm_turn){.state = VB_RDMACM_TURN_NONE};
	vb_list_init(&turn->node);
}

int vb_rdmacm_turn_take(struct vb_rdmacm_turns *turns, struct vb_rdmacm_turn *turn, uint32_t port_space, const struct vb_cm_address *to,
			vb_time now)
{
	struct vb_rdmacm_destination *destination;
	bool is_first;

	vb_rdmacm_turn_leave(turn, false); /* of an attempt before */
	destination = find_or_create(turns, port_space, to);
	if (destination == NULL)
		return -ENOMEM;
	is_first = vb_list_is_empty(&destination->pending);
	turn->destination = destination;
	turn->number = ++turns->calls;
	turn->refusals = 0;
	move(turn, VB_RDMACM_TURN_WAITS, 0);
	if (!is_first || due(destination) > now)
		return 0;
	vb_rdmacm_turn_asked(turn, now);
	return 1;
}

void vb_rdmacm_turn_repeat(struct vb_rdmacm_turns *turns, struct vb_rdmacm_turn *turn, uint32_t port_space, const struct vb_cm_address *to)
{
	if (turn->state == VB_RDMACM_TURN_NONE)
		turn->destination = find_or_create(turns, port_space, to);
	if (turn->destination == NULL)
		return; /* no memory: its program is not answered, as if the REQ were lost */
	turn->destination->listens = false; /* that was the listener's old daemon, if it is of this host */
	move(turn, VB_RDMACM_TURN_REFUSED, 0);
}

void vb_rdmacm_turn_asked(struct vb_rdmacm_turn *turn, vb_time now)
{
	if (turn->state != VB_RDMACM_TURN_NONE)
		move(turn, VB_RDMACM_TURN_ASKED, now);
}

void vb_rdmacm_turn_refused(struct vb_rdmacm_turn *turn, unsigned weight, vb_time again)
{
	if (turn->state == VB_RDMACM_TURN_NONE)
		return;
	turn->destination->listens = false;
	/* What they wait for counts: many that are refused are not refused one after the other. */
	VB_LIST_FOR_EACH(node, &turn->destination->pending)
		if (turn_at(node)->number > turn->number)
			turn_at(node)->refusals += weight;
	turn->refusals += weight;
	move(turn, VB_RDMACM_TURN_REFUSED, again);
}

void vb_rdmacm_turn_leave(struct vb_rdmacm_turn *turn, bool listens)
{
	struct vb_rdmacm_destination *destination = turn->destination;

	if (turn->state == VB_RDMACM_TURN_NONE)
		return;
	vb_list_remove(&turn->node);
	turn->state = VB_RDMACM_TURN_NONE;
	turn->destination = NULL;
	destination->listens |= listens;
	if (!vb_list_is_empty(&destination->asked) || !vb_list_is_empty(&destination->pending))
		return;
	vb_list_remove(&destination->node);
	free(destination);
}

struct vb_rdmacm_turn *vb_rdmacm_turns_next(const struct vb_rdmacm_turns *turns, vb_time now)
{
	VB_LIST_FOR_EACH(node, &turns->destinations) {
		const struct vb_rdmacm_destination *destination = destination_at(node);

		if (!vb_list_is_empty(&destination->pending) && due(destination) <= now)
			return turn_at(destination->pending.next);
	}
	return NULL;
}

vb_time vb_rdmacm_turns_deadline(const struct vb_rdmacm_turns *turns)
{
	vb_time when = VB_TIME_NEVER;

	VB_LIST_FOR_EACH(node, &turns->destinations)
		if (!vb_list_is_empty(&destination_at(node)->pending))
			when = vb_time_earlier(when, due(destination_at(node)));
	return when;
}

void vb_rdmacm_turns_forget(struct vb_rdmacm_turns *turns)
{
	vb_list_init(&turns->destinations); /* the records are in the parent's ids, too: left alone */
}
