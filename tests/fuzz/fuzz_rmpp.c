/* SPDX-License-Identifier: MIT
 *
 * Segments and acknowledgements of RMPP in any order and with any lengths, against a sender and a receiver. An input
 * is a list of them, twelve bytes each: the RMPP header. A message that is complete is no longer than what has come.
 */
#include <string.h>

#include "fabric/rmpp.h"
#include "target.h"

enum { STEP = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	uint8_t message[3000] = {1, VB_MAD_SA, 2, 0x92};
	struct vb_rmpp_sender sender;
	struct vb_rmpp_receiver receiver;
	struct vb_mad out, reply;
	size_t segments = 0;
	vb_time now = 0;

	FUZZ_CHECK(vb_rmpp_sender_init(&sender, message, sizeof(message), now, VB_SECONDS(1), 3) == 0);
	vb_rmpp_receiver_init(&receiver, VB_MAD_SA);
	for (size_t at = 1; at + STEP <= length; at += STEP) {
		struct vb_mad mad = {.base_version = 1, .mgmt_class = VB_MAD_SA, .class_version = 2, .method = 0x92};
		struct vb_rmpp *rmpp = (struct vb_rmpp *)(void *)&mad;
		bool has_reply;

		memcpy(&rmpp->version, input + at, STEP);
		if (input[at] & 0x80) {
			/* Likely ones. */
			rmpp->version = 1;
			rmpp->status = 0;
			rmpp->segment = be32_of(be32_get(rmpp->segment) & 0x0f);
		}
		if (input[at + 1] & 0x10) {
			rmpp->type &= 0x07;
			if (vb_rmpp_sender_receive(&sender, now, &mad) != VB_RMPP_GOES_ON)
				break;
			FUZZ_CHECK(sender.acked <= sender.sent && sender.sent <= sender.segments);
			while (vb_rmpp_sender_next(&sender, &out))
				FUZZ_CHECK(sender.sent <= sender.window_last);
		} else {
			rmpp->type = rmpp->type & 0x20 ? rmpp->type : VB_RMPP_DATA_SEGMENT;
			segments++;
			if (vb_rmpp_receiver_receive(&receiver, &mad, &reply, &has_reply) != VB_RMPP_GOES_ON)
				break;
		}
		FUZZ_CHECK(receiver.length <= VB_SA_DATA + 200 * segments);
		FUZZ_CHECK(receiver.received <= segments);
	}
	vb_rmpp_sender_fini(&sender);
	vb_rmpp_receiver_fini(&receiver);
	return 0;
}
