/* SPDX-License-Identifier: MIT
 *
 * The claim to a slot: a Unix socket with the slot's name. The process that is given the slot has it, and verbenad has not: the name
 * is taken for as long as that process lives, whatever becomes of verbenad. So a new verbenad knows which slots it must not give away
 * before their processes have said a word to it. One that is stopped (a signal, a debugger, a laptop that sleeps) says it much later,
 * and its queue pair numbers are those of its slot.
 *
 * Names are abstract and belong to the network namespace, as the port does. Any user can take one: that makes the slot a last choice,
 * and not one that cannot be had.
 */
#ifndef VB_DAEMON_SLOT_CLAIM_H
#define VB_DAEMON_SLOT_CLAIM_H

#include <stdint.h>

/* One that is for no slot yet. Descriptor or -errno. */
int vb_slot_claim_open(void);
/* 0 or -errno: -EADDRINUSE a process has the slot; another can be tried. */
int vb_slot_claim_take(int claim, uint32_t slot);

#endif
