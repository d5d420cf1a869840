/* SPDX-License-Identifier: MIT
 *
 * A process with memory that others want, or one that wants it: told on standard input what to do, for test_attacks.py. Through libibverbs.
 *
 *	attacked ADDRESS             on the device that has it; "ready"
 *	keys                         "keys ADDRESS KEY ...": regions that a peer is given
 *	kept                         the same of those that it is not given
 *	pair                         a new RC queue pair in place of the last, "pair QPN PSN"
 *	connect ADDRESS QPN PSN      "connected"
 *	write KEY ADDRESS            LENGTH bytes to there; "completed STATUS"
 *	send COUNT                   messages; "sent STATUS" when the last, or one that failed, has completed
 *	receive                      what has come of them by now, without waiting: "received COUNT WRONG"
 *	state                        "state STATE" of the queue pair
 *	whole                        "whole yes" or "whole no": are the regions that were kept as they were?
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

enum { REGIONS = 16, LENGTH = 64, MESSAGES = 64, MESSAGE = 512, TIMEOUT = 17 /* half a second */ };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr[2 * REGIONS], *messages;
static int gid_index;
static uint8_t region[2 * REGIONS][LENGTH];      /* one in two is given to peers */
static uint8_t message[2][MESSAGES][MESSAGE];    /* received, sent */
static unsigned posted, received, wrong;

static union ibv_gid gid_of(const char *address)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	if (inet_pton(AF_INET, address, gid.raw + 12) != 1)
		must_be_zero(EINVAL, address);
	return gid;
}

static bool has_gid(struct ibv_context *candidate, const union ibv_gid *wanted)
{
	union ibv_gid gid;

	for (gid_index = 0; ibv_query_gid(candidate, 1, gid_index, &gid) == 0; gid_index++)
		if (memcmp(&gid, wanted, sizeof(gid)) == 0)
			return true;
	return false;
}

static void open_device(const char *address)
{
	struct ibv_device **list = must(ibv_get_device_list(NULL), "ibv_get_device_list");
	union ibv_gid gid = gid_of(address);

	for (unsigned i = 0; list[i] && !context; i++) {
		context = must(ibv_open_device(list[i]), "ibv_open_device");
		if (has_gid(context, &gid))
			break;
		ibv_close_device(context);
		context = NULL;
	}
	must(context, address);
	ibv_free_device_list(list);
}

static uint8_t content(unsigned i, unsigned at)
{
	return (uint8_t)(i * 37 + at * 11 + 1);
}

static void open_all(const char *address)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	open_device(address);
	pd = must(ibv_alloc_pd(context), "ibv_alloc_pd");
	cq = must(ibv_create_cq(context, 4 * MESSAGES, NULL, NULL, 0), "ibv_create_cq");
	for (unsigned i = 0; i < 2 * REGIONS; i++) {
		for (unsigned at = 0; at < LENGTH; at++)
			region[i][at] = content(i, at);
		mr[i] = must(ibv_reg_mr(pd, region[i], LENGTH, access), "ibv_reg_mr");
	}
	messages = must(ibv_reg_mr(pd, message, sizeof(message), IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
}

static void tell_keys(const char *name, unsigned first)
{
	printf("%s", name);
	for (unsigned i = first; i < 2 * REGIONS; i += 2)
		printf(" %" PRIuPTR " %u", (uintptr_t)region[i], mr[i]->rkey);
	puts("");
}

static void post_receive(unsigned i)
{
	struct ibv_sge sge = {(uintptr_t)message[0][i], MESSAGE, messages->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	must_be_zero(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

static void make_pair(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .sq_sig_all = 1,
		.cap = {.max_send_wr = MESSAGES, .max_recv_wr = MESSAGES, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
	struct ibv_wc wc;

	if (qp)
		must_be_zero(ibv_destroy_qp(qp), "ibv_destroy_qp");
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		continue;
	qp = must(ibv_create_qp(pd, &init), "ibv_create_qp");
	must_be_zero(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	posted = received = wrong = 0;
	for (unsigned i = 0; i < MESSAGES; i++)
		post_receive(i);
}

/* Where it begins: of the number alone, so that both sides know it. */
static uint32_t first_psn(uint32_t qpn)
{
	return (qpn * 2654435761u >> 8) & 0xffffff;
}

static void connect_to(const char *address, uint32_t qpn, uint32_t psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qpn, .rq_psn = psn, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1,
			    .grh = {.dgid = gid_of(address), .sgid_index = (uint8_t)gid_index, .hop_limit = 64}},
	};

	must_be_zero(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = first_psn(qp->qp_num), .timeout = TIMEOUT, .retry_cnt = 7,
				    .rnr_retry = 7, .max_rd_atomic = 1};
	must_be_zero(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
	puts("connected");
}

/* One that came, in its turn: the n-th is the n-th that was sent. */
static void take(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		return;
	wrong += wc->byte_len != MESSAGE;
	for (unsigned at = 0; at < MESSAGE; at++)
		wrong += message[0][wc->wr_id][at] != content(received, at);
	received++;
	post_receive((unsigned)wc->wr_id);
}

/* What is there; true: a send has completed. */
static bool look(struct ibv_wc *wc)
{
	while (ibv_poll_cq(cq, 1, wc) > 0) {
		/* The opcode of one that failed is not told. */
		if (wc->wr_id >= MESSAGES)
			return true;
		take(wc);
	}
	return false;
}

static enum ibv_wc_status wait_for_send(void)
{
	struct ibv_wc wc;

	while (!look(&wc))
		continue;
	return wc.status;
}

static void post(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->wr_id = MESSAGES;
	must_be_zero(ibv_post_send(qp, wr, &bad), "ibv_post_send");
}

static void write_to(uint32_t key, uint64_t address)
{
	struct ibv_sge sge = {(uintptr_t)message[1][0], LENGTH, messages->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {address, key}};

	memset(message[1][0], 0xbd, LENGTH);
	post(&wr);
	printf("completed %d\n", (int)wait_for_send());
}

static void send_messages(unsigned count)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	for (unsigned i = 0; i < count; i++) {
		uint8_t *bytes = message[1][i];
		struct ibv_sge sge = {(uintptr_t)bytes, MESSAGE, messages->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

		for (unsigned at = 0; at < MESSAGE; at++)
			bytes[at] = content(posted, at);
		posted++;
		post(&wr);
	}
	for (unsigned i = 0; i < count && status == IBV_WC_SUCCESS; i++)
		status = wait_for_send();
	printf("sent %d\n", (int)status);
}

static bool is_whole(void)
{
	for (unsigned i = 1; i < 2 * REGIONS; i += 2)
		for (unsigned at = 0; at < LENGTH; at++)
			if (region[i][at] != content(i, at))
				return false;
	return true;
}

static void tell_state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	must_be_zero(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	printf("state %d\n", (int)attr.qp_state);
}

static void obey(const char *line)
{
	char address[64];
	uint32_t a, b;
	uint64_t where;

	if (strcmp(line, "keys\n") == 0) {
		tell_keys("keys", 0);
	} else if (strcmp(line, "kept\n") == 0) {
		tell_keys("kept", 1);
	} else if (strcmp(line, "pair\n") == 0) {
		make_pair();
		printf("pair %u %u\n", qp->qp_num, first_psn(qp->qp_num));
	} else if (sscanf(line, "connect %63s %u %u", address, &a, &b) == 3) {
		connect_to(address, a, b);
	} else if (sscanf(line, "write %u %" SCNu64, &a, &where) == 2) {
		write_to(a, where);
	} else if (sscanf(line, "send %u", &a) == 1 && a <= MESSAGES) {
		send_messages(a);
	} else if (strcmp(line, "receive\n") == 0) {
		struct ibv_wc wc;

		(void)look(&wc);
		printf("received %u %u\n", received, wrong);
	} else if (strcmp(line, "state\n") == 0) {
		tell_state();
	} else if (strcmp(line, "whole\n") == 0) {
		printf("whole %s\n", is_whole() ? "yes" : "no");
	} else {
		exit(2);
	}
}

int main(int argc, char **argv)
{
	char line[256];

	setvbuf(stdout, NULL, _IOLBF, 0);
	open_all(argc == 2 ? argv[1] : "");
	puts("ready");
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
