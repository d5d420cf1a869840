/* SPDX-License-Identifier: MIT
 *
 * Queue pairs of another link that meet their peer in this host (links/meeting.h). verbenad is asked who that is, which may take seconds:
 * so by a thread of its own (asking_thread.h). Of a process that is known nothing is asked.
 */
#ifndef VB_LINKS_MEMORY_MEETINGS_H
#define VB_LINKS_MEMORY_MEETINGS_H

#include "base/list.h"
#include "base/lock.h"
#include "links/meeting.h"
#include "links/memory/asking_thread.h"

struct vb_pair;
struct vb_same_host;

struct vb_memory_meetings {
	struct vb_meetings meetings;       /* first: the other link hands this back */
	struct vb_same_host *same_host;
	struct vb_lock lock;
	struct vb_list waiting;            /* questions */
	struct vb_asking_thread asking;
};

void vb_meetings_open(struct vb_memory_meetings *meetings, struct vb_same_host *same_host);
void vb_meetings_close(struct vb_memory_meetings *meetings);
void vb_meetings_abandon(struct vb_memory_meetings *meetings);            /* in a forked child */
/* The engine thread is about to sleep: a thread that has ended is not left behind. */
void vb_meetings_rest(struct vb_memory_meetings *meetings);
/* There is no way past its wire any more. Caller holds progress and qp->lock. */
void vb_meetings_part(struct vb_same_host *same_host, struct vb_qp *qp, struct vb_pair *pair);

#endif
