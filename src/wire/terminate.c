/* SPDX-License-Identifier: MIT
 *
 * See terminate.h.
 */
#include "wire/terminate.h"

#include <string.h>

#include "base/bytes.h"

enum {
	RFC_LENGTH = 0x80,
	RFC_HEADER = 0x40,
	RFC_READ = 0x20,
	RFC_BITS = RFC_LENGTH | RFC_HEADER | RFC_READ,
	SIW_LENGTH = 0x01,
	SIW_HEADER = 0x02,
	SIW_READ = 0x04,
	SIW_BITS = SIW_LENGTH | SIW_HEADER | SIW_READ,
	LENGTH_FIELD = 2,
	MPA_CRC = 2,
	MPA_MARKER = 3,
	SIW_MPA_MOST = 4,
};

/* Whose form is it? The bits of either are never those of the other; without any it is told by what the first byte can mean. */
static bool is_by_siw(const uint8_t *body, bool first)
{
	uint8_t code = body[1];

	if (body[2] & (RFC_BITS | SIW_BITS))
		return !(body[2] & RFC_BITS);
	switch (body[0]) {
	case 0x20: /* MPA, or siw's remote operation error of RDMAP */
		return !first && code != MPA_CRC && code != MPA_MARKER;
	case 0x02: /* a remote operation error of RDMAP, or siw's MPA: codes of the former begin at 5 */
		return code >= 1 && code <= SIW_MPA_MOST;
	case 0x21: /* DDP's untagged buffer by siw; MPA has one type only */
		return true;
	default:
		return false;
	}
}

bool vb_terminate_decode(struct vb_terminate *terminate, const uint8_t *body, size_t length, bool first)
{
	size_t at = VB_RDMAP_TERMINATE_LENGTH;
	uint8_t bits;

	if (length < VB_RDMAP_TERMINATE_LENGTH)
		return false;
	bits = body[2];
	*terminate = (struct vb_terminate){.by_siw = is_by_siw(body, first)};
	if (terminate->by_siw) {
		terminate->cause = vb_terminate_cause(body[0] & 15, body[0] >> 4, body[1]);
		terminate->has_length = bits & SIW_LENGTH;
		terminate->has_header = bits & SIW_HEADER;
		terminate->has_read = bits & SIW_READ;
	} else {
		terminate->cause = vb_terminate_cause(body[0] >> 4, body[0] & 15, body[1]);
		terminate->has_length = bits & RFC_LENGTH;
		terminate->has_header = bits & RFC_HEADER;
		terminate->has_read = bits & RFC_READ;
	}
	if (terminate->has_length || terminate->has_header) {
		if (length - at < LENGTH_FIELD)
			return false;
		terminate->segment_length = (uint16_t)(body[at] << 8 | body[at + 1]);
		at += LENGTH_FIELD;
	}
	if (terminate->has_header) {
		if (!vb_ddp_decode(&terminate->header, body + at, length - at))
			return false;
		at += vb_ddp_header_length(&terminate->header);
	}
	if (terminate->has_read) {
		if (length - at < VB_RDMAP_READ_LENGTH)
			return false;
		vb_rdmap_read_decode(&terminate->read, body + at);
	}
	return true;
}

size_t vb_terminate_encode(const struct vb_terminate *terminate, uint8_t body[VB_TERMINATE_MOST])
{
	unsigned layer = vb_terminate_layer(terminate->cause), type = vb_terminate_type(terminate->cause);
	bool siw = terminate->by_siw;
	size_t at = VB_RDMAP_TERMINATE_LENGTH;

	body[0] = (uint8_t)(siw ? type << 4 | (layer & 15) : layer << 4 | type);
	body[1] = (uint8_t)vb_terminate_code(terminate->cause);
	body[2] = (uint8_t)((terminate->has_length ? (siw ? SIW_LENGTH : RFC_LENGTH) : 0) |
			    (terminate->has_header ? (siw ? SIW_HEADER : RFC_HEADER) : 0) |
			    (terminate->has_read ? (siw ? SIW_READ : RFC_READ) : 0));
	body[3] = 0;
	if (terminate->has_length || terminate->has_header) {
		body[at++] = (uint8_t)(terminate->segment_length >> 8);
		body[at++] = (uint8_t)terminate->segment_length;
	}
	if (terminate->has_header)
		at += vb_ddp_encode(&terminate->header, body + at);
	if (terminate->has_read) {
		vb_rdmap_read_encode(&terminate->read, body + at);
		at += VB_RDMAP_READ_LENGTH;
	}
	return at;
}

/* ---- words ---- */

/* RFC 5040 figure 11, RFC 5041 8.2, RFC 5044 8, RFC 6581 10, RFC 7306 7. */
#define TYPES(X)                                    \
	X(0, 0, "local catastrophic error")         \
	X(0, 1, "remote protection error")          \
	X(0, 2, "remote operation error")           \
	X(1, 0, "local catastrophic error")         \
	X(1, 1, "tagged buffer error")              \
	X(1, 2, "untagged buffer error")            \
	X(2, 0, "MPA error")

#define CODES(X)                                                                 \
	X(0, 0, 0xff, "not further described")                                   \
	X(0, 1, 0x00, "invalid STag")                                            \
	X(0, 1, 0x01, "base or bounds violation")                                \
	X(0, 1, 0x02, "access rights violation")                                 \
	X(0, 1, 0x03, "STag not associated with the stream")                     \
	X(0, 1, 0x04, "TO wrap")                                                 \
	X(0, 1, 0x09, "STag cannot be invalidated")                              \
	X(0, 1, 0xff, "not further described")                                   \
	X(0, 2, 0x05, "invalid RDMAP version")                                   \
	X(0, 2, 0x06, "unexpected opcode")                                       \
	X(0, 2, 0x07, "catastrophic error, of this stream")                      \
	X(0, 2, 0x08, "catastrophic error, of more than this stream")            \
	X(0, 2, 0x09, "STag cannot be invalidated")                              \
	X(0, 2, 0xff, "not further described")                                   \
	X(1, 1, 0x00, "invalid STag")                                            \
	X(1, 1, 0x01, "base or bounds violation")                                \
	X(1, 1, 0x02, "STag not associated with the stream")                     \
	X(1, 1, 0x03, "TO wrap")                                                 \
	X(1, 1, 0x04, "invalid DDP version")                                     \
	X(1, 2, 0x01, "invalid queue number")                                    \
	X(1, 2, 0x02, "invalid MSN, no buffer available")                        \
	X(1, 2, 0x03, "invalid MSN, out of range")                               \
	X(1, 2, 0x04, "invalid MO")                                              \
	X(1, 2, 0x05, "message too long for the buffer")                         \
	X(1, 2, 0x06, "invalid DDP version")                                     \
	X(2, 0, 0x01, "TCP connection closed, terminated or lost")               \
	X(2, 0, 0x02, "CRC check failed")                                        \
	X(2, 0, 0x03, "marker and ULPDU length disagree")                        \
	X(2, 0, 0x04, "invalid MPA request or reply frame")                      \
	X(2, 0, 0x05, "local catastrophic error")                                \
	X(2, 0, 0x06, "insufficient IRD")                                        \
	X(2, 0, 0x07, "no matching ready-to-receive message")

#define CASE(layer, type, code) (layer) << 12 | (type) << 8 | (code)

const char *vb_terminate_layer_name(struct vb_terminate_cause cause)
{
	static const char *const names[] = {"RDMAP", "DDP", "MPA"};

	return vb_terminate_layer(cause) < 3 ? names[vb_terminate_layer(cause)] : "a layer without a name";
}

const char *vb_terminate_type_name(struct vb_terminate_cause cause)
{
	switch (cause.v >> 8) {
#define X(layer, type, name)    \
	case (layer) << 4 | (type): \
		return name;
	TYPES(X)
#undef X
	default:
		return "an error without a name";
	}
}

const char *vb_terminate_code_name(struct vb_terminate_cause cause)
{
	switch (cause.v) {
#define X(layer, type, code, name)    \
	case CASE(layer, type, code): \
		return name;
	CODES(X)
#undef X
	default:
		return "a code without a name";
	}
}
