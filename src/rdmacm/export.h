/* SPDX-License-Identifier: MIT
 *
 * Everything is hidden unless it says so; what says so must also stand in lib/librdmacm.map.
 */
#ifndef VB_RDMACM_EXPORT_H
#define VB_RDMACM_EXPORT_H

#define VB_EXPORT __attribute__((visibility("default")))

#endif
