/* SPDX-License-Identifier: MIT
 *
 * What connections may be like: both families of addresses and who listens for which, every port space, a source of the
 * program's choice, options that reach the queue pair, extensions that travel along, and the helpers of rdma_verbs.h on
 * what comes out.
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

enum { OURS = 0xc6336401, ALSO_OURS = 0xc6336402, NOT_OURS = 0xc6336403 }; /* 198.51.100.1 to 3 */

static struct rdma_event_channel *active, *passive;

static int make_channels(void **state)
{
	(void)state;
	active = rdma_create_event_channel();
	passive = rdma_create_event_channel();
	return active != NULL && passive != NULL ? 0 : -1;
}

static int destroy_channels(void **state)
{
	(void)state;
	rdma_destroy_event_channel(active);
	rdma_destroy_event_channel(passive);
	return 0;
}

/* Room for either; ports in host order. */
union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static union address ipv6(struct in6_addr where, uint16_t port)
{
	return (union address){.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = where}};
}

static union address ipv4(uint32_t where, uint16_t port)
{
	return (union address){.v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(where)}};
}

static struct rdma_cm_id *bind_to(union address address, bool family_only)
{
	struct rdma_cm_id *id;
	int on = family_only;

	assert_int_equal(rdma_create_id(passive, &id, NULL, RDMA_PS_TCP), 0);
	if (family_only)
		assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)), 0);
	if (rdma_bind_addr(id, &address.any) != 0) {
		assert_int_equal(rdma_destroy_id(id), 0);
		return NULL;
	}
	return id;
}

static struct rdma_cm_id *resolve(enum rdma_port_space space, union address *source, union address destination)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(active, &id, NULL, space), 0);
	assert_int_equal(rdma_resolve_addr(id, source != NULL ? &source->any : NULL, &destination.any, 1000), 0);
	assert_int_equal(expect_cm_event(active, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(expect_cm_event(active, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	return id;
}

static struct rdma_cm_id *request_of(struct rdma_cm_id *listener)
{
	struct rdma_cm_event *event = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event->id;

	assert_ptr_equal(event->listen_id, listener);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	return id;
}

/* An id with a queue pair asks; the listener, and nobody else, is asked, and says no. */
static void is_asked(struct rdma_cm_id *listener, union address destination)
{
	struct rdma_cm_id *asking = resolve(RDMA_PS_TCP, NULL, destination), *asked;

	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &(struct rdma_conn_param){0}), 0);
	asked = request_of(listener);
	assert_int_equal(rdma_get_local_addr(asked)->sa_family, destination.any.sa_family);
	assert_int_equal(rdma_reject(asked, NULL, 0), 0);
	assert_int_equal(rdma_destroy_id(asked), 0);
	assert_int_equal(expect_cm_event(active, RDMA_CM_EVENT_REJECTED), 28);
	rdma_destroy_ep(asking);
}

/* Connect an id to the listener and accept. */
static void join(struct rdma_cm_id *asking, struct rdma_cm_id *listener, struct connection *connection)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};

	*connection = (struct connection){.channel = {active, passive}, .listener = listener, .id[0] = asking};
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	connection->id[1] = request_of(listener);
	add_qp(connection->id[1]);
	assert_int_equal(rdma_accept(connection->id[1], &param), 0);
	assert_int_equal(expect_cm_event(active, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_cm_event(passive, RDMA_CM_EVENT_ESTABLISHED), 0);
}

static void part(struct connection *connection)
{
	rdma_destroy_ep(connection->id[0]);
	assert_int_equal(expect_cm_event(passive, RDMA_CM_EVENT_DISCONNECTED), 0);
	rdma_destroy_ep(connection->id[1]);
	assert_int_equal(rdma_destroy_id(connection->listener), 0);
}

static void ipv6_connects(void **state)
{
	struct rdma_cm_id *listener = bind_to(ipv6(in6addr_loopback, 0), false);
	struct connection connection;
	const struct sockaddr_in6 *peer;

	(void)state;
	assert_non_null(listener);
	assert_int_equal(rdma_listen(listener, 1), 0);
	join(resolve(RDMA_PS_TCP, NULL, ipv6(in6addr_loopback, ntohs(rdma_get_src_port(listener)))), listener, &connection);
	peer = (const struct sockaddr_in6 *)(void *)rdma_get_peer_addr(connection.id[1]);
	assert_int_equal(peer->sin6_family, AF_INET6);
	assert_memory_equal(&peer->sin6_addr, &in6addr_loopback, 16);
	exchange_message(&connection, 0, "over the new protocol");
	exchange_message(&connection, 1, "and back");
	part(&connection);
}

static void a_wildcard_takes_both_families(void **state)
{
	struct rdma_cm_id *listener = bind_to(ipv6(in6addr_any, 0), false);
	uint16_t port;

	(void)state;
	assert_non_null(listener);
	port = ntohs(rdma_get_src_port(listener));
	assert_int_equal(rdma_listen(listener, 1), 0);
	is_asked(listener, ipv6(in6addr_loopback, port));
	is_asked(listener, ipv4(INADDR_LOOPBACK, port));
	/* So there is no room for another. */
	errno = 0;
	assert_null(bind_to(ipv4(INADDR_ANY, port), false));
	assert_int_equal(errno, EADDRNOTAVAIL);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static void afonly_keeps_families_apart(void **state)
{
	struct rdma_cm_id *six = bind_to(ipv6(in6addr_any, 0), true), *four;
	uint16_t port;

	(void)state;
	assert_non_null(six);
	port = ntohs(rdma_get_src_port(six));
	four = bind_to(ipv4(INADDR_ANY, port), true);
	assert_non_null(four);
	assert_int_equal(rdma_listen(six, 1), 0);
	assert_int_equal(rdma_listen(four, 1), 0);
	is_asked(six, ipv6(in6addr_loopback, port));
	is_asked(four, ipv4(INADDR_LOOPBACK, port));
	assert_int_equal(rdma_destroy_id(four), 0);
	/* Nobody is there for the other family now. */
	four = resolve(RDMA_PS_TCP, NULL, ipv4(INADDR_LOOPBACK, port));
	add_qp(four);
	assert_int_equal(rdma_connect(four, &(struct rdma_conn_param){0}), 0);
	assert_int_equal(expect_cm_event(active, RDMA_CM_EVENT_REJECTED), 8);
	rdma_destroy_ep(four);
	assert_int_equal(rdma_destroy_id(six), 0);
}

static void the_source_may_be_chosen(void **state)
{
	struct rdma_cm_id *listener = bind_to(ipv4(OURS, 0), false), *asking;
	union address source = ipv4(ALSO_OURS, 0), destination;
	struct connection connection;

	(void)state;
	assert_non_null(listener);
	destination = ipv4(OURS, ntohs(rdma_get_src_port(listener)));
	assert_int_equal(rdma_listen(listener, 1), 0);
	asking = resolve(RDMA_PS_TCP, &source, destination);
	assert_int_equal(((struct sockaddr_in *)(void *)rdma_get_local_addr(asking))->sin_addr.s_addr, source.v4.sin_addr.s_addr);
	assert_int_not_equal(rdma_get_src_port(asking), 0);
	join(asking, listener, &connection);
	assert_int_equal(((struct sockaddr_in *)(void *)rdma_get_peer_addr(connection.id[1]))->sin_addr.s_addr,
			 source.v4.sin_addr.s_addr);
	exchange_message(&connection, 0, "from another address");
	part(&connection);

	assert_int_equal(rdma_create_id(active, &asking, NULL, RDMA_PS_TCP), 0);
	source = ipv4(NOT_OURS, 0);
	errno = 0;
	assert_int_equal(rdma_resolve_addr(asking, &source.any, &destination.any, 1000), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	assert_int_equal(rdma_destroy_id(asking), 0);
}

/* RDMA_PS_IB is reliable, RDMA_PS_IPOIB is not: they are connected like RDMA_PS_TCP and RDMA_PS_UDP, apart from them. */
static void other_port_spaces_connect(void **state)
{
	static const enum rdma_port_space spaces[] = {RDMA_PS_IB, RDMA_PS_IPOIB};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct rdma_conn_param param = {0};
		struct rdma_cm_id *listener, *asking, *asked;
		uint16_t port;

		listener = listen_on_loopback(passive, spaces[i], &port);
		asking = resolve(spaces[i], NULL, ipv4(INADDR_LOOPBACK, port));
		add_qp(asking);
		assert_int_equal(rdma_connect(asking, &param), 0);
		asked = request_of(listener);
		assert_int_equal(asked->ps, spaces[i]);
		add_qp(asked);
		param.qp_num = asked->qp->qp_num;
		assert_int_equal(rdma_accept(asked, &param), 0);
		assert_int_equal(expect_cm_event(active, RDMA_CM_EVENT_ESTABLISHED), 0);
		rdma_destroy_ep(asking);
		rdma_destroy_ep(asked);
		assert_int_equal(rdma_destroy_id(listener), 0);
	}
}

static void options_reach_the_queue_pair(void **state)
{
	struct rdma_cm_id *listener, *asking;
	struct connection connection;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint8_t tos = 0x28, timeout = 11;
	union address destination;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	destination = ipv4(INADDR_LOOPBACK, port);
	assert_int_equal(rdma_create_id(active, &asking, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_set_option(asking, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)), 0);
	assert_int_equal(rdma_set_option(asking, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout)), 0);
	assert_int_equal(rdma_resolve_addr(asking, NULL, &destination.any, 1000), 0);
	assert_int_equal(expect_cm_event(active, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_resolve_route(asking, 1000), 0);
	assert_int_equal(expect_cm_event(active, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	join(asking, listener, &connection);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_query_qp(connection.id[i]->qp, &attr, IBV_QP_AV | IBV_QP_TIMEOUT, &init), 0);
		assert_int_equal(attr.ah_attr.grh.traffic_class, tos);
		if (i == 0)
			assert_int_equal(attr.timeout, timeout);
	}
	part(&connection);
}

/* Programs that move their own queue pairs may agree on extensions of their adapters; we carry what they say. */
static void extensions_travel(void **state)
{
	struct rdma_conn_param param = {.qp_num = 0x123456};
	struct ibv_ece mine = {.vendor_id = 0x15b3, .options = 0xabcd}, theirs = {.vendor_id = 0x15b3, .options = 0x8}, seen = {0};
	struct rdma_cm_id *listener, *asking, *asked;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	asking = resolve(RDMA_PS_TCP, NULL, ipv4(INADDR_LOOPBACK, port));
	assert_int_equal(rdma_set_local_ece(asking, &mine), 0);
	assert_int_equal(rdma_connect(asking, &param), 0);
	asked = request_of(listener);
	assert_int_equal(rdma_get_remote_ece(asked, &seen), 0);
	assert_int_equal(seen.vendor_id, mine.vendor_id);
	assert_int_equal(seen.options, mine.options);
	assert_int_equal(rdma_set_local_ece(asked, &theirs), 0);
	param.qp_num = 0x654321;
	assert_int_equal(rdma_accept(asked, &param), 0);
	assert_int_equal(expect_cm_event(active, RDMA_CM_EVENT_CONNECT_RESPONSE), 0);
	assert_int_equal(rdma_get_remote_ece(asking, &seen), 0);
	assert_int_equal(seen.vendor_id, theirs.vendor_id);
	assert_int_equal(seen.options, theirs.options);
	assert_int_equal(rdma_destroy_id(asking), 0);
	assert_int_equal(rdma_destroy_id(asked), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static void complete(struct rdma_cm_id *id, bool received, void *context)
{
	struct ibv_wc wc;

	assert_int_equal(received ? rdma_get_recv_comp(id, &wc) : rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, (uintptr_t)context);
}

static void helpers_move_memory(void **state)
{
	struct connection connection;
	struct rdma_cm_id *here, *there;
	char near[64] = "near", far[64] = "far away";
	struct ibv_mr *near_mr, *far_write_mr, *far_read_mr, *far_msg_mr;
	struct ibv_sge parts[2];

	(void)state;
	connection_open(&connection);
	here = connection.id[0];
	there = connection.id[1];
	near_mr = rdma_reg_msgs(here, near, sizeof(near));
	far_write_mr = rdma_reg_write(there, far, sizeof(far));
	far_read_mr = rdma_reg_read(there, far, sizeof(far));
	far_msg_mr = rdma_reg_msgs(there, far, sizeof(far));
	assert_true(near_mr != NULL && far_write_mr != NULL && far_read_mr != NULL && far_msg_mr != NULL);

	assert_int_equal(rdma_post_read(here, &near, near, 9, near_mr, 0, (uintptr_t)far, far_read_mr->rkey), 0);
	complete(here, false, &near);
	assert_string_equal(near, "far away");
	memcpy(near, "written", 8);
	assert_int_equal(rdma_post_write(here, &far, near, 8, near_mr, 0, (uintptr_t)far, far_write_mr->rkey), 0);
	complete(here, false, &far);
	assert_string_equal(far, "written");

	parts[0] = (struct ibv_sge){.addr = (uintptr_t)near, .length = 8, .lkey = near_mr->lkey};
	parts[1] = (struct ibv_sge){.addr = (uintptr_t)far, .length = 32, .lkey = far_msg_mr->lkey};
	memcpy(near, "in list", 8);
	assert_int_equal(rdma_post_recvv(there, parts, &parts[1], 1), 0);
	assert_int_equal(rdma_post_sendv(here, parts, &parts[0], 1, 0), 0);
	complete(here, false, parts);
	complete(there, true, parts);
	assert_string_equal(far, "in list");
	assert_int_equal(rdma_post_writev(here, NULL, &parts[0], 1, 0, (uintptr_t)far + 8, far_write_mr->rkey), 0);
	complete(here, false, NULL);
	assert_string_equal(far + 8, "in list");
	memset(near, 0, sizeof(near));
	assert_int_equal(rdma_post_readv(here, NULL, &parts[0], 1, 0, (uintptr_t)far + 8, far_read_mr->rkey), 0);
	complete(here, false, NULL);
	assert_string_equal(near, "in list");

	rdma_dereg_mr(near_mr);
	rdma_dereg_mr(far_write_mr);
	rdma_dereg_mr(far_read_mr);
	rdma_dereg_mr(far_msg_mr);
	connection_close(&connection);
}

#define with_channels(name) cmocka_unit_test_setup_teardown(name, make_channels, destroy_channels)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_channels(ipv6_connects),
		with_channels(a_wildcard_takes_both_families),
		with_channels(afonly_keeps_families_apart),
		with_channels(the_source_may_be_chosen),
		with_channels(other_port_spaces_connect),
		with_channels(options_reach_the_queue_pair),
		with_channels(extensions_travel),
		cmocka_unit_test(helpers_move_memory),
	};

	private_network_enter();
	if (private_network_add_address("lo", "198.51.100.1", 32) != 0 || private_network_add_address("lo", "198.51.100.2", 32) != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
