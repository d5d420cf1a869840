/* SPDX-License-Identifier: MIT
 *
 * RNR NAK timer codes, IBA table 45. The specification gives milliseconds with two decimals, so the table holds tens
 * of microseconds and every value is exact.
 */
#include "wire/rnr_timer.h"

static const uint16_t tens_of_microseconds[32] = {
	0 /* does not fit, see below */, 1, 2, 3, 4, 6, 8, 12,
	16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072,
	4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

vb_time vb_rnr_timer_delay(uint8_t code)
{
	code &= 0x1f;
	return code == 0 ? VB_MICROSECONDS(655360) : VB_MICROSECONDS(10) * tens_of_microseconds[code];
}
