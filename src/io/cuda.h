/* SPDX-License-Identifier: MIT
 *
 * Memory of NVIDIA GPUs, copied by the CUDA driver. Its library is the program's own: never linked, never loaded,
 * only found where the process has it already. The read and write calls have the signatures of struct
 * vb_memory_host.
 *
 * Copies go through a stream of our own that waits for no other: a kernel that waits for what a peer sends (NCCL's
 * do) must not hold the copy that brings it.
 */
#ifndef VB_IO_CUDA_H
#define VB_IO_CUDA_H

#include <stddef.h>
#include <stdint.h>

/* Of one region: what its copies need. */
struct vb_cuda_memory;

/* 0, or -EFAULT: no such library here, or not all of the range is one allocation on a GPU; -EOPNOTSUPP: it is, but the driver does not do
 * what copies need; -ENOMEM. */
int vb_cuda_open(uint64_t start, size_t length, struct vb_cuda_memory **out);
void vb_cuda_close(struct vb_cuda_memory *memory);

/* `gpu` is a struct vb_cuda_memory. Everything is there when they return, and of a write the last bytes last. 0, or -EFAULT: the driver
 * refused (the program has freed it, or its context is broken). */
int vb_cuda_read(void *unused, void *gpu, void *to, uint64_t from, size_t length);
int vb_cuda_write(void *unused, void *gpu, uint64_t to, const void *from, size_t length);

#endif
