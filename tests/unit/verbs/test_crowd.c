/* SPDX-License-Identifier: MIT
 *
 * Two processes of one host with so many connections that they do not look at each of them all the time: everyone is heard all the same,
 * by who polls and by who sleeps, when one of them has to wait, and when the crowd comes and goes. Both processes play the same
 * scenes; one sends, the other sends back.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "lib/two_processes.h"

enum { CROWD = 48, FEW = 5, ROUNDS = 25, ROOM = 4096, NOBODY = CROWD };
/* Four exchanges and one message: no send is signaled, so all of them keep their places. */
enum { DEPTH = 4 * ROUNDS + 1 };

struct side {
	int fd, me;
	struct world world;
	struct ibv_comp_channel *channel;  /* NULL: polls */
	struct pair pair[CROWD];
	struct card other[CROWD];
};

static void join(struct side *side, unsigned first, unsigned end)
{
	struct pair_options options = {.depth = DEPTH, .channel = side->channel, .stay_in_reset = true};

	for (unsigned i = first; i < end; i++) {
		struct pair *pair = &side->pair[i];
		struct card own;

		pair_open(pair, &side->world, &options);
		own = (struct card){pair->qp[side->me]->qp_num, pair->mr[side->me]->rkey, (uintptr_t)pair->buffer[side->me]};
		talk(side->fd, &own, &side->other[i]);
		pair->elsewhere = side->other[i].qpn;
		pair_to_init(pair, side->me);
		pair_to_rtr(pair, side->me);
		pair_to_rts(pair, side->me);
		if (side->channel)
			assert_int_equal(ibv_req_notify_cq(pair->cq[side->me], 0), 0);
	}
	meet(side->fd);
}

static void leave(struct side *side, unsigned first, unsigned end)
{
	meet(side->fd);
	for (unsigned i = first; i < end; i++)
		pair_close(&side->pair[i]);
}

static void prepare(struct side *side, unsigned first, unsigned end, unsigned but)
{
	for (unsigned i = first; i < end; i++)
		if (i != but)
			pair_receive(&side->pair[i], side->me, 1, 0, ROOM);
}

static void say(struct side *side, unsigned i, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = half_request(&side->pair[i], side->me, &side->other[i], IBV_WR_SEND, &sge, 2 * ROOM, length);

	wr.send_flags = 0;
	pair_post(&side->pair[i], side->me, &wr);
}

/* Whoever sleeps hears from its channel that there is something. */
static void rest(struct side *side)
{
	struct pollfd item = {.events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	if (!side->channel)
		return;
	item.fd = side->channel->fd;
	assert_int_equal(poll(&item, 1, PATIENCE_MS), 1);
	assert_int_equal(ibv_get_cq_event(side->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
}

/* One message of each of first..end but one, sent back by the child. */
static void take_from_all(struct side *side, unsigned first, unsigned end, unsigned but, uint32_t length)
{
	unsigned left = end - first - (but >= first && but < end);
	int64_t limit = patience_clock() + PATIENCE_MS;

	while (left > 0) {
		unsigned found = 0;

		for (unsigned i = first; i < end; i++) {
			struct ibv_wc wc;

			if (ibv_poll_cq(side->pair[i].cq[side->me], 1, &wc) == 0)
				continue;
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.opcode, IBV_WC_RECV);
			assert_int_equal(wc.byte_len, length + i);
			if (side->me == CHILD)
				say(side, i, length + i);
			found++;
		}
		left -= found;
		assert_true(patience_clock() < limit);
		if (found == 0 && left > 0)
			rest(side);
	}
}

static void say_to_all(struct side *side, unsigned first, unsigned end, uint32_t length)
{
	unsigned count = end - first, at = (unsigned)rand() % count;

	/* In an order that is not that of their making: 29 is prime to their number. */
	for (unsigned k = 0; k < count; k++, at = (at + 29) % count)
		say(side, first + at, length + first + at);
}

static void exchange(struct side *side, unsigned first, unsigned end)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		prepare(side, first, end, NOBODY);
		meet(side->fd);
		if (side->me == PARENT)
			say_to_all(side, first, end, 40 * round);
		take_from_all(side, first, end, NOBODY, 40 * round);
	}
}

/* One of the child's has no receive: it waits, the others do not. */
static void exchange_but_one(struct side *side, unsigned one)
{
	prepare(side, 0, CROWD, side->me == CHILD ? one : NOBODY);
	meet(side->fd);
	if (side->me == PARENT)
		say_to_all(side, 0, CROWD, 8);
	take_from_all(side, 0, CROWD, one, 8);
	meet(side->fd);
	if (side->me == CHILD)
		pair_receive(&side->pair[one], CHILD, 1, 0, ROOM);
	take_from_all(side, one, one + 1, NOBODY, 8);
}

static void play(struct side *side)
{
	join(side, 0, FEW);
	exchange(side, 0, FEW);
	join(side, FEW, CROWD);
	exchange(side, 0, CROWD);
	exchange_but_one(side, FEW);
	/* The crowd goes, and comes again. */
	leave(side, FEW, CROWD);
	exchange(side, 0, FEW);
	join(side, FEW, CROWD);
	exchange(side, 0, CROWD);
	leave(side, 0, CROWD);
}

static void play_side(int fd, int me, bool sleeps)
{
	struct side *side = calloc(1, sizeof(*side));

	assert_non_null(side);
	side->fd = fd;
	side->me = me;
	world_open(&side->world, "lo");
	side->channel = sleeps ? ibv_create_comp_channel(side->world.context) : NULL;
	play(side);
	if (side->channel)
		assert_int_equal(ibv_destroy_comp_channel(side->channel), 0);
	world_close(&side->world);
	free(side);
}

static void poll_and_echo(int fd)
{
	play_side(fd, CHILD, false);
}

static void sleep_and_echo(int fd)
{
	play_side(fd, CHILD, true);
}

static void everyone_in_a_crowd_is_heard(void **state)
{
	int fd;
	pid_t child = start(poll_and_echo, &fd);

	(void)state;
	play_side(fd, PARENT, false);
	finish(child, fd);
}

static void sleepers_hear_a_crowd(void **state)
{
	int fd;
	pid_t child = start(sleep_and_echo, &fd);

	(void)state;
	play_side(fd, PARENT, true);
	finish(child, fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everyone_in_a_crowd_is_heard),
		cmocka_unit_test(sleepers_hear_a_crowd),
	};
	const unsigned seed = 20260115;

	print_message("seed %u\n", seed);
	srand(seed);
	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
