/* SPDX-License-Identifier: MIT
 *
 * Another user of the peer's host asks a process about its queue pairs (wire/inquiry.h), from the right address and
 * with the right QPNs: what it is told, and how often, against what the peer is told.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "lib/world.h"
#include "wire/inquiry.h"
#include "wire/path.h"

enum { SWEPT = 2000, AT_ONCE = 32 };

static struct world world;
static struct pair pair;
static int asker;

static int open_all(void **state)
{
	struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(VB_ROCE_PORT)};

	(void)state;
	world_open(&world, "lo");
	pair_open(&pair, &world, &(struct pair_options){0});
	there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	asker = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(asker, (struct sockaddr *)&there, sizeof(there)), 0);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	close(asker);
	pair_close(&pair);
	world_close(&world);
	return 0;
}

/* The answer, asked for again where it does not come: only so many come in a second. */
static struct vb_inquiry_answer ask(struct vb_inquiry inquiry)
{
	static uint64_t nonce;
	uint8_t bytes[VB_INQUIRY_LENGTH];
	struct vb_inquiry_answer answer;

	for (unsigned tries = 0; tries < 600; tries++) {
		struct pollfd wait = {.fd = asker, .events = POLLIN};

		inquiry.nonce = ++nonce;
		vb_inquiry_encode(&inquiry, bytes);
		assert_int_equal(send(asker, bytes, sizeof(bytes), 0), sizeof(bytes));
		while (poll(&wait, 1, 100) == 1) {
			ssize_t length = recv(asker, bytes, sizeof(bytes), 0);

			if (length > 0 && vb_inquiry_answer_decode(&answer, bytes, (size_t)length) &&
			    answer.nonce == nonce)
				return answer;
		}
	}
	fail_msg("no answer");
	return answer;
}

static struct vb_inquiry question_of_peer(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(pair.qp[0], &attr, IBV_QP_SQ_PSN | IBV_QP_RQ_PSN, &init), 0);
	return (struct vb_inquiry){
		.qpn = pair.qp[1]->qp_num,
		.asker_qpn = pair.qp[0]->qp_num,
		.send_psn = attr.sq_psn,
		.receive_psn = attr.rq_psn,
	};
}

static void the_peer_is_told(void **state)
{
	struct vb_inquiry question = question_of_peer();
	struct vb_inquiry_answer answer = ask(question);

	(void)state;
	assert_int_equal(answer.status, VB_INQUIRY_YOUR_PEER);
	assert_int_equal(answer.expected_psn, question.send_psn);
	/* What the peer sends may begin elsewhere: it is not what failed. */
	question.receive_psn ^= 0x10;
	assert_int_equal(ask(question).status, VB_INQUIRY_YOUR_PEER);
	/* Packets that the peer does not wait for are what fails, whatever else is right. */
	question.receive_psn ^= 0x10;
	question.send_psn ^= 0x10;
	assert_int_equal(ask(question).status, VB_INQUIRY_OTHER_PSN);
}

static void who_knows_no_psn_is_not_told_one(void **state)
{
	struct vb_inquiry question = question_of_peer();
	struct vb_inquiry_answer answer;

	(void)state;
	question.send_psn ^= 0x10;
	question.receive_psn ^= 0x10;
	answer = ask(question);
	assert_int_equal(answer.status, VB_INQUIRY_OTHER_PSN);
	assert_int_equal(answer.expected_psn, 0);
	assert_int_equal(answer.receives, 0);
	question.asker_qpn ^= 1;
	answer = ask(question);
	assert_int_equal(answer.status, VB_INQUIRY_OTHER_PEER);
	assert_int_equal(answer.expected_psn, 0);
}

/* A queue pair without an sq_psn. */
static void a_psn_that_was_never_set_is_no_proof(void **state)
{
	struct vb_inquiry question = question_of_peer();

	(void)state;
	pair_reset(&pair, 1);
	pair_to_init(&pair, 1);
	pair_to_rtr(&pair, 1);
	question.send_psn ^= 0x10;
	question.receive_psn = 0;
	assert_int_equal(ask(question).status, VB_INQUIRY_OTHER_PSN);
}

/* A sweep finds no more than a few, whatever it asks; and the peer is told all the same. */
static void a_sweep_learns_next_to_nothing(void **state)
{
	struct vb_inquiry question = question_of_peer();
	uint8_t bytes[VB_INQUIRY_LENGTH];
	unsigned told = 0, untold = 0;
	struct vb_inquiry_answer answer;
	int64_t before = patience_clock();

	(void)state;
	question.send_psn = question.receive_psn = 0x5a5a5a;
	for (unsigned i = 0; i < SWEPT; i++) {
		struct pollfd wait = {.fd = asker, .events = POLLIN};

		question.qpn = (pair.qp[1]->qp_num & ~0x3fffu) | i;
		question.nonce = 0x100000000 + i;
		vb_inquiry_encode(&question, bytes);
		assert_int_equal(send(asker, bytes, sizeof(bytes), 0), sizeof(bytes));
		while (poll(&wait, 1, 1) == 1) {
			ssize_t length = recv(asker, bytes, sizeof(bytes), 0);

			if (length <= 0 || !vb_inquiry_answer_decode(&answer, bytes, (size_t)length))
				continue;
			told += answer.status != VB_INQUIRY_NOT_TOLD;
			untold += answer.status == VB_INQUIRY_NOT_TOLD;
		}
	}
	assert_true(told <= AT_ONCE + 1 + (unsigned)((patience_clock() - before) / 4000));
	assert_true(untold > 0);
	assert_int_equal(ask(question_of_peer()).status, VB_INQUIRY_YOUR_PEER);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_peer_is_told),
		TEST(who_knows_no_psn_is_not_told_one),
		TEST(a_psn_that_was_never_set_is_no_proof),
		TEST(a_sweep_learns_next_to_nothing),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
