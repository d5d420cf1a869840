/* SPDX-License-Identifier: MIT
 *
 * Datagrams of several processes to one, all at once, more than a socket of the system's own size would hold: none is lost, and those of
 * each process come in order. From when they go through memory: there each sender has a ring of its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/private_network.h"
#include "lib/two_processes.h"

enum {
	SENDERS = 4,
	FEW = 4,                           /* by wire: a socket holds them, of all senders */
	MANY = 400,                        /* a ring holds them, each in a record of its own */
	ROUNDS = 10,
	LENGTH = 1000,
	ROOM = 2048,
};

static const struct pair_options receiving = {.type = IBV_QPT_UD, .depth = SENDERS * MANY};
static const struct pair_options sending = {.type = IBV_QPT_UD, .depth = MANY};

/* As many as it is asked for, again and again, numbered from 0 each time; until it is asked for none. */
static void send_when_asked(int fd)
{
	struct world world;
	struct pair pair;
	struct card other, wish, nothing = {0};

	open_half(&world, &pair, CHILD, &sending, fd, &other);
	for (talk(fd, &nothing, &wish); wish.qpn != 0; talk(fd, &nothing, &wish)) {
		for (uint32_t i = 0; i < wish.qpn; i++) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = pair_request(&pair, CHILD, IBV_WR_SEND_WITH_IMM, &sge, 0, LENGTH);

			wr.imm_data = i;
			wr.wr.ud.remote_qpn = other.qpn;
			pair_post(&pair, CHILD, &wr);
		}
		for (uint32_t i = 0; i < wish.qpn; i++)
			assert_int_equal(wait_completion(pair.cq[CHILD]).status, IBV_WC_SUCCESS);
	}
	close_half(&world, &pair);
}

struct sender {
	pid_t pid;
	int fd;
	struct card card;
	uint32_t next;                     /* the number of the datagram that is to come */
};

static struct sender *find(struct sender *senders, uint32_t qpn)
{
	for (unsigned i = 0; i < SENDERS; i++)
		if (senders[i].card.qpn == qpn)
			return &senders[i];
	fail_msg("a datagram of none of them");
	return NULL;
}

/* Each sends so many. True: without a packet. */
static bool play_round(struct pair *pair, struct sender *senders, uint32_t number)
{
	const struct card wish = {.qpn = number};
	unsigned long before = private_network_datagrams();
	struct card nothing;

	for (unsigned i = 0; i < SENDERS * number; i++)
		pair_receive(pair, PARENT, 1, 0, ROOM);
	for (unsigned i = 0; i < SENDERS; i++) {
		senders[i].next = 0;
		talk(senders[i].fd, &wish, &nothing);
	}
	for (unsigned i = 0; i < SENDERS * number; i++) {
		struct ibv_wc wc = expect_completion(pair->cq[PARENT], 1, IBV_WC_RECV);

		assert_int_equal(wc.imm_data, find(senders, wc.src_qp)->next++);
	}
	return private_network_datagrams() == before;
}

static void none_is_lost(void **state)
{
	const struct card end = {0};
	struct sender senders[SENDERS];
	struct world world;
	struct pair pair;
	struct card own, nothing;

	(void)state;
	/* Before there are threads. */
	for (unsigned i = 0; i < SENDERS; i++)
		senders[i].pid = start(send_when_asked, &senders[i].fd);
	open_half(&world, &pair, PARENT, &receiving, senders[0].fd, &senders[0].card);
	own = (struct card){.qpn = pair.qp[PARENT]->qp_num};
	for (unsigned i = 1; i < SENDERS; i++) {
		talk(senders[i].fd, &own, &senders[i].card);
		meet(senders[i].fd);
	}
	while (!play_round(&pair, senders, FEW))
		;
	for (unsigned i = 0; i < ROUNDS; i++)
		assert_true(play_round(&pair, senders, MANY));
	for (unsigned i = 0; i < SENDERS; i++) {
		talk(senders[i].fd, &end, &nothing);
		finish(senders[i].pid, senders[i].fd);
	}
	close_half(&world, &pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_is_lost),
	};

	setenv("VERBENA_WIRE", "auto", 1);
	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
