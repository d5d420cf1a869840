/* SPDX-License-Identifier: MIT
 *
 * Verbs that rdma-core has got since version 44, with whose headers this is built: programs of newer distributions bind to their
 * names. Structs and functions have names of our own in C, which later headers do not disagree with; the layouts are those of
 * rdma-core 64 and 65.
 */
#ifndef VB_VERBS_LATER_H
#define VB_VERBS_LATER_H

#include <infiniband/verbs.h>
#include <stdint.h>

/* enum ibv_mr_init_attr_mask */
enum {
	VB_MR_INIT_IOVA = 1 << 0,
	VB_MR_INIT_ADDRESS = 1 << 1,
	VB_MR_INIT_FD = 1 << 2,
	VB_MR_INIT_FD_OFFSET = 1 << 3,
	VB_MR_INIT_DMA_HANDLE = 1 << 4,
	VB_MR_INIT_BUFFER = 1 << 5,
};

struct vb_buffer;

/* ibv_mr_init_attr. A program built with rdma-core 59 has none of it behind `dma_handle`. */
struct vb_mr_init {
	size_t length;
	int access;
	uint64_t mask;
	uint64_t iova;
	void *address;
	int fd;
	uint64_t fd_offset;
	void *dma_handle;
	struct vb_buffer *buffer;
};

struct ibv_mr *vb_verbs_reg_mr_ex(struct ibv_pd *pd, const struct vb_mr_init *init) __asm__("ibv_reg_mr_ex");
void *vb_verbs_alloc_dmah(struct ibv_context *context, const void *attributes) __asm__("ibv_alloc_dmah");
int vb_verbs_dealloc_dmah(void *handle) __asm__("ibv_dealloc_dmah");
int vb_verbs_dm_export_dmabuf_fd(struct ibv_dm *dm) __asm__("ibv_dm_export_dmabuf_fd");
int vb_verbs_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed) __asm__("ibv_query_port_speed");
void *vb_verbs_alloc_buf(struct ibv_pd *pd, size_t size, struct vb_buffer **buffer) __asm__("ibv_alloc_buf");
void vb_verbs_free_buf(struct vb_buffer *buffer) __asm__("ibv_free_buf");
struct ibv_mr *vb_verbs_reg_buf_mr(struct ibv_pd *pd, struct vb_buffer *buffer, void *address, size_t length, int access)
	__asm__("ibv_reg_buf_mr");
void *vb_verbs_create_comp_cntr(struct ibv_context *context, const void *attributes) __asm__("ibv_create_comp_cntr");
int vb_verbs_export_buf_dmabuf_fd(struct vb_buffer *buffer) __asm__("ibv_export_buf_dmabuf_fd");

#endif
