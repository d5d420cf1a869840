/* SPDX-License-Identifier: MIT
 *
 * Many ids, many connections: nothing is left behind, nothing gets slow. VERBENA_TEST_MANY=10000 makes it that many
 * of each.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/private_network.h"

enum { CYCLES = 200, IDS = 2000, THREADS = 4, IDS_OF_A_THREAD = 100 };

static int how_many(int usual)
{
	const char *wanted = getenv("VERBENA_TEST_MANY");

	return wanted != NULL ? atoi(wanted) : usual;
}

static void cycles_leave_nothing_behind(void **state)
{
	struct connection connection;
	int cycles = how_many(CYCLES);
	unsigned before;

	(void)state;
	connection_open(&connection);
	connection_close(&connection);
	before = open_descriptors();
	for (int i = 0; i < cycles; i++) {
		connection_open(&connection);
		assert_int_equal(rdma_disconnect(connection.id[i & 1]), 0);
		assert_int_equal(expect_cm_event(connection.channel[!(i & 1)], RDMA_CM_EVENT_DISCONNECTED), 0);
		connection_close(&connection);
	}
	assert_int_equal(open_descriptors(), before);
}

static void many_ids_listen_at_once(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	int count = how_many(IDS);
	struct rdma_cm_id **ids = calloc((size_t)count, sizeof(struct rdma_cm_id *)), *asking;
	struct rdma_conn_param param = {0};
	struct rdma_cm_event *event;
	uint16_t port = 0, last = 0;

	(void)state;
	assert_non_null(ids);
	for (int i = 0; i < count; i++) {
		ids[i] = listen_on_loopback(channel, RDMA_PS_TCP, &last);
		if (i == count / 2)
			port = last;
	}
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, ids[count / 2]);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_REJECTED), 28);
	rdma_destroy_ep(asking);
	for (int i = 0; i < count; i++)
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
	free(ids);
	rdma_destroy_event_channel(channel);
}

/* Threads share the link, each with its own channel. */
static void *use_ids(void *unused)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	(void)unused;
	for (int i = 0; i < IDS_OF_A_THREAD; i++) {
		struct rdma_cm_id *id = resolved_id(channel, i & 1 ? RDMA_PS_TCP : RDMA_PS_UDP, 77);

		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(channel);
	return NULL;
}

static void threads_share_the_link(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_ids, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cycles_leave_nothing_behind),
		cmocka_unit_test(many_ids_listen_at_once),
		cmocka_unit_test(threads_share_the_link),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
