/* SPDX-License-Identifier: MIT
 *
 * Buffers that belong to a device and that the CPU may look at (the kernel's driver-api/dma-buf): each access through a
 * mapping stands between two ioctls, for which the exporter keeps caches coherent.
 */
#ifndef VB_IO_DMABUF_H
#define VB_IO_DMABUF_H

#include <stdbool.h>

/* Is it one? Other descriptors that can be mapped (memfd, files) need no such thing. */
bool vb_dmabuf_wants_sync(int fd);
/* Before (`begin`) and after an access. 0 or -errno. The first parameter is a context that is not needed. */
int vb_dmabuf_sync(void *unused, int fd, bool begin, bool write);

#endif
