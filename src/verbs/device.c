/* SPDX-License-Identifier: MIT
 *
 * A device and what can be said of it without opening it. It is counted: by the list it stands in (device_list.c) and by
 * every context opened on it, because programs free the list first and go on using context->device.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "connect/mpa_settings.h"
#include "profiles/adapter.h"
#include "verbs/context.h"
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

int vb_device_adapter(const struct vb_adapter **adapter)
{
	const char *name = secure_getenv("VERBENA_PROFILE");

	*adapter = name != NULL && *name != '\0' ? vb_adapter_find(name) : NULL;
	return *adapter == NULL && name != NULL && *name != '\0' ? -EINVAL : 0;
}

/* Words that are not understood are complained of where connections are made. */
static bool wants_extensions(void)
{
	struct vb_mpa_settings settings;
	char why[128];

	vb_mpa_settings_parse(&settings, secure_getenv("VERBENA_IWARP"), why, sizeof(why));
	return settings.extensions;
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
	if (wants_extensions())
		vb_profile_extend(&device->profile);
	if (vb_device_adapter(&adapter) == 0 && adapter != NULL && vb_adapter_suits(adapter, info->kind))
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

/* ibv_get_device_index(3): a number that the kernel has given. UCX asks the kernel about the device of that number, if it is one. */
VB_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	(void)device;
	return -1;
}
