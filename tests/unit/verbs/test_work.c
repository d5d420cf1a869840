/* SPDX-License-Identifier: MIT
 *
 * Work of every kind over every service: the bytes arrive, and every field of every completion is right.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"

static const uint32_t lengths[] = {0, 1, 2, 3, 4, 255, 256, 1023, 1024, 1025, 4096, 5000, 65536, 200000};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

/* Connected without acknowledgements, nothing holds the sender back: no more than the smallest socket buffer takes while
 * its reader is off the processor. */
static bool fits(enum ibv_qp_type type, uint32_t length)
{
	return length <= (type == IBV_QPT_UD ? 4096 : type == IBV_QPT_UC ? 65536 : UINT32_MAX);
}

static void check_receive(const struct pair *pair, const struct ibv_wc *wc, uint32_t length)
{
	assert_int_equal(wc->byte_len, length);
	assert_int_equal(wc->qp_num, pair->qp[1]->qp_num);
	assert_int_equal(wc->pkey_index, 0);
}

static void send_all_lengths(enum ibv_qp_type type, enum ibv_wr_opcode opcode, enum ibv_mtu mtu)
{
	const struct pair_options options = {.type = type, .mtu = mtu};
	struct pair pair;

	pair_open(&pair, &world, &options);
	for (int i = 0; i < LENGTHS; i++) {
		uint32_t grh = type == IBV_QPT_UD ? 40 : 0;
		struct ibv_sge sge;
		struct ibv_send_wr wr;
		struct ibv_wc wc;

		if (!fits(type, lengths[i]))
			break;
		memset(pair.buffer[1], 0, lengths[i] + grh);
		fill_pattern(pair.buffer[0], lengths[i], (uint32_t)i + 1);
		pair_receive(&pair, 1, 77, 0, lengths[i] + grh);
		wr = pair_request(&pair, 0, opcode, &sge, 0, lengths[i]);
		wr.imm_data = htonl(0xabcd0000u + (uint32_t)i);
		pair_post(&pair, 0, &wr);
		wc = expect_completion(pair.cq[1], 77, IBV_WC_RECV);
		check_receive(&pair, &wc, lengths[i] + grh);
		assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, opcode == IBV_WR_SEND_WITH_IMM ? IBV_WC_WITH_IMM : 0);
		if (opcode == IBV_WR_SEND_WITH_IMM)
			assert_int_equal(wc.imm_data, htonl(0xabcd0000u + (uint32_t)i));
		assert_int_equal(wc.wc_flags & IBV_WC_GRH, type == IBV_QPT_UD ? IBV_WC_GRH : 0);
		assert_int_equal(wc.sl, type == IBV_QPT_UD ? 0xa : 0);
		if (type == IBV_QPT_UD) {
			assert_int_equal(wc.src_qp, pair.qp[0]->qp_num);
		}
		assert_true(has_pattern(pair.buffer[1] + grh, lengths[i], (uint32_t)i + 1));
		wc = expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
		assert_int_equal(wc.qp_num, pair.qp[0]->qp_num);
	}
	pair_close(&pair);
}

static void sends(void **state)
{
	(void)state;
	for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
		send_all_lengths(IBV_QPT_RC, IBV_WR_SEND, (enum ibv_mtu)mtu);
	send_all_lengths(IBV_QPT_RC, IBV_WR_SEND_WITH_IMM, IBV_MTU_1024);
	send_all_lengths(IBV_QPT_UC, IBV_WR_SEND, IBV_MTU_4096);
	send_all_lengths(IBV_QPT_UC, IBV_WR_SEND_WITH_IMM, IBV_MTU_4096);
	send_all_lengths(IBV_QPT_UD, IBV_WR_SEND, IBV_MTU_4096);
	send_all_lengths(IBV_QPT_UD, IBV_WR_SEND_WITH_IMM, IBV_MTU_4096);
}

/* The receive has completed, the acknowledgement is on its way: a queue pair that is told to end takes it in first. */
static void what_has_arrived_is_not_flushed(void **state)
{
	const struct pair_options options = {.type = IBV_QPT_RC, .mtu = IBV_MTU_1024};
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

	unsigned flushed = 0;

	(void)state;
	for (int i = 0; i < 50; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr;
		struct pair pair;
		struct ibv_wc wc;

		pair_open(&pair, &world, &options);
		pair_receive(&pair, 1, 77, 0, 8);
		wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 8);
		pair_post(&pair, 0, &wr);
		expect_completion(pair.cq[1], 77, IBV_WC_RECV);
		assert_int_equal(ibv_modify_qp(pair.qp[0], &error, IBV_QP_STATE), 0);
		wc = wait_completion(pair.cq[0]);
		assert_int_equal(wc.wr_id, wr.wr_id);
		flushed += wc.status == IBV_WC_WR_FLUSH_ERR;
		assert_true(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_WR_FLUSH_ERR);
		pair_close(&pair);
	}
	/* On a busy machine Linux itself may hold an acknowledgement back for a while, between the two sockets. Without taking in what has
	 * come it is nearly all of them. */
	assert_true(flushed < 25);
}

/* Memory that a peer writes meanwhile: no order is promised, and ThreadSanitizer is not asked. */
__attribute__((no_sanitize("thread"), noinline)) static bool is_equal(const uint8_t *there, const uint8_t *sent, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		if (there[i] != sent[i])
			return false;
	return true;
}

static bool arrived(struct pair *pair, uint32_t length)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(pair->cq[1], 1, &wc), 0);
	return is_equal(pair->buffer[1], pair->buffer[0], length);
}

static void write_all_lengths(enum ibv_qp_type type, bool immediate)
{
	const struct pair_options options = {.type = type, .mtu = IBV_MTU_4096};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct pair pair;

	pair_open(&pair, &world, &options);
	for (int i = 0; i < LENGTHS; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr;
		struct ibv_wc wc;

		if (!fits(type, lengths[i]))
			break;
		memset(pair.buffer[1], 0, lengths[i]);
		fill_pattern(pair.buffer[0], lengths[i], (uint32_t)i);
		wr = pair_request(&pair, 0, immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, &sge, 0, lengths[i]);
		wr.imm_data = htonl((uint32_t)i);
		if (immediate)
			pair_receive(&pair, 1, 5, PAIR_BUFFER - 8, 0);
		pair_post(&pair, 0, &wr);
		if (immediate) {
			wc = expect_completion(pair.cq[1], 5, IBV_WC_RECV_RDMA_WITH_IMM);
			check_receive(&pair, &wc, lengths[i]);
			assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
			assert_int_equal(wc.imm_data, htonl((uint32_t)i));
		}
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
		/* Of an unreliable write without immediate only the sending is known: look until it is there. */
		assert_true(eventually(arrived(&pair, lengths[i])));
		/* What wrote it has let go of the queue pair, and of the memory. */
		assert_int_equal(ibv_query_qp(pair.qp[1], &attr, IBV_QP_STATE, &init), 0);
	}
	pair_close(&pair);
}

static void writes(void **state)
{
	(void)state;
	write_all_lengths(IBV_QPT_RC, false);
	write_all_lengths(IBV_QPT_RC, true);
	write_all_lengths(IBV_QPT_UC, false);
	write_all_lengths(IBV_QPT_UC, true);
}

static void reads(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, NULL);
	for (int i = 0; i < LENGTHS; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(&pair, 0, IBV_WR_RDMA_READ, &sge, 0, lengths[i]);
		struct ibv_wc wc;

		memset(pair.buffer[0], 0, lengths[i]);
		fill_pattern(pair.buffer[1], lengths[i], (uint32_t)i + 9);
		pair_post(&pair, 0, &wr);
		wc = expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_READ);
		assert_int_equal(wc.byte_len, lengths[i]);
		assert_true(has_pattern(pair.buffer[0], lengths[i], (uint32_t)i + 9));
	}
	pair_close(&pair);
}

static void atomics(void **state)
{
	struct pair pair;
	uint64_t *mine, *theirs;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	mine = (uint64_t *)(void *)pair.buffer[0];
	theirs = (uint64_t *)(void *)(pair.buffer[1]);
	*theirs = 1000;
	wr = pair_request(&pair, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 0, 8);
	wr.wr.atomic.compare_add = 17;
	pair_post(&pair, 0, &wr);
	assert_int_equal(expect_completion(pair.cq[0], wr.wr_id, IBV_WC_FETCH_ADD).byte_len, 8);
	assert_int_equal(*mine, 1000);
	assert_int_equal(*theirs, 1017);
	wr = pair_request(&pair, 0, IBV_WR_ATOMIC_CMP_AND_SWP, &sge, 0, 8);
	wr.wr.atomic.compare_add = 5;
	wr.wr.atomic.swap = 99;
	pair_post(&pair, 0, &wr);
	assert_int_equal(expect_completion(pair.cq[0], wr.wr_id, IBV_WC_COMP_SWAP).byte_len, 8);
	assert_int_equal(*mine, 1017);
	assert_int_equal(*theirs, 1017);
	wr.wr.atomic.compare_add = 1017;
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_COMP_SWAP);
	assert_int_equal(*theirs, 99);
	pair_close(&pair);
}

static void lists_of_elements_gather_and_scatter(void **state)
{
	const struct pair_options options = {.sge = 30};
	struct pair pair;
	struct ibv_sge out[30], in[30];
	struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = in, .num_sge = 30}, *bad_receive;
	struct ibv_send_wr wr;
	uint32_t total = 0;

	(void)state;
	pair_open(&pair, &world, &options);
	fill_pattern(pair.buffer[0], PAIR_BUFFER, 4);
	for (uint32_t i = 0; i < 30; i++) {
		out[i] = (struct ibv_sge){(uintptr_t)pair.buffer[0] + i * 1000, i * 7 % 300, pair.mr[0]->lkey};
		total += out[i].length;
	}
	for (uint32_t i = 0; i < 30; i++)
		in[i] = (struct ibv_sge){(uintptr_t)pair.buffer[1] + i * 500, i == 29 ? 10000 : 133, pair.mr[1]->lkey};
	assert_int_equal(ibv_post_recv(pair.qp[1], &receive, &bad_receive), 0);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &out[0], 0, 0);
	out[0] = (struct ibv_sge){(uintptr_t)pair.buffer[0], 0, pair.mr[0]->lkey};
	wr.sg_list = out;
	wr.num_sge = 30;
	pair_post(&pair, 0, &wr);
	assert_int_equal(expect_completion(pair.cq[1], 1, IBV_WC_RECV).byte_len, total);
	for (uint32_t i = 0, at = 0; i < 30; i++) {
		for (uint32_t j = 0; j < out[i].length; j++, at++) {
			uint32_t element = at / 133 > 29 ? 29 : at / 133;

			assert_int_equal(pair.buffer[1][element * 500 + at - element * 133], pair.buffer[0][i * 1000 + j]);
		}
	}
	pair_close(&pair);
}

static void inline_bytes_may_be_reused_at_once(void **state)
{
	const struct pair_options options = {.inline_data = 256};
	struct pair pair;
	uint8_t bytes[257];
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad;

	(void)state;
	pair_open(&pair, &world, &options);
	for (uint32_t length = 0; length <= 256; length += 64) {
		fill_pattern(bytes, length, length + 1);
		pair_receive(&pair, 1, length, 0, 256);
		wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, length);
		sge = (struct ibv_sge){(uintptr_t)bytes, length, 0xdead};        /* unregistered */
		wr.send_flags |= IBV_SEND_INLINE;
		pair_post(&pair, 0, &wr);
		memset(bytes, 0xee, sizeof(bytes));
		assert_int_equal(expect_completion(pair.cq[1], length, IBV_WC_RECV).byte_len, length);
		assert_true(has_pattern(pair.buffer[1], length, length + 1));
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
	}
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 1025);
	wr.send_flags |= IBV_SEND_INLINE;
	assert_int_equal(ibv_post_send(pair.qp[0], &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	pair_close(&pair);
}

static void unsignalled_work_is_silent_and_its_room_returns(void **state)
{
	const struct pair_options options = {.depth = 8};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &options);
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 7; i++) {
			wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 10);
			wr.send_flags = 0;
			pair_post(&pair, 0, &wr);
		}
		wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 10);
		wr.wr_id = (uint64_t)round;
		pair_post(&pair, 0, &wr);
		expect_completion(pair.cq[0], (uint64_t)round, IBV_WC_RDMA_WRITE);
	}
	expect_silence(pair.cq[0]);
	pair_close(&pair);
}

/* Unsignaled requests until one is refused. */
static unsigned room(struct pair *pair, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr *bad;
	struct ibv_sge sge;
	unsigned taken = 0;
	int error = 0;

	while (error == 0) {
		struct ibv_send_wr wr = pair_request(pair, 0, opcode, &sge, 0, 8);

		wr.send_flags = 0;
		error = ibv_post_send(pair->qp[0], &wr, &bad);
		taken += error == 0;
		assert_true(taken <= pair->options.depth);
	}
	assert_int_equal(error, ENOMEM);
	return taken;
}

static bool is_there(const uint8_t *byte, uint8_t value, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	return __atomic_load_n(byte, __ATOMIC_ACQUIRE) == value;
}

/* docs/learn/3-completions.md: "a request keeps its place in the send queue until a later signaled one is completed". Adapters find out by
 * the completion that is polled; that the bytes are long there changes nothing. */
static void unsignaled_requests_keep_their_place(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ};
	static const enum ibv_wc_opcode completions[] = {IBV_WC_RDMA_WRITE, IBV_WC_SEND, IBV_WC_RDMA_READ};
	const struct pair_options options = {.depth = 16};

	(void)state;
	for (unsigned kind = 0; kind < sizeof(opcodes) / sizeof(opcodes[0]); kind++) {
		struct pair pair;
		struct ibv_sge sge;
		struct ibv_send_wr wr;

		pair_open(&pair, &world, &options);
		for (unsigned i = 0; i < 16; i++)
			pair_receive(&pair, 1, i, 1024, 64);
		memset(pair.buffer[0], 0, PAIR_BUFFER);
		memset(pair.buffer[1], 0, PAIR_BUFFER);
		for (unsigned i = 0; i < 16; i++) {
			wr = pair_request(&pair, 0, opcodes[kind], &sge, i * 8, 8);
			wr.wr_id = i;
			wr.send_flags = i == 9 ? IBV_SEND_SIGNALED : 0;
			memset((kind == 2 ? pair.buffer[1] : pair.buffer[0]) + i * 8, 7, 8);
			pair_post(&pair, 0, &wr);
		}
		assert_int_equal(room(&pair, opcodes[kind]), 0);
		expect_completion(pair.cq[0], 9, completions[kind]);
		/* The last has done its work, too, and keeps its place. */
		assert_true(eventually(is_there(kind == 0 ? pair.buffer[1] + 15 * 8 : kind == 1 ? pair.buffer[1] + 1024 :
					       pair.buffer[0] + 15 * 8, 7, pair.cq[0])));
		assert_int_equal(room(&pair, opcodes[kind]), 10);
		expect_silence(pair.cq[0]);
		assert_int_equal(room(&pair, opcodes[kind]), 0);
		pair_close(&pair);
	}
}

static void sq_sig_all_signals_everything(void **state)
{
	const struct pair_options options = {.signal_all = true};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &options);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 10);
	wr.send_flags = 0;
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
	pair_close(&pair);
}

/* A list is taken up to the first bad request, and that one is named. */
static void bad_requests_are_named(void **state)
{
	const struct pair_options options = {.depth = 4};
	struct pair pair;
	struct ibv_sge sge[6], in;
	struct ibv_send_wr wr[6], *bad = NULL;
	struct ibv_recv_wr receive[6], *bad_receive = NULL;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t room, posted = 0;

	(void)state;
	pair_open(&pair, &world, &options);
	for (int i = 0; i < 3; i++) {
		wr[i] = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge[i], 0, 8);
		wr[i].wr_id = (uint64_t)i;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].num_sge = 31;
	assert_int_equal(ibv_post_send(pair.qp[0], &wr[0], &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	expect_completion(pair.cq[0], 0, IBV_WC_RDMA_WRITE);
	expect_silence(pair.cq[0]);
	wr[0].opcode = (enum ibv_wr_opcode)13;
	assert_int_equal(ibv_post_send(pair.qp[0], &wr[0], &bad), EINVAL);
	assert_ptr_equal(bad, &wr[0]);

	/* Queue full: ENOMEM. Receives nobody takes stay. */
	assert_int_equal(ibv_query_qp(pair.qp[1], &attr, IBV_QP_CAP, &init), 0);
	room = attr.cap.max_recv_wr;
	in = (struct ibv_sge){(uintptr_t)pair.buffer[1], 8, pair.mr[1]->lkey};
	for (int i = 0; i < 6; i++)
		receive[i] = (struct ibv_recv_wr){.wr_id = (uint64_t)i, .sg_list = &in, .num_sge = 1};
	while (ibv_post_recv(pair.qp[1], &receive[0], &bad_receive) == 0)
		assert_true(++posted <= room);
	assert_int_equal(posted, room);
	assert_int_equal(ibv_post_recv(pair.qp[1], &receive[1], &bad_receive), ENOMEM);
	assert_ptr_equal(bad_receive, &receive[1]);
	receive[1].num_sge = 31;
	assert_int_equal(ibv_post_recv(pair.qp[0], &receive[1], &bad_receive), EINVAL);
	pair_close(&pair);
}

static void posting_before_time_is_refused(void **state)
{
	const struct pair_options options = {.stay_in_reset = true};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad;
	struct ibv_recv_wr receive = {0}, *bad_receive;

	(void)state;
	pair_open(&pair, &world, &options);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 8);
	assert_int_equal(ibv_post_send(pair.qp[0], &wr, &bad), EINVAL);
	assert_int_equal(ibv_post_recv(pair.qp[0], &receive, &bad_receive), EINVAL);
	pair_to_init(&pair, 0);
	assert_int_equal(ibv_post_send(pair.qp[0], &wr, &bad), EINVAL);
	assert_int_equal(ibv_post_recv(pair.qp[0], &receive, &bad_receive), 0);
	pair_close(&pair);
}

/* Reads, atomics and writes together, in order, with fences. */
static void mixed_work_completes_in_order(void **state)
{
	struct pair pair;
	struct ibv_sge sge[32];
	struct ibv_send_wr wr[32], *bad;
	static const enum ibv_wr_opcode mix[] = {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD,
						 IBV_WR_RDMA_WRITE};
	static const enum ibv_wc_opcode seen[] = {IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE, IBV_WC_FETCH_ADD, IBV_WC_RDMA_WRITE};

	(void)state;
	pair_open(&pair, &world, NULL);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 32; i++) {
			wr[i] = pair_request(&pair, 0, mix[i % 4], &sge[i], (size_t)i * 4096, i % 4 == 2 ? 8 : 3000);
			wr[i].wr_id = (uint64_t)i;
			wr[i].next = i < 31 ? &wr[i + 1] : NULL;
			if (i % 5 == 0)
				wr[i].send_flags |= IBV_SEND_FENCE;
		}
		assert_int_equal(ibv_post_send(pair.qp[0], wr, &bad), 0);
		for (int i = 0; i < 32; i++)
			expect_completion(pair.cq[0], (uint64_t)i, seen[i % 4]);
	}
	pair_close(&pair);
}

static void a_large_message(void **state)
{
	struct pair pair;
	size_t length = 8u << 20;
	uint8_t *from = malloc(length), *to = calloc(1, length);
	struct ibv_mr *source, *target;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, NULL);
	fill_pattern(from, length, 6);
	source = ibv_reg_mr(world.pd, from, length, 0);
	target = ibv_reg_mr(world.pd, to, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	wr = pair_request(&pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 0);
	sge = (struct ibv_sge){(uintptr_t)from, (uint32_t)length, source->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)to;
	wr.wr.rdma.rkey = target->rkey;
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[0], wr.wr_id, IBV_WC_RDMA_WRITE);
	assert_memory_equal(from, to, length);
	assert_int_equal(ibv_dereg_mr(source), 0);
	assert_int_equal(ibv_dereg_mr(target), 0);
	free(from);
	free(to);
	pair_close(&pair);
}

static void a_queue_pair_talks_to_itself(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	const struct pair_options options = {.stay_in_reset = true};

	(void)state;
	pair_open(&pair, &world, &options);
	assert_int_equal(ibv_destroy_qp(pair.qp[1]), 0);
	pair.qp[1] = pair.qp[0];
	pair_to_init(&pair, 0);
	{
		struct ibv_qp_attr attr = {
			.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = pair.qp[0]->qp_num,
			.rq_psn = pair_psn(pair.qp[0]->qp_num), .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
			.ah_attr = {.grh = {.dgid = world.gid, .sgid_index = (uint8_t)world.gid_index}, .is_global = 1, .port_num = 1},
		};

		assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	}
	pair_to_rts(&pair, 0);
	pair_receive(&pair, 0, 1, 4096, 100);
	fill_pattern(pair.buffer[0], 100, 12);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 100);
	pair_post(&pair, 0, &wr);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = wait_completion(pair.cq[0]);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_true(has_pattern(pair.buffer[0] + 4096, 100, 12));
	pair.qp[1] = NULL;
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends),
		cmocka_unit_test(what_has_arrived_is_not_flushed),
		cmocka_unit_test(writes),
		cmocka_unit_test(reads),
		cmocka_unit_test(atomics),
		cmocka_unit_test(lists_of_elements_gather_and_scatter),
		cmocka_unit_test(inline_bytes_may_be_reused_at_once),
		cmocka_unit_test(unsignalled_work_is_silent_and_its_room_returns),
		cmocka_unit_test(unsignaled_requests_keep_their_place),
		cmocka_unit_test(sq_sig_all_signals_everything),
		cmocka_unit_test(bad_requests_are_named),
		cmocka_unit_test(posting_before_time_is_refused),
		cmocka_unit_test(mixed_work_completes_in_order),
		cmocka_unit_test(a_large_message),
		cmocka_unit_test(a_queue_pair_talks_to_itself),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
