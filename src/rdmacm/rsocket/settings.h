/* SPDX-License-Identifier: MIT
 *
 * The administrator's defaults (man 7 rsocket).
 */
#ifndef VB_RDMACM_RSOCKET_SETTINGS_H
#define VB_RDMACM_RSOCKET_SETTINGS_H

#include "rdmacm/rsocket/rsocket.h"

/* Of wake_up_milliseconds: sleeping is not interrupted. rdma-core's default guards against wake-ups that are lost. */
#define VB_RSOCKET_NO_INTERVAL UINT32_MAX

struct vb_rsocket_settings {
	struct vb_rsocket_sizes sizes;
	uint32_t polling_microseconds;   /* polling_time: look this long before sleeping */
	uint32_t wake_up_milliseconds;   /* wake_up_interval: sleep at most this long in rpoll before looking again */
};

/* Read once, at the first call. */
const struct vb_rsocket_settings *vb_rsocket_settings(void);

/* The same from another directory, for tests. */
void vb_rsocket_settings_read(struct vb_rsocket_settings *settings, const char *directory);

/* Sizes as they can be served: buffers even and not too small, queues within what 16-bit credits can count. */
void vb_rsocket_sizes_round(struct vb_rsocket_sizes *sizes);

#endif
