/* SPDX-License-Identifier: MIT
 *
 * What this process counts and holds, for those who look (`verbena stat`, `verbena res`). Counters are written straight
 * to the page that verbenad sees. Objects are listed only when verbenad asks, by the engine thread, each under its own
 * lock and only for as long as it takes to copy a few numbers: work under way does not notice.
 */
#include "base/log.h"
#include "io/descriptor.h"
#include "progress/endpoint_parts.h"
#include "wire/resource.h"

struct vb_counters *vb_endpoint_counters(struct vb_endpoint *endpoint, uint32_t index)
{
	struct vb_counters *counters = VB_SCHEDULE_COUNTERS(&endpoint->schedule);

	if (endpoint->schedule.abandoned)
		return counters;
	vb_mutex_lock(&endpoint->table_lock);
	for (unsigned i = 0; i < VB_DAEMON_PAGE_DEVICES; i++) {
		struct vb_daemon_page_device *device = &endpoint->schedule.page->device[i];

		if (device->interface_index == 0)
			__atomic_store_n(&device->interface_index, index, __ATOMIC_RELAXED);
		if (device->interface_index == index) {
			counters = &device->counters;
			break;
		}
	}
	vb_mutex_unlock(&endpoint->table_lock);
	return counters;
}

struct id_list {
	struct vb_resource_list *list;
	enum vb_device_kind kind;
};

static void add_id(void *list, const struct vb_resource_cm_id *given)
{
	const struct id_list *ids = list;
	struct vb_resource_cm_id row = *given;

	row.interface_index = vb_device_index(row.interface_index, ids->kind);
	vb_resource_list_add(ids->list, VB_RESOURCE_CM_ID, &row);
}

static void show_ids(const struct vb_endpoint *endpoint, struct vb_resource_list *list)
{
	for (unsigned kind = 0; kind < VB_DEVICE_KINDS; kind++) {
		vb_handover_show_ids *show = __atomic_load_n(&endpoint->show_ids[kind], __ATOMIC_ACQUIRE);

		if (show)
			show(&(struct id_list){list, (enum vb_device_kind)kind}, add_id);
	}
}

void vb_endpoint_show_resources(struct vb_endpoint *endpoint)
{
	struct vb_daemon_message message;
	struct vb_resource_list list;
	const void *bytes;
	size_t length;
	int fd = -1;

	vb_resource_list_init(&list);
	vb_mutex_lock(&endpoint->watcher_lock);
	for (struct vb_endpoint_watcher *watcher = endpoint->watchers; watcher; watcher = watcher->next)
		if (watcher->show)
			watcher->show(watcher, &list);
	vb_mutex_unlock(&endpoint->watcher_lock);
	show_ids(endpoint, &list);
	bytes = vb_resource_list_finish(&list, &length);
	if (bytes)
		fd = vb_page_create_filled("verbena-resources", bytes, length);
	vb_resource_list_fini(&list);
	if (fd < 0)
		vb_log(VB_LOG_WARN, "cannot list this process's resources");
	vb_daemon_message_begin(&message, VB_DAEMON_RESOURCES, 0);
	(void)vb_daemon_client_send(&endpoint->daemon, &message, &fd, fd >= 0 ? 1 : 0);
	if (fd >= 0)
		vb_descriptor_close(fd);
}
