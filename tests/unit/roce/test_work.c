/* SPDX-License-Identifier: MIT
 *
 * What each work request is on the wire, against a list typed again; how messages are cut into packets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "roce/engine.h"

static void work_requests(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		int only_opcode;         /* of RC; -1: nothing is sent */
		bool takes_receive, is_read;
	} list[] = {
		{IBV_WR_SEND, 0x04, true, false},
		{IBV_WR_SEND_WITH_IMM, 0x05, true, false},
		{IBV_WR_SEND_WITH_INV, 0x17, true, false},
		{IBV_WR_RDMA_WRITE, 0x0a, false, false},
		{IBV_WR_RDMA_WRITE_WITH_IMM, 0x0b, true, false},
		{IBV_WR_RDMA_READ, 0x0c, false, true},
		{IBV_WR_ATOMIC_CMP_AND_SWP, 0x13, false, true},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 0x14, false, true},
		{IBV_WR_LOCAL_INV, -1, false, false},
		{IBV_WR_BIND_MW, -1, false, false},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		const struct vb_work *rules = vb_work(list[i].opcode);
		const struct vb_roce_work *work = vb_roce_work(list[i].opcode);

		assert_int_not_equal(rules->kind, VB_WORK_UNKNOWN);
		assert_int_equal(rules->kind == VB_WORK_LOCAL, list[i].only_opcode < 0);
		assert_int_equal(rules->takes_receive, list[i].takes_receive);
		assert_int_equal(rules->is_read, list[i].is_read);
		if (rules->kind != VB_WORK_LOCAL)
			assert_int_equal(vb_roce_opcode_find(VB_SERVICE_RC, work->kind, VB_POSITION_ONLY, work->suffix),
					 list[i].only_opcode);
	}
	assert_int_equal(vb_work(IBV_WR_TSO)->kind, VB_WORK_UNKNOWN);
	assert_int_equal(vb_work((enum ibv_wr_opcode)1000)->kind, VB_WORK_UNKNOWN);
	assert_int_equal(vb_work((enum ibv_wr_opcode)-1)->kind, VB_WORK_UNKNOWN);
}

static void messages_in_packets(void **state)
{
	static const uint32_t lengths[] = {0, 1, 255, 256, 257, 512, 1023, 1024, 1025, 100000, 0x7fffffff, 0x80000000};

	(void)state;
	for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2) {
		for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			uint32_t packets = vb_roce_packets(lengths[i], mtu);
			uint64_t whole = (uint64_t)(packets - 1) * mtu + vb_roce_payload(lengths[i], mtu, packets - 1);

			assert_true(packets >= 1 && packets <= 1u << 23);
			assert_int_equal(whole, lengths[i]);
			if (packets > 1) {
				assert_int_equal(vb_roce_payload(lengths[i], mtu, 0), mtu);
				assert_true(vb_roce_payload(lengths[i], mtu, packets - 1) > 0);
			}
			assert_int_equal(vb_roce_payload(lengths[i], mtu, packets), 0);
		}
	}
}

static void positions(void **state)
{
	(void)state;
	assert_int_equal(vb_roce_position(true, true), VB_POSITION_ONLY);
	assert_int_equal(vb_roce_position(true, false), VB_POSITION_FIRST);
	assert_int_equal(vb_roce_position(false, true), VB_POSITION_LAST);
	assert_int_equal(vb_roce_position(false, false), VB_POSITION_MIDDLE);
}

/* Half the circle ahead is still ahead. */
static void psns_of_the_longest_message(void **state)
{
	(void)state;
	assert_int_equal(psn_ahead(psn_of(5), psn_of(0xfffffe)), 7);
	assert_int_equal(psn_ahead(psn_of(0x800000), psn_of(0)), 0x800000);
	assert_int_equal(psn_ahead(psn_of(3), psn_of(3)), 0);
}

/* A burst goes at once, the rest at the rate. */
static void pacing(void **state)
{
	struct vb_roce_requester requester = {0};
	vb_time now = VB_SECONDS(5);
	uint64_t sent = 0;

	(void)state;
	while (vb_roce_work_paced(&requester, 1280, now))
		sent += 1280;
	assert_in_range(sent, 192000, 194000);
	assert_true(requester.pace_until != 0);
	for (unsigned i = 0; i < 1000; i++) {
		now += VB_MICROSECONDS(10);
		while (vb_roce_work_paced(&requester, 1280, now))
			sent += 1280;
	}
	/* 10 ms at a byte per nanosecond */
	assert_in_range(sent, 10180000, 10200000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_requests),
		cmocka_unit_test(messages_in_packets),
		cmocka_unit_test(positions),
		cmocka_unit_test(psns_of_the_longest_message),
		cmocka_unit_test(pacing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
