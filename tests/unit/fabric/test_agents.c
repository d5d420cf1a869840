/* SPDX-License-Identifier: MIT
 *
 * Who gets which MAD: registration, transaction ids, timeouts, retries, long messages between agents of one adapter and of several.
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

enum { OTHERS = 2, OTHER_LID = 10, OTHER_LMC = 1, GET_MULTI = 0x14 };

/* The agents of another adapter than the manager's, and what was last delivered to them. */
struct other {
	struct vb_fabric_node *node;
	struct vb_agents agents;
	uint32_t id;
	bool cuts;                         /* its cable, when something is delivered */
	unsigned count;
	size_t length;
	uint8_t *bytes;
	struct vb_mad_address from;
};

static struct lab lab;
static struct other other[OTHERS];
static const struct vb_mad_address nowhere = {.route = {.dlid = 77}, .qpn = 1, .qkey = VB_GSI_QKEY, .pkey = 0xffff};
static const struct vb_mad_address self = {.route = {.dlid = 9}, .qpn = 1, .qkey = VB_GSI_QKEY, .pkey = 0xffff};

static void hear(void *context, void *owner, uint32_t agent, int status, const struct vb_mad_address *address, const void *message,
		 size_t length)
{
	struct other *own = context;

	assert_ptr_equal(owner, own);
	assert_int_equal(agent, own->id);
	assert_int_equal(status, 0);
	own->count++;
	own->length = length;
	free(own->bytes);
	own->bytes = malloc(length);
	memcpy(own->bytes, message, length);
	own->from = *address;
	if (own->cuts)
		vb_fabric_cut(&own->node->port[1], true, lab.now);
}

static const struct vb_agents_host other_host = {.deliver = hear};
static const struct vb_fabric_consumer other_consumer = {.mad = vb_agents_receive};

static uint16_t lid_of(unsigned i)
{
	return (uint16_t)(OTHER_LID + (i << OTHER_LMC));
}

/* Adapters with two LIDs each. */
static void begin_others(void)
{
	struct vb_fabric_node *the_switch = vb_fabric_find(&lab.fabric, "S1");

	the_switch->linear[9] = 1;
	the_switch->switch_info.linear_top = be16_of(lid_of(OTHERS));
	for (unsigned i = 0; i < OTHERS; i++) {
		other[i] = (struct other){.node = vb_fabric_find(&lab.fabric, i == 0 ? "H1" : "H2")};
		lab_set_lid(other[i].node, lid_of(i));
		other[i].node->port[1].info.protect_lmc = OTHER_LMC;
		the_switch->linear[lid_of(i)] = the_switch->linear[lid_of(i) + 1] = (uint8_t)(2 + i);
		vb_agents_init(&other[i].agents, &other[i].node->port[1], &other_host, &other[i]);
		other[i].node->consumer = &other_consumer;
		other[i].node->consumer_context = &other[i].agents;
	}
}

static int begin(void **state)
{
	(void)state;
	lab_begin(&lab, "Switch 4 \"S1\"\n[1] \"SM\"[1]\n[2] \"H1\"[1]\n[3] \"H2\"[1]\n"
			"Ca 1 \"SM\"\nCa 1 \"H1\"\nCa 1 \"H2\"\n");
	lab_set_lid(lab.manager, 9);
	begin_others();
	lab_activate(&lab);
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (unsigned i = 0; i < OTHERS; i++) {
		vb_agents_fini(&other[i].agents);
		free(other[i].bytes);
	}
	lab_end(&lab);
	return 0;
}

static void register_other(unsigned i, uint64_t methods)
{
	struct vb_agent_registration registration = {
		.mgmt_class = VB_MAD_SA,
		.class_version = 2,
		.rmpp_version = 1,
		.methods = {methods, 0},
	};
	int id = vb_agents_register(&other[i].agents, lab.now, &other[i], &registration);

	assert_true(id >= 0);
	other[i].id = (uint32_t)id;
}

static int send_from_other(unsigned i, uint16_t slid, uint16_t dlid, const void *message, size_t length, vb_time timeout)
{
	struct vb_mad_address address = {.route = {.dlid = dlid, .slid = slid}, .qpn = 1, .qkey = VB_GSI_QKEY, .pkey = 0xffff};

	return vb_agents_send(&other[i].agents, lab.now, &other[i], other[i].id, &address, message, length, timeout, 0);
}

static void mend(unsigned i)
{
	other[i].cuts = false;
	vb_fabric_cut(&other[i].node->port[1], false, lab.now);
	lab_activate(&lab);
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

/* A message of so many bytes, with the headers of `head`, to be sent in segments. */
static uint8_t *long_message(const void *head, uint8_t method, size_t length, uint8_t seed)
{
	uint8_t *message = malloc(length);

	for (size_t i = 56; i < length; i++)
		message[i] = (uint8_t)(i * 13 + seed);
	memcpy(message, head, 56);
	message[3] = method;
	((struct vb_rmpp *)(void *)message)->version = 1;
	((struct vb_rmpp *)(void *)message)->time_flags = VB_RMPP_ACTIVE;
	return message;
}

/* Two hosts ask with the same transaction, and both answers are under way at once: each gets its own. */
static void two_that_ask_the_same(void **state)
{
	int server = lab_register(&lab, VB_MAD_SA, 2, 1, 1u << VB_MAD_GET);
	struct vb_mad mad = request_of(VB_MAD_SA, 2, 5);
	size_t length = 56 + 5000;

	(void)state;
	for (unsigned i = 0; i < OTHERS; i++) {
		register_other(i, 0);
		assert_int_equal(send_from_other(i, 0, 9, &mad, sizeof(mad), VB_SECONDS(1)), 0);
	}
	assert_int_equal(lab.answers, 2);
	assert_memory_equal(lab.answer[0].bytes, lab.answer[1].bytes, sizeof(mad));
	for (unsigned i = 0; i < OTHERS; i++) {
		uint16_t dlid = lab.answer[i].address.route.slid;
		struct vb_mad_address back = {.route = {.dlid = dlid}, .qpn = 1, .qkey = VB_GSI_QKEY, .pkey = 0xffff};
		uint8_t *answer = long_message(lab.answer[i].bytes, VB_MAD_GET | VB_MAD_RESPONSE, length, (uint8_t)i);

		/* The first segment of the first is lost. */
		if (i == 0)
			vb_fabric_cut(&other[0].node->port[1], true, lab.now);
		assert_int_equal(send_from(server, &back, answer, length, 0, 0), 0);
		mend(0);
		free(answer);
	}
	assert_int_equal(other[0].count, 0);
	assert_int_equal(other[1].count, 1);
	lab.now = vb_agents_deadline(&lab.agents);
	vb_agents_expire(&lab.agents, lab.now);
	assert_int_equal(other[0].count, 1);
	for (unsigned i = 0; i < OTHERS; i++) {
		uint8_t *expected = long_message(lab.answer[i].bytes, VB_MAD_GET | VB_MAD_RESPONSE, length, (uint8_t)i);

		assert_int_equal(other[i].length, length);
		assert_memory_equal(other[i].bytes + 56, expected + 56, length - 56);
		free(expected);
	}
	assert_int_equal(vb_agents_deadline(&lab.agents), VB_TIME_NEVER);
}

/* GetMulti: question and answer have many segments. The last acknowledgement of the question is lost or not. */
static void long_both_ways(void **state)
{
	struct vb_mad mad = request_of(VB_MAD_SA, 2, 7);
	size_t asked = 56 + 15 * 200, answered = 56 + 30000;

	(void)state;
	register_other(0, 0);
	register_other(1, 1u << GET_MULTI);
	for (unsigned lost = 0; lost < 2; lost++) {
		uint64_t sent = other[0].node->port[1].counters.transmit_packets;
		uint8_t *question, *answer;

		mad.transaction = be64_of(7 + lost);
		question = long_message(&mad, GET_MULTI, asked, 1);
		other[1].cuts = lost;
		other[0].count = other[1].count = 0;
		assert_int_equal(send_from_other(0, 0, lid_of(1), question, asked, VB_SECONDS(9)), 0);
		assert_int_equal(other[1].count, 1);
		assert_int_equal(other[1].length, asked);
		assert_memory_equal(other[1].bytes + 56, question + 56, asked - 56);
		/* Its segments; and the direction changes with an acknowledgement of the last one. */
		assert_int_equal(other[0].node->port[1].counters.transmit_packets - sent, lost ? 15 : 16);
		mend(1);
		answer = long_message(other[1].bytes, GET_MULTI | VB_MAD_RESPONSE, answered, 2);
		assert_int_equal(send_from_other(1, 0, lid_of(0), answer, answered, 0), 0);
		assert_int_equal(other[0].count, 1);
		assert_int_equal(other[0].length, answered);
		assert_memory_equal(other[0].bytes + 56, answer + 56, answered - 56);
		/* Who has the answer does not go on asking. */
		sent = other[0].node->port[1].counters.transmit_packets;
		lab.now += VB_SECONDS(4);
		vb_agents_expire(&other[0].agents, lab.now);
		vb_agents_expire(&other[1].agents, lab.now);
		assert_int_equal(other[0].node->port[1].counters.transmit_packets, sent);
		assert_int_equal(other[1].count, 1);
		free(question);
		free(answer);
	}
	vb_agents_expire(&other[0].agents, lab.now + VB_SECONDS(60));
	assert_int_equal(vb_agents_deadline(&other[0].agents), VB_TIME_NEVER);
}

/* A question that takes longer than its answer may: the time for the answer begins when the question has ended. */
static void a_long_question_takes_its_time(void **state)
{
	struct vb_mad mad = request_of(VB_MAD_SA, 2, 7);
	uint8_t *question = long_message(&mad, GET_MULTI, 56 + 3000, 1);

	(void)state;
	register_other(0, 0);
	register_other(1, 1u << GET_MULTI);
	vb_fabric_cut(&other[1].node->port[1], true, lab.now);
	assert_int_equal(send_from_other(0, 0, lid_of(1), question, 56 + 3000, VB_SECONDS(3)), 0);
	mend(1);
	/* The first segment again, after two seconds. */
	lab.now = vb_agents_deadline(&other[0].agents);
	vb_agents_expire(&other[0].agents, lab.now);
	assert_int_equal(other[1].count, 1);
	assert_int_equal(vb_agents_deadline(&other[0].agents), lab.now + VB_SECONDS(3));
	free(question);
}

/* LMC: who is asked at his second LID answers from there, at once or in segments, and who asks may choose his. */
static void several_lids(void **state)
{
	int server = lab_register(&lab, VB_MAD_SA, 2, 1, 1u << VB_MAD_GET);
	uint16_t second = (uint16_t)(lid_of(0) + 1);
	struct vb_mad mad = {0};
	struct vb_mad_address back;
	unsigned first;
	uint8_t *answer;

	(void)state;
	for (uint16_t lid = lid_of(0); lid <= second; lid++) {
		assert_true(lab_ask_lid(&lab, lid, VB_MAD_PERFORMANCE, VB_MAD_GET, 0x0001, 0, &mad));
		assert_int_equal(lab.answer[0].address.route.slid, lid);
	}
	register_other(0, 0);
	mad = request_of(VB_MAD_SA, 2, 5);
	first = lab.answers;
	assert_int_equal(send_from_other(0, second, 9, &mad, sizeof(mad), VB_SECONDS(1)), 0);
	assert_int_equal(lab.answers, first + 1);
	assert_int_equal(lab.answer[first].address.route.slid, second);
	back = (struct vb_mad_address){.route = {.dlid = second}, .qpn = 1, .qkey = VB_GSI_QKEY, .pkey = 0xffff};
	answer = long_message(lab.answer[first].bytes, VB_MAD_GET | VB_MAD_RESPONSE, 56 + 5000, 1);
	assert_int_equal(send_from(server, &back, answer, 56 + 5000, 0, 0), 0);
	assert_int_equal(other[0].count, 1);
	assert_int_equal(other[0].from.route.dlid, second);
	assert_int_equal(vb_agents_deadline(&lab.agents), VB_TIME_NEVER);
	/* A LID that is not its own is not used. */
	mad.transaction = be64_of(6);
	assert_int_equal(send_from_other(0, (uint16_t)(second + 1), 9, &mad, sizeof(mad), VB_SECONDS(1)), 0);
	assert_int_equal(lab.answer[first + 1].address.route.slid, lid_of(0));
	free(answer);
}

/* QP1 takes what any entry of its port's table goes with (IBA 9.6.1.1.3), counts what none does, and answers by its own entry. */
static void partitions(void **state)
{
	static const struct {
		uint16_t asker, asked;             /* P_Keys */
		bool is_taken;
	} cases[] = {
		{0xffff, 0xffff, true}, {0x8021, 0x0021, true}, {0x0021, 0x8021, true}, {0x0021, 0x0021, false},
		{0x8022, 0x8021, false}, {0x8000, 0x8000, false}, {0, 0, false},
	};
	int id = lab_register(&lab, VB_MAD_PERFORMANCE, 1, 0, 0);
	struct vb_fabric_port *port = &other[0].node->port[1];

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vb_mad_address address = {.route = {.dlid = lid_of(0)}, .qpn = 1, .qkey = VB_GSI_QKEY, .pkey = cases[i].asker};
		struct vb_mad mad = request_of(VB_MAD_PERFORMANCE, 1, 1 + i);
		unsigned answers = lab.answers, violations = be16_get(port->info.pkey_violations);

		mad.attribute = be16_of(0x0001);
		lab.manager->port[1].pkeys[0] = be16_of(cases[i].asker);
		port->pkeys[0] = be16_of(0x8099);
		port->pkeys[5] = be16_of(cases[i].asked);
		assert_int_equal(send_from(id, &address, &mad, sizeof(mad), VB_SECONDS(1), 0), 0);
		assert_int_equal(lab.answers, answers + cases[i].is_taken);
		assert_int_equal(be16_get(port->info.pkey_violations), violations + !cases[i].is_taken);
		if (cases[i].is_taken)
			assert_int_equal(lab.answer[answers].address.pkey, cases[i].asked);
		/* It counts as far as it can. */
		port->info.pkey_violations = be16_of(0xffff);
		mad.transaction = be64_of(100 + i);
		assert_int_equal(send_from(id, &address, &mad, sizeof(mad), VB_SECONDS(1), 0), 0);
		assert_int_equal(be16_get(port->info.pkey_violations), 0xffff);
		port->info.pkey_violations = be16_of(0);
	}
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
		cmocka_unit_test_setup_teardown(two_that_ask_the_same, begin, end),
		cmocka_unit_test_setup_teardown(long_both_ways, begin, end),
		cmocka_unit_test_setup_teardown(a_long_question_takes_its_time, begin, end),
		cmocka_unit_test_setup_teardown(several_lids, begin, end),
		cmocka_unit_test_setup_teardown(partitions, begin, end),
		cmocka_unit_test_setup_teardown(an_owner_that_goes, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
