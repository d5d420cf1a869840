/* SPDX-License-Identifier: MIT
 *
 * What verbenad asks the subnet administration, and what it makes of answers that are late, double, of something else or lies.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/subnet_world.h"
#include "wire/mad_attributes.h"

static struct subnet_world world;
static int owner;

static const uint8_t peer[16] = {0xfe, 0x80, [15] = 0x77};
static const uint8_t group[16] = {0xff, 0x12, 0x40, 0x01, 0xff, 0xff, [15] = 0x77};
static const uint8_t address[16] = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 2};

static int begin(void **state)
{
	(void)state;
	subnet_world_begin(&world);
	subnet_world_run(&world, world.now + VB_MILLISECONDS(1));
	return 0;
}

static int end(void **state)
{
	(void)state;
	subnet_world_end(&world);
	return 0;
}

static int ask(enum vb_subnet_question question)
{
	struct vb_subnet_request request = {
		.question = question, .owner = &owner, .id = 9, .patience = VB_SECONDS(2), .pkey = 0x8011, .qkey = 0x1b2, .cookie = 4};
	int error;

	memcpy(request.to, question == VB_SUBNET_PATH ? peer : question == VB_SUBNET_GROUP ? group : address, 16);
	world.answers = 0;
	error = vb_subnet_client_ask(&world.client, world.now, &request);
	subnet_world_run(&world, world.now + VB_MILLISECONDS(1));
	return error;
}

/* What a subnet administration that knows would say to the last request. */
static struct vb_sa_mad truth(enum vb_subnet_question question)
{
	static const enum vb_sa_attribute attributes[] = {VB_SA_SERVICE_RECORD, VB_SA_PATH_RECORD, VB_SA_MEMBER_RECORD};
	const struct vb_sa_mad *sent = subnet_world_sent(&world, attributes[question]);
	struct vb_service_record service = {0};
	struct vb_member_record member = {.mlid = be16_of(0xc003), .qkey = be32_of(0x1b2)};
	struct vb_path_record path = {.dlid = be16_of(12), .slid = be16_of(3), .mtu = 0x84, .lifetime = 0x92};
	struct vb_sa_mad mad;

	assert_non_null(sent);
	mad = *sent;
	mad.header.method = VB_MAD_GET_RESPONSE;
	memcpy(service.gid, peer, 16);
	memcpy(member.mgid, group, 16);
	memcpy(path.dgid, peer, 16);
	memset(mad.data, 0, sizeof(mad.data));
	if (question == VB_SUBNET_PATH)
		memcpy(mad.data, &path, sizeof(path));
	else if (question == VB_SUBNET_GROUP)
		memcpy(mad.data, &member, sizeof(member));
	else
		memcpy(mad.data, &service, sizeof(service));
	return mad;
}

static void expect(const struct vb_sa_mad *mad, int error)
{
	subnet_world_receive(&world, mad);
	assert_int_equal(world.answers, 1);
	assert_ptr_equal(world.answer.owner, &owner);
	assert_int_equal(world.answer.id, 9);
	assert_int_equal(world.answer.error, error);
}

static void the_truth(void **state)
{
	struct vb_path_record asked;
	struct vb_sa_mad mad;

	(void)state;
	assert_int_equal(ask(VB_SUBNET_PATH), 0);
	memcpy(&asked, subnet_world_sent(&world, VB_SA_PATH_RECORD)->data, sizeof(asked));
	assert_int_equal(be16_get(asked.pkey), 0x8011);
	mad = truth(VB_SUBNET_PATH);
	expect(&mad, 0);
	assert_int_equal(world.answer.path.dlid, 12);
	assert_int_equal(world.answer.path.pkey, 0x8011);
	assert_int_equal(world.answer.mtu, 4);
	assert_int_equal(world.answer.lifetime, 18);
	assert_int_equal(ask(VB_SUBNET_ADDRESS), 0);
	mad = truth(VB_SUBNET_ADDRESS);
	expect(&mad, 0);
	assert_memory_equal(world.answer.path.destination, peer, 16);
	assert_int_equal(ask(VB_SUBNET_GROUP), 0);
	mad = truth(VB_SUBNET_GROUP);
	expect(&mad, 0);
	assert_int_equal(world.answer.path.dlid, 0xc003);
	assert_int_equal(world.answer.cookie, 4);
}

/* An answer of another transaction finds no question; a second one finds it answered; none at all is told after the patience. */
static void answers_of_nothing(void **state)
{
	struct vb_sa_mad mad;

	(void)state;
	for (enum vb_subnet_question question = VB_SUBNET_ADDRESS; question <= VB_SUBNET_GROUP; question++) {
		assert_int_equal(ask(question), 0);
		mad = truth(question);
		mad.header.transaction = be64_of(be64_get(mad.header.transaction) + 1);
		subnet_world_receive(&world, &mad);
		mad.header.transaction = be64_of(be64_get(mad.header.transaction) - 1 + (1ull << 32));
		subnet_world_receive(&world, &mad);
		assert_int_equal(world.answers, 0);
		mad = truth(question);
		expect(&mad, 0);
		subnet_world_receive(&world, &mad);
		assert_int_equal(world.answers, 1);
		assert_int_equal(ask(question), 0);
		subnet_world_run(&world, world.now + VB_SECONDS(1));
		assert_int_equal(world.answers, 0);
		subnet_world_run(&world, world.now + VB_SECONDS(3));
		assert_int_equal(world.answers, 1);
		assert_int_equal(world.answer.error, -ETIMEDOUT);
	}
}

static void lie(enum vb_subnet_question question, size_t at, const void *bytes, size_t length, int error)
{
	struct vb_sa_mad mad;

	assert_int_equal(ask(question), 0);
	mad = truth(question);
	memcpy((uint8_t *)&mad + at, bytes, length);
	expect(&mad, error);
}

static void lies(void **state)
{
	static const uint8_t nothing[16], everything[16] = {0xff, 0xff, 0xff, 0xff};
	static const int refused[] = {-EADDRNOTAVAIL, -EHOSTUNREACH, -EADDRNOTAVAIL};
	const size_t data = offsetof(struct vb_sa_mad, data), rmpp = offsetof(struct vb_sa_mad, rmpp);

	(void)state;
	for (enum vb_subnet_question question = VB_SUBNET_ADDRESS; question <= VB_SUBNET_GROUP; question++) {
		/* Another attribute, another method, a status. */
		lie(question, offsetof(struct vb_sa_mad, header.attribute), (uint8_t[]){0, 0x11}, 2, -EPROTO);
		lie(question, offsetof(struct vb_sa_mad, header.method), (uint8_t[]){VB_SA_DELETE | VB_MAD_RESPONSE}, 1, -EPROTO);
		lie(question, offsetof(struct vb_sa_mad, header.status), (uint8_t[]){3, 0}, 2, refused[question]);
		/* It says that it is the first of many segments, and how long they are: nothing of that was asked for. */
		lie(question, rmpp, (uint8_t[]){1, 1, 0x03, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff}, 12, 0);
	}
	lie(VB_SUBNET_ADDRESS, offsetof(struct vb_sa_mad, header.status), (uint8_t[]){4, 0}, 2, -ENOTUNIQ);
	lie(VB_SUBNET_ADDRESS, data + offsetof(struct vb_service_record, gid), nothing, 16, -EPROTO);
	lie(VB_SUBNET_ADDRESS, data + offsetof(struct vb_service_record, gid), everything, 16, -EPROTO);
	lie(VB_SUBNET_PATH, data + offsetof(struct vb_path_record, dgid), everything, 16, -EPROTO);
	lie(VB_SUBNET_PATH, data + offsetof(struct vb_path_record, mtu), everything, 1, -EPROTO);
	lie(VB_SUBNET_PATH, data + offsetof(struct vb_path_record, mtu), nothing, 1, -EPROTO);
	lie(VB_SUBNET_PATH, data + offsetof(struct vb_path_record, dlid), nothing, 2, -EHOSTUNREACH);
	lie(VB_SUBNET_PATH, data + offsetof(struct vb_path_record, dlid), everything, 2, -EHOSTUNREACH);
	lie(VB_SUBNET_GROUP, data + offsetof(struct vb_member_record, mlid), nothing, 2, -EPROTO);
	lie(VB_SUBNET_GROUP, data + offsetof(struct vb_member_record, mlid), everything, 2, -EPROTO);
	lie(VB_SUBNET_GROUP, data + offsetof(struct vb_member_record, mgid), nothing, 16, -EPROTO);
}

/* Whether the host registers what it has: its two addresses, its group. */
static unsigned registrations(unsigned from)
{
	unsigned count = 0;

	for (unsigned i = from; i < world.sent_count; i++)
		count += world.sent[i % SUBNET_WORLD_MADS].header.method == VB_MAD_SET;
	return count;
}

static void confirm_all(unsigned from)
{
	for (unsigned i = from; i < world.sent_count; i++) {
		struct vb_sa_mad mad = world.sent[i % SUBNET_WORLD_MADS];

		mad.header.method = VB_MAD_GET_RESPONSE;
		subnet_world_receive(&world, &mad);
	}
}

/* Client reregistration, another subnet manager, another LID, and the lease: each has all registered again, and only these. */
static void registered_again(void **state)
{
	struct vb_sa_mad mad;
	unsigned from;

	(void)state;
	assert_int_equal(registrations(0), 2);
	confirm_all(0);
	assert_int_equal(ask(VB_SUBNET_GROUP), 0);
	mad = truth(VB_SUBNET_GROUP);
	expect(&mad, 0);
	from = world.sent_count;
	subnet_world_run(&world, world.now + VB_SECONDS(20));
	assert_int_equal(registrations(from), 0);
	vb_subnet_client_register(&world.client);
	subnet_world_run(&world, world.now + VB_MILLISECONDS(1));
	assert_int_equal(registrations(from), 3);
	confirm_all(from);
	from = world.sent_count;
	subnet_world_run(&world, world.now + VB_SECONDS(39));
	assert_int_equal(registrations(from), 0);
	subnet_world_run(&world, world.now + VB_SECONDS(1));
	assert_int_equal(registrations(from), 3);
	confirm_all(from);
	/* The last member leaves: the host has left, and does not register it again. */
	from = world.sent_count;
	vb_subnet_client_leave(&world.client, world.now, &owner, 9, NULL);
	vb_subnet_client_register(&world.client);
	subnet_world_run(&world, world.now + VB_MILLISECONDS(1));
	assert_int_equal(registrations(from), 2);
	assert_int_equal(subnet_world_sent(&world, VB_SA_MEMBER_RECORD)->header.method, VB_SA_DELETE);
}

static unsigned of_members(unsigned from, uint8_t method)
{
	unsigned count = 0;

	for (unsigned i = from; i < world.sent_count; i++) {
		const struct vb_sa_mad *mad = &world.sent[i % SUBNET_WORLD_MADS];

		count += be16_get(mad->header.attribute) == VB_SA_MEMBER_RECORD && mad->header.method == method;
	}
	return count;
}

/* A group is left before the JOIN is answered, by the id or with its owner: the answer is told to none, and the host leaves. */
static void left_while_asked(void **state)
{
	struct vb_sa_mad mad;
	unsigned from;

	(void)state;
	confirm_all(0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(ask(VB_SUBNET_GROUP), 0);
		mad = truth(VB_SUBNET_GROUP);
		from = world.sent_count;
		if (i == 2)
			vb_subnet_client_owner_gone(&world.client, world.now, &owner);
		else
			vb_subnet_client_leave(&world.client, world.now, &owner, 9, i == 0 ? group : NULL);
		subnet_world_receive(&world, &mad);
		subnet_world_run(&world, world.now + VB_MILLISECONDS(1));
		assert_int_equal(world.answers, 0);
		assert_int_equal(of_members(from, VB_SA_DELETE), 1);
		mad = *subnet_world_sent(&world, VB_SA_MEMBER_RECORD);
		mad.header.method = VB_SA_DELETE | VB_MAD_RESPONSE;
		subnet_world_receive(&world, &mad);
		from = world.sent_count;
		vb_subnet_client_register(&world.client);
		subnet_world_run(&world, world.now + VB_MILLISECONDS(1));
		assert_int_equal(of_members(from, VB_MAD_SET), 0);
		confirm_all(from);
	}
	/* It joins again before the first is answered: the host stays, and so it does when another id leaves. */
	assert_int_equal(ask(VB_SUBNET_GROUP), 0);
	mad = truth(VB_SUBNET_GROUP);
	vb_subnet_client_leave(&world.client, world.now, &owner, 9, group);
	assert_int_equal(ask(VB_SUBNET_GROUP), 0);
	from = world.sent_count;
	subnet_world_receive(&world, &mad);
	assert_int_equal(world.answers, 0);
	mad = truth(VB_SUBNET_GROUP);
	expect(&mad, 0);
	subnet_world_run(&world, world.now + VB_MILLISECONDS(1));
	assert_int_equal(of_members(from, VB_SA_DELETE), 0);
	/* One that fails is told to none, either. */
	assert_int_equal(ask(VB_SUBNET_GROUP), 0);
	vb_subnet_client_leave(&world.client, world.now, &owner, 9, group);
	vb_subnet_client_node_changed(&world.client, world.now);
	assert_int_equal(world.answers, 0);
}

static int join(uint32_t id, uint32_t number)
{
	struct vb_subnet_request request = {.question = VB_SUBNET_GROUP, .owner = &owner, .id = id, .patience = VB_SECONDS(2)};
	struct vb_sa_mad mad;
	int error;

	memcpy(request.to, group, 16);
	memcpy(request.to + 12, &number, 4);
	error = vb_subnet_client_ask(&world.client, world.now, &request);
	subnet_world_run(&world, world.now + 1);
	if (error == 0) {
		mad = truth(VB_SUBNET_GROUP);
		memcpy(mad.data + offsetof(struct vb_member_record, mgid), request.to, 16);
		subnet_world_receive(&world, &mad);
		assert_int_equal(world.answer.error, 0);
	}
	return error;
}

/* An id that joins again and again is one member; the host renews a group once, however many ids are in it, whoever leaves. */
static void joined_many_times(void **state)
{
	unsigned from, many = 0;

	(void)state;
	confirm_all(0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(join(9, 0), 0);
	for (uint32_t id = 10; id < 13; id++)
		assert_int_equal(join(id, 0), 0);
	for (uint32_t id = 9; id < 13; id++) {
		from = world.sent_count;
		subnet_world_run(&world, world.now + VB_SECONDS(40));
		assert_int_equal(of_members(from, VB_MAD_SET), 1);
		confirm_all(from);
		from = world.sent_count;
		vb_subnet_client_leave(&world.client, world.now, &owner, id, NULL);
		subnet_world_run(&world, world.now + 1);
		assert_int_equal(of_members(from, VB_SA_DELETE), id == 12);
	}
	while (many < 100000 && join(9, many) == 0)
		many++;
	assert_in_range(many, 1000, 10000);
	assert_int_equal(join(9, many), -EBUSY);
	vb_subnet_client_owner_gone(&world.client, world.now, &owner);
	assert_int_equal(join(9, 0), 0);
}

/* Nobody to ask; the asker is gone; the node is; too many. */
static void ends(void **state)
{
	struct vb_sa_mad mad;
	int error = 0;
	unsigned many = 0;

	(void)state;
	assert_int_equal(ask(VB_SUBNET_PATH), 0);
	mad = truth(VB_SUBNET_PATH);
	vb_subnet_client_owner_gone(&world.client, world.now, &owner);
	subnet_world_receive(&world, &mad);
	assert_int_equal(world.answers, 0);
	assert_int_equal(ask(VB_SUBNET_PATH), 0);
	vb_subnet_client_node_changed(&world.client, world.now);
	assert_int_equal(world.answers, 1);
	assert_int_equal(world.answer.error, -ENETUNREACH);
	while (error == 0 && many < 100000) {
		struct vb_subnet_request request = {.question = VB_SUBNET_PATH, .owner = &owner, .patience = VB_SECONDS(60)};

		error = vb_subnet_client_ask(&world.client, world.now, &request);
		many += error == 0;
	}
	assert_int_equal(error, -EBUSY);
	vb_subnet_client_owner_gone(&world.client, world.now, &owner);
	world.adapter.port->info.sm_lid = be16_of(0);
	assert_int_equal(ask(VB_SUBNET_PATH), -ENETUNREACH);
}

#define in_world(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_world(the_truth), in_world(answers_of_nothing), in_world(lies), in_world(registered_again), in_world(left_while_asked),
		in_world(joined_many_times), in_world(ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
