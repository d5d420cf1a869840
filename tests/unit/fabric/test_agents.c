/* SPDX-License-Identifier: MIT
 *
 * Who gets which MAD: registration, transaction ids, timeouts, retries, long messages between two agents of one adapter.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab.h"

static struct lab lab;
static const struct vb_mad_address nowhere = {.route = {.dlid = 77}, .qpn = 1, .qkey = VB_GSI_QKEY, .pkey = 0xffff};
static const struct vb_mad_address self = {.route = {.dlid = 9}, .qpn = 1, .qkey = VB_GSI_QKEY, .pkey = 0xffff};

static int begin(void **state)
{
	(void)state;
	lab_begin(&lab, "Switch 4 \"S1\"\n[1] \"SM\"[1]\nCa 1 \"SM\"\n");
	lab_set_lid(lab.manager, 9);
	lab_activate(&lab);
	return 0;
}

static int end(void **state)
{
	(void)state;
	lab_end(&lab);
	return 0;
}

static struct vb_mad request_of(uint8_t mgmt_class, uint8_t version, uint64_t transaction)
{
	return (struct vb_mad){
		.base_version = 1,
		.mgmt_class = mgmt_class,
		.class_version = version,
		.method = VB_MAD_GET,
		.transaction = be64_of(transaction),
		.attribute = be16_of(0x11),
	};
}

static int send_from(int id, const struct vb_mad_address *to, const void *message, size_t length, vb_time timeout, unsigned retries)
{
	return vb_agents_send(&lab.agents, lab.now, &lab.owner, (uint32_t)id, to, message, length, timeout, retries);
}

static void registration(void **state)
{
	static const uint64_t get = 1u << VB_MAD_GET, set = 1u << VB_MAD_SET;

	(void)state;
	assert_int_equal(lab_register(&lab, VB_MAD_SA, 2, 1, get), 0);
	assert_int_equal(lab_register(&lab, VB_MAD_SA, 2, 1, get), -EINVAL);
	assert_int_equal(lab_register(&lab, VB_MAD_SA, 2, 1, get | set), -EINVAL);
	assert_int_equal(lab_register(&lab, VB_MAD_SA, 2, 1, set), 1);
	assert_int_equal(lab_register(&lab, VB_MAD_SA, 1, 1, get), 2);
	assert_int_equal(lab_register(&lab, VB_MAD_SA, 2, 1, 0), 3);
	assert_int_equal(lab_register(&lab, 0, 1, 0, 0), -EINVAL);
	assert_int_equal(lab_register(&lab, VB_MAD_PERFORMANCE, 1, 1, 0), -EINVAL);
	/* Ids are given again, and are less than 32. */
	assert_int_equal(vb_agents_unregister(&lab.agents, lab.now, &lab.owner, 1), 0);
	assert_int_equal(vb_agents_unregister(&lab.agents, lab.now, &lab.owner, 1), -EINVAL);
	assert_int_equal(lab_register(&lab, VB_MAD_SA, 2, 1, set), 1);
	for (int i = 4; i < 32; i++)
		assert_int_equal(lab_register(&lab, VB_MAD_PERFORMANCE, 1, 0, 0), i);
	assert_int_equal(lab_register(&lab, VB_MAD_PERFORMANCE, 1, 0, 0), -ENOMEM);
}

static void a_subnet_manager_is_known(void **state)
{
	struct vb_port_info *info = &lab.manager->port[1].info;
	int id = lab_register(&lab, VB_MAD_SMP_DIRECTED, 1, 0, 0);

	(void)state;
	assert_false(be32_get(info->capabilities) & VB_PORT_CAP_SM);
	assert_int_equal(vb_agents_unregister(&lab.agents, lab.now, &lab.owner, (uint32_t)id), 0);
	(void)lab_register(&lab, VB_MAD_SMP_DIRECTED, 1, 0, 1u << VB_MAD_GET);
	assert_true(be32_get(info->capabilities) & VB_PORT_CAP_SM);
	vb_agents_owner_gone(&lab.agents, lab.now, &lab.owner);
	assert_false(be32_get(info->capabilities) & VB_PORT_CAP_SM);
}

static void no_answer(void **state)
{
	int id = lab_register(&lab, VB_MAD_SA, 2, 1, 0);
	struct vb_mad mad = request_of(VB_MAD_SA, 2, 5);
	uint64_t sent;

	(void)state;
	assert_int_equal(send_from(id, &nowhere, &mad, sizeof(mad), VB_MILLISECONDS(100), 2), 0);
	/* The same is under way; another is not. */
	assert_int_equal(send_from(id, &nowhere, &mad, sizeof(mad), VB_MILLISECONDS(100), 2), -EINVAL);
	mad.transaction = be64_of(6);
	assert_int_equal(send_from(id, &nowhere, &mad, sizeof(mad), 0, 0), 0);
	sent = lab.manager->port[1].counters.transmit_packets;
	assert_int_equal(sent, 2);
	for (unsigned i = 1; i <= 3; i++) {
		assert_int_equal(vb_agents_deadline(&lab.agents), lab.now + VB_MILLISECONDS(100));
		assert_int_equal(lab.answers, 0);
		lab.now += VB_MILLISECONDS(100);
		vb_agents_expire(&lab.agents, lab.now);
		assert_int_equal(lab.manager->port[1].counters.transmit_packets, sent + (i < 3 ? i : 2));
	}
	assert_int_equal(lab.answers, 1);
	assert_int_equal(lab.answer[0].status, ETIMEDOUT);
	assert_int_equal(lab.answer[0].length, VB_MAD_HEADER_LENGTH);
	assert_int_equal(be64_get(((struct vb_mad *)(void *)lab.answer[0].bytes)->transaction) & UINT32_MAX, 5);
	assert_int_equal(vb_agents_deadline(&lab.agents), VB_TIME_NEVER);
}

static void wrong_messages(void **state)
{
	int id = lab_register(&lab, VB_MAD_PERFORMANCE, 1, 0, 0);
	uint8_t bytes[600] = {1, VB_MAD_PERFORMANCE, 1, VB_MAD_GET};

	(void)state;
	assert_int_equal(send_from(id, &nowhere, bytes, 23, 0, 0), -EINVAL);
	assert_int_equal(send_from(id, &nowhere, bytes, 257, 0, 0), -EINVAL);
	assert_int_equal(send_from(7, &nowhere, bytes, 256, 0, 0), -EINVAL);
	bytes[0] = 2;
	assert_int_equal(send_from(id, &nowhere, bytes, 256, 0, 0), -EINVAL);
}

/* A client and a server on one adapter: what opensm and saquery are. */
static void a_long_answer(void **state)
{
	int server = lab_register(&lab, VB_MAD_SA, 2, 1, 1u << VB_MAD_GET), client = lab_register(&lab, VB_MAD_SA, 2, 1, 0);
	struct vb_mad mad = request_of(VB_MAD_SA, 2, 0x123456789);
	size_t length = 56 + 100000;
	uint8_t *answer = calloc(1, length);
	struct vb_mad_address back = self;

	(void)state;
	assert_int_equal(send_from(client, &self, &mad, sizeof(mad), VB_SECONDS(1), 0), 0);
	assert_int_equal(lab.answers, 1);
	assert_int_equal(lab.answer[0].agent, server);
	for (size_t i = 56; i < length; i++)
		answer[i] = (uint8_t)(i * 13);
	memcpy(answer, lab.answer[0].bytes, 56);
	answer[3] |= VB_MAD_RESPONSE;
	((struct vb_rmpp *)(void *)answer)->version = 1;
	((struct vb_rmpp *)(void *)answer)->time_flags = VB_RMPP_ACTIVE;
	assert_int_equal(send_from(server, &back, answer, length, 0, 0), 0);
	assert_int_equal(lab.answers, 2);
	assert_int_equal(lab.answer[1].agent, client);
	assert_int_equal(lab.answer[1].status, 0);
	assert_int_equal(lab.answer[1].length, length);
	assert_memory_equal(lab.answer[1].bytes + 56, answer + 56, length - 56);
	/* The transaction's lower half is the client's, as it wrote it. */
	assert_int_equal(be64_get(((struct vb_mad *)(void *)lab.answer[1].bytes)->transaction) & UINT32_MAX, 0x23456789);
	/* Nobody waits for anything but the memory of what was delivered. */
	vb_agents_expire(&lab.agents, lab.now + VB_SECONDS(60));
	assert_int_equal(vb_agents_deadline(&lab.agents), VB_TIME_NEVER);
	assert_int_equal(lab.answers, 2);
	/* An answer that nobody asked for. */
	assert_int_equal(send_from(server, &back, answer, length, 0, 0), 0);
	assert_int_equal(lab.answers, 2);
	free(answer);
}

/* The owner goes while its messages are under way. */
static void an_owner_that_goes(void **state)
{
	int id = lab_register(&lab, VB_MAD_SA, 2, 1, 0);
	struct vb_mad mad = request_of(VB_MAD_SA, 2, 5);
	uint8_t *message = calloc(1, 5000);

	(void)state;
	assert_int_equal(send_from(id, &nowhere, &mad, sizeof(mad), VB_SECONDS(1), 2), 0);
	memcpy(message, &mad, 56);
	message[3] = 0x92;
	((struct vb_rmpp *)(void *)message)->time_flags = VB_RMPP_ACTIVE;
	assert_int_equal(send_from(id, &nowhere, message, 5000, 0, 0), 0);
	vb_agents_owner_gone(&lab.agents, lab.now, &lab.owner);
	assert_int_equal(vb_agents_deadline(&lab.agents), VB_TIME_NEVER);
	vb_agents_expire(&lab.agents, lab.now + VB_SECONDS(100));
	assert_int_equal(lab.answers, 0);
	free(message);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(registration, begin, end),
		cmocka_unit_test_setup_teardown(a_subnet_manager_is_known, begin, end),
		cmocka_unit_test_setup_teardown(no_answer, begin, end),
		cmocka_unit_test_setup_teardown(wrong_messages, begin, end),
		cmocka_unit_test_setup_teardown(a_long_answer, begin, end),
		cmocka_unit_test_setup_teardown(an_owner_that_goes, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
