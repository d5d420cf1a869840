/* SPDX-License-Identifier: MIT
 *
 * Addresses of AF_IB: requests by GIDs and service ids, without a header of IP addresses before the private data; who listens for which.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "sim.h"

enum { PORT = 7174, QPN = 0x4001, PKEY = 0x8011 };

static struct sim sim;
static struct sim_process *client, *server;

static int set_up(void **state)
{
	(void)state;
	sim_begin(&sim, 1);
	client = &sim.host[0].process[0];
	server = &sim.host[1].process[0];
	return 0;
}

static void finish(void)
{
	for (unsigned h = 0; h < SIM_HOSTS; h++)
		for (unsigned p = 0; p < SIM_PROCESSES; p++)
			vb_connect_owner_gone(sim.host[h].connect, sim.now, &sim.host[h].process[p].owner);
	sim_run(&sim, VB_TIME_NEVER);
	sim_end_clean(&sim);
}

static void settle(void)
{
	sim_run(&sim, sim.now + VB_MILLISECONDS(20));
}

static struct vb_cm_address native(unsigned host, uint64_t service_id)
{
	struct vb_cm_address address = {
		.family = VB_CM_AF_IB, .service_id = service_id, .port = (uint16_t)service_id, .pkey = PKEY};

	memcpy(address.gid, sim.host[host].gid, 16);
	return address;
}

static uint32_t listen_at(const struct vb_cm_address *address, uint32_t port_space)
{
	uint32_t id = sim_create(server, port_space);
	struct vb_cm_command command = {.verb = VB_CM_BIND, .id = id, .source = *address};
	struct vb_cm_reply reply;

	assert_int_equal(sim_command(server, &command, &reply), 0);
	command.verb = VB_CM_LISTEN;
	assert_int_equal(sim_command(server, &command, &reply), 0);
	return id;
}

/* From a GID to a service of the other host; all of the private data that there is room for. */
static struct vb_cm_command request(uint32_t id, uint64_t service_id, uint16_t room)
{
	struct vb_cm_command command = {
		.verb = VB_CM_CONNECT,
		.id = id,
		.source = native(0, 0),
		.destination = native(1, service_id),
		.path = {.framing = VB_FRAMING_GLOBAL, .slid = 1, .dlid = 2, .hop_limit = 1, .pkey = PKEY},
		.conn = {.qpn = QPN, .private_data_length = room, .path_mtu = IBV_MTU_1024},
	};

	memcpy(command.path.source, sim.host[0].gid, 16);
	memcpy(command.path.destination, sim.host[1].gid, 16);
	for (unsigned i = 0; i < room; i++)
		command.conn.private_data[i] = (uint8_t)(i + 1);
	return command;
}

static void expect_request(uint16_t room)
{
	const struct vb_cm_event *event = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);

	assert_int_equal(event->source.family, VB_CM_AF_IB);
	assert_int_equal(event->source.port, PORT);
	assert_int_equal(event->source.pkey, PKEY);
	assert_int_equal(event->path.pkey, PKEY);
	assert_memory_equal(event->source.gid, sim.host[1].gid, 16);
	assert_memory_equal(event->destination.gid, sim.host[0].gid, 16);
	assert_int_equal(event->destination.service_id, 0);
	assert_int_equal(event->conn.private_data_length, room);
	for (unsigned i = 0; i < room; i++)
		assert_int_equal(event->conn.private_data[i], (uint8_t)(i + 1));
}

static void test_connection(void **state)
{
	uint64_t service = vb_cm_service_id(VB_CM_PS_TCP, PORT);
	struct vb_cm_address any = {.family = VB_CM_AF_IB, .port = PORT};
	struct vb_cm_command command;
	struct vb_cm_reply reply;

	(void)state;
	listen_at(&any, VB_CM_PS_TCP);
	command = request(sim_create(client, VB_CM_PS_TCP), service, VB_CM_REQ_PRIVATE);
	assert_int_equal(sim_command(client, &command, &reply), 0);
	assert_int_equal(sim.last.req.pkey, PKEY);
	assert_int_equal(sim.last.req.service_id, service);
	settle();
	expect_request(VB_CM_REQ_PRIVATE);
	finish();
}

static void test_datagrams(void **state)
{
	uint64_t service = vb_cm_service_id(VB_CM_PS_UDP, PORT);
	struct vb_cm_address ours = native(1, service);
	struct vb_cm_command command;
	struct vb_cm_reply reply;

	(void)state;
	listen_at(&ours, VB_CM_PS_UDP);
	command = request(sim_create(client, VB_CM_PS_UDP), service, VB_CM_SIDR_REQ_PRIVATE);
	assert_int_equal(sim_command(client, &command, &reply), 0);
	assert_int_equal(sim.last.sidr_req.pkey, PKEY);
	settle();
	expect_request(VB_CM_SIDR_REQ_PRIVATE);
	finish();
}

/* One more byte than there is room for; another family; a path that is none; a service of no port space of ours. */
static void test_refusals(void **state)
{
	struct vb_cm_address any = {.family = VB_CM_AF_IB, .port = PORT}, ip_any = {.family = AF_INET, .port = PORT + 1};
	uint32_t id = sim_create(client, VB_CM_PS_TCP);
	struct vb_cm_command command;
	struct vb_cm_reply reply;

	(void)state;
	listen_at(&any, VB_CM_PS_TCP);
	listen_at(&ip_any, VB_CM_PS_TCP);
	command = request(id, vb_cm_service_id(VB_CM_PS_TCP, PORT), VB_CM_REQ_PRIVATE + 1);
	assert_int_equal(sim_command(client, &command, &reply), EINVAL);
	command = request(id, vb_cm_service_id(VB_CM_PS_TCP, PORT), 0);
	command.path.framing = VB_FRAMING_UDP;
	assert_int_equal(sim_command(client, &command, &reply), EINVAL);
	command = request(id, vb_cm_service_id(VB_CM_PS_TCP, PORT), 0);
	command.source = sim_address(&sim, 0, 0);
	assert_int_equal(sim_command(client, &command, &reply), EAFNOSUPPORT);
	/* A listener by IP addresses is not to be found by a GID. */
	command = request(id, vb_cm_service_id(VB_CM_PS_TCP, PORT + 1), 4);
	assert_int_equal(sim_command(client, &command, &reply), 0);
	settle();
	assert_int_equal(sim_expect(client, VB_CM_EVENT_REJECTED)->status, VB_CM_REJECT_INVALID_SERVICE_ID);
	command = request(sim_create(client, VB_CM_PS_TCP), 0x1000000001060000ull | PORT, 4);
	assert_int_equal(sim_command(client, &command, &reply), 0);
	settle();
	assert_int_equal(sim_expect(client, VB_CM_EVENT_REJECTED)->status, VB_CM_REJECT_INVALID_SERVICE_ID);
	finish();
}

/* A request that tells IP addresses, which nobody listens at, is for who listens by GID: all of its private data, as in the kernel. */
static void test_by_ip_address(void **state)
{
	struct vb_cm_address any = {.family = VB_CM_AF_IB, .port = PORT};
	const struct vb_cm_event *event;
	struct vb_cm_ip_header header;
	struct vb_cm_command command;
	struct vb_cm_reply reply;

	(void)state;
	listen_at(&any, VB_CM_PS_TCP);
	command = request(sim_create(client, VB_CM_PS_TCP), 0, 8);
	command.source = sim_address(&sim, 0, 0);
	command.destination = sim_address(&sim, 1, PORT);
	assert_int_equal(sim_command(client, &command, &reply), 0);
	settle();
	event = sim_expect(server, VB_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event->source.family, VB_CM_AF_IB);
	assert_int_equal(event->conn.private_data_length, VB_CM_REQ_PRIVATE);
	assert_int_equal(vb_cm_ip_header_decode(&header, event->conn.private_data), 0);
	assert_int_equal(event->conn.private_data[VB_CM_IP_HEADER_LENGTH], 1);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_connection, set_up),
		cmocka_unit_test_setup(test_datagrams, set_up),
		cmocka_unit_test_setup(test_refusals, set_up),
		cmocka_unit_test_setup(test_by_ip_address, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
