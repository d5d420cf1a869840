/* SPDX-License-Identifier: MIT
 *
 * Address handles: made from attributes and from what was received, and multicast.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

static struct ibv_ah_attr good(void)
{
	struct ibv_ah_attr attr = {.grh = {.dgid = world.gid, .sgid_index = (uint8_t)world.gid_index, .hop_limit = 9},
				   .is_global = 1, .port_num = 1};

	return attr;
}

static void attributes_are_checked(void **state)
{
	struct ibv_ah_attr attr = good();
	struct ibv_ah *ah;

	(void)state;
	assert_non_null(ah = ibv_create_ah(world.pd, &attr));
	assert_ptr_equal(ah->pd, world.pd);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	attr.is_global = 0;
	assert_null(ibv_create_ah(world.pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr = good();
	attr.port_num = 0;
	assert_null(ibv_create_ah(world.pd, &attr));
	attr = good();
	attr.grh.sgid_index = 40;
	assert_null(ibv_create_ah(world.pd, &attr));
}

/* Answer a datagram by what its completion and its first 40 bytes say. */
static void answer_from_completion(int gid_index)
{
	const struct pair_options options = {.type = IBV_QPT_UD};
	struct world there = world;
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_wc wc;
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;
	struct ibv_grh *grh;

	there.gid_index = gid_index;
	assert_int_equal(ibv_query_gid(world.context, 1, gid_index, &there.gid), 0);
	pair_open(&pair, &there, &options);
	grh = (struct ibv_grh *)(void *)pair.buffer[1];
	pair_receive(&pair, 1, 1, 0, 100);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 10);
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	wc = expect_completion(pair.cq[1], 1, IBV_WC_RECV);
	assert_int_equal(ibv_init_ah_from_wc(world.context, 1, &wc, grh, &attr), 0);
	assert_int_equal(attr.is_global, 1);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.grh.sgid_index, gid_index);
	assert_memory_equal(&attr.grh.dgid, &there.gid, 16);
	ah = ibv_create_ah_from_wc(world.pd, &wc, grh, 1);
	assert_non_null(ah);
	pair_receive(&pair, 0, 2, 0, 100);
	wr = pair_request(&pair, 1, IBV_WR_SEND, &sge, 200, 10);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = wc.src_qp;
	pair_post(&pair, 1, &wr);
	expect_completion(pair.cq[1], wr.wr_id, IBV_WC_SEND);
	wc = expect_completion(pair.cq[0], 2, IBV_WC_RECV);
	assert_int_equal(wc.src_qp, pair.qp[1]->qp_num);

	wc.wc_flags = 0;
	assert_int_equal(ibv_init_ah_from_wc(world.context, 1, &wc, grh, &attr), -1);
	assert_null(ibv_create_ah_from_wc(world.pd, &wc, grh, 1));
	wc.wc_flags = IBV_WC_GRH;
	assert_int_equal(ibv_init_ah_from_wc(world.context, 2, &wc, grh, &attr), -1);
	memset(grh, 0, sizeof(*grh));
	assert_int_equal(ibv_init_ah_from_wc(world.context, 1, &wc, grh, &attr), -1);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	pair_close(&pair);
}

static void answers_find_their_way(void **state)
{
	struct ibv_gid_entry table[64];
	ssize_t count = ibv_query_gid_table(world.context, table, 64, 0);

	(void)state;
	assert_true(count >= 1);
	for (ssize_t i = 0; i < count; i++)
		answer_from_completion((int)table[i].gid_index);
}

/* An IPv4 header in the last 20 of the 40 bytes; an IPv6 header in all of them. */
static void headers_are_read_by_hand(void **state)
{
	uint8_t bytes[40];
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH, .sl = 3};
	struct ibv_ah_attr attr;

	(void)state;
	memset(bytes, 0xa5, sizeof(bytes));      /* those before an IPv4 header mean nothing */
	memcpy(bytes + 20, (uint8_t[]){0x45, 0x68, 0, 60, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 33, 127, 0, 0, 1}, 20);
	assert_int_equal(ibv_init_ah_from_wc(world.context, 1, &wc, (struct ibv_grh *)(void *)bytes, &attr), 0);
	assert_int_equal(attr.sl, 3);
	assert_int_equal(attr.grh.traffic_class, 0x68);
	assert_memory_equal(attr.grh.dgid.raw, ((uint8_t[]){0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 33}), 16);
	/* To somebody else: there is no source to answer from. */
	bytes[36] = 10;
	assert_int_equal(ibv_init_ah_from_wc(world.context, 1, &wc, (struct ibv_grh *)(void *)bytes, &attr), -1);
	assert_int_equal(errno, EINVAL);
}

static void ethernet_addresses(void **state)
{
	struct ibv_ah_attr attr = good();
	uint8_t mac[6];
	uint16_t vid = 0;

	(void)state;
	memset(mac, 0xff, sizeof(mac));
	assert_int_equal(ibv_resolve_eth_l2_from_gid(world.context, &attr, mac, &vid), 0);
	assert_memory_equal(mac, ((uint8_t[]){0, 0, 0, 0, 0, 0}), 6);    /* loopback */
	assert_int_equal(vid, 0xffff);
	memcpy(attr.grh.dgid.raw + 12, ((uint8_t[]){224, 129, 2, 3}), 4);
	assert_int_equal(ibv_resolve_eth_l2_from_gid(world.context, &attr, mac, &vid), 0);
	assert_memory_equal(mac, ((uint8_t[]){0x01, 0x00, 0x5e, 1, 2, 3}), 6);
	memcpy(attr.grh.dgid.raw + 12, ((uint8_t[]){192, 0, 2, 77}), 4);
	assert_true(ibv_resolve_eth_l2_from_gid(world.context, &attr, mac, &vid) < 0);
	attr.is_global = 0;
	assert_int_equal(ibv_resolve_eth_l2_from_gid(world.context, &attr, mac, &vid), -EINVAL);
}

static void groups(void **state)
{
	const struct pair_options datagram = {.type = IBV_QPT_UD};
	union ibv_gid group = {.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}}, unicast = world.gid;
	struct ibv_ah_attr attr = good();
	struct ibv_ah *ah;
	struct pair pair, connected;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &datagram);
	assert_int_equal(ibv_attach_mcast(pair.qp[1], &unicast, 0), EINVAL);
	assert_int_equal(ibv_detach_mcast(pair.qp[1], &group, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(pair.qp[1], &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(pair.qp[1], &group, 0), 0);
	assert_int_equal(ibv_destroy_qp(pair.qp[1]), EBUSY);
	attr.grh.dgid = group;
	assert_non_null(ah = ibv_create_ah(world.pd, &attr));
	pair_receive(&pair, 1, 1, 0, 100);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 10);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	assert_int_equal(expect_completion(pair.cq[1], 1, IBV_WC_RECV).byte_len, 50);
	assert_int_equal(ibv_detach_mcast(pair.qp[1], &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(pair.qp[1], &group, 0), EINVAL);
	pair_receive(&pair, 1, 2, 0, 100);
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	/* It did not come: what is sent to this queue pair afterwards does. */
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 20);
	pair_post(&pair, 0, &wr);
	assert_int_equal(expect_completion(pair.cq[1], 2, IBV_WC_RECV).byte_len, 60);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	pair_close(&pair);
	pair_open(&connected, &world, NULL);
	assert_int_equal(ibv_attach_mcast(connected.qp[1], &group, 0), EINVAL);
	pair_close(&connected);
}

/* The kernel carries none on the loopback: what is sent there would be lost, and nobody would say so. */
static void groups_over_ipv6_are_refused_on_the_loopback(void **state)
{
	const struct pair_options datagram = {.type = IBV_QPT_UD};
	union ibv_gid group = {.raw = {0xff, 0x15, [15] = 0x77}};
	struct ibv_gid_entry entries[16];
	ssize_t count = ibv_query_gid_table(world.context, entries, 16, 0);
	struct ibv_ah_attr attr = good();
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &datagram);
	assert_int_equal(ibv_attach_mcast(pair.qp[1], &group, 0), ENETUNREACH);
	pair_close(&pair);
	attr.grh.dgid = group;
	for (ssize_t i = 0; i < count; i++) {
		if (entries[i].gid.raw[10] == 0xff)
			continue;
		attr.grh.sgid_index = (uint8_t)entries[i].gid_index;
		errno = 0;
		assert_null(ibv_create_ah(world.pd, &attr));
		assert_int_equal(errno, ENETUNREACH);
	}
}

enum { IPV4_HEADER = 20, UDP_HEADER = 8, SLOT = 1 << 14, TURNS = 3 };

/* From which port the next datagram that is for that queue pair came. */
static uint16_t port_seen(int raw, uint32_t qpn)
{
	for (;;) {
		uint8_t bytes[256];
		ssize_t length = recv(raw, bytes, sizeof(bytes), 0);
		const uint8_t *udp = bytes + IPV4_HEADER, *bth = udp + UDP_HEADER;

		assert_true(length > 0);
		if (length > IPV4_HEADER + UDP_HEADER + 12 && udp[2] == 4791 >> 8 && udp[3] == (4791 & 0xff) &&
		    ((uint32_t)bth[5] << 16 | (uint32_t)bth[6] << 8 | bth[7]) == qpn)
			return (uint16_t)(udp[0] << 8 | udp[1]);
	}
}

/* Datagrams for two processes must not share a port (links/udp/source_ports.h), though they go by one address handle: those for one keep
 * theirs, whether they are posted alone or in a list with the others. There is no process that these are for. */
static void one_handle_leads_to_several_processes(void **state)
{
	const struct pair_options datagram = {.type = IBV_QPT_UD};
	int raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP);
	uint32_t qpn[2] = {1000 * SLOT + 5, 1001 * SLOT + 5};
	uint16_t port[2] = {0, 0};
	struct ibv_sge sge;
	struct ibv_send_wr wr, next;
	struct pair pair;

	(void)state;
	assert_true(raw >= 0);
	pair_open(&pair, &world, &datagram);
	for (int turn = 0; turn < TURNS; turn++) {
		wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 10);
		next = wr;
		wr.wr.ud.remote_qpn = qpn[0];
		next.wr.ud.remote_qpn = qpn[1];
		if (turn % 2 == 0)
			wr.next = &next;
		pair_post(&pair, 0, &wr);
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
		if (turn % 2 != 0)
			pair_post(&pair, 0, &next);
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
		for (int i = 0; i < 2; i++) {
			uint16_t seen = port_seen(raw, qpn[i]);

			assert_true(seen != 0 && (port[i] == 0 || seen == port[i]));
			port[i] = seen;
		}
		assert_int_not_equal(port[0], port[1]);
	}
	pair_close(&pair);
	close(raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attributes_are_checked),
		cmocka_unit_test(answers_find_their_way),
		cmocka_unit_test(headers_are_read_by_hand),
		cmocka_unit_test(ethernet_addresses),
		cmocka_unit_test(groups),
		cmocka_unit_test(groups_over_ipv6_are_refused_on_the_loopback),
		cmocka_unit_test(one_handle_leads_to_several_processes),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
