/* SPDX-License-Identifier: MIT
 *
 * How much device memory a device has to give.
 */
#ifndef VB_VERBS_DEVICE_MEMORY_H
#define VB_VERBS_DEVICE_MEMORY_H

#define VB_DEVICE_MEMORY_SIZE (16u << 20)

#endif
