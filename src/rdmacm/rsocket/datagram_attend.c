/* SPDX-License-Identifier: MIT
 *
 * The UDP side of datagram rsockets, in the service thread: deliver what came this way, answer it with our queue
 * pair, and note the sender's. Any host can send here: what does not parse is dropped, and a peer is only ever told
 * what it could ask for.
 */
#include <errno.h>
#include <string.h>

#include "rdmacm/rsocket/datagram.h"
#include "rdmacm/rsocket/wait.h"

enum { MESSAGES_AT_ONCE = 64 };          /* then others get their turn */

/* Caller holds rs->lock. True: something changed. */
static bool take_message(struct vb_rsocket *rs)
{
	uint8_t bytes[VB_RDATAGRAM_UDP_HEADER_MOST + VB_RDATAGRAM_SLOT];
	union vb_rsocket_address from;
	socklen_t from_length = sizeof(from);
	enum vb_rdatagram_operation operation;
	struct vb_rdatagram_peer *peer;
	uint32_t queue_pair;
	ssize_t length;
	int header;

	memset(&from, 0, sizeof(from));
	length = recvfrom(rs->fd, bytes, sizeof(bytes), MSG_DONTWAIT, &from.any, &from_length);
	if (length < 0)                          /* an error of an earlier send: the next message is behind it */
		return errno != EAGAIN && errno != EWOULDBLOCK;
	header = vb_rdatagram_udp_header_decode(&operation, &queue_pair, from.any.sa_family, bytes, (size_t)length);
	if (header < 0 || vb_rdatagram_peer_find(rs, &from, &peer) != 0)
		return true;
	vb_rdatagram_peer_learn(peer, queue_pair);
	if (operation == VB_RDATAGRAM_DATA) {
		vb_rdatagram_send_udp(rs, peer, VB_RDATAGRAM_ANSWER, NULL);
		vb_rdatagram_deliver(rs, &from, bytes + header, (size_t)length - (size_t)header);
	}
	return true;
}

void vb_rdatagram_attend(struct vb_rsocket *rs)
{
	vb_mutex_lock(&rs->lock);
	for (unsigned i = 0; i < MESSAGES_AT_ONCE; i++)
		if (rs->closed || !take_message(rs))
			break;
	vb_rsocket_wake(rs);
	vb_mutex_unlock(&rs->lock);
}
