/* SPDX-License-Identifier: MIT
 *
 * Which UDP port receives for which slot, written down where no user can change it and where it outlives the daemon: in a
 * table of nf_tables of this network namespace.
 *
 *	table inet verbena {
 *		map slots { typeof @th,104,16 : udp dport }  slot << 6, the port of its user
 *		set ports { type inet_service }              users' ports
 *		map owners { type inet_service : uid }       and whose they are
 *		chain input {  hook input, after every filter:
 *			udp dport 4791 udp dport set @th,104,16 & 0xffc0 map @slots }
 *		chain output { hook output, before connection tracking:
 *			udp sport @ports udp sport set 4791 }
 *	}
 *
 * Bits 104 to 113 behind the UDP header's beginning are the slot bits of the destination queue pair number. The first
 * rule (there are two: with and without a UDP checksum) hands a packet, or a whole bundle of them, to the port of the
 * slot's user; it stands in `input`, so that packets that are only forwarded are left alone, and last there, so that
 * filters see port 4791. The second is for answers that processes send from their socket (wire/inquiry.h): to everybody
 * else they come from where the question went.
 *
 * The maps have every slot that is in use while there is a table at all, those of port 4791 itself too: a new daemon
 * reads from them who may claim what.
 */
#ifndef VB_DAEMON_SLOT_MAP_H
#define VB_DAEMON_SLOT_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/daemon_message.h"

enum { VB_SLOT_MAP_PORTS = 128 };

struct vb_slot_map_port {
	uint16_t port;                     /* 0: not in use */
	uid_t uid;
};

struct vb_slot_map {
	int fd, watch_fd;                  /* -1: nf_tables is not to be had */
	bool published;                    /* the table is there */
	bool damaged;                      /* it is not as it should be, and could not be put back */
	uint16_t slot[VB_DAEMON_SLOTS];    /* its port, 0: none */
	struct vb_slot_map_port port[VB_SLOT_MAP_PORTS];
};

void vb_slot_map_init(struct vb_slot_map *map);
/* Read what a predecessor left. 0, also if it left nothing, or -errno: nf_tables is not to be had. */
int vb_slot_map_open(struct vb_slot_map *map);
void vb_slot_map_close(struct vb_slot_map *map);

/* Make the table, unless it is there. 0 or -errno. */
int vb_slot_map_publish(struct vb_slot_map *map);
/* The slot's packets go to that port (0: to the daemon alone). 0 or -errno. */
int vb_slot_map_set(struct vb_slot_map *map, uint32_t slot, uint16_t port);
/* Write down whose port it is. 0 or -errno: -EUSERS there is no room. */
int vb_slot_map_own(struct vb_slot_map *map, uint16_t port, uid_t uid);

/* The port of that user, 0: none. */
uint16_t vb_slot_map_port_of(const struct vb_slot_map *map, uid_t uid);
bool vb_slot_map_is_owned(const struct vb_slot_map *map, uint16_t port);

/* watch_fd is readable, or the table is damaged: a program has changed tables. Ours is put back as it was, if it was ours. */
void vb_slot_map_check(struct vb_slot_map *map);

#endif
