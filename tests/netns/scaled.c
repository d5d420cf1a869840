/* SPDX-License-Identifier: MIT
 *
 * A receiver of UDP datagrams as frames, spread over four work queues by receive side scaling, for test_scaled.py.
 *
 *	scaled DEVICE PORT COUNT
 *	ready
 *	queue QUEUE SOURCE_PORT      for each frame for PORT, until there were COUNT
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

enum { QUEUES = 4, ENTRIES = 8, LOG_ENTRIES = 3, DEPTH = 256, FRAME = 256, PORTS_AT = 14 + 20 };

static uint8_t key[] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

static uint8_t buffer[QUEUES][DEPTH][FRAME];

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = must(ibv_get_device_list(NULL), "ibv_get_device_list"), *found = NULL;
	struct ibv_context *context;

	for (unsigned i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			found = list[i];
	context = must(ibv_open_device(must(found, name)), "ibv_open_device");
	ibv_free_device_list(list);
	return context;
}

static struct ibv_wq *open_queue(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_mr *mr, unsigned queue)
{
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = DEPTH, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_wq *wq = must(ibv_create_wq(pd->context, &init), "ibv_create_wq");
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};

	must_be_zero(ibv_modify_wq(wq, &attr), "ibv_modify_wq");
	for (unsigned i = 0; i < DEPTH; i++) {
		struct ibv_sge sge = {(uintptr_t)buffer[queue][i], FRAME, mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = queue * DEPTH + i, .sg_list = &sge, .num_sge = 1}, *bad;

		must_be_zero(ibv_post_wq_recv(wq, &wr, &bad), "ibv_post_wq_recv");
	}
	return wq;
}

static struct ibv_qp *open_scaled(struct ibv_pd *pd, struct ibv_wq *wq[QUEUES])
{
	struct ibv_wq *entries[ENTRIES];
	struct ibv_rwq_ind_table_init_attr attr = {.log_ind_tbl_size = LOG_ENTRIES, .ind_tbl = entries};
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = pd,
		.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key,
				 IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP},
	};

	for (unsigned i = 0; i < ENTRIES; i++)
		entries[i] = wq[i % QUEUES];
	init.rwq_ind_tbl = must(ibv_create_rwq_ind_table(pd->context, &attr), "ibv_create_rwq_ind_table");
	return must(ibv_create_qp_ex(pd->context, &init), "ibv_create_qp_ex");
}

static void steer(struct ibv_qp *qp, uint16_t port)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_tcp_udp udp;
	} rule = {
		.attr = {.num_of_specs = 1, .port = 1, .size = sizeof(rule)},
		.udp = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(rule.udp), .val = {.dst_port = htons(port)},
			.mask = {.dst_port = 0xffff}},
	};

	must(ibv_create_flow(qp, &rule.attr), "ibv_create_flow");
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc == 4 ? argv[1] : "");
	struct ibv_pd *pd = must(ibv_alloc_pd(context), "ibv_alloc_pd");
	struct ibv_cq *cq = must(ibv_create_cq(context, QUEUES * DEPTH, NULL, NULL, 0), "ibv_create_cq");
	struct ibv_mr *mr = must(ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	struct ibv_wq *wq[QUEUES];

	for (unsigned i = 0; i < QUEUES; i++)
		wq[i] = open_queue(pd, cq, mr, i);
	steer(open_scaled(pd, wq), (uint16_t)atoi(argv[2]));
	puts("ready");
	fflush(stdout);
	for (int left = atoi(argv[3]); left > 0;) {
		struct ibv_wc wc;
		unsigned queue;
		const uint8_t *ports;

		if (ibv_poll_cq(cq, 1, &wc) == 0)
			continue;
		queue = (unsigned)(wc.wr_id / DEPTH);
		ports = buffer[queue][wc.wr_id % DEPTH] + PORTS_AT;
		if (wc.status != IBV_WC_SUCCESS || wc.qp_num != wq[queue]->wq_num) {
			fprintf(stderr, "queue %u: status %d, number %u\n", queue, (int)wc.status, wc.qp_num);
			return 1;
		}
		printf("queue %u %u\n", queue, (unsigned)(ports[0] << 8 | ports[1]));
		left--;
	}
	return 0;
}
