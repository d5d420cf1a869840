/* SPDX-License-Identifier: MIT
 *
 * See pair.h. The queue pair's transport is ours (through memory) or the wire engine's, whose packets are handed over at once.
 */
#include "pair.h"
#include "pair_stream.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "profiles/profile.h"
#include "wire/burst.h"

enum { REGIONS = 4096, CQ_CAPACITY = 1 << 14, MAX_DATAGRAM = 8192, STEPS = 1 << 17 };

const struct connection usual = {
	.timeout = 14,
	.retry_cnt = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 12,
	.max_rd_atomic = 4,
	.max_dest_rd_atomic = 4,
	.access = PAIR_ACCESS,
	.mtu = {IBV_MTU_1024, IBV_MTU_1024},
	.psn = {0x123456, 0xfffffe},
};

uint32_t pair_random(struct process *p)
{
	uint64_t z = p->seed += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ z >> 31) >> 32);
}

static uint32_t draw(void *context)
{
	return pair_random(context);
}

/* ---- what is told ---- */

static struct process *process_of(const struct vb_queue_host *host)
{
	return host->context;
}

static void note_event(struct process *p, enum ibv_event_type event)
{
	assert_true(p->events < PAIR_EVENTS);
	p->event[p->events++] = event;
}

static void qp_event(struct vb_qp *qp, enum ibv_event_type event)
{
	note_event(process_of(qp->host), event);
}

static void cq_event(struct vb_cq *cq, enum ibv_event_type event)
{
	note_event(process_of(cq->host), event);
}

static void srq_event(struct vb_srq *srq, enum ibv_event_type event)
{
	note_event(process_of(srq->host), event);
}

static void ignore_completion(struct vb_cq *cq)
{
	(void)cq;
}

static void ignore_deadline(struct vb_cq *cq, vb_time when)
{
	(void)cq;
	(void)when;
}

bool pair_was_told(const struct process *p, enum ibv_event_type event)
{
	for (unsigned i = 0; i < p->events; i++)
		if (p->event[i] == event)
			return true;
	return false;
}

/* ---- memory ---- */

static bool is_mapped(const struct process *p, uint64_t address, uint64_t length)
{
	uint64_t base = (uintptr_t)p->arena;

	if (address < base || address - base > ARENA || length > ARENA - (address - base))
		return false;
	return length == 0 || address >= p->hole_end || address + length <= p->hole_start;
}

static int checked_read(void *context, void *to, uint64_t from, size_t length)
{
	if (!is_mapped(context, from, length))
		return -EFAULT;
	memcpy(to, (const void *)(uintptr_t)from, length);
	return 0;
}

static int checked_write(void *context, uint64_t to, const void *from, size_t length)
{
	if (!is_mapped(context, to, length))
		return -EFAULT;
	memcpy((void *)(uintptr_t)to, from, length);
	return 0;
}

static void *give_chunk(void *context, uint32_t index, size_t bytes)
{
	struct process *p = context;

	return vb_foreign_chunk(p->segment->table[PAIR_TABLE], VB_SEGMENT_TABLE_BYTES, index, bytes);
}

static bool is_copying(void *context, uint32_t key)
{
	struct process *p = context;

	return vb_local_is_copying(&p->peer, p->slot, PAIR_TABLE, key);
}

static void register_memory(struct process *p)
{
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &p->pd, .start = (uintptr_t)p->arena, .length = ARENA,
				      .iova = (uintptr_t)p->arena, .access = PAIR_ACCESS};

	assert_int_equal(vb_region_register(p->memory, &info, &p->key), 0);
	info.checked = true;
	assert_int_equal(vb_region_register(p->memory, &info, &p->demand_key), 0);
	info = (struct vb_region_info){.kind = VB_REGION_NULL_MR, .pd = &p->pd, .length = UINT64_MAX, .access = PAIR_ACCESS};
	assert_int_equal(vb_region_register(p->memory, &info, &p->null_key), 0);
}

/* ---- the engine's host ---- */

static struct process *seer_of(struct vb_local_peer *peer)
{
	return vb_container_of(peer, struct process, peer);
}

/* One after the other, in two halves each if it dawdles. */
static void place(const struct process *p, uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t half = p->dawdles ? bytes / 2 : 0;

	vb_hold_place(to, from, half);
	if (half > 0)
		sched_yield();
	vb_hold_place(to + half, from + half, bytes - half);
}

static int transfer(struct process *p, const struct iovec *ours, unsigned count, const struct vb_record_piece *theirs, unsigned pieces,
		    bool reads)
{
	unsigned at = 0;
	size_t filled = 0;

	__atomic_fetch_add(reads ? &p->reads : &p->writes, 1, __ATOMIC_RELAXED);
	if (p->copy_result != 0)
		return p->copy_result;
	for (unsigned i = 0; i < pieces; i++) {
		uint8_t *far_side = (uint8_t *)(uintptr_t)theirs[i].address;

		if (!is_mapped(p->other, theirs[i].address, theirs[i].length))
			return -EFAULT;
		for (uint64_t done = 0; done < theirs[i].length;) {
			uint8_t *near_side = (uint8_t *)ours[at].iov_base + filled;
			size_t room = ours[at].iov_len - filled, bytes = theirs[i].length - done < room ? theirs[i].length - done : room;

			assert_true(at < count);
			if (reads)
				memcpy(near_side, far_side + done, bytes);
			else
				place(p, far_side + done, near_side, bytes);
			done += bytes;
			filled += bytes;
			if (filled == ours[at].iov_len) {
				at++;
				filled = 0;
			}
		}
	}
	assert_int_equal(at, count);
	return 0;
}

static int host_write(struct vb_local_peer *peer, const struct iovec *ours, unsigned count, const struct vb_record_piece *theirs,
		      unsigned pieces)
{
	return transfer(seer_of(peer), ours, count, theirs, pieces, false);
}

static int host_read(struct vb_local_peer *peer, const struct iovec *ours, unsigned count, const struct vb_record_piece *theirs,
		     unsigned pieces)
{
	return transfer(seer_of(peer), ours, count, theirs, pieces, true);
}

static void *host_shared(struct vb_local_peer *peer, uint32_t table, uint32_t key, uint64_t generation, uint64_t region_start,
			 uint64_t region_length, uint64_t address, uint64_t length)
{
	struct process *p = seer_of(peer);

	assert_int_equal(table, PAIR_TABLE);
	assert_true(generation > 0);
	assert_true(vb_local_is_copying(&p->other->peer, p->other->slot, table, key));
	assert_true(address >= region_start && address - region_start <= region_length &&
		    length <= region_length - (address - region_start));
	if (!p->shares_memory || !is_mapped(p->other, region_start, region_length))
		return NULL;
	p->shares++;
	return (void *)(uintptr_t)address;
}

static void host_wake(struct vb_local_peer *peer)
{
	__atomic_fetch_add(&seer_of(peer)->wakes, 1, __ATOMIC_RELAXED);
}

static void host_pause(struct vb_local_peer *peer)
{
	struct process *p = seer_of(peer);

	p->pauses++;
	if (p->pause > 0)
		nanosleep(&(struct timespec){.tv_nsec = p->pause}, NULL);
}

static const struct vb_local_host local_host = {
	.write = host_write,
	.read = host_read,
	.shared = host_shared,
	.wake = host_wake,
	.pause = host_pause,
};

/* ---- the transport through memory ---- */

static void modified(struct vb_qp *qp, enum ibv_qp_state from, int mask, vb_time now)
{
	struct process *p = process_of(qp->host);

	(void)mask;
	if (qp->state == IBV_QPS_RESET) {
		if (from != IBV_QPS_RESET)
			vb_local_detach(qp, p->segment, p->local);
		p->local = NULL;
	} else if (qp->state == IBV_QPS_RTR && from == IBV_QPS_INIT) {
		assert_int_equal(vb_local_attach(qp, p->segment, p->slot, PAIR_TABLE, &p->peer, now, &p->local), 0);
	} else {
		vb_local_modified(qp, p->local, now);
	}
}

static void detach(struct vb_qp *qp)
{
	struct process *p = process_of(qp->host);

	/* As the caller of destroy must: nobody else has it any more. */
	vb_lock_take(&qp->lock);
	if (p->local)
		vb_local_detach(qp, p->segment, p->local);
	vb_lock_release(&qp->lock);
	p->local = NULL;
}

static void srq_gone(struct vb_qp *qp, const struct vb_srq *srq)
{
	struct process *p = process_of(qp->host);

	if (p->local)
		vb_local_srq_gone(qp, p->local, srq);
}

static const struct vb_transport memory_transport = {
	.note_size = VB_LOCAL_NOTE_SIZE,
	.name = "memory",
	.detach = detach,
	.modified = modified,
	.srq_gone = srq_gone,
};

/* ---- XRC ---- */

uint32_t pair_srqn(const struct process *p, unsigned index)
{
	return p->slot << 14 | (PAIR_SRQ_INDEX + index);
}

static void open_domains(struct process *p)
{
	struct ibv_srq_attr attr = {.max_wr = PAIR_MAX_WR, .max_sge = 4};

	for (unsigned i = 0; i < 2; i++) {
		vb_xrc_domain_init(&p->domain[i]);
		p->domain[i].handle = 7 + i;
	}
	for (unsigned i = 0; i < PAIR_SRQS; i++) {
		struct vb_pd *pd = i == 1 ? &p->other_pd : &p->pd;

		p->srqs[i] = i == 0 ? &p->srq : &p->others[i];
		if (i > 0)
			assert_int_equal(vb_srq_init(p->srqs[i], &p->queue_host, NULL, pd, &attr), 0);
		vb_xrc_add_srq(&p->domain[i / 2], p->srqs[i], &p->recv_cq, pair_srqn(p, i));
		vb_local_show_srq(p->segment, pair_srqn(p, i), PAIR_TABLE, p->domain[i / 2].handle, pd->handle);
	}
}

void pair_drop_srq(struct process *p, unsigned index)
{
	vb_local_hide_srq(p->segment, pair_srqn(p, index));
	vb_xrc_remove_srq(p->srqs[index]);
	if (index > 0)
		vb_srq_fini(p->srqs[index]);
	p->srqs[index] = NULL;
}

static void close_domains(struct process *p)
{
	for (unsigned i = 0; i < PAIR_SRQS; i++)
		if (p->srqs[i])
			pair_drop_srq(p, i);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(p->domain[i].users, 0);
		vb_xrc_domain_fini(&p->domain[i]);
	}
}

static struct vb_qp_config xrc_config(struct process *p, struct vb_qp_config config)
{
	config.type = p->index == 0 ? IBV_QPT_XRC_SEND : IBV_QPT_XRC_RECV;
	config.recv_cq = NULL;
	config.srq = NULL;
	if (p->index == 0)
		return config;
	config.pd = NULL;
	config.send_cq = NULL;
	config.xrc_domain = &p->domain[0];
	return config;
}

/* ---- opening ---- */

static void open_process(struct pair *pair, unsigned index, const struct pair_options *options)
{
	struct process *p = &pair->process[index];
	struct vb_memory_host memory_host = {draw, checked_read, checked_write, p, give_chunk, is_copying, NULL};
	struct ibv_srq_attr srq = {.max_wr = PAIR_MAX_WR, .max_sge = 4};

	p->pair = pair;
	p->index = index;
	p->other = &pair->process[1 - index];
	p->slot = index + 1;
	p->seed = 1000 + index;
	p->segment = mmap(NULL, sizeof(*p->segment), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(p->segment != MAP_FAILED);
	p->segment->header.magic = VB_SEGMENT_MAGIC;
	p->segment->qp_index[PAIR_QPN_INDEX] = 1 + PAIR_QP_INDEX;
	p->segment->header.id = (uint64_t)pair_random(p) << 32 | pair_random(p);
	p->memory = vb_memory_create(&memory_host, REGIONS);
	assert_non_null(p->memory);
	vb_foreign_publish(p->memory, p->segment->table[PAIR_TABLE]);
	p->arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(p->arena != MAP_FAILED);
	p->pd.handle = 10 + index;
	p->other_pd.handle = 20 + index;
	register_memory(p);
	p->queue_host = (struct vb_queue_host){
		.profile = pair_is_stream(pair) ? &vb_profile_iwarp : &vb_profile_roce,
		.completion_event = ignore_completion,
		.completion_deadline = ignore_deadline,
		.qp_event = qp_event,
		.cq_event = cq_event,
		.srq_event = srq_event,
		.random = draw,
		.context = p,
		.memory = p->memory,
		.counters = &p->counters,
	};
	assert_int_equal(vb_cq_init(&p->send_cq, &p->queue_host, NULL, options->cq_capacity ? options->cq_capacity : CQ_CAPACITY), 0);
	assert_int_equal(vb_cq_init(&p->recv_cq, &p->queue_host, NULL, options->cq_capacity ? options->cq_capacity : CQ_CAPACITY), 0);
	assert_int_equal(vb_srq_init(&p->srq, &p->queue_host, NULL, &p->pd, &srq), 0);
	if (options->xrc && index == 1)
		open_domains(p);
}

static const struct vb_transport *const transports[] = {
	[BY_MEMORY] = &memory_transport,
	[BY_WIRE] = &vb_roce_transport,
	[BY_STREAM] = &vb_iwarp_transport,
	[BY_BYPASS] = &pair_bypass_transport,
};

static void create_qp(struct pair *pair, unsigned index, const struct pair_options *options)
{
	struct process *p = &pair->process[index];
	struct vb_qp_config config = {
		.type = options->unreliable ? IBV_QPT_UC : IBV_QPT_RC,
		.pd = &p->pd,
		.send_cq = &p->send_cq,
		.recv_cq = &p->recv_cq,
		.srq = options->with_srq ? &p->srq : NULL,
		.cap = {.max_send_wr = PAIR_MAX_WR, .max_recv_wr = PAIR_MAX_WR, .max_send_sge = VB_MAX_SGE, .max_recv_sge = VB_MAX_SGE,
			.max_inline_data = options->max_inline ? options->max_inline : 256},
		.signal_all = options->signal_all,
		.qpn = p->slot << 14 | PAIR_QPN_INDEX,
	};

	if (options->xrc)
		config = xrc_config(p, config);
	p->peer = (struct vb_local_peer){.segment = p->other->segment, .host = &local_host, .mappings = &p->mappings,
					  .slot = p->other->slot};
	assert_int_equal(vb_qp_create(&config, &p->queue_host, transports[pair->carrier], NULL, &p->qp), 0);
}

void pair_open(struct pair *pair, enum carrier carrier, const struct pair_options *options)
{
	static const struct pair_options none;

	memset(pair, 0, sizeof(*pair));
	pair->carrier = carrier;
	pair->now = VB_SECONDS(1000);
	pair->connection[0] = pair->connection[1] = 0x6a09e667f3bcc908;
	pair_stream_open();
	options = options ? options : &none;
	pair->with_srq = options->with_srq || options->xrc;
	pair->xrc = options->xrc;
	pair->unreliable = options->unreliable;
	pair->burst = malloc(sizeof(*pair->burst));
	pair->out = calloc(1, sizeof(*pair->out));
	assert_true(pair->burst && pair->out);
	for (unsigned i = 0; i < 2; i++)
		open_process(pair, i, options);
	for (unsigned i = 0; i < 2; i++)
		create_qp(pair, i, options);
}

void pair_close(struct pair *pair)
{
	for (unsigned i = 0; i < 2; i++)
		vb_qp_destroy(pair->process[i].qp);
	for (unsigned i = 0; i < 2; i++) {
		struct process *p = &pair->process[i];

		for (unsigned k = 0; k < VB_SEGMENT_COPIES; k++)
			assert_true(p->segment->header.copying[k] == 0);
		if (pair->xrc && i == 1)
			close_domains(p);
		vb_srq_fini(&p->srq);
		vb_cq_fini(&p->send_cq);
		vb_cq_fini(&p->recv_cq);
		vb_memory_destroy(p->memory);
		munmap(p->arena, ARENA);
		munmap(p->segment, sizeof(*p->segment));
		free(p->rest);
	}
	free(pair->burst);
	free(pair->out);
}

/* ---- states ---- */

/* XRC: what only the other half has is none of its business. */
static int mask_for(const struct process *p, int mask)
{
	return p->qp->type == IBV_QPT_XRC_SEND ? mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) :
	       p->qp->type == IBV_QPT_XRC_RECV ? mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY) :
						 mask;
}

static int modify(struct process *p, struct ibv_qp_attr *attr, int mask)
{
	struct vb_path path = {.source_port = 49152, .hop_limit = 64};

	/* Everybody is 10.0.0.(index + 1) to the wire engine. */
	memcpy(path.source, (uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(p->index + 1)}, 16);
	memcpy(path.destination, (uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(2 - p->index)}, 16);
	return vb_qp_modify(p->qp, attr, mask_for(p, mask), &path, IBV_MTU_4096, p->pair->now);
}

void pair_to_init(struct process *p, const struct connection *c)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = c->access};

	assert_int_equal(modify(p, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
}

void pair_to_rtr(struct process *p, const struct connection *c)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = c->mtu[p->index],
		.dest_qp_num = p->other->qp->qpn,
		.rq_psn = c->psn[1 - p->index] + (p->index ? c->wrong_psn : 0),
		.max_dest_rd_atomic = c->max_dest_rd_atomic,
		.min_rnr_timer = c->min_rnr_timer,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	assert_int_equal(modify(p, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				(p->pair->unreliable ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)), 0);
}

void pair_to_rts(struct process *p, const struct connection *c)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = c->psn[p->index],
		.timeout = c->timeout,
		.retry_cnt = c->retry_cnt,
		.rnr_retry = c->rnr_retry,
		.max_rd_atomic = c->max_rd_atomic,
	};

	assert_int_equal(modify(p, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN |
				(p->pair->unreliable ? 0 : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				 IBV_QP_MAX_QP_RD_ATOMIC)), 0);
}

int pair_to(struct process *p, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .en_sqd_async_notify = 1};

	return modify(p, &attr, IBV_QP_STATE | (state == IBV_QPS_SQD ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0));
}

void pair_connect(struct pair *pair, const struct connection *c)
{
	if (pair_is_stream(pair)) {
		pair_stream_connect(pair, c);
		return;
	}
	for (unsigned i = 0; i < 2; i++)
		pair_to_init(&pair->process[i], c);
	for (unsigned i = 0; i < 2; i++)
		pair_to_rtr(&pair->process[i], c);
	for (unsigned i = 0; i < 2; i++)
		pair_to_rts(&pair->process[i], c);
	pair_settle(pair);
}

/* ---- running ---- */

static void deliver(struct pair *pair)
{
	static uint8_t bytes[MAX_DATAGRAM];
	const struct vb_burst *burst = pair->burst;

	for (uint32_t r = 0; r < burst->runs; r++)
		for (uint32_t i = 0; i < burst->run[r].packets; i++) {
			size_t length = vb_burst_flatten(burst, r, i, bytes, sizeof(bytes));
			struct vb_roce_packet packet;
			struct vb_qp *to;

			assert_int_equal(vb_roce_packet_decode(&packet, bytes, length, &burst->run[r].path, true, 0), VB_PACKET_OK);
			to = pair->process[packet.destination_qpn >> 14 == 2].qp;
			vb_lock_take(&to->lock);
			vb_roce_receive(to, pair->now, &packet);
			vb_lock_release(&to->lock);
		}
}

static bool serve_wire(struct process *p)
{
	struct pair *pair = p->pair;
	bool more;

	vb_lock_take(&p->qp->lock);
	vb_burst_reset(pair->burst);
	if (vb_roce_next_deadline(p->qp) <= pair->now)
		vb_roce_expire(p->qp, pair->now);
	more = vb_roce_send(p->qp, pair->now, pair->burst);
	vb_lock_release(&p->qp->lock);
	more |= pair->burst->packets > 0;
	deliver(pair);
	return more;
}

bool pair_serve(struct process *p)
{
	bool did = false, more = false;

	if (pair_is_stream(p->pair))
		return pair_stream_serve(p);
	if (p->pair->carrier == BY_WIRE)
		return serve_wire(p);
	vb_lock_take(&p->qp->lock);
	if (p->local)
		did = vb_local_serve(p->qp, p->local, p->pair->now, false, &more);
	vb_lock_release(&p->qp->lock);
	return did || more;
}

static vb_time deadline_of(struct process *p)
{
	vb_time deadline = VB_TIME_NEVER;

	vb_lock_take(&p->qp->lock);
	if (pair_is_stream(p->pair))
		deadline = vb_iwarp_next_deadline(p->qp);
	else if (p->pair->carrier == BY_WIRE)
		deadline = vb_roce_next_deadline(p->qp);
	else if (p->local)
		deadline = vb_local_next_deadline(p->local);
	vb_lock_release(&p->qp->lock);
	return deadline;
}

void pair_settle(struct pair *pair)
{
	unsigned steps = 0;
	bool busy;

	do {
		busy = pair_serve(&pair->process[0]);
		busy |= pair_serve(&pair->process[1]);
		assert_true(++steps < STEPS);
	} while (busy);
	/* Nothing to do means that nothing says otherwise: or whoever sleeps by that would spin. */
	for (unsigned i = 0; i < 2 && pair->carrier == BY_MEMORY; i++)
		if (pair->process[i].local)
			assert_false(vb_local_has_work(pair->process[i].local));
}

void pair_run(struct pair *pair, vb_time until)
{
	for (unsigned steps = 0;; steps++) {
		vb_time next;

		pair_settle(pair);
		next = vb_time_earlier(deadline_of(&pair->process[0]), deadline_of(&pair->process[1]));
		if (next == VB_TIME_NEVER || next > until)
			break;
		if (next > pair->now)
			pair->now = next;
		if (steps == STEPS)
			fail_msg("time does not end: carrier %d, now %lld, deadlines %lld %lld, states %d %d", pair->carrier,
				 (long long)pair->now, (long long)deadline_of(&pair->process[0]),
				 (long long)deadline_of(&pair->process[1]), pair->process[0].qp->state,
				 pair->process[1].qp->state);
	}
	if (until != VB_TIME_NEVER && pair->now < until)
		pair->now = until;
}

/* ---- work ---- */

int pair_post(struct process *p, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int rc;

	for (struct ibv_send_wr *each = wr; p->pair->xrc && each; each = each->next)
		if (each->qp_type.xrc.remote_srqn == 0)
			each->qp_type.xrc.remote_srqn = pair_srqn(p->other, 0);
	vb_lock_take(&p->qp->lock);
	rc = vb_qp_post_send(p->qp, wr, &bad, p->pair->now);
	vb_lock_release(&p->qp->lock);
	return rc;
}

int pair_post_receive(struct process *p, struct ibv_sge *list, int count, uint64_t wr_id)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = list, .num_sge = count}, *bad;
	int rc;

	if (p->pair->with_srq)
		return vb_srq_post(&p->srq, &wr, &bad);
	vb_lock_take(&p->qp->lock);
	rc = vb_qp_post_receive(p->qp, &wr, &bad, p->pair->now);
	vb_lock_release(&p->qp->lock);
	return rc;
}

struct ibv_sge pair_sge(struct process *p, uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){.addr = (uintptr_t)p->arena + offset, .length = length, .lkey = p->key};
}

int pair_receive(struct process *p, uint32_t offset, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = pair_sge(p, offset, length);

	return pair_post_receive(p, &sge, 1, wr_id);
}

int pair_send(struct process *p, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length, uint32_t remote_offset,
	      uint64_t wr_id, unsigned flags)
{
	struct ibv_sge sge = pair_sge(p, offset, length);
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags};

	wr.imm_data = htobe32(0x11220000 + (uint32_t)wr_id);
	wr.wr.rdma.remote_addr = (uintptr_t)p->other->arena + remote_offset;
	wr.wr.rdma.rkey = p->other->key;
	return pair_post(p, &wr);
}

int pair_atomic(struct process *p, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t remote_offset, uint64_t compare_add,
		uint64_t swap, uint64_t wr_id)
{
	struct ibv_sge sge = pair_sge(p, offset, 8);
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

	wr.wr.atomic.remote_addr = (uintptr_t)p->other->arena + remote_offset;
	wr.wr.atomic.rkey = p->other->key;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	return pair_post(p, &wr);
}

/* ---- looking ---- */

static void append(struct pair *pair, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(struct pair *pair, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	pair->logged += (size_t)vsnprintf(pair->log + pair->logged, PAIR_LOG - pair->logged, format, list);
	va_end(list);
	assert_true(pair->logged < PAIR_LOG);
}

bool pair_poll(struct vb_cq *cq, struct ibv_wc *wc)
{
	return vb_cq_poll(cq, 1, wc) == 1;
}

const char *pair_collect(struct pair *pair)
{
	for (unsigned i = 0; i < 2; i++) {
		struct process *p = &pair->process[i];
		struct ibv_wc wc;

		for (unsigned side = 0; side < 2; side++)
			while (pair_poll(side ? &p->recv_cq : &p->send_cq, &wc)) {
				append(pair, "%u %s wr %llu status %d opcode %d", i, side ? "receive" : "send",
				       (unsigned long long)wc.wr_id, wc.status, wc.opcode);
				if (wc.status == IBV_WC_SUCCESS)
					append(pair, " bytes %u imm %x flags %x src %x", wc.byte_len, wc.imm_data, wc.wc_flags, wc.src_qp);
				append(pair, "\n");
			}
		for (unsigned k = 0; k < p->events; k++)
			append(pair, "%u event %d\n", i, p->event[k]);
		p->events = 0;
		append(pair, "%u state %d\n", i, p->qp->state);
	}
	return pair->log;
}

void pair_expect(struct vb_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_true(pair_poll(cq, &wc));
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

void pair_expect_nothing(struct pair *pair)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < 2; i++) {
		assert_false(pair_poll(&pair->process[i].send_cq, &wc));
		assert_false(pair_poll(&pair->process[i].recv_cq, &wc));
	}
}

uint64_t pair_digest(const struct process *p)
{
	enum { PAGE = 4096 };
	static const uint8_t zeros[PAGE];
	static unsigned char resident[ARENA / PAGE];
	uint64_t digest = 0;

	/* Most of it was never touched. */
	assert_int_equal(mincore(p->arena, ARENA, resident), 0);
	for (unsigned i = 0; i < ARENA / PAGE; i++) {
		const uint64_t *words = (const void *)(p->arena + (size_t)i * PAGE);

		if (!(resident[i] & 1) || memcmp(words, zeros, PAGE) == 0)
			continue;
		for (unsigned k = 0; k < PAGE / 8; k++)
			digest = (digest ^ words[k] ^ (i * 512 + k)) * 0x9e3779b97f4a7c15u + (digest >> 29);
	}
	return digest;
}

void pair_fill(struct process *p, uint32_t offset, uint32_t length, uint8_t first)
{
	for (uint32_t i = 0; i < length; i++)
		p->arena[offset + i] = (uint8_t)(first + i * 7 + (i >> 8));
}

void pair_verify(struct process *p, uint32_t offset, uint32_t length, uint8_t first)
{
	for (uint32_t i = 0; i < length; i++)
		if (p->arena[offset + i] != (uint8_t)(first + i * 7 + (i >> 8)))
			fail_msg("byte %u of %u at %u", i, length, offset);
}
