/* SPDX-License-Identifier: MIT
 *
 * Faults on purpose: which of the packets that this process sends are lost, doubled, damaged, late or out of order.
 * VERBENA_FAULTS says which (docs/faults.md has the grammar); the same specification with the same seed decides the same
 * way again. Decisions only: the tap.c of each link carries them out. Not thread safe.
 */
#ifndef VB_LINKS_FAULTS_H
#define VB_LINKS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "wire/cm_mad.h"

struct vb_faults;

/* How many messages of each kind of connection management are to be lost, by attribute - VB_CM_REQ. verbenad sends
 * them, so it is verbenad that must be told (VB_CM_LOSE). */
struct vb_faults_messages {
	uint8_t lost[VB_CM_ATTRIBUTE_END - VB_CM_REQ];
};

struct vb_faults_packet {
	uint32_t qpn;                      /* that sends it */
	uint32_t psn;
	bool is_request;
	bool is_fpdu;                      /* of a TCP stream: it cannot be lost, doubled or out of order, but cut */
};

struct vb_faults_action {
	bool drop, duplicate, corrupt, cut;
	vb_time delay;                     /* 0: none */
	unsigned behind;                   /* reordered: so many later packets overtake it; 0: none */
	uint32_t noise;                    /* which bit to damage */
};

/* 0, -ENOMEM, or -EINVAL with a sentence that says what is wrong in `why`. */
int vb_faults_create(struct vb_faults **faults, const char *specification, char *why, size_t room);
/* False: none. */
bool vb_faults_connection_messages(const struct vb_faults *faults, struct vb_faults_messages *messages);
void vb_faults_destroy(struct vb_faults *faults);
/* Does it lose and damage, and nothing else? Then what is left of a run can leave as a run. */
bool vb_faults_keep_runs(const struct vb_faults *faults);
void vb_faults_decide(struct vb_faults *faults, const struct vb_faults_packet *packet,
		      struct vb_faults_action *action);
/* Of a stream that could be read or written so far: how many bytes it shall be. */
size_t vb_faults_shorten(struct vb_faults *faults, size_t length);

#endif
