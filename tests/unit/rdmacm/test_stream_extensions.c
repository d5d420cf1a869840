/* SPDX-License-Identifier: MIT
 *
 * The extensions of iWARP (RFC 7306: immediate data, atomics) by a connection of librdmacm. Nothing negotiates them: they may be
 * posted where the user says so (VERBENA_IWARP=extensions=on), and are EINVAL elsewhere, as with siw. Run both ways.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/private_network.h"

static bool on;
static struct connection connection;
static uint64_t here[2], there[2];
static struct ibv_mr *here_mr, *there_mr;

static int post(struct ibv_send_wr *request, unsigned length)
{
	struct ibv_sge element = {.addr = (uintptr_t)here, .length = length, .lkey = here_mr->lkey};
	struct ibv_send_wr *refused;

	request->sg_list = &element;
	request->num_sge = 1;
	return ibv_post_send(connection.id[0]->qp, request, &refused);
}

static void expect_sent(void)
{
	struct ibv_wc completion;

	assert_int_equal(rdma_get_send_comp(connection.id[0], &completion), 1);
	assert_int_equal(completion.status, IBV_WC_SUCCESS);
}

static void a_write_with_immediate(void **state)
{
	struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(0x12345678),
				      .wr.rdma = {.remote_addr = (uintptr_t)there, .rkey = there_mr->rkey}};
	struct ibv_wc completion;

	(void)state;
	here[0] = 11;
	here[1] = 12;
	assert_int_equal(post(&request, sizeof(here)), on ? 0 : EINVAL);
	if (!on)
		return;
	assert_int_equal(rdma_post_recv(connection.id[1], NULL, there, 0, there_mr), 0);
	expect_sent();
	assert_int_equal(rdma_get_recv_comp(connection.id[1], &completion), 1);
	assert_int_equal(completion.status, IBV_WC_SUCCESS);
	assert_int_equal(completion.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_true(completion.wc_flags & IBV_WC_WITH_IMM);
	assert_int_equal(ntohl(completion.imm_data), 0x12345678);
	assert_int_equal(there[0], 11);
	assert_int_equal(there[1], 12);
}

static void atomics(void **state)
{
	struct ibv_send_wr add = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .wr.atomic = {.remote_addr = (uintptr_t)there, .rkey = there_mr->rkey, .compare_add = 5}};
	struct ibv_send_wr swap = {.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
				   .wr.atomic = {.remote_addr = (uintptr_t)there, .rkey = there_mr->rkey, .compare_add = 105,
						 .swap = 7}};

	(void)state;
	there[0] = 100;
	assert_int_equal(post(&add, 8), on ? 0 : EINVAL);
	if (on) {
		expect_sent();
		assert_int_equal(here[0], 100);
		assert_int_equal(there[0], 105);
	}
	assert_int_equal(post(&swap, 8), on ? 0 : EINVAL);
	if (on) {
		expect_sent();
		assert_int_equal(here[0], 105);
		assert_int_equal(there[0], 7);
	}
}

/* No message has both a payload for a receive and immediate data, with extensions or without. */
static void never_a_send_with_immediate(void **state)
{
	struct ibv_send_wr request = {.opcode = IBV_WR_SEND_WITH_IMM};

	(void)state;
	assert_int_equal(post(&request, 8), EINVAL);
}

static void the_device_says_so(void **state)
{
	struct ibv_device_attr attributes;

	(void)state;
	assert_int_equal(ibv_query_device(connection.id[0]->verbs, &attributes), 0);
	assert_int_equal(attributes.atomic_cap, on ? IBV_ATOMIC_GLOB : IBV_ATOMIC_NONE);
}

static int open_both(void **state)
{
	(void)state;
	connection_open(&connection);
	here_mr = ibv_reg_mr(connection.id[0]->pd, here, sizeof(here), IBV_ACCESS_LOCAL_WRITE);
	there_mr = ibv_reg_mr(connection.id[1]->pd, there, sizeof(there),
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	return here_mr != NULL && there_mr != NULL ? 0 : -1;
}

static int close_both(void **state)
{
	(void)state;
	rdma_dereg_mr(here_mr);
	rdma_dereg_mr(there_mr);
	connection_close(&connection);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_device_says_so),
		cmocka_unit_test(a_write_with_immediate),
		cmocka_unit_test(atomics),
		cmocka_unit_test(never_a_send_with_immediate),
	};
	const char *settings = getenv("VERBENA_IWARP");

	on = settings != NULL && strstr(settings, "extensions=on") != NULL;
	private_network_enter();
	return cmocka_run_group_tests(tests, open_both, close_both);
}
