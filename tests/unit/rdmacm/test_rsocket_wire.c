/* SPDX-License-Identifier: MIT
 *
 * What rsockets say on the wire, against bytes of rdma-core's own (a capture of rstream between two machines), and
 * the parts of rsockets that need no network: scaled numbers, lists of buffers, settings.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "rdmacm/rsocket/datagram_wire.h"
#include "rdmacm/rsocket/iov.h"
#include "rdmacm/rsocket/settings.h"
#include "rdmacm/rsocket/stream_wire.h"

/* Private data of rstream's REQ. */
static const uint8_t captured_hello[40] = {
	0x01, 0x02, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xa8, 0x00, 0x30, 0x00, 0x00, 0x00,
		0x85, 0x37,
	0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0xff, 0xff, 0xad, 0x9f, 0xb0, 0x00, 0x00, 0x00, 0x86, 0xf7, 0x00, 0x08,
		0x00, 0x00,
};

static void a_captured_hello_is_understood_and_said_again(void **state)
{
	struct vb_rstream_hello_bytes bytes;
	struct vb_rstream_hello hello;

	(void)state;
	assert_int_equal(vb_rstream_hello_decode(&hello, captured_hello, sizeof(captured_hello)), 0);
	assert_int_equal(hello.credits, 384);
	assert_int_equal(hello.iomaps, 0);
	assert_false(hello.big_endian);
	assert_int_equal(hello.targets.address, 0xffffa8003000);
	assert_int_equal(hello.targets.key, 0x8537);
	assert_int_equal(hello.targets.length, 2);
	assert_int_equal(hello.data.address, 0xffffad9fb000);
	assert_int_equal(hello.data.key, 0x86f7);
	assert_int_equal(hello.data.length, 512 * 1024);
	vb_rstream_hello_encode(&bytes, &hello);
	assert_memory_equal(&bytes, captured_hello, sizeof(captured_hello));
}

static void a_bad_hello_is_refused(void **state)
{
	struct vb_rstream_hello hello;
	uint8_t bytes[40];

	(void)state;
	for (unsigned length = 0; length < sizeof(bytes); length++)
		assert_int_equal(vb_rstream_hello_decode(&hello, captured_hello, length), -EPROTO);
	assert_int_equal(vb_rstream_hello_decode(&hello, NULL, 40), -EPROTO);
	memcpy(bytes, captured_hello, sizeof(bytes));
	bytes[0] = 2;
	assert_int_equal(vb_rstream_hello_decode(&hello, bytes, sizeof(bytes)), -EPROTO);
	memcpy(bytes, captured_hello, sizeof(bytes));
	bytes[23] = 0;                           /* a target list without entries: we would divide by them */
	assert_int_equal(vb_rstream_hello_decode(&hello, bytes, sizeof(bytes)), -EPROTO);
}

/* Immediate data from the captures of rstream and riostream. */
static void messages_are_those_of_the_captures(void **state)
{
	(void)state;
	assert_int_equal(vb_rstream_message_encode(VB_RSTREAM_DATA, 1024), 0x00000400);
	assert_int_equal(vb_rstream_message_encode(VB_RSTREAM_GRANT, 384), 0x80000180);
	assert_int_equal(vb_rstream_message_encode(VB_RSTREAM_IOMAP, 0), 0xc0000000);
	assert_int_equal(vb_rstream_message_encode(VB_RSTREAM_CONTROL, VB_RSTREAM_DISCONNECT), 0xe0000000);
	assert_int_equal(vb_rstream_message_encode(VB_RSTREAM_CONTROL, VB_RSTREAM_SHUT_DOWN), 0xe0000002);
	assert_int_equal(vb_rstream_message_kind(0xe0000002), VB_RSTREAM_CONTROL);
	assert_int_equal(vb_rstream_message_value(0xe0000002), VB_RSTREAM_SHUT_DOWN);
	assert_int_equal(vb_rstream_message_value(0xffffffff), 0x1fffffff);
	assert_int_equal(vb_rstream_message_kind(vb_rstream_message_encode(VB_RSTREAM_DATA, UINT32_MAX)),
			 VB_RSTREAM_DATA);
}

/* The rule: up to 128 as it is, above that 128 plus 256ths. */
static void scaled_numbers(void **state)
{
	static const struct {
		uint32_t value;
		uint8_t scaled;
		uint32_t back;
	} rows[] = {
		{0, 0, 0}, {1, 1, 1}, {127, 127, 127}, {128, 128, 128}, {129, 128, 128}, {255, 128, 128},
			{256, 129, 256},
		{511, 129, 256}, {512, 130, 512}, {1000, 131, 768}, {32512, 255, 32512}, {65535, 255, 32512},
			{UINT32_MAX, 255, 32512},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(vb_rstream_scale_encode(rows[i].value), rows[i].scaled);
		assert_int_equal(vb_rstream_scale_decode(rows[i].scaled), rows[i].back);
	}
}

static void entries_for_a_peer_of_the_other_byte_order(void **state)
{
	struct vb_rstream_iomap iomap = {
		.offset = 0x0102030405060708,
		.span = {.address = 0x1112131415161718, .key = 0x21222324, .length = 0x31323334},
	}, swapped = vb_rstream_iomap_swap(iomap), back = vb_rstream_iomap_swap(swapped);

	(void)state;
	assert_int_equal(swapped.offset, 0x0807060504030201);
	assert_int_equal(swapped.span.address, 0x1817161514131211);
	assert_int_equal(swapped.span.key, 0x24232221);
	assert_int_equal(swapped.span.length, 0x34333231);
	assert_memory_equal(&back, &iomap, sizeof(iomap));
}

static union vb_rsocket_address v4(const char *text, uint16_t port)
{
	union vb_rsocket_address address = {.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};

	assert_int_equal(inet_pton(AF_INET, text, &address.v4.sin_addr), 1);
	return address;
}

static union vb_rsocket_address v6(const char *text, uint16_t port)
{
	union vb_rsocket_address address = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};

	assert_int_equal(inet_pton(AF_INET6, text, &address.v6.sin6_addr), 1);
	return address;
}

static void datagram_headers(void **state)
{
	static const uint8_t four[] = {4, 8, 0x1c, 0x06, 192, 0, 2, 1};
	union vb_rsocket_address from = v4("192.0.2.1", 7174), back;
	uint8_t bytes[64];

	(void)state;
	assert_int_equal(vb_rdatagram_header_encode(bytes, &from), sizeof(four));
	assert_memory_equal(bytes, four, sizeof(four));
	assert_int_equal(vb_rdatagram_header_decode(&back, bytes, sizeof(four)), sizeof(four));
	assert_memory_equal(&back.v4, &from.v4, sizeof(from.v4));
	for (size_t length = 0; length < sizeof(four); length++)
		assert_int_equal(vb_rdatagram_header_decode(&back, bytes, length), -EPROTO);

	from = v6("2001:db8::7", 9);
	assert_int_equal(vb_rdatagram_header_encode(bytes, &from), 24);
	assert_int_equal(bytes[0], 6);
	assert_int_equal(bytes[1], 24);
	assert_memory_equal(bytes + 8, &from.v6.sin6_addr, 16);
	assert_int_equal(vb_rdatagram_header_decode(&back, bytes, 24), 24);
	assert_memory_equal(&back.v6, &from.v6, sizeof(from.v6));
	for (size_t length = 0; length < 24; length++)
		assert_int_equal(vb_rdatagram_header_decode(&back, bytes, length), -EPROTO);
	bytes[1] = 8;
	assert_int_equal(vb_rdatagram_header_decode(&back, bytes, 24), -EPROTO);
}

static void udp_headers(void **state)
{
	static const uint8_t four[] = {0x55, 0x55, 0x55, 0x55, 4, 7, 16, 0, 0x00, 0x12, 0x34, 0x56, 192, 0, 2, 1};
	union vb_rsocket_address from = v4("192.0.2.1", 7174);
	enum vb_rdatagram_operation operation;
	uint32_t queue_pair;
	uint8_t bytes[64];

	(void)state;
	assert_int_equal(vb_rdatagram_udp_header_encode(bytes, VB_RDATAGRAM_ANSWER, 0xff123456, &from), sizeof(four));
	assert_memory_equal(bytes, four, sizeof(four));
	assert_int_equal(vb_rdatagram_udp_header_decode(&operation, &queue_pair, AF_INET, bytes, sizeof(bytes)),
			 sizeof(four));
	assert_int_equal(operation, VB_RDATAGRAM_ANSWER);
	assert_int_equal(queue_pair, 0x123456);
	assert_int_equal(vb_rdatagram_udp_header_decode(&operation, &queue_pair, AF_INET6, bytes, sizeof(bytes)),
			 -EPROTO);
	for (size_t length = 0; length < sizeof(four); length++)
		assert_int_equal(vb_rdatagram_udp_header_decode(&operation, &queue_pair, AF_INET, bytes, length),
				 -EPROTO);
	for (unsigned i = 0; i < 7; i++) {
		memcpy(bytes, four, sizeof(four));
		bytes[i] ^= 0x20;                /* tag, version, operation, length: each is checked */
		assert_int_equal(vb_rdatagram_udp_header_decode(&operation, &queue_pair, AF_INET, bytes, sizeof(four)),
				 -EPROTO);
	}
	from = v6("2001:db8::7", 9);
	assert_int_equal(vb_rdatagram_udp_header_encode(bytes, VB_RDATAGRAM_DATA, 5, &from), 28);
	assert_memory_equal(bytes + 12, &from.v6.sin6_addr, 16);
	assert_int_equal(vb_rdatagram_udp_header_decode(&operation, &queue_pair, AF_INET6, bytes, 28), 28);
	assert_int_equal(operation, VB_RDATAGRAM_DATA);
	assert_int_equal(queue_pair, 5);
}

static void buffers_are_one_after_the_other(void **state)
{
	char a[3] = "abc", b[1], c[4] = "defg", out[8] = "";
	struct iovec iov[] = {{a, 3}, {b, 0}, {c, 4}}, too_long[] = {{a, SIZE_MAX / 2}, {a, SIZE_MAX / 2}};
	struct vb_iov_cursor cursor;
	struct iovec pieces[2];

	(void)state;
	assert_int_equal(vb_iov_cursor_init(&cursor, iov, 3), 0);
	assert_int_equal(cursor.left, 7);
	vb_iov_cursor_read(&cursor, out, 2);
	vb_iov_cursor_read(&cursor, out + 2, 3);
	assert_int_equal(cursor.left, 2);
	vb_iov_cursor_read(&cursor, out + 5, 2);
	assert_int_equal(cursor.left, 0);
	assert_string_equal(out, "abcdefg");
	vb_iov_cursor_init(&cursor, iov, 3);
	vb_iov_cursor_write(&cursor, "1234567", 7);
	assert_memory_equal(a, "123", 3);
	assert_memory_equal(c, "4567", 4);
	vb_iov_cursor_init(&cursor, iov, 3);
	vb_iov_cursor_skip(&cursor, 1);
	assert_int_equal(vb_iov_cursor_peek(&cursor, pieces, 1, 3), -1);
	assert_int_equal(vb_iov_cursor_peek(&cursor, pieces, 2, 3), 2);
	assert_ptr_equal(pieces[0].iov_base, a + 1);
	assert_int_equal(pieces[0].iov_len, 2);
	assert_ptr_equal(pieces[1].iov_base, c);
	assert_int_equal(pieces[1].iov_len, 1);
	assert_int_equal(cursor.left, 6);
	vb_iov_cursor_skip(&cursor, 3);
	vb_iov_cursor_read(&cursor, out, 3);
	assert_memory_equal(out, "567", 3);
	assert_int_equal(vb_iov_cursor_init(&cursor, too_long, 2), -EINVAL);
	assert_int_equal(vb_iov_cursor_init(&cursor, iov, 5000), -EINVAL);
}

static void write_setting(const char *directory, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void remove_setting(const char *directory, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	unlink(path);
}

static void settings_come_from_files(void **state)
{
	static const char *const names[] = {"mem_default", "sqsize_default", "rqsize_default", "iomap_size",
					    "polling_time",
					    "wake_up_interval", "inline_default"};
	char directory[] = "/tmp/verbena-rsocket-XXXXXX";
	struct vb_rsocket_settings defaults, settings;

	(void)state;
	assert_non_null(mkdtemp(directory));
	vb_rsocket_settings_read(&defaults, directory);
	assert_int_equal(defaults.sizes.send_queue, 384);
	assert_int_equal(defaults.sizes.inline_data, 64);
	assert_int_equal(defaults.sizes.iomaps, 0);
	write_setting(directory, "mem_default", "1000001\n");
	write_setting(directory, "sqsize_default", "1");
	write_setting(directory, "rqsize_default", "70000");
	write_setting(directory, "iomap_size", "1000");
	write_setting(directory, "polling_time", "0");
	write_setting(directory, "wake_up_interval", "0");
	write_setting(directory, "inline_default", "many");
	vb_rsocket_settings_read(&settings, directory);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		remove_setting(directory, names[i]);
	rmdir(directory);
	assert_int_equal(settings.sizes.receive_buffer, 1000000);   /* two equal halves */
	assert_int_equal(settings.sizes.send_buffer, defaults.sizes.send_buffer);
	assert_int_equal(settings.sizes.send_queue, 16);
	assert_true(settings.sizes.receive_queue < 0x8000);
	assert_int_equal(settings.sizes.iomaps, 768);
	assert_int_equal(settings.polling_microseconds, 0);
	assert_int_equal(settings.wake_up_milliseconds, 1);
	assert_int_equal(settings.sizes.inline_data, 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_captured_hello_is_understood_and_said_again),
		cmocka_unit_test(a_bad_hello_is_refused),
		cmocka_unit_test(messages_are_those_of_the_captures),
		cmocka_unit_test(scaled_numbers),
		cmocka_unit_test(entries_for_a_peer_of_the_other_byte_order),
		cmocka_unit_test(datagram_headers),
		cmocka_unit_test(udp_headers),
		cmocka_unit_test(buffers_are_one_after_the_other),
		cmocka_unit_test(settings_come_from_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
