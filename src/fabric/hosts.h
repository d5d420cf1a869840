/* SPDX-License-Identifier: MIT
 *
 * The fabric process's side of cables (wire/cable.h): which hosts have joined, and at which port. Sans-I/O.
 *
 * A host that names a node of the file stands in for it: the node, a ghost so far, is taken off its switch, and the
 * host's cable is put there. One that names none stands in for the first ghost, or, where there is none, gets the
 * first free port of a switch. When it leaves, the ghost is back.
 */
#ifndef VB_FABRIC_HOSTS_H
#define VB_FABRIC_HOSTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "fabric/cable.h"
#include "fabric/direct.h"
#include "fabric/fabric.h"

enum { VB_FABRIC_MOST_HOSTS = 4096 };

struct vb_fabric_hosts_owner {
	void (*send)(void *context, const struct vb_cable_address *to, const void *head, size_t head_length, const void *body,
		     size_t body_length);
	/* Datagrams of `segment` bytes, one behind the other; may be NULL: they are sent one by one. */
	void (*send_run)(void *context, const struct vb_cable_address *to, const uint8_t *bytes, size_t segment, unsigned count);
	uint32_t (*random)(void *context);
	/* A host joined or left; may be NULL. */
	void (*news)(void *context, const char *text);
};

struct vb_fabric_joined {
	struct vb_list node;
	struct vb_cable_end cable;
	struct vb_direct direct;
	uint64_t nonce, guid;
	struct vb_fabric_port *ghost;      /* whose place it has; NULL: a free port */
	char description[VB_CABLE_NAME];
	vb_time forget_at;                 /* it is silent: until then its place is kept */
};

struct vb_fabric_hosts {
	struct vb_fabric *fabric;
	const struct vb_fabric_hosts_owner *owner;
	void *context;
	struct vb_list joined;
	unsigned count;
	struct vb_fabric_joined *last;     /* of whom a frame came; NULL: none known */
	uint8_t meeting[16];               /* where the owner listens for cables of memory, told to processes; zeros: nowhere */
	vb_time now;
};

/* What a fabric of these hosts has as its host. Its context is the struct vb_fabric_hosts. */
extern const struct vb_fabric_host vb_fabric_hosts_carrier;

void vb_fabric_hosts_init(struct vb_fabric_hosts *hosts, struct vb_fabric *fabric,
	const struct vb_fabric_hosts_owner *owner, void *context);
/* Tells them all that the cables are pulled. */
void vb_fabric_hosts_fini(struct vb_fabric_hosts *hosts);
void vb_fabric_hosts_receive(struct vb_fabric_hosts *hosts, vb_time now, const struct vb_cable_address *from,
	uint8_t *bytes, size_t length);
/* Datagrams of `segment` bytes each but perhaps the last, one behind the other: as if they had come one by one. Frames that a process
 * sends from one queue pair to another pass the switches together. */
void vb_fabric_hosts_receive_bundle(struct vb_fabric_hosts *hosts, vb_time now, const struct vb_cable_address *from,
	uint8_t *bytes, size_t length, size_t segment);
/* A process has a cable of memory of that number (vb_cable_address.memory): where it is, or NULL: there is no such process. It has it no
 * more. */
const struct vb_cable_address *vb_fabric_hosts_plug(struct vb_fabric_hosts *hosts, vb_time now, uint16_t slot, uint32_t key,
	uint16_t memory);
void vb_fabric_hosts_unplug(struct vb_fabric_hosts *hosts, uint16_t slot, uint16_t memory);
vb_time vb_fabric_hosts_deadline(const struct vb_fabric_hosts *hosts);
void vb_fabric_hosts_expire(struct vb_fabric_hosts *hosts, vb_time now);

#endif
