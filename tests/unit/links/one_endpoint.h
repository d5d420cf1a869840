/* SPDX-License-Identifier: MIT
 *
 * The endpoint of this process, with memory and a CQ, and queue pairs that are joined to others of the same endpoint over loopback. To be
 * included once, by the program's main file.
 */
#ifndef TESTS_UNIT_LINKS_ONE_ENDPOINT_H
#define TESTS_UNIT_LINKS_ONE_ENDPOINT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "io/process_memory.h"
#include "memory/region.h"
#include "profiles/profile.h"
#include "progress/endpoint.h"
#include "queue/qp.h"
#include "roce/roce.h"

enum { MESSAGE = 64 };

static struct vb_endpoint *endpoint;
static struct vb_memory *memory;
static struct vb_pd pd = {.handle = 1};
static struct vb_cq cq;
static struct vb_counters counters;
static struct vb_queue_host host;
static uint32_t key;
static uint8_t buffer[2][MESSAGE];
static uint8_t address[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};     /* of both ends */

static void on_completion(struct vb_cq *which)
{
	(void)which;
}

static void on_deadline(struct vb_cq *which, vb_time when)
{
	(void)which;
	(void)when;
}

static void on_qp_event(struct vb_qp *qp, enum ibv_event_type event)
{
	(void)qp;
	(void)event;
}

static void on_cq_event(struct vb_cq *which, enum ibv_event_type event)
{
	(void)which;
	(void)event;
}

static void open_endpoint(uint32_t completions)
{
	struct vb_memory_host memory_host = {
		.random = vb_endpoint_random,
		.checked_read = vb_process_memory_read,
		.checked_write = vb_process_memory_write,
	};
	struct vb_region_info region = {.kind = VB_REGION_MR, .pd = &pd, .start = (uintptr_t)buffer, .length = sizeof(buffer),
					.iova = (uintptr_t)buffer, .access = IBV_ACCESS_LOCAL_WRITE};

	assert_int_equal(vb_endpoint_get(&endpoint), 0);
	memory = vb_memory_create(&memory_host, 16);
	assert_non_null(memory);
	assert_int_equal(vb_region_register(memory, &region, &key), 0);
	host = (struct vb_queue_host){
		.profile = &vb_profile_roce,
		.completion_event = on_completion, .completion_deadline = on_deadline, .qp_event = on_qp_event, .cq_event = on_cq_event,
		.random = vb_endpoint_random, .memory = memory, .counters = &counters,
	};
	assert_int_equal(vb_cq_init(&cq, &host, NULL, completions), 0);
}

static void close_endpoint(void)
{
	vb_endpoint_cq_forget(endpoint, &cq);
	vb_cq_fini(&cq);
	vb_memory_destroy(memory);
	vb_endpoint_put(endpoint);
}

static struct vb_qp *create_qp(unsigned lane, uint32_t sends, uint32_t receives)
{
	struct vb_qp_config config = {
		.type = IBV_QPT_RC, .pd = &pd, .send_cq = &cq, .recv_cq = &cq, .signal_all = true,
		.cap = {.max_send_wr = sends, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct vb_qp *qp;

	assert_int_equal(vb_endpoint_reserve_qpn(endpoint, lane, &config.qpn), 0);
	assert_int_equal(vb_qp_create(&config, &host, vb_endpoint_transport(endpoint, VB_DEVICE_ROCE, IBV_QPT_RC), NULL, &qp), 0);
	vb_endpoint_publish(endpoint, qp, lane, &counters);
	return qp;
}

static void destroy_qp(struct vb_qp *qp)
{
	vb_endpoint_withdraw(endpoint, qp);
	vb_qp_destroy(qp);
}

static void modify(struct vb_qp *qp, struct ibv_qp_attr *attr, int mask, const struct vb_path *path)
{
	assert_int_equal(vb_qp_modify(qp, attr, mask, path, IBV_MTU_1024, vb_endpoint_now()), 0);
}

static void join(struct vb_qp *qp, const struct vb_qp *peer, uint8_t timeout, uint8_t retries)
{
	struct vb_path path = {.hop_limit = 64};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE};

	memcpy(path.source, address, 16);
	memcpy(path.destination, address, 16);
	path.source_port = vb_endpoint_source_port(endpoint, &path, peer->qpn, vb_endpoint_lane(qp));
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, NULL);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qpn, .rq_psn = 1, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1},
	};
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, &path);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .sq_psn = 1, .timeout = timeout, .retry_cnt = retries, .rnr_retry = 7, .max_rd_atomic = 1,
	};
	modify(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	       IBV_QP_MAX_QP_RD_ATOMIC, NULL);
}

#endif
