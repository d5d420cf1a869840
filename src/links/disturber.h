/* SPDX-License-Identifier: MIT
 *
 * Carries out on packets what VERBENA_FAULTS asks for (links/faults.h), for the links whose packets are those of the RoCE engine: takes
 * them out of their runs, damages, doubles and holds them back. Packets that must wait are kept in a list; a thread sends them in time, or
 * a later packet that overtakes them does.
 */
#ifndef VB_LINKS_DISTURBER_H
#define VB_LINKS_DISTURBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mutex.h"
#include "links/faults.h"

struct vb_burst;
struct vb_disturber;
struct vb_path;
struct vb_qp;

struct vb_disturber_link {
	void *context;
	/* One packet, from BTH to ICRC. False: it was not taken. Called with the lock. */
	bool (*send)(void *context, const struct vb_path *path, uint8_t *bytes, size_t length);
	/* Of a capture: what becomes of the packet (nothing, too); `again`: it is sent a second time. */
	void (*tell)(void *context, const struct vb_qp *qp, const struct vb_path *path, const uint8_t *bytes, size_t length,
		     const struct vb_faults_action *action, bool again);
	struct vb_mutex *lock;             /* of all calls but these two */
};

/* 0 or -errno with the reason logged. */
int vb_disturber_create(struct vb_disturber **disturber, const char *specification, const struct vb_disturber_link *link);
/* What waits is sent: late, not lost. */
void vb_disturber_destroy(struct vb_disturber *disturber);

/* Does it lose and damage, and nothing else? Then what is left of a run can leave as a run. */
bool vb_disturber_keeps_runs(const struct vb_disturber *disturber);
/* Take out of the burst what is lost, and damage what is to be damaged. Caller holds qp->lock and the lock. */
void vb_disturber_thin(struct vb_disturber *disturber, const struct vb_qp *qp, struct vb_burst *burst);
/* Send a lone packet, which gets a new ICRC, as its fate is. False: it was not taken. Caller holds qp->lock and the lock. */
bool vb_disturber_send(struct vb_disturber *disturber, const struct vb_qp *qp, const struct vb_path *path, uint8_t *bytes, size_t length);

#endif
