/* SPDX-License-Identifier: MIT
 *
 * Chained hashing that doubles when chains get longer than one on average: ten thousand ids are looked up as fast as
 * ten.
 */
#include "rdmacm/registry.h"

#include <errno.h>
#include <stdlib.h>

static struct vb_rdmacm_id **bucket_of(const struct vb_rdmacm_registry *registry, uint32_t handle)
{
	return &registry->bucket[(handle * 2654435761u >> 7) & (registry->size - 1)];
}

static int grow(struct vb_rdmacm_registry *registry)
{
	struct vb_rdmacm_registry larger = {.size = registry->size ? registry->size * 2 : 64, .count = registry->count};

	larger.bucket = calloc(larger.size, sizeof(*larger.bucket));
	if (larger.bucket == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < registry->size; i++) {
		for (struct vb_rdmacm_id *id = registry->bucket[i], *next; id != NULL; id = next) {
			struct vb_rdmacm_id **bucket = bucket_of(&larger, id->handle);

			next = id->registry_next;
			id->registry_next = *bucket;
			*bucket = id;
		}
	}
	free(registry->bucket);
	*registry = larger;
	return 0;
}

int vb_rdmacm_registry_insert(struct vb_rdmacm_registry *registry, struct vb_rdmacm_id *id)
{
	struct vb_rdmacm_id **bucket;

	if (registry->count >= registry->size && grow(registry) != 0)
		return -ENOMEM;
	bucket = bucket_of(registry, id->handle);
	id->registry_next = *bucket;
	*bucket = id;
	registry->count++;
	return 0;
}

void vb_rdmacm_registry_remove(struct vb_rdmacm_registry *registry, struct vb_rdmacm_id *id)
{
	if (registry->size == 0)
		return;
	for (struct vb_rdmacm_id **place = bucket_of(registry, id->handle); *place != NULL; place = &(*place)->registry_next) {
		if (*place == id) {
			*place = id->registry_next;
			registry->count--;
			return;
		}
	}
}

struct vb_rdmacm_id *vb_rdmacm_registry_find(const struct vb_rdmacm_registry *registry, uint32_t handle)
{
	if (registry->size == 0)
		return NULL;
	for (struct vb_rdmacm_id *id = *bucket_of(registry, handle); id != NULL; id = id->registry_next)
		if (id->handle == handle)
			return id;
	return NULL;
}

void vb_rdmacm_registry_visit(const struct vb_rdmacm_registry *registry,
			      void (*visit)(struct vb_rdmacm_id *id, const void *context), const void *context)
{
	for (uint32_t i = 0; i < registry->size; i++)
		for (struct vb_rdmacm_id *id = registry->bucket[i]; id != NULL; id = id->registry_next)
			visit(id, context);
}

struct vb_rdmacm_id *vb_rdmacm_registry_drain(struct vb_rdmacm_registry *registry)
{
	struct vb_rdmacm_id *chain = NULL;

	for (uint32_t i = 0; i < registry->size; i++) {
		for (struct vb_rdmacm_id *id = registry->bucket[i], *next; id != NULL; id = next) {
			next = id->registry_next;
			id->registry_next = chain;
			chain = id;
		}
		registry->bucket[i] = NULL;
	}
	registry->count = 0;
	return chain;
}
