/* SPDX-License-Identifier: MIT
 *
 * Kinds of devices, as verbenad tells them. Each has a profile (profiles/profile.h).
 */
#ifndef VB_WIRE_DEVICE_KIND_H
#define VB_WIRE_DEVICE_KIND_H

enum vb_device_kind {
	VB_DEVICE_ROCE = 0,
	VB_DEVICE_IWARP = 1,
	VB_DEVICE_KINDS
};

#endif
