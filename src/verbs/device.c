/* SPDX-License-Identifier: MIT
 *
 * The list of devices and what can be said of one without opening it.
 *
 * verbenad keeps the table; a listing is a copy. A device is counted: by the list it stands in and by every context
 * opened on it, because programs free the list first and go on using context->device.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "profiles/adapter.h"
#include "progress/devices.h"
#include "verbs/context.h"
#include "verbs/explain_objects.h"
#include "verbs/export.h"

void vb_device_hold(struct vb_device *device)
{
	vb_count_up(&device->references);
}

void vb_device_put(struct vb_device *device)
{
	if (vb_count_down(&device->references) == 0)
		free(device);
}

/* The adapter whose limits devices are to have; NULL: their own. In set-user-ID programs the environment says nothing. */
static int choose_adapter(const struct vb_adapter **adapter)
{
	const char *name = secure_getenv("VERBENA_PROFILE");

	*adapter = name != NULL && *name != '\0' ? vb_adapter_find(name) : NULL;
	return *adapter == NULL && name != NULL && *name != '\0' ? -EINVAL : 0;
}

static void complain_about_adapter(void)
{
	char names[256] = "";
	const struct vb_adapter *adapter;

	for (unsigned i = 0; (adapter = vb_adapter_at(i)) != NULL; i++) {
		strncat(names, i > 0 ? ", " : "", sizeof(names) - strlen(names) - 1);
		strncat(names, adapter->name, sizeof(names) - strlen(names) - 1);
	}
	vb_log(VB_LOG_ERROR, "VERBENA_PROFILE=%s: there is no such profile; there are %s", secure_getenv("VERBENA_PROFILE"), names);
}

/* Only devices that the adapter can be. An iWARP adapter is no RoCE device with other limits: programs connect in another way. */
static unsigned keep_suited(const struct vb_adapter *adapter, struct vb_device_info *infos, unsigned count)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < count; i++)
		if (vb_adapter_suits(adapter, infos[i].kind))
			infos[kept++] = infos[i];
	if (kept == 0 && count > 0)
		vb_log(VB_LOG_ERROR, "VERBENA_PROFILE=%s: that is %s, and none of the %u devices to be seen is of its kind%s",
		       adapter->name, adapter->describes, count,
		       vb_adapter_suits(adapter, VB_DEVICE_ROCE) ? "" : ": it needs iWARP devices (VERBENA_TRANSPORT=iwarp)");
	return kept;
}

/* There is no sysfs behind these devices. The paths are those the kernel would use, because programs take names out of
 * them; what they open there is the view of `verbena run` (cli/view_tree.c), and without that ENOENT. */
struct vb_device *vb_device_from_info(const struct vb_device_info *info)
{
	struct vb_device *device = calloc(1, sizeof(*device));
	const struct vb_adapter *adapter;

	if (device == NULL)
		return NULL;
	device->info = *info;
	device->references = 1;
	device->profile = *vb_profile_of(info->kind);
	if (choose_adapter(&adapter) == 0 && adapter != NULL && vb_adapter_suits(adapter, info->kind))
		vb_profile_lower(&device->profile, adapter);
	device->base.node_type = device->profile.node_type;
	device->base.transport_type = device->profile.transport_type;
	snprintf(device->base.name, sizeof(device->base.name), "%.63s", info->name);
	snprintf(device->base.dev_name, sizeof(device->base.dev_name), "uverbs%u", info->index);
	snprintf(device->base.dev_path, sizeof(device->base.dev_path), "/sys/class/infiniband_verbs/uverbs%u",
		 info->index);
	snprintf(device->base.ibdev_path, sizeof(device->base.ibdev_path), "/sys/class/infiniband/%.63s", info->name);
	return device;
}

VB_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct vb_device_info *infos = NULL;
	const struct vb_adapter *adapter;
	struct ibv_device **list;
	unsigned count = 0;
	int error;

	if (num_devices != NULL)
		*num_devices = 0;
	error = choose_adapter(&adapter);
	if (error != 0) {
		complain_about_adapter();
		return vb_fail_null(error);
	}
	error = vb_devices_list(&infos, &count);
	if (error != 0) {
		vb_explain_no_device("ibv_get_device_list", NULL, -error);
		return vb_fail_null(error);
	}
	/* Many programs take the first device there is: these say which they may see, and in set-user-ID programs say nothing. */
	count = vb_devices_choose(infos, count, secure_getenv("VERBENA_TRANSPORT"), secure_getenv("VERBENA_DEVICES"));
	if (adapter != NULL)
		count = keep_suited(adapter, infos, count);
	list = calloc((size_t)count + 1, sizeof(struct ibv_device *));
	for (unsigned i = 0; list != NULL && i < count; i++) {
		struct vb_device *device = vb_device_from_info(&infos[i]);

		if (device == NULL) {
			ibv_free_device_list(list);
			list = NULL;
			break;
		}
		list[i] = &device->base;
	}
	free(infos);
	if (list == NULL)
		return vb_fail_null(-ENOMEM);
	if (num_devices != NULL)
		*num_devices = (int)count;
	return list;
}
VB_EXPORT_COMPAT(ibv_get_device_list);

VB_EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	if (list == NULL)
		return;
	for (struct ibv_device **device = list; *device != NULL; device++)
		vb_device_put(vb_device_of(*device));
	free(list);
}
VB_EXPORT_COMPAT(ibv_free_device_list);

VB_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device == NULL ? NULL : device->name;
}
VB_EXPORT_COMPAT(ibv_get_device_name);

VB_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	return device == NULL ? 0 : htobe64(vb_device_of(device)->info.guid);
}
VB_EXPORT_COMPAT(ibv_get_device_guid);

VB_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	return device == NULL ? -1 : (int)vb_device_of(device)->info.index;
}

VB_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct vb_session *session;
	int error;

	struct ibv_context *context;

	if (device == NULL)
		return vb_fail_null(-EINVAL);
	error = vb_session_create(vb_device_of(device), &session);
	context = error != 0 ? vb_fail_null(error) : vb_context_open(vb_device_of(device), session);
	if (context == NULL)
		vb_explain_no_device("ibv_open_device", device->name, errno);
	return context;
}
VB_EXPORT_COMPAT(ibv_open_device);
