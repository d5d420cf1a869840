/* SPDX-License-Identifier: MIT
 *
 * The simulator's hosts and what they own: memory, completion queues, queue pairs, and the steps from RESET to RTS.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/network.h"
#include "sim/sim.h"
#include "wire/burst.h"
#include "profiles/profile.h"

enum { MAX_REGIONS = 1024, MAX_WR = 512, MAX_SGE = 8, MAX_INLINE = 256 };

const struct sim_connection sim_usual = {
	.mtu = IBV_MTU_1024,
	.psn_a = 0x123456,
	.psn_b = 0x654321,
	.timeout = 14,
	.retry_cnt = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 12,
	.rd_atomic_a = 4,
	.rd_atomic_b = 4,
	.access = SIM_ALL_ACCESS,
};

struct sim *sim_create(uint64_t seed)
{
	struct sim *sim = calloc(1, sizeof(*sim));

	assert(sim);
	sim->seed = sim->random_state = seed;
	/* A clock that begins at 0 would hide mistakes. */
	sim->now = VB_SECONDS(1000);
	sim->network.latency = VB_MICROSECONDS(5);
	sim->network.service_delay = VB_MICROSECONDS(5);
	sim->network.reorder_delay = VB_MICROSECONDS(50);
	sim->burst = malloc(sizeof(*sim->burst));
	assert(sim->burst);
	vb_list_init(&sim->active);
	/* QPN 0 and 1 are nobody's. */
	sim->qp_count = 2;
	sim->qp_room = 64;
	sim->qps = calloc(sim->qp_room, sizeof(struct vb_qp *));
	assert(sim->qps);
	return sim;
}

/* Packets belong to the event of their arrival. */
static void discard(struct sim *sim, struct sim_event event)
{
	if (event.happen == sim_direct_arrive)
		sim_packet_free(&sim->pool, event.object);
}

void sim_destroy(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->qp_count; i++)
		if (sim->qps[i])
			sim_qp_free(sim->qps[i]);
	while (sim_events_count(&sim->events) > 0)
		discard(sim, sim_events_take(&sim->events));
	sim_events_free(&sim->events);
	for (unsigned i = 0; i < sim->host_count; i++) {
		struct sim_host *host = sim->hosts[i];

		while (host->buffer.first)
			sim_packet_free(&sim->pool, sim_queue_take(&host->buffer));
		vb_memory_destroy(host->memory);
		free(host);
	}
	sim_pool_empty(&sim->pool);
	free(sim->hosts);
	free(sim->qps);
	free(sim->burst);
	free(sim);
}

/* ---- hosts ---- */

static struct sim_host *host_of(const struct vb_queue_host *queue_host)
{
	return vb_container_of(queue_host, struct sim_host, queue_host);
}

static void note_event(struct sim_host *host, enum ibv_event_type event)
{
	if (host->events < SIM_EVENTS)
		host->event[host->events++] = event;
}

static void completion_event(struct vb_cq *cq)
{
	host_of(cq->host)->completion_events++;
}

static void completion_deadline(struct vb_cq *cq, vb_time when)
{
	(void)cq;
	(void)when;
}

static void qp_event(struct vb_qp *qp, enum ibv_event_type event)
{
	note_event(host_of(qp->host), event);
}

static void cq_event(struct vb_cq *cq, enum ibv_event_type event)
{
	note_event(host_of(cq->host), event);
}

static void srq_event(struct vb_srq *srq, enum ibv_event_type event)
{
	note_event(host_of(srq->host), event);
}

struct ah {
	struct ibv_ah public;
	struct vb_ah handle;
};

static const struct vb_ah *address_of(struct ibv_ah *ah)
{
	return &vb_container_of(ah, struct ah, public)->handle;
}

static uint32_t draw(void *context)
{
	return sim_random(context);
}

static int checked_read(void *context, void *to, uint64_t from, size_t length)
{
	(void)context;
	memcpy(to, (const void *)(uintptr_t)from, length);
	return 0;
}

static int checked_write(void *context, uint64_t to, const void *from, size_t length)
{
	(void)context;
	memcpy((void *)(uintptr_t)to, from, length);
	return 0;
}

/* Three bytes of the address are its number. */
static void enter(struct sim *sim, struct sim_host *host)
{
	assert(sim->host_count < (1u << 24) - 2);
	if (sim->host_count == sim->host_room) {
		sim->host_room = sim->host_room ? 2 * sim->host_room : 16;
		sim->hosts = realloc(sim->hosts, sim->host_room * sizeof(struct sim_host *));
		assert(sim->hosts);
	}
	sim->hosts[sim->host_count++] = host;
}

struct sim_host *sim_host_add(struct sim *sim, bool ipv6)
{
	static const uint8_t v4[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 0};
	static const uint8_t v6[16] = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	struct sim_host *host = calloc(1, sizeof(*host));

	assert(host);
	host->sim = sim;
	host->index = sim->host_count;
	enter(sim, host);
	memcpy(host->address, ipv6 ? v6 : v4, 16);
	host->address[13] = (uint8_t)((host->index + 1) >> 16);
	host->address[14] = (uint8_t)((host->index + 1) >> 8);
	host->address[15] = (uint8_t)(host->index + 1);
	host->memory = vb_memory_create(
		&(struct vb_memory_host){
			.random = draw, .checked_read = checked_read, .checked_write = checked_write, .context = sim},
		MAX_REGIONS);
	assert(host->memory);
	host->queue_host = (struct vb_queue_host){
		.profile = &vb_profile_roce,
		.completion_event = completion_event,
		.completion_deadline = completion_deadline,
		.qp_event = qp_event,
		.cq_event = cq_event,
		.srq_event = srq_event,
		.address_of = address_of,
		.random = draw,
		.context = sim,
		.memory = host->memory,
		.counters = &host->counters,
	};
	sim_queue_init(&host->buffer);
	return host;
}

bool sim_host_was_told(const struct sim_host *host, enum ibv_event_type event)
{
	for (unsigned i = 0; i < host->events; i++)
		if (host->event[i] == event)
			return true;
	return false;
}

struct vb_cq *sim_cq(struct sim_host *host, uint32_t capacity)
{
	struct vb_cq *cq = calloc(1, sizeof(*cq));
	int rc;

	assert(cq);
	rc = vb_cq_init(cq, &host->queue_host, NULL, capacity);
	assert(rc == 0);
	return cq;
}

void sim_cq_free(struct vb_cq *cq)
{
	vb_cq_fini(cq);
	free(cq);
}

struct vb_srq *sim_srq(struct sim_host *host, uint32_t max_wr)
{
	struct vb_srq *srq = calloc(1, sizeof(*srq));
	struct ibv_srq_attr attr = {.max_wr = max_wr, .max_sge = 4};
	int rc;

	assert(srq);
	rc = vb_srq_init(srq, &host->queue_host, NULL, &host->pd, &attr);
	assert(rc == 0);
	return srq;
}

void sim_srq_free(struct vb_srq *srq)
{
	vb_srq_fini(srq);
	free(srq);
}

struct sim_region sim_region(struct sim_host *host, size_t length, unsigned access)
{
	struct sim_region region = {.host = host, .length = length};
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &host->pd, .length = length, .access = access};
	int rc;

	region.bytes = aligned_alloc(64, (length + 63) / 64 * 64 + 64);
	assert(region.bytes);
	memset(region.bytes, 0, length);
	info.start = info.iova = (uintptr_t)region.bytes;
	rc = vb_region_register(host->memory, &info, &region.key);
	assert(rc == 0);
	return region;
}

void sim_region_free(struct sim_region *region)
{
	vb_region_deregister(region->host->memory, region->key);
	free(region->bytes);
	region->bytes = NULL;
}

uint32_t sim_null_region(struct sim_host *host)
{
	struct vb_region_info info = {
		.kind = VB_REGION_NULL_MR,
		.pd = &host->pd,
		.length = UINT64_MAX,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	uint32_t key;
	int rc = vb_region_register(host->memory, &info, &key);

	assert(rc == 0);
	return key;
}

/* ---- queue pairs ---- */

static struct vb_qp *make_qp(struct sim_host *host, struct vb_qp_config *config)
{
	struct sim *sim = host->sim;
	struct vb_qp *qp;
	int rc;

	config->qpn = sim->qp_count;
	if (sim->qp_count == sim->qp_room) {
		sim->qp_room *= 2;
		sim->qps = realloc(sim->qps, sim->qp_room * sizeof(struct vb_qp *));
		assert(sim->qps);
	}
	rc = vb_qp_create(config, &host->queue_host, &vb_roce_transport, NULL, &qp);
	assert(rc == 0);
	sim->qps[sim->qp_count++] = qp;
	return qp;
}

struct vb_qp *sim_qp(struct sim_host *host, enum ibv_qp_type type, struct vb_cq *send_cq, struct vb_cq *recv_cq,
		     struct vb_srq *srq)
{
	struct vb_qp_config config = {
		.type = type,
		.pd = &host->pd,
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.srq = srq,
		.cap = {MAX_WR, MAX_WR, MAX_SGE, MAX_SGE, MAX_INLINE},
	};

	if (host->sim->work_requests)
		config.cap = (struct ibv_qp_cap){host->sim->work_requests, 0, 1, 0, 0};
	return make_qp(host, &config);
}

struct vb_qp *sim_xrc_receiver(struct sim_host *host, struct vb_xrc_domain *domain)
{
	return make_qp(host, &(struct vb_qp_config){.type = IBV_QPT_XRC_RECV, .xrc_domain = domain});
}

void sim_qp_free(struct vb_qp *qp)
{
	host_of(qp->host)->sim->qps[qp->qpn] = NULL;
	vb_list_remove(&qp->active);
	vb_qp_destroy(qp);
}

static int modify(struct vb_qp *qp, struct ibv_qp_attr *attr, int mask, const struct vb_path *path)
{
	int rc = vb_qp_modify(qp, attr, mask, path, IBV_MTU_4096, host_of(qp->host)->sim->now);

	if (rc == 0)
		sim_touch(qp);
	return rc;
}

int sim_modify_state(struct vb_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .en_sqd_async_notify = 1};

	return modify(qp, &attr, IBV_QP_STATE | (state == IBV_QPS_SQD ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0), NULL);
}

int sim_to_init(struct vb_qp *qp, unsigned access)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};

	return modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, NULL);
}

static struct vb_path path_to(const struct sim_host *from, const struct sim_host *to, uint32_t port)
{
	struct vb_path path = {.source_port = (uint16_t)(0xc000 | (port & 0x3fff)), .hop_limit = 64};

	memcpy(path.source, from->address, 16);
	memcpy(path.destination, to->address, 16);
	return path;
}

int sim_to_rtr(struct vb_qp *qp, const struct vb_qp *peer, const struct sim_connection *connection, uint32_t rq_psn,
	       uint8_t dest_rd_atomic)
{
	struct vb_path path = path_to(host_of(qp->host), host_of(peer->host), qp->qpn);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = connection->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = rq_psn,
		.max_dest_rd_atomic = dest_rd_atomic,
		.min_rnr_timer = connection->min_rnr_timer,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return modify(qp, &attr, mask, &path);
}

int sim_to_rts(struct vb_qp *qp, const struct sim_connection *connection, uint32_t sq_psn, uint8_t rd_atomic)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = sq_psn,
		.timeout = connection->timeout,
		.retry_cnt = connection->retry_cnt,
		.rnr_retry = connection->rnr_retry,
		.max_rd_atomic = rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_TIMEOUT;
	else if (qp->type != IBV_QPT_UC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return modify(qp, &attr, mask, NULL);
}

static void must(int rc)
{
	if (rc != 0) {
		fprintf(stderr, "sim: modify failed: %d\n", rc);
		abort();
	}
}

void sim_connect(struct vb_qp *a, struct vb_qp *b, const struct sim_connection *connection)
{
	unsigned access = connection->access & ~(unsigned)IBV_ACCESS_MW_BIND;

	must(sim_to_init(a, access));
	must(sim_to_init(b, access));
	must(sim_to_rtr(a, b, connection, connection->psn_b, connection->rd_atomic_a));
	must(sim_to_rtr(b, a, connection, connection->psn_a, connection->rd_atomic_b));
	must(sim_to_rts(a, connection, connection->psn_a, connection->rd_atomic_b));
	must(sim_to_rts(b, connection, connection->psn_b, connection->rd_atomic_a));
}

void sim_open_datagram(struct vb_qp *qp, uint32_t qkey, enum ibv_mtu mtu)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey, .sq_psn = 0xfffff0};
	vb_time now = host_of(qp->host)->sim->now;

	must(vb_qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, NULL, mtu, now));
	attr.qp_state = IBV_QPS_RTR;
	must(vb_qp_modify(qp, &attr, IBV_QP_STATE, NULL, mtu, now));
	attr.qp_state = IBV_QPS_RTS;
	must(vb_qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN, NULL, mtu, now));
}

struct ibv_ah *sim_ah(struct sim_host *host, const struct sim_host *to)
{
	struct ah *ah = calloc(1, sizeof(*ah));

	assert(ah);
	ah->handle.pd = &host->pd;
	ah->handle.path = path_to(host, to, 1);
	return &ah->public;
}

void sim_ah_free(struct ibv_ah *ah)
{
	free(vb_container_of(ah, struct ah, public));
}

/* ---- work ---- */

int sim_post_send(struct vb_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int rc;

	vb_lock_take(&qp->lock);
	rc = vb_qp_post_send(qp, wr, &bad, host_of(qp->host)->sim->now);
	vb_lock_release(&qp->lock);
	sim_touch(qp);
	return rc;
}

int sim_post_receive(struct vb_qp *qp, void *bytes, uint32_t length, uint32_t key, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)bytes, length, key};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
	int rc;

	if (qp->srq)
		return vb_srq_post(qp->srq, &wr, &bad);
	vb_lock_take(&qp->lock);
	rc = vb_qp_post_receive(qp, &wr, &bad, host_of(qp->host)->sim->now);
	vb_lock_release(&qp->lock);
	return rc;
}

bool sim_poll(struct vb_cq *cq, struct ibv_wc *wc)
{
	return vb_cq_poll(cq, 1, wc) == 1;
}
