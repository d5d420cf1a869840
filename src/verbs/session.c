/* SPDX-License-Identifier: MIT
 *
 * Sessions: what an open device shares with the contexts imported from it (ibv_import_device), as the kernel's
 * ib_ucontext would be: the memory table, the handles, the counters, the way to the network.
 */
#include "verbs/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "io/barrier.h"
#include "io/cuda.h"
#include "io/dmabuf.h"
#include "io/process_memory.h"
#include "wire/path.h"

static struct vb_lock sessions_lock = VB_LOCK_INITIALIZER(VB_RANK_SESSIONS);
static struct vb_list sessions VB_GUARDED_BY(sessions_lock) = {&sessions, &sessions};
static uint32_t sessions_made VB_GUARDED_BY(sessions_lock);

/* Two words, so that an id made in another process is not taken for one of ours. */
static uint64_t draw_id(void)
{
	return (uint64_t)vb_endpoint_random(NULL) << 32 | vb_endpoint_random(NULL);
}

static int64_t clock_now(void *context)
{
	(void)context;
	return vb_endpoint_now();
}

int vb_session_create(const struct vb_device *device, struct vb_session **out)
{
	struct vb_memory_host memory_host = {
		.random = vb_endpoint_random,
		.now = clock_now,
		.checked_read = vb_process_memory_read,
		.checked_write = vb_process_memory_write,
		.sync = vb_dmabuf_sync,
		.gpu_read = vb_cuda_read,
		.gpu_write = vb_cuda_write,
		.barrier = vb_barrier_join_own() ? vb_barrier_impose_own : NULL,
	};
	struct vb_session *session = calloc(1, sizeof(*session));
	int error;

	if (session == NULL)
		return -ENOMEM;
	if (memory_host.barrier)
		vb_lock_allow_favourites(memory_host.barrier);
	error = vb_endpoint_get(&session->endpoint);
	if (error != 0)
		goto no_endpoint;
	if (vb_endpoint_needs_port(device->info.kind) && !vb_endpoint_has_port(session->endpoint)) {
		vb_log(VB_LOG_ERROR, "%s cannot be opened: this process has no part of UDP port %d, which is taken, or was when it "
		       "opened its first device", device->info.name, VB_ROCE_PORT);
		vb_endpoint_put(session->endpoint);
		error = -EADDRINUSE;
		goto no_endpoint;
	}
	session->table = vb_endpoint_open_table(session->endpoint, &memory_host);
	session->memory = vb_memory_create(&memory_host, device->profile.limits.mr);
	if (session->memory == NULL) {
		error = -ENOMEM;
		goto no_memory;
	}
	vb_endpoint_show_table(session->endpoint, session->table, session->memory);
	session->counters = vb_endpoint_counters(session->endpoint, device->info.index);
	session->id = draw_id();
	session->references = 1;
	session->next_handle = 1;
	vb_lock_init(&session->lock, VB_RANK_SESSION);
	vb_list_init(&session->pds);
	vb_list_init(&session->regions);
	vb_list_init(&session->device_memories);
	vb_list_init(&session->xrc_domains);
	session->profile = device->profile;
	session->interface_index = device->info.index;
	snprintf(session->device, sizeof(session->device), "%s", device->info.name);

	vb_lock_take(&sessions_lock);
	session->number = ++sessions_made;
	vb_list_append(&sessions, &session->node);
	vb_lock_release(&sessions_lock);
	*out = session;
	return 0;

no_memory:
	vb_endpoint_close_table(session->endpoint, session->table);
	vb_endpoint_put(session->endpoint);
no_endpoint:
	free(session);
	return error;
}

struct vb_session *vb_session_find(uint64_t id)
{
	struct vb_session *found = NULL;

	vb_lock_take(&sessions_lock);
	VB_LIST_FOR_EACH(node, &sessions) {
		struct vb_session *session = vb_container_of(node, struct vb_session, node);

		if (session->id == id) {
			session->references++;
			found = session;
			break;
		}
	}
	vb_lock_release(&sessions_lock);
	return found;
}

void vb_session_put(struct vb_session *session)
{
	bool last;

	vb_lock_take(&sessions_lock);
	last = --session->references == 0;
	if (last)
		vb_list_remove(&session->node);
	vb_lock_release(&sessions_lock);
	if (!last)
		return;
	vb_endpoint_hide_table(session->endpoint, session->table);
	vb_memory_destroy(session->memory);
	vb_endpoint_close_table(session->endpoint, session->table);
	vb_endpoint_put(session->endpoint);
	free(session);
}

uint32_t vb_session_handle(struct vb_session *session)
{
	vb_lock_assert_held(&session->lock);
	return session->next_handle++;
}
