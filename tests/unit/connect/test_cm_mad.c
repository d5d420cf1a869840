/* SPDX-License-Identifier: MIT
 *
 * CM messages: every MAD that the kernel sent in the captures is decoded and encoded to the same bytes, and says what
 * the captured programs did. Messages that the captures lack (MRA, LAP, APR) against bytes typed from the
 * specification's tables.
 *
 * Usage: test_cm_mad PCAP-FOLDER
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "capture.h"
#include "wire/cm_command.h"
#include "wire/cm_mad.h"

static const char *folder;

/* Messages of each kind in all captures together, counted by another program. */
static const unsigned expected[VB_CM_ATTRIBUTE_END - VB_CM_REQ] = {
	[VB_CM_REQ - VB_CM_REQ] = 46,     [VB_CM_REJ - VB_CM_REQ] = 3,      [VB_CM_REP - VB_CM_REQ] = 41,
	[VB_CM_RTU - VB_CM_REQ] = 41,     [VB_CM_DREQ - VB_CM_REQ] = 43,    [VB_CM_DREP - VB_CM_REQ] = 42,
	[VB_CM_SIDR_REQ - VB_CM_REQ] = 1, [VB_CM_SIDR_REP - VB_CM_REQ] = 1,
};

static bool next_mad(struct capture *capture, struct captured_packet *golden, struct vb_roce_packet *packet)
{
	while (capture_next(capture, golden)) {
		assert_int_equal(
			vb_roce_packet_decode(packet, golden->datagram, golden->length, &golden->path, true, 0),
			VB_PACKET_OK);
		if (vb_cm_packet_is_mad(packet))
			return true;
	}
	return false;
}

static void open_capture(struct capture *capture, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (!capture_open(capture, path))
		fail_msg("cannot read %s", path);
}

static void check_file(const char *name, unsigned *counts)
{
	struct captured_packet golden;
	struct vb_roce_packet packet, described;
	struct capture capture;

	open_capture(&capture, name);
	while (next_mad(&capture, &golden, &packet)) {
		struct vb_cm_mad mad;
		uint8_t again[VB_CM_MAD_LENGTH], headers[VB_ROCE_MAX_HEADER];

		assert_int_equal(vb_cm_mad_decode(&mad, packet.payload, packet.payload_length), 0);
		vb_cm_mad_encode(&mad, again);
		assert_memory_equal(again, packet.payload, VB_CM_MAD_LENGTH);
		counts[mad.attribute - VB_CM_REQ]++;
		/* The packet around it is the one we would make. */
		vb_cm_packet_describe(&described, packet.psn.v);
		assert_int_equal(vb_roce_packet_encode_headers(&described, headers), packet.op->header_length);
		assert_memory_equal(headers, golden.datagram, packet.op->header_length);
	}
	capture_close(&capture);
}

static void kernel_messages_survive_decoding(void **state)
{
	unsigned counts[VB_CM_ATTRIBUTE_END - VB_CM_REQ] = {0};
	char path[4096], line[4096], name[128];
	FILE *index;

	(void)state;
	snprintf(path, sizeof(path), "%s/index.txt", folder);
	index = fopen(path, "r");
	assert_non_null(index);
	while (fgets(line, sizeof(line), index))
		if (sscanf(line, "%127s", name) == 1 && strncmp(name, "rxe-", 4) == 0)
			check_file(name, counts);
	fclose(index);
	for (unsigned i = 0; i < VB_CM_ATTRIBUTE_END - VB_CM_REQ; i++)
		assert_int_equal(counts[i], expected[i]);
}

static void request_says_what_rping_asked(void **state)
{
	static const uint8_t client[16] = {[10] = 0xff, [11] = 0xff, 198, 51, 100, 12};
	static const uint8_t server[16] = {[10] = 0xff, [11] = 0xff, 198, 51, 100, 11};
	struct vb_cm_ip_header header;
	struct captured_packet golden;
	struct vb_roce_packet packet;
	struct capture capture;
	struct vb_cm_mad mad;

	(void)state;
	open_capture(&capture, "rxe-rping-v4.pcap");
	assert_true(next_mad(&capture, &golden, &packet));
	assert_int_equal(vb_cm_mad_decode(&mad, packet.payload, packet.payload_length), 0);
	assert_int_equal(mad.attribute, VB_CM_REQ);
	assert_int_equal(mad.transaction, 0x00000002ecd2e558);
	assert_int_equal(mad.req.local_id, 0x58e5d2ec);
	assert_int_equal(mad.req.service_id, vb_cm_service_id(VB_CM_PS_TCP, 7174));
	assert_int_equal(vb_cm_service_port_space(mad.req.service_id), VB_CM_PS_TCP);
	assert_int_equal(vb_cm_service_port(mad.req.service_id), 7174);
	assert_int_equal(mad.req.local_ca_guid, 0x505400fffe010002);
	assert_int_equal(mad.req.local_qpn, 0x5a);
	assert_int_equal(mad.req.responder_resources, 1);
	assert_int_equal(mad.req.initiator_depth, 1);
	assert_int_equal(mad.req.remote_response_timeout, 20);
	assert_int_equal(mad.req.local_response_timeout, 20);
	assert_int_equal(mad.req.starting_psn, 0x13bd56);
	assert_int_equal(mad.req.retry_count, 7);
	assert_int_equal(mad.req.rnr_retry_count, 7);
	assert_int_equal(mad.req.max_cm_retries, 15);
	assert_int_equal(mad.req.path_mtu, 3);
	assert_int_equal(mad.req.transport, VB_CM_TRANSPORT_RC);
	assert_int_equal(mad.req.primary.local_lid, 0xffff);
	assert_int_equal(mad.req.primary.hop_limit, 64);
	assert_int_equal(mad.req.primary.local_ack_timeout, 17);
	assert_memory_equal(mad.req.primary.local_gid, client, 16);
	assert_memory_equal(mad.req.primary.remote_gid, server, 16);
	assert_int_equal(vb_cm_ip_header_decode(&header, mad.req.private_data), 0);
	assert_int_equal(header.ip_version, 4);
	assert_int_equal(header.port, 0xce66);
	assert_memory_equal(header.source, client, 16);
	assert_memory_equal(header.destination, server, 16);
	/* rdma_cm's default flow label: of the ports. */
	assert_int_equal(mad.req.primary.flow_label, (header.port * 31 + 7174) & 0xfffff);

	assert_true(next_mad(&capture, &golden, &packet));
	assert_int_equal(vb_cm_mad_decode(&mad, packet.payload, packet.payload_length), 0);
	assert_int_equal(mad.attribute, VB_CM_REP);
	assert_int_equal(mad.rep.remote_id, 0x58e5d2ec);
	assert_int_equal(mad.rep.local_qpn, 0x58);
	assert_int_equal(mad.rep.starting_psn, 0xa7985f);
	assert_int_equal(mad.rep.target_ack_delay, 15);
	assert_int_equal(mad.rep.rnr_retry_count, 7);
	assert_int_equal(mad.rep.local_ca_guid, 0x505400fffe010001);
	capture_close(&capture);
}

static void rejection_says_why(void **state)
{
	struct captured_packet golden;
	struct vb_roce_packet packet;
	struct capture capture;
	struct vb_cm_mad mad;

	(void)state;
	open_capture(&capture, "rxe-op-reject.pcap");
	assert_true(next_mad(&capture, &golden, &packet) && next_mad(&capture, &golden, &packet));
	assert_int_equal(vb_cm_mad_decode(&mad, packet.payload, packet.payload_length), 0);
	assert_int_equal(mad.attribute, VB_CM_REJ);
	assert_int_equal(mad.rej.about, VB_CM_ABOUT_REQ);
	assert_int_equal(mad.rej.reason, VB_CM_REJECT_CONSUMER);
	assert_string_equal((const char *)mad.rej.private_data, "not today");
	capture_close(&capture);
}

/* Offsets below count from the MAD's first byte. */
static void put32(uint8_t *at, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		at[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void begin_bytes(uint8_t bytes[VB_CM_MAD_LENGTH], uint8_t attribute)
{
	memset(bytes, 0, VB_CM_MAD_LENGTH);
	bytes[0] = 1, bytes[1] = 7, bytes[2] = 2, bytes[3] = 3;
	bytes[15] = 0x77;        /* transaction */
	bytes[17] = attribute;
	put32(bytes + 24, 0x11223344);
	put32(bytes + 28, 0x55667788);
}

static void check_bytes(const struct vb_cm_mad *mad, const uint8_t bytes[VB_CM_MAD_LENGTH])
{
	uint8_t out[VB_CM_MAD_LENGTH];
	struct vb_cm_mad again;

	vb_cm_mad_encode(mad, out);
	assert_memory_equal(out, bytes, VB_CM_MAD_LENGTH);
	assert_int_equal(vb_cm_mad_decode(&again, bytes, VB_CM_MAD_LENGTH), 0);
	vb_cm_mad_encode(&again, out);
	assert_memory_equal(out, bytes, VB_CM_MAD_LENGTH);
}

static void messages_not_captured_match_their_tables(void **state)
{
	struct vb_cm_mad mra = {
		.attribute = 0x11,
		.transaction = 0x77,
		.mra = {.local_id = 0x11223344, .remote_id = 0x55667788, .about = 1, .service_timeout = 24}};
	struct vb_cm_mad lap = {.attribute = 0x19, .transaction = 0x77,
				.lap = {.local_id = 0x11223344, .remote_id = 0x55667788, .remote_qpn = 0xabcdef,
					.remote_response_timeout = 21, .local_lid = 0x1234, .remote_lid = 0x5678,
					.flow_label = 0xfedcb, .traffic_class = 0x9a, .hop_limit = 7, .rate = 0x2a,
					.service_level = 5, .subnet_local = 1, .local_ack_timeout = 19}};
	struct vb_cm_mad apr = {
		.attribute = 0x1a,
		.transaction = 0x77,
		.apr = {.local_id = 0x11223344, .remote_id = 0x55667788, .info_length = 3, .status = 2}};
	uint8_t bytes[VB_CM_MAD_LENGTH];

	(void)state;
	begin_bytes(bytes, 0x11);
	bytes[24 + 8] = 0x40;    /* 01...... */
	bytes[24 + 9] = 24 << 3;
	bytes[24 + 10] = 0xaa;   /* private data begins here */
	mra.mra.private_data[0] = 0xaa;
	check_bytes(&mra, bytes);

	begin_bytes(bytes, 0x19);
	put32(bytes + 24 + 12, 0xabcdef00 | 21 << 3);
	put32(bytes + 24 + 20, 0x12345678);
	bytes[24 + 24] = 0xfe, lap.lap.local_gid[0] = 0xfe;
	bytes[24 + 55] = 0x01, lap.lap.remote_gid[15] = 0x01;
	put32(bytes + 24 + 56, 0xfedcb09a);
	bytes[24 + 60] = 7;
	bytes[24 + 61] = 0x2a;
	bytes[24 + 62] = 5 << 4 | 1 << 3;
	bytes[24 + 63] = 19 << 3;
	bytes[24 + 64] = 0xbb, lap.lap.private_data[0] = 0xbb;
	check_bytes(&lap, bytes);

	begin_bytes(bytes, 0x1a);
	bytes[24 + 8] = 3;
	bytes[24 + 9] = 2;
	bytes[24 + 12] = 0xcc, apr.apr.info[0] = 0xcc;
	bytes[24 + 84] = 0xdd, apr.apr.private_data[0] = 0xdd;
	bytes[255] = 0xee, apr.apr.private_data[VB_CM_APR_PRIVATE - 1] = 0xee;
	check_bytes(&apr, bytes);
}

static void vendor_id_travels_in_three_pieces(void **state)
{
	struct vb_cm_mad rep = {.attribute = VB_CM_REP, .modifier = 0x01020304,
				.rep = {.vendor_id_high = 0xa1, .vendor_id_middle = 0xb2, .vendor_id_low = 0xc3}};
	struct vb_cm_mad req = {.attribute = VB_CM_REQ, .req = {.vendor_id = 0xa1b2c3}};
	uint8_t out[VB_CM_MAD_LENGTH];

	(void)state;
	vb_cm_mad_encode(&rep, out);
	assert_int_equal(out[24 + 15], 0xa1);
	assert_int_equal(out[24 + 19], 0xb2);
	assert_int_equal(out[24 + 23], 0xc3);
	assert_int_equal(out[23], 0x04);
	vb_cm_mad_encode(&req, out);
	assert_int_equal(out[24 + 4], 0);
	assert_int_equal(out[24 + 5], 0xa1);
	assert_int_equal(out[24 + 7], 0xc3);
}

static void numbers_too_large_do_not_spill(void **state)
{
	struct vb_cm_mad mad = {.attribute = VB_CM_REQ, .req = {.retry_count = 0xff, .local_qpn = 0xffffffff}};
	struct vb_cm_mad again;
	uint8_t out[VB_CM_MAD_LENGTH];

	(void)state;
	vb_cm_mad_encode(&mad, out);
	assert_int_equal(vb_cm_mad_decode(&again, out, sizeof(out)), 0);
	assert_int_equal(again.req.retry_count, 7);
	assert_int_equal(again.req.local_response_timeout, 0);
	assert_int_equal(again.req.local_qpn, 0xffffff);
	assert_int_equal(again.req.responder_resources, 0);
}

static void foreign_mads_are_refused(void **state)
{
	struct vb_cm_mad mad = {.attribute = VB_CM_RTU};
	uint8_t good[VB_CM_MAD_LENGTH], bad[VB_CM_MAD_LENGTH];

	(void)state;
	vb_cm_mad_encode(&mad, good);
	for (size_t length = 0; length < VB_CM_MAD_LENGTH; length++)
		assert_int_equal(vb_cm_mad_decode(&mad, good, length), -EBADMSG);
	for (unsigned byte = 0; byte < 4; byte++) {
		memcpy(bad, good, sizeof(bad));
		bad[byte] ^= 0x80;
		assert_int_equal(vb_cm_mad_decode(&mad, bad, sizeof(bad)), -EBADMSG);
	}
	for (unsigned attribute = 0; attribute < 0x200; attribute++) {
		memcpy(bad, good, sizeof(bad));
		bad[16] = (uint8_t)(attribute >> 8);
		bad[17] = (uint8_t)attribute;
		assert_int_equal(vb_cm_mad_decode(&mad, bad, sizeof(bad)),
				 attribute >= 0x10 && attribute <= 0x1a ? 0 : -EOPNOTSUPP);
	}
}

static void ip_header_knows_both_versions(void **state)
{
	struct vb_cm_ip_header header = {.ip_version = 6,
					 .port = 0x1234,
					 .source = {0x20, 1},
					 .destination = {0xfe, 0x80, [15] = 9}},
			       again;
	uint8_t bytes[VB_CM_IP_HEADER_LENGTH];

	(void)state;
	vb_cm_ip_header_encode(&header, bytes);
	assert_int_equal(bytes[1], 0x60);
	assert_int_equal(vb_cm_ip_header_decode(&again, bytes), 0);
	assert_memory_equal(again.destination, header.destination, 16);
	bytes[1] = 0x50;
	assert_int_equal(vb_cm_ip_header_decode(&again, bytes), -EBADMSG);
	bytes[1] = 0x40;
	bytes[0] = 0x10;
	assert_int_equal(vb_cm_ip_header_decode(&again, bytes), -EBADMSG);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_messages_survive_decoding),
		cmocka_unit_test(request_says_what_rping_asked),
		cmocka_unit_test(rejection_says_why),
		cmocka_unit_test(messages_not_captured_match_their_tables),
		cmocka_unit_test(vendor_id_travels_in_three_pieces),
		cmocka_unit_test(numbers_too_large_do_not_spill),
		cmocka_unit_test(foreign_mads_are_refused),
		cmocka_unit_test(ip_header_knows_both_versions),
	};

	if (argc < 2)
		return 2;
	folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
