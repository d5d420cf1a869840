/* SPDX-License-Identifier: MIT
 *
 * Lines, switches and adapters: times worked out by hand, nothing lost where PFC is on, marks where queues are long, ways that are
 * shared, and a watchdog that frees what a broken adapter holds up.
 */
#include "roce/control.h"
#include "sim/fabric.h"
#include "sim/flow.h"
#include "sim/nic.h"
#include "sim/port.h"
#include "sim/testing.h"
#include "sim/workload.h"

#define LINE ((struct sim_line){40000000000ull, 1000})

static struct sim *sim;
static struct sim_fabric *fabric;
static struct sim_flows *flows;

static const struct sim_switch_settings usual = {
	.buffer = 4 << 20, .pfc = true, .reserve = 4096, .shift = 3, .resume = 3072, .kmin = 5000, .kmax = 200000, .pmax = 0.01};

static void open_network(const struct sim_switch_settings *settings, uint64_t seed)
{
	sim = sim_create(seed);
	sim->headers_only = true;
	sim->work_requests = 4;
	fabric = sim_fabric_new(sim, settings);
	flows = sim_flows_new(sim);
}

static void close_network(void)
{
	sim_flows_free(flows);
	sim_fabric_free(fabric);
	sim_destroy(sim);
}

static struct sim_switch *star(unsigned hosts)
{
	struct sim_switch *centre = sim_fabric_switch(fabric, "s0", 0);

	for (unsigned i = 0; i < hosts; i++)
		sim_fabric_link_host(fabric, sim_host_add(sim, false), centre, LINE);
	sim_fabric_start(fabric);
	return centre;
}

static void incast(unsigned senders, uint64_t size)
{
	struct sim_workload workload = {.pattern = SIM_PATTERN_INCAST, .senders = senders, .size = size, .message = 1 << 20};

	sim_workload_make(&workload, flows, LINE.rate);
	sim_flows_start(flows);
}

/* 100 packets of 1,024 bytes, each 1,106 on the line but the first, which has 16 more: 22.1 us to leave the host. The last is forwarded
 * when it is whole: once more 221 ns, and 1 us for each line. The acknowledgement of 86 bytes comes back the same way. */
static void time_on_the_line(void **state)
{
	const vb_time expected = (100 * 1106 + 16) / 5 + 1106 / 5 + 4000 + 2 * 86 / 5;
	vb_time took;

	(void)state;
	open_network(&usual, 1);
	star(2);
	incast(1, 102400);
	sim_run_to(sim, sim->now + VB_MILLISECONDS(1));
	assert_int_equal(flows->finished, 1);
	took = flows->flow[0].ended - flows->flow[0].began;
	assert_in_range(took, expected - 3, expected + 3);
	close_network();
}

/* Eight to one with little buffer: senders are stopped in time at every length of line, and nothing is lost. */
static void nothing_is_lost_with_pfc(void **state)
{
	static const vb_time delays[] = {100, 1000, 5000};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct sim_switch *centre;
		uint64_t pauses = 0;

		open_network(&usual, i + 1);
		fabric->settings.buffer = 2 << 20;
		centre = sim_fabric_switch(fabric, "s0", 0);
		for (unsigned h = 0; h < 9; h++)
			sim_fabric_link_host(fabric, sim_host_add(sim, false), centre, (struct sim_line){LINE.rate, delays[i]});
		sim_fabric_start(fabric);
		incast(8, 2000000);
		sim_run_to(sim, sim->now + VB_MILLISECONDS(10));
		for (unsigned p = 1; p < 9; p++)
			pauses += centre->ports[p]->pauses_sent;
		assert_int_equal(flows->finished, 8);
		assert_true(pauses > 8);
		assert_int_equal(centre->drops, 0);
		assert_int_equal(centre->shared, 0);
		for (unsigned p = 0; p < 9; p++)
			assert_int_equal(centre->ports[p]->of[SIM_DATA].held + centre->ports[p]->of[SIM_DATA].headroom, 0);
		close_network();
	}
}

static void packets_are_lost_without(void **state)
{
	struct sim_switch *centre;

	(void)state;
	open_network(&usual, 5);
	fabric->settings.pfc = false;
	fabric->settings.buffer = 300000;
	centre = star(9);
	incast(8, 1000000);
	sim_run_to(sim, sim->now + VB_MILLISECONDS(100));
	assert_true(centre->drops > 100);
	/* and sent again */
	assert_int_equal(flows->finished, 8);
	assert_int_equal(centre->shared, 0);
	for (unsigned p = 0; p < 9; p++)
		assert_int_equal(centre->ports[p]->pauses_sent, 0);
	close_network();
}

/* DCQCN marks and slows down: the queue stays short, both have half, and nobody is paused. */
static void dcqcn_keeps_the_queue_short(void **state)
{
	struct vb_roce_policy policy;
	struct sim_switch *centre;
	uint64_t longest = 0, had[2];

	(void)state;
	assert_true(vb_roce_policy_parse(&policy, "dcqcn:paper@40G"));
	policy.burst = 0;
	policy.window = 1 << 20;
	open_network(&usual, 7);
	centre = star(3);
	for (unsigned i = 0; i < 3; i++)
		sim->hosts[i]->queue_host.policy = &policy;
	incast(2, 0);
	sim_run_to(sim, sim->now + VB_MILLISECONDS(2));
	for (unsigned i = 0; i < 2; i++)
		had[i] = sim_flow_delivered(&flows->flow[i]);
	for (unsigned i = 0; i < 100; i++) {
		sim_run_to(sim, sim->now + VB_MICROSECONDS(40));
		longest = centre->ports[0]->of[SIM_DATA].queued > longest ? centre->ports[0]->of[SIM_DATA].queued : longest;
	}
	/* 4 ms at 40 Gb/s, of which 1,024 in 1,106 bytes are payload. */
	for (unsigned i = 0; i < 2; i++)
		assert_in_range(sim_flow_delivered(&flows->flow[i]) - had[i], 8000000, 10600000);
	assert_true(centre->ports[0]->marks > 5);
	assert_true(longest < 200000);
	assert_int_equal(centre->ports[1]->pauses_sent, 0);
	close_network();
}

/* TIMELY has nothing but round trips to go by: both flows live, and the line is in use. */
static void timely_lives_on_round_trips(void **state)
{
	struct vb_roce_policy policy;
	uint64_t had[2];

	(void)state;
	assert_true(vb_roce_policy_parse(&policy, "timely@40G"));
	policy.burst = 0;
	policy.window = 1000000;
	open_network(&usual, 7);
	star(3);
	for (unsigned i = 0; i < 3; i++)
		sim->hosts[i]->queue_host.policy = &policy;
	incast(2, 0);
	sim_run_to(sim, sim->now + VB_MILLISECONDS(10));
	for (unsigned i = 0; i < 2; i++)
		had[i] = sim_flow_delivered(&flows->flow[i]);
	sim_run_to(sim, sim->now + VB_MILLISECONDS(10));
	/* 10 ms at 4 Gb/s at least, of 20 that are fair. */
	for (unsigned i = 0; i < 2; i++)
		assert_true(sim_flow_delivered(&flows->flow[i]) - had[i] > 5000000);
	close_network();
}

/* Above kmax every packet that can be marked is, below kmin none; who is not ECN-capable never. */
static void marks(void **state)
{
	struct vb_roce_policy policy;
	struct sim_switch *centre;

	(void)state;
	for (unsigned run = 0; run < 3; run++) {
		assert_true(vb_roce_policy_parse(&policy, run == 2 ? "window" : "dcqcn@40G"));
		policy.burst = 0;
		policy.window = 100000;
		open_network(&usual, 2);
		fabric->settings.kmin = run == 1 ? 10000000 : 0;
		fabric->settings.kmax = run == 1 ? 20000000 : 1;
		centre = star(3);
		for (unsigned i = 0; i < 3; i++)
			sim->hosts[i]->queue_host.policy = &policy;
		incast(2, 500000);
		sim_run_to(sim, sim->now + VB_MILLISECONDS(10));
		if (run == 0)
			assert_true(centre->ports[0]->marks > 50);
		else
			assert_int_equal(centre->ports[0]->marks, 0);
		close_network();
	}
}

/* Many flows between two leaves: every spine carries some, and each flow keeps to one. A route that leads back is given up by TTL. */
static void ways_are_shared(void **state)
{
	unsigned used = 0;

	(void)state;
	open_network(&usual, 3);
	sim_fabric_leaf_spine(fabric, 2, 4, 8, LINE, LINE);
	sim_fabric_start(fabric);
	for (unsigned i = 0; i < 8; i++)
		for (unsigned k = 8; k < 16; k++)
			sim_flows_add(flows, &(struct sim_flow){.from = i, .to = k, .size = 20000, .message = 1 << 20});
	sim_flows_start(flows);
	sim_run_to(sim, sim->now + VB_MILLISECONDS(5));
	assert_int_equal(flows->finished, 64);
	for (unsigned s = 0; s < 4; s++) {
		struct sim_port *port = sim_fabric_port_to(fabric->switches[0], fabric->switches[2 + s]);

		used += port->packets > 64;
	}
	assert_int_equal(used, 4);
	/* In order all the way: what goes by one way never overtakes. */
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(sim->hosts[i]->counters.out_of_seq_request, 0);
	close_network();

	open_network(&usual, 3);
	sim_fabric_leaf_spine(fabric, 2, 1, 1, LINE, LINE);
	sim_fabric_start(fabric);
	assert_true(sim_fabric_set_route(fabric, fabric->switches[2], sim->hosts[1], fabric->switches[0]));
	assert_false(sim_fabric_set_route(fabric, fabric->switches[0], sim->hosts[1], fabric->switches[1]));
	sim_flows_add(flows, &(struct sim_flow){.from = 0, .to = 1, .size = 1000, .message = 1 << 20});
	sim_flows_start(flows);
	sim_run_to(sim, sim->now + VB_MILLISECONDS(2));
	assert_int_equal(flows->finished, 0);
	assert_true(sim->packets_lost > 0);
	close_network();
}

/* A host that says pause for ever stops the switch and whoever sends to anyone through the same queue; the watchdog gives that
 * queue up. A pause that is said once is over after 65,535 quanta: 839 us. */
static void a_storm_and_the_watchdog(void **state)
{
	uint64_t before;

	(void)state;
	for (unsigned watched = 0; watched < 2; watched++) {
		struct sim_switch *centre;

		open_network(&usual, 9);
		if (watched) {
			fabric->settings.watchdog_poll = VB_MILLISECONDS(1);
			fabric->settings.watchdog_detect = fabric->settings.watchdog_restore = VB_MILLISECONDS(2);
		}
		centre = star(3);
		/* 1 sends to 0, which is ill, and to 2. */
		sim_flows_add(flows, &(struct sim_flow){.from = 1, .to = 0, .message = 1 << 20});
		sim_flows_add(flows, &(struct sim_flow){.from = 1, .to = 2, .message = 1 << 20});
		sim_flows_start(flows);
		sim_nic_begin_storm(sim->hosts[0]);
		sim_run_to(sim, sim->now + VB_MILLISECONDS(20));
		before = sim_flow_delivered(&flows->flow[1]);
		sim_run_to(sim, sim->now + VB_MILLISECONDS(5));
		assert_int_equal(centre->watchdog_fired, watched);
		assert_int_equal(centre->ports[0]->of[SIM_DATA].discards, watched);
		if (watched)
			assert_true(sim_flow_delivered(&flows->flow[1]) - before > 1000000);
		close_network();
	}
	open_network(&usual, 9);
	star(2);
	incast(1, 0);
	sim_port_send_pause(sim->hosts[1]->port->peer, SIM_DATA, true);
	/* What left before it came is there by then. */
	sim_run_to(sim, sim->now + VB_MICROSECONDS(10));
	before = sim_flow_delivered(&flows->flow[0]);
	sim_run_to(sim, sim->now + VB_MICROSECONDS(829));
	assert_int_equal(sim_flow_delivered(&flows->flow[0]), before);
	sim_run_to(sim, sim->now + VB_MICROSECONDS(10));
	assert_true(sim_flow_delivered(&flows->flow[0]) > before);
	close_network();
}

static void a_seed_is_a_run(void **state)
{
	uint64_t first[3] = {0};

	(void)state;
	for (unsigned run = 0; run < 3; run++) {
		struct sim_workload workload = {.pattern = SIM_PATTERN_POISSON, .sizes = sim_sizes_find("heavy"), .load = 0.5,
						.until = VB_MICROSECONDS(300), .message = 1 << 20};

		open_network(&usual, run < 2 ? 40 : 41);
		sim_fabric_fat_tree(fabric, 4, 0, LINE);
		assert_int_equal(sim->host_count, 16);
		sim_fabric_start(fabric);
		sim_workload_make(&workload, flows, LINE.rate);
		assert_true(flows->count > 10);
		sim_flows_start(flows);
		sim_run_to(sim, sim->now + VB_MILLISECONDS(4));
		assert_int_equal(flows->finished, flows->count);
		first[run] = sim->steps;
		close_network();
	}
	assert_int_equal(first[0], first[1]);
	assert_int_not_equal(first[0], first[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_on_the_line),
		cmocka_unit_test(nothing_is_lost_with_pfc),
		cmocka_unit_test(packets_are_lost_without),
		cmocka_unit_test(dcqcn_keeps_the_queue_short),
		cmocka_unit_test(timely_lives_on_round_trips),
		cmocka_unit_test(marks),
		cmocka_unit_test(ways_are_shared),
		cmocka_unit_test(a_storm_and_the_watchdog),
		cmocka_unit_test(a_seed_is_a_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
