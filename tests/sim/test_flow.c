/* SPDX-License-Identifier: MIT
 *
 * Who may send when: fences, read limits, credits, receivers that are not ready, draining, windows that find the
 * size of the receiver's buffer, long storms of retries, lost packets of every position.
 */
#include "sim/traffic.h"
#include "wire/burst.h"

/* ---- observers: a filter sees every packet that leaves ---- */

struct observer {
	unsigned reads_outstanding, most_reads;
	unsigned read_requests, requests, acks, naks, rnr_naks, responses;
	bool write_seen, response_ended_before_write;
	uint32_t drop_kind;              /* drop the n-th packet of a kind */
	int drop_countdown;
	uint32_t largest_read;
	unsigned cnps;
};

static bool observe(void *context, const struct vb_roce_packet *packet)
{
	struct observer *o = context;

	switch (packet->op->kind) {
	case VB_KIND_READ_REQUEST:
		o->read_requests++;
		o->reads_outstanding++;
		if (packet->reth.length > o->largest_read)
			o->largest_read = packet->reth.length;
		if (o->reads_outstanding > o->most_reads)
			o->most_reads = o->reads_outstanding;
		break;
	case VB_KIND_READ_RESPONSE:
		o->responses++;
		if (vb_position_is_end(packet->op->position) && o->reads_outstanding > 0)
			o->reads_outstanding--;
		break;
	case VB_KIND_WRITE:
		if (!o->write_seen)
			o->response_ended_before_write = o->responses > 0 && o->reads_outstanding == 0;
		o->write_seen = true;
		o->requests++;
		break;
	case VB_KIND_SEND:
		o->requests++;
		break;
	case VB_KIND_ACKNOWLEDGE:
		if ((packet->aeth.syndrome & VB_AETH_TYPE_MASK) == VB_AETH_RNR_NAK)
			o->rnr_naks++;
		else if ((packet->aeth.syndrome & VB_AETH_TYPE_MASK) == VB_AETH_NAK)
			o->naks++;
		else
			o->acks++;
		break;
	case VB_KIND_CNP:
		assert_true(packet->becn);
		o->cnps++;
		break;
	default:
		break;
	}
	if (o->drop_countdown > 0 && packet->op->kind == o->drop_kind && --o->drop_countdown == 0)
		return false;
	return true;
}

static void watch(struct pair *pair, struct observer *observer)
{
	memset(observer, 0, sizeof(*observer));
	pair->sim->network.filter = observe;
	pair->sim->network.filter_context = observer;
}

static void fence_waits_for_reads(void **state)
{
	struct observer observer;
	struct pair pair;

	(void)state;
	for (unsigned fenced = 0; fenced < 2; fenced++) {
		pair_open(&pair, 1, false, &sim_usual, 65536);
		watch(&pair, &observer);
		pair_post(&pair, IBV_WR_RDMA_READ, 30000, 1);
		pair.flags |= fenced ? IBV_SEND_FENCE : 0;
		pair_post_at(&pair, IBV_WR_RDMA_WRITE, 40000, 40000, 100, 2);
		sim_run(pair.sim);
		expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
		expect_send(pair.a_cq, 2, IBV_WC_SUCCESS);
		assert_int_equal(observer.response_ended_before_write, fenced);
		pair_close(&pair);
	}
}

static void reads_outstanding_are_limited(void **state)
{
	static const uint8_t limits[] = {1, 2, 7, 128};
	struct observer observer;
	struct pair pair;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct sim_connection connection = sim_usual;

		connection.rd_atomic_b = limits[i];
		pair_open(&pair, 1, false, &connection, 1 << 20);
		watch(&pair, &observer);
		for (unsigned k = 0; k < 200; k++)
			pair_post(&pair, IBV_WR_RDMA_READ, 100, k);
		pair_post(&pair, IBV_WR_RDMA_READ, 1 << 20, 200);
		sim_run(pair.sim);
		for (unsigned k = 0; k <= 200; k++)
			expect_send(pair.a_cq, k, IBV_WC_SUCCESS);
		assert_true(observer.most_reads <= limits[i]);
		assert_true(limits[i] > 7 || observer.most_reads == limits[i]);
		assert_true(observer.largest_read <= 128 * 1024);
		pair_close(&pair);
	}
}

static void short_reads_are_one_request(void **state)
{
	struct observer observer;
	struct pair pair;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 1 << 20);
	watch(&pair, &observer);
	pair_post(&pair, IBV_WR_RDMA_READ, 128 * 1024, 1);
	sim_run(pair.sim);
	assert_int_equal(observer.read_requests, 1);
	pair_close(&pair);
}

/* First and last packet of a response are longer than the others: the last of one, the first of the next and one more are a run, if
 * the next request is there when the last packet's turn comes (roce/responder_reads.c). */
static void responses_share_a_run(void **state)
{
	enum { EACH = 64 };
	struct vb_burst *burst = malloc(sizeof(*burst));
	struct vb_roce_packet request, packet;
	struct vb_transport_status status;
	struct pair pair;
	uint32_t seen = 0;
	bool more = true;

	(void)state;
	assert_non_null(burst);
	pair_open(&pair, 1, false, &sim_usual, EACH * 1024);
	vb_roce_query(pair.b, &status);
	for (unsigned i = 0; i < 2; i++) {
		request = (struct vb_roce_packet){.opcode = 0x0c, .op = vb_roce_opcode(0x0c), .pkey = VB_DEFAULT_PKEY};
		request.psn = psn_of(status.expected + i * EACH);
		request.reth.address = (uintptr_t)pair.b_memory.bytes;
		request.reth.rkey = pair.b_memory.key;
		request.reth.length = EACH * 1024;
		sim_inject(pair.b, &request);
	}
	for (unsigned bursts = 0; more; bursts++) {
		vb_burst_reset(burst);
		vb_lock_take(&pair.b->lock);
		more = vb_roce_send(pair.b, pair.sim->now, burst);
		vb_lock_release(&pair.b->lock);
		/* The first ends before the last packet of the first response, so that the second begins with it. */
		assert_true(burst->runs > 0);
		if (bursts == 0)
			assert_int_equal(burst->packets, EACH - 1);
		if (bursts == 1)
			assert_int_equal(burst->run[0].packets, 3);
		for (uint32_t r = 0; r < burst->runs; r++) {
			for (uint32_t i = 0; i < burst->run[r].packets; i++) {
				size_t length;
				const uint8_t *bytes = vb_burst_packet(burst, r, i, &length);

				assert_int_equal(vb_roce_packet_decode(&packet, bytes, length, &burst->run[r].path, true,
								       (uint16_t)i),
						 VB_PACKET_OK);
				assert_int_equal(packet.op->kind, VB_KIND_READ_RESPONSE);
				assert_int_equal(packet.psn.v, (status.expected + seen++) & VB_PSN_MASK);
			}
		}
	}
	assert_int_equal(seen, 2 * EACH);
	free(burst);
	pair_close(&pair);
}

/* Drop each packet of an exchange in turn, once: it always comes to the right end. */
static void any_one_packet_may_be_lost(void **state)
{
	(void)state;
	for (unsigned victim = 0; victim < 60; victim++) {
		struct sim_connection connection = sim_usual;
		struct pair pair;

		connection.timeout = 17;
		pair_open(&pair, victim, victim % 2, &connection, 65536);
		pair_fill(&pair, &pair.a_memory, 65536);
		assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 5000, pair.b_memory.key, 1), 0);
		pair.sim->network.loss_mask = 1ull << victim;
		pair_post(&pair, IBV_WR_SEND, 5000, 1);
		pair_post_at(&pair, IBV_WR_RDMA_WRITE, 5000, 5000, 5000, 2);
		pair_post_at(&pair, IBV_WR_RDMA_READ, 20000, 0, 10000, 3);
		pair_post_at(&pair, IBV_WR_RDMA_WRITE, 10000, 10000, 5000, 4);
		sim_run(pair.sim);
		for (unsigned i = 1; i <= 4; i++)
			expect_send(pair.a_cq, i, IBV_WC_SUCCESS);
		expect_send(pair.b_cq, 1, IBV_WC_SUCCESS);
		assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 15000);
		assert_memory_equal(pair.a_memory.bytes + 20000, pair.b_memory.bytes, 10000);
		pair_close(&pair);
	}
}

/* A gap is reported once, however many packets follow it. */
static void one_nak_per_gap(void **state)
{
	struct observer observer;
	struct pair pair;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 65536);
	watch(&pair, &observer);
	observer.drop_kind = VB_KIND_WRITE;
	observer.drop_countdown = 3;
	pair_post(&pair, IBV_WR_RDMA_WRITE, 65536, 1);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(observer.naks, 1);
	assert_int_equal(pair.hosts[0]->counters.rcvd_seq_err, 1);
	assert_int_equal(pair.hosts[0]->counters.local_ack_timeout_err, 0);
	pair_close(&pair);
}

static void acknowledgements_are_coalesced(void **state)
{
	struct observer observer;
	struct pair pair;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 65536);
	watch(&pair, &observer);
	for (unsigned i = 0; i < 200; i++)
		pair_post(&pair, IBV_WR_RDMA_WRITE, 64, i);
	sim_run(pair.sim);
	assert_int_equal(observer.requests, 200);
	assert_true(observer.acks < 20);
	assert_true(pair.hosts[1]->counters.ack_deferred > 150);
	pair_close(&pair);
}

static void rnr_for_ever(void **state)
{
	struct observer observer;
	struct pair pair;
	struct ibv_wc wc;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 65536);
	watch(&pair, &observer);
	pair_fill(&pair, &pair.a_memory, 65536);
	pair_post(&pair, IBV_WR_SEND, 30000, 1);
	pair_post_at(&pair, IBV_WR_RDMA_WRITE_WITH_IMM, 30000, 30000, 30000, 2);
	/* An hour. */
	sim_run_to(pair.sim, pair.sim->now + VB_SECONDS(60));
	assert_false(sim_poll(pair.a_cq, &wc));
	assert_true(observer.rnr_naks > 1000);
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 30000, pair.b_memory.key, 7), 0);
	sim_run_to(pair.sim, pair.sim->now + VB_MILLISECONDS(10));
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.b_cq, 7, IBV_WC_SUCCESS);
	assert_int_equal(sim_post_receive(pair.b, NULL, 0, 0, 8), 0);
	sim_run_to(pair.sim, pair.sim->now + VB_MILLISECONDS(10));
	expect_send(pair.a_cq, 2, IBV_WC_SUCCESS);
	assert_true(sim_poll(pair.b_cq, &wc));
	assert_int_equal(wc.byte_len, 30000);
	assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 60000);
	pair_close(&pair);
}

/* The wait is the one the code of the NAK asks for, for each code. */
static void rnr_timer_codes(void **state)
{
	(void)state;
	for (uint8_t code = 0; code < 32; code++) {
		struct sim_connection connection = sim_usual;
		vb_time wait = code == 0 ? VB_MICROSECONDS(655360) :
			       code == 1 ? VB_MICROSECONDS(10) :
					   VB_MICROSECONDS(10) * ((2u + code % 2) << code / 2) / 2;
		struct pair pair;
		struct ibv_wc wc;
		vb_time began;

		connection.min_rnr_timer = code;
		pair_open(&pair, 1, false, &connection, 4096);
		began = pair.sim->now;
		pair_post(&pair, IBV_WR_SEND, 100, 1);
		sim_run_to(pair.sim, began + VB_MICROSECONDS(25));
		assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 100, pair.b_memory.key, 7), 0);
		assert_true(sim_wait(pair.sim, pair.b_cq, &wc, VB_SECONDS(1)));
		if (code > 2) {
			assert_true(pair.sim->now - began >= wait);
			assert_true(pair.sim->now - began < wait + VB_MICROSECONDS(50));
		}
		pair_close(&pair);
	}
}

/* The responder has few receives and says so: a sender that heard it does not send what cannot be taken. */
static void credits_hold_the_sender(void **state)
{
	struct observer observer;
	struct pair pair;
	unsigned received = 0, completed = 0;
	struct ibv_wc wc;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 65536);
	watch(&pair, &observer);
	for (unsigned i = 0; i < 100; i++)
		pair_post(&pair, IBV_WR_SEND, 2000, i);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 2000, pair.b_memory.key, i), 0);
	for (unsigned round = 0; round < 2000 && completed < 100; round++) {
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(40));
		while (sim_poll(pair.b_cq, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 2000, pair.b_memory.key,
							  received++),
					 0);
		}
		while (sim_poll(pair.a_cq, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, completed++);
		}
	}
	assert_int_equal(completed, 100);
	assert_int_equal(received, 100);
	/* 200 packets are the payload. The first burst knows of no credits; then nothing is wasted but one packet
	 * for each time that the sender asks whether there are new ones. */
	assert_true(observer.requests <= 200 + 200 + observer.rnr_naks);
	pair_close(&pair);
}

static void drain(void **state)
{
	struct pair pair;
	struct ibv_wc wc;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 1 << 20);
	pair_post(&pair, IBV_WR_RDMA_WRITE, 1 << 19, 1);
	pair_post(&pair, IBV_WR_RDMA_WRITE, 1 << 19, 2);
	sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(12));
	assert_int_equal(sim_modify_state(pair.a, IBV_QPS_SQD), 0);
	assert_false(sim_host_was_told(pair.hosts[0], IBV_EVENT_SQ_DRAINED));
	pair_post(&pair, IBV_WR_RDMA_WRITE, 100, 3);
	sim_run(pair.sim);
	/* What had begun is finished, the rest waits. */
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	assert_false(sim_poll(pair.a_cq, &wc));
	assert_true(sim_host_was_told(pair.hosts[0], IBV_EVENT_SQ_DRAINED));
	/* The responder goes on. */
	assert_int_equal(pair.a->state, IBV_QPS_SQD);
	assert_int_equal(sim_modify_state(pair.a, IBV_QPS_RTS), 0);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 2, IBV_WC_SUCCESS);
	expect_send(pair.a_cq, 3, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void drain_of_an_idle_queue(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 4096);
	assert_int_equal(sim_modify_state(pair.a, IBV_QPS_SQD), 0);
	sim_run(pair.sim);
	assert_true(sim_host_was_told(pair.hosts[0], IBV_EVENT_SQ_DRAINED));
	pair_close(&pair);
}

static void communication_established(void **state)
{
	struct pair pair;

	(void)state;
	pair_make(&pair, 1, false, IBV_QPT_RC, 4096);
	sim_to_init(pair.a, SIM_ALL_ACCESS & ~IBV_ACCESS_MW_BIND);
	sim_to_init(pair.b, SIM_ALL_ACCESS & ~IBV_ACCESS_MW_BIND);
	sim_to_rtr(pair.a, pair.b, &sim_usual, 1, 1);
	sim_to_rtr(pair.b, pair.a, &sim_usual, 2, 1);
	sim_to_rts(pair.a, &sim_usual, 2, 1);
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 100, pair.b_memory.key, 1), 0);
	pair_post(&pair, IBV_WR_SEND, 100, 1);
	sim_run(pair.sim);
	/* In RTR a QP receives and acknowledges. */
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	expect_send(pair.b_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair.b->state, IBV_QPS_RTR);
	assert_true(sim_host_was_told(pair.hosts[1], IBV_EVENT_COMM_EST));
	pair_close(&pair);
}

/* 58 seconds of silence, a timeout of 8.6 s and seven retries; then the peer is back before the end. */
static void storm_of_retries(void **state)
{
	struct sim_connection connection = sim_usual;
	struct pair pair;

	(void)state;
	connection.timeout = 21;
	connection.retry_cnt = 7;
	pair_open(&pair, 1, false, &connection, 1 << 20);
	pair_fill(&pair, &pair.a_memory, 1 << 20);
	pair.sim->network.loss = SIM_MILLION;
	pair_post(&pair, IBV_WR_RDMA_WRITE, 1 << 20, 1);
	sim_run_to(pair.sim, pair.sim->now + VB_SECONDS(58));
	assert_int_equal(pair.a->state, IBV_QPS_RTS);
	pair.sim->network.loss = 0;
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 1 << 20);
	/* The storm was a breeze: the interval grew. */
	assert_true(pair.sim->packets_sent < 3000);
	pair_close(&pair);
}

/* Timeout 0 never gives up. */
static void infinite_patience(void **state)
{
	struct sim_connection connection = sim_usual;
	struct pair pair;

	(void)state;
	connection.timeout = 0;
	connection.retry_cnt = 0;
	pair_open(&pair, 1, false, &connection, 4096);
	pair.sim->network.loss = SIM_MILLION;
	pair_post(&pair, IBV_WR_RDMA_WRITE, 4096, 1);
	sim_run_to(pair.sim, pair.sim->now + VB_SECONDS(3600));
	assert_int_equal(pair.a->state, IBV_QPS_RTS);
	pair.sim->network.loss = 0;
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* An ordinary user's socket buffer, a receiver that sleeps now and then: the window settles where little is lost. */
static void window_finds_the_buffer(void **state)
{
	static const size_t buffers[] = {425984, 200000, 60000};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned read = 0; read < 2; read++) {
			struct sim_connection connection = sim_usual;
			struct pair pair;
			uint64_t ideal = 8 * 1024;

			pair_open(&pair, 1, false, &connection, 1 << 20);
			pair_fill(&pair, &pair.a_memory, 1 << 20);
			pair_fill(&pair, &pair.b_memory, 1 << 20);
			pair.hosts[0]->buffer_limit = pair.hosts[1]->buffer_limit = buffers[i];
			pair.sim->network.service_delay = VB_MICROSECONDS(40);
			for (unsigned k = 0; k < 8; k++)
				pair_post(&pair, read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 1 << 20, k);
			sim_run(pair.sim);
			for (unsigned k = 0; k < 8; k++)
				expect_send(pair.a_cq, k, IBV_WC_SUCCESS);
			assert_memory_equal(pair.a_memory.bytes, pair.b_memory.bytes, 1 << 20);
			if (pair.sim->packets_sent > ideal * 13 / 10)
				print_message("buffer %u, read %u: %u packets instead of %u, %u dropped, %u timeouts\n",
					      (unsigned)buffers[i], read, (unsigned)pair.sim->packets_sent,
					      (unsigned)ideal,
					      (unsigned)(pair.hosts[0]->buffer_drops + pair.hosts[1]->buffer_drops),
					      (unsigned)pair.hosts[0]->counters.local_ack_timeout_err);
			assert_true(pair.sim->packets_sent < ideal * 13 / 10);
			pair_close(&pair);
		}
	}
}

/* Loss of 1 % costs percents of the time, not multiples, once transfers are long. */
static void loss_costs_little(void **state)
{
	vb_time clean = 0;

	(void)state;
	for (unsigned lossy = 0; lossy < 2; lossy++) {
		struct pair pair;
		struct ibv_wc wc;
		vb_time began;

		pair_open(&pair, 77, false, &sim_usual, 1 << 20);
		pair.sim->network.loss = lossy ? 10000 : 0;
		pair.sim->network.picoseconds_per_byte = 800;
		began = pair.sim->now;
		for (unsigned k = 0; k < 32; k++)
			pair_post(&pair, IBV_WR_RDMA_WRITE, 1 << 20, k);
		for (unsigned k = 0; k < 32; k++) {
			assert_true(sim_wait(pair.sim, pair.a_cq, &wc, VB_SECONDS(10)));
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
		}
		if (!lossy)
			clean = pair.sim->now - began;
		else if (pair.sim->now - began > 2 * clean)
			print_message("clean %u us, lossy %u us\n", (unsigned)(clean / 1000),
				      (unsigned)((pair.sim->now - began) / 1000));
		if (lossy)
			assert_true(pair.sim->now - began < 3 * clean);
		pair_close(&pair);
	}
}

static void congestion_is_notified(void **state)
{
	struct observer observer;
	struct vb_transport_status before, after;
	struct pair pair;

	(void)state;
	pair_open(&pair, 1, false, &sim_usual, 1 << 20);
	watch(&pair, &observer);
	vb_roce_query(pair.a, &before);
	pair.sim->network.congestion_experienced = 1;
	pair_post(&pair, IBV_WR_RDMA_WRITE, 1 << 20, 1);
	sim_run(pair.sim);
	expect_send(pair.a_cq, 1, IBV_WC_SUCCESS);
	vb_roce_query(pair.a, &after);
	assert_true(observer.cnps > 0);
	assert_int_equal(pair.hosts[1]->counters.np_cnp_sent + pair.hosts[0]->counters.np_cnp_sent, observer.cnps);
	assert_true(pair.hosts[0]->counters.rp_cnp_handled > 0);
	assert_true(pair.hosts[1]->counters.np_ecn_marked_roce_packets > 0);
	assert_true(after.window < before.window);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fence_waits_for_reads),
		cmocka_unit_test(reads_outstanding_are_limited),
		cmocka_unit_test(short_reads_are_one_request),
		cmocka_unit_test(responses_share_a_run),
		cmocka_unit_test(any_one_packet_may_be_lost),
		cmocka_unit_test(one_nak_per_gap),
		cmocka_unit_test(acknowledgements_are_coalesced),
		cmocka_unit_test(rnr_for_ever),
		cmocka_unit_test(rnr_timer_codes),
		cmocka_unit_test(credits_hold_the_sender),
		cmocka_unit_test(drain),
		cmocka_unit_test(drain_of_an_idle_queue),
		cmocka_unit_test(communication_established),
		cmocka_unit_test(storm_of_retries),
		cmocka_unit_test(infinite_patience),
		cmocka_unit_test(window_finds_the_buffer),
		cmocka_unit_test(loss_costs_little),
		cmocka_unit_test(congestion_is_notified),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
