/* SPDX-License-Identifier: MIT
 *
 * Where the bytes of a scatter/gather list are, held so that they stay registered while another process's memory is copied
 * to or from them.
 */
#include "local/engine.h"

bool vb_local_spans_add(const struct vb_qp *qp, struct vb_pd *pd, const struct ibv_sge *list, unsigned count, uint64_t offset,
			uint64_t length, uint32_t rights, struct vb_local_spans *spans)
{
	struct vb_accessor who = {.pd = pd, .qpn = qp->qpn, .rights = rights};

	for (unsigned i = 0; i < count && length > 0; i++) {
		struct vb_hold *hold = &spans->hold[spans->count];
		uint64_t bytes;

		if (offset >= list[i].length) {
			offset -= list[i].length;
			continue;
		}
		bytes = list[i].length - offset;
		if (bytes > length)
			bytes = length;
		who.key = list[i].lkey;
		hold->entry = NULL;
		if (!vb_memory_hold(qp->host->memory, &who, list[i].addr + offset, bytes, hold)) {
			vb_local_spans_close(spans);
			return false;
		}
		spans->span[spans->count++] = (struct iovec){hold->bytes, bytes};
		length -= bytes;
		offset = 0;
	}
	if (length == 0)
		return true;
	vb_local_spans_close(spans);
	return false;
}

bool vb_local_spans_open(const struct vb_qp *qp, struct vb_pd *pd, const struct ibv_sge *list, unsigned count, uint64_t offset,
			 uint64_t length, uint32_t rights, struct vb_local_spans *spans)
{
	spans->count = 0;
	return vb_local_spans_add(qp, pd, list, count, offset, length, rights, spans);
}

void vb_local_spans_close(struct vb_local_spans *spans)
{
	for (unsigned i = 0; i < spans->count; i++)
		vb_memory_let_go(&spans->hold[i]);
	spans->count = 0;
}
