/* SPDX-License-Identifier: MIT
 *
 * The connection manager on real sockets: two processes (ends of socket pairs) connect through port 4791 of a network
 * namespace made for the purpose. Skipped where such a namespace may not be made.
 */
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/client.h"
#include "daemon/cm_service.h"
#include "daemon/device_table.h"
#include "io/clock.h"
#include "io/event.h"
#include "io/udp.h"
#include "lib/patience.h"
#include "wire/cm_command.h"
#include "wire/cm_mad.h"

enum { SKIPPED = 77, PORT = 7174, SERVER = 0, CLIENT = 1 };

static struct vb_device_table devices;
static struct vb_udp_batch *batch;
static int receiver[2], poller;

static struct vb_cm_service *service;
static struct vb_client *process[2];
static int far_end[2];
static uint64_t serial;
static unsigned bundles, messages; /* that came by wire */

static int set_up(void **state)
{
	(void)state;
	service = vb_cm_service_create(&devices, poller);
	assert_non_null(service);
	for (unsigned i = 0; i < 2; i++) {
		int pair[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		process[i] = vb_client_create(pair[0], poller);
		assert_non_null(process[i]);
		far_end[i] = pair[1];
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	vb_cm_service_destroy(service);
	for (unsigned i = 0; i < 2; i++) {
		if (process[i])
			vb_client_destroy(process[i]);
		close(far_end[i]);
	}
	return 0;
}

/* What the server's loop does, until the wire has been silent for a moment: a busy machine may call this silent too
 * early. */
static void run(void)
{
	for (unsigned silent = 0; silent < 3;) {
		struct pollfd ready[2] = {{receiver[0], POLLIN, 0}, {receiver[1], POLLIN, 0}};

		vb_cm_service_run(service, vb_clock_now());
		for (unsigned i = 0; i < 2; i++)
			if (process[i])
				vb_client_flush(process[i]);
		if (poll(ready, 2, vb_cm_service_deadline(service) == 0 ? 0 : 2) == 0 &&
		    vb_cm_service_deadline(service) != 0)
			silent++;
		for (unsigned f = 0; f < 2; f++) {
			int count = 0;

			if (ready[f].revents)
				count = vb_udp_batch_receive(batch, receiver[f], f == 1);
			for (int i = 0; i < count; i++) {
				unsigned taken = vb_cm_service_receive(service, vb_clock_now(), vb_udp_batch_at(batch, (unsigned)i));

				assert_true(taken > 0);
				messages += taken;
				bundles++;
			}
		}
	}
}

/* The next message of that type that is there; others before it are dropped. False: there is none. */
static bool next_message(unsigned who, uint32_t type, void *out, size_t length)
{
	uint8_t bytes[4096];
	ssize_t got;

	if (process[who])
		vb_client_flush(process[who]);
	while ((got = recv(far_end[who], bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
		uint32_t found;

		memcpy(&found, bytes, sizeof(found));
		if (found != type)
			continue;
		assert_int_equal(got, length);
		memcpy(out, bytes, length);
		return true;
	}
	return false;
}

static bool run_for_message(unsigned who, struct vb_cm_event *event)
{
	if (next_message(who, VB_CM_EVENT, event, sizeof(*event)))
		return true;
	run();
	return false;
}

static struct vb_cm_event event_of(unsigned who, enum vb_cm_event_kind kind)
{
	struct vb_cm_event event;

	if (!eventually(run_for_message(who, &event)))
		fail_msg("no event, expected %u", kind);
	assert_int_equal(event.kind, kind);
	return event;
}

static struct vb_cm_reply order(unsigned who, struct vb_cm_command *command)
{
	struct vb_cm_reply reply;

	command->type = VB_CM_COMMAND;
	command->serial = ++serial;
	vb_cm_service_message(service, vb_clock_now(), process[who], command, sizeof(*command), 0);
	assert_true(next_message(who, VB_CM_REPLY, &reply, sizeof(reply)));
	assert_int_equal(reply.serial, serial);
	return reply;
}

static void obey(unsigned who, struct vb_cm_command command)
{
	assert_int_equal(order(who, &command).error, 0);
}

static uint32_t create(unsigned who)
{
	struct vb_cm_command command = {.verb = VB_CM_CREATE, .port_space = VB_CM_PS_TCP};
	struct vb_cm_reply reply = order(who, &command);

	assert_int_equal(reply.error, 0);
	return reply.id;
}

static struct vb_cm_address loopback(bool ipv6, uint16_t port)
{
	struct vb_cm_address address = {.family = ipv6 ? AF_INET6 : AF_INET, .port = port};

	memcpy(address.gid, devices.device[0].gid[ipv6], 16);
	return address;
}

static void listen_at(bool ipv6)
{
	uint32_t id = create(SERVER);

	obey(SERVER, (struct vb_cm_command){.verb = VB_CM_BIND, .id = id, .source = loopback(ipv6, PORT)});
	obey(SERVER, (struct vb_cm_command){.verb = VB_CM_LISTEN, .id = id});
}

static uint32_t ask(bool ipv6, uint32_t qpn)
{
	uint32_t id = create(CLIENT);

	obey(CLIENT, (struct vb_cm_command){.verb = VB_CM_CONNECT,
					    .id = id,
					    .source = loopback(ipv6, 0),
					    .destination = loopback(ipv6, PORT),
					    .conn = {.qpn = qpn}});
	return id;
}

static void kill_process(unsigned who)
{
	vb_cm_service_client_gone(service, vb_clock_now(), process[who]);
	vb_client_destroy(process[who]);
	process[who] = NULL;
}

static void two_processes_connect(void **state)
{
	(void)state;
	for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
		uint32_t active, passive;
		struct vb_cm_event event;

		listen_at(ipv6);
		active = ask(ipv6, 0x4000);
		run();
		event = event_of(SERVER, VB_CM_EVENT_CONNECT_REQUEST);
		passive = event.id;
		assert_int_equal(event.interface_index, devices.device[0].interface_index);
		obey(SERVER, (struct vb_cm_command){.verb = VB_CM_ACCEPT, .id = passive, .conn = {.qpn = 0x8000}});
		run();
		assert_int_equal(event_of(CLIENT, VB_CM_EVENT_CONNECT_RESPONSE).conn.qpn, 0x8000);
		obey(CLIENT, (struct vb_cm_command){.verb = VB_CM_ESTABLISH, .id = active});
		run();
		event_of(SERVER, VB_CM_EVENT_ESTABLISHED);
		obey(CLIENT, (struct vb_cm_command){.verb = VB_CM_DISCONNECT, .id = active});
		run();
		event_of(SERVER, VB_CM_EVENT_DISCONNECTED);
		obey(SERVER, (struct vb_cm_command){.verb = VB_CM_DISCONNECT, .id = passive});
		run();
		event_of(CLIENT, VB_CM_EVENT_DISCONNECTED);
		assert_false(vb_cm_service_is_idle(service));
	}
}

static void nobody_listens(void **state)
{
	(void)state;
	ask(false, 1);
	run();
	assert_int_equal(event_of(CLIENT, VB_CM_EVENT_REJECTED).status, VB_CM_REJECT_INVALID_SERVICE_ID);
}

/* A command that wants no reply. */
static void tell(unsigned who, struct vb_cm_command command)
{
	command.type = VB_CM_COMMAND;
	vb_cm_service_message(service, vb_clock_now(), process[who], &command, sizeof(command), 0);
}

/* What two simple programs do. Returns how many connections have got as far as `kind`. */
static unsigned react(enum vb_cm_event_kind kind)
{
	struct vb_cm_event event;
	unsigned reached = 0;

	run();
	for (unsigned who = 0; who < 2; who++) {
		while (next_message(who, VB_CM_EVENT, &event, sizeof(event))) {
			struct vb_cm_command answer = {.id = event.id, .conn = {.qpn = 0x8000 + event.conn.qpn}};

			reached += event.kind == kind;
			if (event.kind == VB_CM_EVENT_CONNECT_REQUEST)
				answer.verb = VB_CM_ACCEPT;
			else if (event.kind == VB_CM_EVENT_CONNECT_RESPONSE)
				answer.verb = VB_CM_ESTABLISH;
			else
				continue;
			tell(who, answer);
		}
	}
	return reached;
}

/* More DREQs at once than any socket buffer holds: all arrive, none after a timeout of seconds. */
static void death_is_told_to_everybody(void **state)
{
	enum { CONNECTIONS = 1500 };
	unsigned established = 0, told = 0;
	vb_time begun;

	(void)state;
	listen_at(false);
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		uint32_t id = create(CLIENT);

		tell(CLIENT, (struct vb_cm_command){.verb = VB_CM_CONNECT,
						    .id = id,
						    .source = loopback(false, 0),
						    .destination = loopback(false, PORT),
						    .conn = {.qpn = 0x4000 + i}});
		if (i % 50 == 49)
			assert_true(eventually((established += react(VB_CM_EVENT_ESTABLISHED)) >= i + 1));
	}
	begun = vb_clock_now();
	bundles = messages = 0;
	kill_process(CLIENT);
	(void)eventually((told += react(VB_CM_EVENT_DISCONNECTED)) >= CONNECTIONS);
	assert_int_equal(told, CONNECTIONS);
	print_message("%u told in %lld ms\n", told, (long long)(vb_clock_now() - begun) / 1000000);
	/* The DREQs that leave in one turn are one system call for the kernel, of either side; a turn has 64. */
	assert_true(messages >= CONNECTIONS);
	assert_true(bundles <= messages / 16);
}

static void a_process_that_does_not_read_fails(void **state)
{
	struct vb_cm_event event = {.type = VB_CM_EVENT};
	unsigned sent = 0;

	(void)state;
	while (!process[CLIENT]->failed && sent < 1000000) {
		vb_client_send_bytes(process[CLIENT], &event, sizeof(event));
		sent++;
	}
	assert_true(process[CLIENT]->failed);
	assert_in_range(sent, 20000, 200000);
}

static void nonsense_fails_its_sender(void **state)
{
	struct vb_cm_command command = {.type = VB_CM_COMMAND, .verb = VB_CM_CREATE, .serial = 5};
	struct vb_cm_reply reply;

	(void)state;
	/* Refused as a whole. */
	vb_cm_service_message(service, 0, process[CLIENT], &command, sizeof(command), EADDRINUSE);
	assert_true(next_message(CLIENT, VB_CM_REPLY, &reply, sizeof(reply)));
	assert_int_equal(reply.error, EADDRINUSE);
	assert_int_equal(reply.serial, 5);
	/* Serial 0 wants no answer. */
	command.serial = 0;
	vb_cm_service_message(service, 0, process[CLIENT], &command, sizeof(command), 0);
	assert_false(next_message(CLIENT, VB_CM_REPLY, &reply, sizeof(reply)));
	assert_false(process[CLIENT]->failed);
	/* Nor does one that wants to hear of refusals alone, if there is none. */
	command.serial = 6;
	command.only_refusals = true;
	command.port_space = VB_CM_PS_TCP;
	vb_cm_service_message(service, 0, process[CLIENT], &command, sizeof(command), 0);
	assert_false(next_message(CLIENT, VB_CM_REPLY, &reply, sizeof(reply)));
	vb_cm_service_message(service, 0, process[CLIENT], &command, sizeof(command), EADDRINUSE);
	assert_true(next_message(CLIENT, VB_CM_REPLY, &reply, sizeof(reply)));
	assert_int_equal(reply.error, EADDRINUSE);
	assert_int_equal(reply.serial, 6);
	/* Short, long, of another type. */
	vb_cm_service_message(service, 0, process[CLIENT], &command, sizeof(command) - 1, 0);
	assert_true(process[CLIENT]->failed);
	command.type = VB_CM_EVENT;
	vb_cm_service_message(service, 0, process[SERVER], &command, sizeof(command), 0);
	assert_true(process[SERVER]->failed);
}

static void queue_pairs_are_named(void **state)
{
	struct vb_cm_command command = {.type = VB_CM_COMMAND, .verb = VB_CM_CONNECT, .conn = {.qpn = 0x123456}};

	(void)state;
	assert_int_equal(vb_cm_service_claimed_qpn(&command, sizeof(command)), 0x123456);
	assert_int_equal(vb_cm_service_claimed_qpn(&command, sizeof(command) - 1), 0);
	command.verb = VB_CM_ADOPT; /* there it is the peer's */
	assert_int_equal(vb_cm_service_claimed_qpn(&command, sizeof(command)), 0);
}

static bool enter_namespace(void)
{
	struct ifreq lo = {.ifr_name = "lo"};
	int fd;

	if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	lo.ifr_flags = IFF_UP | IFF_RUNNING;
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) != 0)
		return false;
	close(fd);
	return true;
}

static void describe_loopback(void)
{
	struct vb_daemon_device *device = &devices.device[0];

	devices.count = 1;
	device->interface_index = if_nametoindex("lo");
	device->guid = 0x0200c0fffe000001;
	device->active_mtu = 5;
	device->gid_count = 2;
	memcpy(device->gid[0], (uint8_t[16]){[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}, 16);
	device->gid[1][15] = 1;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(two_processes_connect),
		TEST(nobody_listens),
		TEST(death_is_told_to_everybody),
		TEST(a_process_that_does_not_read_fails),
		TEST(nonsense_fails_its_sender),
		TEST(queue_pairs_are_named),
	};
	int failed;

	if (!enter_namespace()) {
		fprintf(stderr, "no network namespace to be had: %s\n", strerror(errno));
		return SKIPPED;
	}
	describe_loopback();
	batch = vb_udp_batch_create();
	poller = vb_poller_open();
	receiver[0] = vb_udp_open_receiver(false, VB_ROCE_PORT);
	receiver[1] = vb_udp_open_receiver(true, VB_ROCE_PORT);
	if (!batch || poller < 0 || receiver[0] < 0 || receiver[1] < 0)
		return SKIPPED;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	vb_udp_batch_destroy(batch);
	close(poller);
	close(receiver[0]);
	close(receiver[1]);
	return failed;
}
