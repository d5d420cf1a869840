/* SPDX-License-Identifier: MIT
 *
 * A way for datagrams past the wire: what the link of RoCE asks of the one through memory, where there is one. UD queue pairs stay with
 * their wire, which makes packets of what they send and takes packets in; those of them that go to a process of this host need
 * not go through its sockets.
 */
#ifndef VB_LINKS_SHORTCUT_H
#define VB_LINKS_SHORTCUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vb_burst_run;
struct vb_path;

/* Packets of `segment` bytes each, the last may be shorter. They are the caller's until the next question. */
struct vb_shortcut_run {
	struct vb_path *from;
	const uint8_t *bytes;
	size_t length, segment;
};

struct vb_shortcut {
	/* Under progress: processes that may have left something here. Where there are none nothing of what takes in has to be asked. */
	unsigned sources;
	/* Does it lead to the process with that slot at the path's end? Where that is not known it is found out, for later.
	 * Any thread, with any locks. */
	bool (*leads_to)(struct vb_shortcut *shortcut, const struct vb_path *path, uint32_t slot);
	/* The same as it stands now; nothing is found out. */
	bool (*is_open)(struct vb_shortcut *shortcut, const struct vb_path *path, uint32_t slot);
	/* If it does. False: there is no room. It is to be sent by wire, and `sent` called then. */
	bool (*put)(struct vb_shortcut *shortcut, const struct vb_burst_run *run);
	void (*sent)(struct vb_shortcut *shortcut, const struct vb_burst_run *run);

	/* ---- caller holds progress ---- */

	/* A datagram came by wire from that queue pair: whose process might be one of this host. */
	void (*met)(struct vb_shortcut *shortcut, const struct vb_path *from, uint32_t qpn);
	bool (*has_work)(struct vb_shortcut *shortcut);
	/* Has a process sent by wire before it sent what lies here? Then that is to be taken in first. */
	bool (*is_behind)(struct vb_shortcut *shortcut);
	/* What has come by it. False: nothing more. */
	bool (*take)(struct vb_shortcut *shortcut, struct vb_shortcut_run *run);
	/* Has a process sent by wire after it sent what lies here? Then that is to be taken before what a socket has brought. */
	bool (*is_bypassed)(struct vb_shortcut *shortcut);
	bool (*take_bypassed)(struct vb_shortcut *shortcut, struct vb_shortcut_run *run);
};

#endif
