/* SPDX-License-Identifier: MIT
 *
 * See group_order.h.
 */
#include "daemon/group_order.h"

#include <string.h>

static void forget(struct vb_group_order *order, unsigned index)
{
	order->member[index] = VB_GROUP_UNKNOWN;
	order->nonce[index] = 0;
}

/* Whose answer comes after a change may be somewhere else by now: all are asked again. */
static void forget_probes(struct vb_group_order *order)
{
	memset(order->nonce, 0, sizeof(order->nonce));
}

void vb_group_order_append(struct vb_group_order *order, uint16_t number)
{
	if (order->members == VB_GROUP_MEMBERS)
		return;
	order->member[order->members++] = number;
	forget_probes(order);
}

void vb_group_order_begin(struct vb_group_order *order, uint16_t number, unsigned place)
{
	order->members = 0;
	while (order->members < place)
		vb_group_order_append(order, VB_GROUP_UNKNOWN);
	vb_group_order_append(order, number);
}

int vb_group_order_find(const struct vb_group_order *order, uint16_t number)
{
	for (unsigned i = 0; i < order->members; i++)
		if (order->member[i] == number)
			return (int)i;
	return -1;
}

unsigned vb_group_order_unknown(const struct vb_group_order *order)
{
	unsigned unknown = 0;

	for (unsigned i = 0; i < order->members; i++)
		unknown += order->member[i] == VB_GROUP_UNKNOWN;
	return unknown;
}

bool vb_group_order_drop(struct vb_group_order *order, uint16_t number)
{
	int place = vb_group_order_find(order, number);
	unsigned last = order->members - 1;

	if (place < 0)
		return false;
	/* While some are unknown it is not certain which was the last: who moved says so. */
	if (vb_group_order_unknown(order) == 0)
		order->member[place] = order->member[last];
	else
		forget(order, (unsigned)place);
	order->members = last;
	forget_probes(order);
	return true;
}

static bool is_unknown_from(const struct vb_group_order *order, unsigned index)
{
	while (index < order->members && order->member[index] == VB_GROUP_UNKNOWN)
		index++;
	return index == order->members;
}

static int find_nonce(const struct vb_group_order *order, uint64_t nonce)
{
	for (unsigned i = 0; nonce != 0 && i < order->members; i++)
		if (order->nonce[i] == nonce && order->member[i] == VB_GROUP_UNKNOWN)
			return (int)i;
	return -1;
}

bool vb_group_order_seen(struct vb_group_order *order, uint16_t number, uint64_t nonce)
{
	int reported = find_nonce(order, nonce), before = vb_group_order_find(order, number);

	if (reported < 0)
		return false;
	if (before >= 0 && before < reported) {
		/* Behind the end. Who is written behind it stands lower, and will say so. */
		order->nonce[reported] = 0;
		if (!is_unknown_from(order, (unsigned)reported))
			return false;
		order->members = (unsigned)reported;
		return true;
	}
	order->member[reported] = number;
	if (before >= 0)
		forget(order, (unsigned)before);
	return true;
}
