/* SPDX-License-Identifier: MIT
 *
 * Each attribute: Get, Set, a wrong modifier, and whether it is another kind of node's. Port states.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lab.h"

static const char topology[] =
	"vendid=0x2c9\ndevid=0x1234\nsysimgguid=0x1111\nswitchguid=0xabc(abc)\n"
	"Switch 8 \"S1\" # \"the switch\"\n[1] \"SM\"[1]\n[2] \"H2\"[1]\n"
	"Ca 1 \"SM\"\nCa 2 \"H2\" # \"second host\"\n";

static struct lab lab;
static struct vb_fabric_node *the_switch, *host;
static const uint8_t to_switch[] = {1}, to_host[] = {1, 2};

static int begin(void **state)
{
	(void)state;
	lab_begin(&lab, topology);
	the_switch = vb_fabric_find(&lab.fabric, "S1");
	host = vb_fabric_find(&lab.fabric, "H2");
	return 0;
}

static int end(void **state)
{
	(void)state;
	lab_end(&lab);
	return 0;
}

static uint8_t *data_of(struct vb_mad *mad)
{
	return (uint8_t *)mad + VB_SMP_DATA;
}

static struct vb_port_info *port_info_of(struct vb_mad *mad)
{
	return (struct vb_port_info *)(void *)data_of(mad);
}

/* Typed from the specification: id, and what a node answers to Get, to Set of what Get told, and to a modifier that is none. */
static void every_attribute(void **state)
{
	enum { OK = 0, NO = 0x0c, BAD = 0x1c };
	static const struct {
		uint16_t id;
		uint32_t good, bad;
		int get_switch, set_switch, bad_switch, get_host, set_host, bad_host;
	} rows[] = {
		{0x0010, 0, 7, OK, NO, OK, OK, NO, OK},
		{0x0011, 0, 7, OK, NO, OK, OK, NO, OK},
		{0x0012, 0, 7, OK, OK, OK, NO, NO, NO},
		{0x0014, 0, 1, OK, OK, BAD, OK, OK, BAD},
		/* Neither the state INIT nor the physical state LinkUp can be asked for. */
		{0x0015, 1, 9, OK, BAD, BAD, OK, BAD, BAD},
		{0x0015, 0x80000001, 0x100, OK, BAD, BAD, OK, BAD, BAD},
		{0x0016, 0, 1, OK, OK, BAD, OK, OK, BAD},
		{0x0016, 0x20000, 0x90000, OK, OK, BAD, OK, OK, OK},
		{0x0017, 0x0102, 0x0901, OK, OK, BAD, OK, OK, OK},
		{0x0018, 0x10001, 0x50001, OK, OK, BAD, OK, OK, BAD},
		{0x0018, 0x30002, 0x10009, OK, OK, BAD, OK, OK, OK},
		{0x0019, 767, 768, OK, OK, BAD, NO, NO, NO},
		{0x001b, 31, 32, OK, OK, BAD, NO, NO, NO},
		{0x001b, 0, 0x10000000, OK, OK, BAD, NO, NO, NO},
		{0x0099, 0, 0, NO, NO, NO, NO, NO, NO},
		{0xff90, 0, 0, NO, NO, NO, NO, NO, NO},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vb_mad mad = {0};

		assert_true(lab_ask(&lab, to_switch, 1, VB_MAD_GET, rows[i].id, rows[i].good, &mad));
		assert_int_equal(mad.method, VB_MAD_GET_RESPONSE);
		assert_int_equal(lab_status(&mad), rows[i].get_switch);
		assert_true(lab_ask(&lab, to_switch, 1, VB_MAD_SET, rows[i].id, rows[i].good, &mad));
		assert_int_equal(lab_status(&mad), rows[i].set_switch);
		assert_true(lab_ask(&lab, to_switch, 1, VB_MAD_GET, rows[i].id, rows[i].bad, &mad));
		assert_int_equal(lab_status(&mad), rows[i].bad_switch);
		assert_true(lab_ask(&lab, to_host, 2, VB_MAD_GET, rows[i].id, rows[i].good, &mad));
		assert_int_equal(lab_status(&mad), rows[i].get_host);
		assert_true(lab_ask(&lab, to_host, 2, VB_MAD_SET, rows[i].id, rows[i].good, &mad));
		assert_int_equal(lab_status(&mad), rows[i].set_host);
		assert_true(lab_ask(&lab, to_host, 2, VB_MAD_GET, rows[i].id, rows[i].bad, &mad));
		assert_int_equal(lab_status(&mad), rows[i].bad_host);
	}
}

static void who_a_node_is(void **state)
{
	struct vb_mad mad = {0};
	struct vb_node_info *info = (struct vb_node_info *)(void *)data_of(&mad);

	(void)state;
	assert_true(lab_ask(&lab, to_switch, 1, VB_MAD_GET, 0x0011, 0, &mad));
	assert_int_equal(info->node_type, 2);
	assert_int_equal(info->ports, 8);
	assert_int_equal(be64_get(info->node_guid), 0xabc);
	assert_int_equal(be64_get(info->port_guid), 0xabc);
	assert_int_equal(be64_get(info->system_guid), 0x1111);
	assert_int_equal(be24_get(info->vendor_id), 0x2c9);
	assert_int_equal(be16_get(info->device_id), 0x1234);
	assert_int_equal(info->local_port, 1);
	assert_int_equal(be16_get(info->partition_cap), 32);
	assert_true(lab_ask(&lab, to_host, 2, VB_MAD_GET, 0x0010, 0, &mad));
	assert_string_equal((char *)data_of(&mad), "second host");
}

/* What is written is read again, and nothing else of it has changed. */
static void tables_keep_what_is_set(void **state)
{
	static const struct { uint16_t id; uint32_t modifier; size_t length; } rows[] = {
		{0x0016, 0x10000, 64}, {0x0017, 0x0201, 8}, {0x0018, 0x10002, 64}, {0x0019, 3, 64}, {0x001b, 5, 64},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vb_mad mad = {0};

		memset(data_of(&mad), (int)(0x11 + i), rows[i].length);
		assert_true(lab_ask(&lab, to_switch, 1, VB_MAD_SET, rows[i].id, rows[i].modifier, &mad));
		memset(data_of(&mad), 0, 64);
		assert_true(lab_ask(&lab, to_switch, 1, VB_MAD_GET, rows[i].id, rows[i].modifier, &mad));
		for (size_t j = 0; j < 64; j++)
			assert_int_equal(data_of(&mad)[j], j < rows[i].length ? (int)(0x11 + i) : 0);
	}
}

static uint16_t set_state(const uint8_t *path, uint8_t hops, uint32_t port, unsigned wanted, unsigned *found)
{
	struct vb_mad mad = {0};
	struct vb_port_info *info = port_info_of(&mad);
	uint16_t status;

	assert_true(lab_ask(&lab, path, hops, VB_MAD_GET, 0x0015, port, &mad));
	info->speed_state = (uint8_t)((info->speed_state & 0xf0) | wanted);
	info->physical_default &= 0x0f;
	assert_true(lab_ask(&lab, path, hops, VB_MAD_SET, 0x0015, port, &mad));
	status = lab_status(&mad);
	assert_true(lab_ask(&lab, path, hops, VB_MAD_GET, 0x0015, port, &mad));
	*found = info->speed_state & 0x0f;
	return status;
}

static void states_of_a_port(void **state)
{
	unsigned found;

	(void)state;
	/* INIT: neither ACTIVE nor INIT can be asked for. */
	assert_int_equal(set_state(to_switch, 1, 2, VB_PORT_ACTIVE, &found), 0x1c);
	assert_int_equal(found, VB_PORT_INIT);
	assert_int_equal(set_state(to_switch, 1, 2, VB_PORT_INIT, &found), 0x1c);
	assert_int_equal(set_state(to_switch, 1, 2, 5, &found), 0x1c);
	assert_int_equal(set_state(to_switch, 1, 2, VB_PORT_ARMED, &found), 0);
	assert_int_equal(found, VB_PORT_ARMED);
	assert_int_equal(set_state(to_host, 2, 1, VB_PORT_ARMED, &found), 0);
	assert_int_equal(set_state(to_switch, 1, 2, VB_PORT_ACTIVE, &found), 0);
	assert_int_equal(found, VB_PORT_ACTIVE);
	assert_int_equal(set_state(to_switch, 1, 2, VB_PORT_ARMED, &found), 0x1c);
	assert_int_equal(found, VB_PORT_ACTIVE);
	assert_int_equal(set_state(to_switch, 1, 2, VB_PORT_NO_CHANGE, &found), 0);
	assert_int_equal(found, VB_PORT_ACTIVE);
	/* DOWN: both ends begin again. */
	the_switch->switch_info.life_state &= (uint8_t)~VB_SWITCH_STATE_CHANGE;
	assert_int_equal(set_state(to_switch, 1, 2, VB_PORT_DOWN, &found), 0);
	assert_int_equal(found, VB_PORT_INIT);
	assert_int_equal(vb_fabric_port_state(&host->port[1]), VB_PORT_INIT);
	assert_true(the_switch->switch_info.life_state & VB_SWITCH_STATE_CHANGE);
	/* A port without cable stays down. */
	assert_int_equal(set_state(to_switch, 1, 5, VB_PORT_ARMED, &found), 0x1c);
	assert_int_equal(found, VB_PORT_DOWN);
}

static void a_bad_set_changes_nothing(void **state)
{
	struct vb_mad mad = {0}, before;
	struct vb_port_info *info = port_info_of(&mad);

	(void)state;
	assert_true(lab_ask(&lab, to_host, 2, VB_MAD_GET, 0x0015, 1, &mad));
	before = mad;
	info->lid = be16_of(7);
	info->sm_lid = be16_of(1);
	info->mtu_sm_sl = 0x60; /* no such MTU */
	assert_true(lab_ask(&lab, to_host, 2, VB_MAD_SET, 0x0015, 1, &mad));
	assert_int_equal(lab_status(&mad), 0x1c);
	assert_memory_equal(data_of(&mad), data_of(&before), 64);
	info->lid = be16_of(0xc000); /* a multicast LID */
	assert_true(lab_ask(&lab, to_host, 2, VB_MAD_SET, 0x0015, 1, &mad));
	assert_int_equal(lab_status(&mad), 0x1c);
	assert_memory_equal(data_of(&mad), data_of(&before), 64);
	info->physical_default &= 0x0f;
	info->speed_state &= 0xf0;
	info->lid = be16_of(7);
	assert_true(lab_ask(&lab, to_host, 2, VB_MAD_SET, 0x0015, 1, &mad));
	assert_int_equal(lab_status(&mad), 0);
	assert_int_equal(vb_fabric_port_lid(&host->port[1]), 7);
}

static void the_key_protects(void **state)
{
	struct vb_mad mad = {0};
	struct vb_smp *smp = (struct vb_smp *)(void *)&mad;
	struct vb_port_info *info = &host->port[1].info;

	(void)state;
	info->m_key = be64_of(0x4711);
	assert_true(lab_ask(&lab, to_host, 2, VB_MAD_GET, 0x0011, 0, &mad));
	assert_false(lab_ask(&lab, to_host, 2, VB_MAD_SET, 0x0014, 0, &mad));
	assert_int_equal(be16_get(info->m_key_violations), 1);
	smp->m_key = be64_of(0x4711);
	assert_true(lab_ask(&lab, to_host, 2, VB_MAD_SET, 0x0014, 0, &mad));
	info->protect_lmc = 2 << 6;
	smp->m_key = be64_of(0);
	assert_false(lab_ask(&lab, to_host, 2, VB_MAD_GET, 0x0011, 0, &mad));
}

static void change_is_told_and_cleared(void **state)
{
	struct vb_mad mad = {0};
	struct vb_switch_info *info = (struct vb_switch_info *)(void *)data_of(&mad);

	(void)state;
	assert_true(lab_ask(&lab, to_switch, 1, VB_MAD_GET, 0x0012, 0, &mad));
	assert_true(info->life_state & VB_SWITCH_STATE_CHANGE);
	assert_true(lab_ask(&lab, to_switch, 1, VB_MAD_SET, 0x0012, 0, &mad));
	assert_false(info->life_state & VB_SWITCH_STATE_CHANGE);
	vb_fabric_cut(&the_switch->port[2], true, lab.now);
	assert_int_equal(vb_fabric_port_state(&host->port[1]), VB_PORT_DOWN);
	assert_true(lab_ask(&lab, to_switch, 1, VB_MAD_GET, 0x0012, 0, &mad));
	assert_true(info->life_state & VB_SWITCH_STATE_CHANGE);
	vb_fabric_cut(&host->port[1], false, lab.now);
	assert_int_equal(vb_fabric_port_state(&the_switch->port[2]), VB_PORT_INIT);
	/* Disabled by its manager, and enabled again. */
	assert_true(lab_ask(&lab, to_switch, 1, VB_MAD_GET, 0x0015, 2, &mad));
	port_info_of(&mad)->physical_default = VB_PHYSICAL_DISABLED << 4;
	port_info_of(&mad)->speed_state &= 0xf0;
	assert_true(lab_ask(&lab, to_switch, 1, VB_MAD_SET, 0x0015, 2, &mad));
	assert_int_equal(lab_status(&mad), 0);
	assert_int_equal(vb_fabric_port_state(&host->port[1]), VB_PORT_DOWN);
	port_info_of(&mad)->physical_default = VB_PHYSICAL_POLLING << 4;
	port_info_of(&mad)->speed_state &= 0xf0;
	assert_true(lab_ask(&lab, to_switch, 1, VB_MAD_SET, 0x0015, 2, &mad));
	assert_int_equal(vb_fabric_port_state(&host->port[1]), VB_PORT_INIT);
}

static unsigned traps_seen(uint16_t number)
{
	unsigned count = 0;

	for (unsigned i = 0; i < lab.answers; i++) {
		const struct vb_mad *mad = (const void *)lab.answer[i].bytes;
		const struct vb_notice *notice = (const void *)(lab.answer[i].bytes + VB_SMP_DATA);

		count += mad->method == VB_MAD_TRAP && be16_get(notice->trap) == number;
	}
	return count;
}

/* A switch that lost a link says so until it is told to stop. */
static void traps_are_repeated_until_repressed(void **state)
{
	struct vb_mad mad;
	struct vb_mad_address address = {.route = {.dlid = 2}, .pkey = 0xffff};
	int id = lab_register(&lab, VB_MAD_SMP_LID, 1, 0, 1u << VB_MAD_TRAP);

	(void)state;
	lab_set_lid(lab.manager, 1);
	lab_set_lid(the_switch, 2);
	the_switch->port[0].info.sm_lid = be16_of(1);
	the_switch->linear[1] = 1;
	the_switch->switch_info.linear_top = be16_of(2);
	vb_fabric_cut(&the_switch->port[2], true, lab.now);
	assert_int_equal(vb_fabric_deadline(&lab.fabric), lab.now); /* the first is not waited for */
	for (unsigned i = 0; i < 3; i++) {
		lab.now = vb_fabric_deadline(&lab.fabric);
		assert_true(lab.now < VB_SECONDS(10));
		vb_fabric_expire(&lab.fabric, lab.now);
	}
	assert_int_equal(traps_seen(VB_TRAP_LINK_STATE), 3);
	memcpy(&mad, lab.answer[0].bytes, sizeof(mad));
	vb_mad_make_response(&mad, 0);
	assert_int_equal(mad.method, VB_MAD_TRAP_REPRESS);
	assert_int_equal(vb_agents_send(&lab.agents, lab.now, &lab.owner, (uint32_t)id, &address, &mad, sizeof(mad), 0, 0), 0);
	assert_int_equal(vb_fabric_deadline(&lab.fabric), VB_TIME_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_attribute, begin, end),
		cmocka_unit_test_setup_teardown(who_a_node_is, begin, end),
		cmocka_unit_test_setup_teardown(tables_keep_what_is_set, begin, end),
		cmocka_unit_test_setup_teardown(states_of_a_port, begin, end),
		cmocka_unit_test_setup_teardown(a_bad_set_changes_nothing, begin, end),
		cmocka_unit_test_setup_teardown(the_key_protects, begin, end),
		cmocka_unit_test_setup_teardown(change_is_told_and_cleared, begin, end),
		cmocka_unit_test_setup_teardown(traps_are_repeated_until_repressed, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
