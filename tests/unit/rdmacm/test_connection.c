/* SPDX-License-Identifier: MIT
 *
 * Connections between two ids of one process, through the real daemon: what each side is told, what is negotiated,
 * how it ends.
 */
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/private_network.h"

static void both_sides_are_told_the_end(void **state)
{
	struct connection connection;

	(void)state;
	connection_open(&connection);
	exchange_message(&connection, 0, "from the one who asked");
	exchange_message(&connection, 1, "from the one who accepted");
	assert_int_equal(rdma_disconnect(connection.id[0]), 0);
	assert_int_equal(expect_cm_event(connection.channel[1], RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(rdma_disconnect(connection.id[1]), 0);
	assert_int_equal(expect_cm_event(connection.channel[0], RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(expect_cm_event(connection.channel[0], RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
	assert_int_equal(expect_cm_event(connection.channel[1], RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
	/* Said twice it does no harm. */
	assert_int_equal(rdma_disconnect(connection.id[0]), 0);
	assert_int_equal(rdma_disconnect(connection.id[1]), 0);
	connection_close(&connection);
}

static void destroying_one_id_disconnects_the_other(void **state)
{
	struct connection connection;

	(void)state;
	connection_open(&connection);
	rdma_destroy_qp(connection.id[0]);
	assert_int_equal(rdma_destroy_id(connection.id[0]), 0);
	assert_int_equal(expect_cm_event(connection.channel[1], RDMA_CM_EVENT_DISCONNECTED), 0);
	rdma_destroy_qp(connection.id[1]);
	assert_int_equal(rdma_destroy_id(connection.id[1]), 0);
	assert_int_equal(rdma_destroy_id(connection.listener), 0);
	rdma_destroy_event_channel(connection.channel[0]);
	rdma_destroy_event_channel(connection.channel[1]);
}

static void parameters_travel_and_are_turned_round(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = {
		.private_data = "knock knock",
		.private_data_len = 12,
		.responder_resources = 3,
		.initiator_depth = 5,
		.flow_control = 1,
		.retry_count = 6,
		.rnr_retry_count = 4,
	};
	struct rdma_cm_id *listener, *asking, *accepting;
	struct rdma_cm_event *event;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(channel, RDMA_PS_TCP, &port);
	listener->context = &port;
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);

	event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	accepting = event->id;
	assert_ptr_equal(event->listen_id, listener);
	assert_ptr_equal(accepting->context, &port);
	assert_memory_equal(event->param.conn.private_data, "knock knock", 12);
	assert_int_equal(event->param.conn.private_data_len, 56); /* all that a REQ carries, as with the kernel's */
	assert_int_equal(event->param.conn.responder_resources, 5);
	assert_int_equal(event->param.conn.initiator_depth, 3);
	assert_int_equal(event->param.conn.flow_control, 1);
	assert_int_equal(event->param.conn.retry_count, 6);
	assert_int_equal(event->param.conn.rnr_retry_count, 4);
	assert_int_equal(event->param.conn.qp_num, asking->qp->qp_num);
	assert_int_equal(rdma_get_src_port(accepting), rdma_get_dst_port(asking));
	assert_int_equal(rdma_get_dst_port(accepting), rdma_get_src_port(asking));
	assert_int_equal(rdma_ack_cm_event(event), 0);

	add_qp(accepting);
	param = (struct rdma_conn_param){
		.private_data = "who is there",
		.private_data_len = 13,
		.responder_resources = 4,
		.initiator_depth = 2,
		.rnr_retry_count = 5,
	};
	assert_int_equal(rdma_accept(accepting, &param), 0);
	event = next_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_ptr_equal(event->id, asking);
	assert_memory_equal(event->param.conn.private_data, "who is there", 13);
	assert_int_equal(event->param.conn.private_data_len, 196);
	assert_int_equal(event->param.conn.responder_resources, 2);
	assert_int_equal(event->param.conn.initiator_depth, 4);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ESTABLISHED), 0);

	/* What was negotiated is what the queue pairs got. */
	assert_int_equal(ibv_query_qp(asking->qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, accepting->qp->qp_num);
	assert_int_equal(attr.max_rd_atomic, 4);
	assert_int_equal(attr.max_dest_rd_atomic, 2);
	assert_int_equal(attr.retry_cnt, 6);
	assert_int_equal(attr.rnr_retry, 5);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	assert_int_equal(ibv_query_qp(accepting->qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.max_rd_atomic, 2);
	assert_int_equal(attr.max_dest_rd_atomic, 4);
	assert_int_equal(attr.retry_cnt, 6);
	assert_int_equal(attr.rnr_retry, 4);

	rdma_destroy_ep(asking);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_DISCONNECTED), 0);
	rdma_destroy_ep(accepting);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

static void a_rejection_tells_its_reason(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *listener, *asking, *refused;
	struct rdma_cm_event *event;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(channel, RDMA_PS_TCP, &port);
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	refused = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_reject(refused, "not today", 10), 0);
	errno = 0;
	assert_int_equal(rdma_accept(refused, &param), -1);
	assert_int_equal(errno, EINVAL);
	event = next_event(channel, RDMA_CM_EVENT_REJECTED);
	assert_ptr_equal(event->id, asking);
	assert_int_equal(event->status, 28);
	assert_memory_equal(event->param.conn.private_data, "not today", 10);
	assert_int_equal(event->param.conn.private_data_len, 148);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(ibv_query_qp(asking->qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
	rdma_destroy_ep(asking);
	assert_int_equal(rdma_destroy_id(refused), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

static void extras_can_be_the_reason(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *listener, *asking;
	struct rdma_cm_event *event;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(channel, RDMA_PS_TCP, &port);
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_reject_ece(event->id, NULL, 0), 0);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_REJECTED), 35);
	rdma_destroy_ep(asking);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

/* The RTU is late, but the queue pair has heard from the peer (IBV_EVENT_COMM_EST). */
static void hearing_from_the_peer_counts_as_its_answer(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel(), *passive = rdma_create_event_channel();
	struct rdma_conn_param param = {.qp_num = 0x123456};
	struct rdma_cm_id *listener, *asking, *accepting;
	struct rdma_cm_event *event;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	assert_int_equal(rdma_connect(asking, &param), 0);
	event = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	accepting = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	add_qp(accepting);
	assert_int_equal(rdma_accept(accepting, NULL), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE), 0);
	errno = 0;
	assert_int_equal(rdma_notify(accepting, IBV_EVENT_PATH_MIG), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_notify(accepting, IBV_EVENT_COMM_EST), 0);
	assert_int_equal(expect_cm_event(passive, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(rdma_notify(accepting, IBV_EVENT_COMM_EST), -1);
	assert_int_equal(errno, EISCONN);
	assert_int_equal(rdma_destroy_id(asking), 0);
	rdma_destroy_ep(accepting);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(passive);
}

static void extended_queue_pairs_work_too(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = resolved_id(channel, RDMA_PS_TCP, 9);
	struct ibv_qp_init_attr_ex attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	(void)state;
	assert_int_equal(rdma_create_qp_ex(id, &attr), 0);
	assert_non_null(ibv_qp_to_qp_ex(id->qp));
	assert_ptr_equal(attr.pd, id->pd);
	errno = 0;
	assert_int_equal(rdma_create_qp_ex(id, &attr), -1); /* one to an id */
	assert_int_equal(errno, EINVAL);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

static void nobody_listens(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *asking = resolved_id(channel, RDMA_PS_TCP, 4);

	(void)state;
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_REJECTED), 8);
	/* Programs that clean up in one way disconnect what never was connected, too. */
	assert_int_equal(rdma_disconnect(asking), 0);
	rdma_destroy_ep(asking);
	asking = resolved_id(channel, RDMA_PS_UDP, 4);
	assert_int_equal(rdma_connect(asking, &param), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_UNREACHABLE), 1);
	assert_int_equal(rdma_destroy_id(asking), 0);
	rdma_destroy_event_channel(channel);
}

/* A program gives up before there is an answer: what it has posted comes back. */
static void disconnecting_before_the_answer_flushes(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel(), *passive = rdma_create_event_channel();
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *listener, *asking;
	struct rdma_cm_event *event;
	struct ibv_recv_wr *bad, wr = {.wr_id = 7};
	struct ibv_wc wc;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(ibv_post_recv(asking->qp, &wr, &bad), 0);
	assert_int_equal(rdma_connect(asking, &param), 0);
	event = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_disconnect(asking), 0);
	while (ibv_poll_cq(asking->recv_cq, 1, &wc) == 0)
		continue;
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(rdma_reject(event->id, NULL, 0), 0);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_REJECTED), 28);
	assert_int_equal(rdma_disconnect(asking), 0);
	rdma_destroy_ep(asking);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(passive);
}

/* The listener comes while the refused REQ is being repeated. */
static void a_listener_may_be_a_moment_late(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel(), *passive = rdma_create_event_channel();
	struct rdma_conn_param param = {0};
	struct sockaddr_in address;
	struct rdma_cm_id *listener, *asking;
	struct rdma_cm_event *event;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	assert_int_equal(rdma_destroy_id(listener), 0);
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	address = loopback(port);
	assert_int_equal(rdma_create_id(passive, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	event = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_reject(event->id, NULL, 0), 0);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_REJECTED), 28);
	rdma_destroy_ep(asking);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(passive);
}

static void a_listener_that_goes_refuses_what_it_did_not_take(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel(), *passive = rdma_create_event_channel();
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *listener, *asking;
	struct timespec pause = {.tv_nsec = 1000000};
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	nanosleep(&pause, NULL); /* whether the request is queued by now or not, the answer is no */
	assert_int_equal(rdma_destroy_id(listener), 0);
	assert_int_not_equal(expect_cm_event(channel, RDMA_CM_EVENT_REJECTED), 0);
	rdma_destroy_ep(asking);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(passive);
}

/* Programs with queue pairs of their own: CONNECT_RESPONSE, rdma_init_qp_attr, rdma_establish. */
static void a_program_may_move_its_own_queue_pair(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
	struct rdma_cm_id *listener, *asking, *accepting;
	struct rdma_cm_event *event;
	struct ibv_qp_attr attr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint16_t port;
	int mask;

	(void)state;
	listener = listen_on_loopback(channel, RDMA_PS_TCP, &port);
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	cq = ibv_create_cq(asking->verbs, 8, NULL, NULL, 0);
	assert_non_null(cq);
	qp = ibv_create_qp(asking->pd, &(struct ibv_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}});
	assert_non_null(qp);
	param.qp_num = qp->qp_num;
	assert_int_equal(rdma_connect(asking, &param), 0);
	event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	accepting = event->id;
	assert_int_equal(event->param.conn.qp_num, qp->qp_num);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	add_qp(accepting);
	assert_int_equal(rdma_accept(accepting, NULL), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE), 0);
	for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++) {
		memset(&attr, 0, sizeof(attr));
		attr.qp_state = (enum ibv_qp_state)to;
		assert_int_equal(rdma_init_qp_attr(asking, &attr, &mask), 0);
		assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	}
	assert_int_equal(attr.max_rd_atomic, 1);
	assert_int_equal(rdma_establish(asking), 0);
	errno = 0;
	assert_int_equal(rdma_establish(asking), -1);
	assert_int_equal(errno, EINVAL);
	event = next_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_ptr_equal(event->id, accepting);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_disconnect(accepting), 0);
	event = next_event(channel, RDMA_CM_EVENT_DISCONNECTED);
	assert_ptr_equal(event->id, asking);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(rdma_destroy_id(asking), 0);
	rdma_destroy_ep(accepting);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

struct late_acknowledgement {
	struct rdma_cm_event *event;
	bool acknowledged;
};

static void *acknowledge_later(void *argument)
{
	struct late_acknowledgement *late = argument;
	struct timespec pause = {.tv_nsec = 20000000};

	nanosleep(&pause, NULL);
	__atomic_store_n(&late->acknowledged, true, __ATOMIC_SEQ_CST);
	rdma_ack_cm_event(late->event);
	return NULL;
}

static void destroying_waits_for_acknowledgement(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = loopback(5);
	struct late_acknowledgement late = {0};
	struct rdma_cm_id *id;
	pthread_t thread;

	(void)state;
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
	late.event = next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(pthread_create(&thread, NULL, acknowledge_later, &late), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_true(__atomic_load_n(&late.acknowledged, __ATOMIC_SEQ_CST));
	pthread_join(thread, NULL);
	rdma_destroy_event_channel(channel);
}

static void migration_takes_waiting_events_along(void **state)
{
	struct rdma_event_channel *first = rdma_create_event_channel(), *second = rdma_create_event_channel();
	struct sockaddr_in address = loopback(5);
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(first, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
	assert_int_equal(rdma_migrate_id(id, second), 0);
	assert_ptr_equal(id->channel, second);
	expect_no_cm_event(first);
	assert_int_equal(expect_cm_event(second, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_migrate_id(id, NULL), 0); /* synchronous from here on */
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_non_null(id->event);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	errno = 0;
	assert_int_equal(rdma_migrate_id(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_migrate_id(id, first), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(first);
	rdma_destroy_event_channel(second);
}

static struct ibv_qp_init_attr endpoint_attributes(void)
{
	return (struct ibv_qp_init_attr){
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
	};
}

/* rdma_server of the distribution, in a thread. */
static void *serve_once(void *argument)
{
	struct rdma_cm_id *listener = argument, *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	char text[32];

	assert_int_equal(rdma_get_request(listener, &id), 0);
	mr = rdma_reg_msgs(id, text, sizeof(text));
	assert_non_null(mr);
	assert_int_equal(rdma_post_recv(id, NULL, text, sizeof(text), mr), 0);
	assert_int_equal(rdma_accept(id, NULL), 0);
	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_post_send(id, NULL, text, sizeof(text), mr, 0), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(rdma_disconnect(id), 0);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return NULL;
}

static void endpoints_make_it_short(void **state)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *info;
	struct ibv_qp_init_attr attr = endpoint_attributes();
	struct rdma_cm_id *listener, *id;
	char text[32] = "there and back", back[32] = "";
	struct ibv_mr *mr, *back_mr;
	struct ibv_wc wc;
	pthread_t thread;

	(void)state;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &info), 0);
	assert_int_equal(rdma_create_ep(&listener, info, NULL, &attr), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_listen(listener, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve_once, listener), 0);

	hints.ai_flags = 0;
	attr = endpoint_attributes();
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &info), 0);
	assert_int_equal(rdma_create_ep(&id, info, NULL, &attr), 0);
	rdma_freeaddrinfo(info);
	mr = rdma_reg_msgs(id, text, sizeof(text));
	back_mr = rdma_reg_msgs(id, back, sizeof(back));
	assert_int_equal(rdma_post_recv(id, NULL, back, sizeof(back), back_mr), 0);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(rdma_post_send(id, NULL, text, sizeof(text), mr, 0), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_string_equal(back, text);
	assert_int_equal(rdma_disconnect(id), 0);
	rdma_dereg_mr(mr);
	rdma_dereg_mr(back_mr);
	rdma_destroy_ep(id);
	pthread_join(thread, NULL);
	rdma_destroy_ep(listener);
}

static void a_refused_endpoint_says_so(void **state)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
	struct ibv_qp_init_attr attr = endpoint_attributes();
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "9", &hints, &info), 0);
	assert_int_equal(rdma_create_ep(&id, info, NULL, &attr), 0);
	errno = 0;
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(errno, ECONNREFUSED);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_getaddrinfo("192.0.2.1", "9", &hints, &info), 0);
	errno = 0;
	assert_int_equal(rdma_create_ep(&id, info, NULL, &attr), -1);
	assert_int_equal(errno, ENETUNREACH);
	rdma_freeaddrinfo(info);
}

static void shared_receive_queues_belong_to_the_id(void **state)
{
	struct connection connection;
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq_init_attr_ex extended = {.comp_mask = 0};
	struct rdma_cm_id *id;

	(void)state;
	connection_open(&connection);
	id = resolved_id(connection.channel[0], RDMA_PS_TCP, connection.port);
	errno = 0;
	assert_int_equal(rdma_create_srq_ex(id, &extended), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_create_srq(id, NULL, &attr), 0);
	assert_non_null(id->srq);
	add_qp(id);
	assert_ptr_equal(id->qp->srq, id->srq);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	assert_null(id->srq);
	assert_int_equal(rdma_destroy_id(id), 0);
	connection_close(&connection);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_sides_are_told_the_end),
		cmocka_unit_test(destroying_one_id_disconnects_the_other),
		cmocka_unit_test(parameters_travel_and_are_turned_round),
		cmocka_unit_test(a_rejection_tells_its_reason),
		cmocka_unit_test(extras_can_be_the_reason),
		cmocka_unit_test(hearing_from_the_peer_counts_as_its_answer),
		cmocka_unit_test(extended_queue_pairs_work_too),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(disconnecting_before_the_answer_flushes),
		cmocka_unit_test(a_listener_may_be_a_moment_late),
		cmocka_unit_test(a_listener_that_goes_refuses_what_it_did_not_take),
		cmocka_unit_test(a_program_may_move_its_own_queue_pair),
		cmocka_unit_test(destroying_waits_for_acknowledgement),
		cmocka_unit_test(migration_takes_waiting_events_along),
		cmocka_unit_test(endpoints_make_it_short),
		cmocka_unit_test(a_refused_endpoint_says_so),
		cmocka_unit_test(shared_receive_queues_belong_to_the_id),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
