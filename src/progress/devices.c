/* SPDX-License-Identifier: MIT
 *
 * Asking verbenad what devices there are.
 */
#include "progress/devices.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "io/daemon_client.h"
#include "profiles/profile.h"
#include "profiles/roce_versions.h"
#include "progress/device_message.h"
#include "wire/path.h"

_Static_assert((int)VB_MAX_GIDS == (int)VB_DAEMON_GIDS, "GID tables differ");

/* Frames do not come back to the host that sends them, so the loopback device has RoCEv2 alone. */
static unsigned versions_of(const struct vb_daemon_device *device)
{
	static const uint8_t nowhere[6];
	const char *chosen = secure_getenv("VERBENA_ROCE");
	unsigned versions = vb_roce_versions(chosen, secure_getenv("VERBENA_PROFILE"));

	if (versions == 0)
		vb_log_limited(VB_LOG_ERROR, "VERBENA_ROCE=%s: known are v2, v1 and v1,v2; taken for v2", chosen);
	if (versions == 0 || device->kind != VB_DEVICE_ROCE || memcmp(device->mac, nowhere, sizeof(nowhere)) == 0)
		return VB_ROCE_V2;
	return versions;
}

static void enter_gids(struct vb_device_info *info, const struct vb_daemon_device *device)
{
	unsigned versions = versions_of(device);

	for (uint32_t i = 0; i < device->gid_count; i++) {
		for (unsigned version = VB_ROCE_V1; version <= VB_ROCE_V2; version <<= 1) {
			struct vb_device_gid *entry = &info->gid[info->gid_count];

			if (!(versions & version) || info->gid_count == VB_MAX_GIDS)
				continue;
			memcpy(entry->gid, device->gid[i], sizeof(entry->gid));
			entry->framing = version == VB_ROCE_V1 ? VB_FRAMING_ETHERNET : VB_FRAMING_UDP;
			info->gid_count++;
		}
	}
	for (uint32_t i = 0; device->subnet.state != 0 && i < info->gid_count; i++)
		info->gid[i].framing = VB_FRAMING_GLOBAL;
}

void vb_device_from_message(struct vb_device_info *info, const struct vb_daemon_device *device)
{
	memset(info, 0, sizeof(*info));
	memcpy(info->name, device->name, sizeof(info->name));
	memcpy(info->interface, device->interface, sizeof(info->interface));
	info->interface_index = device->interface_index;
	info->kind = device->kind;
	info->index = vb_device_index(device->interface_index, info->kind);
	memcpy(info->mac, device->mac, sizeof(info->mac));
	info->guid = device->guid;
	info->interface_mtu = device->interface_mtu;
	info->active_mtu = (enum ibv_mtu)device->active_mtu;
	info->state = device->active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	info->subnet = device->subnet;
	if (device->subnet.state != 0)
		info->state = (enum ibv_port_state)device->subnet.state;
	info->speed_mbps = device->speed_mbps;
	info->told = device->told;
	enter_gids(info, device);
}

struct list {
	struct vb_device_info *info;
	unsigned count;
	int error;
};

static bool take_device(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	struct list *list = context;
	struct vb_device_info *larger;

	(void)fds;
	(void)count;
	if (message->header.type != VB_DAEMON_DEVICE)
		return true;
	if (list->count == VB_MAX_DEVICES)
		return false;
	larger = realloc(list->info, (list->count + 1) * sizeof(*larger));
	if (!larger) {
		list->error = -ENOMEM;
		return false;
	}
	list->info = larger;
	vb_device_from_message(&larger[list->count++], &message->device);
	return true;
}

int vb_devices_list(struct vb_device_info **out, unsigned *count)
{
	struct vb_daemon_client client;
	struct vb_daemon_message request;
	struct list list = {0};
	int error = vb_daemon_client_connect(&client, true);

	if (error != 0)
		return error;
	vb_daemon_message_begin(&request, VB_DAEMON_LIST_DEVICES, 0);
	error = vb_daemon_client_request(&client, &request, NULL, 0, take_device, &list);
	vb_daemon_client_close(&client);
	if (error == 0)
		error = list.error;
	if (error != 0) {
		vb_log(VB_LOG_ERROR, "verbenad does not list its devices: %s", strerror(-error));
		free(list.info);
		return error;
	}
	*out = list.info;
	*count = list.count;
	return 0;
}

static bool is_wanted(const char *wanted, const char *name)
{
	size_t length = strlen(name);

	while (wanted != NULL) {
		if (strncmp(wanted, name, length) == 0 && (wanted[length] == ',' || wanted[length] == '\0'))
			return true;
		wanted = strchr(wanted, ',');
		wanted += wanted != NULL;
	}
	return false;
}

/* What a program sees that asks for nothing. Who joined a fabric wants it seen. */
static const char by_default[] = "roce,infiniband";

/* Where a kind stands in the list; kinds that are not in it come last. */
static unsigned rank_of(const char *transports, enum vb_device_kind kind)
{
	const char *name = vb_profile_of(kind)->name;
	size_t length = strlen(name);
	unsigned rank = 0;

	for (const char *at = transports; at != NULL; at = strchr(at, ','), at += at != NULL, rank++)
		if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
			return rank;
	return UINT_MAX;
}

/* Those of a rank to place `kept`, in their order. How many there are before the next. */
static unsigned gather(struct vb_device_info *infos, unsigned count, unsigned kept, const char *transports, unsigned rank)
{
	for (unsigned i = kept; i < count; i++) {
		struct vb_device_info found = infos[i];

		if (rank_of(transports, found.kind) != rank)
			continue;
		memmove(&infos[kept + 1], &infos[kept], (i - kept) * sizeof(infos[0]));
		infos[kept++] = found;
	}
	return kept;
}

static unsigned choose_kinds(struct vb_device_info *infos, unsigned count, const char *transports)
{
	unsigned kept = 0;

	for (unsigned rank = 0; rank < VB_DEVICE_KINDS; rank++)
		kept = gather(infos, count, kept, transports, rank);
	return kept;
}

/* Programs that take the first device want one that works; interfaces that are down (no cable, docker0, ifb0) come before others by
 * chance. The loopback device, which always works, stays behind those that reach other hosts. */
static void put_down_ones_last(struct vb_device_info *infos, unsigned count)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < count; i++) {
		struct vb_device_info found = infos[i];

		if (found.state == IBV_PORT_DOWN)
			continue;
		memmove(&infos[kept + 1], &infos[kept], (i - kept) * sizeof(infos[0]));
		infos[kept++] = found;
	}
}

bool vb_devices_may_show(enum vb_device_kind kind, const char *transports, const char *wanted)
{
	if (transports != NULL && *transports != '\0')
		return rank_of(transports, kind) != UINT_MAX;
	if (wanted != NULL && *wanted != '\0')
		return strstr(wanted, vb_profile_of(kind)->device_prefix) != NULL;
	return rank_of(by_default, kind) != UINT_MAX;
}

unsigned vb_devices_choose(struct vb_device_info *infos, unsigned count, const char *transports, const char *wanted)
{
	bool names_kinds = transports != NULL && *transports != '\0', names_devices = wanted != NULL && *wanted != '\0';
	unsigned kept = 0;

	if (names_kinds || !names_devices)
		count = choose_kinds(infos, count, names_kinds ? transports : by_default);
	put_down_ones_last(infos, count);
	if (!names_devices)
		return count;
	for (unsigned i = 0; i < count; i++)
		if (is_wanted(wanted, infos[i].name))
			infos[kept++] = infos[i];
	return kept;
}

/* Widths: 1 = 1x, 2 = 4x. Speeds: 1 = 2.5, 2 = 5, 4 = 10, 8 = 10.3125, 16 = 14.0625, 32 = 25.78125, 64 = 53.125,
 * 128 = 106.25 Gb/s per lane (IBA 14.2.5.6). The first row that is fast enough; unknown (loopback) counts as 10
 * Gb/s. */
void vb_device_link_speed(const struct vb_device_info *info, uint8_t *width, uint8_t *speed)
{
	static const struct { uint32_t mbps; uint8_t width, speed; } rows[] = {
		{2500, 1, 1}, {10000, 1, 8}, {20000, 2, 2}, {25000, 1, 32}, {40000, 2, 8}, {50000, 1, 64},
		{56000, 2, 16}, {100000, 2, 32}, {200000, 2, 64}, {400000, 2, 128},
	};
	uint32_t mbps = info->speed_mbps != 0 ? info->speed_mbps : 10000;
	size_t last = sizeof(rows) / sizeof(rows[0]) - 1, i = 0;

	if (info->subnet.state != 0) {
		*width = info->subnet.width;
		*speed = info->subnet.speed;
		return;
	}
	while (i < last && rows[i].mbps < mbps)
		i++;
	*width = rows[i].width;
	*speed = rows[i].speed;
}
