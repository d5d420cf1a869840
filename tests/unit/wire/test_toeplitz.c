/* SPDX-License-Identifier: MIT
 *
 * The Toeplitz hash against what Microsoft has published for those who implement it ("Verifying the RSS hash calculation").
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/toeplitz.h"

static const uint8_t key[VB_TOEPLITZ_KEY] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

static const struct published {
	int family;
	const char *source, *destination;
	uint16_t source_port, destination_port;
	uint32_t addresses, with_ports;
} published[] = {
	{AF_INET, "66.9.149.187", "161.142.100.80", 2794, 1766, 0x323e8fc2, 0x51ccc178},
	{AF_INET, "199.92.111.2", "65.69.140.83", 14230, 4739, 0xd718262a, 0xc626b0ea},
	{AF_INET, "24.19.198.95", "12.22.207.184", 12898, 38024, 0xd2d0a5de, 0x5c2b394a},
	{AF_INET, "38.27.205.30", "209.142.163.6", 48228, 2217, 0x82989176, 0xafc7327f},
	{AF_INET, "153.39.163.191", "202.188.127.2", 44251, 1303, 0x5d1809c5, 0x10e828a2},
	{AF_INET6, "3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, 0x2cc18cd5, 0x40207d3d},
	{AF_INET6, "3ffe:501:8::260:97ff:fe40:efab", "ff02::1", 14230, 4739, 0x0f0c461c, 0xdde51bbf},
	{AF_INET6, "3ffe:1900:4545:3:200:f8ff:fe21:67cf", "fe80::200:f8ff:fe21:67cf", 44251, 38024, 0x4b61e985, 0x02d1feef},
};

static void as_published(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
		const struct published *row = &published[i];
		size_t length = row->family == AF_INET ? 4 : 16;
		uint8_t input[VB_TOEPLITZ_INPUT];
		const uint8_t ports[] = {(uint8_t)(row->source_port >> 8), (uint8_t)row->source_port,
					 (uint8_t)(row->destination_port >> 8), (uint8_t)row->destination_port};

		assert_int_equal(inet_pton(row->family, row->source, input), 1);
		assert_int_equal(inet_pton(row->family, row->destination, input + length), 1);
		memcpy(input + 2 * length, ports, sizeof(ports));
		assert_int_equal(vb_toeplitz(key, input, 2 * length), row->addresses);
		assert_int_equal(vb_toeplitz(key, input, 2 * length + sizeof(ports)), row->with_ports);
	}
}

static void of_nothing(void **state)
{
	(void)state;
	assert_int_equal(vb_toeplitz(key, NULL, 0), 0);
	assert_int_equal(vb_toeplitz(key, (const uint8_t[]){0x80}, 1), 0x6d5a56da);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_published),
		cmocka_unit_test(of_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
