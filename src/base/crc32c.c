/* SPDX-License-Identifier: MIT
 *
 * CRC-32C of polynomial 0x1edc6f41, reflected.
 */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u

/* table[k][b]: of byte b with k zeros behind it. Eight bytes at a time are eight looks side by side. */
enum { SLICES = 8 };
static uint32_t table[SLICES][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t r = i;

		for (int bit = 0; bit < 8; bit++)
			r = r >> 1 ^ (r & 1 ? POLYNOMIAL : 0);
		table[0][i] = r;
	}
	for (int k = 1; k < SLICES; k++)
		for (uint32_t i = 0; i < 256; i++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

static uint32_t portable(uint32_t crc, const uint8_t *at, size_t length)
{
	pthread_once(&table_once, fill_table);
	crc = ~crc;
	for (; length >= SLICES; length -= SLICES, at += SLICES)
		crc = table[7][(crc ^ at[0]) & 0xff] ^ table[6][(crc >> 8 ^ at[1]) & 0xff] ^ table[5][(crc >> 16 ^ at[2]) & 0xff] ^
		      table[4][(crc >> 24 ^ at[3]) & 0xff] ^ table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^ table[0][at[7]];
	for (; length > 0; length--)
		crc = crc >> 8 ^ table[0][(crc ^ *at++) & 0xff];
	return ~crc;
}

uint32_t vb_crc32c(uint32_t crc, const void *bytes, size_t length)
{
	return portable(crc, bytes, length);
}

uint32_t vb_crc32c_copy(uint32_t crc, void *to, const void *from, size_t length)
{
	if (length == 0)
		return crc;
	memcpy(to, from, length);
	return portable(crc, to, length);
}
