/* SPDX-License-Identifier: MIT */
#include "io/dmabuf.h"

#include <errno.h>
#include <linux/dma-buf.h>
#include <stddef.h>
#include <sys/ioctl.h>

int vb_dmabuf_sync(void *unused, int fd, bool begin, bool write)
{
	struct dma_buf_sync sync = {.flags = (begin ? DMA_BUF_SYNC_START : DMA_BUF_SYNC_END) |
					     (write ? DMA_BUF_SYNC_RW : DMA_BUF_SYNC_READ)};
	int rc;

	(void)unused;
	/* It may wait for the device; the kernel's document says to repeat it. */
	do
		rc = ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
	while (rc < 0 && (errno == EINTR || errno == EAGAIN));
	return rc < 0 ? -errno : 0;
}

bool vb_dmabuf_wants_sync(int fd)
{
	return vb_dmabuf_sync(NULL, fd, true, false) == 0 && vb_dmabuf_sync(NULL, fd, false, false) == 0;
}
