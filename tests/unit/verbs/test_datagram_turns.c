/* SPDX-License-Identifier: MIT
 *
 * Datagrams between two processes of one host, one at a time: each is answered before the next is sent. So one that was lost, one that
 * came twice and one for which nobody was woken are each seen at once: from the first, which goes by wire, over the change to those that
 * go through memory; by threads that spin, and by threads that sleep until they are told.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "lib/two_processes.h"

enum {
	GRH = 40,
	ROOM = 4096,
	SPINNING = 50000,                  /* there and back */
	SLEEPING = 4000,
	LAST = 0x7fffffff,
	LONG_ENOUGH = 15 * 1000,           /* ms: a busy machine does fewer turns, not longer ones */
};

/* How each side waits; a child has what its parent had. */
static bool sleeps[2];

struct end {
	struct world world;
	struct pair pair;
	struct card other;
	struct ibv_comp_channel *channel;
	int side;
};

static void open_end(struct end *end, int side, int fd)
{
	struct pair_options options = {.type = IBV_QPT_UD, .stay_in_reset = true};
	struct card own;

	*end = (struct end){.side = side};
	world_open(&end->world, "lo");
	if (sleeps[side]) {
		end->channel = ibv_create_comp_channel(end->world.context);
		assert_non_null(end->channel);
		options.channel = end->channel;
	}
	pair_open(&end->pair, &end->world, &options);
	own.qpn = end->pair.qp[side]->qp_num;
	talk(fd, &own, &end->other);
	end->pair.elsewhere = end->other.qpn;
	pair_to_init(&end->pair, side);
	pair_to_rtr(&end->pair, side);
	pair_to_rts(&end->pair, side);
	for (unsigned i = 0; i < 2; i++)
		pair_receive(&end->pair, side, 1, 0, ROOM);
	if (sleeps[side])
		assert_int_equal(ibv_req_notify_cq(end->pair.cq[side], 0), 0);
	meet(fd);
}

static void close_end(struct end *end)
{
	pair_close(&end->pair);
	if (end->channel)
		assert_int_equal(ibv_destroy_comp_channel(end->channel), 0);
	world_close(&end->world);
}

static void post(struct end *end, uint32_t number, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = pair_request(&end->pair, end->side, IBV_WR_SEND_WITH_IMM, &sge, ROOM, length);

	wr.imm_data = number;
	wr.wr.ud.remote_qpn = end->other.qpn;
	/* The send queue is given back by one in 16. */
	wr.send_flags = number % 16 == 0 ? IBV_SEND_SIGNALED : 0;
	pair_post(&end->pair, end->side, &wr);
}

static void sleep_until_told(struct end *end)
{
	struct pollfd item = {.fd = end->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	if (poll(&item, 1, PATIENCE_MS) != 1)
		fail_msg("nobody was woken");
	assert_int_equal(ibv_get_cq_event(end->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
}

/* The next datagram: which one it is. */
static uint32_t receive(struct end *end)
{
	struct ibv_cq *cq = end->pair.cq[end->side];
	int64_t since = 0;

	for (unsigned tries = 1;; tries++) {
		struct ibv_wc wc;

		if (ibv_poll_cq(cq, 1, &wc) == 1) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			if (wc.opcode != IBV_WC_RECV)
				continue;
			assert_true(wc.byte_len >= GRH);
			pair_receive(&end->pair, end->side, 1, 0, ROOM);
			return wc.imm_data;
		}
		if (sleeps[end->side]) {
			sleep_until_told(end);
			continue;
		}
		if (tries % 65536 != 0)
			continue;
		since = since ? since : patience_clock();
		if (patience_clock() - since > PATIENCE_MS)
			fail_msg("a datagram was lost");
	}
}

static void answer(int fd)
{
	uint32_t number;
	struct end end;

	open_end(&end, CHILD, fd);
	for (uint32_t expected = 1; (number = receive(&end)) != LAST; expected++) {
		assert_int_equal(number, expected);
		post(&end, number, number % 1000);
	}
	meet(fd);
	close_end(&end);
}

static void take_turns(bool parent_sleeps, bool child_sleeps, uint32_t turns)
{
	int64_t began = patience_clock();
	uint32_t number = 0;
	struct end end;
	pid_t child;
	int fd;

	sleeps[PARENT] = parent_sleeps;
	sleeps[CHILD] = child_sleeps;
	child = start(answer, &fd);
	open_end(&end, PARENT, fd);
	while (number < turns && patience_clock() - began < LONG_ENOUGH) {
		number++;
		post(&end, number, number % 777);
		assert_int_equal(receive(&end), number);
	}
	post(&end, LAST, 0);
	meet(fd);
	print_message("%u turns\n", number);
	close_end(&end);
	finish(child, fd);
}

static void between_threads_that_spin(void **state)
{
	(void)state;
	take_turns(false, false, SPINNING);
}

static void between_threads_that_sleep(void **state)
{
	(void)state;
	take_turns(true, true, SLEEPING);
}

static void between_one_that_spins_and_one_that_sleeps(void **state)
{
	(void)state;
	take_turns(false, true, SLEEPING);
	take_turns(true, false, SLEEPING);
}

/* Each time over the change. */
static void again_and_again(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 8; i++)
		take_turns(i & 1, i & 2, 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(between_threads_that_spin),
		cmocka_unit_test(between_threads_that_sleep),
		cmocka_unit_test(between_one_that_spins_and_one_that_sleeps),
		cmocka_unit_test(again_and_again),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
