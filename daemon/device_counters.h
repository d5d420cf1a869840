/* SPDX-License-Identifier: MIT
 *
 * What devices have counted since the daemon runs: the pages of processes that are here, and what those that ended have left. How a
 * process ends makes no difference: its page is shared memory, which is read when the connection to it is gone.
 *
 * A new daemon begins with the processes that come to it, as a driver that is loaded anew begins at zero.
 */
#ifndef VB_DAEMON_DEVICE_COUNTERS_H
#define VB_DAEMON_DEVICE_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "wire/daemon_message.h"

struct vb_client;

struct vb_device_counters {
	struct vb_list left;               /* by processes that ended: a row for each user and device */
	unsigned rows;
	struct vb_list ports;              /* how often each has gone down */
};

void vb_device_counters_init(struct vb_device_counters *counters);
void vb_device_counters_fini(struct vb_device_counters *counters);

/* The process is about to lose its page. */
void vb_device_counters_keep(struct vb_device_counters *counters, uid_t uid, const struct vb_daemon_page *page);
/* What has become of an interface. One that is gone is forgotten: another may get its number. */
void vb_device_counters_note(struct vb_device_counters *counters, const struct vb_daemon_device *device, bool gone);

/* All that processes of the asker's user, root: of all users, have counted on that interface as a device of that kind. */
void vb_device_counters_sum(const struct vb_device_counters *counters, const struct vb_list *clients, const struct vb_client *asker,
			    uint32_t interface_index, uint32_t kind, struct vb_daemon_counters *sum);

/* Each is exact, all together are no snapshot. `more` may be a process's page. */
void vb_counters_add(struct vb_counters *sum, const struct vb_counters *more);

#endif
