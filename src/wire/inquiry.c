/* SPDX-License-Identifier: MIT
 *
 * See inquiry.h. Fields are big-endian; what is not named is zero.
 */
#include "wire/inquiry.h"

#include <string.h>

#include "base/bytes.h"

#define INQUIRY_MAGIC 0xff0f5602u
#define ANSWER_MAGIC 0xff0f5603u

struct inquiry_layout {
	struct be32 magic;
	struct be32 qpn;                 /* at 5..7, where the BTH has it */
	struct be64 nonce;
	struct be32 asker_qpn, send_psn, receive_psn, about_qpn;
	uint8_t zero[96];
};

struct answer_layout {
	struct be32 magic;
	struct be32 qpn;
	struct be64 nonce;
	struct be32 status, state, type, receives;
	struct be32 expected_psn, fault, key, psn;
	struct be64 address, length, region_start, region_length;
	struct be32 rights_asked, rights_granted, pd, region_pd;
	struct be32 swapped_key, version;
	struct be64 gone_for;
	uint8_t zero[16];
};

_Static_assert(sizeof(struct inquiry_layout) == VB_INQUIRY_LENGTH, "inquiry");
_Static_assert(sizeof(struct answer_layout) == VB_INQUIRY_LENGTH, "answer");
_Static_assert(offsetof(struct inquiry_layout, qpn) == 4, "the steering program reads the QPN at 5");

void vb_inquiry_encode(const struct vb_inquiry *inquiry, uint8_t bytes[VB_INQUIRY_LENGTH])
{
	struct inquiry_layout out = {
		.magic = be32_of(INQUIRY_MAGIC),
		.qpn = be32_of(inquiry->qpn & 0xffffff),
		.nonce = be64_of(inquiry->nonce),
		.asker_qpn = be32_of(inquiry->asker_qpn),
		.send_psn = be32_of(inquiry->send_psn),
		.receive_psn = be32_of(inquiry->receive_psn),
		.about_qpn = be32_of(inquiry->about_qpn),
	};

	memcpy(bytes, &out, sizeof(out));
}

bool vb_inquiry_decode(struct vb_inquiry *inquiry, const uint8_t *bytes, size_t length)
{
	struct inquiry_layout in;

	if (length != sizeof(in))
		return false;
	memcpy(&in, bytes, sizeof(in));
	if (be32_get(in.magic) != INQUIRY_MAGIC)
		return false;
	*inquiry = (struct vb_inquiry){
		.qpn = be32_get(in.qpn) & 0xffffff,
		.asker_qpn = be32_get(in.asker_qpn) & 0xffffff,
		.send_psn = be32_get(in.send_psn) & 0xffffff,
		.receive_psn = be32_get(in.receive_psn) & 0xffffff,
		.about_qpn = be32_get(in.about_qpn) & 0xffffff,
		.nonce = be64_get(in.nonce),
	};
	return true;
}

void vb_inquiry_answer_encode(const struct vb_inquiry_answer *answer, uint8_t bytes[VB_INQUIRY_LENGTH])
{
	struct answer_layout out = {
		.magic = be32_of(ANSWER_MAGIC),
		.qpn = be32_of(answer->qpn),
		.nonce = be64_of(answer->nonce),
		.status = be32_of(answer->status),
		.state = be32_of(answer->state),
		.type = be32_of(answer->type),
		.receives = be32_of(answer->receives),
		.expected_psn = be32_of(answer->expected_psn),
		.fault = be32_of(answer->fault),
		.key = be32_of(answer->key),
		.psn = be32_of(answer->psn),
		.address = be64_of(answer->address),
		.length = be64_of(answer->length),
		.region_start = be64_of(answer->region_start),
		.region_length = be64_of(answer->region_length),
		.rights_asked = be32_of(answer->rights_asked),
		.rights_granted = be32_of(answer->rights_granted),
		.pd = be32_of(answer->pd),
		.region_pd = be32_of(answer->region_pd),
		.swapped_key = be32_of(answer->swapped_key),
		.gone_for = be64_of(answer->gone_for),
		.version = be32_of(answer->version),
	};

	memcpy(bytes, &out, sizeof(out));
}

bool vb_inquiry_answer_decode(struct vb_inquiry_answer *answer, const uint8_t *bytes, size_t length)
{
	struct answer_layout in;

	if (length != sizeof(in))
		return false;
	memcpy(&in, bytes, sizeof(in));
	if (be32_get(in.magic) != ANSWER_MAGIC || be32_get(in.status) < VB_INQUIRY_NO_PROCESS ||
	    be32_get(in.status) >= VB_INQUIRY_STATUS_END)
		return false;
	*answer = (struct vb_inquiry_answer){
		.nonce = be64_get(in.nonce),
		.status = be32_get(in.status),
		.qpn = be32_get(in.qpn),
		.state = be32_get(in.state),
		.type = be32_get(in.type),
		.receives = be32_get(in.receives),
		.expected_psn = be32_get(in.expected_psn),
		.fault = be32_get(in.fault),
		.key = be32_get(in.key),
		.rights_asked = be32_get(in.rights_asked),
		.rights_granted = be32_get(in.rights_granted),
		.pd = be32_get(in.pd),
		.region_pd = be32_get(in.region_pd),
		.address = be64_get(in.address),
		.length = be64_get(in.length),
		.region_start = be64_get(in.region_start),
		.region_length = be64_get(in.region_length),
		.psn = be32_get(in.psn),
		.swapped_key = be32_get(in.swapped_key),
		.gone_for = be64_get(in.gone_for),
		.version = be32_get(in.version),
	};
	return true;
}
