/* SPDX-License-Identifier: MIT
 *
 * What passes for a message between process and daemon. The table is typed again here; every single-bit change of a
 * good message and random bytes must never make the check read outside or let a bad field through.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/daemon_message.h"

static const struct {
	uint32_t type;
	enum vb_daemon_sender sender;
	size_t length;
	unsigned fewest, most;
} rows[] = {
	{0x01, VB_DAEMON_FROM_PROCESS, 16 + 24, 0, 0},
	{0x02, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x03, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x04, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x05, VB_DAEMON_FROM_PROCESS, 16 + 8, 1, 5},
	{0x06, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x07, VB_DAEMON_FROM_PROCESS, 16 + 16, 0, 0},
	{0x08, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x09, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x0a, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 1},
	{0x0b, VB_DAEMON_FROM_PROCESS, 16 + 16, 2, 2},
	{0x0c, VB_DAEMON_FROM_PROCESS, 16 + 32, 0, 0},
	{0x0d, VB_DAEMON_FROM_PROCESS, 16 + 24, 0, 0},
	{0x0e, VB_DAEMON_FROM_PROCESS, 16 + 48, 0, 0},
	{0x0f, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x10, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x11, VB_DAEMON_FROM_PROCESS, 16 + 64, 0, 0},
	{0x12, VB_DAEMON_FROM_PROCESS, 16 + 16, 0, 0},
	{0x13, VB_DAEMON_FROM_PROCESS, 16 + 16, 1, 2},
	{0x14, VB_DAEMON_FROM_PROCESS, 16 + 16, 0, 0},
	{0x15, VB_DAEMON_FROM_PROCESS, 16 + 40, 0, 0},
	{0x20, VB_DAEMON_FROM_PROCESS, 16 + 152, 0, 0},
	{0x21, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x22, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x23, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x24, VB_DAEMON_FROM_PROCESS, 16 + 24, 0, 0},
	{0x25, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x26, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x27, VB_DAEMON_FROM_PROCESS, 16 + 8, 0, 0},
	{0x41, VB_DAEMON_FROM_DAEMON, 16 + 48, 0, 0},
	{0x42, VB_DAEMON_FROM_DAEMON, 16 + 256, 0, 0},
	{0x43, VB_DAEMON_FROM_DAEMON, 16 + 8, 0, 0},
	{0x44, VB_DAEMON_FROM_DAEMON, 16 + 216 + 2 * 16, 0, 0},
	{0x45, VB_DAEMON_FROM_DAEMON, 16 + 8, 0, 0},
	{0x46, VB_DAEMON_FROM_DAEMON, 16 + 8, 0, 5},
	{0x47, VB_DAEMON_FROM_DAEMON, 16 + 32 + sizeof(struct vb_counters), 0, 0},
	{0x48, VB_DAEMON_FROM_DAEMON, 16 + 72 + sizeof(struct vb_counters), 0, 0},
	{0x49, VB_DAEMON_FROM_DAEMON, 16 + 8, 0, 0},
	{0x4a, VB_DAEMON_FROM_DAEMON, 16 + 32, 0, 1},
	{0x4b, VB_DAEMON_FROM_DAEMON, 16 + 16, 0, 2},
	{0x4c, VB_DAEMON_FROM_DAEMON, 16 + 8, 1, 1},
	{0x4d, VB_DAEMON_FROM_DAEMON, 16 + 48, 0, 0},
	{0x4e, VB_DAEMON_FROM_DAEMON, 16 + 8, 1, 1},
	{0x4f, VB_DAEMON_FROM_DAEMON, 16 + sizeof(struct vb_counters) + 16 * 8, 0, 0},
	{0x50, VB_DAEMON_FROM_DAEMON, 16 + 16, 0, 2},
	{0x51, VB_DAEMON_FROM_DAEMON, 16 + 40, 0, 1},
	{0x60, VB_DAEMON_FROM_DAEMON, 16 + sizeof(struct vb_daemon_adapter), 0, 0},
	{0x61, VB_DAEMON_FROM_DAEMON, 16 + 8, 1, 1},
	{0x62, VB_DAEMON_FROM_DAEMON, 16 + 8, 0, 0},
	{0x63, VB_DAEMON_FROM_DAEMON, 16 + 8, 1, 3},
	{0x64, VB_DAEMON_FROM_DAEMON, 16 + 8, 1, 1},
};

/* A good message of that type, and how many descriptors go with it. */
static unsigned make_good(struct vb_daemon_message *m, uint32_t type)
{
	struct vb_daemon_device device = {.name = "roce_eth0", .interface = "eth0", .interface_index = 2, .guid = 1,
					  .active_mtu = 3, .active = 1, .gid_count = 2};

	static const uint8_t ipv4[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1};

	vb_daemon_message_begin(m, type, 9);
	switch (type) {
	case VB_DAEMON_HELLO:
		strcpy(m->hello.program, "test");
		break;
	case VB_DAEMON_ADOPT_SLOT:
	case VB_DAEMON_SLOT:
		m->slot.slot = 17;
		m->slot.descriptors = VB_DAEMON_FD_IPV4 | VB_DAEMON_FD_PAGE;
		return 2;
	case VB_DAEMON_OPEN_LANE:
	case VB_DAEMON_CLOSE_LANE:
		m->lane.slot = 17;
		m->lane.lane = 7;
		break;
	case VB_DAEMON_ADOPT_LANE:
	case VB_DAEMON_LANE:
		m->lane.slot = 17;
		m->lane.lane = 1;
		m->lane.descriptors = VB_DAEMON_FD_IPV6;
		return 1;
	case VB_DAEMON_OPEN_DEDICATED:
	case VB_DAEMON_DEDICATED:
		m->dedicated.lane = 7;
		m->dedicated.port = 0xc001;
		memcpy(m->dedicated.peer, ipv4, sizeof(ipv4));
		memcpy(m->dedicated.own, ipv4, sizeof(ipv4));
		break;
	case VB_DAEMON_ERROR:
		m->error.error = EADDRINUSE;
		strcpy(m->error.text, "the port is taken");
		break;
	case VB_DAEMON_DEVICE:
		vb_daemon_message_set_device(m, &device);
		break;
	case VB_DAEMON_DEVICE_GONE:
		m->device_gone.interface_index = 3;
		break;
	case VB_DAEMON_PROCESS_DEVICE:
		m->process_device.interface_index = 3;
		strcpy(m->process_device.device, "roce_eth0");
		break;
	case VB_DAEMON_ASK_COUNTERS:
		strcpy(m->ask_counters.device, "roce_eth0");
		break;
	case VB_DAEMON_RESOURCES:
	case VB_DAEMON_PROCESS_RESOURCES:
		return 1;
	case VB_DAEMON_SHOW_SEGMENT:
	case VB_DAEMON_SEGMENT:
		m->segment.id = 0x123456789abcdef0;
		m->segment.slot = 17;
		m->segment.pid = type == VB_DAEMON_SEGMENT ? 4711 : 0;
		return 2;
	case VB_DAEMON_ASK_SEGMENT:
		m->ask_segment.slot = 17;
		m->ask_segment.gid[0] = 0xfe;
		break;
	case VB_DAEMON_SET_SHAPE:
	case VB_DAEMON_SHAPE:
		m->shape.interface_index = 3;
		m->shape.shape.loss = 1000;
		break;
	case VB_DAEMON_JOIN_GROUP:
		m->join_group.interface_index = 3;
		m->join_group.gid[0] = 0xff;
		break;
	case VB_DAEMON_JOIN_FABRIC:
		m->join_fabric.port = 4792;
		strcpy(m->join_fabric.description, "host");
		break;
	case VB_DAEMON_ADAPTER:
		strcpy(m->adapter.name, "vib0");
		m->adapter.ports = m->adapter.port = 1;
		m->adapter.state = 2;
		m->adapter.mtu = 5;
		break;
	case VB_DAEMON_OPEN_FRAME_PORT:
		m->frame_port.slot = 17;
		break;
	case VB_DAEMON_GROUP:
	case VB_DAEMON_FRAMES:
	case VB_DAEMON_MAD_PORT:
	case VB_DAEMON_FRAME_PORT:
	case VB_DAEMON_MAD_TAP:
		return 1;
	}
	return 0;
}

static int check(const struct vb_daemon_message *m, size_t length, unsigned descriptors, enum vb_daemon_sender sender)
{
	/* Its own allocation, exactly as long, so that a read behind the end is found. */
	void *copy = malloc(length ? length : 1);
	int error;

	memcpy(copy, m, length);
	error = vb_daemon_message_check(copy, length, descriptors, sender);
	free(copy);
	return error;
}

static void good_messages_pass(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vb_daemon_message m;
		unsigned fds = make_good(&m, rows[i].type);

		assert_non_null(vb_daemon_message_name(rows[i].type));
		assert_int_equal(m.header.length, rows[i].length);
		assert_int_equal(check(&m, rows[i].length, fds, rows[i].sender), 0);
		/* Not from the other side, not longer, not shorter, not with more descriptors. */
		assert_int_equal(check(&m, rows[i].length, fds, !rows[i].sender), -EPROTO);
		assert_int_equal(check(&m, rows[i].length - 1, fds, rows[i].sender), -EPROTO);
		assert_int_equal(check(&m, rows[i].length, rows[i].most + 1, rows[i].sender), -EPROTO);
		for (size_t cut = 0; cut < rows[i].length; cut++)
			assert_int_equal(check(&m, cut, fds, rows[i].sender), -EPROTO);
		m.header.length++;
		assert_int_equal(check(&m, rows[i].length + 1, fds, rows[i].sender), -EPROTO);
	}
}

static void unknown_types_do_not(void **state)
{
	(void)state;
	for (uint32_t type = 0; type < 0x200; type++) {
		struct vb_daemon_message m;
		bool known = false;

		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			known = known || rows[i].type == type;
		if (known)
			continue;
		vb_daemon_message_begin(&m, VB_DAEMON_OPEN_SLOT, 1);
		m.header.type = type;
		assert_null(vb_daemon_message_name(type));
		assert_int_equal(check(&m, m.header.length, 0, VB_DAEMON_FROM_PROCESS), -EPROTO);
		assert_int_equal(check(&m, m.header.length, 0, VB_DAEMON_FROM_DAEMON), -EPROTO);
	}
}

static void another_version_is_told_apart(void **state)
{
	struct vb_daemon_message m;

	(void)state;
	vb_daemon_message_begin(&m, VB_DAEMON_OPEN_SLOT, 1);
	m.header.magic++;
	assert_int_equal(check(&m, m.header.length, 0, VB_DAEMON_FROM_PROCESS), -EPROTONOSUPPORT);
	m.header.magic = 0;
	assert_int_equal(check(&m, m.header.length, 0, VB_DAEMON_FROM_PROCESS), -EPROTO);
}

#define REFUSED(type, sender, change)                                                                \
	do {                                                                                         \
		struct vb_daemon_message m;                                                          \
		unsigned fds = make_good(&m, type);                                                  \
		change;                                                                              \
		assert_int_equal(check(&m, m.header.length, fds, sender), -EPROTO);                  \
	} while (0)

static void bad_fields_do_not(void **state)
{
	(void)state;
	REFUSED(VB_DAEMON_OPEN_SLOT, VB_DAEMON_FROM_PROCESS, m.header.sequence = 0);
	REFUSED(VB_DAEMON_OPEN_SLOT, VB_DAEMON_FROM_PROCESS, m.open_slot.port = VB_DAEMON_PORT_WISHES);
	REFUSED(VB_DAEMON_OPEN_SLOT, VB_DAEMON_FROM_PROCESS, m.open_slot.reserved = 1);
	REFUSED(VB_DAEMON_HELLO, VB_DAEMON_FROM_PROCESS, memset(m.hello.program, 'a', 16));
	REFUSED(VB_DAEMON_HELLO, VB_DAEMON_FROM_PROCESS, m.hello.program[1] = '\033');
	REFUSED(VB_DAEMON_HELLO, VB_DAEMON_FROM_PROCESS, m.hello.program[15] = 'x'; m.hello.program[14] = 'y');
	REFUSED(VB_DAEMON_ADOPT_SLOT, VB_DAEMON_FROM_PROCESS, m.slot.slot = 0);
	REFUSED(VB_DAEMON_ADOPT_SLOT, VB_DAEMON_FROM_PROCESS, m.slot.slot = 1024);
	REFUSED(VB_DAEMON_ADOPT_SLOT, VB_DAEMON_FROM_PROCESS, m.slot.descriptors = VB_DAEMON_FD_IPV4);
	REFUSED(VB_DAEMON_ADOPT_SLOT, VB_DAEMON_FROM_PROCESS,
		m.slot.descriptors = VB_DAEMON_FD_PAGE | VB_DAEMON_FD_DAEMON_IPV4);
	REFUSED(VB_DAEMON_ADOPT_SLOT, VB_DAEMON_FROM_PROCESS, m.slot.descriptors = VB_DAEMON_FD_IPV4 | 64);
	REFUSED(VB_DAEMON_SLOT, VB_DAEMON_FROM_DAEMON, m.slot.slot = 1024);
	REFUSED(VB_DAEMON_OPEN_LANE, VB_DAEMON_FROM_PROCESS, m.lane.slot = 0);
	REFUSED(VB_DAEMON_OPEN_LANE, VB_DAEMON_FROM_PROCESS, m.lane.slot = 1024);
	REFUSED(VB_DAEMON_OPEN_LANE, VB_DAEMON_FROM_PROCESS, m.lane.lane = 0);
	REFUSED(VB_DAEMON_OPEN_LANE, VB_DAEMON_FROM_PROCESS, m.lane.lane = 8);
	REFUSED(VB_DAEMON_OPEN_LANE, VB_DAEMON_FROM_PROCESS, m.lane.descriptors = VB_DAEMON_FD_IPV4);
	REFUSED(VB_DAEMON_OPEN_LANE, VB_DAEMON_FROM_PROCESS, m.lane.reserved = 1);
	REFUSED(VB_DAEMON_CLOSE_LANE, VB_DAEMON_FROM_PROCESS, m.lane.lane = 0);
	REFUSED(VB_DAEMON_ADOPT_LANE, VB_DAEMON_FROM_PROCESS, m.lane.lane = 8);
	REFUSED(VB_DAEMON_ADOPT_LANE, VB_DAEMON_FROM_PROCESS, m.lane.descriptors = 0);
	REFUSED(VB_DAEMON_ADOPT_LANE, VB_DAEMON_FROM_PROCESS, m.lane.descriptors = VB_DAEMON_FD_IPV4 | VB_DAEMON_FD_IPV6);
	REFUSED(VB_DAEMON_ADOPT_LANE, VB_DAEMON_FROM_PROCESS, m.lane.descriptors = VB_DAEMON_FD_PAGE);
	REFUSED(VB_DAEMON_LANE, VB_DAEMON_FROM_DAEMON, m.lane.slot = 1024);
	REFUSED(VB_DAEMON_OPEN_DEDICATED, VB_DAEMON_FROM_PROCESS, m.dedicated.lane = 8);
	REFUSED(VB_DAEMON_OPEN_DEDICATED, VB_DAEMON_FROM_PROCESS, m.dedicated.port = 0);
	REFUSED(VB_DAEMON_OPEN_DEDICATED, VB_DAEMON_FROM_PROCESS, m.dedicated.port = 0x10000);
	REFUSED(VB_DAEMON_OPEN_DEDICATED, VB_DAEMON_FROM_PROCESS, m.dedicated.peer[0] = 0xfe);
	REFUSED(VB_DAEMON_OPEN_DEDICATED, VB_DAEMON_FROM_PROCESS, m.dedicated.own[0] = 0xfe);
	REFUSED(VB_DAEMON_OPEN_DEDICATED, VB_DAEMON_FROM_PROCESS, m.dedicated.own[12] = 239);
	REFUSED(VB_DAEMON_OPEN_DEDICATED, VB_DAEMON_FROM_PROCESS, m.dedicated.peer[12] = 239);
	REFUSED(VB_DAEMON_OPEN_DEDICATED, VB_DAEMON_FROM_PROCESS, m.header.sequence = 0);
	REFUSED(VB_DAEMON_DEDICATED, VB_DAEMON_FROM_DAEMON, m.dedicated.lane = 8);
	REFUSED(VB_DAEMON_PROBE_SEEN, VB_DAEMON_FROM_PROCESS, m.probe_seen.lane = 8);
	REFUSED(VB_DAEMON_PROBE_SEEN, VB_DAEMON_FROM_PROCESS, m.probe_seen.reserved = 1);
	REFUSED(VB_DAEMON_OPEN_FRAME_PORT, VB_DAEMON_FROM_PROCESS, m.frame_port.slot = 1024);
	REFUSED(VB_DAEMON_OPEN_FRAME_PORT, VB_DAEMON_FROM_PROCESS, m.frame_port.reserved = 1);
	REFUSED(VB_DAEMON_DEVICE, VB_DAEMON_FROM_DAEMON, m.device.subnet.state = 5);
	REFUSED(VB_DAEMON_DEVICE, VB_DAEMON_FROM_DAEMON, m.device.subnet.lmc = 8);
	REFUSED(VB_DAEMON_ERROR, VB_DAEMON_FROM_DAEMON, m.error.error = 0);
	REFUSED(VB_DAEMON_ERROR, VB_DAEMON_FROM_DAEMON, m.error.error = -1);
	REFUSED(VB_DAEMON_ERROR, VB_DAEMON_FROM_DAEMON, memset(m.error.text, 'a', sizeof(m.error.text)));
	REFUSED(VB_DAEMON_WELCOME, VB_DAEMON_FROM_DAEMON, m.welcome.flags = 2);
	REFUSED(VB_DAEMON_DEVICE, VB_DAEMON_FROM_DAEMON, m.device.name[0] = '\0');
	REFUSED(VB_DAEMON_DEVICE, VB_DAEMON_FROM_DAEMON, m.device.name[4] = '/');
	REFUSED(VB_DAEMON_DEVICE, VB_DAEMON_FROM_DAEMON, m.device.interface_index = 0);
	REFUSED(VB_DAEMON_DEVICE, VB_DAEMON_FROM_DAEMON, m.device.active_mtu = 0);
	REFUSED(VB_DAEMON_DEVICE, VB_DAEMON_FROM_DAEMON, m.device.active_mtu = 6);
	REFUSED(VB_DAEMON_DEVICE, VB_DAEMON_FROM_DAEMON, m.device.active = 2);
	REFUSED(VB_DAEMON_DEVICE, VB_DAEMON_FROM_DAEMON, m.device.guid = 0);
	REFUSED(VB_DAEMON_DEVICE, VB_DAEMON_FROM_DAEMON, m.device.gid_count = 3);
	REFUSED(VB_DAEMON_DEVICE, VB_DAEMON_FROM_DAEMON, m.device.gid_count = 65);
	REFUSED(VB_DAEMON_DEVICE, VB_DAEMON_FROM_DAEMON, m.device.gid_count = UINT32_MAX);
	REFUSED(VB_DAEMON_DEVICE_GONE, VB_DAEMON_FROM_DAEMON, m.device_gone.interface_index = 0);
	REFUSED(VB_DAEMON_PROCESS, VB_DAEMON_FROM_DAEMON, m.process.slot = 1024);
	REFUSED(VB_DAEMON_PROCESS_DEVICE, VB_DAEMON_FROM_DAEMON, m.process_device.interface_index = 0);
	REFUSED(VB_DAEMON_PROCESS_DEVICE, VB_DAEMON_FROM_DAEMON, m.process_device.device[0] = '\033');
	/* A descriptor or an error, never both. */
	REFUSED(VB_DAEMON_PROCESS_RESOURCES, VB_DAEMON_FROM_DAEMON, m.process_resources.error = ETIMEDOUT);
	REFUSED(VB_DAEMON_PROCESS_RESOURCES, VB_DAEMON_FROM_DAEMON, m.process_resources.error = -1);
	REFUSED(VB_DAEMON_LIST_RESOURCES, VB_DAEMON_FROM_PROCESS, m.list_resources.reserved = 1);
}

static void news_have_no_number(void **state)
{
	struct vb_daemon_message m;

	(void)state;
	make_good(&m, VB_DAEMON_DEVICE);
	m.header.sequence = 0;
	assert_int_equal(check(&m, m.header.length, 0, VB_DAEMON_FROM_DAEMON), 0);
	make_good(&m, VB_DAEMON_DEVICE_GONE);
	m.header.sequence = 0;
	assert_int_equal(check(&m, m.header.length, 0, VB_DAEMON_FROM_DAEMON), 0);
	make_good(&m, VB_DAEMON_DEDICATED);
	m.header.sequence = 0;
	assert_int_equal(check(&m, m.header.length, 1, VB_DAEMON_FROM_DAEMON), 0);
	make_good(&m, VB_DAEMON_SHOW_RESOURCES);
	m.header.sequence = 0;
	assert_int_equal(check(&m, m.header.length, 0, VB_DAEMON_FROM_DAEMON), 0);
}

/* Whatever passes keeps its promises. */
static void examine(const struct vb_daemon_message *m, size_t length)
{
	if (m->header.type == VB_DAEMON_ADOPT_SLOT || m->header.type == VB_DAEMON_SLOT)
		assert_in_range(m->slot.slot, 1, 1023);
	if (m->header.type == VB_DAEMON_OPEN_LANE || m->header.type == VB_DAEMON_ADOPT_LANE || m->header.type == VB_DAEMON_LANE) {
		assert_in_range(m->lane.slot, 1, 1023);
		assert_in_range(m->lane.lane, 1, 7);
	}
	if (m->header.type == VB_DAEMON_DEVICE) {
		assert_in_range(m->device.gid_count, 0, 64);
		assert_int_equal(length, 16 + 216 + m->device.gid_count * 16);
		assert_in_range(strnlen(m->device.name, 64), 1, 63);
		assert_in_range(m->device.active_mtu, 1, 5);
	}
	if (m->header.type == VB_DAEMON_ERROR) {
		assert_in_range(m->error.error, 1, 4095);
		assert_in_range(strnlen(m->error.text, 248), 0, 247);
	}
	if (m->header.type == VB_DAEMON_HELLO)
		assert_in_range(strnlen(m->hello.program, 16), 0, 15);
}

static void random_changes_are_harmless(void **state)
{
	unsigned seed = 4791;

	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	for (unsigned round = 0; round < 200000; round++) {
		size_t row = (size_t)rand() % (sizeof(rows) / sizeof(rows[0]));
		struct vb_daemon_message m;
		unsigned fds = make_good(&m, rows[row].type);
		size_t length = m.header.length;

		for (int changes = rand() % 4; changes > 0; changes--)
			((uint8_t *)&m)[(size_t)rand() % length] ^= (uint8_t)(1 << rand() % 8);
		if (rand() % 8 == 0)
			length = (size_t)rand() % sizeof(m);
		if (check(&m, length, fds, rows[row].sender) == 0)
			examine(&m, length);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_messages_pass),
		cmocka_unit_test(unknown_types_do_not),
		cmocka_unit_test(another_version_is_told_apart),
		cmocka_unit_test(bad_fields_do_not),
		cmocka_unit_test(news_have_no_number),
		cmocka_unit_test(random_changes_are_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
