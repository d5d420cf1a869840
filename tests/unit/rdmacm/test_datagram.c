/* SPDX-License-Identifier: MIT
 *
 * Datagram services: the lookup of a peer's queue pair (SIDR), and multicast groups.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/private_network.h"

enum { GRH = 40 };

static void receive_text(struct rdma_cm_id *id, const char *expected, char *buffer)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_string_equal(buffer + GRH, expected);
}

static void a_lookup_finds_the_queue_pair(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = {.private_data = "service?", .private_data_len = 9};
	struct rdma_cm_id *listener, *asking, *answering;
	struct rdma_cm_event *event;
	struct ibv_mr *mr, *in_mr;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	char text[32] = "a datagram", in[GRH + 32] = "";
	uint32_t qpn;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(channel, RDMA_PS_UDP, &port);
	asking = resolved_id(channel, RDMA_PS_UDP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	answering = event->id;
	assert_memory_equal(event->param.ud.private_data, "service?", 9);
	assert_int_equal(event->param.ud.private_data_len, 180);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	add_qp(answering);
	in_mr = rdma_reg_msgs(answering, in, sizeof(in));
	assert_int_equal(rdma_post_recv(answering, NULL, in, sizeof(in), in_mr), 0);
	param.private_data = "service!";
	param.qp_num = answering->qp->qp_num;
	assert_int_equal(rdma_accept(answering, &param), 0);

	event = next_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	assert_ptr_equal(event->id, asking);
	assert_int_equal(event->param.ud.qp_num, answering->qp->qp_num);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	assert_memory_equal(event->param.ud.private_data, "service!", 9);
	assert_int_equal(event->param.ud.private_data_len, 136);
	assert_int_equal(event->param.ud.ah_attr.is_global, 1);
	ah = ibv_create_ah(asking->pd, &event->param.ud.ah_attr);
	assert_non_null(ah);
	qpn = event->param.ud.qp_num;
	assert_int_equal(rdma_ack_cm_event(event), 0);

	mr = rdma_reg_msgs(asking, text, sizeof(text));
	assert_int_equal(rdma_post_ud_send(asking, NULL, text, sizeof(text), mr, 0, ah, qpn), 0);
	assert_int_equal(rdma_get_send_comp(asking, &wc), 1);
	receive_text(answering, text, in);
	ibv_destroy_ah(ah);
	/* There is no connection to end; perftest asks for it all the same. */
	assert_int_equal(rdma_disconnect(asking), 0);
	rdma_dereg_mr(mr);
	rdma_dereg_mr(in_mr);
	rdma_destroy_ep(asking);
	rdma_destroy_ep(answering);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

static void a_service_may_refuse(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *listener, *asking;
	struct rdma_cm_event *event;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(channel, RDMA_PS_UDP, &port);
	asking = resolved_id(channel, RDMA_PS_UDP, port);
	assert_int_equal(rdma_connect(asking, &param), 0);
	event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_reject(event->id, NULL, 0), 0);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_UNREACHABLE), 2); /* SIDR status: rejected */
	assert_int_equal(rdma_destroy_id(asking), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

static struct rdma_cm_id *bound_id(struct rdma_event_channel *channel)
{
	struct sockaddr_in address = loopback(0);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
	add_qp(id);
	return id;
}

static void members_of_a_group_hear_each_other(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *speaker = bound_id(channel), *listener = bound_id(channel);
	struct sockaddr_in group = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef010203)};
	struct rdma_cm_join_mc_attr_ex join = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = (struct sockaddr *)&group,
	};
	static const uint8_t gid[16] = {[10] = 0xff, 0xff, 239, 1, 2, 3};
	char text[32] = "to whom it may concern", in[GRH + 32] = "";
	struct rdma_cm_event *event;
	struct ibv_mr *mr, *in_mr;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(rdma_join_multicast(listener, (struct sockaddr *)&group, &group), 0);
	event = next_event(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(event->id, listener);
	assert_ptr_equal(event->param.ud.private_data, &group);
	assert_int_equal(event->param.ud.qp_num, 0xffffff);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	assert_memory_equal(event->param.ud.ah_attr.grh.dgid.raw, gid, 16);
	assert_int_equal(rdma_ack_cm_event(event), 0);

	assert_int_equal(rdma_join_multicast_ex(speaker, &join, NULL), 0);
	event = next_event(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	ah = ibv_create_ah(speaker->pd, &event->param.ud.ah_attr);
	assert_non_null(ah);
	assert_int_equal(rdma_ack_cm_event(event), 0);

	in_mr = rdma_reg_msgs(listener, in, sizeof(in));
	mr = rdma_reg_msgs(speaker, text, sizeof(text));
	assert_int_equal(rdma_post_recv(listener, NULL, in, sizeof(in), in_mr), 0);
	assert_int_equal(rdma_post_ud_send(speaker, NULL, text, sizeof(text), mr, 0, ah, 0xffffff), 0);
	assert_int_equal(rdma_get_send_comp(speaker, &wc), 1);
	receive_text(listener, text, in);

	ibv_destroy_ah(ah);
	assert_int_equal(rdma_leave_multicast(listener, (struct sockaddr *)&group), 0);
	errno = 0;
	assert_int_equal(rdma_leave_multicast(listener, (struct sockaddr *)&group), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	rdma_dereg_mr(mr);
	rdma_dereg_mr(in_mr);
	rdma_destroy_ep(listener);
	rdma_destroy_ep(speaker); /* still a member */
	rdma_destroy_event_channel(channel);
}

static void joins_are_checked(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = bound_id(channel);
	struct sockaddr_in group = loopback(0);
	struct rdma_cm_join_mc_attr_ex join = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED, .addr = (struct sockaddr *)&group};

	(void)state;
	errno = 0;
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), -1); /* no group's address */
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_join_multicast_ex(id, &join, NULL), -1);
	assert_int_equal(errno, ENOTSUP);
	join.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
	assert_int_equal(rdma_join_multicast_ex(id, &join, NULL), -1);
	assert_int_equal(errno, EINVAL);
	join.comp_mask |= RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	join.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
	assert_int_equal(rdma_join_multicast_ex(id, &join, NULL), -1);
	assert_int_equal(errno, EINVAL);
	/* A join that is left before its event was taken leaves nothing behind. */
	group.sin_addr.s_addr = htonl(0xef010204);
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	expect_no_cm_event(channel);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lookup_finds_the_queue_pair),
		cmocka_unit_test(a_service_may_refuse),
		cmocka_unit_test(members_of_a_group_hear_each_other),
		cmocka_unit_test(joins_are_checked),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
