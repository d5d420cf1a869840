/* SPDX-License-Identifier: MIT
 *
 * Opening, importing and closing a device.
 *
 * cmd_fd is a memory file that says which device and session it stands for. Passed to another process (or duplicated)
 * it can be imported: in the same process the import shares the session, so that PDs, regions and device memory can
 * be imported by handle; in another it opens the same device, and handles of the first process name nothing there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "io/cancellation.h"
#include "io/descriptor.h"
#include "verbs/context.h"
#include "verbs/event_queue.h"
#include "verbs/events.h"
#include "verbs/explain_objects.h"
#include "verbs/export.h"

struct identity {
	char magic[16];
	uint64_t session_id;
	char device_name[64];
};

static const char identity_magic[16] = "verbena-context";

static int write_identity(const struct vb_context *context)
{
	struct identity identity = {.session_id = context->session->id};

	memcpy(identity.magic, identity_magic, sizeof(identity.magic));
	memcpy(identity.device_name, context->device->base.name, sizeof(identity.device_name));
	return vb_page_create_filled("verbena-context", &identity, sizeof(identity));
}

/* The listing a device came from may be old. The watcher is in place already, and may have spoken meanwhile: who heard later from
 * verbenad knows better. */
static int refresh_info(struct vb_context *context)
{
	struct vb_device_info *infos;
	unsigned count;
	int error;

	error = vb_devices_list(&infos, &count);
	if (error != 0)
		return error;
	error = -ENODEV;
	vb_lock_take(&context->lock);
	for (unsigned i = 0; i < count && error != 0; i++) {
		if (infos[i].index != context->device->info.index ||
		    strcmp(infos[i].name, context->device->info.name) != 0)
			continue;
		if (infos[i].told >= context->info.told && !context->gone) {
			context->info = infos[i];
			if (context->session->host.pkeys)
				vb_context_adopt_subnet(context);
		}
		error = 0;
	}
	vb_lock_release(&context->lock);
	free(infos);
	return error;
}

/* With that session, which the context then owns. NULL and errno. */
static struct ibv_context *open_context(struct vb_device *device, struct vb_session *session)
{
	struct vb_context *context = calloc(1, sizeof(*context));
	struct ibv_context *public;
	int error = -ENOMEM;

	if (context == NULL)
		goto no_memory;
	public = &context->public.context;
	context->device = device;
	context->session = session;
	context->references = 1;
	context->info = device->info;
	vb_list_init(&context->qps);
	vb_list_init(&context->cqs);
	vb_list_init(&context->srqs);
	vb_list_init(&context->wqs);
	vb_list_init(&context->rwq_tables);
	error = vb_event_queue_init(&context->async);
	if (error != 0)
		goto no_event_queue;
	public->cmd_fd = write_identity(context);
	if (public->cmd_fd < 0) {
		error = public->cmd_fd;
		goto no_identity;
	}
	vb_device_hold(device);
	vb_lock_init(&context->lock, VB_RANK_CONTEXT);
	pthread_mutex_init(&public->mutex, NULL);
	public->device = &device->base;
	public->async_fd = context->async.event_fd.wait_fd;
	public->num_comp_vectors = (int)device->profile.limits.completion_vectors;
	public->abi_compat = __VERBS_ABI_IS_EXTENDED;
	context->public.sz = sizeof(struct verbs_context);
	vb_context_fill_operations(context);

	context->watcher.device_changed = vb_context_device_changed;
	context->watcher.show = vb_context_show;
	vb_endpoint_add_watcher(session->endpoint, &context->watcher);
	error = refresh_info(context);
	if (error != 0) {
		vb_log(VB_LOG_ERROR, "cannot open %s: %s", device->base.name, strerror(-error));
		vb_endpoint_remove_watcher(session->endpoint, &context->watcher);
		vb_context_free(context);
		return vb_fail_null(error);
	}
	return public;

no_identity:
	vb_event_queue_fini(&context->async);
no_event_queue:
	free(context);
no_memory:
	vb_session_put(session);
	return vb_fail_null(error);
}

VB_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	VB_UNCANCELLED;
	struct ibv_context *context;
	struct vb_session *session;
	int error;

	if (device == NULL)
		return vb_fail_null(-EINVAL);
	error = vb_session_open(vb_device_of(device), &session);
	context = error != 0 ? vb_fail_null(error) : open_context(vb_device_of(device), session);
	if (context == NULL)
		vb_explain_no_device("ibv_open_device", device->name, errno);
	return context;
}
VB_EXPORT_COMPAT(ibv_open_device);

/* Queue pairs still there when their device is closed become deaf at once, as when the kernel tears a context down. */
static void withdraw_queue_pairs(struct vb_context *context)
{
	for (;;) {
		struct vb_queue_pair *qp = NULL;

		vb_lock_take(&context->lock);
		if (!vb_list_is_empty(&context->qps)) {
			qp = vb_container_of(context->qps.next, struct vb_queue_pair, node);
			vb_list_remove(&qp->node);
		}
		vb_lock_release(&context->lock);
		if (qp == NULL)
			return;
		vb_endpoint_withdraw(context->session->endpoint, qp->qp);
	}
}

/* ibv_close_device(3): "-1 on failure", unlike the others. */
VB_EXPORT int ibv_close_device(struct ibv_context *context)
{
	VB_UNCANCELLED;
	struct vb_context *own;

	if (context == NULL) {
		errno = EINVAL;
		return -1;
	}
	own = vb_context_of(context);
	vb_endpoint_remove_watcher(own->session->endpoint, &own->watcher);
	withdraw_queue_pairs(own);
	vb_context_put(context);
	return 0;
}
VB_EXPORT_COMPAT(ibv_close_device);

static struct vb_device *find_device(const char *name)
{
	struct vb_device_info *infos;
	struct vb_device *device = NULL;
	unsigned count;
	int error = vb_devices_list(&infos, &count);

	if (error != 0)
		return vb_fail_null(error);
	errno = ENODEV;
	for (unsigned i = 0; i < count && device == NULL; i++)
		if (strcmp(infos[i].name, name) == 0)
			device = vb_device_from_info(&infos[i]);
	free(infos);
	return device;
}

VB_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	VB_UNCANCELLED;
	struct identity identity;
	struct vb_session *session;
	struct vb_device *device;
	struct ibv_context *context;
	ssize_t length = vb_descriptor_read_at(cmd_fd, &identity, sizeof(identity), 0);
	int error;

	if (length < 0)
		return vb_fail_null((int)length);
	if (length != (ssize_t)sizeof(identity) ||
	    memcmp(identity.magic, identity_magic, sizeof(identity_magic)) != 0)
		return vb_fail_null(-EINVAL);
	identity.device_name[sizeof(identity.device_name) - 1] = '\0';
	device = find_device(identity.device_name);
	if (device == NULL)
		return NULL;
	session = vb_session_find(identity.session_id);
	error = session != NULL ? 0 : vb_session_open(device, &session);
	context = error == 0 ? open_context(device, session) : vb_fail_null(error);
	vb_device_put(device);
	return context;
}
