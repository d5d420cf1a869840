/* SPDX-License-Identifier: MIT
 *
 * The devices of this host: made from its network interfaces, with a memory, because an address keeps its GID index as
 * long as it lives: removal leaves a hole, and a new address takes the first hole. Pure: fed with snapshots of the
 * interfaces.
 */
#ifndef VB_DAEMON_DEVICE_TABLE_H
#define VB_DAEMON_DEVICE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "io/netlink.h"
#include "wire/daemon_message.h"
#include "wire/device_kind.h"

enum { VB_DEVICE_TABLE_ROOM = 256 };

struct vb_device_table {
	uint64_t host_seed;                /* tells hosts apart where an interface has no MAC address */
	uint32_t loopback_index;           /* of the interface; 0: none was seen */
	unsigned count;
	struct vb_daemon_device device[VB_DEVICE_TABLE_ROOM];
};

/* Told what an update changed: a new or different device, or (gone) one whose interface vanished. */
typedef void vb_device_table_report(void *context, const struct vb_daemon_device *device, bool gone);

/* The table has one device for each interface, of the first kind. The same interface as a device of another kind. */
void vb_device_table_show_as(struct vb_daemon_device *shown, const struct vb_daemon_device *device, enum vb_device_kind kind);

/* The device of that number (vb_device_index), or name. */
bool vb_device_table_get(const struct vb_device_table *table, uint32_t index, struct vb_daemon_device *shown);
bool vb_device_table_find(const struct vb_device_table *table, const char *name, struct vb_daemon_device *shown);

/* Bring the table up to date with the interfaces. */
void vb_device_table_update(struct vb_device_table *table, const struct vb_interface *interfaces, unsigned count,
			    vb_device_table_report *report, void *context);

#endif
