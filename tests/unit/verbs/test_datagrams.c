/* SPDX-License-Identifier: MIT
 *
 * UD between two processes of one host (links/memory/datagrams.h): the first datagrams go by wire, those after them through memory, and
 * nothing else tells which way they went; order holds over the change. The death of either end is in nobody's way.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "lib/two_processes.h"

enum { GRH = 40, LENGTH = 1000, ROOM = 8192, TOGETHER = 32, BANDWIDTH = 500, ONE_BY_ONE = 540, DEPTH = 1024 };

static const struct pair_options datagram = {.type = IBV_QPT_UD};

static void post(struct pair *pair, int side, const struct card *other, uint32_t number, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(pair, side, IBV_WR_SEND_WITH_IMM, &sge, ROOM, length);

	wr.wr_id = 1000 + number;
	wr.imm_data = number;
	wr.wr.ud.remote_qpn = other->qpn;
	pair_post(pair, side, &wr);
}

/* ---- the child's parts ---- */

/* Its answer with that number is sent, and the next datagram is there, unless it is to be the last: in either order. */
static struct ibv_wc expect_both(struct pair *pair, uint32_t number, bool is_last)
{
	struct ibv_wc wc = wait_completion(pair->cq[CHILD]);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	if (wc.opcode == IBV_WC_RECV) {
		expect_completion(pair->cq[CHILD], 1000 + number, IBV_WC_SEND);
		return wc;
	}
	assert_int_equal(wc.wr_id, 1000 + number);
	return is_last ? wc : expect_completion(pair->cq[CHILD], 1, IBV_WC_RECV);
}

/* Sends back what comes, until a datagram of no bytes does. */
static void echo(int fd)
{
	struct world world;
	struct pair pair;
	struct card other;
	struct ibv_wc wc;
	bool is_last;

	open_half(&world, &pair, CHILD, &datagram, fd, &other);
	pair_receive(&pair, CHILD, 1, 0, ROOM);
	meet(fd);
	wc = expect_completion(pair.cq[CHILD], 1, IBV_WC_RECV);
	do {
		is_last = wc.byte_len == GRH;
		memcpy(pair.buffer[CHILD] + ROOM, pair.buffer[CHILD] + GRH, wc.byte_len - GRH);
		pair_receive(&pair, CHILD, 1, 0, ROOM);
		post(&pair, CHILD, &other, wc.imm_data, wc.byte_len - GRH);
		wc = expect_both(&pair, wc.imm_data, is_last);
	} while (!is_last);
	close_half(&world, &pair);
}

/* Again, with an endpoint that is another one, of the same process. */
static void echo_twice(int fd)
{
	echo(fd);
	echo(fd);
}

static const struct pair_options deep = {.type = IBV_QPT_UD, .depth = DEPTH};

/* Answers until it is told that it is enough and then is stopped, with a receive for each datagram that comes. Then one by one, as often as
 * it is asked to. */
static void collect(int fd, uint32_t number)
{
	struct world world;
	struct pair pair;
	struct card other, end;

	open_half(&world, &pair, CHILD, &deep, fd, &other);
	for (unsigned i = 0; i < DEPTH; i++)
		pair_receive(&pair, CHILD, 1, 0, ROOM);
	meet(fd);
	do {
		talk(fd, &other, &end);
		if (end.qpn == 1) {
			post(&pair, CHILD, &other, 0, LENGTH);
			expect_completion(pair.cq[CHILD], 1000, IBV_WC_SEND);
		}
	} while (end.qpn == 1);
	for (uint32_t i = 0; i < number; i++)
		assert_int_equal(expect_completion(pair.cq[CHILD], 1, IBV_WC_RECV).imm_data, i);
	for (talk(fd, &other, &end); end.qpn == 1; talk(fd, &other, &end)) {
		pair_receive(&pair, CHILD, 1, 0, ROOM);
		assert_int_equal(expect_completion(pair.cq[CHILD], 1, IBV_WC_RECV).imm_data, number);
	}
	close_half(&world, &pair);
}

static void collect_bandwidth(int fd)
{
	collect(fd, BANDWIDTH);
}

static void collect_one_by_one(int fd)
{
	collect(fd, ONE_BY_ONE);
}

static void let_nobody_in_and_echo(int fd)
{
	assert_int_equal(prctl(PR_SET_DUMPABLE, 0), 0);
	echo(fd);
}

/* Sends some together, as often as it is asked to. */
static void stream(int fd)
{
	struct world world;
	struct pair pair;
	struct card other, wish, nothing = {0};
	uint32_t number = 0;

	open_half(&world, &pair, CHILD, &datagram, fd, &other);
	for (talk(fd, &nothing, &wish); wish.qpn != 0; talk(fd, &nothing, &wish)) {
		for (unsigned i = 0; i < TOGETHER; i++)
			post(&pair, CHILD, &other, number + i, LENGTH);
		for (unsigned i = 0; i < TOGETHER; i++)
			expect_completion(pair.cq[CHILD], 1000 + number++, IBV_WC_SEND);
	}
	close_half(&world, &pair);
}

static void send_for_ever(int fd)
{
	struct world world;
	struct pair pair;
	struct card other;

	open_half(&world, &pair, CHILD, &datagram, fd, &other);
	for (uint32_t i = 0;; i++) {
		post(&pair, CHILD, &other, i, LENGTH);
		wait_completion(pair.cq[CHILD]);
	}
}

/* ---- tests ---- */

static struct ibv_wc round_trip(struct pair *pair, const struct card *other, uint32_t number, uint32_t length)
{
	struct ibv_wc wc;

	fill_pattern(pair->buffer[PARENT] + ROOM, length, number);
	memset(pair->buffer[PARENT], 0, ROOM);
	pair_receive(pair, PARENT, number, 0, ROOM);
	post(pair, PARENT, other, number, length);
	/* The answer may be there before our own send is known to be done. */
	wc = wait_completion(pair->cq[PARENT]);
	if (wc.opcode == IBV_WC_SEND)
		wc = wait_completion(pair->cq[PARENT]);
	else
		expect_completion(pair->cq[PARENT], 1000 + number, IBV_WC_SEND);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.wr_id, number);
	assert_int_equal(wc.byte_len, GRH + length);
	assert_int_equal(wc.imm_data, number);
	assert_true(has_pattern(pair->buffer[PARENT] + GRH, length, number));
	return wc;
}

static bool needs_no_packet(struct pair *pair, const struct card *other)
{
	unsigned long before = private_network_datagrams();

	round_trip(pair, other, 7, LENGTH);
	return private_network_datagrams() == before;
}

/* What is not the same by chance. */
static void assert_alike(const struct ibv_wc *a, const struct ibv_wc *b)
{
	assert_int_equal(a->src_qp, b->src_qp);
	assert_int_equal(a->qp_num, b->qp_num);
	assert_int_equal(a->wc_flags, b->wc_flags);
	assert_int_equal(a->pkey_index, b->pkey_index);
	assert_int_equal(a->slid, b->slid);
	assert_int_equal(a->sl, b->sl);
	assert_int_equal(a->dlid_path_bits, b->dlid_path_bits);
}

/* Against a child that is there already. */
static void exchange(int fd)
{
	static const uint32_t lengths[] = {1, 3, 4, 100, 1000, 4096};
	uint8_t by_wire[GRH];
	struct world world;
	struct pair pair;
	struct card other;
	struct ibv_wc first, last;
	unsigned long before;

	open_half(&world, &pair, PARENT, &datagram, fd, &other);
	meet(fd);
	before = private_network_datagrams();
	first = round_trip(&pair, &other, 7, LENGTH);
	assert_true(private_network_datagrams() > before);
	memcpy(by_wire, pair.buffer[PARENT], GRH);
	assert_true(eventually(needs_no_packet(&pair, &other)));
	before = private_network_datagrams();
	for (uint32_t i = 0; i < 300; i++)
		round_trip(&pair, &other, i, lengths[i % 6]);
	last = round_trip(&pair, &other, 7, LENGTH);
	assert_int_equal(private_network_datagrams(), before);
	assert_alike(&first, &last);
	assert_memory_equal(pair.buffer[PARENT], by_wire, GRH);
	round_trip(&pair, &other, 8, 0);
	close_half(&world, &pair);
}

static void the_first_go_by_wire_and_the_rest_through_memory(void **state)
{
	int fd;
	pid_t child = start(echo, &fd);

	(void)state;
	exchange(fd);
	finish(child, fd);
}

static void order_holds(void **state)
{
	const struct card go = {.qpn = 1}, end = {0};
	uint32_t number = 0;
	unsigned long before = 0;
	struct world world;
	struct pair pair;
	struct card other, nothing;
	bool over = false;
	int fd;
	pid_t child = start(stream, &fd);

	(void)state;
	open_half(&world, &pair, PARENT, &datagram, fd, &other);
	/* Until some have gone through memory, and then some more. */
	for (unsigned rounds = 0; rounds < 20; rounds += over) {
		before = private_network_datagrams();
		for (unsigned i = 0; i < TOGETHER; i++)
			pair_receive(&pair, PARENT, number + i, 0, ROOM);
		talk(fd, &go, &nothing);
		for (unsigned i = 0; i < TOGETHER; i++, number++)
			assert_int_equal(expect_completion(pair.cq[PARENT], number, IBV_WC_RECV).imm_data, number);
		over |= private_network_datagrams() == before;
	}
	assert_int_equal(private_network_datagrams(), before);
	talk(fd, &end, &nothing);
	close_half(&world, &pair);
	finish(child, fd);
}

/* Whatever it was doing. A process that comes later has its slot, most likely. */
static void a_killed_sender_is_in_nobodys_way(void **state)
{
	(void)state;
	for (unsigned times = 0; times < 3; times++) {
		struct world world;
		struct pair pair;
		struct card other;
		unsigned long before;
		int fd, status;
		pid_t child = start(send_for_ever, &fd);

		open_half(&world, &pair, PARENT, &datagram, fd, &other);
		do {
			before = private_network_datagrams();
			for (unsigned i = 0; i < 8; i++)
				pair_receive(&pair, PARENT, 1, 0, ROOM);
			for (unsigned i = 0; i < 8; i++)
				expect_completion(pair.cq[PARENT], 1, IBV_WC_RECV);
		} while (private_network_datagrams() != before);
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		close(fd);
		close_half(&world, &pair);
		child = start(echo, &fd);
		exchange(fd);
		finish(child, fd);
	}
}

static void a_killed_receiver_is_not_waited_for(void **state)
{
	struct world world;
	struct pair pair;
	struct card other;
	int fd, status;
	pid_t child = start(echo, &fd);

	(void)state;
	open_half(&world, &pair, PARENT, &datagram, fd, &other);
	meet(fd);
	assert_true(eventually(needs_no_packet(&pair, &other)));
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	close(fd);
	for (uint32_t i = 0; i < 2000; i++) {
		post(&pair, PARENT, &other, i, LENGTH);
		expect_completion(pair.cq[PARENT], 1000 + i, IBV_WC_SEND);
	}
	close_half(&world, &pair);
}

/* Who stays where it is gets to know another that has the slot now, most likely. */
static void get_to_know(struct pair *pair, int fd, struct card *other)
{
	const struct card own = {.qpn = pair->qp[PARENT]->qp_num};

	talk(fd, &own, other);
	meet(fd);
	meet(fd);
	assert_true(eventually(needs_no_packet(pair, other)));
}

#ifndef __SANITIZE_THREAD__
static void a_destination_may_die_and_come_back(void **state)
{
	struct world world;
	struct pair pair;
	struct card other;
	int fd, status;
	pid_t child = start(echo, &fd);

	(void)state;
	open_half(&world, &pair, PARENT, &datagram, fd, &other);
	meet(fd);
	assert_true(eventually(needs_no_packet(&pair, &other)));
	for (unsigned times = 0; times < 5; times++) {
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		close(fd);
		child = start(echo, &fd);
		get_to_know(&pair, fd, &other);
	}
	round_trip(&pair, &other, 8, 0);
	finish(child, fd);
	close_half(&world, &pair);
}
#endif

/* The process lives, and looks into rings no more. */
static void an_endpoint_may_be_closed_and_opened_again(void **state)
{
	struct world world;
	struct pair pair;
	struct card other;
	int fd;
	pid_t child = start(echo_twice, &fd);

	(void)state;
	open_half(&world, &pair, PARENT, &datagram, fd, &other);
	meet(fd);
	assert_true(eventually(needs_no_packet(&pair, &other)));
	round_trip(&pair, &other, 8, 0);
	get_to_know(&pair, fd, &other);
	round_trip(&pair, &other, 8, 0);
	finish(child, fd);
	close_half(&world, &pair);
}

static bool is_answered(struct pair *pair, uint32_t number)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(pair->cq[PARENT], 1, &wc) == 1) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode != IBV_WC_RECV)
			continue;
		pair_receive(pair, PARENT, 7, 0, ROOM);
		if (wc.imm_data == number)
			return true;
	}
	return false;
}

/* More than a ring holds, to a process that does not run: sends end as if it did, and what is lost is lost. */
static void a_full_ring_holds_nobody_up(void **state)
{
	enum { MANY = 1200 };
	struct world world;
	struct pair pair;
	struct card other;
	int fd, status;
	pid_t child = start(echo, &fd);

	(void)state;
	open_half(&world, &pair, PARENT, &datagram, fd, &other);
	meet(fd);
	assert_true(eventually(needs_no_packet(&pair, &other)));
	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	for (uint32_t i = 0; i < MANY; i++) {
		post(&pair, PARENT, &other, i, 1024);
		expect_completion(pair.cq[PARENT], 1000 + i, IBV_WC_SEND);
	}
	for (unsigned i = 0; i < 16; i++)
		pair_receive(&pair, PARENT, 7, 0, ROOM);
	assert_int_equal(kill(child, SIGCONT), 0);
	/* The first finds the one receive that it had; what comes later finds the next one, or none: so it is repeated. */
	assert_true(eventually(is_answered(&pair, 0)));
	do {
		assert_int_equal(waitpid(child, &status, WNOHANG), 0);
		post(&pair, PARENT, &other, MANY, 1024);
	} while (!eventually_within(100, is_answered(&pair, MANY)));
	do
		post(&pair, PARENT, &other, MANY, 0);
	while (!eventually_within(100, waitpid(child, &status, WNOHANG) == child));
	assert_int_equal(status, 0);
	close(fd);
	close_half(&world, &pair);
}

/* Against a child that collects, and is stopped when this is over. */
static void open_deep(struct world *world, struct pair *pair, int fd, pid_t child, struct card *other)
{
	const struct card go = {.qpn = 1}, enough = {.qpn = 2};
	struct card nothing;
	unsigned long before;
	int status;

	open_half(world, pair, PARENT, &deep, fd, other);
	meet(fd);
	/* Until datagrams go through memory, and back: what came by wire before takes receives, so none is sent from here. */
	do {
		before = private_network_datagrams();
		pair_receive(pair, PARENT, 7, 0, ROOM);
		talk(fd, &go, &nothing);
		expect_completion(pair->cq[PARENT], 7, IBV_WC_RECV);
	} while (private_network_datagrams() != before);
	talk(fd, &enough, &nothing);
	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
}

/* What a program has receives for is not lost because it had no processor for a while. */
static void a_receiver_may_be_away(void **state)
{
	const struct card end = {.qpn = 2};
	struct world world;
	struct pair pair;
	struct card other, nothing;
	int fd;
	pid_t child = start(collect_bandwidth, &fd);

	(void)state;
	open_deep(&world, &pair, fd, child, &other);
	for (uint32_t i = 0; i < BANDWIDTH; i++)
		post(&pair, PARENT, &other, i, LENGTH);
	for (uint32_t i = 0; i < BANDWIDTH; i++)
		expect_completion(pair.cq[PARENT], 1000 + i, IBV_WC_SEND);
	assert_int_equal(kill(child, SIGCONT), 0);
	talk(fd, &end, &nothing);
	close_half(&world, &pair);
	finish(child, fd);
}

static bool is_received_without_a_packet(struct pair *pair, const struct card *other, int fd)
{
	const struct card go = {.qpn = 1};
	unsigned long before = private_network_datagrams();
	struct card nothing;

	post(pair, PARENT, other, ONE_BY_ONE, LENGTH);
	expect_completion(pair->cq[PARENT], 1000 + ONE_BY_ONE, IBV_WC_SEND);
	talk(fd, &go, &nothing);
	return private_network_datagrams() == before;
}

/* More than a ring holds, and not more than the ring and a socket of the system's own size: none is lost, all are in order, and later ones
 * go through memory again. */
static void what_a_ring_has_no_room_for_goes_by_wire(void **state)
{
	const struct card end = {.qpn = 2};
	struct world world;
	struct pair pair;
	struct card other, nothing;
	unsigned long before;
	int fd;
	pid_t child = start(collect_one_by_one, &fd);

	(void)state;
	open_deep(&world, &pair, fd, child, &other);
	before = private_network_datagrams();
	for (uint32_t i = 0; i < ONE_BY_ONE; i++) {
		post(&pair, PARENT, &other, i, LENGTH);
		expect_completion(pair.cq[PARENT], 1000 + i, IBV_WC_SEND);
	}
	assert_in_range(private_network_datagrams() - before, 1, ONE_BY_ONE / 4);
	assert_int_equal(kill(child, SIGCONT), 0);
	/* When it is asked for the first, all of those above have come. */
	assert_true(eventually(is_received_without_a_packet(&pair, &other, fd)));
	talk(fd, &end, &nothing);
	close_half(&world, &pair);
	finish(child, fd);
}

/* ---- by wire: whom one asks for it, or keeps from its memory ---- */

static void go_by_wire(void (*play)(int fd))
{
	struct world world;
	struct pair pair;
	struct card other;
	int fd;
	pid_t child = start(play, &fd);

	open_half(&world, &pair, PARENT, &datagram, fd, &other);
	meet(fd);
	for (uint32_t i = 0; i < 200; i++) {
		unsigned long before = private_network_datagrams();

		round_trip(&pair, &other, i, LENGTH);
		assert_true(private_network_datagrams() >= before + 2);
	}
	round_trip(&pair, &other, 8, 0);
	close_half(&world, &pair);
	finish(child, fd);
}

static void the_wire_can_be_asked_for(void **state)
{
	(void)state;
	setenv("VERBENA_WIRE", "rocev2", 1);
	go_by_wire(echo);
	setenv("VERBENA_WIRE", "auto", 1);
}

static void who_lets_nobody_in_is_reached_by_wire(void **state)
{
	(void)state;
	go_by_wire(let_nobody_in_and_echo);
	assert_int_equal(prctl(PR_SET_DUMPABLE, 0), 0);
	go_by_wire(echo);
	assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0);
}

/* ---- the same by wire and through memory ---- */

static const struct scene {
	uint32_t length, qkey, qpn;        /* the last two are added to the right ones */
	unsigned flags;
	bool immediate;
} scenes[] = {
	{0, 0, 0, 0, false}, {1, 0, 0, 0, true}, {2, 0, 0, IBV_SEND_INLINE, false}, {3, 0, 0, IBV_SEND_SOLICITED, true},
	{LENGTH, 1, 0, 0, false}, {LENGTH, 0, 1, 0, true}, {LENGTH, 0, 0, IBV_SEND_SOLICITED, false}, {4096, 0, 0, 0, true},
	{64, 0, 0, IBV_SEND_INLINE, true}, {65, 0, 0, 0, false}, {LENGTH, 1 << 30, 0, 0, true}, {LENGTH, 0, 0, 0, true},
};
enum { SCENES = sizeof(scenes) / sizeof(scenes[0]), TIGHT = 7, LOG = 8192 }; /* TIGHT: of receives, the one for 65 bytes */

static const struct pair_options with_inline = {.type = IBV_QPT_UD, .inline_data = 64, .mtu = IBV_MTU_4096};

/* Answers once, and plays the scenes when it is told to. */
static void play(int fd)
{
	struct world world;
	struct pair pair;
	struct card other, wish, nothing = {0};
	struct ibv_wc wc;

	open_half(&world, &pair, CHILD, &with_inline, fd, &other);
	for (talk(fd, &nothing, &wish); wish.qpn != 0; talk(fd, &nothing, &wish)) {
		post(&pair, CHILD, &other, 0, LENGTH);
		expect_completion(pair.cq[CHILD], 1000, IBV_WC_SEND);
	}
	for (unsigned i = 0; i < SCENES; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(&pair, CHILD, scenes[i].immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, &sge, ROOM,
						     scenes[i].length);

		fill_pattern(pair.buffer[CHILD] + ROOM, scenes[i].length, i);
		wr.imm_data = i;
		wr.send_flags |= scenes[i].flags;
		wr.wr.ud.remote_qpn = other.qpn ^ scenes[i].qpn;
		wr.wr.ud.remote_qkey = PAIR_QKEY + scenes[i].qkey;
		pair_post(&pair, CHILD, &wr);
		wc = wait_completion(pair.cq[CHILD]);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_SEND);
	}
	meet(fd);
	close_half(&world, &pair);
}

/* All that the receiver sees, but what is another number each time. */
static void watch(char *log, bool by_memory)
{
	const struct card again = {.qpn = 1}, enough = {0};
	unsigned long before;
	struct world world;
	struct pair pair;
	struct card other, nothing;
	struct ibv_wc wc;
	size_t at = 0;
	int fd;
	pid_t child = start(play, &fd);

	open_half(&world, &pair, PARENT, &with_inline, fd, &other);
	do {
		before = private_network_datagrams();
		pair_receive(&pair, PARENT, 7, 0, ROOM);
		talk(fd, &again, &nothing);
		expect_completion(pair.cq[PARENT], 7, IBV_WC_RECV);
	} while (by_memory && private_network_datagrams() != before);
	for (uint64_t i = 0; i < SCENES; i++)
		pair_receive(&pair, PARENT, i, i * ROOM, i == TIGHT ? GRH + 64 : ROOM);
	before = private_network_datagrams();
	talk(fd, &enough, &nothing);
	do {
		wc = wait_completion(pair.cq[PARENT]);
		at += (size_t)snprintf(log + at, LOG - at, "%llu: %s", (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
		if (wc.status == IBV_WC_SUCCESS) {
			at += (size_t)snprintf(log + at, LOG - at,
					       " %d of %u bytes, flags %x, imm %x, from it %d, pkey %u, sl %u, slid %u, grh", wc.opcode,
					       wc.byte_len, wc.wc_flags, wc.wc_flags & IBV_WC_WITH_IMM ? wc.imm_data : 0,
					       wc.src_qp == other.qpn, wc.pkey_index, wc.sl, wc.slid);
			for (unsigned k = 0; k < GRH; k++)
				at += (size_t)snprintf(log + at, LOG - at, " %02x", pair.buffer[PARENT][wc.wr_id * ROOM + k]);
		}
		at += (size_t)snprintf(log + at, LOG - at, "\n");
		assert_true(at < LOG);
	} while (wc.status != IBV_WC_SUCCESS || !(wc.wc_flags & IBV_WC_WITH_IMM) || wc.imm_data != SCENES - 1);
	assert_true(by_memory == (private_network_datagrams() == before));
	assert_true(has_pattern(pair.buffer[PARENT] + wc.wr_id * ROOM + GRH, LENGTH, SCENES - 1));
	meet(fd);
	close_half(&world, &pair);
	finish(child, fd);
}

static void memory_is_like_the_wire(void **state)
{
	char wire[LOG], memory[LOG];

	(void)state;
	watch(memory, true);
	setenv("VERBENA_WIRE", "rocev2", 1);
	watch(wire, false);
	setenv("VERBENA_WIRE", "auto", 1);
	assert_string_equal(memory, wire);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_go_by_wire_and_the_rest_through_memory),
		cmocka_unit_test(order_holds),
		cmocka_unit_test(a_killed_sender_is_in_nobodys_way),
		cmocka_unit_test(a_killed_receiver_is_not_waited_for),
#ifndef __SANITIZE_THREAD__              /* which has no threads after a fork among threads */
		cmocka_unit_test(a_destination_may_die_and_come_back),
#endif
		cmocka_unit_test(an_endpoint_may_be_closed_and_opened_again),
		cmocka_unit_test(a_full_ring_holds_nobody_up),
		cmocka_unit_test(a_receiver_may_be_away),
		cmocka_unit_test(what_a_ring_has_no_room_for_goes_by_wire),
		cmocka_unit_test(the_wire_can_be_asked_for),
		cmocka_unit_test(who_lets_nobody_in_is_reached_by_wire),
		cmocka_unit_test(memory_is_like_the_wire),
	};

	setenv("VERBENA_WIRE", "auto", 1);
	private_network_enter();
	private_network_give_up_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
