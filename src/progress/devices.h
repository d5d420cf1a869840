/* SPDX-License-Identifier: MIT
 *
 * What devices there are: one per usable network interface. verbenad keeps the table (names, GID indices), everybody
 * else has copies.
 */
#ifndef VB_PROGRESS_DEVICES_H
#define VB_PROGRESS_DEVICES_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "profiles/limits.h"
#include "wire/daemon_message.h"
#include "wire/device_kind.h"

enum { VB_MAX_DEVICES = 256 * VB_DEVICE_KINDS };

struct vb_device_gid {
	uint8_t gid[16];                 /* all zero: a hole; indices are stable while the device lives */
	uint8_t framing;                 /* enum vb_framing: of RoCEv2 or RoCEv1 */
};

struct vb_device_info {
	char name[64];                   /* roce_eth0 */
	enum vb_device_kind kind;
	char interface[16];
	uint32_t interface_index;
	uint32_t index;                  /* vb_device_index: also that of uverbsN */
	uint8_t mac[6];
	uint64_t guid;                   /* host order; EUI-64 of the MAC, never 0 */
	uint32_t interface_mtu;
	enum ibv_mtu active_mtu;         /* largest RoCE MTU that fits with all headers */
	enum ibv_port_state state;       /* ACTIVE: up, running, has an address */
	uint32_t speed_mbps;             /* 0: not known */
	struct vb_daemon_subnet subnet;  /* zeros: there is none */
	uint64_t told;                   /* of two descriptions the later is of now (struct vb_daemon_device) */
	uint32_t gid_count;              /* entries in use, holes included */
	struct vb_device_gid gid[VB_MAX_GIDS];
};

/* Ask verbenad (starting it if need be). *list is malloc'ed. 0 or -errno with a message logged. */
int vb_devices_list(struct vb_device_info **list, unsigned *count);

/* Keep what a program is to see: of the kinds that `transports` names ("iwarp,roce"; NULL or "": RoCE), in that order;
 * and of these, those whose names stand in `wanted` (separated by commas; NULL or "": all). A user who names devices,
 * and no kinds, may name any. Those whose port is down come last. How many. */
unsigned vb_devices_choose(struct vb_device_info *infos, unsigned count, const char *transports, const char *wanted);

/* Could one of that kind be among them? */
bool vb_devices_may_show(enum vb_device_kind kind, const char *transports, const char *wanted);

/* The link's width and speed in the codes of ibv_port_attr. */
void vb_device_link_speed(const struct vb_device_info *info, uint8_t *width, uint8_t *speed);

#endif
