/* SPDX-License-Identifier: MIT
 *
 * 03: Sleep until something is done, instead of asking again and again.
 *
 *   cc 03_completion_channel.c -libverbs && ./a.out [DEVICE]
 *
 * ibv_poll_cq never waits. Polling in a loop answers fastest, and burns a core. A completion channel is the other
 * way: a file descriptor that becomes readable when a completion arrives, so it fits into poll(2) or epoll(7) beside
 * your sockets. The rules, in the order in which people break them:
 *
 *   - one notification for each ibv_req_notify_cq: ask again after each event;
 *   - ask first, then poll the queue empty: what came between the last poll and the asking makes no event;
 *   - every event must be acknowledged before the CQ is destroyed, or ibv_destroy_cq waits for ever.
 */
#include <poll.h>

#include "course.h"

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Is an event there within so many milliseconds? */
static int sleep_for_event(struct ibv_comp_channel *channel, int milliseconds)
{
	struct pollfd entry = { .fd = channel->fd, .events = POLLIN };
	int ready = poll(&entry, 1, milliseconds);

	if (ready < 0)
		die("poll");
	return ready;
}

static void ask_for_event(struct ibv_cq *cq)
{
	/* 0: any completion. 1 would mean: only one that the sender marked with IBV_SEND_SOLICITED. */
	if ((errno = ibv_req_notify_cq(cq, 0)))
		die("ibv_req_notify_cq");
}

/* Takes the event, asks for the next one, and only then empties the queue. Returns how many completions there were. */
static int handle_event(struct ibv_comp_channel *channel)
{
	struct ibv_wc completion;
	struct ibv_cq *cq;
	void *context;
	int count, total = 0;

	if (ibv_get_cq_event(channel, &cq, &context))
		die("ibv_get_cq_event");
	/* Acknowledging takes a lock; programs with many events count them and acknowledge several at once. */
	ibv_ack_cq_events(cq, 1);
	ask_for_event(cq);
	while ((count = ibv_poll_cq(cq, 1, &completion)) > 0) {
		if (completion.status != IBV_WC_SUCCESS)
			die("receive: %s", ibv_wc_status_str(completion.status));
		total++;
	}
	if (count < 0)
		die("ibv_poll_cq");
	return total;
}

int main(int argc, char **argv)
{
	enum { MESSAGES = 3 };
	struct device device = open_device(argc > 1 ? argv[1] : NULL);
	struct side left = side_open(&device), right;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(device.context);
	int received = 0;

	/* The receiving side is made by hand: its CQ is tied to the channel when it is created. */
	if (!channel)
		die("ibv_create_comp_channel");
	if (!(right.pd = ibv_alloc_pd(device.context)))
		die("ibv_alloc_pd");
	if (!(right.cq = ibv_create_cq(device.context, 32, NULL, channel, 0)))
		die("ibv_create_cq");
	right.qp = create_qp(right.pd, right.cq, NULL);
	sides_connect(&device, &left, &right);

	struct buffer from = buffer_register(left.pd, 64, 0),
		      to = buffer_register(right.pd, 64, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge full = piece_of(&from, 0, 64), empty = piece_of(&to, 0, 64);
	struct ibv_send_wr send = {
		.sg_list = &full, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};

	for (int i = 0; i < MESSAGES; i++)
		post_receive(right.qp, (uint64_t)i, &empty, 1);
	ask_for_event(right.cq);

	double wall = seconds(CLOCK_MONOTONIC), processor = seconds(CLOCK_PROCESS_CPUTIME_ID);

	if (sleep_for_event(channel, 300))
		die("an event, although nobody sent anything");
	printf("slept %.0f ms; that cost %.1f ms of processor time\n", (seconds(CLOCK_MONOTONIC) - wall) * 1e3,
	       (seconds(CLOCK_PROCESS_CPUTIME_ID) - processor) * 1e3);

	for (int i = 0; i < MESSAGES; i++) {
		post_send(left.qp, &send);
		wait_completion(left.cq, "send");
	}
	/* One event may stand for several completions, and an event may find the queue empty already. Count
	 * completions. */
	while (received < MESSAGES) {
		if (!sleep_for_event(channel, 10000))
			die("no event within 10 seconds");
		int count = handle_event(channel);

		printf("woken by an event: %d completions\n", count);
		received += count;
	}
	printf("received all %d messages\n", received);

	buffer_release(&from);
	buffer_release(&to);
	side_close(&left);
	side_close(&right);
	if ((errno = ibv_destroy_comp_channel(channel)))
		die("ibv_destroy_comp_channel");
	close_device(&device);
	return EXIT_SUCCESS;
}
