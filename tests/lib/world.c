/* SPDX-License-Identifier: MIT
 *
 * See world.h.
 */
#include "lib/world.h"

#include "lib/patience.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* The first GID in use. */
static void find_gid(struct world *world)
{
	static const union ibv_gid hole;

	for (int i = 0; i < 64; i++) {
		if (ibv_query_gid(world->context, 1, i, &world->gid) == 0 &&
		    memcmp(&world->gid, &hole, sizeof(hole)) != 0) {
			world->gid_index = i;
			return;
		}
	}
	fail_msg("the device has no GID");
}

void world_open(struct world *world, const char *interface)
{
	char name[64];
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	assert_non_null(list);
	snprintf(name, sizeof(name), "roce_%s", interface);
	memset(world, 0, sizeof(*world));
	for (int i = 0; i < count; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) == 0) {
			world->context = ibv_open_device(list[i]);
			assert_non_null(world->context);
		}
	}
	ibv_free_device_list(list);
	assert_non_null(world->context);
	world->pd = ibv_alloc_pd(world->context);
	assert_non_null(world->pd);
	find_gid(world);
}

void world_close(struct world *world)
{
	assert_int_equal(ibv_dealloc_pd(world->pd), 0);
	assert_int_equal(ibv_close_device(world->context), 0);
}

static void create_queue_pair(struct pair *pair, int side)
{
	const struct pair_options *options = &pair->options;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = pair->cq[side],
		.recv_cq = pair->cq[side],
		.srq = side == 1 ? options->srq : NULL,
		.cap = {
			.max_send_wr = options->depth,
			.max_recv_wr = options->depth,
			.max_send_sge = options->sge,
			.max_recv_sge = options->sge,
			.max_inline_data = options->inline_data,
		},
		.qp_type = options->type,
		.sq_sig_all = options->signal_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pair->world->pd,
	};

	if (options->send_ops != 0) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = options->send_ops;
	}
	pair->qp[side] = ibv_create_qp_ex(pair->world->context, &attr);
	assert_non_null(pair->qp[side]);
}

static struct ibv_ah_attr address(const struct pair *pair)
{
	struct ibv_ah_attr attr = {
		.grh = {.dgid = pair->world->gid, .sgid_index = (uint8_t)pair->world->gid_index, .hop_limit = 64},
		.is_global = 1,
		.port_num = 1,
	};

	return attr;
}

void pair_open(struct pair *pair, struct world *world, const struct pair_options *options)
{
	struct ibv_ah_attr attr;

	memset(pair, 0, sizeof(*pair));
	pair->world = world;
	if (options != NULL)
		pair->options = *options;
	if (pair->options.type == 0)
		pair->options.type = IBV_QPT_RC;
	if (pair->options.depth == 0)
		pair->options.depth = 64;
	if (pair->options.sge == 0)
		pair->options.sge = 4;
	if (pair->options.access == 0)
		pair->options.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	for (int side = 0; side < 2; side++) {
		pair->cq[side] = ibv_create_cq(world->context, (int)pair->options.depth * 2, pair, pair->options.channel, 0);
		assert_non_null(pair->cq[side]);
		pair->buffer[side] = aligned_alloc(4096, PAIR_BUFFER);
		memset(pair->buffer[side], 0, PAIR_BUFFER);
		pair->mr[side] = ibv_reg_mr(world->pd, pair->buffer[side], PAIR_BUFFER,
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
		assert_non_null(pair->mr[side]);
		create_queue_pair(pair, side);
		attr = address(pair);
		if (pair->options.type == IBV_QPT_UD) {
			pair->ah[side] = ibv_create_ah(world->pd, &attr);
			assert_non_null(pair->ah[side]);
		}
	}
	if (!pair->options.stay_in_reset)
		pair_connect(pair);
}

void pair_close(struct pair *pair)
{
	for (int side = 0; side < 2; side++) {
		if (pair->qp[side] != NULL)
			assert_int_equal(ibv_destroy_qp(pair->qp[side]), 0);
		if (pair->ah[side] != NULL)
			assert_int_equal(ibv_destroy_ah(pair->ah[side]), 0);
		assert_int_equal(ibv_dereg_mr(pair->mr[side]), 0);
		free(pair->buffer[side]);
	}
	for (int side = 0; side < 2; side++)
		assert_int_equal(ibv_destroy_cq(pair->cq[side]), 0);
}

void pair_to_init(struct pair *pair, int side)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = pair->options.access,
		.qkey = PAIR_QKEY,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	mask |= pair->options.type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	assert_int_equal(ibv_modify_qp(pair->qp[side], &attr, mask), 0);
}

uint32_t pair_psn(uint32_t qpn)
{
	return qpn * UINT32_C(2654435761) >> 8;
}

void pair_to_rtr(struct pair *pair, int side)
{
	const struct pair_options *options = &pair->options;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = options->mtu != 0 ? options->mtu : IBV_MTU_1024,
		.dest_qp_num = pair->elsewhere != 0 ? pair->elsewhere : pair->qp[!side]->qp_num,
		.rq_psn = pair_psn(pair->elsewhere != 0 ? pair->elsewhere : pair->qp[!side]->qp_num),
		.max_dest_rd_atomic = options->read_depth != 0 ? (uint8_t)options->read_depth : 16,
		.min_rnr_timer = options->min_rnr_timer != 0 ? options->min_rnr_timer : 1,
		.ah_attr = address(pair),
	};
	int mask = IBV_QP_STATE;

	if (options->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (options->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	assert_int_equal(ibv_modify_qp(pair->qp[side], &attr, mask), 0);
}

static uint8_t chosen(bool zero, uint8_t value, uint8_t otherwise)
{
	return zero ? 0 : value != 0 ? value : otherwise;
}

void pair_to_rts(struct pair *pair, int side)
{
	const struct pair_options *options = &pair->options;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = pair_psn(pair->qp[side]->qp_num),
		.timeout = chosen(options->no_timeout, options->timeout, 14),
		.retry_cnt = chosen(options->no_retry, options->retry, 7),
		.rnr_retry = chosen(options->no_rnr_retry, options->rnr_retry, 7),
		.max_rd_atomic = options->read_depth != 0 ? (uint8_t)options->read_depth : 16,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (options->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	assert_int_equal(ibv_modify_qp(pair->qp[side], &attr, mask), 0);
}

void pair_connect(struct pair *pair)
{
	for (int side = 0; side < 2; side++)
		pair_to_init(pair, side);
	for (int side = 0; side < 2; side++)
		pair_to_rtr(pair, side);
	for (int side = 0; side < 2; side++)
		pair_to_rts(pair, side);
}

void pair_reset(struct pair *pair, int side)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	assert_int_equal(ibv_modify_qp(pair->qp[side], &attr, IBV_QP_STATE), 0);
}

void pair_receive(struct pair *pair, int side, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)pair->buffer[side] + offset, length, pair->mr[side]->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(pair->qp[side], &wr, &bad), 0);
}

struct ibv_send_wr pair_request(struct pair *pair, int side, enum ibv_wr_opcode opcode, struct ibv_sge *sge, size_t offset,
				uint32_t length)
{
	struct ibv_send_wr wr = {
		.wr_id = 0x5e4d,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	sge->addr = (uintptr_t)pair->buffer[side] + offset;
	sge->length = length;
	sge->lkey = pair->mr[side]->lkey;
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ:
		wr.wr.rdma.remote_addr = (uintptr_t)pair->buffer[!side] + offset;
		wr.wr.rdma.rkey = pair->mr[!side]->rkey;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wr.wr.atomic.remote_addr = (uintptr_t)pair->buffer[!side] + offset;
		wr.wr.atomic.rkey = pair->mr[!side]->rkey;
		break;
	default:
		if (pair->options.type == IBV_QPT_UD) {
			wr.wr.ud.ah = pair->ah[!side];
			wr.wr.ud.remote_qpn = pair->qp[!side]->qp_num;
			wr.wr.ud.remote_qkey = PAIR_QKEY;
		}
		break;
	}
	return wr;
}

void pair_post(struct pair *pair, int side, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(pair->qp[side], wr, &bad), 0);
}

struct ibv_wc wait_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int got;

	assert_true(eventually((got = ibv_poll_cq(cq, 1, &wc)) != 0));
	assert_int_equal(got, 1);
	return wc;
}

struct ibv_wc expect_status(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = wait_completion(cq);

	assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
	assert_int_equal(wc.wr_id, wr_id);
	return wc;
}

struct ibv_wc expect_completion(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = expect_status(cq, wr_id, IBV_WC_SUCCESS);

	assert_int_equal(wc.opcode, opcode);
	return wc;
}

void expect_silence(struct ibv_cq *cq)
{
	int64_t end = patience_clock() + 20;
	struct ibv_wc wc;

	do {
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	} while (patience_clock() < end);
}

struct ibv_async_event expect_event(struct ibv_context *context, enum ibv_event_type type)
{
	struct pollfd waiting = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	assert_int_equal(poll(&waiting, 1, PATIENCE_MS), 1);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_string_equal(ibv_event_type_str(event.event_type), ibv_event_type_str(type));
	ibv_ack_async_event(&event);
	return event;
}

enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

void to_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

static uint8_t pattern_byte(size_t i, uint32_t seed)
{
	return (uint8_t)((i * 2654435761u + seed * 40503u) >> 7);
}

void fill_pattern(uint8_t *bytes, size_t length, uint32_t seed)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = pattern_byte(i, seed);
}

bool has_pattern(const uint8_t *bytes, size_t length, uint32_t seed)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i] != pattern_byte(i, seed))
			return false;
	return true;
}
