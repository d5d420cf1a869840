/* SPDX-License-Identifier: MIT
 *
 * See fpdu.h.
 */
#include "wire/fpdu.h"

#include <string.h>

#include "base/crc32c.h"

uint32_t vb_fpdu_mulpdu(uint32_t emss)
{
	uint32_t mulpdu = emss > VB_MULPDU_LEAST ? emss - 6 - emss % 4 : 0;

	if (mulpdu < VB_MULPDU_LEAST)
		return VB_MULPDU_LEAST;
	return mulpdu > VB_MULPDU_MOST ? VB_MULPDU_MOST : mulpdu;
}

uint32_t vb_fpdu_put_trailer(uint8_t *bytes, uint32_t ulpdu_length, uint32_t crc, bool crc_is_used)
{
	static const uint8_t zeros[3];
	uint32_t pad = vb_fpdu_pad(ulpdu_length);

	memcpy(bytes, zeros, pad);
	crc = crc_is_used ? vb_crc32c(crc, zeros, pad) : 0;
	for (unsigned i = 0; i < VB_FPDU_CRC_LENGTH; i++)
		bytes[pad + i] = (uint8_t)(crc >> 8 * i);
	return pad + VB_FPDU_CRC_LENGTH;
}

uint32_t vb_fpdu_get_crc(const uint8_t bytes[VB_FPDU_CRC_LENGTH])
{
	return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}
