/* SPDX-License-Identifier: MIT
 *
 * Packets to bytes and back: bytes typed by hand from the specification's figures, random fields through every opcode,
 * and everything a decoder must refuse.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/icrc.h"
#include "wire/roce_packet.h"

enum { SEED = 424242 };

static uint64_t random_state;

static uint64_t next_random(void)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return random_state ^ random_state >> 29;
}

static const struct vb_path ipv4 = {
	.source = {[10] = 0xff, 0xff, 192, 0, 2, 1},
	.destination = {[10] = 0xff, 0xff, 192, 0, 2, 2},
	.source_port = 0xc123,
	.traffic_class = 0x02,
	.hop_limit = 64,
};

static const struct vb_path ipv6 = {
	.source = {0x20, 0x01, 0x0d, 0xb8, [15] = 1},
	.destination = {0x20, 0x01, 0x0d, 0xb8, [15] = 2},
	.source_port = 0xc123,
	.traffic_class = 0x69,
	.hop_limit = 63,
	.flow_label = 0xabcde,
};

/* Each header by hand. */
static void headers_stand_as_drawn(void **state)
{
	static const struct {
		struct vb_roce_packet packet;
		size_t length;
		const char *bytes;
	} cases[] = {
		{{.opcode = 0x04, .pkey = 0xffff, .destination_qpn = 0x11, .psn = {0x123456}, .ack_request = true}, 12,
		 "\x04\x00\xff\xff\x00\x00\x00\x11\x80\x12\x34\x56"},
		{{.opcode = 0x01, .solicited = true, .migration_request = true, .pad = 3, .fecn = true, .becn = true,
		  .pkey = 0x8001, .destination_qpn = 0xfedcba, .psn = {0xffffff}}, 12,
		 "\x01\xf0\x80\x01\xc0\xfe\xdc\xba\x00\xff\xff\xff"},
		{{.opcode = 0x0b, .pkey = 0xffff, .destination_qpn = 2, .psn = {1}, .pad = 1,
		  .reth = {.address = 0x0102030405060708, .rkey = 0x11121314, .length = 0x21222324},
		  .immediate = {{0xa1, 0xa2, 0xa3, 0xa4}}}, 32,
		 "\x0b\x10\xff\xff\x00\x00\x00\x02\x00\x00\x00\x01"
		 "\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x21\x22\x23\x24\xa1\xa2\xa3\xa4"},
		{{.opcode = 0x13, .pkey = 0xffff, .destination_qpn = 2, .psn = {2},
		  .atomic = {.address = 0x0102030405060708, .rkey = 0x11121314, .swap_or_add = 0x2122232425262728,
			     .compare = 0x3132333435363738}}, 40,
		 "\x13\x00\xff\xff\x00\x00\x00\x02\x00\x00\x00\x02\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14"
		 "\x21\x22\x23\x24\x25\x26\x27\x28\x31\x32\x33\x34\x35\x36\x37\x38"},
		{{.opcode = 0x12, .pkey = 0xffff, .destination_qpn = 2, .psn = {2},
		  .aeth = {.syndrome = 0x1f, .msn = 0x010203}, .atomic_original = 0x0102030405060708}, 24,
		 "\x12\x00\xff\xff\x00\x00\x00\x02\x00\x00\x00\x02\x1f\x01\x02\x03\x01\x02\x03\x04\x05\x06\x07\x08"},
		{{.opcode = 0x65, .pkey = 0xffff, .destination_qpn = 0xffffff, .psn = {2},
		  .deth = {.qkey = 0x01234567, .source_qpn = 0x89abcd}, .immediate = {{1, 2, 3, 4}}}, 24,
		 "\x65\x00\xff\xff\x00\xff\xff\xff\x00\x00\x00\x02\x01\x23\x45\x67\x00\x89\xab\xcd\x01\x02\x03\x04"},
		{{.opcode = 0x17, .pkey = 0xffff, .destination_qpn = 2, .psn = {2}, .invalidate_rkey = 0x01020304}, 16,
		 "\x17\x00\xff\xff\x00\x00\x00\x02\x00\x00\x00\x02\x01\x02\x03\x04"},
		{{.opcode = 0x81, .pkey = 0xffff, .destination_qpn = 2, .becn = true}, 28,
		 "\x81\x00\xff\xff\x40\x00\x00\x02\x00\x00\x00\x00\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"},
		/* A14: the XRCETH stands next to the BTH, before everything else. */
		{{.opcode = 0xa1, .pkey = 0xffff, .destination_qpn = 2, .psn = {3}, .srqn = 0xabcdef}, 16,
		 "\xa1\x00\xff\xff\x00\x00\x00\x02\x00\x00\x00\x03\x00\xab\xcd\xef"},
		{{.opcode = 0xab, .pkey = 0xffff, .destination_qpn = 2, .psn = {1}, .srqn = 0x040506,
		  .reth = {.address = 0x0102030405060708, .rkey = 0x11121314, .length = 0x21222324},
		  .immediate = {{0xa1, 0xa2, 0xa3, 0xa4}}}, 36,
		 "\xab\x00\xff\xff\x00\x00\x00\x02\x00\x00\x00\x01\x00\x04\x05\x06"
		 "\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x21\x22\x23\x24\xa1\xa2\xa3\xa4"},
		{{.opcode = 0xb4, .pkey = 0xffff, .destination_qpn = 2, .psn = {2}, .srqn = 1,
		  .atomic = {.address = 0x0102030405060708, .rkey = 0x11121314, .swap_or_add = 0x2122232425262728,
			     .compare = 0}}, 44,
		 "\xb4\x00\xff\xff\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x01"
		 "\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14"
		 "\x21\x22\x23\x24\x25\x26\x27\x28\0\0\0\0\0\0\0\0"},
		{{.opcode = 0xb1, .pkey = 0xffff, .destination_qpn = 2, .psn = {2}, .srqn = 1,
		  .aeth = {.syndrome = 0x1f, .msn = 0x010203}}, 16,
		 "\xb1\x00\xff\xff\x00\x00\x00\x02\x00\x00\x00\x02\x1f\x01\x02\x03"},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t out[VB_ROCE_MAX_HEADER];

		memset(out, 0xee, sizeof(out));
		assert_int_equal(vb_roce_packet_encode_headers(&cases[i].packet, out), cases[i].length);
		assert_memory_equal(out, cases[i].bytes, cases[i].length);
		for (size_t rest = cases[i].length; rest < sizeof(out); rest++)
			assert_int_equal(out[rest], 0xee);
	}
}

static struct vb_roce_packet random_packet(uint8_t opcode, uint8_t pad)
{
	uint64_t bits = next_random();
	uint32_t imm = (uint32_t)next_random();
	struct vb_roce_packet packet = {
		.opcode = opcode, .op = vb_roce_opcode(opcode),
		.solicited = bits & 1, .migration_request = bits & 2, .ack_request = bits & 4,
		.fecn = bits & 8, .becn = bits & 16, .singly = (bits & 96) == 32,
		.piggybacks = (bits & 64) && vb_roce_may_piggyback(vb_roce_opcode(opcode)),
		.pad = pad, .pkey = (uint16_t)next_random(), .destination_qpn = next_random() & 0xffffff,
		.psn = psn_of((uint32_t)next_random()),
		.srqn = next_random() & 0xffffff,
		.reth = {next_random(), (uint32_t)next_random(), (uint32_t)next_random()},
		.atomic = {next_random(), next_random(), next_random(), (uint32_t)next_random()},
		.aeth = {(uint8_t)next_random(), next_random() & 0xffffff}, .acknowledged = psn_of((uint32_t)next_random()),
		.atomic_original = next_random(),
		.deth = {(uint32_t)next_random(), next_random() & 0xffffff},
		.immediate = be32_of(imm), .invalidate_rkey = (uint32_t)next_random(),
	};

	return packet;
}

/* A whole datagram; returns its length. */
static size_t build(uint8_t *out, const struct vb_roce_packet *packet, size_t payload, const struct vb_path *path)
{
	size_t length = vb_roce_packet_encode_headers(packet, out), whole;

	for (size_t i = 0; i < payload; i++)
		out[length++] = (uint8_t)next_random();
	for (unsigned i = 0; i < packet->pad; i++)
		out[length++] = 0;
	whole = length + VB_ICRC_LENGTH;
	vb_icrc_store(vb_icrc_headers(vb_icrc_begin(path, 0, whole), out, length), out + length);
	return whole;
}

static void assert_same_fields(const struct vb_roce_packet *a, const struct vb_roce_packet *b)
{
	unsigned headers = a->op->headers;

	assert_int_equal(a->opcode, b->opcode);
	assert_ptr_equal(a->op, b->op);
	assert_int_equal(a->solicited, b->solicited);
	assert_int_equal(a->migration_request, b->migration_request);
	assert_int_equal(a->ack_request, b->ack_request);
	assert_int_equal(a->singly, b->singly);
	assert_int_equal(a->piggybacks, b->piggybacks);
	assert_int_equal(a->fecn, b->fecn);
	assert_int_equal(a->becn, b->becn);
	assert_int_equal(a->pad, b->pad);
	assert_int_equal(a->pkey, b->pkey);
	assert_int_equal(a->destination_qpn, b->destination_qpn);
	assert_int_equal(a->psn.v, b->psn.v);
	if (headers & VB_HEADER_XRCETH)
		assert_int_equal(a->srqn, b->srqn);
	if (headers & VB_HEADER_RETH)
		assert_true(a->reth.address == b->reth.address && a->reth.rkey == b->reth.rkey &&
			    a->reth.length == b->reth.length);
	if (headers & VB_HEADER_ATOMIC_ETH)
		assert_true(a->atomic.address == b->atomic.address && a->atomic.rkey == b->atomic.rkey &&
			    a->atomic.swap_or_add == b->atomic.swap_or_add && a->atomic.compare == b->atomic.compare);
	if (a->piggybacks)
		assert_int_equal(a->acknowledged.v, b->acknowledged.v);
	if (a->piggybacks || (headers & VB_HEADER_AETH))
		assert_true(a->aeth.syndrome == b->aeth.syndrome && a->aeth.msn == b->aeth.msn);
	if (headers & VB_HEADER_ATOMIC_ACK_ETH)
		assert_true(a->atomic_original == b->atomic_original);
	if (headers & VB_HEADER_DETH)
		assert_true(a->deth.qkey == b->deth.qkey && a->deth.source_qpn == b->deth.source_qpn);
	if (headers & VB_HEADER_IMMEDIATE)
		assert_memory_equal(&a->immediate, &b->immediate, 4);
	if (headers & VB_HEADER_IETH)
		assert_int_equal(a->invalidate_rkey, b->invalidate_rkey);
}

static void random_fields_come_back(void **state)
{
	uint8_t datagram[512];

	(void)state;
	for (unsigned code = 0; code < 256; code++) {
		const struct vb_roce_opcode *op = vb_roce_opcode((uint8_t)code);

		for (int round = 0; op->name && round < 50; round++) {
			const struct vb_path *path = round & 1 ? &ipv4 : &ipv6;
			size_t payload = op->carries_payload ? next_random() % 300 : 0;
			struct vb_roce_packet in = random_packet((uint8_t)code, (uint8_t)(-payload & 3)), out;
			size_t length = build(datagram, &in, payload, path);

			memset(&out, 0xcc, sizeof(out));
			assert_int_equal(vb_roce_packet_decode(&out, datagram, length, path, true, 0), VB_PACKET_OK);
			assert_same_fields(&in, &out);
			assert_ptr_equal(out.payload, datagram + op->header_length + (in.piggybacks ? VB_PIGGYBACK_LENGTH : 0));
			assert_int_equal(out.payload_length, payload);
			assert_memory_equal(&out.from, path, sizeof(*path));
		}
	}
}

static enum vb_roce_decode_result result_of(const uint8_t *datagram, size_t length)
{
	struct vb_roce_packet packet;

	return vb_roce_packet_decode(&packet, datagram, length, &ipv4, false, 0);
}

/* Every opcode at every length, in a block of exactly that size so that a sanitizer sees each read too far. */
static void lengths_are_checked(void **state)
{
	(void)state;
	for (unsigned code = 0; code < 256; code++)
		for (size_t length = 0; length < 64; length++) {
			const struct vb_roce_opcode *op = vb_roce_opcode((uint8_t)code);
			uint8_t *datagram = calloc(1, length ? length : 1);
			enum vb_roce_decode_result expected;

			assert_non_null(datagram);
			if (length)
				datagram[0] = (uint8_t)code;
			if (length < 16)
				expected = VB_PACKET_TOO_SHORT;
			else if (!op->name)
				expected = VB_PACKET_UNKNOWN_OPCODE;
			else if (length < op->header_length + 4u)
				expected = VB_PACKET_TOO_SHORT;
			else if (length % 4 || (length > op->header_length + 4u && !op->carries_payload))
				expected = VB_PACKET_BAD_PAD;
			else
				expected = VB_PACKET_OK;
			assert_int_equal(result_of(datagram, length), expected);
			free(datagram);
		}
}

static void pad_must_be_there(void **state)
{
	uint8_t datagram[64] = {0x04};

	(void)state;
	for (unsigned pad = 0; pad < 4; pad++) {
		datagram[1] = (uint8_t)(pad << 4);
		assert_int_equal(result_of(datagram, 16), pad ? VB_PACKET_BAD_PAD : VB_PACKET_OK);
		assert_int_equal(result_of(datagram, 20), VB_PACKET_OK);
	}
	datagram[0] = 0x11; /* an acknowledge has nothing to pad */
	datagram[1] = 0x10;
	assert_int_equal(result_of(datagram, 20), VB_PACKET_BAD_PAD);
}

static void payload_length_excludes_pad(void **state)
{
	uint8_t datagram[20] = {0x04, 0x30};
	struct vb_roce_packet packet;

	(void)state;
	assert_int_equal(vb_roce_packet_decode(&packet, datagram, 20, &ipv4, false, 0), VB_PACKET_OK);
	assert_int_equal(packet.payload_length, 1);
	assert_int_equal(packet.pad, 3);
}

static void other_versions_are_refused(void **state)
{
	uint8_t datagram[16] = {0x04};

	(void)state;
	for (uint8_t version = 0; version < 16; version++) {
		datagram[1] = version;
		assert_int_equal(result_of(datagram, 16), version ? VB_PACKET_BAD_VERSION : VB_PACKET_OK);
	}
}

static void icrc_is_checked_when_asked(void **state)
{
	uint8_t datagram[64];
	struct vb_roce_packet in = random_packet(0x04, 0), out;
	size_t length = build(datagram, &in, 20, &ipv6);

	(void)state;
	datagram[20] ^= 4;
	assert_int_equal(vb_roce_packet_decode(&out, datagram, length, &ipv6, false, 0), VB_PACKET_OK);
	assert_int_equal(vb_roce_packet_decode(&out, datagram, length, &ipv6, true, 0), VB_PACKET_BAD_ICRC);
	datagram[20] ^= 4;
	assert_int_equal(vb_roce_packet_decode(&out, datagram, length, &ipv6, true, 0), VB_PACKET_OK);
}

static void reserved_bits_are_ignored(void **state)
{
	uint8_t datagram[64];
	struct vb_roce_packet in = random_packet(0x64, 0), out;
	size_t length;

	(void)state;
	in.singly = false;
	length = build(datagram, &in, 8, &ipv6);
	datagram[4] |= 0x3f;  /* BTH, beside FECN and BECN */
	datagram[8] |= 0x7f;  /* BTH, beside AckReq */
	datagram[16] = 0xff;  /* DETH, before the source QP */
	assert_int_equal(vb_roce_packet_decode(&out, datagram, length, &ipv6, false, 0), VB_PACKET_OK);
	assert_same_fields(&in, &out);
}

/* Of the seven bits beside AckReq one pattern means something between two of our own, and none of one bit or of all. */
static void one_pattern_permits_singles(void **state)
{
	struct vb_roce_packet in = random_packet(0x0c, 0), out;
	unsigned permit = 0, with_one_bit = 0;
	uint8_t datagram[64], acknowledge;
	size_t length;

	(void)state;
	in.singly = false;
	length = build(datagram, &in, 0, &ipv6);
	acknowledge = datagram[8];
	for (unsigned bits = 0; bits < 0x80; bits++) {
		datagram[8] = (uint8_t)(acknowledge | bits);
		assert_int_equal(vb_roce_packet_decode(&out, datagram, length, &ipv6, false, 0), VB_PACKET_OK);
		assert_int_equal(out.ack_request, in.ack_request);
		permit += out.singly;
		with_one_bit += out.singly && ((bits & (bits - 1)) == 0 || bits == 0x7f);
	}
	assert_int_equal(permit, 1);
	assert_int_equal(with_one_bit, 0);
}

/* The same of one that says that an acknowledgement is there, in SENDs and WRITEs of one packet on RC, and where there is room for it. */
static void one_pattern_piggybacks(void **state)
{
	uint8_t datagram[128], acknowledge;

	(void)state;
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		bool can = opcode == 0x04 || opcode == 0x05 || opcode == 0x0a || opcode == 0x0b || opcode == 0x17;
		struct vb_roce_packet in, out;
		unsigned found = 0;
		size_t length;

		if (!vb_roce_opcode((uint8_t)opcode)->carries_payload)
			continue;
		in = random_packet((uint8_t)opcode, 3);
		in.singly = in.piggybacks = false;
		length = build(datagram, &in, 9, &ipv6);
		acknowledge = datagram[8];
		for (unsigned bits = 0; bits < 0x80; bits++) {
			datagram[8] = (uint8_t)(acknowledge | bits);
			assert_int_equal(vb_roce_packet_decode(&out, datagram, length, &ipv6, false, 0), VB_PACKET_OK);
			assert_int_equal(out.ack_request, in.ack_request);
			assert_int_equal(out.payload_length, out.piggybacks ? 1 : 9);
			found += out.piggybacks;
			assert_false(out.piggybacks && ((bits & (bits - 1)) == 0 || bits == 0x7f || out.singly));
		}
		assert_int_equal(found, can);
	}
	/* Too short for it. */
	for (unsigned bits = 0; bits < 0x80; bits++) {
		struct vb_roce_packet in = random_packet(0x04, 1), out;
		size_t length;

		in.piggybacks = in.singly = false;
		length = build(datagram, &in, 7, &ipv6);
		datagram[8] = (uint8_t)bits;
		assert_int_equal(vb_roce_packet_decode(&out, datagram, length, &ipv6, false, 0), VB_PACKET_OK);
		assert_false(out.piggybacks);
		assert_int_equal(out.payload_length, 7);
	}
}

/* Byte for byte: behind the extension headers, an AETH and a PSN. */
static void a_piggyback_is_an_aeth_and_a_psn(void **state)
{
	static const uint8_t expected[] = {0x1e, 0x01, 0x02, 0x03, 0x00, 0x0a, 0x0b, 0x0c};
	uint8_t headers[VB_ROCE_MAX_HEADER];

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		static const uint8_t opcodes[] = {0x04, 0x05, 0x0a, 0x0b, 0x17};
		struct vb_roce_packet packet = random_packet(opcodes[i], 0);
		size_t length;

		packet.singly = false;
		packet.piggybacks = true;
		packet.aeth.syndrome = 0x1e;
		packet.aeth.msn = 0x010203;
		packet.acknowledged = psn_of(0x0a0b0c);
		length = vb_roce_packet_encode_headers(&packet, headers);
		assert_int_equal(length, packet.op->header_length + sizeof(expected));
		assert_memory_equal(headers + packet.op->header_length, expected, sizeof(expected));
		assert_int_equal(headers[8] & 0x7f, 0x5a);
	}
}

/* Those who take packets by the BTH alone leave it to others. */
static void one_with_reserved_bits_is_not_the_next(void **state)
{
	struct vb_roce_packet in = random_packet(0x0a, 0);
	uint8_t datagram[64];
	bool ignored;
	size_t length;

	(void)state;
	in.singly = in.piggybacks = false;
	in.pkey = VB_DEFAULT_PKEY;
	length = build(datagram, &in, 8, &ipv6);
	assert_true(vb_roce_packet_is_next(datagram, length, 0x0a, in.destination_qpn, in.psn, &ignored));
	for (unsigned bit = 0; bit < 7; bit++) {
		datagram[8] ^= (uint8_t)(1u << bit);
		assert_false(vb_roce_packet_is_next(datagram, length, 0x0a, in.destination_qpn, in.psn, &ignored));
		datagram[8] ^= (uint8_t)(1u << bit);
	}
}

static void results_have_names(void **state)
{
	(void)state;
	for (int a = VB_PACKET_OK; a <= VB_PACKET_BAD_ICRC; a++)
		for (int b = VB_PACKET_OK; b < a; b++)
			assert_string_not_equal(vb_roce_decode_result_name((enum vb_roce_decode_result)a),
						vb_roce_decode_result_name((enum vb_roce_decode_result)b));
	assert_string_equal(vb_roce_decode_result_name(VB_PACKET_OK), "ok");
}

static void grh_area_is_the_ip_header(void **state)
{
	static const uint8_t expected4[40] = {
		[20] = 0x45, 0x02, 0x00, 0x5c, 0x00, 0x00, 0x40, 0x00, 64, 17, 0xb6, 0x8b, 192, 0, 2, 1, 192, 0, 2, 2,
	};
	static const uint8_t expected6[40] = {
		0x66, 0x9a, 0xbc, 0xde, 0x00, 0x48, 17, 63, 0x20, 0x01, 0x0d, 0xb8, [23] = 1,
		[24] = 0x20, 0x01, 0x0d, 0xb8, [39] = 2,
	};
	uint8_t area[VB_GRH_LENGTH];
	uint32_t sum = 0;

	(void)state;
	memset(area, 0xee, sizeof(area));
	vb_roce_grh_area(area, &ipv4, 64);
	assert_memory_equal(area, expected4, sizeof(area));
	/* The sum over a header with a right checksum is all ones. */
	for (int i = 20; i < 40; i += 2)
		sum += (uint32_t)(area[i] << 8 | area[i + 1]);
	assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
	memset(area, 0xee, sizeof(area));
	vb_roce_grh_area(area, &ipv6, 64);
	assert_memory_equal(area, expected6, sizeof(area));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_stand_as_drawn),
		cmocka_unit_test(random_fields_come_back),
		cmocka_unit_test(lengths_are_checked),
		cmocka_unit_test(pad_must_be_there),
		cmocka_unit_test(payload_length_excludes_pad),
		cmocka_unit_test(other_versions_are_refused),
		cmocka_unit_test(icrc_is_checked_when_asked),
		cmocka_unit_test(reserved_bits_are_ignored),
		cmocka_unit_test(one_pattern_permits_singles),
		cmocka_unit_test(one_pattern_piggybacks),
		cmocka_unit_test(a_piggyback_is_an_aeth_and_a_psn),
		cmocka_unit_test(one_with_reserved_bits_is_not_the_next),
		cmocka_unit_test(results_have_names),
		cmocka_unit_test(grh_area_is_the_ip_header),
	};

	random_state = SEED;
	print_message("seed %d\n", SEED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
