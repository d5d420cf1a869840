/* SPDX-License-Identifier: MIT
 *
 * Two of ours on one host tell each other which queue pairs they are, so that a way past the stream can be found (queue/bypass.h): the
 * first that has a WRITE or READ does, and the other answers in kind. It is a WRITE of no bytes, of which neither STag nor TO is looked at
 * (RFC 5040 5.1): a peer that knows nothing of introductions finds nothing to do. Connections without WRITEs and READs send none.
 *
 *   STag   number of the queue pair, 24 bits, and MARK
 *   TO     a nonce
 *
 * The connection is known to both by both nonces. What is said here is believed nowhere: it is where to look.
 */
#include "iwarp/engine.h"

enum { MARK = 0x69, MARK_BITS = 8 };

/* A responder that holds back does so until it has heard something. */
bool vb_iwarp_introduction_is_owed(const struct vb_iwarp_engine *engine, const struct vb_iwarp_cursor *cursor)
{
	return engine->terms.nonce != 0 && !cursor->introduced && (engine->introduction.wanted || engine->introduction.heard) &&
	       !engine->first.holds_back && engine->stage == VB_IWARP_OPEN;
}

struct vb_ddp_header vb_iwarp_introduction_header(const struct vb_qp *qp)
{
	struct vb_ddp_header header = vb_ddp_header_of(VB_RDMAP_WRITE, true);

	header.stag = qp->qpn << MARK_BITS | MARK;
	header.offset = vb_iwarp_engine_of(qp)->terms.nonce;
	return header;
}

void vb_iwarp_introduction_heard(struct vb_iwarp_engine *engine, const struct vb_ddp_header *header)
{
	if (engine->terms.nonce == 0 || engine->introduction.heard || (header->stag & ((1u << MARK_BITS) - 1)) != MARK)
		return;
	engine->introduction.heard = true;
	engine->introduction.peer_qpn = header->stag >> MARK_BITS;
	engine->introduction.peer_nonce = header->offset;
}

bool vb_iwarp_is_introduced(const struct vb_qp *qp, uint32_t *peer_qpn, uint64_t *connection)
{
	const struct vb_iwarp_engine *engine = vb_iwarp_engine_of(qp);

	if (!engine->introduction.heard)
		return false;
	*peer_qpn = engine->introduction.peer_qpn;
	*connection = engine->terms.nonce ^ engine->introduction.peer_nonce;
	return true;
}
