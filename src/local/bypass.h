/* SPDX-License-Identifier: MIT
 *
 * For a queue pair that its wire's engine carries: the peer's memory, reached past it (queue/bypass.h). Of the segment it uses the tables,
 * the copy words and the queue pair's entry, and no ring: records are the wire's affair.
 *
 * Two queue pairs go together when each shows the other's number and both the same connection, which they have told one another by
 * wire. A process can show only queue pairs of its own; so one that is told wrong numbers by wire finds that they do not fit.
 */
#ifndef VB_LOCAL_BYPASS_H
#define VB_LOCAL_BYPASS_H

#include <stdbool.h>
#include <stdint.h>

#include "local/segment.h"
#include "queue/bypass.h"

struct vb_local_bypass;
struct vb_local_peer;
struct vb_qp;

struct vb_local_meeting {
	uint32_t table;                  /* of the queue pair's device */
	uint32_t peer_qpn;
	uint64_t connection;
};

/* The queue pair is connected. NULL: there is no such peer, or no memory. Caller holds qp->lock, as for all that follow. */
struct vb_local_bypass *vb_local_bypass_open(struct vb_qp *qp, struct vb_segment *own, struct vb_local_peer *peer,
					     const struct vb_local_meeting *meeting);
struct vb_bypass *vb_local_bypass_way(struct vb_local_bypass *bypass);
/* Its state or rights have changed. In the error state no peer copies on its behalf after this. */
void vb_local_bypass_modified(struct vb_local_bypass *bypass);
void vb_local_bypass_close(struct vb_local_bypass *bypass);
/* Does the peer show that it goes together with us? */
bool vb_local_bypass_leads(struct vb_local_bypass *bypass);

#endif
