/* SPDX-License-Identifier: MIT
 *
 * From interfaces to devices.
 *
 * GID order for a new device is rxe's: link-local IPv6, IPv4, other IPv6. Index 0 is kept for the link-local address where there will be
 * one: it comes a second or two after the others, and a daemon that starts before it must not number them otherwise than one that
 * starts after. Loopback has none; there 127.0.0.1 comes first, because that is the index programs try without being told.
 *
 * Loopback is the last device: programs take the first one they find, and want to reach other hosts.
 */
#include "daemon/device_table.h"

#include <stdio.h>
#include <string.h>

#include "profiles/profile.h"
#include "wire/mtu.h"
#include "wire/path.h"

enum {
	/* IPv6, UDP, BTH, the longest extension of a packet with payload (RETH and immediate), ICRC. */
	PACKET_OVERHEAD = 40 + 8 + 12 + 16 + 4 + 4,
};

static const uint8_t hole[16];

static unsigned address_rank(const struct vb_interface *interface, const uint8_t gid[16])
{
	if (vb_gid_is_ipv4(gid))
		return 1;
	if (gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80)
		return interface->is_loopback ? 3 : 0;
	return 2;
}

static int find_gid(const struct vb_daemon_device *device, const uint8_t gid[16])
{
	for (uint32_t i = 0; i < device->gid_count; i++)
		if (memcmp(device->gid[i], gid, 16) == 0)
			return (int)i;
	return -1;
}

/* In the first hole from `from` on, or at the end. */
static void add_gid(struct vb_daemon_device *device, const uint8_t gid[16], uint32_t from)
{
	uint32_t at = from;

	while (at < device->gid_count && memcmp(device->gid[at], hole, sizeof(hole)) != 0)
		at++;
	if (at == VB_DAEMON_GIDS)
		return;
	if (at >= device->gid_count)
		device->gid_count = at + 1;
	memcpy(device->gid[at], gid, 16);
}

static void update_gids(struct vb_daemon_device *device, const struct vb_interface *interface)
{
	const uint32_t kept = interface->takes_link_local ? 1 : 0;

	for (uint32_t i = 0; i < device->gid_count; i++) {
		bool lives = false;

		for (uint32_t j = 0; j < interface->addresses; j++)
			lives = lives || memcmp(device->gid[i], interface->address[j], 16) == 0;
		if (!lives)
			memset(device->gid[i], 0, 16);
	}
	for (unsigned rank = 0; rank <= 3; rank++)
		for (uint32_t j = 0; j < interface->addresses; j++)
			if (address_rank(interface, interface->address[j]) == rank &&
			    memcmp(interface->address[j], hole, 16) != 0 &&
			    find_gid(device, interface->address[j]) < 0)
				add_gid(device, interface->address[j], rank == 0 ? 0 : kept);
	while (device->gid_count > 0 && memcmp(device->gid[device->gid_count - 1], hole, 16) == 0)
		device->gid_count--;
}

/* EUI-64 of the MAC address (RFC 4291 appendix A); where there is none, a number made from host and interface,
 * marked as locally administered. */
static uint64_t make_guid(const struct vb_interface *interface, uint64_t host_seed)
{
	static const uint8_t none[6];
	uint8_t eui[8] = {interface->mac[0] ^ 2, interface->mac[1], interface->mac[2], 0xff,
			  0xfe, interface->mac[3], interface->mac[4], interface->mac[5]};
	uint64_t guid = 0;

	if (memcmp(interface->mac, none, sizeof(none)) == 0) {
		uint64_t mixed = (host_seed ^ interface->index) * UINT64_C(0x9e3779b97f4a7c15);

		mixed ^= mixed >> 29;
		for (unsigned i = 0; i < 8; i++)
			eui[i] = (uint8_t)(mixed >> 8 * i);
		eui[0] = 0x02;
	}
	for (unsigned i = 0; i < 8; i++)
		guid = guid << 8 | eui[i];
	return guid;
}

static void describe(struct vb_daemon_device *device, const struct vb_interface *interface, uint64_t host_seed)
{
	uint32_t payload = interface->mtu > PACKET_OVERHEAD ? interface->mtu - PACKET_OVERHEAD : 0;
	unsigned code = vb_mtu_code(payload);
	bool has_address = false;

	memset(device->name, 0, sizeof(device->name));
	device->kind = VB_DEVICE_ROCE;
	snprintf(device->name, sizeof(device->name), "%s%s", vb_profile_of(VB_DEVICE_ROCE)->device_prefix, interface->name);
	memset(device->interface, 0, sizeof(device->interface));
	memcpy(device->interface, interface->name, strnlen(interface->name, sizeof(device->interface) - 1));
	device->interface_index = interface->index;
	memcpy(device->mac, interface->mac, sizeof(device->mac));
	device->guid = make_guid(interface, host_seed);
	device->interface_mtu = interface->mtu;
	device->active_mtu = code ? code : VB_MTU_CODE_MIN;
	device->speed_mbps = interface->speed_mbps;
	update_gids(device, interface);
	for (uint32_t i = 0; i < device->gid_count; i++)
		has_address = has_address || memcmp(device->gid[i], hole, 16) != 0;
	/* An interface too small for any RoCE packet stays down. */
	device->active = interface->is_up && interface->is_running && has_address && code != 0;
}

/* Names go to sysfs-like places and to terminals. */
static bool name_is_plain(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name <= ' ' || *name == 0x7f || *name == '/')
			return false;
	return true;
}

static bool is_usable(const struct vb_interface *interface)
{
	return (interface->is_ethernet || interface->is_loopback || interface->addresses > 0) &&
	       name_is_plain(interface->name);
}

static struct vb_daemon_device *find_device(struct vb_device_table *table, uint32_t interface_index)
{
	for (unsigned i = 0; i < table->count; i++)
		if (table->device[i].interface_index == interface_index)
			return &table->device[i];
	return NULL;
}

static void drop_vanished(struct vb_device_table *table, const struct vb_interface *interfaces, unsigned count,
			  vb_device_table_report *report, void *context)
{
	for (unsigned i = 0; i < table->count;) {
		bool lives = false;

		for (unsigned j = 0; j < count; j++)
			lives = lives || (interfaces[j].index == table->device[i].interface_index &&
					  is_usable(&interfaces[j]));
		if (lives) {
			i++;
			continue;
		}
		report(context, &table->device[i], true);
		memmove(&table->device[i], &table->device[i + 1],
			(table->count - i - 1) * sizeof(table->device[0]));
		table->count--;
	}
}

/* At the end, but before loopback. */
static struct vb_daemon_device *make_place(struct vb_device_table *table, const struct vb_interface *interface)
{
	unsigned at = table->count;

	if (interface->is_loopback)
		table->loopback_index = interface->index;
	else if (at > 0 && table->device[at - 1].interface_index == table->loopback_index)
		at--;
	memmove(&table->device[at + 1], &table->device[at], (table->count - at) * sizeof(table->device[0]));
	table->count++;
	memset(&table->device[at], 0, sizeof(table->device[at]));
	return &table->device[at];
}

void vb_device_table_update(struct vb_device_table *table, const struct vb_interface *interfaces, unsigned count,
			    vb_device_table_report *report, void *context)
{
	drop_vanished(table, interfaces, count, report, context);
	for (unsigned i = 0; i < count; i++) {
		struct vb_daemon_device *device = find_device(table, interfaces[i].index), before;

		if (!is_usable(&interfaces[i]))
			continue;
		if (!device) {
			if (table->count == VB_DEVICE_TABLE_ROOM)
				continue;
			device = make_place(table, &interfaces[i]);
		}
		before = *device;
		describe(device, &interfaces[i], table->host_seed);
		if (memcmp(&before, device, sizeof(before)) != 0)
			report(context, device, false);
	}
}

/* EUI-64s in use before there were 64-bit ones have fffe in the middle, others fffd (as siw has): so both kinds have one of their own. */
static uint64_t other_guid(uint64_t guid)
{
	return (guid >> 24 & 0xffff) == 0xfffe ? guid - (UINT64_C(1) << 24) : guid ^ 1;
}

void vb_device_table_show_as(struct vb_daemon_device *shown, const struct vb_daemon_device *device, enum vb_device_kind kind)
{
	unsigned code = vb_mtu_code(device->interface_mtu);

	*shown = *device;
	if (kind == VB_DEVICE_ROCE)
		return;
	shown->kind = (uint8_t)kind;
	memset(shown->name, 0, sizeof(shown->name));
	snprintf(shown->name, sizeof(shown->name), "%s%s", vb_profile_of(kind)->device_prefix, device->interface);
	shown->guid = other_guid(device->guid);
	/* As siw: a stream has no packets, so no headers count. */
	shown->active_mtu = code ? code : VB_MTU_CODE_MIN;
}

bool vb_device_table_get(const struct vb_device_table *table, uint32_t index, struct vb_daemon_device *shown)
{
	for (unsigned i = 0; i < table->count; i++) {
		for (unsigned kind = 0; kind < VB_INTERFACE_KINDS; kind++) {
			if (vb_device_index(table->device[i].interface_index, (enum vb_device_kind)kind) != index)
				continue;
			vb_device_table_show_as(shown, &table->device[i], (enum vb_device_kind)kind);
			return true;
		}
	}
	return false;
}

bool vb_device_table_find(const struct vb_device_table *table, const char *name, struct vb_daemon_device *shown)
{
	for (unsigned i = 0; i < table->count; i++) {
		for (unsigned kind = 0; kind < VB_INTERFACE_KINDS; kind++) {
			vb_device_table_show_as(shown, &table->device[i], (enum vb_device_kind)kind);
			if (strcmp(shown->name, name) == 0)
				return true;
		}
	}
	return false;
}
