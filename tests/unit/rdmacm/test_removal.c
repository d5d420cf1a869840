/* SPDX-License-Identifier: MIT
 *
 * An interface goes away, and with it its device: each id that was bound to it hears of it, whatever it was doing, the
 * others do not; the program can tidy up; and the same address on a new interface is a new device.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/patience.h"
#include "lib/private_network.h"

#define ADDRESS "192.0.2.1"

static struct sockaddr_in at(const char *address, uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};

	assert_int_equal(inet_pton(AF_INET, address, &in.sin_addr), 1);
	return in;
}

static struct rdma_cm_id *bound_id(struct rdma_event_channel *channel, const char *address)
{
	struct sockaddr_in in = at(address, 0);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&in), 0);
	return id;
}

static struct rdma_cm_id *listening_id(struct rdma_event_channel *channel, const char *address)
{
	struct rdma_cm_id *id = bound_id(channel, address);

	assert_int_equal(rdma_listen(id, 4), 0);
	return id;
}

static struct rdma_cm_id *resolved_to(struct rdma_event_channel *channel, const struct rdma_cm_id *listener)
{
	struct sockaddr_in in = at(ADDRESS, ntohs(rdma_get_src_port((struct rdma_cm_id *)listener)));
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, PATIENCE_MS), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	return id;
}

/* Both ends of a connection to the listener, on its channel. */
static void connect_to(struct rdma_event_channel *channel, struct rdma_cm_id *listener, struct rdma_cm_id *ends[2])
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
	struct rdma_cm_event *event;

	ends[0] = resolved_to(channel, listener);
	assert_int_equal(rdma_resolve_route(ends[0], PATIENCE_MS), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	add_qp(ends[0]);
	assert_int_equal(rdma_connect(ends[0], &param), 0);
	event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	ends[1] = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	add_qp(ends[1]);
	assert_int_equal(rdma_accept(ends[1], &param), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ESTABLISHED), 0);
}

static void destroy_ends(struct rdma_cm_id *ends[2])
{
	for (int i = 0; i < 2; i++) {
		rdma_destroy_qp(ends[i]);
		assert_int_equal(rdma_destroy_id(ends[i]), 0);
	}
}

/* Each of the ids is told once, in any order. */
static void expect_removals(struct rdma_event_channel *channel, struct rdma_cm_id **ids, unsigned count)
{
	for (unsigned told = 0, seen = 0; told < count; told++) {
		struct rdma_cm_event *event = next_event(channel, RDMA_CM_EVENT_DEVICE_REMOVAL);
		unsigned i = 0;

		assert_int_equal(event->status, 0);
		while (i < count && ids[i] != event->id)
			i++;
		assert_true(i < count && !(seen & 1u << i));
		seen |= 1u << i;
		assert_int_equal(rdma_ack_cm_event(event), 0);
	}
	expect_no_cm_event(channel);
}

static void expect_fatal(struct ibv_context *context)
{
	struct ibv_async_event event;

	do {
		assert_int_equal(ibv_get_async_event(context, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_DEVICE_FATAL);
}

/* rdma_connect does not wait for verbenad: what that has against it comes as an event. */
static void a_connection_that_is_refused_here_is_told_of(void **state)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *ids[4], *listener = listening_id(channel, ADDRESS);
	int error;

	(void)state;
	ids[0] = listener;
	connect_to(channel, listener, ids + 1);
	ids[3] = resolved_to(channel, listener);
	assert_int_equal(rdma_resolve_route(ids[3], PATIENCE_MS), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	add_qp(ids[3]);
	assert_int_equal(private_network_remove_interface("vb0"), 0);
	expect_removals(channel, ids, 4);
	error = rdma_connect(ids[3], &param);
	/* iWARP: the system's own call says so. */
	if (ids[3]->verbs->device->transport_type != IBV_TRANSPORT_IWARP) {
		assert_int_equal(error, 0);
		assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_CONNECT_ERROR), -EADDRNOTAVAIL);
	}
	rdma_destroy_qp(ids[3]);
	assert_int_equal(rdma_destroy_id(ids[3]), 0);
	destroy_ends(ids + 1);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
	assert_int_equal(private_network_add_interface("vb0", ADDRESS, 24), 0);
	assert_int_equal(private_network_set_up("veth0", 1), 0);
}

static void who_is_bound_to_a_device_hears_that_it_is_gone(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel(), *others = rdma_create_event_channel();
	struct rdma_cm_id *told[5], *anywhere, *again, *listener;
	struct connection elsewhere;
	struct ibv_context *old;

	(void)state;
	connection_open(&elsewhere); /* over the loopback device */
	anywhere = listening_id(others, "0.0.0.0");
	told[0] = listening_id(channel, ADDRESS);
	told[1] = bound_id(channel, ADDRESS);
	told[2] = resolved_to(channel, told[0]);
	connect_to(channel, told[0], told + 3);
	old = told[0]->verbs;

	assert_int_equal(private_network_remove_interface("vb0"), 0);
	expect_removals(channel, told, 5);
	expect_fatal(old);

	destroy_ends(told + 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rdma_destroy_id(told[i]), 0);
	assert_int_equal(private_network_add_interface("vb0", ADDRESS, 24), 0);
	assert_int_equal(private_network_set_up("veth0", 1), 0);
	/* Nobody says when verbenad has seen it. */
	again = NULL;
	assert_true(eventually(({
		struct sockaddr_in in = at(ADDRESS, 0);
		bool done;

		assert_int_equal(rdma_create_id(channel, &again, NULL, RDMA_PS_TCP), 0);
		done = rdma_bind_addr(again, (struct sockaddr *)&in) == 0;
		if (!done)
			rdma_destroy_id(again);
		done;
	})));
	assert_ptr_not_equal(again->verbs, old);
	assert_int_equal(rdma_destroy_id(again), 0);
	listener = listening_id(channel, ADDRESS);
	connect_to(channel, listener, told + 3);
	destroy_ends(told + 3);
	assert_int_equal(rdma_destroy_id(listener), 0);

	exchange_message(&elsewhere, 0, "still here");
	expect_no_cm_event(others);
	assert_int_equal(rdma_destroy_id(anywhere), 0);
	connection_close(&elsewhere);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(others);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_bound_to_a_device_hears_that_it_is_gone),
		cmocka_unit_test(a_connection_that_is_refused_here_is_told_of),
	};

	private_network_enter();
	if (private_network_add_interface("vb0", ADDRESS, 24) != 0 || private_network_set_up("veth0", 1) != 0) {
		puts("skipped: no veth here");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
