/* SPDX-License-Identifier: MIT
 *
 * The list of devices. verbenad keeps the table; a listing is a copy.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "io/cancellation.h"
#include "profiles/adapter.h"
#include "progress/devices.h"
#include "verbs/context.h"
#include "verbs/explain_objects.h"
#include "verbs/export.h"

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

VB_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	VB_UNCANCELLED;
	struct vb_device_info *infos = NULL;
	const struct vb_adapter *adapter;
	struct ibv_device **list;
	unsigned count = 0;
	int error;

	if (num_devices != NULL)
		*num_devices = 0;
	error = vb_device_adapter(&adapter);
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
	VB_UNCANCELLED;
	if (list == NULL)
		return;
	for (struct ibv_device **device = list; *device != NULL; device++)
		vb_device_put(vb_device_of(*device));
	free(list);
}
VB_EXPORT_COMPAT(ibv_free_device_list);
