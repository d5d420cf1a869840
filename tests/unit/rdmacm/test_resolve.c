/* SPDX-License-Identifier: MIT
 *
 * rdma_resolve_addr of an address for which nobody answers on its link: told in the time the program gives, the id as it
 * was before, and nothing left of it when it is destroyed meanwhile.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/patience.h"
#include "lib/private_network.h"

#define OURS "192.0.2.1"
#define NOBODY "192.0.2.99"

enum { SHORT_MS = 50 };

static struct rdma_event_channel *channel;

static struct sockaddr_in at(const char *address)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(7174)};

	assert_int_equal(inet_pton(AF_INET, address, &in.sin_addr), 1);
	return in;
}

static int set_up(void **state)
{
	(void)state;
	channel = rdma_create_event_channel();
	return channel != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	expect_no_cm_event(channel);
	rdma_destroy_event_channel(channel);
	return 0;
}

static struct rdma_cm_id *ask_for(struct rdma_event_channel *where, int timeout_ms)
{
	struct sockaddr_in nobody = at(NOBODY);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(where, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nobody, timeout_ms), 0);
	return id;
}

static void nobody_answers(void **state)
{
	struct sockaddr_in here = loopback(7174), ours = at(OURS);
	struct rdma_cm_id *id = ask_for(channel, SHORT_MS);
	__be16 port;

	(void)state;
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ADDR_ERROR), -ETIMEDOUT);
	/* As before, but that it has a port: another destination may need another device. */
	assert_null(id->verbs);
	port = rdma_get_src_port(id);
	assert_int_not_equal(port, 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&here, SHORT_MS), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_non_null(id->verbs);
	assert_int_equal(((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr.s_addr, here.sin_addr.s_addr);
	assert_int_equal(rdma_get_src_port(id), port);
	assert_int_equal(rdma_destroy_id(id), 0);

	/* What the program itself chose stays. */
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&ours), 0);
	ours = at(NOBODY);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&ours, SHORT_MS), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ADDR_ERROR), -ETIMEDOUT);
	assert_non_null(id->verbs);
	ours = at(OURS);
	assert_int_equal(((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr.s_addr, ours.sin_addr.s_addr);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void nothing_else_can_be_done_meanwhile(void **state)
{
	struct rdma_cm_id *id = ask_for(channel, PATIENCE_MS);
	struct sockaddr_in nobody = at(NOBODY);

	(void)state;
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nobody, SHORT_MS), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_route(id, SHORT_MS), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_listen(id, 1), -1);
	assert_int_equal(errno, EINVAL);
	/* No event after this. */
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void many_at_once(void **state)
{
	struct rdma_cm_id *ids[100];

	(void)state;
	for (int i = 0; i < 100; i++)
		ids[i] = ask_for(channel, i % 2 ? SHORT_MS : PATIENCE_MS);
	for (int i = 0; i < 50; i++)
		assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ADDR_ERROR), -ETIMEDOUT);
	for (int i = 0; i < 100; i++)
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
}

static void a_synchronous_id_waits(void **state)
{
	struct sockaddr_in nobody = at(NOBODY);
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nobody, SHORT_MS), -1);
	assert_int_equal(errno, ETIMEDOUT);
	assert_int_equal(rdma_destroy_id(id), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nobody_answers),
		TEST(nothing_else_can_be_done_meanwhile),
		TEST(many_at_once),
		TEST(a_synchronous_id_waits),
	};

	private_network_enter();
	if (private_network_add_interface("vb0", OURS, 24) != 0 || private_network_set_up("veth0", 1) != 0) {
		puts("skipped: no veth here");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
