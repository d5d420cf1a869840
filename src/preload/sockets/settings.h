/* SPDX-License-Identifier: MIT
 *
 * What `verbena run` says through the environment.
 */
#ifndef VB_PRELOAD_SOCKETS_SETTINGS_H
#define VB_PRELOAD_SOCKETS_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

/* Is this port's traffic ours? False for all where VERBENA_SOCKETS is not set. */
bool vb_sockets_port_is_wanted(uint16_t port);

#endif
