/* SPDX-License-Identifier: MIT
 *
 * Flow control of UC and UD: bulk goes as fast as the receiver takes it, nothing is lost to one that is away from
 * its processor, and peers that report nothing are sent to by time.
 */
#include "sim/testing.h"

enum { MESSAGE = 65536, MESSAGES = 256, DATAGRAM = 1024, DATAGRAMS = 8192, QKEY = 0x11111111, BUFFER = 425984 };

struct observer {
	uint32_t probes, reports;
	uint32_t lose_probes, lose_reports; /* the first of each; UINT32_MAX: all */
	uint32_t lose_each;              /* and one in so many, of both; 0: none */
	struct psn last_report;
};

static bool comes(const struct observer *observer, uint32_t number, uint32_t lost)
{
	return number > lost && (observer->lose_each == 0 || number % observer->lose_each != 0);
}

static bool observe(void *context, const struct vb_roce_packet *packet)
{
	struct observer *observer = context;

	if (packet->op->kind == VB_KIND_FLOW_PROBE)
		return comes(observer, ++observer->probes, observer->lose_probes);
	if (packet->op->kind != VB_KIND_FLOW_REPORT)
		return true;
	observer->last_report = packet->psn;
	return comes(observer, ++observer->reports, observer->lose_reports);
}

static void open_connected(struct pair *pair, struct observer *observer)
{
	pair_make(pair, 7, false, IBV_QPT_UC, 2 * MESSAGE);
	sim_connect(pair->a, pair->b, &sim_usual);
	pair->hosts[0]->buffer_limit = pair->hosts[1]->buffer_limit = BUFFER;
	pair->sim->network.filter = observe;
	pair->sim->network.filter_context = observer;
}

/* The time that `messages` WRITEs take. Each is completed, and each one's immediate data came. */
static vb_time write_all(struct pair *pair, uint32_t messages)
{
	uint32_t posted = 0, completed = 0, received = 0;
	vb_time began = pair->sim->now, ended;
	struct ibv_wc wc;

	while (completed < messages) {
		if (posted < messages && posted < completed + 64) {
			assert_int_equal(sim_post_receive(pair->b, pair->b_memory.bytes, 0, pair->b_memory.key, posted), 0);
			pair_post(pair, IBV_WR_RDMA_WRITE_WITH_IMM, MESSAGE, posted++);
			continue;
		}
		assert_true(sim_wait(pair->sim, pair->a_cq, &wc, VB_SECONDS(1)));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		completed++;
	}
	ended = pair->sim->now;
	sim_run(pair->sim);
	while (sim_poll(pair->b_cq, &wc))
		received++;
	assert_int_equal(received, messages);
	assert_int_equal(pair->hosts[1]->buffer_drops, 0);
	return ended - began;
}

/* What the pace allows: a byte of charge a nanosecond. */
static vb_time by_time(uint32_t messages)
{
	return (vb_time)messages * (MESSAGE + MESSAGE / 1024 * 256);
}

static void bulk_is_not_paced(void **state)
{
	struct observer observer = {0};
	struct pair pair;
	vb_time took;

	(void)state;
	open_connected(&pair, &observer);
	took = write_all(&pair, MESSAGES);
	assert_true(took < by_time(MESSAGES) / 3);
	assert_true(observer.reports > 0 && observer.reports <= observer.probes);
	pair_close(&pair);
}

/* Longer than its buffer would last at the pace, again and again. */
static void a_receiver_that_is_away_loses_nothing(void **state)
{
	struct observer observer = {0};
	struct pair pair;

	(void)state;
	open_connected(&pair, &observer);
	write_all(&pair, 16);
	for (unsigned i = 0; i < 8; i++) {
		pair.hosts[1]->away_until = pair.sim->now + VB_MILLISECONDS(2 + 2 * i);
		write_all(&pair, 32);
	}
	pair_close(&pair);
}

static void post_writes(struct pair *pair, uint32_t messages)
{
	for (uint32_t i = 0; i < messages; i++)
		pair_post(pair, IBV_WR_RDMA_WRITE, MESSAGE, i);
}

static void expect_all_to_leave(struct pair *pair, uint32_t messages)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < messages; i++)
		assert_true(sim_wait(pair->sim, pair->a_cq, &wc, VB_SECONDS(20)) && wc.status == IBV_WC_SUCCESS);
}

/* The sender, when it has just asked for the first time. The report lies unread when it comes back, and it is the receiver's turn to be
 * away: had the sender gone on by time, its packets would find no room. */
static void a_sender_that_is_away_loses_nothing(void **state)
{
	struct observer observer = {0};
	struct pair pair;

	(void)state;
	open_connected(&pair, &observer);
	post_writes(&pair, 64);
	while (observer.probes == 0)
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(1));
	pair.hosts[0]->away_until = pair.sim->now + VB_MILLISECONDS(300);
	/* So the sender's timer is over before the report comes. */
	pair.hosts[1]->away_until = pair.sim->now + VB_MILLISECONDS(1);
	sim_run_to(pair.sim, pair.hosts[0]->away_until - VB_MILLISECONDS(1));
	assert_int_equal(observer.reports, 1);
	pair.hosts[1]->away_until = pair.hosts[0]->away_until + VB_MILLISECONDS(10);
	expect_all_to_leave(&pair, 64);
	assert_int_equal(pair.hosts[1]->buffer_drops, 0);
	pair_close(&pair);
}

/* The receiver, when it is first asked: it reports when the sender has given it up. */
static void a_late_report_counts(void **state)
{
	struct observer observer = {0};
	struct pair pair;
	vb_time began;

	(void)state;
	open_connected(&pair, &observer);
	pair.hosts[1]->away_until = pair.sim->now + VB_MILLISECONDS(60);
	pair.hosts[1]->buffer_limit = 0;
	began = pair.hosts[1]->away_until;
	for (uint32_t done = 0; done < MESSAGES; done += 64) {
		post_writes(&pair, 64);
		expect_all_to_leave(&pair, 64);
	}
	assert_true(pair.sim->now - began < by_time(MESSAGES) / 2);
	pair_close(&pair);
}

/* For much longer than the sender waits for one of which nothing is known. `until`: it is said to live until then. */
static uint64_t lose_processor(vb_time until)
{
	struct observer observer = {0};
	struct vb_path path;
	struct pair pair;
	uint64_t drops;
	uint32_t qpn, before;

	open_connected(&pair, &observer);
	write_all(&pair, 16);
	pair.hosts[1]->away_until = pair.sim->now + VB_SECONDS(5);
	until += pair.sim->now;
	post_writes(&pair, 64);
	before = observer.probes;
	while (pair.sim->now < pair.hosts[1]->away_until) {
		sim_run_to(pair.sim, pair.sim->now + VB_MILLISECONDS(1));
		if (!vb_roce_misses_receiver(pair.a, &path, &qpn))
			continue;
		assert_int_equal(qpn, pair.b->qpn);
		assert_memory_equal(path.destination, pair.hosts[1]->address, 16);
		vb_lock_take(&pair.a->lock);
		vb_roce_receiver_lives(pair.a, pair.sim->now < until);
		vb_lock_release(&pair.a->lock);
	}
	/* It is not asked so often that its socket has no room for anything else when it comes back. */
	assert_true(observer.probes - before < 200);
	expect_all_to_leave(&pair, 64);
	drops = pair.hosts[1]->buffer_drops;
	pair_close(&pair);
	return drops;
}

static void a_receiver_that_lives_is_waited_for(void **state)
{
	(void)state;
	assert_int_equal(lose_processor(VB_SECONDS(5)), 0);
	/* One that does not, or is not known to, holds nobody up. */
	assert_true(lose_processor(0) > 0);
	assert_true(lose_processor(VB_SECONDS(1)) > 0);
}

/* It comes back too late, and until then it was said to live. */
static void not_for_ever(void **state)
{
	struct observer observer = {.lose_reports = UINT32_MAX};
	struct vb_path path;
	struct pair pair;
	vb_time began;
	uint32_t qpn;

	(void)state;
	open_connected(&pair, &observer);
	pair.hosts[1]->buffer_limit = 0;
	post_writes(&pair, 64);
	began = pair.sim->now;
	while (vb_send_queue_count(&pair.a->send) > 32 && pair.sim->now - began < VB_SECONDS(20)) {
		sim_run_to(pair.sim, pair.sim->now + VB_MILLISECONDS(1));
		if (!vb_roce_misses_receiver(pair.a, &path, &qpn))
			continue;
		vb_lock_take(&pair.a->lock);
		vb_roce_receiver_lives(pair.a, true);
		vb_lock_release(&pair.a->lock);
	}
	assert_in_range(pair.sim->now - began, VB_SECONDS(10), VB_SECONDS(11));
	expect_all_to_leave(&pair, 64);
	pair_close(&pair);
}

/* Of which the receiver posts none after the first message. */
static void writes_wait_for_no_receives(void **state)
{
	struct observer observer = {0};
	struct pair pair;
	struct ibv_wc wc;
	vb_time began;

	(void)state;
	open_connected(&pair, &observer);
	assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, MESSAGE, pair.b_memory.key, 1), 0);
	pair_post(&pair, IBV_WR_SEND, MESSAGE, 1);
	sim_run(pair.sim);
	assert_true(sim_poll(pair.a_cq, &wc) && sim_poll(pair.b_cq, &wc));
	began = pair.sim->now;
	for (uint32_t i = 0; i < 64; i++)
		pair_post(&pair, IBV_WR_RDMA_WRITE, MESSAGE, i);
	for (uint32_t i = 0; i < 64; i++)
		assert_true(sim_wait(pair.sim, pair.a_cq, &wc, VB_SECONDS(1)) && wc.status == IBV_WC_SUCCESS);
	assert_true(pair.sim->now - began < by_time(64) / 2);
	pair_close(&pair);
}

static void a_peer_that_reports_nothing_is_paced(void **state)
{
	struct observer observer = {.lose_probes = UINT32_MAX};
	struct pair pair;
	vb_time took;

	(void)state;
	open_connected(&pair, &observer);
	took = write_all(&pair, MESSAGES);
	assert_true(took > by_time(MESSAGES) - VB_MILLISECONDS(1));
	assert_int_equal(observer.probes, 8);
	pair_close(&pair);
}

static void what_is_not_bulk_asks_nothing(void **state)
{
	struct observer observer = {0};
	struct pair pair;

	(void)state;
	open_connected(&pair, &observer);
	for (unsigned i = 0; i < 64; i++) {
		write_all(&pair, 1);
		sim_run_to(pair.sim, pair.sim->now + VB_MICROSECONDS(200));
	}
	assert_int_equal(observer.probes, 0);
	pair_close(&pair);
}

static void probes_and_reports_get_lost(void **state)
{
	struct observer observer = {.lose_each = 3, .lose_reports = 2};
	struct pair pair;

	(void)state;
	open_connected(&pair, &observer);
	assert_true(write_all(&pair, MESSAGES) < by_time(MESSAGES));
	/* From now on all of them: after a while it goes on by time, and ends. */
	observer.lose_reports = UINT32_MAX;
	assert_true(write_all(&pair, MESSAGES) < by_time(MESSAGES) + VB_MILLISECONDS(210));
	/* And as before when they come again. */
	observer = (struct observer){0};
	write_all(&pair, 16);
	assert_true(write_all(&pair, MESSAGES) < by_time(MESSAGES) / 2);
	pair_close(&pair);
}

/* Eight of them have no more room than one, and the receiver is away. */
static void senders_share_a_buffer(void **state)
{
	enum { SENDERS = 8, EACH = 24 };
	struct vb_receive_share share = {.bytes = BUFFER};
	struct sim *sim = sim_create(3);
	struct sim_host *to = sim_host_add(sim, false);
	struct sim_region target = sim_region(to, MESSAGE, SIM_ALL_ACCESS), source[SENDERS];
	struct vb_cq *to_cq = sim_cq(to, 4096), *cq[SENDERS];
	struct vb_qp *a[SENDERS], *b[SENDERS];

	(void)state;
	to->queue_host.share = &share;
	for (unsigned i = 0; i < SENDERS; i++) {
		struct sim_host *from = sim_host_add(sim, false);

		cq[i] = sim_cq(from, 4096);
		source[i] = sim_region(from, MESSAGE, SIM_ALL_ACCESS);
		a[i] = sim_qp(from, IBV_QPT_UC, cq[i], cq[i], NULL);
		b[i] = sim_qp(to, IBV_QPT_UC, to_cq, to_cq, NULL);
		sim_connect(a[i], b[i], &sim_usual);
	}
	/* The first round is for getting to know each other: all begin with the burst of the pace. */
	for (unsigned round = 0; round < 2; round++) {
		if (round == 1) {
			to->buffer_limit = BUFFER;
			to->away_until = sim->now + VB_MILLISECONDS(15);
		}
		for (unsigned n = 0; n < SENDERS * EACH; n++) {
			unsigned i = n % SENDERS;
			struct ibv_sge sge = {(uintptr_t)source[i].bytes, MESSAGE, source[i].key};
			struct ibv_send_wr wr = {.wr_id = n, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
						 .send_flags = IBV_SEND_SIGNALED};

			wr.wr.rdma.remote_addr = (uintptr_t)target.bytes;
			wr.wr.rdma.rkey = target.key;
			assert_int_equal(sim_post_send(a[i], &wr), 0);
		}
		if (round == 0) {
			/* Not to the end: the next follows at once, as in one stream. */
			sim_run_to(sim, sim->now + VB_MILLISECONDS(2));
			assert_int_equal(share.senders > share.senders_before ? share.senders : share.senders_before, SENDERS);
		}
	}
	sim_run(sim);
	assert_int_equal(to->buffer_drops, 0);
	for (unsigned i = 0; i < SENDERS; i++) {
		assert_int_equal(vb_send_queue_count(&a[i]->send), 0);
		sim_qp_free(a[i]);
		sim_qp_free(b[i]);
		sim_region_free(&source[i]);
		sim_cq_free(cq[i]);
	}
	sim_region_free(&target);
	sim_cq_free(to_cq);
	sim_destroy(sim);
}

/* ---- datagrams ---- */

static void post_datagram(struct pair *pair, struct ibv_ah *ah, uint32_t qpn)
{
	struct ibv_sge sge = {(uintptr_t)pair->a_memory.bytes, DATAGRAM, pair->a_memory.key};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = QKEY;
	assert_int_equal(sim_post_send(pair->a, &wr), 0);
}

/* To the queue pairs in turn. What the receivers had is their affair. */
static vb_time send_datagrams(struct pair *pair, struct ibv_ah *ah, const uint32_t qpn[2])
{
	uint32_t posted = 0, completed = 0;
	vb_time began = pair->sim->now;
	struct ibv_wc wc;

	while (completed < DATAGRAMS) {
		if (posted < DATAGRAMS && posted < completed + 64) {
			if (qpn[posted & 1] == pair->b->qpn)
				assert_int_equal(sim_post_receive(pair->b, pair->b_memory.bytes, 40 + DATAGRAM, pair->b_memory.key, 0), 0);
			post_datagram(pair, ah, qpn[posted++ & 1]);
			continue;
		}
		assert_true(sim_wait(pair->sim, pair->a_cq, &wc, VB_SECONDS(1)));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		completed++;
		while (sim_poll(pair->b_cq, &wc))
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_int_equal(pair->hosts[1]->buffer_drops, 0);
	return pair->sim->now - began;
}

static void datagrams_in_bulk(void **state)
{
	const vb_time paced = (vb_time)DATAGRAMS * (DATAGRAM + 256);

	(void)state;
	for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
		struct observer observer = {0};
		struct ibv_ah *ah;
		struct pair pair;
		struct vb_qp *other;
		uint32_t qpn[2];

		pair_make(&pair, 1, ipv6, IBV_QPT_UD, 65536);
		other = sim_qp(pair.hosts[1], IBV_QPT_UD, pair.b_cq, pair.b_cq, NULL);
		sim_open_datagram(pair.a, QKEY, IBV_MTU_1024);
		sim_open_datagram(pair.b, QKEY, IBV_MTU_1024);
		sim_open_datagram(other, QKEY, IBV_MTU_1024);
		pair.hosts[0]->buffer_limit = pair.hosts[1]->buffer_limit = BUFFER;
		pair.sim->network.filter = observe;
		pair.sim->network.filter_context = &observer;
		ah = sim_ah(pair.hosts[0], pair.hosts[1]);
		qpn[0] = qpn[1] = pair.b->qpn;
		assert_true(send_datagrams(&pair, ah, qpn) < paced / 3);
		assert_true(observer.reports > 0);
		pair.hosts[1]->away_until = pair.sim->now + VB_MILLISECONDS(10);
		send_datagrams(&pair, ah, qpn);
		/* Now to one, now to the other: neither is asked. */
		observer = (struct observer){0};
		qpn[1] = other->qpn;
		assert_true(send_datagrams(&pair, ah, qpn) > paced - VB_MILLISECONDS(1));
		assert_int_equal(observer.probes, 0);
		sim_ah_free(ah);
		sim_qp_free(other);
		pair_close(&pair);
	}
}

/* Packets are taken from its socket at once, and receives are posted again only when nothing moves any more. */
static void an_application_that_is_behind_loses_nothing(void **state)
{
	enum { RECEIVES = 251 };
	uint32_t posted = 0, completed = 0, received = 0;
	struct observer observer = {0};
	struct ibv_ah *ah;
	struct pair pair;
	struct ibv_wc wc;

	(void)state;
	pair_make(&pair, 1, false, IBV_QPT_UD, 65536);
	sim_open_datagram(pair.a, QKEY, IBV_MTU_1024);
	sim_open_datagram(pair.b, QKEY, IBV_MTU_1024);
	pair.sim->network.filter = observe;
	pair.sim->network.filter_context = &observer;
	ah = sim_ah(pair.hosts[0], pair.hosts[1]);
	for (unsigned i = 0; i < RECEIVES; i++)
		assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 40 + DATAGRAM, pair.b_memory.key, 0), 0);
	while (completed < DATAGRAMS) {
		if (posted < DATAGRAMS && posted < completed + 64) {
			post_datagram(&pair, ah, pair.b->qpn);
			posted++;
		} else if (sim_wait(pair.sim, pair.a_cq, &wc, VB_MILLISECONDS(1))) {
			completed++;
		} else {
			while (sim_poll(pair.b_cq, &wc)) {
				received++;
				assert_int_equal(sim_post_receive(pair.b, pair.b_memory.bytes, 40 + DATAGRAM, pair.b_memory.key, 0), 0);
			}
		}
	}
	sim_run(pair.sim);
	while (sim_poll(pair.b_cq, &wc))
		received++;
	assert_int_equal(received, DATAGRAMS);
	assert_int_equal(pair.hosts[1]->counters.dropped_pkts, 0);

	/* Where none is ever posted again the sender is not held up for good. */
	for (posted = completed = 0; completed < DATAGRAMS;) {
		if (posted < DATAGRAMS && posted < completed + 64) {
			post_datagram(&pair, ah, pair.b->qpn);
			posted++;
		} else {
			assert_true(sim_wait(pair.sim, pair.a_cq, &wc, VB_SECONDS(1)));
			completed++;
		}
	}
	sim_ah_free(ah);
	pair_close(&pair);
}

/* ---- what is not to be believed ---- */

static void inject(struct vb_qp *qp, uint8_t opcode, struct psn psn, uint32_t qkey, uint32_t window)
{
	struct vb_roce_packet packet = {
		.opcode = opcode,
		.op = vb_roce_opcode(opcode),
		.pkey = 0xffff,
		.destination_qpn = qp->qpn,
		.psn = psn,
		.deth = {.qkey = qkey, .source_qpn = 77},
		.immediate = be32_of(window),
	};

	sim_inject(qp, &packet);
}

static void forged_reports_and_probes(void **state)
{
	struct observer observer = {0};
	struct pair pair;
	vb_time took;

	(void)state;
	open_connected(&pair, &observer);
	/* Of what was never asked. */
	inject(pair.a, 0xc1, psn_of(0), 0, UINT32_MAX);
	write_all(&pair, 16);
	inject(pair.a, 0xc1, psn_add(observer.last_report, 5000), 0, UINT32_MAX);
	/* Windows of nothing and of everything: what comes of them is bounded. */
	inject(pair.a, 0xc1, observer.last_report, 0, 0);
	took = write_all(&pair, MESSAGES);
	assert_true(took < by_time(MESSAGES));
	inject(pair.a, 0xc1, observer.last_report, 0, UINT32_MAX);
	pair.hosts[1]->away_until = pair.sim->now + VB_MILLISECONDS(5);
	write_all(&pair, 32);
	pair_close(&pair);

	/* A probe without the Q_Key is not answered. */
	observer = (struct observer){0};
	pair_make(&pair, 1, false, IBV_QPT_UD, 65536);
	pair.sim->network.filter = observe;
	pair.sim->network.filter_context = &observer;
	sim_open_datagram(pair.a, QKEY, IBV_MTU_1024);
	memcpy(pair.a->path.source, pair.hosts[0]->address, 16);
	memcpy(pair.a->path.destination, pair.hosts[1]->address, 16);
	inject(pair.a, 0xc0, psn_of(1), QKEY + 1, 0);
	sim_run(pair.sim);
	assert_int_equal(observer.reports, 0);
	assert_int_equal(pair.hosts[0]->counters.bad_qkey_pkts, 1);
	inject(pair.a, 0xc0, psn_of(1), QKEY, 0);
	sim_run(pair.sim);
	assert_int_equal(observer.reports, 1);
	pair_close(&pair);

	/* RC answers one, too, and learns nothing from a report that it did not ask for. */
	observer = (struct observer){0};
	pair_open(&pair, 1, false, &sim_usual, 65536);
	pair.sim->network.filter = observe;
	pair.sim->network.filter_context = &observer;
	inject(pair.a, 0xc0, psn_of(1), 0, 0);
	inject(pair.a, 0xc1, psn_of(1), 0, 0);
	sim_run(pair.sim);
	assert_int_equal(observer.reports, 1);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bulk_is_not_paced),
		cmocka_unit_test(a_receiver_that_is_away_loses_nothing),
		cmocka_unit_test(a_sender_that_is_away_loses_nothing),
		cmocka_unit_test(a_late_report_counts),
		cmocka_unit_test(a_receiver_that_lives_is_waited_for),
		cmocka_unit_test(not_for_ever),
		cmocka_unit_test(writes_wait_for_no_receives),
		cmocka_unit_test(a_peer_that_reports_nothing_is_paced),
		cmocka_unit_test(what_is_not_bulk_asks_nothing),
		cmocka_unit_test(probes_and_reports_get_lost),
		cmocka_unit_test(senders_share_a_buffer),
		cmocka_unit_test(datagrams_in_bulk),
		cmocka_unit_test(an_application_that_is_behind_loses_nothing),
		cmocka_unit_test(forged_reports_and_probes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
