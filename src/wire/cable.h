/* SPDX-License-Identifier: MIT
 *
 * A cable of the software InfiniBand: UDP datagrams between an adapter (verbenad) and the process that has the switches.
 *
 *   header 8      key of the cable, slot of the receiving process (0: the daemon), kind
 *   FRAME         LRH .. ICRC. No VCRC: UDP has a checksum, and a CRC for each packet at each hop buys nothing
 *   KEEP_ALIVE    every 100 ms by both ends; a cable that was not heard for 3 s is lost. `training` counts how often this end has restarted
 *                 the link: the other restarts too when it changes. A fabric that does not know the key answers LEAVE
 *   JOIN          an adapter wants a port; ACCEPT says which, and with which key, REFUSE why not. Repeated until answered
 *   LEAVE         the cable is pulled
 *   SLOT          a process of the host has a socket of its own, whose address its verbenad tells: frames for queue pairs of the slot
 *                 go there from now on, and frames of it come from there, with the slot's own key. Renewed like KEEP_ALIVE; the
 *                 fabric sends it to that socket, with that key, so that the process knows
 */
#ifndef VB_WIRE_CABLE_H
#define VB_WIRE_CABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define VB_CABLE_PORT 14791
#define VB_CABLE_MAGIC 0x56424942u         /* "VBIB" */
#define VB_CABLE_VERSION 1

enum vb_cable_kind {
	VB_CABLE_FRAME = 1,
	VB_CABLE_KEEP_ALIVE,
	VB_CABLE_JOIN,
	VB_CABLE_ACCEPT,
	VB_CABLE_REFUSE,
	VB_CABLE_LEAVE,
	VB_CABLE_SLOT,
};

enum {
	VB_CABLE_HEADER_LENGTH = 8,
	VB_CABLE_NAME = 64,
	/* Beside the payload of a packet: IPv6, UDP, our header, LRH, GRH, BTH, RETH, immediate data, ICRC. */
	VB_CABLE_OVERHEAD = 40 + 8 + VB_CABLE_HEADER_LENGTH + 8 + 40 + 12 + 16 + 4 + 4,
};

struct vb_cable_header {
	struct be32 key;
	struct be16 slot, kind;
};

struct vb_cable_keep_alive {
	struct vb_cable_header header;
	struct be32 training;
};

struct vb_cable_join {
	struct vb_cable_header header;     /* key 0 */
	struct be32 magic;
	struct be16 version, reserved;
	struct be64 nonce;
	struct be64 guid;                  /* of the adapter, unless it stands in for one of the file */
	char description[VB_CABLE_NAME];
	char wanted[VB_CABLE_NAME];        /* name of a node of the file; empty: any */
};

struct vb_cable_accept {
	struct vb_cable_header header;
	struct be64 nonce;
	struct be64 system_guid, node_guid, port_guid;
	struct be32 vendor, device, revision;
	uint8_t width, speed, extended;    /* struct vb_link_rate */
	uint8_t ports, port;               /* of the adapter: how many, and which one this cable is in */
	uint8_t reserved[3];
	char description[VB_CABLE_NAME];
	char where[VB_CABLE_NAME];         /* the port of the switch, for people */
};

struct vb_cable_refuse {
	struct vb_cable_header header;
	struct be64 nonce;
	char why[120];
};

struct vb_cable_slot {
	struct vb_cable_header header;     /* of a request: the cable's key; the slot */
	struct be32 slot_key;
	struct be32 generation;            /* which time it is that the host has joined: an answer to another is none */
	/* Of the process's socket, as its host sees it. The GID is to be where SLOT comes from: else a translator is between. Of an answer:
	 * where the fabric listens for cables of memory (io/memory_cable.h), or zeros. */
	uint8_t gid[16];
	struct be16 port, reserved;
};

/* By a Unix socket, with the memory: a process of the slot offers a cable of memory in the place of UDP. */
struct vb_cable_plug {
	struct be32 magic;
	struct be16 version, slot;
	struct be32 slot_key;
};

union vb_cable_message {
	struct vb_cable_header header;
	struct vb_cable_keep_alive keep_alive;
	struct vb_cable_join join;
	struct vb_cable_accept accept;
	struct vb_cable_refuse refuse;
	struct vb_cable_slot slot;
};

_Static_assert(sizeof(struct vb_cable_header) == VB_CABLE_HEADER_LENGTH, "header");
_Static_assert(sizeof(struct vb_cable_join) == 160 && sizeof(struct vb_cable_accept) == 188 &&
	sizeof(struct vb_cable_refuse) == 136, "joining");
_Static_assert(sizeof(struct vb_cable_slot) == 36 && sizeof(struct vb_cable_plug) == 12, "slot");

/* The kind of a datagram whose length, magic and texts are sound; 0: it is none of ours. */
enum vb_cable_kind vb_cable_check(const void *bytes, size_t length);
void vb_cable_begin(union vb_cable_message *message, enum vb_cable_kind kind, uint32_t key);
/* Of a message other than FRAME. */
size_t vb_cable_length(enum vb_cable_kind kind);

#endif
