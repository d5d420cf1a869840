/* SPDX-License-Identifier: MIT
 *
 * Kinds of devices, as verbenad tells them. Each has a profile (profiles/profile.h).
 */
#ifndef VB_WIRE_DEVICE_KIND_H
#define VB_WIRE_DEVICE_KIND_H

#include <stdint.h>

enum vb_device_kind {
	VB_DEVICE_ROCE = 0,
	VB_DEVICE_IWARP = 1,
	VB_INTERFACE_KINDS,              /* those that each interface is */
	VB_DEVICE_INFINIBAND = VB_INTERFACE_KINDS,
	VB_DEVICE_KINDS
};

/* The interface that stands in messages for the host's place in a software fabric: none of Linux's. */
#define VB_FABRIC_INTERFACE 0x700000u

/* A number for an interface as a device of that kind: the interface's own for the first, else out of the way of all that Linux gives to
 * begin with. */
static inline uint32_t vb_device_index(uint32_t interface_index, enum vb_device_kind kind)
{
	return interface_index + 0x10000u * (uint32_t)kind;
}

#endif
