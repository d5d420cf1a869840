/* SPDX-License-Identifier: MIT
 *
 * The CM message decoder against any bytes. An input is a packet as in the captures, so that the MADs among the golden
 * packets seed it: one byte, 20 bytes of BTH and DETH, then the MAD. What is accepted must mean the same after
 * being encoded again.
 */
#include <string.h>

#include "target.h"
#include "wire/cm_mad.h"

enum { BEFORE_MAD = 1 + VB_BTH_LENGTH + VB_DETH_LENGTH };

static void check_ip_header(const uint8_t *private_data)
{
	struct vb_cm_ip_header header, again;
	uint8_t bytes[VB_CM_IP_HEADER_LENGTH];

	memset(&header, 0, sizeof(header));
	memset(&again, 0, sizeof(again));
	if (vb_cm_ip_header_decode(&header, private_data))
		return;
	vb_cm_ip_header_encode(&header, bytes);
	FUZZ_CHECK(vb_cm_ip_header_decode(&again, bytes) == 0);
	FUZZ_CHECK(memcmp(&header, &again, sizeof(header)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	static struct vb_cm_mad mad, again;
	uint8_t first[VB_CM_MAD_LENGTH], second[VB_CM_MAD_LENGTH], *bytes;

	if (length < BEFORE_MAD)
		return 0;
	length -= BEFORE_MAD;
	bytes = malloc(length ? length : 1); /* of exactly that size, for the sanitizer */
	if (!bytes)
		return 0;
	memcpy(bytes, input + BEFORE_MAD, length);
	if (vb_cm_mad_decode(&mad, bytes, length) == 0) {
		FUZZ_CHECK(length >= VB_CM_MAD_LENGTH);
		FUZZ_CHECK(mad.attribute >= VB_CM_REQ && mad.attribute < VB_CM_ATTRIBUTE_END);
		vb_cm_mad_encode(&mad, first);
		FUZZ_CHECK(vb_cm_mad_decode(&again, first, sizeof(first)) == 0);
		FUZZ_CHECK(memcmp(&mad, &again, sizeof(mad)) == 0);
		vb_cm_mad_encode(&again, second);
		FUZZ_CHECK(memcmp(first, second, sizeof(first)) == 0);
		if (mad.attribute == VB_CM_REQ)
			check_ip_header(mad.req.private_data);
	}
	free(bytes);
	return 0;
}
