/* SPDX-License-Identifier: MIT
 *
 * Within one host a long message goes from the program's memory straight into the peer's receive buffer, which is shared memory: not into
 * the send buffer first. That is a call of libibverbs (wire/placing_call.h); an RDMA WRITE with immediate data, of no bytes, tells the peer
 * of it as ever. Where the call does not do it the message takes the ordinary way.
 */
#include "rdmacm/private_call.h"
#include "rdmacm/rsocket/iov.h"
#include "rdmacm/rsocket/stream.h"
#include "wire/placing_call.h"

enum { LEAST = 512, PIECES = 8 };

void vb_rstream_place_prepare(struct vb_rstream *stream)
{
	stream->placing = vb_rdmacm_private_call(stream->id->verbs);
}

bool vb_rstream_place(struct vb_rstream *stream, struct vb_iov_cursor *from, uint32_t length, const struct vb_rstream_span *to)
{
	struct iovec pieces[PIECES];
	struct vb_placing_call call = {
		.magic = VB_PLACING_MAGIC,
		.version = VB_PLACING_VERSION,
		.key = to->key,
		.address = to->address,
		.qp = stream->id->qp,
		.spans = pieces,
	};
	int count = stream->placing != NULL && length >= LEAST ? vb_iov_cursor_peek(from, pieces, PIECES, length) : -1;

	if (count < 0)
		return false;
	call.count = (uint32_t)count;
	if (stream->placing(stream->id->verbs, &call) != 0)
		return false;
	vb_iov_cursor_skip(from, length);
	return true;
}
