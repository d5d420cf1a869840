/* SPDX-License-Identifier: MIT
 *
 * verbenad dies and another takes its place: connections stay, listeners listen, and what is asked for is done.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/patience.h"
#include "lib/private_network.h"

/* Kill it and wait until it is gone. */
static void kill_daemon(void)
{
	int pid = daemon_pid();

	assert_int_not_equal(pid, 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_true(eventually(daemon_pid() != pid));
}

static void a_connection_outlives_the_daemon(void **state)
{
	struct connection connection;

	(void)state;
	connection_open(&connection);
	kill_daemon();
	exchange_message(&connection, 0, "nobody is missed");
	exchange_message(&connection, 1, "nor in this direction");
	assert_int_equal(rdma_disconnect(connection.id[0]), 0);
	assert_int_equal(expect_cm_event(connection.channel[1], RDMA_CM_EVENT_DISCONNECTED), 0);
	connection_close(&connection);
}

static void a_listener_outlives_the_daemon(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *listener, *asking;
	struct rdma_cm_event *event;
	uint16_t port;

	(void)state;
	listener = listen_on_loopback(channel, RDMA_PS_TCP, &port);
	kill_daemon();
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	assert_int_equal(ntohs(rdma_get_src_port(listener)), port);
	assert_int_equal(rdma_connect(asking, &param), 0);
	event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, listener);
	assert_int_equal(rdma_reject(event->id, NULL, 0), 0);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_REJECTED), 28);
	rdma_destroy_ep(asking);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

/* An id whose request a listener hears of twice: by the daemon that dies, and by the next. */
struct asked_twice {
	struct rdma_event_channel *channel, *passive;
	struct rdma_cm_id *listener, *asking;
	struct rdma_cm_event *first, *second;
	uint16_t port;
};

static void begin_to_listen(struct asked_twice *twice)
{
	twice->channel = rdma_create_event_channel();
	twice->passive = rdma_create_event_channel();
	twice->listener = listen_on_loopback(twice->passive, RDMA_PS_TCP, &twice->port);
}

static void ask(struct asked_twice *twice)
{
	struct rdma_conn_param param = {0};

	twice->asking = resolved_id(twice->channel, RDMA_PS_TCP, twice->port);
	add_qp(twice->asking);
	assert_int_equal(rdma_connect(twice->asking, &param), 0);
	twice->first = next_event(twice->passive, RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void lose_the_daemon_and_hear_again(struct asked_twice *twice)
{
	kill_daemon();
	twice->second = next_event(twice->passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	add_qp(twice->second->id);
}

static void end_all(struct asked_twice *twice)
{
	rdma_destroy_ep(twice->asking);
	rdma_destroy_ep(twice->first->id);
	rdma_destroy_ep(twice->second->id);
	assert_int_equal(rdma_ack_cm_event(twice->first), 0);
	assert_int_equal(rdma_ack_cm_event(twice->second), 0);
	assert_int_equal(rdma_destroy_id(twice->listener), 0);
	rdma_destroy_event_channel(twice->channel);
	rdma_destroy_event_channel(twice->passive);
}

static void a_request_under_way_is_sent_again(void **state)
{
	struct rdma_conn_param param = {0};
	struct asked_twice twice;

	(void)state;
	begin_to_listen(&twice);
	ask(&twice);
	lose_the_daemon_and_hear_again(&twice);
	/* The first is lost: whoever accepts it is told. */
	errno = 0;
	assert_int_equal(rdma_accept(twice.first->id, &param), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_accept(twice.second->id, &param), 0);
	assert_int_equal(expect_cm_event(twice.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_cm_event(twice.passive, RDMA_CM_EVENT_ESTABLISHED), 0);
	end_all(&twice);
}

/* The REP was lost, so the peer asks anew: what had been accepted must not count as a connection, and its program is told. */
static void what_was_accepted_is_no_connection_yet(void **state)
{
	bool rejected = false, established = false;
	struct rdma_conn_param param = {0};
	struct rdma_cm_event *event;
	struct asked_twice twice;

	(void)state;
	begin_to_listen(&twice);
	assert_int_equal(setenv("VERBENA_FAULTS", "drop-cm=REP", 1), 0);
	kill_daemon(); /* the next is told what to lose */
	ask(&twice);
	add_qp(twice.first->id);
	assert_int_equal(rdma_accept(twice.first->id, &param), 0);
	assert_int_equal(unsetenv("VERBENA_FAULTS"), 0);
	lose_the_daemon_and_hear_again(&twice);
	assert_int_equal(rdma_accept(twice.second->id, &param), 0);
	assert_int_equal(expect_cm_event(twice.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(rdma_get_cm_event(twice.passive, &event), 0);
		rejected |= event->event == RDMA_CM_EVENT_REJECTED && event->id == twice.first->id;
		established |= event->event == RDMA_CM_EVENT_ESTABLISHED && event->id == twice.second->id;
		assert_int_equal(rdma_ack_cm_event(event), 0);
	}
	assert_true(rejected && established);
	end_all(&twice);
}

/* No daemon is to be had when the program disconnects: it hears so. The next one tells the peer. */
static void a_disconnect_is_said_to_the_next_daemon(void **state)
{
	const char *daemon = getenv("VERBENA_DAEMON");
	struct connection connection;
	char kept[1024];

	(void)state;
	assert_non_null(daemon);
	snprintf(kept, sizeof(kept), "%s", daemon);
	connection_open(&connection);
	setenv("VERBENA_DAEMON", "/nonexistent", 1);
	kill_daemon();
	errno = 0;
	assert_int_equal(rdma_disconnect(connection.id[0]), -1);
	assert_int_equal(errno, ENOENT);
	setenv("VERBENA_DAEMON", kept, 1);
	assert_int_equal(expect_cm_event(connection.channel[1], RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(rdma_disconnect(connection.id[1]), 0);
	assert_int_equal(expect_cm_event(connection.channel[0], RDMA_CM_EVENT_DISCONNECTED), 0);
	connection_close(&connection);
}

/* The answer is there, and verbenad dies before the program looks: its request is sent again, and another id accepts that. The first answer
 * names a queue pair that the peer gives up. */
static void an_answer_of_the_dead_daemon_is_not_taken(void **state)
{
	struct rdma_conn_param param = {0};
	struct ibv_qp_init_attr init;
	struct rdma_cm_event *event;
	struct asked_twice twice;
	struct ibv_qp_attr attr;
	struct pollfd set;

	(void)state;
	begin_to_listen(&twice);
	ask(&twice);
	add_qp(twice.first->id);
	assert_int_equal(rdma_accept(twice.first->id, &param), 0);
	set = (struct pollfd){.fd = twice.channel->fd, .events = POLLIN};
	assert_int_equal(poll(&set, 1, PATIENCE_MS), 1);
	lose_the_daemon_and_hear_again(&twice);
	assert_int_equal(rdma_accept(twice.second->id, &param), 0);
	/* That one is answered, too; what becomes of the first its program hears. */
	assert_int_equal(rdma_get_cm_event(twice.passive, &event), 0);
	assert_true(event->event == RDMA_CM_EVENT_REJECTED && event->id == twice.first->id);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(expect_cm_event(twice.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(ibv_query_qp(twice.asking->qp, &attr, IBV_QP_DEST_QPN, &init), 0);
	assert_int_equal(attr.dest_qp_num, twice.second->id->qp->qp_num);
	assert_int_equal(expect_cm_event(twice.passive, RDMA_CM_EVENT_ESTABLISHED), 0);
	end_all(&twice);
}

/* Whose daemon is to die when a queue pair is next made ready to send. */
static struct asked_twice *to_lose;

/* In place of libibverbs', for librdmacm. */
__attribute__((visibility("default"))) int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int);
	struct asked_twice *twice = attr->qp_state == IBV_QPS_RTS ? to_lose : NULL;

	if (twice) {
		to_lose = NULL;
		lose_the_daemon_and_hear_again(twice);
	}
	*(void **)&modify = dlsym(RTLD_NEXT, "ibv_modify_qp");
	return modify(qp, attr, mask);
}

/* verbenad is replaced while rdma_accept makes the queue pair ready. The new one knows of no request, and the program is told. */
static void a_request_that_is_lost_while_it_is_accepted_fails(void **state)
{
	bool failed = false, established = false;
	struct rdma_conn_param param = {0};
	struct ibv_qp_init_attr init;
	struct rdma_cm_event *event;
	struct asked_twice twice;
	struct ibv_qp_attr attr;

	(void)state;
	begin_to_listen(&twice);
	ask(&twice);
	add_qp(twice.first->id);
	to_lose = &twice;
	assert_int_equal(rdma_accept(twice.first->id, &param), 0);
	assert_null(to_lose);
	assert_int_equal(rdma_accept(twice.second->id, &param), 0);
	assert_int_equal(expect_cm_event(twice.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(rdma_get_cm_event(twice.passive, &event), 0);
		failed |= event->event == RDMA_CM_EVENT_CONNECT_ERROR && event->id == twice.first->id && event->status == -EINVAL;
		established |= event->event == RDMA_CM_EVENT_ESTABLISHED && event->id == twice.second->id;
		assert_int_equal(rdma_ack_cm_event(event), 0);
	}
	assert_true(failed && established);
	assert_int_equal(ibv_query_qp(twice.first->id->qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
	end_all(&twice);
}

/* What the dead daemon told and the program has not taken, the next one finds out again. */

static void await_news(const struct rdma_event_channel *channel)
{
	struct pollfd set = {.fd = channel->fd, .events = POLLIN};

	assert_int_equal(poll(&set, 1, PATIENCE_MS), 1);
}

/* A connection of its own from begin to end: what was said before it is there when it is. Nothing else is to be told to `channel`. */
static void connect_another(struct rdma_event_channel *channel, struct rdma_event_channel *passive, uint16_t port)
{
	struct rdma_cm_id *asking = resolved_id(channel, RDMA_PS_TCP, port);
	struct rdma_conn_param param = {0};
	struct rdma_cm_event *request;

	add_qp(asking);
	assert_int_equal(rdma_connect(asking, &param), 0);
	request = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	add_qp(request->id);
	assert_int_equal(rdma_accept(request->id, &param), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	rdma_destroy_ep(request->id);
	assert_int_equal(rdma_ack_cm_event(request), 0);
	rdma_destroy_ep(asking);
}

static void a_program_is_rejected_once(void **state)
{
	struct asked_twice twice;

	(void)state;
	begin_to_listen(&twice);
	ask(&twice);
	assert_int_equal(rdma_reject(twice.first->id, NULL, 0), 0);
	await_news(twice.channel);
	lose_the_daemon_and_hear_again(&twice);
	assert_int_equal(rdma_reject(twice.second->id, NULL, 0), 0);
	assert_int_equal(expect_cm_event(twice.channel, RDMA_CM_EVENT_REJECTED), 28);
	connect_another(twice.channel, twice.passive, twice.port);
	end_all(&twice);
}

static void a_program_is_connected_once(void **state)
{
	struct rdma_conn_param param = {0};
	struct connection connection;
	struct rdma_cm_event *event;

	(void)state;
	for (int i = 0; i < 2; i++)
		connection.channel[i] = rdma_create_event_channel();
	connection.listener = listen_on_loopback(connection.channel[1], RDMA_PS_TCP, &connection.port);
	connection.id[0] = resolved_id(connection.channel[0], RDMA_PS_TCP, connection.port);
	add_qp(connection.id[0]);
	assert_int_equal(rdma_connect(connection.id[0], &param), 0);
	event = next_event(connection.channel[1], RDMA_CM_EVENT_CONNECT_REQUEST);
	connection.id[1] = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	add_qp(connection.id[1]);
	assert_int_equal(rdma_accept(connection.id[1], &param), 0);
	assert_int_equal(expect_cm_event(connection.channel[0], RDMA_CM_EVENT_ESTABLISHED), 0);
	await_news(connection.channel[1]);
	kill_daemon();
	assert_int_equal(rdma_disconnect(connection.id[0]), 0); /* said to the next, which knows of both by then */
	assert_int_equal(expect_cm_event(connection.channel[1], RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_cm_event(connection.channel[1], RDMA_CM_EVENT_DISCONNECTED), 0);
	connection_close(&connection);
}

static void a_program_is_disconnected_once(void **state)
{
	struct connection connection;

	(void)state;
	connection_open(&connection);
	assert_int_equal(rdma_disconnect(connection.id[0]), 0);
	await_news(connection.channel[1]);
	kill_daemon();
	assert_int_equal(expect_cm_event(connection.channel[0], RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(expect_cm_event(connection.channel[1], RDMA_CM_EVENT_DISCONNECTED), 0);
	connect_another(connection.channel[0], connection.channel[1], connection.port);
	connection_close(&connection);
}

static int about_to_destroy;

static void *destroy_one(void *id)
{
	__atomic_store_n(&about_to_destroy, 1, __ATOMIC_SEQ_CST);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	return NULL;
}

/* A program is done with its id, and verbenad dies of that: the peer is told by the next. */
static void an_end_that_the_daemon_did_not_tell_is_told_by_the_next(void **state)
{
	struct connection connection;
	pthread_t thread;
	int pid;

	(void)state;
	connection_open(&connection);
	pid = daemon_pid();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(pthread_create(&thread, NULL, destroy_one, connection.id[0]), 0);
	assert_true(eventually(__atomic_load_n(&about_to_destroy, __ATOMIC_SEQ_CST)));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(expect_cm_event(connection.channel[1], RDMA_CM_EVENT_DISCONNECTED), 0);
	rdma_destroy_qp(connection.id[1]);
	assert_int_equal(rdma_destroy_id(connection.id[1]), 0);
	assert_int_equal(rdma_destroy_id(connection.listener), 0);
	for (int i = 0; i < 2; i++)
		rdma_destroy_event_channel(connection.channel[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_outlives_the_daemon),
		cmocka_unit_test(a_listener_outlives_the_daemon),
		cmocka_unit_test(a_request_under_way_is_sent_again),
		cmocka_unit_test(what_was_accepted_is_no_connection_yet),
		cmocka_unit_test(a_disconnect_is_said_to_the_next_daemon),
		cmocka_unit_test(an_answer_of_the_dead_daemon_is_not_taken),
		cmocka_unit_test(a_request_that_is_lost_while_it_is_accepted_fails),
		cmocka_unit_test(a_program_is_rejected_once),
		cmocka_unit_test(a_program_is_connected_once),
		cmocka_unit_test(a_program_is_disconnected_once),
		cmocka_unit_test(an_end_that_the_daemon_did_not_tell_is_told_by_the_next),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
