/* SPDX-License-Identifier: MIT
 *
 * What the files of libibumad share: devices as verbenad tells them, and how a program's default port is found.
 */
#ifndef VB_UMAD_PORTS_H
#define VB_UMAD_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/daemon_message.h"

enum { VB_UMAD_DEVICES = 32 };

/* An InfiniBand adapter, or an Ethernet device that has no MADs. */
struct vb_umad_device {
	bool is_infiniband;
	char name[20];
	struct vb_daemon_adapter adapter;  /* of the first kind */
	struct vb_daemon_device ethernet;  /* of the second */
};

/* All devices of this host, at most VB_UMAD_DEVICES; how many, or -errno. */
int vb_umad_devices(struct vb_umad_device *devices);
/* The device of that name (NULL: the one whose port is used by default). 0 or -errno. */
int vb_umad_find(const char *name, int port, struct vb_umad_device *device, int *found_port);

extern int vb_umad_debug_level;

#endif
