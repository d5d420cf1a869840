/* SPDX-License-Identifier: MIT
 *
 * The handshake that makes a TCP connection an iWARP one (RFC 5044 7.1, RFC 6581): both roles, what they agree on, and their time
 * limits. Pure: handed the bytes that came, asked for those that are to leave.
 *
 *   initiator   REQUESTING ──reply──▶ AGREED                     responder   LISTENING ──request──▶ ASKED ──accept──▶ AGREED
 *                   └───────reject──▶ REJECTED                                               └─────reject──▶ REJECTED
 *   either      anything else ──▶ FAILED
 *
 * In AGREED and REJECTED there may be bytes left to send. Never more is read than the frame has: what is behind it is the stream's.
 */
#ifndef VB_CONNECT_MPA_H
#define VB_CONNECT_MPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "wire/mpa_frame.h"

enum { VB_MPA_MAX_DEPTH = 128 };           /* the most READs of a peer that we answer at once */

#define VB_MPA_REQUEST_PATIENCE VB_SECONDS(5)  /* for a request to be whole, from the connection on */
#define VB_MPA_REPLY_PATIENCE VB_SECONDS(60)   /* for the reply, from the first SYN on */

enum vb_mpa_state {
	VB_MPA_LISTENING,
	VB_MPA_ASKED,
	VB_MPA_REQUESTING,
	VB_MPA_AGREED,
	VB_MPA_REJECTED,
	VB_MPA_FAILED,
};

/* The message of length zero by which the initiator says that it is ready to receive. */
enum vb_mpa_rtr { VB_MPA_RTR_NONE, VB_MPA_RTR_SEND, VB_MPA_RTR_WRITE, VB_MPA_RTR_READ };

/* What one side would have. */
struct vb_mpa_wishes {
	uint16_t ird, ord;               /* READs answered and asked for at once, at most VB_MPA_MAX_DEPTH */
	bool crc;                        /* it is used if either side wants it */
	bool large;                      /* long FPDUs are welcome */
	bool peer_to_peer;               /* initiator: ask for it */
};

/* What was agreed on, seen from this side. */
struct vb_mpa_terms {
	bool initiator;
	bool crc, large;
	bool half_close;                 /* the peer bears the end of our half of the stream while it sends: it is one of ours */
	bool peer_to_peer;               /* responder: connected when the RTR has come */
	enum vb_mpa_rtr rtr;             /* which it was agreed to be */
	uint16_t ird, ord;
};

struct vb_mpa {
	enum vb_mpa_state state;
	bool initiator;
	int error;                       /* FAILED: -ECONNRESET closed, -ETIMEDOUT, -EPROTO no or no fitting frame */
	struct vb_mpa_wishes wishes;
	struct vb_mpa_terms terms;       /* AGREED */
	vb_time deadline;                /* VB_TIME_NEVER: none */
	struct vb_mpa_frame peer;        /* ASKED, AGREED, REJECTED: what the other side said */
	size_t received, sent, to_send;
	uint8_t in[VB_MPA_MAX_FRAME], out[VB_MPA_MAX_FRAME];
};

/* Private data is at most VB_MPA_MAX_PRIVATE bytes. */
void vb_mpa_request(struct vb_mpa *mpa, const struct vb_mpa_wishes *wishes, const void *private_data, size_t length, vb_time now);
void vb_mpa_listen(struct vb_mpa *mpa, vb_time now);
/* ASKED: the answer. */
void vb_mpa_accept(struct vb_mpa *mpa, const struct vb_mpa_wishes *wishes, const void *private_data, size_t length);
void vb_mpa_reject(struct vb_mpa *mpa, const void *private_data, size_t length);

/* How many bytes may be read now; 0: none. */
size_t vb_mpa_wants(const struct vb_mpa *mpa);
/* At most so many have come. */
void vb_mpa_take(struct vb_mpa *mpa, const uint8_t *bytes, size_t length);
/* The peer has closed, or the connection broke. */
void vb_mpa_closed(struct vb_mpa *mpa, int error);
/* What is to be sent; NULL: nothing. */
const uint8_t *vb_mpa_output(const struct vb_mpa *mpa, size_t *length);
void vb_mpa_sent(struct vb_mpa *mpa, size_t length);
/* Is it too late? */
void vb_mpa_expire(struct vb_mpa *mpa, vb_time now);

#endif
