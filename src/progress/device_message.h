/* SPDX-License-Identifier: MIT
 *
 * From a device as verbenad describes it to the description everybody else uses.
 */
#ifndef VB_PROGRESS_DEVICE_MESSAGE_H
#define VB_PROGRESS_DEVICE_MESSAGE_H

struct vb_daemon_device;
struct vb_device_info;

void vb_device_from_message(struct vb_device_info *info, const struct vb_daemon_device *device);

#endif
