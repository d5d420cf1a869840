/* SPDX-License-Identifier: MIT
 *
 * What one program asks for in some order a listener is asked for in that order, by RoCE and by iWARP, though it is a moment late,
 * as perftest's is: its n-th queue pair has to meet the n-th of the other side.
 */
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/patience.h"
#include "lib/private_network.h"

enum { IDS = 6, TRIES = 50, REFUSED_MS = 70 /* docs/rdmacm.md: after 75 */ };

struct party {
	struct rdma_event_channel *channel, *passive;
	struct rdma_cm_id *listener, *id[IDS];
	uint16_t port;
};

/* Its port is bound, and nobody listens. */
static void party_open(struct party *party)
{
	struct sockaddr_in address = loopback(0);

	party->channel = rdma_create_event_channel();
	party->passive = rdma_create_event_channel();
	assert_int_equal(rdma_create_id(party->passive, &party->listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(party->listener, (struct sockaddr *)&address), 0);
	party->port = ntohs(rdma_get_src_port(party->listener));
	for (unsigned i = 0; i < IDS; i++) {
		party->id[i] = resolved_id(party->channel, RDMA_PS_TCP, party->port);
		add_qp(party->id[i]);
	}
}

static void party_close(struct party *party)
{
	for (unsigned i = 0; i < IDS; i++)
		if (party->id[i] != NULL)
			rdma_destroy_ep(party->id[i]);
	assert_int_equal(rdma_destroy_id(party->listener), 0);
	rdma_destroy_event_channel(party->channel);
	rdma_destroy_event_channel(party->passive);
}

static void connect_number(struct party *party, unsigned i)
{
	const uint8_t number = (uint8_t)i;
	struct rdma_conn_param param = {.private_data = &number, .private_data_len = 1, .responder_resources = 1, .initiator_depth = 1};

	assert_int_equal(rdma_connect(party->id[i], &param), 0);
}

/* What the next request carries; it is rejected. */
static unsigned next_number(struct party *party)
{
	struct rdma_cm_event *event = next_event(party->passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	unsigned number = *(const uint8_t *)event->param.conn.private_data;

	/* One that was given up may be gone. */
	assert_true(rdma_reject(event->id, NULL, 0) == 0 || party->id[number] == NULL);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	return number;
}

/* `late`: so many ask before anybody listens. false: for so long that the first may have been refused for good, and nothing is shown. */
static bool ask_in_order(unsigned late)
{
	struct party party;
	int64_t began;
	bool in_time;

	party_open(&party);
	began = patience_clock();
	for (unsigned i = 0; i < late; i++)
		connect_number(&party, i);
	assert_int_equal(rdma_listen(party.listener, IDS), 0);
	in_time = patience_clock() - began < REFUSED_MS;
	for (unsigned i = late; i < IDS && in_time; i++)
		connect_number(&party, i);
	for (unsigned i = 0; i < IDS && in_time; i++)
		assert_int_equal(next_number(&party), i);
	party_close(&party);
	return in_time;
}

static void a_listener_is_asked_in_the_order_of_the_calls(void **state)
{
	(void)state;
	for (unsigned late = 0; late <= IDS; late++) {
		unsigned tries = 0;

		while (!ask_in_order(late))
			assert_in_range(++tries, 1, TRIES);
	}
}

/* A server that answers when it has been asked for all of them. */
static void one_that_is_not_answered_holds_up_nobody_for_long(void **state)
{
	struct rdma_cm_event *event[IDS];
	struct party party;

	(void)state;
	party_open(&party);
	assert_int_equal(rdma_listen(party.listener, IDS), 0);
	for (unsigned i = 0; i < IDS; i++)
		connect_number(&party, i);
	for (unsigned i = 0; i < IDS; i++) {
		event[i] = next_event(party.passive, RDMA_CM_EVENT_CONNECT_REQUEST);
		assert_int_equal(*(const uint8_t *)event[i]->param.conn.private_data, i);
	}
	for (unsigned i = 0; i < IDS; i++) {
		assert_int_equal(rdma_reject(event[i]->id, NULL, 0), 0);
		assert_int_equal(rdma_destroy_id(event[i]->id), 0);
		assert_int_equal(rdma_ack_cm_event(event[i]), 0);
	}
	party_close(&party);
}

static void all_are_refused_where_nobody_listens(void **state)
{
	struct party party;

	(void)state;
	party_open(&party);
	for (unsigned i = 0; i < IDS; i++)
		connect_number(&party, i);
	for (unsigned i = 0; i < IDS; i++)
		assert_int_not_equal(expect_cm_event(party.channel, RDMA_CM_EVENT_REJECTED), 0);
	party_close(&party);
}

/* One in the middle that is given up: those behind it are not. */
static void one_that_is_given_up_holds_up_nobody(void **state)
{
	unsigned tries = 0;
	bool in_time;

	(void)state;
	do {
		struct party party;
		int64_t began;

		party_open(&party);
		began = patience_clock();
		for (unsigned i = 0; i < 3; i++)
			connect_number(&party, i);
		for (unsigned i = 0; i < 2; i++) {
			rdma_destroy_ep(party.id[i]);
			party.id[i] = NULL;
		}
		assert_int_equal(rdma_listen(party.listener, IDS), 0);
		in_time = patience_clock() - began < REFUSED_MS;
		/* The REQ of the second may have been under way when it was given up. */
		while (in_time && next_number(&party) != 2)
			continue;
		party_close(&party);
		assert_in_range(++tries, 1, TRIES);
	} while (!in_time);
}

/* TCP keeps the order of two connections no longer than their packets wait in one queue: of one processor. */
static void use_one_processor(void)
{
	cpu_set_t all, one;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
		return;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_listener_is_asked_in_the_order_of_the_calls),
		cmocka_unit_test(one_that_is_given_up_holds_up_nobody),
		cmocka_unit_test(one_that_is_not_answered_holds_up_nobody_for_long),
		cmocka_unit_test(all_are_refused_where_nobody_listens),
	};

	use_one_processor();
	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
