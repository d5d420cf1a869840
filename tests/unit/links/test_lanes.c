/* SPDX-License-Identifier: MIT
 *
 * Lanes (schedule/lane.h) where something went wrong: the answer that brought a lane's sockets was lost, verbenad has news while it is
 * shown the lanes. Run with VERBENA_LANES=4.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/unix_socket.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "progress/endpoint_parts.h"

enum { LAST = 3 };

static struct vb_endpoint *endpoint;

static int open_all(void **state)
{
	(void)state;
	return vb_endpoint_get(&endpoint);
}

static int close_all(void **state)
{
	(void)state;
	vb_endpoint_put(endpoint);
	return 0;
}

/* ---- which thread has which ---- */

static bool ignore(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	(void)message;
	(void)fds;
	*(unsigned *)context = count;
	return true;
}

/* As a thread of this process does that does not wait for the answer. */
static void ask_and_lose(unsigned lane)
{
	struct vb_daemon_client daemon;
	struct vb_daemon_message request;
	unsigned sockets = 0;

	assert_int_equal(vb_daemon_client_reach(&daemon, VB_SECONDS(PATIENCE_SECONDS)), 0);
	vb_daemon_message_begin(&request, VB_DAEMON_OPEN_LANE, 0);
	request.lane.slot = endpoint->schedule.slot;
	request.lane.lane = lane;
	assert_int_equal(vb_daemon_client_try(&daemon, &request, ignore, &sockets), 0);
	assert_true(sockets > 0);
	vb_daemon_client_close(&daemon);
}

static void *choose(void *argument)
{
	*(unsigned *)argument = vb_endpoint_choose_lane(endpoint, VB_DEVICE_ROCE, IBV_QPT_RC, NULL, NULL);
	return NULL;
}

static unsigned lane_of_next_thread(void)
{
	pthread_t thread;
	unsigned lane;

	assert_int_equal(pthread_create(&thread, NULL, choose, &lane), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return lane;
}

static void a_lane_whose_answer_was_lost_is_asked_for_again(void **state)
{
	(void)state;
	assert_int_equal(lane_of_next_thread(), 0);
	ask_and_lose(1);
	assert_int_equal(lane_of_next_thread(), 1);
	assert_int_equal(lane_of_next_thread(), 2);
	assert_int_equal(lane_of_next_thread(), LAST);
}

/* ---- news ---- */

static unsigned news_taken;

/* As the endpoint does that is told of a device, or asked what there is. */
static bool take_news(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	static struct vb_endpoint_watcher watcher;

	(void)fds;
	(void)count;
	if (message->header.type != VB_DAEMON_SHOW_RESOURCES)
		return true;
	vb_endpoint_add_watcher(context, &watcher);
	vb_endpoint_remove_watcher(context, &watcher);
	news_taken++;
	return true;
}

/* The order of locks is checked in builds with assertions. */
static void news_come_while_lanes_are_shown(void **state)
{
	struct vb_daemon_client daemon = {0};
	struct vb_daemon_message message;
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	daemon.fd = ends[0];
	for (unsigned lane = 1; lane <= LAST; lane++) {
		vb_daemon_message_begin(&message, VB_DAEMON_SHOW_RESOURCES, 0);
		assert_int_equal(vb_unix_send(ends[1], &message, message.header.length, NULL, 0, false), 0);
		vb_daemon_message_begin(&message, VB_DAEMON_LANE, lane);
		message.lane.slot = endpoint->schedule.slot;
		message.lane.lane = lane;
		assert_int_equal(vb_unix_send(ends[1], &message, message.header.length, NULL, 0, false), 0);
	}
	vb_lanes_adopt(endpoint, &daemon, take_news);
	assert_int_equal(news_taken, LAST);
	vb_daemon_client_close(&daemon);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lane_whose_answer_was_lost_is_asked_for_again),
		cmocka_unit_test(news_come_while_lanes_are_shown),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
