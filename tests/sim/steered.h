/* SPDX-License-Identifier: MIT
 *
 * Which datagrams for port 4791 the kernel hands to the socket that verbenad's program names (daemon/steering.h), and which to any: where
 * the program names a place behind the end of the group, because sockets have left unseen, the kernel goes by a hash with a secret of
 * its own. A world that is to play again by its seed must not depend on that, so it decides here. Packets that would go to any socket are
 * lost; probes (daemon/group_order.h) go to one that the world draws.
 */
#ifndef VB_TESTS_SIM_STEERED_H
#define VB_TESTS_SIM_STEERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From now on, in a network of its own for each machine; false: no more. */
void steered_use(bool use);
/* The network that this thread has entered. */
void steered_enter(unsigned machine);
/* Sockets may have come or gone, other than by verbenad's calls. */
void steered_changed(void);

/* Does it depend on the hash who receives it? */
bool steered_is_stray(bool ipv6, const void *bytes, size_t length);

#endif
