/* SPDX-License-Identifier: MIT */
#include "verbs/later.h"

#include <errno.h>
#include <stdlib.h>

#include "io/cancellation.h"
#include "io/descriptor.h"
#include "verbs/export.h"
#include "verbs/objects.h"
#include "verbs/operations.h"

/* What ibv_alloc_buf(3) hands out: ordinary memory. */
struct vb_buffer {
	struct ibv_pd *pd;
	uint8_t *bytes;
	size_t size;
};

/* In a buffer, and of the domain that it was made for. */
static bool is_within(const struct vb_buffer *buffer, const struct ibv_pd *pd, const struct vb_mr_init *init)
{
	uintptr_t offset = (uintptr_t)init->address - (uintptr_t)buffer->bytes;

	return buffer->pd == pd && (uintptr_t)init->address >= (uintptr_t)buffer->bytes && offset <= buffer->size &&
	       init->length <= buffer->size - offset;
}

VB_EXPORT struct ibv_mr *vb_verbs_reg_mr_ex(struct ibv_pd *pd, const struct vb_mr_init *init)
{
	const uint64_t of_fd = VB_MR_INIT_FD | VB_MR_INIT_FD_OFFSET;
	uint64_t mask;

	if (pd == NULL || init == NULL)
		return vb_fail_null(-EINVAL);
	mask = init->mask;
	/* Handles of DMA are hints to an adapter about processors' caches (TPH). */
	if (mask & ~(uint64_t)(VB_MR_INIT_IOVA | VB_MR_INIT_ADDRESS | VB_MR_INIT_BUFFER | of_fd))
		return vb_fail_null(-EOPNOTSUPP);
	if (mask & VB_MR_INIT_BUFFER && (!(mask & VB_MR_INIT_ADDRESS) || init->buffer == NULL || !is_within(init->buffer, pd, init)))
		return vb_fail_null(-EINVAL);
	if ((mask & (of_fd | VB_MR_INIT_ADDRESS | VB_MR_INIT_IOVA)) == (of_fd | VB_MR_INIT_IOVA))
		return ibv_reg_dmabuf_mr(pd, init->fd_offset, init->length, init->iova, init->fd, init->access);
	if ((mask & (of_fd | VB_MR_INIT_ADDRESS)) != VB_MR_INIT_ADDRESS)
		return vb_fail_null(-EINVAL);
	return ibv_reg_mr_iova2(pd, init->address, init->length, mask & VB_MR_INIT_IOVA ? init->iova : (uintptr_t)init->address,
				(unsigned)init->access);
}

VB_EXPORT void *vb_verbs_alloc_dmah(struct ibv_context *context, const void *attributes)
{
	(void)context;
	(void)attributes;
	return vb_fail_null(-EOPNOTSUPP);
}

VB_EXPORT int vb_verbs_dealloc_dmah(void *handle)
{
	(void)handle;
	return vb_fail_number(EOPNOTSUPP);
}

VB_EXPORT int vb_verbs_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	(void)dm;
	errno = EOPNOTSUPP;
	return -1;
}

/* Counters that an adapter keeps of completions, instead of a queue; and buffers that it could export. */
#define X(name)                                                                                                  \
	int vb_refused_##name(void) __asm__(#name);                                                              \
	VB_EXPORT int vb_refused_##name(void)                                                                    \
	{                                                                                                        \
		return vb_fail_number(EOPNOTSUPP);                                                               \
	}
X(_ibv_query_comp_cntr_caps) X(ibv_destroy_comp_cntr) X(ibv_inc_comp_cntr) X(ibv_inc_err_comp_cntr) X(ibv_qp_attach_comp_cntr)
X(ibv_read_comp_cntr) X(ibv_read_err_comp_cntr) X(ibv_set_comp_cntr) X(ibv_set_err_comp_cntr)
#undef X

VB_EXPORT void *vb_verbs_create_comp_cntr(struct ibv_context *context, const void *attributes)
{
	(void)context;
	(void)attributes;
	return vb_fail_null(-EOPNOTSUPP);
}

VB_EXPORT int vb_verbs_export_buf_dmabuf_fd(struct vb_buffer *buffer)
{
	(void)buffer;
	errno = EOPNOTSUPP;
	return -1;
}

/* In units of 100 Mb/s: lanes, and what each carries (ibv_query_port(3)). */
VB_EXPORT int vb_verbs_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
	static const struct { uint8_t code; uint16_t number; } lanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}},
		rates[] = {{1, 25}, {2, 50}, {4, 100}, {8, 100}, {16, 140}, {32, 250}, {64, 500}, {128, 1000}};
	uint64_t width = 0, rate = 0;
	struct ibv_port_attr attr;
	int error;

	if (context == NULL || speed == NULL || port > UINT8_MAX)
		return vb_fail_number(EINVAL);
	error = vb_verbs_query_port(context, (uint8_t)port, &attr, sizeof(attr));
	if (error != 0)
		return error;
	for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++)
		if (lanes[i].code == attr.active_width)
			width = lanes[i].number;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		if (rates[i].code == attr.active_speed)
			rate = rates[i].number;
	*speed = width * rate;
	return 0;
}

VB_EXPORT void *vb_verbs_alloc_buf(struct ibv_pd *pd, size_t size, struct vb_buffer **buffer)
{
	VB_UNCANCELLED;
	struct vb_buffer *made;
	void *bytes;

	if (pd == NULL || buffer == NULL)
		return vb_fail_null(-EINVAL);
	made = malloc(sizeof(*made));
	if (made == NULL || posix_memalign(&bytes, (size_t)vb_page_size(), size) != 0) {
		free(made);
		return vb_fail_null(-ENOMEM);
	}
	*made = (struct vb_buffer){.pd = pd, .bytes = bytes, .size = size};
	*buffer = made;
	return bytes;
}

VB_EXPORT void vb_verbs_free_buf(struct vb_buffer *buffer)
{
	VB_UNCANCELLED;
	if (buffer == NULL)
		return;
	free(buffer->bytes);
	free(buffer);
}

VB_EXPORT struct ibv_mr *vb_verbs_reg_buf_mr(struct ibv_pd *pd, struct vb_buffer *buffer, void *address, size_t length, int access)
{
	const struct vb_mr_init init = {
		.length = length,
		.access = access,
		.mask = VB_MR_INIT_BUFFER | VB_MR_INIT_ADDRESS,
		.address = address,
		.buffer = buffer,
	};

	return vb_verbs_reg_mr_ex(pd, &init);
}
