/* SPDX-License-Identifier: MIT
 *
 * What programs may ask of a connection by iWARP, and what they hear when something is wrong, seen from outside: work requests,
 * completions, events of the device and of rdma_cm; and the call by which librdmacm hands streams over, given nonsense.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "wire/stream_handover.h"

enum { BYTES = 256 << 10, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND };

struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *bytes;
};

/* [0] asks, [1] accepts. */
static struct rdma_cm_id *listener;
static struct side side[2];

static void make_queues(struct side *one, bool shared)
{
	struct ibv_srq_init_attr shared_attr = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 1, .max_inline_data = 64},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	one->bytes = calloc(1, BYTES);
	assert_non_null(one->bytes);
	one->srq = shared ? ibv_create_srq(one->id->pd, &shared_attr) : NULL;
	assert_true(!shared || one->srq != NULL);
	attr.srq = one->srq;
	assert_int_equal(rdma_create_qp(one->id, NULL, &attr), 0);
	one->mr = ibv_reg_mr(one->id->pd, one->bytes, BYTES, ALL);
	assert_non_null(one->mr);
}

static void meet(bool shared, uint8_t depth)
{
	struct rdma_conn_param param = {.responder_resources = 4, .initiator_depth = depth};
	struct rdma_cm_event *event;
	uint16_t port;

	for (unsigned i = 0; i < 2; i++)
		side[i].channel = rdma_create_event_channel();
	listener = listen_on_loopback(side[1].channel, RDMA_PS_TCP, &port);
	side[0].id = resolved_id(side[0].channel, RDMA_PS_TCP, port);
	make_queues(&side[0], false);
	assert_int_equal(rdma_connect(side[0].id, &param), 0);
	event = next_event(side[1].channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	side[1].id = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	make_queues(&side[1], shared);
	assert_int_equal(rdma_accept(side[1].id, &param), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(expect_cm_event(side[i].channel, RDMA_CM_EVENT_ESTABLISHED), 0);
}

static void part(void)
{
	for (unsigned i = 0; i < 2; i++) {
		rdma_destroy_qp(side[i].id);
		if (side[i].srq != NULL)
			assert_int_equal(ibv_destroy_srq(side[i].srq), 0);
		assert_int_equal(ibv_dereg_mr(side[i].mr), 0);
		assert_int_equal(rdma_destroy_id(side[i].id), 0);
		free(side[i].bytes);
	}
	assert_int_equal(rdma_destroy_id(listener), 0);
	for (unsigned i = 0; i < 2; i++)
		rdma_destroy_event_channel(side[i].channel);
}

static void receive(struct side *one, uint32_t offset, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)one->bytes + offset, .length = length, .lkey = one->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(one->srq != NULL ? ibv_post_srq_recv(one->srq, &wr, &bad) : ibv_post_recv(one->id->qp, &wr, &bad), 0);
}

/* From side 0, in `pieces` elements of the same length. */
static int request(enum ibv_wr_opcode opcode, uint32_t length, unsigned pieces, unsigned flags, uint32_t rkey, uint64_t wr_id)
{
	struct ibv_sge list[4];
	struct ibv_send_wr wr = {.wr_id = wr_id, .opcode = opcode, .sg_list = list, .num_sge = (int)pieces, .send_flags = flags}, *bad;

	for (unsigned i = 0; i < pieces; i++)
		list[i] = (struct ibv_sge){.addr = (uintptr_t)side[0].bytes + i * (length / pieces), .length = length / pieces,
					   .lkey = side[0].mr->lkey};
	if (opcode == IBV_WR_SEND_WITH_INV) {
		wr.invalidate_rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)side[1].bytes;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(side[0].id->qp, &wr, &bad);
}

static struct ibv_wc next(struct ibv_cq *cq)
{
	struct ibv_wc wc = {0};

	assert_true(eventually(ibv_poll_cq(cq, 1, &wc) == 1));
	return wc;
}

static void expect_wc(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = next(cq);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

static void fill(uint8_t first)
{
	for (uint32_t i = 0; i < BYTES; i++)
		side[0].bytes[i] = (uint8_t)(first + i * 7 + (i >> 8));
}

/* ---- what works ---- */

static void reads_and_writes(void **state)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int mask;

	(void)state;
	meet(false, 1);
	fill(1);
	assert_int_equal(request(IBV_WR_RDMA_WRITE, BYTES, 4, 0, side[1].mr->rkey, 1), 0);
	/* A READ of several elements behind it, into what was written from; then one that waits for it (there is room for one). */
	assert_int_equal(request(IBV_WR_RDMA_READ, BYTES, 4, 0, side[1].mr->rkey, 2), 0);
	assert_int_equal(request(IBV_WR_RDMA_READ, 8, 1, IBV_SEND_FENCE, side[1].mr->rkey, 3), 0);
	assert_int_equal(request(IBV_WR_RDMA_WRITE, 16, 1, IBV_SEND_INLINE | IBV_SEND_FENCE, side[1].mr->rkey, 4), 0);
	for (uint64_t i = 1; i <= 4; i++)
		expect_wc(side[0].id->qp->send_cq, i, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < BYTES; i++)
		assert_int_equal(side[0].bytes[i], (uint8_t)(1 + i * 7 + (i >> 8)));
	assert_int_equal(ibv_query_qp(side[0].id->qp, &attr, IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.max_rd_atomic, 1);
	assert_int_equal(attr.max_dest_rd_atomic, 4);
	/* Only a connection makes it ready to send; who asks what to modify for that is told of no state, and may do so. */
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
	assert_int_equal(rdma_init_qp_attr(side[0].id, &attr, &mask), 0);
	assert_int_equal(mask & IBV_QP_STATE, 0);
	assert_int_equal(ibv_modify_qp(side[0].id->qp, &attr, mask), 0);
	part();
}

/* By a completion channel: an event for the solicited one alone. */
static void solicited_events(void **state)
{
	struct ibv_cq *cq;
	void *context;

	(void)state;
	meet(false, 1);
	receive(&side[1], 0, 100, 1);
	receive(&side[1], 0, 100, 2);
	assert_int_equal(ibv_req_notify_cq(side[1].id->recv_cq, 1), 0);
	assert_int_equal(request(IBV_WR_SEND, 100, 1, 0, 0, 1), 0);
	assert_int_equal(request(IBV_WR_SEND, 100, 1, IBV_SEND_SOLICITED, 0, 2), 0);
	assert_int_equal(ibv_get_cq_event(side[1].id->recv_cq_channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	/* Both are there by then: it was not for the first. */
	for (uint64_t i = 1; i <= 2; i++) {
		struct ibv_wc wc = {0};

		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, i);
	}
	part();
}

/* A window of the peer's: it is bound, written through, and gone with the SEND that says so. */
static void windows(void **state)
{
	struct ibv_send_wr bind = {.opcode = IBV_WR_BIND_MW, .wr_id = 9}, local = {.opcode = IBV_WR_LOCAL_INV, .wr_id = 8}, *bad;
	struct ibv_mw *mw;
	struct ibv_wc wc;

	(void)state;
	meet(false, 1);
	fill(5);
	mw = ibv_alloc_mw(side[1].id->pd, IBV_MW_TYPE_2);
	assert_non_null(mw);
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = side[1].mr, .addr = (uintptr_t)side[1].bytes, .length = 4096,
							   .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	receive(&side[1], 8192, 100, 1);
	receive(&side[1], 8192, 100, 2);
	for (unsigned round = 0; round < 2; round++) {
		assert_int_equal(ibv_post_send(side[1].id->qp, &bind, &bad), 0);
		expect_wc(side[1].id->qp->send_cq, 9, IBV_WC_SUCCESS);
		assert_int_equal(request(IBV_WR_RDMA_WRITE, 4096, 1, 0, bind.bind_mw.rkey, 3), 0);
		expect_wc(side[0].id->qp->send_cq, 3, IBV_WC_SUCCESS);
		if (round == 0) {
			assert_int_equal(request(IBV_WR_SEND_WITH_INV, 10, 1, 0, bind.bind_mw.rkey, 4), 0);
			expect_wc(side[0].id->qp->send_cq, 4, IBV_WC_SUCCESS);
			wc = next(side[1].id->qp->recv_cq);
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_true(wc.wc_flags & IBV_WC_WITH_INV);
			assert_int_equal(wc.invalidated_rkey, bind.bind_mw.rkey);
			assert_memory_equal(side[1].bytes, side[0].bytes, 4096);
		} else {
			/* What comes behind the WRITE says that it has come. */
			assert_int_equal(request(IBV_WR_SEND, 10, 1, 0, 0, 5), 0);
			expect_wc(side[0].id->qp->send_cq, 5, IBV_WC_SUCCESS);
			expect_wc(side[1].id->qp->recv_cq, 2, IBV_WC_SUCCESS);
			local.invalidate_rkey = bind.bind_mw.rkey;
			assert_int_equal(ibv_post_send(side[1].id->qp, &local, &bad), 0);
			expect_wc(side[1].id->qp->send_cq, 8, IBV_WC_SUCCESS);
		}
		bind.bind_mw.rkey = ibv_inc_rkey(bind.bind_mw.rkey);
	}
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	part();
}

/* Messages that find the shared queue empty wait for it, whoever polls or does not. */
static void a_shared_receive_queue(void **state)
{
	(void)state;
	meet(true, 1);
	for (uint64_t i = 0; i < 8; i++) {
		fill((uint8_t)i);
		assert_int_equal(request(IBV_WR_SEND, 3000, 1, 0, 0, i), 0);
		expect_wc(side[0].id->qp->send_cq, i, IBV_WC_SUCCESS);
		receive(&side[1], (uint32_t)i * 3000, 3000, 100 + i);
		expect_wc(side[1].id->qp->recv_cq, 100 + i, IBV_WC_SUCCESS);
		assert_memory_equal(side[1].bytes + i * 3000, side[0].bytes, 3000);
	}
	part();
}

/* ---- what does not ---- */

enum { NO_EVENT = -1 };

struct fault {
	const char *name;
	enum ibv_wr_opcode opcode;
	bool wrong_rkey, wrong_lkey, too_long, invalidates_region;
	enum ibv_wc_status status;       /* of the request */
	enum ibv_wc_status receive;      /* of the peer's receive */
	int event[2];
};

static const struct fault faults[] = {
	{.name = "WRITE, wrong rkey", .opcode = IBV_WR_RDMA_WRITE, .wrong_rkey = true, .status = IBV_WC_SUCCESS,
	 .receive = IBV_WC_WR_FLUSH_ERR, .event = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_ACCESS_ERR}},
	{.name = "READ, wrong rkey", .opcode = IBV_WR_RDMA_READ, .wrong_rkey = true, .status = IBV_WC_REM_ACCESS_ERR,
	 .receive = IBV_WC_WR_FLUSH_ERR, .event = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_ACCESS_ERR}},
	{.name = "SEND, too long", .opcode = IBV_WR_SEND, .too_long = true, .status = IBV_WC_SUCCESS, .receive = IBV_WC_LOC_LEN_ERR,
	 .event = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_FATAL}},
	{.name = "SEND, invalidates a region", .opcode = IBV_WR_SEND_WITH_INV, .invalidates_region = true, .status = IBV_WC_SUCCESS,
	 .receive = IBV_WC_LOC_ACCESS_ERR, .event = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_ACCESS_ERR}},
	{.name = "WRITE, wrong lkey", .opcode = IBV_WR_RDMA_WRITE, .wrong_lkey = true, .status = IBV_WC_LOC_PROT_ERR,
	 .receive = IBV_WC_WR_FLUSH_ERR, .event = {NO_EVENT, IBV_EVENT_QP_FATAL}},
};

/* In whatever order: both sides are of one device. */
static void expect_async(const int events[2])
{
	struct pollfd fd = {.fd = side[0].id->verbs->async_fd, .events = POLLIN};

	for (int left = (events[0] != NO_EVENT) + (events[1] != NO_EVENT); left > 0; left--) {
		struct ibv_async_event event;

		assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
		assert_int_equal(ibv_get_async_event(side[0].id->verbs, &event), 0);
		assert_int_equal(event.event_type, events[event.element.qp == side[1].id->qp]);
		ibv_ack_async_event(&event);
	}
	assert_int_equal(poll(&fd, 1, 0), 0);
}

/* What each side is told: the completion, the event of its device, and that the connection is over, each once. */
static void each_fault(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		const struct fault *fault = &faults[i];
		uint32_t lkey, rkey, length = fault->too_long ? 2000 : 1000;

		meet(false, 1);
		lkey = side[0].mr->lkey;
		rkey = side[1].mr->rkey;
		print_message("%s\n", fault->name);
		receive(&side[1], 0, 1000, 7);
		if (fault->wrong_lkey)
			side[0].mr->lkey ^= 0x5500;
		assert_int_equal(request(fault->opcode, length, 1, 0, fault->wrong_rkey ? rkey ^ 0x5500 : rkey, 1), 0);
		side[0].mr->lkey = lkey;
		expect_wc(side[0].id->qp->send_cq, 1, fault->status);
		expect_wc(side[1].id->qp->recv_cq, 7, fault->receive);
		for (unsigned s = 0; s < 2; s++) {
			assert_int_equal(expect_cm_event(side[s].channel, RDMA_CM_EVENT_DISCONNECTED), 0);
			expect_no_cm_event(side[s].channel);
		}
		expect_async(fault->event);
		part();
	}
}

/* READs that no depth was agreed on for. */
static void a_read_without_depth(void **state)
{
	(void)state;
	meet(false, 0);
	assert_int_equal(request(IBV_WR_RDMA_READ, 8, 1, 0, side[1].mr->rkey, 1), 0);
	expect_wc(side[0].id->qp->send_cq, 1, IBV_WC_LOC_QP_OP_ERR);
	for (unsigned s = 0; s < 2; s++)
		assert_int_equal(expect_cm_event(side[s].channel, RDMA_CM_EVENT_DISCONNECTED), 0);
	part();
}

/* Datagrams are for other devices, and queue pairs for reliable connections. */
static void what_there_is_none_of(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_RAW_PACKET};
	struct sockaddr_in address = loopback(7);
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, PATIENCE_MS), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ADDR_ERROR), -ENODEV);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	meet(false, 1);
	attr.send_cq = attr.recv_cq = side[0].id->send_cq;
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		attr.qp_type = types[i];
		assert_null(ibv_create_qp(side[0].id->pd, &attr));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	part();
}

/* ---- handing over ---- */

int execute_ioctl(struct ibv_context *context, void *command);

static int hand_over(enum vb_handover_verb verb, uint32_t qpn, int fd, const struct vb_handover_terms *terms)
{
	struct vb_handover_call call = {.magic = VB_HANDOVER_MAGIC, .version = VB_HANDOVER_VERSION, .verb = verb, .qpn = qpn, .fd = fd};

	if (terms != NULL)
		call.terms = *terms;
	return execute_ioctl(side[0].id->verbs, &call);
}

/* What is refused leaves the descriptor to the caller, and the connections as they were. */
static void nonsense_is_not_handed_over(void **state)
{
	struct vb_handover_call call = {.magic = VB_HANDOVER_MAGIC, .version = VB_HANDOVER_VERSION + 1, .verb = VB_HANDOVER_REPORT};
	const struct vb_handover_terms good = {.initiator = 1, .large = 1, .ird = 1, .ord = 1};
	struct vb_handover_terms bad = good;
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr is;
	struct ibv_qp *free_qp;
	int fds[2], file;

	(void)state;
	meet(false, 1);
	attr.send_cq = attr.recv_cq = side[0].id->send_cq;
	free_qp = ibv_create_qp(side[0].id->pd, &attr);
	assert_non_null(free_qp);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	file = open("/dev/null", O_RDWR);
	assert_true(file >= 0);
	assert_int_equal(execute_ioctl(side[0].id->verbs, &call), ENOSYS);
	assert_int_equal(hand_over(0, 0, -1, NULL), EINVAL);
	assert_int_equal(hand_over(VB_HANDOVER_REPORT + 1, 0, -1, NULL), EINVAL);
	assert_int_equal(hand_over(VB_HANDOVER_CLOSE, 0xffffff, -1, NULL), EINVAL);
	assert_int_equal(hand_over(VB_HANDOVER_CLOSE, free_qp->qp_num, -1, NULL), EINVAL);
	assert_int_equal(hand_over(VB_HANDOVER_ADOPT, 0xffffff, fds[0], &good), EINVAL);
	/* It has a stream. */
	assert_int_equal(hand_over(VB_HANDOVER_ADOPT, side[0].id->qp->qp_num, fds[0], &good), EISCONN);
	/* Nothing that can be waited for; nothing at all. */
	assert_int_equal(hand_over(VB_HANDOVER_ADOPT, free_qp->qp_num, file, &good), EPERM);
	assert_int_equal(hand_over(VB_HANDOVER_ADOPT, free_qp->qp_num, -1, &good), EBADF);
	bad.ird = 1000;
	assert_int_equal(hand_over(VB_HANDOVER_ADOPT, free_qp->qp_num, fds[0], &bad), EINVAL);
	assert_int_equal(ibv_query_qp(free_qp, &is, IBV_QP_STATE, &attr), 0);
	assert_int_equal(is.qp_state, IBV_QPS_INIT);
	assert_int_equal(fcntl(fds[0], F_GETFD) >= 0, 1);
	/* And none of it was to blame: now it goes over. */
	assert_int_equal(hand_over(VB_HANDOVER_ADOPT, free_qp->qp_num, fds[0], &good), 0);
	assert_int_equal(free_qp->state, IBV_QPS_RTS);
	assert_int_equal(ibv_destroy_qp(free_qp), 0);
	close(fds[1]);
	close(file);
	receive(&side[1], 0, 100, 2);
	assert_int_equal(request(IBV_WR_SEND, 100, 1, 0, 0, 1), 0);
	expect_wc(side[0].id->qp->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(side[1].id->qp->recv_cq, 2, IBV_WC_SUCCESS);
	part();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_and_writes),
		cmocka_unit_test(solicited_events),
		cmocka_unit_test(windows),
		cmocka_unit_test(a_shared_receive_queue),
		cmocka_unit_test(each_fault),
		cmocka_unit_test(a_read_without_depth),
		cmocka_unit_test(what_there_is_none_of),
		cmocka_unit_test(nonsense_is_not_handed_over),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
