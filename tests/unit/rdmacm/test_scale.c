/* SPDX-License-Identifier: MIT
 *
 * Ten thousand ids in one process: listening; connected, with a queue pair each, to ten thousand ids of another process. The
 * other is then killed, and all of them are told. Several threads with ids of their own. The sanitizers' stages do with fewer:
 * theirs is not the question of scale.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "lib/resident.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IDS = 1000 };
#else
enum { IDS = 10000 };
#endif

enum { IN_FLIGHT = 64, CHECKED = 50, THREADS = 4, IDS_OF_A_THREAD = 100 };

static pid_t other;
static int port_pipe[2];

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void listening_ids(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id **ids = calloc(IDS, sizeof(*ids)), *asking;
	struct rdma_conn_param param = {0};
	struct rdma_cm_event *event;
	uint16_t port = 0, last = 0;
	double began = seconds();
	long before;

	(void)state;
	assert_non_null(ids);
	ids[0] = listen_on_loopback(channel, RDMA_PS_TCP, &last);
	before = (long)resident_bytes("/proc/self");
	for (int i = 1; i < IDS; i++) {
		ids[i] = listen_on_loopback(channel, RDMA_PS_TCP, &last);
		if (i == IDS / 2)
			port = last;
	}
	print_message("%d ids listen after %.2f s; %ld bytes each\n", IDS, seconds() - began,
		      ((long)resident_bytes("/proc/self") - before) / IDS);
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, ids[IDS / 2]);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_REJECTED), 28);
	rdma_destroy_ep(asking);
	for (int i = 0; i < IDS; i++)
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
	free(ids);
	rdma_destroy_event_channel(channel);
}

/* One side of all the connections: its ids share a protection domain and a completion queue, as a server with ten thousand
 * clients has it. */
struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *ids[IDS];
	int count;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char message[CHECKED][16];
};

static void give_qp(struct side *side, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	if (side->pd == NULL) {
		side->pd = ibv_alloc_pd(id->verbs);
		assert_non_null(side->pd);
		side->cq = ibv_create_cq(id->verbs, 4 * CHECKED, NULL, NULL, 0);
		assert_non_null(side->cq);
		side->mr = ibv_reg_mr(side->pd, side->message, sizeof(side->message), IBV_ACCESS_LOCAL_WRITE);
		assert_non_null(side->mr);
	}
	attr.send_cq = attr.recv_cq = side->cq;
	assert_int_equal(rdma_create_qp(id, side->pd, &attr), 0);
}

static struct rdma_cm_event *await_event(struct side *side)
{
	struct pollfd fd = {.fd = side->channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
	assert_int_equal(rdma_get_cm_event(side->channel, &event), 0);
	return event;
}

static void begin_to_connect(struct side *side, uint16_t port)
{
	struct sockaddr_in address = loopback(port);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(side->channel, &id, NULL, RDMA_PS_TCP), 0);
	side->ids[side->count++] = id;
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
}

/* Make all connections, IN_FLIGHT at a time. */
static void connect_all(struct side *side, uint16_t port)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
	int established = 0;

	while (side->count < IN_FLIGHT)
		begin_to_connect(side, port);
	while (established < IDS) {
		struct rdma_cm_event *event = await_event(side);
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type kind = event->event;

		assert_int_equal(event->status, 0);
		assert_int_equal(rdma_ack_cm_event(event), 0);
		switch (kind) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			assert_int_equal(rdma_resolve_route(id, 1000), 0);
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			give_qp(side, id);
			assert_int_equal(rdma_connect(id, &param), 0);
			break;
		default:
			assert_int_equal(kind, RDMA_CM_EVENT_ESTABLISHED);
			established++;
			if (side->count < IDS)
				begin_to_connect(side, port);
		}
	}
}

static void accept_all(struct side *side)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7};

	for (int established = 0; established < IDS;) {
		struct rdma_cm_event *event = await_event(side);
		struct rdma_cm_id *id = event->id;

		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			side->ids[side->count++] = id;
			give_qp(side, id);
			if (side->count % (IDS / CHECKED) == 0) {
				char *message = side->message[side->count / (IDS / CHECKED) - 1];

				assert_int_equal(rdma_post_recv(id, message, message, sizeof(side->message[0]), side->mr), 0);
			}
			assert_int_equal(rdma_accept(id, &param), 0);
		} else {
			assert_int_equal(event->event, RDMA_CM_EVENT_ESTABLISHED);
			established++;
		}
		assert_int_equal(rdma_ack_cm_event(event), 0);
	}
}

/* The other process: it connects, says something on some of the connections, and waits to be killed. */
static void connecting_ids(void **state)
{
	struct side *side = calloc(1, sizeof(*side));
	uint16_t port;
	long before;

	(void)state;
	assert_non_null(side);
	assert_int_equal(read(port_pipe[0], &port, sizeof(port)), sizeof(port));
	side->channel = rdma_create_event_channel();
	before = (long)resident_bytes("/proc/self");
	connect_all(side, port);
	print_message("active side: %ld bytes for each id\n", ((long)resident_bytes("/proc/self") - before) / IDS);
	for (int i = 0; i < CHECKED; i++) {
		struct rdma_cm_id *id = side->ids[(i + 1) * (IDS / CHECKED) - 1];

		snprintf(side->message[i], sizeof(side->message[i]), "%d", i);
		assert_int_equal(rdma_post_send(id, NULL, side->message[i], sizeof(side->message[i]), side->mr, 0), 0);
	}
	for (;;)
		pause();
}

static void await_messages(struct side *side)
{
	bool seen[CHECKED] = {false};

	for (int i = 0; i < CHECKED; i++) {
		struct ibv_wc wc;
		int number;

		assert_true(eventually(ibv_poll_cq(side->cq, 1, &wc) == 1));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		number = atoi((const char *)(uintptr_t)wc.wr_id);
		assert_in_range(number, 0, CHECKED - 1);
		assert_false(seen[number]);
		seen[number] = true;
	}
}

static void connected_ids(void **state)
{
	struct side *side = calloc(1, sizeof(*side));
	struct rdma_cm_id *listener;
	uint16_t port;
	double began;
	long before;

	(void)state;
	assert_non_null(side);
	side->channel = rdma_create_event_channel();
	listener = listen_on_loopback(side->channel, RDMA_PS_TCP, &port);
	assert_int_equal(write(port_pipe[1], &port, sizeof(port)), sizeof(port));
	before = (long)resident_bytes("/proc/self");
	began = seconds();
	accept_all(side);
	print_message("%d ids are connected after %.2f s; passive side: %ld bytes for each\n", IDS, seconds() - began,
		      ((long)resident_bytes("/proc/self") - before) / IDS);
	await_messages(side);

	began = seconds();
	assert_int_equal(kill(other, SIGKILL), 0);
	for (int i = 0; i < IDS; i++) {
		struct rdma_cm_event *event = await_event(side);

		assert_int_equal(event->event, RDMA_CM_EVENT_DISCONNECTED);
		assert_int_equal(rdma_ack_cm_event(event), 0);
	}
	print_message("all are told of the other's death after %.2f s\n", seconds() - began);
	assert_int_equal(waitpid(other, NULL, 0), other);
	began = seconds();
	for (int i = 0; i < IDS; i++) {
		rdma_destroy_qp(side->ids[i]);
		assert_int_equal(rdma_destroy_id(side->ids[i]), 0);
	}
	print_message("and destroyed after %.2f s\n", seconds() - began);
	assert_int_equal(rdma_destroy_id(listener), 0);
	ibv_dereg_mr(side->mr);
	assert_int_equal(ibv_destroy_cq(side->cq), 0);
	assert_int_equal(ibv_dealloc_pd(side->pd), 0);
	rdma_destroy_event_channel(side->channel);
	free(side);
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
		cmocka_unit_test(connected_ids),
		cmocka_unit_test(listening_ids),
		cmocka_unit_test(threads_share_the_link),
	};
	const struct CMUnitTest others[] = {cmocka_unit_test(connecting_ids)};

	private_network_enter();
	/* Before anything is used: a child has nothing of its parent's. */
	if (pipe(port_pipe) != 0 || (other = fork()) < 0) {
		perror("another process");
		return 1;
	}
	if (other == 0)
		return cmocka_run_group_tests(others, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
