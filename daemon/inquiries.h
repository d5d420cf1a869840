/* SPDX-License-Identifier: MIT
 *
 * A process elsewhere explains a failure and asks (wire/inquiry.h) about a queue pair of no process here, or whether verbenad is here at
 * all. Only so many are answered a second.
 */
#ifndef VB_DAEMON_INQUIRIES_H
#define VB_DAEMON_INQUIRIES_H

#include <stdbool.h>

#include "base/time.h"

struct vb_list;
struct vb_udp_bundle;

struct vb_inquiries {
	vb_time since;
	unsigned count;                    /* in that second */
};

/* What came to slot 0's socket `fd`: false, it is no inquiry. */
bool vb_inquiries_answer(struct vb_inquiries *inquiries, const struct vb_list *clients, vb_time now, int fd,
			 const struct vb_udp_bundle *bundle);

#endif
