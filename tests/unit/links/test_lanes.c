/* SPDX-License-Identifier: MIT
 *
 * Lanes (schedule/lane.h) where something went wrong: the answer that brought a lane's sockets was lost or could not be taken, queue pairs
 * of two lanes are about to give up in the same pass, there are more lanes than source ports, verbenad has news while it is shown the
 * lanes, or stands still. Run with VERBENA_LANES=4. Both ends are in this process.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/daemon_silence.h"
#include "io/unix_socket.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "progress/endpoint_parts.h"
#include "unit/links/one_endpoint.h"

enum { PAIRS = 2, RECEIVERS_LANE = 3 /* whose packets to two lanes do not leave together, as those of the first do */ };

static struct vb_qp *sender[PAIRS], *receiver[PAIRS];

static int open_all(void **state)
{
	(void)state;
	open_endpoint(16);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	close_endpoint();
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

/* As a thread of this process does that does not wait for the answer. verbenad has not opened the lane before. */
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

int __real_vb_daemon_client_reach(struct vb_daemon_client *client, vb_time patience);
int __wrap_vb_daemon_client_reach(struct vb_daemon_client *client, vb_time patience);

static unsigned questions;

int __wrap_vb_daemon_client_reach(struct vb_daemon_client *client, vb_time patience)
{
	questions++;
	return __real_vb_daemon_client_reach(client, patience);
}

/* Each thread of the program waited for it. What they have instead is the first lane. */
static void a_daemon_that_stands_still_is_waited_for_once(void **state)
{
	pid_t daemon = (pid_t)endpoint->daemon.pid;

	(void)state;
	assert_int_equal(lane_of_next_thread(), 0);
	assert_int_equal(kill(daemon, SIGSTOP), 0);
	questions = 0;
	for (unsigned thread = 0; thread < 4; thread++)
		assert_int_equal(lane_of_next_thread(), 0);
	assert_int_equal(questions, 1);
	assert_int_equal(kill(daemon, SIGCONT), 0);
	/* As when the ten seconds are over. */
	vb_daemon_note(0, daemon);
}

static void a_lane_whose_answer_was_lost_is_asked_for_again(void **state)
{
	(void)state;
	ask_and_lose(1);
	assert_int_equal(lane_of_next_thread(), 1);
	assert_int_equal(lane_of_next_thread(), 2);
}

/* One is left, for the question. */
static void leave_one_descriptor(const struct rlimit *limit)
{
	int lowest = dup(0);

	assert_true(lowest >= 0);
	close(lowest);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = (rlim_t)lowest + 1, .rlim_max = limit->rlim_max}), 0);
}

static void a_lane_that_cannot_be_taken_is_given_back(void **state)
{
	struct rlimit before;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	leave_one_descriptor(&before);
	assert_int_equal(lane_of_next_thread(), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	ask_and_lose(RECEIVERS_LANE);
	assert_int_equal(lane_of_next_thread(), RECEIVERS_LANE);
}

/* ---- giving up ---- */

static void post(unsigned i, vb_time now)
{
	struct ibv_sge to = {(uintptr_t)buffer[0], MESSAGE, key}, from = {(uintptr_t)buffer[1], MESSAGE, key};
	struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;

	vb_lock_take(&receiver[i]->lock);
	assert_int_equal(vb_qp_post_receive(receiver[i], &receive, &bad_receive, now), 0);
	vb_lock_release(&receiver[i]->lock);
	vb_lock_take(&sender[i]->lock);
	assert_int_equal(vb_qp_post_send(sender[i], &send, &bad_send, now), 0);
	vb_endpoint_posted(endpoint, sender[i], now);
	vb_lock_release(&sender[i]->lock);
}

static bool has_come(unsigned lane)
{
	struct pollfd item = {.fd = endpoint->lane_fd[lane][VB_ENDPOINT_IPV4], .events = POLLIN};

	return poll(&item, 1, 0) == 1;
}

/* Time stands still until both acknowledgements lie in the sockets of lanes that no thread reads, and is over then. There is no descriptor
 * to ask the silent peers by, which would put it off (links/udp/starved.c). */
static void two_that_give_up_read_the_sockets_of_both(void **state) VB_UNCHECKED
{
	vb_time now = vb_endpoint_now();
	struct ibv_wc wc[2 * PAIRS];
	struct rlimit before;
	int count;

	(void)state;
	for (unsigned i = 0; i < PAIRS; i++) {
		sender[i] = create_qp(1 + i, 1, 1);
		receiver[i] = create_qp(RECEIVERS_LANE, 1, 1);
		/* They give up as soon as they can. */
		join(sender[i], receiver[i], 1, 0);
		join(receiver[i], sender[i], 1, 0);
	}
	vb_lock_take(&endpoint->schedule.progress);
	for (unsigned i = 0; i < PAIRS; i++)
		assert_true(eventually(vb_lock_try(endpoint->schedule.lane[1 + i].lock)));
	for (unsigned i = 0; i < PAIRS; i++)
		post(i, now);
	assert_true(eventually((vb_endpoint_pass(endpoint, now, true), has_come(1) && has_come(2))));
	for (unsigned i = 0; i < PAIRS; i++)
		vb_lock_release(endpoint->schedule.lane[1 + i].lock);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_max = before.rlim_max}), 0);
	(void)vb_endpoint_pass(endpoint, now + VB_SECONDS(100), false);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	vb_lock_release(&endpoint->schedule.progress);
	count = vb_cq_poll(&cq, 2 * PAIRS, wc);
	assert_int_equal(count, 2 * PAIRS);
	for (int i = 0; i < count; i++)
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < PAIRS; i++) {
		destroy_qp(sender[i]);
		destroy_qp(receiver[i]);
	}
}

/* ---- source ports ---- */

static uint16_t source_port(uint32_t slot, unsigned to, unsigned lane)
{
	struct vb_path path = {.hop_limit = 64};

	memcpy(path.source, address, 16);
	memcpy(path.destination, address, 16);
	return vb_endpoint_source_port(endpoint, &path, slot << VB_DAEMON_INDEX_BITS | to, lane);
}

/* Packets from one port may be bundled on their way, and go where the first of them does: to the wrong lane, at worst, but to no other
 * process. */
static void processes_have_ports_of_their_own_beside_lanes(void **state)
{
	enum { LANED = 100, OTHERS = 8 };
	uint16_t port[VB_DAEMON_LANES][VB_DAEMON_LANES], other[OTHERS];

	(void)state;
	for (unsigned lane = 0; lane < VB_DAEMON_LANES; lane++)
		for (unsigned to = 0; to < VB_DAEMON_LANES; to++)
			assert_int_not_equal(port[lane][to] = source_port(LANED, to, lane), 0);
	assert_int_not_equal(port[1][1], port[2][2]);
	for (unsigned i = 0; i < OTHERS; i++) {
		other[i] = source_port(LANED + 1 + i, 0, i % 2);
		for (unsigned j = 0; j < VB_DAEMON_LANES * VB_DAEMON_LANES; j++)
			assert_int_not_equal(other[i], port[j / VB_DAEMON_LANES][j % VB_DAEMON_LANES]);
		for (unsigned j = 0; j < i; j++)
			assert_int_not_equal(other[i], other[j]);
	}
	/* The same each time. */
	for (unsigned lane = 0; lane < VB_DAEMON_LANES; lane++)
		for (unsigned to = 0; to < VB_DAEMON_LANES; to++)
			assert_int_equal(source_port(LANED, to, lane), port[lane][to]);
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
	for (unsigned lane = 1; lane <= RECEIVERS_LANE; lane++) {
		vb_daemon_message_begin(&message, VB_DAEMON_SHOW_RESOURCES, 0);
		assert_int_equal(vb_unix_send(ends[1], &message, message.header.length, NULL, 0, false), 0);
		vb_daemon_message_begin(&message, VB_DAEMON_LANE, lane);
		message.lane.slot = endpoint->schedule.slot;
		message.lane.lane = lane;
		assert_int_equal(vb_unix_send(ends[1], &message, message.header.length, NULL, 0, false), 0);
	}
	vb_lanes_adopt(endpoint, &daemon, take_news);
	assert_int_equal(news_taken, RECEIVERS_LANE);
	vb_daemon_client_close(&daemon);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_daemon_that_stands_still_is_waited_for_once),
		cmocka_unit_test(a_lane_whose_answer_was_lost_is_asked_for_again),
		cmocka_unit_test(a_lane_that_cannot_be_taken_is_given_back),
		cmocka_unit_test(two_that_give_up_read_the_sockets_of_both),
		cmocka_unit_test(processes_have_ports_of_their_own_beside_lanes),
		cmocka_unit_test(news_come_while_lanes_are_shown),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
