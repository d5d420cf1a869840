/* SPDX-License-Identifier: MIT
 *
 * Who sent the packets of another program's capture. A packet of a connected queue pair names its receiver only; but an
 * answer has the PSN of what it answers, and so the two ends of a connection are found.
 */
#ifndef VB_CAPTURE_PEERS_H
#define VB_CAPTURE_PEERS_H

struct vb_story;

/* Fills in the sender's queue pair where it can be told. 0 or -ENOMEM. */
int vb_story_find_peers(struct vb_story *story);

#endif
