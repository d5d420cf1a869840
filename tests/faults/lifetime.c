/* SPDX-License-Identifier: MIT
 *
 * What a program does in its life with both libraries: devices, queue pairs, transfers; a listener, a connection, a message each way,
 * disconnecting. Played while one call of the libraries or of verbenad fails (interpose.c), and once more when nothing does.
 *
 *   exit 0    all went well
 *   exit 3    a call was refused, or work completed with an error; standard output says which. Everything was given back, and
 *             afterwards all went well
 *   exit 1    afterwards it did not, or descriptors were left, or what was said to be done was not
 *
 * LIFE_WARM: the fault comes when all has been used before, so that one descriptor that is left is seen.
 *
 * Waits end: what does not come within PATIENCE was lost, and nobody said so.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/patience.h"

enum { LENGTH = 9000, PATIENCE_FOR_ONE = 60000 };

/* Refused: say so, and give everything back. Lost: that is a fault. */
#define TRY(condition, ...)                                              \
	do {                                                             \
		errno = 0;                                               \
		if (!(condition)) {                                      \
			printf("refused: " __VA_ARGS__);                 \
			printf(" (%s)\n", strerror(errno));              \
			return false;                                    \
		}                                                        \
	} while (0)

static void lost(const char *what)
{
	printf("lost: %s\n", what);
	fflush(stdout);
	_exit(1);
}

static unsigned count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned count = 0;

	while (folder && readdir(folder))
		count++;
	if (folder)
		closedir(folder);
	return count;
}

/* ---- verbs ---- */

struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned char bytes[LENGTH];
};

struct verbs {
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	struct side side[2];
};

static bool set_state(struct ibv_qp *qp, enum ibv_qp_state state, uint32_t peer, const union ibv_gid *gid, int index)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
				   .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 4, .max_rd_atomic = 4,
				   .min_rnr_timer = 1, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
	int mask = IBV_QP_STATE;

	attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .sgid_index = (uint8_t)index}};
	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	else if (state == IBV_QPS_RTR)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	else
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	TRY(ibv_modify_qp(qp, &attr, mask) == 0, "ibv_modify_qp to %d", state);
	return true;
}

/* One completion, of that work. */
static bool complete(struct ibv_cq *cq, uint64_t wr_id)
{
	struct ibv_wc wc;
	int count = 0;

	if (!eventually_within(PATIENCE_FOR_ONE, (count = ibv_poll_cq(cq, 1, &wc)) != 0))
		lost("a completion");
	TRY(count == 1, "ibv_poll_cq");
	TRY(wc.status == IBV_WC_SUCCESS, "work %llu: %s", (unsigned long long)wr_id, ibv_wc_status_str(wc.status));
	if (wc.wr_id != wr_id)
		lost("the order of completions");
	return true;
}

static bool transfer(struct side *from, struct side *to, struct ibv_srq *srq, enum ibv_wr_opcode opcode)
{
	struct ibv_sge out = {(uintptr_t)from->bytes, LENGTH, from->mr->lkey}, in = {(uintptr_t)to->bytes, LENGTH, to->mr->lkey};
	struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = &in, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &out, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;

	for (unsigned i = 0; i < LENGTH; i++) {
		from->bytes[i] = (unsigned char)(i * 7 + opcode);
		to->bytes[i] = 0;
	}
	wr.wr.rdma.remote_addr = (uintptr_t)to->bytes;
	wr.wr.rdma.rkey = to->mr->rkey;
	if (opcode == IBV_WR_SEND)
		TRY((srq ? ibv_post_srq_recv(srq, &receive, &bad_receive) : ibv_post_recv(to->qp, &receive, &bad_receive)) == 0, "receive");
	TRY(ibv_post_send(from->qp, &wr, &bad) == 0, "ibv_post_send");
	if (!complete(from->cq, 2) || (opcode == IBV_WR_SEND && !complete(to->cq, 1)))
		return false;
	/* Acknowledged: it is there. */
	if (memcmp(from->bytes, to->bytes, LENGTH) != 0)
		lost("bytes");
	return true;
}

static bool open_verbs(struct verbs *v)
{
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = 16, .max_sge = 1}};
	union ibv_gid gid;
	int index = 0;

	TRY((v->list = ibv_get_device_list(NULL)) != NULL && v->list[0], "ibv_get_device_list");
	for (unsigned i = 0; v->list[i]; i++)
		if (strcmp(ibv_get_device_name(v->list[i]), "roce_lo") == 0)
			TRY((v->context = ibv_open_device(v->list[i])) != NULL, "ibv_open_device");
	TRY(v->context, "there is no roce_lo");
	TRY((v->pd = ibv_alloc_pd(v->context)) != NULL, "ibv_alloc_pd");
	TRY((v->channel = ibv_create_comp_channel(v->context)) != NULL, "ibv_create_comp_channel");
	TRY((v->srq = ibv_create_srq(v->pd, &shared)) != NULL, "ibv_create_srq");
	TRY(ibv_query_gid(v->context, 1, index, &gid) == 0, "ibv_query_gid");
	for (unsigned i = 0; i < 2; i++) {
		struct side *side = &v->side[i];
		struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .srq = i == 1 ? v->srq : NULL,
						.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};

		TRY((side->cq = ibv_create_cq(v->context, 32, NULL, v->channel, 0)) != NULL, "ibv_create_cq");
		attr.send_cq = attr.recv_cq = side->cq;
		TRY((side->qp = ibv_create_qp(v->pd, &attr)) != NULL, "ibv_create_qp");
		TRY((side->mr = ibv_reg_mr(v->pd, side->bytes, LENGTH, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					   IBV_ACCESS_REMOTE_READ)) != NULL, "ibv_reg_mr");
	}
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++)
		for (unsigned i = 0; i < 2; i++)
			if (!set_state(v->side[i].qp, (enum ibv_qp_state)state, v->side[!i].qp->qp_num, &gid, index))
				return false;
	return transfer(&v->side[0], &v->side[1], v->srq, IBV_WR_SEND) && transfer(&v->side[1], &v->side[0], NULL, IBV_WR_SEND) &&
	       transfer(&v->side[0], &v->side[1], NULL, IBV_WR_RDMA_WRITE);
}

/* Giving back never fails. */
static void must(int result, const char *call)
{
	if (result != 0) {
		printf("%s: %s\n", call, strerror(result > 0 ? result : errno));
		lost("an object that cannot be destroyed");
	}
}

static void close_verbs(struct verbs *v)
{
	for (unsigned i = 0; i < 2; i++) {
		if (v->side[i].qp)
			must(ibv_destroy_qp(v->side[i].qp), "ibv_destroy_qp");
		if (v->side[i].mr)
			must(ibv_dereg_mr(v->side[i].mr), "ibv_dereg_mr");
		if (v->side[i].cq)
			must(ibv_destroy_cq(v->side[i].cq), "ibv_destroy_cq");
	}
	if (v->srq)
		must(ibv_destroy_srq(v->srq), "ibv_destroy_srq");
	if (v->channel)
		must(ibv_destroy_comp_channel(v->channel), "ibv_destroy_comp_channel");
	if (v->pd)
		must(ibv_dealloc_pd(v->pd), "ibv_dealloc_pd");
	if (v->context)
		must(ibv_close_device(v->context), "ibv_close_device");
	if (v->list)
		ibv_free_device_list(v->list);
}

/* ---- rdma_cm ---- */

struct connection {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *client, *server;
};

static bool next_event(struct connection *c, enum rdma_cm_event_type type)
{
	struct pollfd wait = {.fd = c->channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;
	bool expected;

	for (int got; (got = poll(&wait, 1, PATIENCE_FOR_ONE)) != 1;)
		if (got == 0)
			lost(rdma_event_str(type));
	TRY(rdma_get_cm_event(c->channel, &event) == 0, "rdma_get_cm_event");
	expected = event->event == type;
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		c->server = event->id;
	if (!expected)
		printf("refused: %s instead of %s (%d)\n", rdma_event_str(event->event), rdma_event_str(type), event->status);
	rdma_ack_cm_event(event);
	return expected;
}

/* ESTABLISHED comes at both ends, DISCONNECTED too. */
static bool connect_both(struct connection *c)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	/* Each is told by its own what was made for it. */
	struct ibv_qp_init_attr client = {.qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}}, server = client;
	struct rdma_conn_param parameters = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};

	TRY((c->channel = rdma_create_event_channel()) != NULL, "rdma_create_event_channel");
	TRY(rdma_create_id(c->channel, &c->listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	TRY(rdma_bind_addr(c->listener, (struct sockaddr *)&address) == 0, "rdma_bind_addr");
	TRY(rdma_listen(c->listener, 1) == 0, "rdma_listen");
	address.sin_port = rdma_get_src_port(c->listener);
	TRY(rdma_create_id(c->channel, &c->client, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	TRY(rdma_resolve_addr(c->client, NULL, (struct sockaddr *)&address, 2000) == 0, "rdma_resolve_addr");
	if (!next_event(c, RDMA_CM_EVENT_ADDR_RESOLVED))
		return false;
	TRY(rdma_resolve_route(c->client, 2000) == 0, "rdma_resolve_route");
	if (!next_event(c, RDMA_CM_EVENT_ROUTE_RESOLVED))
		return false;
	TRY(rdma_create_qp(c->client, NULL, &client) == 0, "rdma_create_qp");
	TRY(rdma_connect(c->client, &parameters) == 0, "rdma_connect");
	if (!next_event(c, RDMA_CM_EVENT_CONNECT_REQUEST))
		return false;
	TRY(rdma_create_qp(c->server, NULL, &server) == 0, "rdma_create_qp");
	TRY(rdma_accept(c->server, &parameters) == 0, "rdma_accept");
	if (!next_event(c, RDMA_CM_EVENT_ESTABLISHED) || !next_event(c, RDMA_CM_EVENT_ESTABLISHED))
		return false;
	TRY(rdma_disconnect(c->client) == 0, "rdma_disconnect");
	if (!next_event(c, RDMA_CM_EVENT_DISCONNECTED))
		return false;
	TRY(rdma_disconnect(c->server) == 0, "rdma_disconnect");
	return next_event(c, RDMA_CM_EVENT_DISCONNECTED);
}

static void close_connection(struct connection *c)
{
	struct rdma_cm_id *ids[] = {c->client, c->server, c->listener};

	for (unsigned i = 0; i < 3; i++) {
		if (!ids[i])
			continue;
		if (ids[i]->qp)
			rdma_destroy_qp(ids[i]);
		must(rdma_destroy_id(ids[i]), "rdma_destroy_id");
	}
	if (c->channel)
		rdma_destroy_event_channel(c->channel);
}

static bool live(void)
{
	static struct verbs verbs;
	struct connection connection = {0};
	bool well;

	memset(&verbs, 0, sizeof(verbs));
	well = open_verbs(&verbs);
	close_verbs(&verbs);
	well &= connect_both(&connection);
	close_connection(&connection);
	return well;
}

static void turn(const char *word)
{
	void (*call)(void);

	*(void **)&call = dlsym(RTLD_DEFAULT, word);
	if (call)
		call();
}

int main(void)
{
	bool warm = getenv("LIFE_WARM") != NULL, first, well = false, before_well = false;
	unsigned at_first = 0, before = 0, now = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* The libraries keep a device open once a connection used it. */
	if (warm && (!live() || !live()))
		return 1;
	at_first = count_descriptors();
	turn("fail_calls_begin");
	first = live();
	turn("fail_calls_end");
	/* Well twice in a row, with nothing left in between. A daemon's one fault may come late. */
	for (unsigned lives = 0; lives < 4 && !(well && before_well && now == before); lives++) {
		before_well = well;
		before = now;
		well = live();
		now = count_descriptors();
	}
	if (!well || !before_well || now != before || (warm && now > at_first)) {
		printf("afterwards: %s, %u descriptors at first, then %u, then %u\n", well ? "well" : "not well", at_first, before, now);
		return 1;
	}
	return first ? 0 : 3;
}
