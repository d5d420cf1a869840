/* SPDX-License-Identifier: MIT
 *
 * A same-host peer whose segment is whatever the input says: a script of writes to it, with our own work in between.
 * Nothing outside what is registered may change, nothing may go on for ever, and all must be given back at the end.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/generation.h"
#include "profiles/profile.h"
#include "local/engine.h"
#include "local/local.h"
#include "memory/foreign.h"
#include "queue/qp.h"
#include "target.h"
#include "wire/rnr_timer.h"

enum { BYTES = 1 << 16, GUARD = 4096, OWN_QPN = 1 << 14 | 3, PEER_QPN = 2 << 14 | 4, QP_INDEX = 6, QUEUE = 16, SERVES = 4096,
       RNR_TIMER = 12, OWN_SRQN = 1 << 14 | 5, PEER_SRQN = 2 << 14 | 5, PEER_DOMAIN = 9 };

enum { TYPES = 4 };

static struct vb_segment *own, *peer_segment;
static struct vb_memory *memory;
static struct vb_pd pd = {.handle = 1};
static struct vb_cq cq;
static struct vb_qp *qp, *of_type[TYPES]; /* the one that this input is for; RC, UC, XRC_SEND, XRC_RECV */
static struct vb_xrc_domain domain;
static struct vb_srq srq;                /* of the last */
static struct vb_local *local;
static struct vb_counters counters;
static uint8_t *arena;                   /* guard, bytes, guard */
static uint32_t key;
static vb_time now;
static uint64_t random_state = 1;
static uint32_t peer_key;
static uint8_t peer_table[8192];         /* as it should be */

static uint32_t draw(void *context)
{
	(void)context;
	return (uint32_t)((random_state = random_state * 6364136223846793005u + 1) >> 32);
}

static void ignore_cq(struct vb_cq *ignored)
{
	(void)ignored;
}

static void ignore_deadline(struct vb_cq *ignored, vb_time when)
{
	(void)ignored;
	(void)when;
}

static void ignore_qp_event(struct vb_qp *ignored, enum ibv_event_type event)
{
	(void)ignored;
	(void)event;
}

static void ignore_cq_event(struct vb_cq *ignored, enum ibv_event_type event)
{
	(void)ignored;
	(void)event;
}

static void ignore_srq_event(struct vb_srq *ignored, enum ibv_event_type event)
{
	(void)ignored;
	(void)event;
}

static struct vb_queue_host queue_host = {
	.profile = &vb_profile_roce,
	.completion_event = ignore_cq,
	.completion_deadline = ignore_deadline,
	.qp_event = ignore_qp_event,
	.cq_event = ignore_cq_event,
	.srq_event = ignore_srq_event,
	.random = draw,
	.counters = &counters,
};

/* The peer's memory is nowhere: copies go well or fail as their address says. */
static int peer_write(struct vb_local_peer *peer, const struct iovec *ours, unsigned count, const struct vb_record_piece *theirs,
		      unsigned pieces)
{
	static uint8_t sink[BYTES];
	uint64_t sum = 0;

	(void)peer;
	for (unsigned i = 0; i < count; i++) {
		memcpy(sink, ours[i].iov_base, ours[i].iov_len);
		sum += ours[i].iov_len;
	}
	FUZZ_CHECK(pieces == 1 && sum == theirs->length);
	return theirs->address % 16 == 1 ? -14 : theirs->address % 16 == 2 ? -3 : 0;
}

static int peer_read(struct vb_local_peer *peer, const struct iovec *ours, unsigned count, const struct vb_record_piece *theirs,
		     unsigned pieces)
{
	uint64_t room = 0, sum = 0;

	(void)peer;
	for (unsigned i = 0; i < count; i++) {
		memset(ours[i].iov_base, 0x77, ours[i].iov_len);
		room += ours[i].iov_len;
	}
	for (unsigned i = 0; i < pieces; i++)
		sum += theirs[i].length;
	FUZZ_CHECK(room == sum);
	return theirs[0].address % 16 == 1 ? -14 : theirs[0].address % 16 == 2 ? -3 : 0;
}

static void peer_wake(struct vb_local_peer *peer)
{
	(void)peer;
}

static const struct vb_local_host local_host = {.write = peer_write, .read = peer_read, .wake = peer_wake, .pause = peer_wake};
static struct vb_local_peer peer = {.host = &local_host, .slot = 2};

static void modified(struct vb_qp *which, enum ibv_qp_state from, int mask, vb_time when)
{
	(void)mask;
	if (which->state == IBV_QPS_RESET) {
		if (local)
			vb_local_detach(which, own, local);
		local = NULL;
	} else if (which->state == IBV_QPS_RTR && from == IBV_QPS_INIT) {
		FUZZ_CHECK(vb_local_attach(which, own, 1, 0, &peer, when, &local) == 0);
	} else {
		vb_local_modified(which, local, when);
	}
}

static void *give_chunk(void *context, uint32_t index, size_t bytes)
{
	(void)context;
	return vb_foreign_chunk(peer_segment->table[0], VB_SEGMENT_TABLE_BYTES, index, bytes);
}

/* A region of everything, so that our WRITEs find something. */
static void publish_peer_table(void)
{
	const struct vb_memory_host host = {.random = draw, .chunk = give_chunk};
	static struct vb_pd peer_pd = {.handle = 0};
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &peer_pd, .length = 1 << 30, .access = 15};
	struct vb_memory *theirs = vb_memory_create(&host, 64);

	FUZZ_CHECK(theirs != NULL && vb_region_register(theirs, &info, &peer_key) == 0);
	vb_foreign_publish(theirs, peer_segment->table[0]);
	vb_memory_destroy(theirs);
	memcpy(peer_table, peer_segment->table[0], sizeof(peer_table));
}

static const struct vb_transport transport = {.name = "segment", .note_size = VB_LOCAL_NOTE_SIZE, .modified = modified};

static void *map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	FUZZ_CHECK(at != MAP_FAILED);
	return at;
}

static void create_xrc_qps(struct vb_qp_config config)
{
	struct ibv_srq_attr attr = {.max_wr = QUEUE, .max_sge = 2};

	vb_xrc_domain_init(&domain);
	FUZZ_CHECK(vb_srq_init(&srq, &queue_host, NULL, &pd, &attr) == 0);
	vb_xrc_add_srq(&domain, &srq, &cq, OWN_SRQN);
	config.type = IBV_QPT_XRC_SEND;
	config.recv_cq = NULL;
	FUZZ_CHECK(vb_qp_create(&config, &queue_host, &transport, NULL, &of_type[2]) == 0);
	config.type = IBV_QPT_XRC_RECV;
	config.pd = NULL;
	config.send_cq = NULL;
	config.xrc_domain = &domain;
	FUZZ_CHECK(vb_qp_create(&config, &queue_host, &transport, NULL, &of_type[3]) == 0);
}

static void open_world(void)
{
	const struct vb_memory_host memory_host = {.random = draw};
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &pd, .length = BYTES,
				      .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC};
	struct vb_qp_config config = {.type = IBV_QPT_RC, .pd = &pd, .send_cq = &cq, .recv_cq = &cq,
				      .cap = {.max_send_wr = QUEUE, .max_recv_wr = QUEUE, .max_send_sge = 2, .max_recv_sge = 2},
				      .qpn = OWN_QPN};

	own = map(sizeof(*own));
	peer_segment = map(sizeof(*peer_segment));
	peer.segment = peer_segment;
	own->header.id = 12345;
	own->qp_index[OWN_QPN % VB_SEGMENT_QPS] = peer_segment->qp_index[PEER_QPN % VB_SEGMENT_QPS] = 1 + QP_INDEX;
	publish_peer_table();
	arena = map(BYTES + 2 * GUARD);
	memset(arena, 0x5a, GUARD);
	memset(arena + GUARD + BYTES, 0x5a, GUARD);
	memory = vb_memory_create(&memory_host, 64);
	FUZZ_CHECK(memory != NULL);
	info.start = info.iova = (uintptr_t)arena + GUARD;
	FUZZ_CHECK(vb_region_register(memory, &info, &key) == 0);
	queue_host.memory = memory;
	FUZZ_CHECK(vb_cq_init(&cq, &queue_host, NULL, 1024) == 0);
	FUZZ_CHECK(vb_qp_create(&config, &queue_host, &transport, NULL, &of_type[0]) == 0);
	config.type = IBV_QPT_UC;
	FUZZ_CHECK(vb_qp_create(&config, &queue_host, &transport, NULL, &of_type[1]) == 0);
	create_xrc_qps(config);
}

static void connect_qp(void)
{
	const struct vb_path path = {.source_port = 49152};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 15, .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = PEER_QPN, .rq_psn = 1, .sq_psn = 2, .max_dest_rd_atomic = 4, .max_rd_atomic = 4,
				   .min_rnr_timer = RNR_TIMER, .timeout = 10, .retry_cnt = 2, .rnr_retry = 3,
				   .ah_attr = {.is_global = 1, .port_num = 1}};
	bool executes = qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_RECV;
	bool asks = qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_SEND;
	int timeout = vb_qp_is_reliable(qp) ? IBV_QP_TIMEOUT : 0;

	FUZZ_CHECK(vb_qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, &path, IBV_MTU_4096,
				now) == 0);
	attr.qp_state = IBV_QPS_RTR;
	FUZZ_CHECK(vb_qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				(executes ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0), &path, IBV_MTU_4096, now) == 0);
	attr.qp_state = IBV_QPS_RTS;
	FUZZ_CHECK(vb_qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | timeout |
				(asks ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0), &path, IBV_MTU_4096,
				now) == 0);
}

static uint16_t peer_service(void)
{
	return qp->type == IBV_QPT_XRC_SEND ? VB_SEGMENT_XRC_RECV :
	       qp->type == IBV_QPT_XRC_RECV ? VB_SEGMENT_XRC_SEND :
	       qp->type == IBV_QPT_UC	    ? VB_SEGMENT_UC :
					      VB_SEGMENT_RC;
}

/* A peer as it should be, so that the script gets somewhere. */
static void show_good_peer(struct vb_segment_qp *theirs)
{
	const struct vb_segment_qp good = {.offer = VB_OFFER_LOCAL, .peer_qpn = OWN_QPN, .path_mtu = 1024, .receive_psn = 2, .send_psn = 1,
					 .receive_access = 15, .max_reads = 4, .rnr_retry = 3, .taken = local->generation,
					 .service = peer_service(), .pd = qp->type == IBV_QPT_XRC_SEND ? PEER_DOMAIN : 0,
					 .word = vb_generation_word(77, VB_WORD_RECEIVES | VB_WORD_SENDS)};

	/* What it left in its ring stays. */
	memcpy(theirs, &good, offsetof(struct vb_segment_qp, near));
	peer_segment->srq[PEER_SRQN % VB_SEGMENT_QPS] = vb_segment_srq_word(0, PEER_DOMAIN, 0);
}

static bool serve(void)
{
	bool did, more;

	vb_lock_take(&qp->lock);
	did = vb_local_serve(qp, local, now, false, &more);
	vb_lock_release(&qp->lock);
	return did || more;
}

static void post(uint8_t choice, uint32_t length)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_sge sge = {.addr = (uintptr_t)arena + GUARD, .length = length % BYTES, .lkey = key};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcodes[choice % 5], .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive;

	wr.qp_type.xrc.remote_srqn = choice & 16 ? length : PEER_SRQN;
	wr.wr.rdma.remote_addr = length;
	wr.wr.rdma.rkey = choice & 8 ? length << 8 | choice : peer_key;
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = length & ~7u;
		wr.wr.atomic.rkey = wr.wr.rdma.rkey;
	}
	if (choice & 0x80 && qp->xrc_domain)
		vb_srq_post(&srq, &receive, &bad_receive);
	vb_lock_take(&qp->lock);
	if (choice & 0x80)
		vb_qp_post_receive(qp, &receive, &bad_receive, now);
	else
		vb_qp_post_send(qp, &wr, &bad, now);
	vb_lock_release(&qp->lock);
}

/* As many bytes of the input as `room` holds. */
static size_t pour(uint8_t *to, size_t room, const uint8_t *from, size_t length)
{
	size_t bytes = length < room ? length : room;

	memcpy(to, from, bytes);
	return bytes;
}

static size_t step(const uint8_t *input, size_t length)
{
	struct vb_segment_qp *theirs = &peer_segment->qp[QP_INDEX];
	uint32_t at = (uint32_t)(local->target.position % VB_RING_BYTES), number = 0;
	uint8_t *ring = at < VB_RING_NEAR ? theirs->near : peer_segment->ring[QP_INDEX], *table = peer_segment->table[0];
	struct vb_record record = {0};

	memcpy(&number, input + 1, length > 5 ? 4 : length - 1);
	switch (input[0] % 8) {
	case 0:
		return 3 + pour((uint8_t *)theirs + number % 240, 1 + number / 256 % 16, input + 3, length - 3);
	case 1: /* a record where it is looked for: of bytes elsewhere that are what they should be, or of anything */
		if (input[1] % 4 == 0) {
			uint32_t pieces = 1 + input[2] % 3;
			struct vb_record_piece list[3];

			record = (struct vb_record){.stamp = vb_record_stamp(local->target.consumed + 1), .kind = VB_RECORD_SEND,
						    .flags = VB_RECORD_BY_REFERENCE, .pieces = (uint16_t)pieces};
			for (unsigned i = 0; i < pieces; i++) {
				list[i] = (struct vb_record_piece){input[2] & 8 ? 0 : number, number >> (8 + i) & 0x3fff};
				record.length += (uint32_t)list[i].length;
			}
			memcpy(ring + at, &record, sizeof(record));
			memcpy(ring + at + sizeof(record), list, pieces * sizeof(list[0]));
			return 3;
		}
		pour((uint8_t *)&record, sizeof(record), input + 1, length - 1);
		record.stamp = vb_record_stamp(local->target.consumed + 1);
		record.kind %= 10;
		if (record.kind == VB_RECORD_SRQ && input[2] % 4)
			record.immediate = OWN_SRQN;
		memcpy(ring + at, &record, sizeof(record));
		return 1 + pour(ring + at + sizeof(record), 48, input + 1, length - 1);
	case 2:
		return 3 + pour(ring + number % ((at < VB_RING_NEAR ? VB_RING_NEAR : VB_RING_BYTES) - 16), 16, input + 3, length - 3);
	case 3:
		theirs->consumed = local->initiator.produced;
		theirs->released = local->initiator.head - (input[1] % 4 == 0) * 64;
		theirs->nak = input[2] % 32 == 0 ? input[1] % 8 : 0;
		return 3;
	case 4:
		if (input[1] % 16 == 7)
			return 3 + pour((uint8_t *)&peer_segment->srq[PEER_SRQN % VB_SEGMENT_QPS], 8, input + 3, length - 3);
		return 3 + pour(table + 4096 + number % (64 * 88), 1 + number / 256 % 88, input + 3, length - 3);
	case 5:
		now += VB_MICROSECONDS(number % 20000);
		serve();
		return 3;
	case 6:
		show_good_peer(theirs);
		return 3;
	default:
		post(input[1], number >> 8);
		serve();
		return 4;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_wc wc[64];
	unsigned serves = 0, deadlines = 0;

	if (!own)
		open_world();
	memset(peer_segment->qp[QP_INDEX].near, 0, sizeof(peer_segment->qp[QP_INDEX].near));
	qp = of_type[length % TYPES];
	connect_qp();
	show_good_peer(&peer_segment->qp[QP_INDEX]);
	memcpy(peer_segment->table[0], peer_table, sizeof(peer_table));
	post(0x80, 9000);
	for (size_t done = 0, steps = 0; done + 4 <= length && steps < 64; steps++)
		done += step(input + done, length - done);
	/* The peer stands still: we come to rest, and at the end of our patience to an end. */
	for (vb_time end = now + VB_SECONDS(8); now < end; now = vb_time_earlier(vb_local_next_deadline(local), end)) {
		while (serve())
			FUZZ_CHECK(++serves < SERVES);
		FUZZ_CHECK(!vb_local_has_work(local));
		/* At most a look for a receive every so often, where the peer would wait for ever. */
		FUZZ_CHECK(++deadlines < VB_SECONDS(8) / vb_rnr_timer_delay(RNR_TIMER) + SERVES);
	}
	FUZZ_CHECK(vb_local_path(local) == VB_LOCAL_DECLINED || vb_send_queue_count(&qp->send) == 0);
	for (unsigned i = 0; i < VB_SEGMENT_COPIES; i++)
		FUZZ_CHECK(own->header.copying[i] == 0);
	for (unsigned i = 0; i < GUARD; i++)
		FUZZ_CHECK(arena[i] == 0x5a && arena[GUARD + BYTES + i] == 0x5a);
	FUZZ_CHECK(vb_qp_modify(qp, &reset, IBV_QP_STATE, NULL, IBV_MTU_4096, now) == 0);
	while (vb_cq_poll(&cq, 64, wc) > 0)
		;
	return 0;
}
