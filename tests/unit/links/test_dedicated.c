/* SPDX-License-Identifier: MIT
 *
 * Sockets of one flow (links/udp/dedicated.h) of an endpoint with a real verbenad: when there is one, in which order packets are taken, and
 * when there is none any more. Run with VERBENA_LANES=2. Both ends are in this process.
 */
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "links/udp/udp_link.h"
#include "progress/endpoint_parts.h"
#include "unit/links/one_endpoint.h"

enum { OTHER_LANE = 1, ROOM = 64 };

struct talk {
	struct vb_qp *qp[2];
};

static int open_all(void **state)
{
	(void)state;
	open_endpoint(1024);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	close_endpoint();
	return 0;
}

/* Of lane 0, which has all queue pairs here. Caller has progress. */
static struct vb_dedicated *dedicated(void)
{
	return &((struct vb_udp_link *)endpoint->schedule.laned)->first.dedicated;
}

static bool is_in(enum vb_dedicated_state state)
{
	bool is;

	vb_lock_take(&endpoint->schedule.progress);
	is = dedicated()->state == state;
	vb_lock_release(&endpoint->schedule.progress);
	return is;
}

static uint16_t its_port(void)
{
	uint16_t port;

	vb_lock_take(&endpoint->schedule.progress);
	port = dedicated()->flow.source_port;
	vb_lock_release(&endpoint->schedule.progress);
	return port;
}

static struct talk begin(void)
{
	struct talk talk = {{create_qp(0, ROOM, ROOM), create_qp(0, ROOM, ROOM)}};

	join(talk.qp[0], talk.qp[1], 14, 7);
	join(talk.qp[1], talk.qp[0], 14, 7);
	return talk;
}

static void end(struct talk *talk)
{
	destroy_qp(talk->qp[0]);
	destroy_qp(talk->qp[1]);
}

static void post(struct vb_qp *from, struct vb_qp *to)
{
	struct ibv_sge there = {(uintptr_t)buffer[0], MESSAGE, key}, here = {(uintptr_t)buffer[1], MESSAGE, key};
	struct ibv_recv_wr receive = {.wr_id = to->qpn, .sg_list = &there, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr send = {.sg_list = &here, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
	vb_time now = vb_endpoint_now();

	vb_lock_take(&to->lock);
	assert_int_equal(vb_qp_post_receive(to, &receive, &bad_receive, now), 0);
	vb_lock_release(&to->lock);
	vb_lock_take(&from->lock);
	assert_int_equal(vb_qp_post_send(from, &send, &bad_send, now), 0);
	vb_endpoint_posted(endpoint, from, now);
	vb_lock_release(&from->lock);
}

/* Whose message came, among what is completed; 0: none. */
static uint32_t receiver_of_next(void)
{
	struct ibv_wc wc;

	while (vb_cq_poll(&cq, 1, &wc) == 1) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV)
			return wc.qp_num;
	}
	return 0;
}

static void say(struct vb_qp *from, struct vb_qp *to)
{
	post(from, to);
	assert_true(eventually((vb_endpoint_progress(endpoint), receiver_of_next() == to->qpn)));
}

/* A message and its answer. */
static void exchange(const struct talk *talk)
{
	say(talk->qp[0], talk->qp[1]);
	say(talk->qp[1], talk->qp[0]);
}

static void talk_until(const struct talk *talk, enum vb_dedicated_state state)
{
	assert_true(eventually((exchange(talk), is_in(state))));
}

static bool is_readable(int fd)
{
	struct pollfd item = {.fd = fd, .events = POLLIN};

	return poll(&item, 1, 0) == 1;
}

/* Nothing is under way: the next packet that comes is that of the next message. Caller has progress. */
static void settle(void)
{
	while (vb_endpoint_pass(endpoint, vb_endpoint_now(), true))
		;
	while (receiver_of_next() != 0)
		;
}

static void is_given_one(int lanes_own)
{
	struct talk talk = begin();

	assert_true(is_in(VB_DEDICATED_NONE));
	talk_until(&talk, VB_DEDICATED_OPEN);
	vb_lock_take(&endpoint->schedule.progress);
	settle();
	post(talk.qp[0], talk.qp[1]);
	assert_true(eventually((is_readable(dedicated()->fd))));
	assert_false(is_readable(lanes_own));
	vb_lock_release(&endpoint->schedule.progress);
	assert_true(eventually((vb_endpoint_progress(endpoint), receiver_of_next() == talk.qp[1]->qpn)));
	/* And goes with its queue pair. */
	end(&talk);
	assert_true(eventually((vb_endpoint_progress(endpoint), is_in(VB_DEDICATED_NONE))));
	assert_int_equal(dedicated()->fd, -1);
}

static void a_conversation_is_given_one(void **state)
{
	(void)state;
	is_given_one(endpoint->receive_fd[VB_ENDPOINT_IPV4]);
}

static void so_is_one_over_ipv6(void **state)
{
	uint8_t ipv4[16];

	(void)state;
	memcpy(ipv4, address, sizeof(address));
	memset(address, 0, sizeof(address));
	address[15] = 1;
	is_given_one(endpoint->receive_fd[VB_ENDPOINT_IPV6]);
	memcpy(address, ipv4, sizeof(address));
}

/* By the lane's own socket came what was sent before. */
static void a_new_one_waits_for_what_came_before(void **state)
{
	struct talk talk = begin(), other = begin();
	struct vb_path path = other.qp[0]->path;

	(void)state;
	talk_until(&talk, VB_DEDICATED_OPEN);
	/* The other leaves by another port, as those of lanes do. */
	path.source_port = vb_endpoint_source_port(endpoint, &path, other.qp[1]->qpn, OTHER_LANE);
	assert_int_not_equal(path.source_port, its_port());
	vb_lock_take(&other.qp[0]->lock);
	other.qp[0]->path.source_port = path.source_port;
	vb_lock_release(&other.qp[0]->lock);
	vb_lock_take(&endpoint->schedule.progress);
	settle();
	dedicated()->state = VB_DEDICATED_NEW;
	post(talk.qp[0], talk.qp[1]);
	assert_true(eventually(is_readable(dedicated()->fd)));
	post(other.qp[0], other.qp[1]);
	assert_true(eventually(is_readable(endpoint->receive_fd[VB_ENDPOINT_IPV4])));
	vb_endpoint_pass(endpoint, vb_endpoint_now(), false);
	assert_int_equal(receiver_of_next(), other.qp[1]->qpn);
	assert_int_equal(receiver_of_next(), 0);
	assert_int_equal(dedicated()->state, VB_DEDICATED_OPEN);
	vb_endpoint_pass(endpoint, vb_endpoint_now(), false);
	assert_int_equal(receiver_of_next(), talk.qp[1]->qpn);
	vb_lock_release(&endpoint->schedule.progress);
	end(&talk);
	end(&other);
	assert_true(eventually((vb_endpoint_progress(endpoint), is_in(VB_DEDICATED_NONE))));
}

/* One that was left is read to its end, and for a while after that: a packet may have been on its way there. */
static void one_that_is_left_is_read_for_a_while(void **state)
{
	struct talk talk = begin();
	vb_time now;

	(void)state;
	talk_until(&talk, VB_DEDICATED_OPEN);
	vb_lock_take(&endpoint->schedule.progress);
	settle();
	now = vb_endpoint_now();
	dedicated()->state = VB_DEDICATED_LEFT;
	dedicated()->left = 0;
	for (unsigned i = 0; i < 2; i++) {
		post(talk.qp[0], talk.qp[1]);
		assert_true(eventually(is_readable(dedicated()->fd)));
		vb_endpoint_pass(endpoint, now, false);
		assert_int_equal(receiver_of_next(), talk.qp[1]->qpn);
		while (vb_endpoint_pass(endpoint, now, true))
			;
		assert_int_equal(dedicated()->state, VB_DEDICATED_LEFT);
	}
	vb_endpoint_pass(endpoint, now + VB_MILLISECONDS(VB_DEDICATED_LINGERS_MS), false);
	assert_int_equal(dedicated()->state, VB_DEDICATED_EMPTY);
	/* It was never really left. */
	dedicated()->state = VB_DEDICATED_OPEN;
	vb_lock_release(&endpoint->schedule.progress);
	end(&talk);
	assert_true(eventually((vb_endpoint_progress(endpoint), is_in(VB_DEDICATED_NONE))));
}

/* Where much else comes, both would have to be looked at all the time. */
static void it_makes_room_for_others(void **state)
{
	struct talk talk = begin(), other = begin();
	uint16_t before;

	(void)state;
	talk_until(&talk, VB_DEDICATED_OPEN);
	before = its_port();
	for (unsigned i = 0; i < 2; i++) {
		struct vb_path path = other.qp[i]->path;

		path.source_port = vb_endpoint_source_port(endpoint, &path, other.qp[!i]->qpn, OTHER_LANE);
		vb_lock_take(&other.qp[i]->lock);
		other.qp[i]->path.source_port = path.source_port;
		vb_lock_release(&other.qp[i]->lock);
	}
	/* All are delivered meanwhile. */
	assert_true(eventually((exchange(&talk), exchange(&other), exchange(&other), !is_in(VB_DEDICATED_OPEN))));
	assert_true(eventually((exchange(&other), is_in(VB_DEDICATED_OPEN) && its_port() != before)));
	exchange(&talk);
	end(&talk);
	end(&other);
	assert_true(eventually((vb_endpoint_progress(endpoint), is_in(VB_DEDICATED_NONE))));
}

/* A new one knows nothing of it. */
static void it_goes_with_verbenad(void **state)
{
	struct talk talk = begin();
	int fd;

	(void)state;
	talk_until(&talk, VB_DEDICATED_OPEN);
	fd = dup(dedicated()->fd);
	assert_int_equal(kill((pid_t)endpoint->daemon.pid, SIGKILL), 0);
	assert_true(eventually((exchange(&talk), !is_in(VB_DEDICATED_OPEN))));
	talk_until(&talk, VB_DEDICATED_OPEN);
	/* Nothing comes to the one of before, whoever holds it. */
	exchange(&talk);
	assert_false(is_readable(fd));
	close(fd);
	end(&talk);
	assert_true(eventually((vb_endpoint_progress(endpoint), is_in(VB_DEDICATED_NONE))));
}

/* A sender that has many destinations has no port for each. Its first packet for another process is lost, and no more. */
static void a_flow_with_two_destinations_has_none(void **state)
{
	struct talk talk = begin();
	struct vb_qp *stray = create_qp(0, 1, 1);
	struct vb_qp elsewhere = {.qpn = (endpoint->schedule.slot ^ 1) << VB_DAEMON_INDEX_BITS | 40};
	struct ibv_sge here = {(uintptr_t)buffer[1], MESSAGE, key};
	struct ibv_send_wr send = {.sg_list = &here, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	vb_time now = vb_endpoint_now();
	uint16_t port;

	(void)state;
	talk_until(&talk, VB_DEDICATED_OPEN);
	join(stray, &elsewhere, 14, 0);
	port = its_port();
	vb_lock_take(&stray->lock);
	stray->path.source_port = port;
	assert_int_equal(vb_qp_post_send(stray, &send, &bad, now), 0);
	vb_endpoint_posted(endpoint, stray, now);
	vb_lock_release(&stray->lock);
	assert_true(eventually((exchange(&talk), is_in(VB_DEDICATED_NONE))));
	destroy_qp(stray);
	for (unsigned i = 0; i < 2000; i++)
		exchange(&talk);
	assert_true(is_in(VB_DEDICATED_NONE));
	end(&talk);
}

/* The first half of the ports has one destination each, however many there are. */
static void who_has_many_destinations_shares_other_ports(void **state)
{
	enum { SLOTS = 4 * VB_SOURCE_PORTS };
	uint16_t port[SLOTS];
	unsigned shared = 0;

	(void)state;
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct vb_path path = {.hop_limit = 64};

		memcpy(path.source, address, sizeof(path.source));
		memcpy(path.destination, address, sizeof(path.destination));
		port[i] = vb_endpoint_source_port(endpoint, &path, (100 + i) << VB_DAEMON_INDEX_BITS, 0);
		assert_int_not_equal(port[i], 0);
		for (uint32_t j = 0; j < i; j++) {
			if (port[j] != port[i])
				continue;
			assert_false(vb_source_port_has_one_destination(port[i]));
			shared++;
		}
	}
	assert_true(shared > 0);
}

/* ---- what needs no verbenad ---- */

static void other_flows_have_none(void **state)
{
	struct vb_path path = {.source_port = VB_SOURCE_PORT_LOWEST + VB_SOURCE_PORTS};

	(void)state;
	memcpy(path.source, address, sizeof(path.source));
	memcpy(path.destination, address, sizeof(path.destination));
	assert_true(vb_dedicated_suits(&path));
	path.source_port += VB_SOURCE_PORTS_NOT_SHARED - 1;
	assert_true(vb_dedicated_suits(&path));
	path.source_port++;
	assert_false(vb_dedicated_suits(&path));
	path.source_port = 4000 / VB_SOURCE_PORTS * VB_SOURCE_PORTS;
	assert_false(vb_dedicated_suits(&path));
	path.source_port = VB_SOURCE_PORT_LOWEST;
	path.destination[12] = 239;
	assert_false(vb_dedicated_suits(&path));
	memset(path.source, 0, sizeof(path.source));
	memset(path.destination, 0, sizeof(path.destination));
	path.source[15] = path.destination[15] = 1;
	assert_true(vb_dedicated_suits(&path));
	path.destination[0] = 0xff;
	assert_false(vb_dedicated_suits(&path));
	path.source[0] = path.destination[0] = 0xfe;
	path.source[1] = path.destination[1] = 0x80;
	assert_false(vb_dedicated_suits(&path));
}

static void one_that_is_refused_is_asked_for_later(void **state)
{
	struct vb_path from = {.source_port = VB_SOURCE_PORT_LOWEST}, asked;
	struct vb_dedicated own;
	unsigned first = 0, second = 0;

	(void)state;
	vb_dedicated_init(&own);
	while (!vb_dedicated_note(&own, &from))
		first++;
	assert_true(vb_dedicated_want(&own, 40));
	assert_true(vb_dedicated_tend(&own, true, &asked));
	assert_int_equal(asked.source_port, from.source_port);
	/* Once. */
	assert_false(vb_dedicated_tend(&own, true, &asked));
	assert_false(vb_dedicated_note(&own, &from));
	vb_dedicated_take(&own, &asked, -1);
	assert_int_equal(own.state, VB_DEDICATED_NONE);
	while (!vb_dedicated_note(&own, &from))
		second++;
	assert_true(second > first);
	/* Anything else between them, and it is no conversation. */
	for (unsigned i = 0; i < 4 * second; i++) {
		assert_false(vb_dedicated_note(&own, &from));
		if (i % 2 == 0)
			assert_false(vb_dedicated_note(&own, NULL));
	}
	/* verbenad goes before it answers. */
	while (!vb_dedicated_note(&own, &from))
		;
	assert_true(vb_dedicated_want(&own, 40));
	assert_true(vb_dedicated_tend(&own, true, &asked));
	assert_false(vb_dedicated_tend(&own, false, &asked));
	assert_int_equal(own.state, VB_DEDICATED_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_flows_have_none),
		cmocka_unit_test(one_that_is_refused_is_asked_for_later),
		cmocka_unit_test(a_conversation_is_given_one),
		cmocka_unit_test(so_is_one_over_ipv6),
		cmocka_unit_test(a_new_one_waits_for_what_came_before),
		cmocka_unit_test(one_that_is_left_is_read_for_a_while),
		cmocka_unit_test(it_goes_with_verbenad),
		cmocka_unit_test(it_makes_room_for_others),
		cmocka_unit_test(a_flow_with_two_destinations_has_none),
		cmocka_unit_test(who_has_many_destinations_shares_other_ports),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
