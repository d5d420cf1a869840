/* SPDX-License-Identifier: MIT
 *
 * Processes of a host that send and receive frames of their queue pairs by sockets of their own, past the host's verbenad (wire/cable.h,
 * SLOT): the fabric's side of it, one table for each host. Sans-I/O.
 *
 * A process is trusted less than its verbenad, which alone is the adapter: it has a key of its own, sends no management packets, and only
 * from LIDs that the switch would reach by the port it comes in at. An entry ends with the cable's patience when it is not renewed; what
 * comes for a process without entry goes to its verbenad.
 */
#ifndef VB_FABRIC_DIRECT_H
#define VB_FABRIC_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "fabric/cable.h"

struct vb_direct_entry {
	struct vb_cable_address address;
	uint32_t key;
	vb_time until;                     /* 0: there is none */
};

struct vb_direct {
	struct vb_direct_entry *entry;     /* VB_DAEMON_SLOTS of them; NULL: there was none yet */
};

void vb_direct_fini(struct vb_direct *direct);

/* A slot is announced, and where its process is. False: there is no such slot, or no memory. */
bool vb_direct_announce(struct vb_direct *direct, vb_time now, const struct vb_cable_address *process, const struct vb_cable_slot *slot);
/* The process of the slot with that key has a cable of memory of that number. Its entry, or NULL: there is no such slot. */
const struct vb_direct_entry *vb_direct_plug(struct vb_direct *direct, vb_time now, uint16_t slot, uint32_t key, uint16_t memory);
/* The cable of that number is no more. */
void vb_direct_unplug(struct vb_direct *direct, uint16_t slot, uint16_t memory);
/* Does this key come from where it was announced? */
bool vb_direct_knows(const struct vb_direct *direct, vb_time now, uint16_t slot, uint32_t key, const struct vb_cable_address *from);
/* May a process send this frame into `port`? */
bool vb_direct_may_send(const struct vb_fabric_port *port, const uint8_t *bytes, size_t length);
/* Who has the queue pair that a frame is for; NULL: verbenad's. */
const struct vb_direct_entry *vb_direct_find(const struct vb_direct *direct, vb_time now, const uint8_t *bytes, size_t length);

#endif
