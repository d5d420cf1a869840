/* SPDX-License-Identifier: MIT
 *
 * Registering memory brings its pages in, and the kernel clears each. For a program that registers chunk after chunk while its peer
 * waits for the key, as QEMU does, that is up to two fifths of the time. So a thread brings in the pages that follow (io/memory_run.h)
 * while the peer fills the ones before.
 */
#ifndef VB_IO_MEMORY_AHEAD_H
#define VB_IO_MEMORY_AHEAD_H

#include <stdint.h>

/* These pages are registered, writable, and were brought in. */
void vb_memory_ahead_registered(uint64_t start, uint64_t end);
/* This range is registered no more: a run that it belongs to ends. */
void vb_memory_ahead_forget(uint64_t start, uint64_t length);

#endif
