/* SPDX-License-Identifier: MIT
 *
 * Flows: see flow.h. A flow's queue pair comes when it begins and goes when it ends.
 */
#include "sim/flow.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

enum { AHEAD = 2, COMPLETIONS = 16 };

/* Nothing is ever read there: packets have no payload. */
static const uint64_t source_address = 1u << 20;

static const struct sim_connection connection = {
	.psn_a = 0x1000,
	.psn_b = 0x2000,
	.timeout = 0, /* never gives up */
	.retry_cnt = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 12,
	.rd_atomic_a = 1,
	.rd_atomic_b = 1,
	.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE,
};

struct sim_flows *sim_flows_new(struct sim *sim)
{
	struct sim_flows *flows = calloc(1, sizeof(*flows));

	assert(flows);
	flows->sim = sim;
	flows->mtu = IBV_MTU_1024;
	return flows;
}

struct sim_flow *sim_flows_add(struct sim_flows *flows, const struct sim_flow *flow)
{
	if (flows->count == flows->room) {
		flows->room = flows->room ? 2 * flows->room : 64;
		flows->flow = realloc(flows->flow, flows->room * sizeof(*flows->flow));
		assert(flows->flow);
	}
	flows->flow[flows->count] = *flow;
	flows->flow[flows->count].of = flows;
	return &flows->flow[flows->count++];
}

static void close_flow(struct sim_flow *flow)
{
	if (!flow->sender)
		return;
	sim_qp_free(flow->sender);
	sim_qp_free(flow->receiver);
	sim_cq_free(flow->cq);
	flow->sender = flow->receiver = NULL;
	flow->cq = NULL;
}

void sim_flows_free(struct sim_flows *flows)
{
	for (unsigned i = 0; i < flows->count; i++)
		close_flow(&flows->flow[i]);
	free(flows->source);
	free(flows->target);
	free(flows->flow);
	free(flows);
}

static void post(struct sim_flow *flow)
{
	struct sim_flows *flows = flow->of;
	uint64_t left = flow->size ? flow->size - flow->posted : UINT64_MAX;
	struct ibv_sge sge = {source_address, (uint32_t)(left < flow->message ? left : flow->message), flows->source[flow->from]};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	int rc;

	wr.wr.rdma.rkey = flows->target[flow->to];
	rc = sim_post_send(flow->sender, &wr);
	assert(rc == 0);
	flow->posted += sge.length;
	flow->under_way++;
}

static void fill(struct sim_flow *flow)
{
	while (flow->under_way < AHEAD && (flow->size == 0 || flow->posted < flow->size))
		post(flow);
}

/* Called between two events, never from within the engine. */
static void progress(struct sim *sim, struct vb_qp *qp)
{
	struct sim_flow *flow = qp->owner;
	struct ibv_wc wc;

	if (!flow || qp != flow->sender)
		return;
	while (sim_poll(flow->cq, &wc)) {
		flow->failed |= wc.status != IBV_WC_SUCCESS;
		flow->under_way--;
		flow->messages++;
	}
	if (flow->failed) {
		flow->of->failed++;
		close_flow(flow);
	} else if (flow->size != 0 && flow->posted == flow->size && flow->under_way == 0) {
		flow->delivered = flow->size;
		flow->ended = sim->now;
		flow->of->finished++;
		close_flow(flow);
	} else {
		fill(flow);
	}
}

static void begin(struct sim *sim, void *object, vb_time when)
{
	struct sim_flow *flow = object;
	struct sim_host *from = sim->hosts[flow->from], *to = sim->hosts[flow->to];
	struct sim_connection chosen = connection;

	chosen.mtu = (enum ibv_mtu)flow->of->mtu;
	flow->began = when;
	flow->cq = sim_cq(from, COMPLETIONS);
	flow->sender = sim_qp(from, IBV_QPT_RC, flow->cq, flow->cq, NULL);
	flow->receiver = sim_qp(to, IBV_QPT_RC, flow->cq, flow->cq, NULL);
	flow->sender->owner = flow->receiver->owner = flow;
	sim_connect(flow->sender, flow->receiver, &chosen);
	flow->first_psn = chosen.psn_a;
	fill(flow);
}

static uint32_t source_key(struct sim_host *host)
{
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &host->pd, .start = source_address, .iova = source_address,
				      .length = 1u << 30};
	uint32_t key;
	int rc = vb_region_register(host->memory, &info, &key);

	assert(rc == 0);
	return key;
}

void sim_flows_start(struct sim_flows *flows)
{
	struct sim *sim = flows->sim;

	sim->progressed = progress;
	flows->origin = sim->now;
	flows->source = calloc(sim->host_count, sizeof(uint32_t));
	flows->target = calloc(sim->host_count, sizeof(uint32_t));
	assert(flows->source && flows->target);
	for (unsigned i = 0; i < flows->count; i++) {
		struct sim_flow *flow = &flows->flow[i];

		if (!flows->source[flow->from])
			flows->source[flow->from] = source_key(sim->hosts[flow->from]);
		if (!flows->target[flow->to])
			flows->target[flow->to] = sim_null_region(sim->hosts[flow->to]);
		sim_events_plan(&sim->events, sim->now + flow->starts, begin, flow);
	}
}

uint64_t sim_flow_delivered(struct sim_flow *flow)
{
	struct vb_transport_status status;
	uint32_t mtu = 128u << flow->of->mtu, before = flow->first_psn + (uint32_t)(flow->delivered / mtu);
	int32_t more;

	if (!flow->receiver)
		return flow->delivered;
	vb_roce_query(flow->receiver, &status);
	/* Messages are whole multiples of the MTU but for the last. Go-back-0 takes back what it has, which does not count until it is
	 * more than before. */
	more = psn_distance(psn_of(status.expected), psn_of(before));
	if (more > 0)
		flow->delivered += (uint32_t)more * (uint64_t)mtu;
	if (flow->size != 0 && flow->delivered > flow->size)
		flow->delivered = flow->size;
	return flow->delivered;
}

uint64_t sim_flow_rate(const struct sim_flow *flow)
{
	struct vb_transport_status status;

	if (!flow->sender)
		return 0;
	vb_roce_query(flow->sender, &status);
	return status.rate;
}
