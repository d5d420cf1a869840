/* SPDX-License-Identifier: MIT
 *
 * A path that becomes longer while it is used. The requester's timeouts are made of round trips that it measures, and an answer to a
 * packet that was sent twice measures nothing: so a timeout that has become too short must stay long enough, once it was
 * doubled, for a packet that is sent only once.
 */
#include "sim/testing.h"

enum { LENGTH = 64, LEARNING = 40, STEADY = 100, STREAM = 256 << 10 };

struct tally {
	uint64_t sent, timeouts;
};

static struct tally tally(const struct pair *pair)
{
	return (struct tally){pair->sim->packets_sent, pair->hosts[0]->counters.local_ack_timeout_err};
}

/* One at a time. */
static void exchange(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t length, unsigned times)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < times; i++) {
		if (opcode == IBV_WR_SEND)
			assert_int_equal(sim_post_receive(pair->b, pair->b_memory.bytes, length, pair->b_memory.key, i), 0);
		pair_post(pair, opcode, length, i);
		assert_true(sim_wait(pair->sim, pair->a_cq, &wc, VB_SECONDS(60)));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (opcode == IBV_WR_SEND)
			assert_true(sim_wait(pair->sim, pair->b_cq, &wc, VB_SECONDS(60)));
	}
}

static vb_time measured(const struct pair *pair)
{
	struct vb_transport_status status;

	vb_roce_query(pair->a, &status);
	return status.round_trip;
}

/* After a while nothing is sent twice any more, and the round trip is known. */
static void grow(enum ibv_wr_opcode opcode, uint32_t length, vb_time latency, unsigned packets)
{
	struct sim_connection connection = sim_usual;
	struct tally before, after;
	struct pair pair;

	connection.timeout = 18;
	pair_open(&pair, 5, false, &connection, 1 << 20);
	exchange(&pair, opcode, length, LEARNING);
	assert_true(measured(&pair) < VB_MILLISECONDS(1));
	pair.sim->network.latency = latency;
	exchange(&pair, opcode, length, LEARNING);
	sim_run(pair.sim);
	before = tally(&pair);
	exchange(&pair, opcode, length, STEADY);
	sim_run(pair.sim);
	after = tally(&pair);
	assert_int_equal(after.timeouts - before.timeouts, 0);
	if (packets)
		assert_int_equal(after.sent - before.sent, packets * STEADY);
	assert_in_range(measured(&pair), 2 * latency, 3 * latency);
	pair_close(&pair);
}

static void one_packet_at_a_time(void **state)
{
	/* 2012: answered just when what is sent again after 4 ms would be. */
	static const unsigned microseconds[] = {600, 1900, 2012, 2100, 3000, 7500, 10000, 20000, 100000, 400000};

	(void)state;
	for (unsigned i = 0; i < sizeof(microseconds) / sizeof(microseconds[0]); i++) {
		grow(IBV_WR_SEND, LENGTH, VB_MICROSECONDS(microseconds[i]), 2);
		grow(IBV_WR_RDMA_WRITE, LENGTH, VB_MICROSECONDS(microseconds[i]), 2);
		grow(IBV_WR_RDMA_READ, LENGTH, VB_MICROSECONDS(microseconds[i]), 2);
	}
}

static void windows_of_packets(void **state)
{
	static const unsigned microseconds[] = {600, 2100, 7500, 20000, 100000};

	(void)state;
	for (unsigned i = 0; i < sizeof(microseconds) / sizeof(microseconds[0]); i++) {
		grow(IBV_WR_RDMA_WRITE, STREAM, VB_MICROSECONDS(microseconds[i]), 0);
		grow(IBV_WR_RDMA_READ, STREAM, VB_MICROSECONDS(microseconds[i]), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_packet_at_a_time),
		cmocka_unit_test(windows_of_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
