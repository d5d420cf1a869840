/* SPDX-License-Identifier: MIT
 *
 * The host's InfiniBand adapter as libibverbs and libibumad are told of it.
 */
#ifndef VB_DAEMON_ADAPTER_DEVICE_H
#define VB_DAEMON_ADAPTER_DEVICE_H

#include <stdint.h>

struct vb_adapter;
struct vb_daemon_adapter;
struct vb_daemon_device;

/* Of an adapter that has a node. */
void vb_adapter_fill(const struct vb_adapter *adapter, struct vb_daemon_adapter *out);
/* `reregister`: how often it was asked to register anew. */
void vb_adapter_fill_device(const struct vb_adapter *adapter, uint8_t reregister, struct vb_daemon_device *out);

#endif
