/* SPDX-License-Identifier: MIT
 *
 * A doubly linked ring of nodes embedded in the objects they link. An empty list points at itself,
 * and so does a node that is on no list: removing it twice is harmless.
 */
#ifndef VB_BASE_LIST_H
#define VB_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct vb_list {
	struct vb_list *next, *previous;
};

#define vb_container_of(pointer, type, member) \
	((type *)(void *)((char *)(pointer) - offsetof(type, member)))

static inline void vb_list_init(struct vb_list *node)
{
	node->next = node->previous = node;
}

static inline bool vb_list_is_empty(const struct vb_list *head)
{
	return head->next == head;
}

static inline void vb_list_append(struct vb_list *head, struct vb_list *node)
{
	node->previous = head->previous;
	node->next = head;
	head->previous->next = node;
	head->previous = node;
}

static inline void vb_list_remove(struct vb_list *node)
{
	node->previous->next = node->next;
	node->next->previous = node->previous;
	vb_list_init(node);
}

/* Safe against removal of the current node. */
#define VB_LIST_FOR_EACH(node, head)                                                    \
	for (struct vb_list *node = (head)->next, *node##_next = node->next;            \
	     node != (head); node = node##_next, node##_next = node->next)

#endif
