/* SPDX-License-Identifier: MIT
 *
 * The link of iWARP: two queue pairs of one process, joined by a pair of sockets. A message without a receive waits in its stream,
 * and whoever posts the receive it waits for, whenever he does, has it go on.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../iwarp/streams.h"

#include "io/clock.h"
#include "io/event.h"
#include "io/tcp.h"
#include "links/tcp/tcp_link.h"

enum { LENGTH = 1000 };

struct bed {
	struct vb_schedule *schedule;
	struct vb_daemon_page page;
	struct vb_link *link;
	struct streams streams;
	int fd[2];
};

/* What the next calls are answered with; 0: nothing. */
static int refusals[2];

ssize_t __real_vb_tcp_send(int fd, const struct iovec *spans, unsigned count, bool more);
ssize_t __wrap_vb_tcp_send(int fd, const struct iovec *spans, unsigned count, bool more);

ssize_t __wrap_vb_tcp_send(int fd, const struct iovec *spans, unsigned count, bool more)
{
	for (unsigned i = 0; i < 2; i++) {
		int refusal = refusals[i];

		refusals[i] = 0;
		if (refusal != 0)
			return refusal;
	}
	return __real_vb_tcp_send(fd, spans, count, more);
}

static void publish(struct bed *bed, struct vb_qp *qp)
{
	struct vb_binding *binding = &bed->schedule->binding[vb_schedule_index(qp->qpn)];

	*binding = (struct vb_binding){.counters = &bed->page.counters, .wire = bed->link, .qp = qp};
	qp->scheduler = binding;
	vb_link_carry(qp, bed->link);
	bed->page.queue_pairs++;
}

static void adopt(struct bed *bed, unsigned side)
{
	/* As one of ours: nothing is repeated, and its end may be told at once. */
	const struct vb_handover_terms terms = {.initiator = side == 0, .large = 1, .ird = 4, .ord = 4, .hold_ms = 0, .attentive = 1};

	assert_int_equal(bed->link->driver->adopt(bed->link, bed->streams.end[side].qp->qpn, -1, bed->fd[side], &terms, 0, vb_clock_now()),
			 0);
}

static void open_bed(struct bed *bed, bool srq)
{
	const struct options options = {.srq = srq, .arena = 1 << 16, .pipe = 1 << 10};

	memset(bed, 0, sizeof(*bed));
	bed->schedule = aligned_alloc(VB_LINE, sizeof(*bed->schedule));
	assert_non_null(bed->schedule);
	memset(bed->schedule, 0, sizeof(*bed->schedule));
	vb_schedule_init(bed->schedule);
	assert_int_equal(vb_timers_reserve(&bed->schedule->timers, 8), 0);
	bed->schedule->page = &bed->page;
	bed->schedule->event_fd = vb_event_open();
	assert_int_equal(vb_tcp_link_open(&bed->link, bed->schedule), 0);
	bed->schedule->links = bed->link;
	streams_make(&bed->streams, &options);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bed->fd), 0);
	for (unsigned side = 0; side < 2; side++)
		publish(bed, bed->streams.end[side].qp);
	for (unsigned side = 0; side < 2; side++)
		adopt(bed, side);
}

static void close_bed(struct bed *bed)
{
	vb_lock_take(&bed->schedule->progress);
	for (unsigned side = 0; side < 2; side++) {
		struct vb_qp *qp = bed->streams.end[side].qp;

		bed->link->driver->withdraw(bed->link, qp);
		vb_link_carry(qp, NULL);
		vb_schedule_forget(bed->schedule, qp);
		vb_timers_disarm(&bed->schedule->timers, qp);
		qp->scheduler = NULL;
	}
	vb_lock_release(&bed->schedule->progress);
	bed->link->driver->close(bed->link);
	streams_close(&bed->streams);
	close(bed->schedule->event_fd);
	vb_schedule_fini(bed->schedule);
	free(bed->schedule);
}

/* A thread's pass. */
static void pass(struct bed *bed)
{
	vb_lock_take(&bed->schedule->progress);
	vb_links_send_active(bed->schedule, 0, vb_clock_now(), false);
	bed->link->driver->drain(bed->link, vb_clock_now(), true);
	vb_lock_release(&bed->schedule->progress);
}

/* By end 0, to end 1. */
static void send_message(struct bed *bed)
{
	struct end *end = &bed->streams.end[0];

	fill(end, 0, LENGTH, 3);
	assert_int_equal(post_send(end, IBV_WR_SEND, 0, LENGTH, 0, 7, 0), 0);
	vb_lock_take(&end->qp->lock);
	bed->link->driver->transmit(bed->link, end->qp, vb_clock_now());
	vb_lock_release(&end->qp->lock);
	(void)expect(&end->send_cq, 7, IBV_WC_SUCCESS);
}

static void expect_message(struct bed *bed)
{
	struct ibv_wc wc = expect(&bed->streams.end[1].recv_cq, 9, IBV_WC_SUCCESS);

	assert_int_equal(wc.byte_len, LENGTH);
	verify(&bed->streams.end[1], 0, LENGTH, 3);
}

static bool may_sleep(struct bed *bed)
{
	return bed->link->driver->rest(bed->link, VB_TIME_NEVER) != 0;
}

static bool is_woken(struct bed *bed)
{
	int fds[VB_LINK_DESCRIPTORS];
	struct pollfd poller = {.events = POLLIN};

	assert_int_equal(bed->link->driver->descriptors(bed->link, fds), 1);
	poller.fd = fds[0];
	return poll(&poller, 1, 0) == 1;
}

static void open_and_greet(struct bed *bed, bool srq)
{
	open_bed(bed, srq);
	for (unsigned i = 0; i < 4; i++)
		pass(bed);
	assert_true(may_sleep(bed));
}

/* The engine thread is woken, finds another thread in a pass, which has looked for those that wait already, and would sleep again. */
static void nobody_sleeps_over_a_shared_queue_with_receives(void **state)
{
	struct bed bed;

	(void)state;
	open_and_greet(&bed, true);
	send_message(&bed);
	pass(&bed);
	pass(&bed);
	/* It waits, costs nothing, and no receive is there. */
	assert_true(vb_iwarp_is_stalled(bed.streams.end[1].qp));
	assert_true(may_sleep(&bed));
	assert_false(is_woken(&bed));
	assert_int_equal(post_receive(&bed.streams.end[1], 0, LENGTH, 9), 0);
	bed.link->driver->replenished(bed.link);
	assert_true(bed.link->driver->has_work(bed.link));
	assert_false(may_sleep(&bed));
	pass(&bed);
	expect_message(&bed);
	pass(&bed);
	assert_true(may_sleep(&bed));
	assert_false(is_woken(&bed));
	close_bed(&bed);
}

/* Receives came for a stream that then went: with none left there is nothing to stay awake for. */
static void receives_for_a_stream_that_is_gone(void **state)
{
	struct vb_tcp_link *tcp;
	struct bed bed;

	(void)state;
	open_and_greet(&bed, true);
	tcp = vb_tcp_link_of(bed.link);
	send_message(&bed);
	pass(&bed);
	pass(&bed);
	bed.link->driver->replenished(bed.link);
	assert_false(may_sleep(&bed));
	vb_lock_take(&bed.schedule->progress);
	for (unsigned side = 0; side < 2; side++)
		bed.link->driver->withdraw(bed.link, bed.streams.end[side].qp);
	while (!vb_list_is_empty(&tcp->streams))
		vb_tcp_stream_close(tcp, vb_container_of(tcp->streams.next, struct vb_tcp_stream, node), 0, true);
	vb_lock_release(&bed.schedule->progress);
	pass(&bed);
	assert_true(may_sleep(&bed));
	close_bed(&bed);
}

/* A pass finds the shared queue empty; a receive is posted; the pass goes on, and notes that the stream waits. */
static void a_receive_between_the_look_and_the_note(void **state)
{
	struct vb_tcp_stream *stream;
	struct vb_qp *qp;
	struct iovec span;
	ssize_t got;
	size_t taken;
	struct bed bed;
	uint8_t bytes[2 * LENGTH];

	(void)state;
	open_and_greet(&bed, true);
	send_message(&bed);
	qp = bed.streams.end[1].qp;
	stream = vb_tcp_stream_of(vb_tcp_link_of(bed.link), qp);
	vb_lock_take(&bed.schedule->progress);
	vb_lock_take(&qp->lock);
	span = (struct iovec){bytes, sizeof(bytes)};
	got = vb_tcp_receive(bed.fd[1], &span, 1);
	assert_true(got > LENGTH);
	taken = vb_iwarp_take(qp, vb_clock_now(), bytes, (size_t)got);
	assert_true(vb_iwarp_is_stalled(qp));
	stream->kept_length = (size_t)got - taken;
	stream->kept = malloc(stream->kept_length);
	assert_non_null(stream->kept);
	memcpy(stream->kept, bytes + taken, stream->kept_length);
	assert_int_equal(post_receive(&bed.streams.end[1], 0, LENGTH, 9), 0);
	bed.link->driver->replenished(bed.link);
	bed.link->driver->transmit_in_pass(bed.link, qp, vb_clock_now());
	vb_lock_release(&qp->lock);
	vb_lock_release(&bed.schedule->progress);
	pass(&bed);
	expect_message(&bed);
	assert_false(vb_iwarp_is_stalled(qp));
	close_bed(&bed);
}

/* The kernel has no memory for it, this once. Nobody would hear of a stream that is given up for that: the socket is whole, and the
 * peer waits. */
static void a_send_for_which_there_is_no_memory(void **state)
{
	struct bed bed;
	struct end *end;

	(void)state;
	open_and_greet(&bed, false);
	end = &bed.streams.end[0];
	assert_int_equal(post_receive(&bed.streams.end[1], 0, LENGTH, 9), 0);
	fill(end, 0, LENGTH, 3);
	refusals[0] = -ENOBUFS;
	refusals[1] = -ENOMEM;
	assert_int_equal(post_send(end, IBV_WR_SEND, 0, LENGTH, 0, 7, 0), 0);
	vb_lock_take(&end->qp->lock);
	bed.link->driver->transmit(bed.link, end->qp, vb_clock_now());
	vb_lock_release(&end->qp->lock);
	/* There is room in the socket, which wakes the thread. */
	for (unsigned i = 0; i < 3; i++)
		pass(&bed);
	(void)expect(&end->send_cq, 7, IBV_WC_SUCCESS);
	expect_message(&bed);
	close_bed(&bed);
}

/* We have said that nothing more will come from us. What the peer sent before it knew may wait for a receive as well. */
static void a_message_behind_our_end(void **state)
{
	struct end *end;
	struct bed bed;

	(void)state;
	open_and_greet(&bed, false);
	send_message(&bed);
	end = &bed.streams.end[1];
	assert_int_equal(modify(end, IBV_QPS_SQD), 0);
	vb_lock_take(&end->qp->lock);
	bed.link->driver->transmit(bed.link, end->qp, vb_clock_now());
	vb_lock_release(&end->qp->lock);
	pass(&bed);
	pass(&bed);
	assert_true(vb_iwarp_is_stalled(end->qp));
	/* The peer has ended, too, which is not told again and again. */
	assert_false(is_woken(&bed));
	assert_int_equal(post_receive(end, 0, LENGTH, 9), 0);
	vb_lock_take(&end->qp->lock);
	bed.link->driver->received(bed.link, end->qp);
	vb_lock_release(&end->qp->lock);
	expect_message(&bed);
	pass(&bed);
	assert_int_equal(end->qp->state, IBV_QPS_ERR);
	close_bed(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_sleeps_over_a_shared_queue_with_receives),
		cmocka_unit_test(receives_for_a_stream_that_is_gone),
		cmocka_unit_test(a_receive_between_the_look_and_the_note),
		cmocka_unit_test(a_message_behind_our_end),
		cmocka_unit_test(a_send_for_which_there_is_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
