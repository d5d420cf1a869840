/* SPDX-License-Identifier: MIT
 *
 * A hostile iWARP peer, after a good handshake: any stream of bytes into an engine, in any pieces. The second byte of the input chooses
 * role and CRC, whether STags and CRCs are put right before, and what is posted; the third how the stream is cut. Nothing may be
 * written outside of the one region, and each work request completes exactly once.
 */
#include <string.h>

#include "base/crc32c.h"
#include "iwarp/iwarp.h"
#include "profiles/profile.h"
#include "queue/qp.h"
#include "target.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/rdmap_opcode.h"

enum { ARENA = 64 << 10, REGION_AT = 16 << 10, REGION = 32 << 10, RECEIVES = 8, SENDS = 6, GUARD = 0x5a };
enum { CHOOSE_CRC = 1, CHOOSE_RIGHT_CRC = 2, CHOOSE_INITIATOR = 4, CHOOSE_READS = 8, CHOOSE_RECEIVES = 16, CHOOSE_STAGS = 32 };

static struct {
	struct vb_memory *memory;
	struct vb_pd pd;
	struct vb_counters counters;
	struct vb_queue_host host;
	struct vb_cq send_cq, recv_cq;
	struct vb_qp *qp;
	struct vb_iwarp_out *out;
	uint32_t key, random;
	uint8_t arena[ARENA] __attribute__((aligned(64)));
} world;

static uint32_t draw(void *context)
{
	(void)context;
	world.random = world.random * 1664525u + 1013904223u;
	return world.random ^ world.random >> 15;
}

static void ignore_qp(struct vb_qp *qp, enum ibv_event_type event) { (void)qp, (void)event; }
static void ignore_cq(struct vb_cq *cq, enum ibv_event_type event) { (void)cq, (void)event; }
static void ignore_srq(struct vb_srq *srq, enum ibv_event_type event) { (void)srq, (void)event; }
static void ignore_completion(struct vb_cq *cq) { (void)cq; }
static void ignore_deadline(struct vb_cq *cq, vb_time when) { (void)cq, (void)when; }

static void make_world(void)
{
	const struct vb_memory_host memory_host = {.random = draw};
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &world.pd, .start = (uintptr_t)world.arena + REGION_AT, .length = REGION,
				      .iova = (uintptr_t)world.arena + REGION_AT,
				      .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						IBV_ACCESS_REMOTE_ATOMIC};

	world.random = 1;
	world.memory = vb_memory_create(&memory_host, 64);
	world.out = calloc(1, sizeof(*world.out));
	FUZZ_CHECK(world.memory && world.out && vb_region_register(world.memory, &info, &world.key) == 0);
	world.host = (struct vb_queue_host){
		.completion_event = ignore_completion,
		.completion_deadline = ignore_deadline,
		.qp_event = ignore_qp,
		.cq_event = ignore_cq,
		.srq_event = ignore_srq,
		.random = draw,
		.memory = world.memory,
		.counters = &world.counters,
		.profile = &vb_profile_iwarp,
	};
	FUZZ_CHECK(vb_cq_init(&world.send_cq, &world.host, NULL, 64) == 0 && vb_cq_init(&world.recv_cq, &world.host, NULL, 64) == 0);
}

/* Its lock is held from here to the end of the test. */
static void open_connection(uint8_t choices) VB_UNCHECKED
{
	struct vb_qp_config config = {
		.type = IBV_QPT_RC,
		.pd = &world.pd,
		.send_cq = &world.send_cq,
		.recv_cq = &world.recv_cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2},
		.signal_all = true,
		.qpn = 17,
	};
	struct vb_iwarp_terms terms = {
		.initiator = choices & CHOOSE_INITIATOR,
		.crc = choices & CHOOSE_CRC,
		.mulpdu = choices & CHOOSE_READS ? VB_MULPDU_LEAST : VB_MULPDU_LARGE,
		.ird = 2,
		.ord = 3,
		.hold = VB_TIME_NEVER,
	};

	FUZZ_CHECK(vb_qp_create(&config, &world.host, &vb_iwarp_transport, NULL, &world.qp) == 0);
	world.qp->opcodes = ~0u;
	world.qp->attr.qp_access_flags = ~0u & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	vb_lock_take(&world.qp->lock);
	FUZZ_CHECK(vb_iwarp_begin(world.qp, 1, &terms) == 0);
}

static unsigned post_work(uint8_t choices)
{
	struct ibv_sge sge = {.addr = (uintptr_t)world.arena + REGION_AT + 1024, .length = 700, .lkey = world.key};
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ}, *bad;
	unsigned sends = 0;

	for (unsigned i = 0; choices & CHOOSE_RECEIVES && i < RECEIVES; i++)
		FUZZ_CHECK(vb_qp_post_receive(world.qp, &receive, &bad_receive, 1) == 0);
	for (; choices & CHOOSE_READS && sends < SENDS; sends++) {
		wr.opcode = sends % 3 == 2 ? IBV_WR_SEND : IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = sends;
		FUZZ_CHECK(vb_qp_post_send(world.qp, &wr, &bad, 1) == 0);
	}
	return sends;
}

/* Keys and CRCs that are right, so that what is behind them is looked at. */
static void put_right(uint8_t *bytes, size_t length, uint8_t choices)
{
	for (size_t at = 0; length - at >= 2 + VB_DDP_UNTAGGED_LENGTH;) {
		uint32_t ulpdu = vb_fpdu_get_length(bytes + at), whole = vb_fpdu_length(ulpdu);
		uint8_t *header = bytes + at + 2;

		if (whole > length - at || ulpdu < VB_DDP_UNTAGGED_LENGTH)
			break;
		if (choices & CHOOSE_STAGS) {
			bool is_atomic = !(header[0] & 0x80) && (header[1] & 15) == VB_RDMAP_ATOMIC_REQUEST && ulpdu >= 70;
			uint8_t *stag = header[0] & 0x80 ? header + 2 : is_atomic ? header + 26 : ulpdu >= 46 ? header + 34 : NULL;
			uint64_t address = (uintptr_t)world.arena + REGION_AT;

			header[0] = (uint8_t)((header[0] & 0xc0) | VB_DDP_VERSION);
			header[1] = (uint8_t)((header[1] & 0x0f) | VB_RDMAP_VERSION << 6);
			/* An address in the region, or somewhat beside it, by the input's low bits. */
			if (stag)
				address += (uint64_t)((stag[10] & 0x7f) << 8 | stag[11]) - (stag[10] & 0x80 ? 256 : 0);
			for (unsigned i = 0; stag && i < 4; i++)
				stag[i] = (uint8_t)(world.key >> (24 - 8 * i));
			for (unsigned i = 0; stag && i < 8; i++)
				stag[4 + i] = (uint8_t)(address >> (56 - 8 * i));
		}
		if (choices & CHOOSE_RIGHT_CRC)
			vb_fpdu_put_trailer(bytes + at + 2 + ulpdu, ulpdu, vb_crc32c(0, bytes + at, 2 + ulpdu), true);
		at += whole;
	}
}

static void transmit(vb_time now)
{
	for (unsigned rounds = 0; rounds < 64; rounds++) {
		bool more = vb_iwarp_send(world.qp, now, world.out);
		size_t taken = world.out->bytes;

		if (world.out->count == 0)
			return;
		if (draw(NULL) % 3 == 0)
			taken = draw(NULL) % (world.out->bytes + 1);
		vb_iwarp_sent(world.qp, now, world.out, taken);
		if (!more && taken == world.out->bytes)
			return;
	}
}

static void feed(const uint8_t *bytes, size_t length)
{
	vb_time now = 1;

	for (size_t at = 0; at < length; now += VB_MILLISECONDS(1)) {
		size_t piece = 1 + draw(NULL) % (draw(NULL) % 4 == 0 ? 3 : 9000), taken;
		struct iovec spans[2];

		if (piece > length - at)
			piece = length - at;
		if (vb_iwarp_want(world.qp, spans, 2) == 2) {
			size_t first = spans[0].iov_len < piece ? spans[0].iov_len : piece;
			size_t second = piece - first < spans[1].iov_len ? piece - first : spans[1].iov_len;

			memcpy(spans[0].iov_base, bytes + at, first);
			memcpy(spans[1].iov_base, bytes + at + first, second);
			vb_iwarp_got(world.qp, now, first + second);
			taken = first + second;
		} else {
			taken = vb_iwarp_take(world.qp, now, bytes + at, piece);
			FUZZ_CHECK(taken == piece || vb_iwarp_is_stalled(world.qp));
		}
		at += taken;
		transmit(now);
		if (vb_iwarp_is_stalled(world.qp)) {
			now += VB_SECONDS(10);
			vb_iwarp_expire(world.qp, now);
			FUZZ_CHECK(!vb_iwarp_is_stalled(world.qp));
		}
	}
	transmit(now);
	vb_iwarp_ended(world.qp, now, VB_IWARP_END_FIN);
}

static unsigned count(struct vb_cq *cq)
{
	struct ibv_wc wc;
	unsigned found = 0;

	while (vb_cq_poll(cq, 1, &wc) == 1)
		found++;
	return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length) VB_UNCHECKED
{
	uint8_t choices, *bytes;
	unsigned sends;

	if (length < 3)
		return 0;
	if (!world.memory)
		make_world();
	choices = input[1];
	bytes = malloc(length - 3 ? length - 3 : 1);
	if (!bytes)
		return 0;
	world.random = input[2];
	memset(world.arena, GUARD, sizeof(world.arena));
	memcpy(bytes, input + 3, length - 3);
	put_right(bytes, length - 3, choices);
	open_connection(choices);
	sends = post_work(choices);
	transmit(1);
	feed(bytes, length - 3);
	FUZZ_CHECK(world.qp->state == IBV_QPS_ERR);
	vb_lock_release(&world.qp->lock);
	FUZZ_CHECK(count(&world.send_cq) == sends);
	FUZZ_CHECK(count(&world.recv_cq) == (choices & CHOOSE_RECEIVES ? RECEIVES : 0));
	for (unsigned i = 0; i < ARENA; i++)
		FUZZ_CHECK(world.arena[i] == GUARD || (i >= REGION_AT && i < REGION_AT + REGION));
	vb_qp_destroy(world.qp);
	free(bytes);
	return 0;
}
