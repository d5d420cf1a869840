/* SPDX-License-Identifier: MIT
 *
 * Worlds by seed: two to five hosts, connections between any of them, work of every kind, and everything that can go wrong at any
 * step: loss, duplication, reordering and damage, blackouts, hosts that stand still, an end of a connection that vanishes
 * without a word and comes back as another queue pair. A model says what memory holds:
 *
 *   work that completed with success    the bytes are there, once, and stay
 *   an atomic                           was done once if it succeeded, at most once if not
 *   any other work                      completed with an error, or its queue pair is gone; no byte outside its range changed,
 *                                       or outside its receive
 *   work that is posted                 completes, whatever happens
 *
 *   campaign [--seeds N] [--from SEED] [--seconds S] [--length L]
 *
 * ends with "N seeds, M packets". A seed that fails is named, and --from SEED --seeds 1 plays it alone. With --length a world has L times
 * the steps; a flow that has used all its places takes them again, filled anew.
 */
#include <endian.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "queue/qp.h"
#include "sim/sim.h"

enum {
	MOST_HOSTS = 5,
	MOST_FLOWS = 6,
	OPERATIONS = 160,                /* of a flow */
	PLACE = 6144,                    /* each has one of its own, with a margin that nobody may touch */
	MARGIN = 64,
	DEPTH = 16,
	STEPS = 1500,
};

enum state { UNUSED, POSTED, SUCCEEDED, FAILED, GONE };

struct operation {
	enum state state;
	enum ibv_wr_opcode opcode;
	uint32_t length;
	bool received;                   /* SEND: the receiver's completion said so */
};

/* Work goes from a to b. */
struct flow {
	struct sim_host *from, *to;
	struct vb_qp *a, *b;             /* NULL: that end is gone */
	struct vb_cq *a_cq, *b_cq;
	struct sim_region source, target;/* of `source` the second half is what the target holds at first */
	struct operation operation[OPERATIONS];
	uint32_t posted, completed;      /* of `posted`, how many have been spoken for, in order */
	uint64_t counter_least, counter_most;
};

struct world {
	struct sim *sim;
	struct sim_host *host[MOST_HOSTS];
	unsigned hosts, flows;
	struct flow flow[MOST_FLOWS];
	vb_time dark_until;
};

static uint64_t playing;
static unsigned chapters = 1;

#define CHECK(condition)                                                                                        \
	do {                                                                                                    \
		if (!(condition)) {                                                                             \
			fprintf(stderr, "seed %llu: %s:%d: %s does not hold\n", (unsigned long long)playing,    \
				__FILE__, __LINE__, #condition);                                                \
			abort();                                                                                \
		}                                                                                               \
	} while (0)

static uint8_t *place(struct sim_region *region, uint32_t index)
{
	return region->bytes + (size_t)index * PLACE;
}

/* ---- making ---- */

static void fill(struct sim *sim, uint8_t *bytes, size_t length)
{
	for (size_t at = 0; at + 4 <= length; at += 4) {
		uint32_t word = sim_random(sim);

		memcpy(bytes + at, &word, 4);
	}
}

static void fill_places(struct world *world, struct flow *flow)
{
	fill(world->sim, flow->source.bytes, flow->source.length);
	memcpy(flow->target.bytes, flow->source.bytes + (size_t)OPERATIONS * PLACE, (size_t)OPERATIONS * PLACE);
}

static void connect_flow(struct world *world, struct flow *flow)
{
	static const enum ibv_mtu mtus[] = {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_4096};
	struct sim *sim = world->sim;
	struct sim_connection connection = sim_usual;

	connection.mtu = mtus[sim_below(sim, 4)];
	connection.psn_a = sim_below(sim, 3) == 0 ? 0xfffff0 : sim_random(sim) & 0xffffff;
	connection.psn_b = sim_random(sim) & 0xffffff;
	connection.rd_atomic_a = connection.rd_atomic_b = (uint8_t)(1 + sim_below(sim, 8));
	connection.timeout = (uint8_t)(12 + sim_below(sim, 4));
	connection.retry_cnt = (uint8_t)(3 + sim_below(sim, 5));
	flow->a = sim_qp(flow->from, IBV_QPT_RC, flow->a_cq, flow->a_cq, NULL);
	flow->b = sim_qp(flow->to, IBV_QPT_RC, flow->b_cq, flow->b_cq, NULL);
	sim_connect(flow->a, flow->b, &connection);
}

static void open_flow(struct world *world, struct flow *flow)
{
	unsigned from = sim_below(world->sim, world->hosts), to = sim_below(world->sim, world->hosts - 1);

	flow->from = world->host[from];
	flow->to = world->host[to >= from ? to + 1 : to];
	flow->a_cq = sim_cq(flow->from, 4 * DEPTH);
	flow->b_cq = sim_cq(flow->to, 4 * DEPTH);
	flow->source = sim_region(flow->from, 2 * (size_t)OPERATIONS * PLACE, SIM_ALL_ACCESS);
	flow->target = sim_region(flow->to, (size_t)OPERATIONS * PLACE + 8, SIM_ALL_ACCESS);
	fill_places(world, flow);
	memset(flow->target.bytes + (size_t)OPERATIONS * PLACE, 0, 8);
	connect_flow(world, flow);
}

/* ---- work ---- */

static uint64_t counter(const struct flow *flow)
{
	uint64_t value;

	memcpy(&value, flow->target.bytes + (size_t)OPERATIONS * PLACE, sizeof(value));
	return value;
}

static void post(struct world *world, struct flow *flow)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct sim *sim = world->sim;
	uint32_t index = flow->posted;
	struct operation *operation = &flow->operation[index];
	struct ibv_sge sge = {(uintptr_t)place(&flow->source, index), 0, flow->source.key};
	struct ibv_send_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1, .imm_data = htobe32(index),
				 .send_flags = IBV_SEND_SIGNALED | (sim_below(sim, 8) == 0 ? IBV_SEND_FENCE : 0)};

	if (index == OPERATIONS || index - flow->completed >= DEPTH || !flow->a || !flow->b || flow->a->state != IBV_QPS_RTS ||
	    flow->b->state != IBV_QPS_RTS)
		return;
	operation->opcode = wr.opcode = opcodes[sim_below(sim, 6)];
	operation->length = sim_below(sim, 4) == 0 ? sim_below(sim, 16) : sim_below(sim, PLACE - MARGIN);
	operation->state = POSTED;
	wr.wr.rdma.remote_addr = (uintptr_t)place(&flow->target, index);
	wr.wr.rdma.rkey = flow->target.key;
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		operation->length = 8;
		wr.wr.atomic.remote_addr = (uintptr_t)flow->target.bytes + (size_t)OPERATIONS * PLACE;
		wr.wr.atomic.rkey = flow->target.key;
		wr.wr.atomic.compare_add = 1;
		flow->counter_most++;
	}
	sge.length = operation->length;
	/* Each receive is for this message: they are taken in order. */
	if (wr.opcode == IBV_WR_SEND || wr.opcode == IBV_WR_SEND_WITH_IMM || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		CHECK(sim_post_receive(flow->b, place(&flow->target, index), PLACE - MARGIN, flow->target.key, index) == 0);
	CHECK(sim_post_send(flow->a, &wr) == 0);
	flow->posted++;
}

/* What somebody wrote where nobody should have. */
static void describe(struct flow *flow, uint32_t index, uint32_t from)
{
	const struct operation *operation = &flow->operation[index];
	const uint8_t *source = place(&flow->source, index), *target = place(&flow->target, index);
	const uint8_t *before = place(&flow->source, OPERATIONS + index);
	uint32_t first = PLACE, last = 0, count = 0, like_source = 0;

	for (uint32_t at = from; at < PLACE; at++) {
		if (target[at] == before[at])
			continue;
		first = at < first ? at : first;
		last = at;
		count++;
		like_source += target[at] == source[at];
	}
	fprintf(stderr, "operation %u of %u, opcode %d, %u bytes, state %d: ", index, flow->posted, (int)operation->opcode,
		operation->length, (int)operation->state);
	fprintf(stderr, "%u bytes from %u to %u were changed, %u of them are the source's\n", count, first, last, like_source);
}

static void check_place(struct flow *flow, uint32_t index)
{
	const struct operation *operation = &flow->operation[index];
	const uint8_t *source = place(&flow->source, index), *target = place(&flow->target, index);
	const uint8_t *before = place(&flow->source, OPERATIONS + index);
	uint32_t untouched = operation->length;

	if (operation->state == UNUSED || operation->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || operation->opcode == IBV_WR_RDMA_READ)
		untouched = 0;
	/* Behind a message a receive may hold rubbish of a damaged packet (roce/bulk_receive.c), up to its own end. */
	else if (operation->opcode == IBV_WR_SEND || operation->opcode == IBV_WR_SEND_WITH_IMM)
		untouched = PLACE - MARGIN;
	if (operation->state == SUCCEEDED && operation->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD)
		CHECK(memcmp(source, target, operation->length) == 0);
	/* Nothing behind it. */
	if (memcmp(target + untouched, before + untouched, PLACE - untouched) != 0)
		describe(flow, index, untouched);
	CHECK(memcmp(target + untouched, before + untouched, PLACE - untouched) == 0);
}

static void end_operation(struct flow *flow, uint32_t index, enum ibv_wc_status status)
{
	struct operation *operation = &flow->operation[index];

	CHECK(index == flow->completed && index < flow->posted && operation->state == POSTED);
	operation->state = status == IBV_WC_SUCCESS ? SUCCEEDED : FAILED;
	flow->completed++;
	if (operation->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD && status == IBV_WC_SUCCESS)
		flow->counter_least++;
	if (status == IBV_WC_SUCCESS)
		check_place(flow, index);
	CHECK(counter(flow) >= flow->counter_least && counter(flow) <= flow->counter_most);
}

static void poll_flow(struct flow *flow)
{
	struct ibv_wc wc;

	while (sim_poll(flow->b_cq, &wc)) {
		struct operation *operation = &flow->operation[wc.wr_id];

		CHECK(wc.wr_id < flow->posted && !operation->received);
		if (wc.status != IBV_WC_SUCCESS)
			continue;
		CHECK(wc.byte_len == operation->length);
		CHECK(!(wc.wc_flags & IBV_WC_WITH_IMM) || be32toh(wc.imm_data) == wc.wr_id);
		CHECK(memcmp(place(&flow->source, (uint32_t)wc.wr_id), place(&flow->target, (uint32_t)wc.wr_id), operation->length) == 0);
		operation->received = true;
	}
	while (sim_poll(flow->a_cq, &wc))
		end_operation(flow, (uint32_t)wc.wr_id, wc.status);
}

/* All places used, and all work spoken for: once more from the first. Copies of packets that are still under way must change nothing. */
static void begin_again(struct world *world, struct flow *flow)
{
	if (flow->completed < OPERATIONS || !flow->a || !flow->b || flow->a->state != IBV_QPS_RTS || flow->b->state != IBV_QPS_RTS)
		return;
	for (uint32_t index = 0; index < OPERATIONS; index++)
		check_place(flow, index);
	fill_places(world, flow);
	memset(flow->operation, 0, sizeof(flow->operation));
	flow->posted = flow->completed = 0;
}

/* ---- what goes wrong ---- */

/* Without a word: what was posted there is spoken of no more. */
static void vanish(struct flow *flow, bool sender)
{
	struct vb_qp **qp = sender ? &flow->a : &flow->b;

	if (!*qp)
		return;
	poll_flow(flow);
	sim_qp_free(*qp);
	*qp = NULL;
	if (!sender)
		return;
	/* Nor of what had completed a moment before, and was not taken. */
	poll_flow(flow);
	while (flow->completed < flow->posted)
		flow->operation[flow->completed++].state = GONE;
}

/* A program that saw an error, or comes back: both ends anew. */
static void come_back(struct world *world, struct flow *flow)
{
	poll_flow(flow);
	if (flow->a && flow->b && flow->a->state == IBV_QPS_RTS && flow->b->state == IBV_QPS_RTS)
		return;
	if (flow->a && flow->a->state == IBV_QPS_RTS && flow->completed < flow->posted)
		return; /* its peer is gone, which it has yet to find out */
	if (flow->a)
		vanish(flow, true);
	if (flow->b)
		vanish(flow, false);
	connect_flow(world, flow);
}

static bool is_light(void *context, const struct vb_roce_packet *packet)
{
	const struct world *world = context;

	(void)packet;
	return world->sim->now >= world->dark_until;
}

static void change_weather(struct world *world)
{
	static const uint32_t bad[] = {0, 0, 0, 1000, 10000, 50000, 150000};
	struct sim_network *network = &world->sim->network;

	network->loss = bad[sim_below(world->sim, 7)];
	network->duplication = bad[sim_below(world->sim, 7)];
	network->reorder = bad[sim_below(world->sim, 7)];
	network->corruption = bad[sim_below(world->sim, 7)];
}

static void disturb(struct world *world)
{
	struct sim *sim = world->sim;
	struct flow *flow = &world->flow[sim_below(sim, world->flows)];

	switch (sim_below(sim, 200)) {
	case 0:
		vanish(flow, sim_below(sim, 2) == 0);
		break;
	case 1:
		world->dark_until = sim->now + VB_MICROSECONDS(1 + sim_below(sim, 300000));
		break;
	case 2:
		flow->to->away_until = sim->now + VB_MICROSECONDS(1 + sim_below(sim, 200000));
		break;
	case 3:
		change_weather(world);
		break;
	case 4:
		sim_run_to(sim, sim->now + VB_MILLISECONDS(sim_below(sim, 400)));
		break;
	case 5:
	case 6:
	case 7:
		come_back(world, flow);
		break;
	default:
		break;
	}
}

/* ---- a world ---- */

static bool is_done(struct world *world)
{
	bool done = true;

	for (unsigned i = 0; i < world->flows; i++) {
		poll_flow(&world->flow[i]);
		done &= world->flow[i].completed == world->flow[i].posted;
	}
	return done;
}

static uint64_t play(uint64_t seed)
{
	static struct world world;
	struct sim *sim = sim_create(seed);
	uint64_t packets;
	vb_time limit;

	playing = seed;
	memset(&world, 0, sizeof(world));
	world.sim = sim;
	world.hosts = 2 + sim_below(sim, MOST_HOSTS - 1);
	for (unsigned i = 0; i < world.hosts; i++)
		world.host[i] = sim_host_add(sim, seed % 2);
	sim->network.filter = is_light;
	sim->network.filter_context = &world;
	change_weather(&world);
	world.flows = 1 + sim_below(sim, MOST_FLOWS);
	for (unsigned i = 0; i < world.flows; i++)
		open_flow(&world, &world.flow[i]);
	for (unsigned step = 0; step < STEPS * chapters; step++) {
		struct flow *flow = &world.flow[sim_below(sim, world.flows)];

		if (chapters > 1)
			begin_again(&world, flow);
		post(&world, flow);
		disturb(&world);
		if (sim_below(sim, 3) == 0)
			sim_run_to(sim, sim->now + VB_MICROSECONDS(sim_below(sim, 200)));
		for (unsigned i = 0; i < world.flows; i++)
			poll_flow(&world.flow[i]);
	}
	/* The sky clears: what is posted ends, this way or that. */
	world.dark_until = 0;
	sim->network.loss = sim->network.duplication = sim->network.reorder = sim->network.corruption = 0;
	limit = sim->now + VB_SECONDS(60);
	while (!is_done(&world)) {
		CHECK(sim->now < limit);
		sim_run_to(sim, sim->now + VB_MILLISECONDS(5));
	}
	for (unsigned i = 0; i < world.flows; i++) {
		struct flow *flow = &world.flow[i];

		for (uint32_t index = 0; index < OPERATIONS; index++)
			check_place(flow, index);
		if (flow->a)
			sim_qp_free(flow->a);
		if (flow->b)
			sim_qp_free(flow->b);
		sim_cq_free(flow->a_cq);
		sim_cq_free(flow->b_cq);
		sim_region_free(&flow->source);
		sim_region_free(&flow->target);
	}
	packets = sim->packets_sent;
	sim_destroy(sim);
	return packets;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"seeds", required_argument, NULL, 'n'},
		{"from", required_argument, NULL, 'f'},
		{"seconds", required_argument, NULL, 's'},
		{"length", required_argument, NULL, 'l'},
		{0},
	};
	uint64_t first = 1, seeds = 60, played = 0, packets = 0;
	double seconds = 1e9;
	struct timespec begun, now;

	for (int option; (option = getopt_long(argc, argv, "n:f:s:l:", options, NULL)) != -1;) {
		if (option == 'n')
			seeds = strtoull(optarg, NULL, 0);
		else if (option == 'f')
			first = strtoull(optarg, NULL, 0);
		else if (option == 's')
			seconds = strtod(optarg, NULL);
		else if (option == 'l')
			chapters = (unsigned)strtoul(optarg, NULL, 0);
		else
			return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		packets += play(first + played++);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (played < seeds && (double)(now.tv_sec - begun.tv_sec) < seconds);
	printf("%llu seeds from %llu, %llu packets\n", (unsigned long long)played, (unsigned long long)first, (unsigned long long)packets);
	return 0;
}
