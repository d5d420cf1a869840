/* SPDX-License-Identifier: MIT
 *
 * Asynchronous events: of queue pairs, of the port, of the GID table; reading, waiting and acknowledging.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"

static void an_empty_queue_says_so(void **state)
{
	struct ibv_async_event event;
	struct pollfd waiting = {.fd = world.context->async_fd, .events = POLLIN};
	int flags = fcntl(world.context->async_fd, F_GETFL);

	(void)state;
	assert_int_equal(poll(&waiting, 1, 0), 0);
	assert_int_equal(fcntl(world.context->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
	assert_int_equal(ibv_get_async_event(world.context, &event), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(fcntl(world.context->async_fd, F_SETFL, flags), 0);
	assert_int_equal(ibv_get_async_event(NULL, &event), -1);
	assert_int_equal(errno, EINVAL);
}

static void communication_is_established_by_a_packet(void **state)
{
	const struct pair_options options = {.stay_in_reset = true};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &world, &options);
	for (int side = 0; side < 2; side++) {
		pair_to_init(&pair, side);
		pair_to_rtr(&pair, side);
	}
	pair_to_rts(&pair, 0);
	pair_receive(&pair, 1, 1, 0, 8);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 8);
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[1], 1, IBV_WC_RECV);
	assert_ptr_equal(expect_event(world.context, IBV_EVENT_COMM_EST).element.qp, pair.qp[1]);
	pair_close(&pair);
}

static struct ibv_qp *victim;
static bool victim_destroyed;

static void *destroy(void *unused)
{
	(void)unused;
	assert_int_equal(ibv_destroy_qp(victim), 0);
	__atomic_store_n(&victim_destroyed, true, __ATOMIC_RELEASE);
	return NULL;
}

static void provoke_access_error(struct pair *pair)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(pair, 0, IBV_WR_RDMA_WRITE, &sge, 0, 8);

	wr.wr.rdma.rkey ^= 0x100;
	pair_post(pair, 0, &wr);
	expect_status(pair->cq[0], wr.wr_id, IBV_WC_REM_ACCESS_ERR);
}

static void destruction_waits_for_acknowledgement(void **state)
{
	struct pair pair;
	struct ibv_async_event event;
	pthread_t thread;

	(void)state;
	pair_open(&pair, &world, NULL);
	provoke_access_error(&pair);
	assert_int_equal(ibv_get_async_event(world.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	victim = pair.qp[1];
	pair.qp[1] = NULL;
	assert_int_equal(pthread_create(&thread, NULL, destroy, NULL), 0);
	usleep(20000);
	assert_false(__atomic_load_n(&victim_destroyed, __ATOMIC_ACQUIRE));
	ibv_ack_async_event(&event);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(victim_destroyed);
	pair_close(&pair);
}

static void unread_events_go_with_their_object(void **state)
{
	struct pollfd waiting = {.fd = world.context->async_fd, .events = POLLIN};
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, NULL);
	provoke_access_error(&pair);
	assert_int_equal(poll(&waiting, 1, PATIENCE_MS), 1);
	pair_close(&pair);
	assert_int_equal(poll(&waiting, 1, 0), 0);
}

/* The next event that is not about addresses the kernel adds by itself. */
static enum ibv_event_type next_event(struct ibv_context *context)
{
	struct pollfd waiting = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	if (poll(&waiting, 1, PATIENCE_MS) != 1)
		fail_msg("no event came");
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	ibv_ack_async_event(&event);
	assert_int_equal(event.element.port_num, 1);
	return event.event_type;
}

static bool has_gid(struct ibv_context *context, const uint8_t ipv4[4])
{
	struct ibv_gid_entry table[64];
	ssize_t count = ibv_query_gid_table(context, table, 64, 0);

	for (ssize_t i = 0; i < count; i++)
		if (memcmp(table[i].gid.raw + 12, ipv4, 4) == 0 && table[i].gid.raw[10] == 0xff)
			return true;
	return false;
}

static void await(struct ibv_context *context, enum ibv_event_type type)
{
	if (!eventually(next_event(context) == type))
		fail_msg("'%s' did not come", ibv_event_type_str(type));
}

static void the_interface_is_watched(void **state)
{
	struct world watched;
	struct ibv_port_attr port;

	(void)state;
	if (private_network_add_interface("vb0", "192.0.2.1", 24) != 0 || private_network_set_up("veth0", 1) != 0)
		skip();
	world_open(&watched, "vb0");
	assert_true(has_gid(watched.context, (uint8_t[]){192, 0, 2, 1}));
	assert_int_equal(private_network_add_address("vb0", "192.0.2.2", 24), 0);
	await(watched.context, IBV_EVENT_GID_CHANGE);
	while (!has_gid(watched.context, (uint8_t[]){192, 0, 2, 2}))
		await(watched.context, IBV_EVENT_GID_CHANGE);
	assert_int_equal(private_network_remove_address("vb0", "192.0.2.2", 24), 0);
	while (has_gid(watched.context, (uint8_t[]){192, 0, 2, 2}))
		await(watched.context, IBV_EVENT_GID_CHANGE);
	assert_int_equal(private_network_set_up("vb0", 0), 0);
	await(watched.context, IBV_EVENT_PORT_ERR);
	assert_int_equal(ibv_query_port(watched.context, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_DOWN);
	assert_int_equal(private_network_set_up("vb0", 1), 0);
	await(watched.context, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(ibv_query_port(watched.context, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	world_close(&watched);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_queue_says_so),
		cmocka_unit_test(communication_is_established_by_a_packet),
		cmocka_unit_test(destruction_waits_for_acknowledgement),
		cmocka_unit_test(unread_events_go_with_their_object),
		cmocka_unit_test(the_interface_is_watched),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
