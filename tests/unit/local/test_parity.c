/* SPDX-License-Identifier: MIT
 *
 * An application must not be able to tell whether its peer was reached through memory or over the wire. Each scene is played three times:
 * by the wire engine, through memory, and through memory that is shared; completions, events, states and every byte of both
 * processes must be the same. What iWARP does alike is also played by a stream.
 */
#include "lib/atomic_write.h"
#include "pair.h"

static struct pair pair;
static struct process *const a = &pair.process[0], *const b = &pair.process[1];

/* Through memory a receiver of UC that is behind has some time (local/target.c). */
#define LONG_ENOUGH VB_SECONDS(3)

/* Eight tries of the usual timeout are over long before. What nobody receives is tried again for ever: 1,500 times a second here. */
static void run(void)
{
	pair_run(&pair, pair.now + VB_SECONDS(7));
}

static void connect_usually(void)
{
	pair_connect(&pair, &usual);
}

static uint32_t register_part(struct process *p, struct vb_pd *pd, uint32_t offset, uint32_t length, unsigned access)
{
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = pd, .start = (uintptr_t)p->arena + offset, .length = length,
				      .iova = (uintptr_t)p->arena + offset, .access = access};
	uint32_t key;

	assert_int_equal(vb_region_register(p->memory, &info, &key), 0);
	return key;
}

/* One request of a with this key, at the arena's offset of b, and a SEND after it. */
static void request(enum ibv_wr_opcode opcode, uint32_t key, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = pair_sge(a, 0, length);
	struct ibv_send_wr wr = {.wr_id = 77, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = (uintptr_t)b->arena + offset;
		wr.wr.atomic.rkey = key;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 6;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)b->arena + offset;
		wr.wr.rdma.rkey = key;
	}
	if (opcode == IBV_WR_ATOMIC_WRITE)
		assert_int_equal(post_atomic_write(a->qp, (uintptr_t)b->arena + offset, key, 0x0102030405060708, 77, IBV_SEND_SIGNALED,
						   pair.now), 0);
	else
		assert_int_equal(pair_post(a, &wr), 0);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 78, IBV_SEND_SIGNALED);
}

static const enum ibv_wr_opcode remote_opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
						    IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
						    IBV_WR_ATOMIC_WRITE};
enum { REMOTE_OPCODES = 6 };

/* UC has the first two of them, XRC all but the last: scenes pass over the others. */
static bool has_opcode(enum ibv_wr_opcode opcode)
{
	if (pair.xrc)
		return opcode != IBV_WR_ATOMIC_WRITE;
	return !pair.unreliable || opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* ---- scenes: `variant` counts up until the scene says that there is no such ---- */

static bool everything_goes_well(unsigned variant)
{
	static const uint32_t lengths[] = {0, 8, 1024, 1025, 4096, 4097, 100000, 1 << 20, (1 << 20) + 3};
	unsigned flags = variant % 3 == 1 ? IBV_SEND_INLINE : variant % 3 == 2 ? IBV_SEND_FENCE : 0;

	if (variant == 6)
		return false;
	connect_usually();
	for (unsigned i = 0; i < 9; i++) {
		bool is_inline = flags == IBV_SEND_INLINE && lengths[i] <= 256;
		unsigned signalled = (i + variant) % 2 ? IBV_SEND_SIGNALED : 0, more = is_inline ? (unsigned)IBV_SEND_INLINE : 0;

		if (flags == IBV_SEND_FENCE)
			more = IBV_SEND_FENCE;
		pair_fill(a, 0, lengths[i], (uint8_t)(i + variant));
		pair_receive(b, 3 << 20, 2 << 20, i);
		pair_receive(b, 3 << 20, 2 << 20, i + 100);
		pair_send(a, i % 2 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, 0, lengths[i], 0, i + 200, signalled | more);
		pair_send(a, IBV_WR_RDMA_WRITE, 0, lengths[i], 128, i + 300, signalled | more | IBV_SEND_SOLICITED);
		pair_send(a, IBV_WR_RDMA_READ, 2 << 20, lengths[i], 128, i + 400, signalled | (more & ~(unsigned)IBV_SEND_INLINE));
		pair_atomic(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 4 << 20, 128, 3, 0, i + 500);
		pair_send(a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, lengths[i], 64, i + 600, signalled | more);
		if (variant >= 3)
			run();
	}
	run();
	return true;
}

/* The same with what iWARP has messages for. */
static bool everything_but_send_immediate(unsigned variant)
{
	static const uint32_t lengths[] = {0, 8, 1024, 1025, 4096, 4097, 100000, 1 << 20, (1 << 20) + 3};

	if (variant == 2)
		return false;
	connect_usually();
	for (unsigned i = 0; i < 9; i++) {
		unsigned more = variant % 2 ? IBV_SEND_FENCE : 0;

		pair_fill(a, 0, lengths[i], (uint8_t)(i + variant));
		pair_receive(b, 3 << 20, 2 << 20, i);
		pair_receive(b, 3 << 20, 2 << 20, i + 100);
		pair_send(a, IBV_WR_SEND, 0, lengths[i], 0, i + 200, IBV_SEND_SIGNALED | more | IBV_SEND_SOLICITED);
		pair_send(a, IBV_WR_RDMA_WRITE, 0, lengths[i], 128, i + 300, IBV_SEND_SIGNALED | more);
		pair_send(a, IBV_WR_RDMA_READ, 2 << 20, lengths[i], 128, i + 400, IBV_SEND_SIGNALED | more);
		pair_atomic(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 4 << 20, (5 << 20) + 64, 3, 0, i + 500);
		pair_atomic(a, IBV_WR_ATOMIC_CMP_AND_SWP, 4 << 20, (5 << 20) + 64, 3, 7, i + 500);
		pair_send(a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, lengths[i], 2 << 20, i + 600, IBV_SEND_SIGNALED | more);
		/* What is read is not changed before it has come: without a fence that is nobody's promise. */
		run();
	}
	run();
	return true;
}

static bool long_lists(unsigned variant)
{
	struct ibv_sge gather[VB_MAX_SGE], scatter[VB_MAX_SGE];
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = gather, .num_sge = VB_MAX_SGE, .send_flags = IBV_SEND_SIGNALED};
	uint32_t unit = variant % 3 == 0 ? 3 : variant % 3 == 1 ? 700 : 70001;

	if (variant == (pair.unreliable ? 6 : 9))
		return false;
	connect_usually();
	pair_fill(a, 0, 3 << 20, 9);
	for (unsigned i = 0; i < VB_MAX_SGE; i++) {
		gather[i] = pair_sge(a, i * (unit + 11), i == 7 ? 0 : unit);
		scatter[i] = pair_sge(b, i * (unit + 5), i == 3 ? 1 : unit + 2);
	}
	wr.opcode = variant / 3 == 0 ? IBV_WR_SEND : variant / 3 == 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	wr.wr.rdma.remote_addr = (uintptr_t)b->arena + 17;
	wr.wr.rdma.rkey = b->key;
	pair_fill(b, 0, 4 << 20, 1);
	assert_int_equal(pair_post_receive(b, scatter, VB_MAX_SGE, 5), 0);
	assert_int_equal(pair_post(a, &wr), 0);
	run();
	return true;
}

static bool bad_keys(unsigned variant)
{
	enum ibv_wr_opcode opcode = remote_opcodes[variant % REMOTE_OPCODES];
	unsigned kind = variant / REMOTE_OPCODES % 6, length = variant / REMOTE_OPCODES / 6;
	uint32_t key;

	if (length == 4)
		return false;
	if (!has_opcode(opcode))
		return true;
	connect_usually();
	if (kind == 0)
		key = 0x12345678;
	else if (kind == 1)
		key = register_part(b, &b->other_pd, 0, ARENA, PAIR_ACCESS);
	else if (kind == 2)
		key = register_part(b, &b->pd, 0, ARENA, IBV_ACCESS_LOCAL_WRITE);
	else if (kind == 3)
		key = register_part(b, &b->pd, 0, 4, PAIR_ACCESS);
	else if (kind == 4)
		assert_int_equal(vb_window_allocate(b->memory, VB_REGION_MW_TYPE_2, &b->pd, &key), 0);
	else {
		key = register_part(b, &b->pd, 0, ARENA, PAIR_ACCESS);
		assert_int_equal(vb_region_deregister(b->memory, key), 0);
	}
	pair_receive(b, 1 << 20, 4096, 1);
	if (length == 1)
		pair_receive(b, 1 << 20, 4096, 2);
	pair_send(a, IBV_WR_SEND, 0, 16, 0, 76, IBV_SEND_SIGNALED);
	request(opcode, key, 0, length == 0 ? 0 : length == 1 ? 8 : length == 2 ? 1024 : 5000);
	run();
	return true;
}

static bool queue_pair_rights(unsigned variant)
{
	static const unsigned rights[] = {0, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC};
	struct connection c = usual;

	if (variant == REMOTE_OPCODES * 10)
		return false;
	if (!has_opcode(remote_opcodes[variant % REMOTE_OPCODES]))
		return true;
	c.access = rights[variant / REMOTE_OPCODES % 4];
	if (variant / REMOTE_OPCODES >= 8) {
		c.access = PAIR_ACCESS;
		c.max_dest_rd_atomic = 0;
	}
	pair_connect(&pair, &c);
	pair_receive(b, 0, 64, 1);
	request(remote_opcodes[variant % REMOTE_OPCODES], b->key, 0, variant / REMOTE_OPCODES % 2 ? 8 : 0);
	run();
	return true;
}

static bool our_own_memory_is_at_fault(unsigned variant)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};
	enum ibv_wr_opcode opcode = opcodes[variant % 5];
	unsigned kind = variant / 5 % 4;
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = {.wr_id = 9, .sg_list = sge, .num_sge = 2, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

	if (variant == 40)
		return false;
	if (!has_opcode(opcode))
		return true;
	connect_usually();
	for (unsigned i = 0; i < 3; i++)
		pair_receive(b, 1 << 20, 1 << 20, i);
	sge[0] = pair_sge(a, 0, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 4 : 64);
	sge[1] = pair_sge(a, 4096, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 4 : variant >= 20 ? 8192 : 64);
	if (kind == 0)
		sge[1].lkey = 0x777;
	else if (kind == 1)
		sge[1].lkey = register_part(a, &a->other_pd, 0, ARENA, PAIR_ACCESS);
	else if (kind == 2)
		sge[1].lkey = register_part(a, &a->pd, 4096, 3, PAIR_ACCESS);
	else
		sge[1].lkey = register_part(a, &a->pd, 0, ARENA, IBV_ACCESS_REMOTE_READ);
	pair_send(a, IBV_WR_SEND, 0, 5, 0, 8, IBV_SEND_SIGNALED);
	wr.wr.rdma.remote_addr = (uintptr_t)b->arena;
	wr.wr.rdma.rkey = b->key;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)b->arena;
		wr.wr.atomic.rkey = b->key;
		wr.wr.atomic.compare_add = 1;
	}
	assert_int_equal(pair_post(a, &wr), 0);
	pair_send(a, IBV_WR_SEND, 0, 6, 0, 10, IBV_SEND_SIGNALED);
	run();
	return true;
}

static bool receives_at_fault(unsigned variant)
{
	struct ibv_sge sge[2] = {pair_sge(b, 0, 64), pair_sge(b, 4096, 8192)};
	uint32_t length = variant % 2 ? 6000 : 100;

	if (variant == 14)
		return false;
	connect_usually();
	switch (variant / 2) {
	case 0:
		sge[1].lkey = 0x999;
		break;
	case 1:
		sge[1].lkey = register_part(b, &b->pd, 0, ARENA, IBV_ACCESS_REMOTE_READ);
		break;
	case 2:
		sge[1].lkey = register_part(b, &b->other_pd, 0, ARENA, PAIR_ACCESS);
		break;
	case 3:
		sge[1].lkey = b->null_key;
		break;
	case 4:
		sge[1].length = 8;
		break;
	case 5:
		sge[1].lkey = b->demand_key;
		break;
	case 6:
		sge[1].lkey = b->demand_key;
		b->hole_start = (uintptr_t)b->arena + 4096;
		b->hole_end = b->hole_start + 1;
		break;
	}
	pair_post_receive(b, sge, 2, 1);
	pair_receive(b, 1 << 20, 100, 2);
	pair_fill(a, 0, length, 2);
	pair_send(a, IBV_WR_SEND, 0, length, 0, 3, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_SEND, 0, 4, 0, 4, IBV_SEND_SIGNALED);
	run();
	return true;
}

/* Regions without plain bytes, at either end and in either direction. */
static bool odd_regions(unsigned variant)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	enum ibv_wr_opcode opcode = opcodes[variant % 4];
	unsigned ours = variant / 4 % 3, theirs = variant / 12 % 3;
	uint32_t length = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : variant / 36 ? 70000 : 40;
	struct ibv_sge sge = pair_sge(a, 64, length), receive = pair_sge(b, 64, length);
	struct ibv_send_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

	if (variant == 72)
		return false;
	if (!has_opcode(opcode))
		return true;
	connect_usually();
	pair_fill(a, 0, 100000, 1);
	pair_fill(b, 0, 100000, 2);
	sge.lkey = ours == 0 ? a->key : ours == 1 ? a->null_key : a->demand_key;
	receive.lkey = theirs == 0 ? b->key : theirs == 1 ? b->null_key : b->demand_key;
	wr.wr.rdma.remote_addr = (uintptr_t)b->arena + 64;
	wr.wr.rdma.rkey = receive.lkey;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)b->arena + 64;
		wr.wr.atomic.rkey = receive.lkey;
		wr.wr.atomic.compare_add = 1;
	}
	pair_post_receive(b, &receive, 1, 1);
	assert_int_equal(pair_post(a, &wr), 0);
	run();
	return true;
}

/* On-demand memory that is gone, here or there. */
static bool unmapped_memory(unsigned variant)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	enum ibv_wr_opcode opcode = opcodes[variant % 4];
	struct process *gone = variant / 4 % 2 ? a : b;
	uint32_t length = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : variant / 8 ? 6000 : 40;
	struct ibv_sge sge = pair_sge(a, 64, length);
	struct ibv_send_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

	/* What of a message was placed before its end failed is nobody's business. */
	if (variant == 16)
		return false;
	if ((gone == b && opcode == IBV_WR_SEND) || !has_opcode(opcode))
		return true;
	connect_usually();
	gone->hole_start = (uintptr_t)gone->arena + 64;
	gone->hole_end = gone->hole_start + length;
	sge.lkey = a->demand_key;
	wr.wr.rdma.remote_addr = (uintptr_t)b->arena + 64;
	wr.wr.rdma.rkey = b->demand_key;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)b->arena + 64;
		wr.wr.atomic.rkey = b->demand_key;
		wr.wr.atomic.compare_add = 1;
	}
	pair_receive(b, 1 << 20, 10000, 1);
	assert_int_equal(pair_post(a, &wr), 0);
	run();
	return true;
}

static void bind_window(struct process *p, uint32_t window, uint8_t tag, uint32_t offset, uint32_t length, unsigned access,
			uint64_t wr_id)
{
	struct ibv_mr mr = {.lkey = p->key};
	struct ibv_mw mw = {.rkey = window, .type = IBV_MW_TYPE_2};
	struct ibv_send_wr wr = {.wr_id = wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};

	wr.bind_mw.mw = &mw;
	wr.bind_mw.rkey = (window & ~0xffu) | tag;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = &mr, .addr = (uintptr_t)p->arena + offset, .length = length,
							 .mw_access_flags = access};
	assert_int_equal(pair_post(p, &wr), 0);
}

static bool windows(unsigned variant)
{
	struct ibv_send_wr wr = {.wr_id = 50, .send_flags = IBV_SEND_SIGNALED};
	uint32_t window, key;

	if (variant == 10)
		return false;
	/* READ, atomics, SEND with invalidate. */
	if (pair.unreliable && variant >= 2 && variant <= 6)
		return true;
	connect_usually();
	assert_int_equal(vb_window_allocate(b->memory, VB_REGION_MW_TYPE_2, variant == 9 ? &b->other_pd : &b->pd, &window), 0);
	key = (window & ~0xffu) | 0x31;
	bind_window(b, window, 0x31, 4096, variant == 1 ? ARENA : 4096, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, 40);
	run();
	pair_receive(b, 1 << 20, 64, 1);
	pair_receive(b, 1 << 20, 64, 2);
	switch (variant) {
	case 2:
		request(IBV_WR_RDMA_READ, key, 4096, 4096);
		break;
	case 3:
		request(IBV_WR_RDMA_READ, key, 4095, 16);
		break;
	case 4:
		request(IBV_WR_ATOMIC_FETCH_AND_ADD, key, 4096, 8);
		break;
	case 5: /* invalidated from here, then used */
	case 6: /* invalidated twice */
		wr.opcode = IBV_WR_SEND_WITH_INV;
		wr.invalidate_rkey = key;
		assert_int_equal(pair_post(a, &wr), 0);
		if (variant == 6)
			assert_int_equal(pair_post(a, &wr), 0);
		request(IBV_WR_RDMA_WRITE, key, 4096, 16);
		break;
	case 7: /* invalidated there */
		wr.opcode = IBV_WR_LOCAL_INV;
		wr.invalidate_rkey = key;
		assert_int_equal(pair_post(b, &wr), 0);
		run();
		request(IBV_WR_RDMA_WRITE, key, 4096, 16);
		break;
	case 8: /* of a region */
		wr.opcode = IBV_WR_LOCAL_INV;
		wr.invalidate_rkey = b->key;
		assert_int_equal(pair_post(b, &wr), 0);
		break;
	default:
		request(IBV_WR_RDMA_WRITE, key, 4096 + 10, 100);
	}
	run();
	return true;
}

static bool nobody_receives(unsigned variant)
{
	struct connection c = usual;

	if (variant == 32)
		return false;
	c.rnr_retry = variant % 8;
	c.min_rnr_timer = 1 + variant / 16 * 12;
	pair_connect(&pair, &c);
	pair_receive(b, 0, 64, 1);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 2, IBV_SEND_SIGNALED);
	pair_send(a, variant / 8 % 2 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND, 0, 8, 0, 3, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 0, 4, IBV_SEND_SIGNALED);
	pair_run(&pair, pair.now + (pair.unreliable ? LONG_ENOUGH : VB_MILLISECONDS(50)));
	/* Still here? */
	pair_receive(b, 0, 64, 5);
	pair_run(&pair, pair.now + VB_MILLISECONDS(50));
	return true;
}

static bool draining(unsigned variant)
{
	if (variant == 4)
		return false;
	connect_usually();
	pair_send(a, variant % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 0, 8, 0, 1, IBV_SEND_SIGNALED);
	if (variant >= 2)
		pair_settle(&pair);
	assert_int_equal(pair_to(a, IBV_QPS_SQD), 0);
	pair_settle(&pair);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 2, IBV_SEND_SIGNALED);
	pair_settle(&pair);
	pair_receive(b, 0, 8, 3);
	run();
	pair_collect(&pair);
	pair_receive(b, 0, 8, 4);
	assert_int_equal(pair_to(a, IBV_QPS_RTS), 0);
	run();
	return true;
}

static bool the_error_state(unsigned variant)
{
	if (variant == 6)
		return false;
	connect_usually();
	pair_receive(a, 0, 64, 1);
	pair_receive(b, 0, 64, 2);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 3, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 4, 0);
	if (variant >= 3)
		pair_settle(&pair);
	assert_int_equal(pair_to(variant % 3 == 0 ? a : b, variant % 3 == 2 ? IBV_QPS_RESET : IBV_QPS_ERR), 0);
	run();
	pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 0, 5, IBV_SEND_SIGNALED);
	run();
	return true;
}

static bool no_reads_allowed(unsigned variant)
{
	struct connection c = usual;

	if (variant == 4)
		return false;
	if (!has_opcode(remote_opcodes[2 + variant]))
		return true;
	c.max_rd_atomic = 0;
	pair_connect(&pair, &c);
	pair_receive(b, 0, 64, 1);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 2, 0);
	request(remote_opcodes[2 + variant], b->key, 0, 8);
	run();
	return true;
}

/* The application of b waits for COMM_EST before it goes to RTS. */
static bool communication_is_established(unsigned variant)
{
	if (variant == REMOTE_OPCODES + 1)
		return false;
	if (variant < REMOTE_OPCODES && !has_opcode(remote_opcodes[variant]))
		return true;
	for (unsigned i = 0; i < 2; i++)
		pair_to_init(&pair.process[i], &usual);
	pair_receive(b, 0, 64, 1);
	pair_receive(b, 0, 64, 2);
	for (unsigned i = 0; i < 2; i++)
		pair_to_rtr(&pair.process[i], &usual);
	pair_to_rts(a, &usual);
	run();
	if (variant < REMOTE_OPCODES)
		request(remote_opcodes[variant], b->key, 0, 8);
	else
		pair_send(a, IBV_WR_SEND, 0, 8, 0, 1, 0);
	run();
	return true;
}

static bool nobody_answers(unsigned variant)
{
	struct connection c = usual;

	if (variant == 5)
		return false;
	c.wrong_psn = variant == 4 ? 5 : 0;
	for (unsigned i = 0; i < 2; i++)
		pair_to_init(&pair.process[i], &c);
	pair_to_rtr(a, &c);
	if (variant == 4) {
		pair_to_rtr(b, &c);
		pair_to_rts(b, &c);
	}
	pair_to_rts(a, &c);
	pair_receive(a, 0, 64, 1);
	pair_send(a, variant % 2 ? IBV_WR_SEND : IBV_WR_RDMA_READ, 0, 8, 0, 2, 0);
	if (variant >= 2)
		pair_send(a, IBV_WR_RDMA_WRITE, 0, 8, 0, 3, 0);
	run();
	return true;
}

/* Played with a shared receive queue. */
static bool shared_receives(unsigned variant)
{
	if (variant == 4)
		return false;
	connect_usually();
	pair_receive(b, 0, 16, 1);
	pair_send(a, IBV_WR_SEND, 0, variant == 1 ? 17 : 8, 0, 2, IBV_SEND_SIGNALED);
	pair_send(a, IBV_WR_SEND, 0, 8, 0, 3, IBV_SEND_SIGNALED);
	pair_run(&pair, pair.now + (pair.unreliable ? LONG_ENOUGH : 0));
	if (variant == 2)
		assert_int_equal(pair_to(b, IBV_QPS_ERR), 0);
	if (variant == 3)
		assert_int_equal(vb_srq_modify(&b->srq, &(struct ibv_srq_attr){.srq_limit = 4}, IBV_SRQ_LIMIT), 0);
	pair_receive(b, 0, 16, 4);
	run();
	return true;
}

/* Played with completion queues of two. */
static bool full_completion_queues(unsigned variant)
{
	if (variant == 3)
		return false;
	connect_usually();
	for (unsigned i = 0; i < 4; i++)
		pair_receive(b, 0, 16, i);
	/* One after the other: the wire engine acknowledges batches, and one that ends badly not at all. */
	for (unsigned i = 0; i < 4; i++) {
		pair_send(a, variant == 2 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, 0, 8, 0, 10 + i,
			  variant == 1 ? 0 : IBV_SEND_SIGNALED);
		run();
	}
	return true;
}

/* ---- XRC: what each request goes by is the SRQ that it names ---- */

/* One request for that SRQ of b, with a key, at an offset of its arena. */
static void request_of(uint32_t srqn, enum ibv_wr_opcode opcode, uint32_t key, uint32_t offset, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = pair_sge(a, 0, length);
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

	wr.qp_type.xrc.remote_srqn = srqn;
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = (uintptr_t)b->arena + offset;
		wr.wr.atomic.rkey = key;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 6;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)b->arena + offset;
		wr.wr.rdma.rkey = key;
	}
	assert_int_equal(pair_post(a, &wr), 0);
}

static void receive_of(unsigned srq, uint32_t offset, uint32_t length, uint32_t key, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)b->arena + offset, length, key};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(vb_srq_post(b->srqs[srq], &wr, &bad), 0);
}

static const enum ibv_wr_opcode xrc_opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};
static const uint32_t xrc_lengths[] = {0, 8, 5000};
enum { XRC_OPCODES = 6, XRC_LENGTHS = 3 };

/* By turns to two SRQs of two protection domains, each with a key of its own: message by message, or some to each. */
static bool several_srqs(unsigned variant)
{
	uint32_t key[2];

	if (variant == 3)
		return false;
	connect_usually();
	key[0] = b->key;
	key[1] = register_part(b, &b->other_pd, 0, ARENA, PAIR_ACCESS);
	for (unsigned i = 0; i < 12; i++) {
		unsigned first = variant == 0 ? i % 2 : variant == 1 ? i / 3 % 2 : i % 3 == 2;

		pair_fill(a, 0, 5000, (uint8_t)i);
		for (unsigned k = 0; k < 2; k++) {
			receive_of(k, 1 << 20, 8192, key[k], i);
			receive_of(k, 2 << 20, 8192, key[k], 100 + i);
		}
		for (unsigned k = 0; k < XRC_OPCODES; k++) {
			unsigned to = variant == 1 ? (first + k) % 2 : first;

			request_of(pair_srqn(b, to), xrc_opcodes[k], key[to], 64 * (i + 1), xrc_lengths[(i + k) % XRC_LENGTHS],
				   200 + 10 * i + k);
		}
		/* What is read is not changed before it has come. */
		run();
	}
	return true;
}

/* A number that nothing has, one of another process, one of another domain; and an SRQ whose protection domain is not that of the key. */
static bool wrong_srqs(unsigned variant)
{
	const uint32_t wrong[] = {pair_srqn(b, PAIR_SRQS), pair_srqn(a, 0), pair_srqn(b, 2), pair_srqn(b, 1), 0xffffff};
	enum ibv_wr_opcode opcode = xrc_opcodes[variant % XRC_OPCODES];
	uint32_t length = xrc_lengths[variant / XRC_OPCODES % XRC_LENGTHS];
	unsigned which = variant / XRC_OPCODES / XRC_LENGTHS;

	if (which == 2 * sizeof(wrong) / sizeof(wrong[0]))
		return false;
	connect_usually();
	for (unsigned i = 0; i < PAIR_SRQS; i++)
		receive_of(i, 1 << 20, 8192, b->key, i);
	/* With and without something that went well before. */
	if (which % 2) {
		receive_of(0, 1 << 20, 8192, b->key, 10);
		request_of(pair_srqn(b, 0), IBV_WR_SEND, 0, 0, 16, 20);
		request_of(pair_srqn(b, 0), IBV_WR_RDMA_WRITE, b->key, 0, 16, 21);
	}
	request_of(wrong[which / 2], opcode, b->key, 64, length, 22);
	request_of(pair_srqn(b, 0), IBV_WR_SEND, 0, 0, 16, 23);
	run();
	return true;
}

/* It is destroyed before a request that names it has been begun, or while one waits there for a receive. */
static bool an_srq_goes(unsigned variant)
{
	enum ibv_wr_opcode opcode = xrc_opcodes[variant % XRC_OPCODES];

	if (variant == 3 * XRC_OPCODES)
		return false;
	connect_usually();
	receive_of(0, 1 << 20, 8192, b->key, 1);
	request_of(pair_srqn(b, 0), IBV_WR_SEND, 0, 0, 8, 2);
	run();
	if (variant / XRC_OPCODES == 1)
		request_of(pair_srqn(b, 0), IBV_WR_SEND, 0, 0, 5000, 3);
	pair_run(&pair, pair.now);
	pair_drop_srq(b, variant / XRC_OPCODES == 2 ? 1 : 0);
	request_of(pair_srqn(b, 0), opcode, b->key, 64, 5000, 4);
	pair_run(&pair, pair.now + VB_MILLISECONDS(50));
	return true;
}

static const struct scene {
	const char *name;
	bool (*play)(unsigned variant);
	struct pair_options options;
	/* By iWARP too. The others differ by design (docs/iwarp.md): a SEND or WRITE has completed before the peer finds fault with it, and
	 * the states are those of a connection. */
	bool by_stream;
	/* By iWARP in its own way: the same past the stream as by it. */
	bool past_stream;
} scenes[] = {
	{"everything goes well", everything_goes_well},
	{"everything goes well, all signalled", everything_goes_well, {.signal_all = true}},
	{.by_stream = true, .name = "everything but SEND with immediate", .play = everything_but_send_immediate},
	{.by_stream = true, .name = "long lists", .play = long_lists},
	{.past_stream = true, .name = "bad keys", .play = bad_keys},
	{.past_stream = true, .name = "queue pair rights", .play = queue_pair_rights},
	{.past_stream = true, .name = "our own memory", .play = our_own_memory_is_at_fault},
	{.past_stream = true, .name = "receives at fault", .play = receives_at_fault},
	{.by_stream = true, .name = "odd regions", .play = odd_regions},
	{.past_stream = true, .name = "unmapped memory", .play = unmapped_memory},
	{.past_stream = true, .name = "windows", .play = windows},
	{.past_stream = true, .name = "nobody receives", .play = nobody_receives},
	{"draining", draining},
	{"the error state", the_error_state},
	{"the error state, shared receives", the_error_state, {.with_srq = true}},
	{.past_stream = true, .name = "no reads allowed", .play = no_reads_allowed},
	{"communication established", communication_is_established},
	{"nobody answers", nobody_answers},
	{.past_stream = true, .name = "shared receives", .play = shared_receives, .options = {.with_srq = true}},
	{.past_stream = true, .name = "bad keys, shared receives", .play = bad_keys, .options = {.with_srq = true}},
	{.past_stream = true, .name = "full completion queues", .play = full_completion_queues, .options = {.cq_capacity = 2}},
	{"UC: everything goes well", everything_goes_well, {.unreliable = true}},
	{"UC: everything goes well, all signalled", everything_goes_well, {.unreliable = true, .signal_all = true}},
	{"UC: long lists", long_lists, {.unreliable = true}},
	{"UC: bad keys", bad_keys, {.unreliable = true}},
	{"UC: queue pair rights", queue_pair_rights, {.unreliable = true}},
	{"UC: our own memory", our_own_memory_is_at_fault, {.unreliable = true}},
	{"UC: receives at fault", receives_at_fault, {.unreliable = true}},
	{"UC: odd regions", odd_regions, {.unreliable = true}},
	{"UC: unmapped memory", unmapped_memory, {.unreliable = true}},
	{"UC: windows", windows, {.unreliable = true}},
	{"UC: nobody receives", nobody_receives, {.unreliable = true}},
	{"UC: draining", draining, {.unreliable = true}},
	{"UC: the error state", the_error_state, {.unreliable = true}},
	{"UC: the error state, shared receives", the_error_state, {.unreliable = true, .with_srq = true}},
	{"UC: communication established", communication_is_established, {.unreliable = true}},
	{"UC: nobody answers", nobody_answers, {.unreliable = true}},
	{"UC: shared receives", shared_receives, {.unreliable = true, .with_srq = true}},
	{"UC: bad keys, shared receives", bad_keys, {.unreliable = true, .with_srq = true}},
	{"UC: full completion queues", full_completion_queues, {.unreliable = true, .cq_capacity = 2}},
	{"XRC: everything goes well", everything_goes_well, {.xrc = true}},
	{"XRC: everything goes well, all signalled", everything_goes_well, {.xrc = true, .signal_all = true}},
	{"XRC: bad keys", bad_keys, {.xrc = true}},
	{"XRC: queue pair rights", queue_pair_rights, {.xrc = true}},
	{"XRC: our own memory", our_own_memory_is_at_fault, {.xrc = true}},
	{"XRC: receives at fault", receives_at_fault, {.xrc = true}},
	{"XRC: odd regions", odd_regions, {.xrc = true}},
	{"XRC: unmapped memory", unmapped_memory, {.xrc = true}},
	{"XRC: nobody receives", nobody_receives, {.xrc = true}},
	{"XRC: draining", draining, {.xrc = true}},
	{"XRC: the error state", the_error_state, {.xrc = true}},
	{"XRC: no reads allowed", no_reads_allowed, {.xrc = true}},
	{"XRC: communication established", communication_is_established, {.xrc = true}},
	{"XRC: nobody answers", nobody_answers, {.xrc = true}},
	{"XRC: shared receives", shared_receives, {.xrc = true}},
	{"XRC: full completion queues", full_completion_queues, {.xrc = true, .cq_capacity = 2}},
	{"XRC: several SRQs", several_srqs, {.xrc = true}},
	{"XRC: wrong SRQs", wrong_srqs, {.xrc = true}},
	{"XRC: an SRQ goes", an_srq_goes, {.xrc = true}},
};

struct played {
	char log[PAIR_LOG];
	uint64_t digest[2];
	unsigned moved;                  /* copies by the engine of memory */
};

static bool play(const struct scene *scene, unsigned variant, enum carrier carrier, bool shared, struct played *played)
{
	bool exists;

	pair_open(&pair, carrier, &scene->options);
	a->shares_memory = b->shares_memory = shared;
	exists = scene->play(variant);
	strcpy(played->log, pair_collect(&pair));
	for (unsigned i = 0; i < 2; i++)
		played->digest[i] = pair_digest(&pair.process[i]);
	played->moved = a->writes + a->reads + a->shares + b->writes + b->reads + b->shares;
	pair_close(&pair);
	return exists;
}

static void memory_is_like_the_wire(void **state)
{
	static struct played wire, memory;
	unsigned differences = 0, played = 0;

	(void)state;
	for (unsigned s = 0; s < sizeof(scenes) / sizeof(scenes[0]); s++)
		for (unsigned variant = 0; play(&scenes[s], variant, BY_WIRE, false, &wire); variant++)
			for (unsigned shared = 0; shared < 2; shared++, played++) {
				play(&scenes[s], variant, BY_MEMORY, shared, &memory);
				if (strcmp(wire.log, memory.log) != 0) {
					print_message("%s %u%s: by wire\n%sthrough memory\n%s\n", scenes[s].name, variant,
						      shared ? " (shared)" : "", wire.log, memory.log);
					differences++;
				}
				for (unsigned i = 0; i < 2; i++)
					if (wire.digest[i] != memory.digest[i]) {
						print_message("%s %u%s: other bytes at %u\n", scenes[s].name, variant,
							      shared ? " (shared)" : "", i);
						differences++;
					}
			}
	print_message("%u scenes played\n", played);
	assert_int_equal(differences, 0);
}

static void print_from_difference(const char *log, const char *other)
{
	size_t same = 0, line = 0;

	for (; log[same] && log[same] == other[same]; same++)
		if (log[same] == '\n')
			line = same + 1;
	print_message("%.700s\n", log + line);
}

static void streams_are_like_the_wire(void **state)
{
	static struct played wire, stream;
	unsigned differences = 0, played = 0;

	(void)state;
	for (unsigned s = 0; s < sizeof(scenes) / sizeof(scenes[0]); s++)
		for (unsigned variant = 0; scenes[s].by_stream && play(&scenes[s], variant, BY_WIRE, false, &wire); variant++, played++) {
			play(&scenes[s], variant, BY_STREAM, false, &stream);
			if (strcmp(wire.log, stream.log) != 0 || memcmp(wire.digest, stream.digest, sizeof(wire.digest)) != 0) {
				print_message("%s %u: by wire\n", scenes[s].name, variant);
				print_from_difference(wire.log, stream.log);
				print_message("by a stream\n");
				print_from_difference(stream.log, wire.log);
				differences++;
			}
		}
	print_message("%u scenes played\n", played);
	assert_int_equal(differences, 0);
	assert_true(played > 80);
}

static void past_a_stream_is_like_a_stream(void **state)
{
	static struct played stream, past;
	unsigned differences = 0, played = 0, moved = 0;

	(void)state;
	for (unsigned s = 0; s < sizeof(scenes) / sizeof(scenes[0]); s++)
		for (unsigned variant = 0; (scenes[s].by_stream || scenes[s].past_stream) &&
					   play(&scenes[s], variant, BY_STREAM, false, &stream); variant++)
			for (unsigned shared = 0; shared < 2; shared++, played++) {
				play(&scenes[s], variant, BY_BYPASS, shared, &past);
				moved += past.moved;
				if (strcmp(stream.log, past.log) == 0 && memcmp(stream.digest, past.digest, sizeof(past.digest)) == 0)
					continue;
				print_message("%s %u%s: by a stream\n", scenes[s].name, variant, shared ? " (shared)" : "");
				print_from_difference(stream.log, past.log);
				print_message("past it\n");
				print_from_difference(past.log, stream.log);
				differences++;
			}
	print_message("%u scenes played, %u copies past the stream\n", played, moved);
	assert_int_equal(differences, 0);
	assert_true(played > 1000 && moved > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_like_the_wire),
		cmocka_unit_test(streams_are_like_the_wire),
		cmocka_unit_test(past_a_stream_is_like_a_stream),
	};

	return cmocka_run_group_tests_name("local/parity", tests, NULL, NULL);
}
