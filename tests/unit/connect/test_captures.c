/* SPDX-License-Identifier: MIT
 *
 * The kernel's own messages at our engine: each captured client is answered as its server did, each captured server is
 * asked as its client did. Only the numbers that our engine chooses itself are put into the captured messages.
 *
 * Usage: test_captures PCAP-FOLDER
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "capture.h"
#include "connect/connect.h"
#include "wire/cm_mad.h"

enum { OUR_QPN = 0x4321, MOST_MADS = 64 };

static const char *folder;

/* One host, whose address is whatever the packet in hand is sent to. */
static struct {
	struct vb_connect *connect;
	struct vb_connect_owner owner;
	uint8_t gid[16];
	struct vb_cm_mad sent;
	unsigned sent_count, events;
	struct vb_cm_event event;
	uint32_t random;
} host;

static void send_mad(void *context, const struct vb_path *path, const uint8_t mad[VB_CM_MAD_LENGTH])
{
	(void)context;
	assert_memory_equal(path->source, host.gid, 16);
	assert_int_equal(vb_cm_mad_decode(&host.sent, mad, VB_CM_MAD_LENGTH), 0);
	host.sent_count++;
}

static void take_event(void *context, struct vb_connect_owner *owner, const struct vb_cm_event *event)
{
	(void)context;
	assert_ptr_equal(owner, &host.owner);
	host.event = *event;
	host.events++;
}

static uint32_t draw_random(void *context)
{
	(void)context;
	return host.random = host.random * 1664525 + 1013904223;
}

static bool find_device(void *context, const uint8_t gid[16], uint32_t interface_index,
			struct vb_connect_device *device)
{
	(void)context;
	(void)interface_index;
	*device = (struct vb_connect_device){.interface_index = 2, .guid = 0x0200c0fffe000001, .active_mtu = 3};
	return memcmp(gid, host.gid, 16) == 0;
}

static void begin_host(const uint8_t gid[16])
{
	const struct vb_connect_host callbacks = {
		.send_mad = send_mad, .event = take_event, .random = draw_random, .find_device = find_device};

	memset(&host, 0, sizeof(host));
	memcpy(host.gid, gid, 16);
	host.random = 1;
	host.connect = vb_connect_create(&callbacks);
	assert_non_null(host.connect);
	vb_connect_owner_init(&host.owner);
}

static void end_host(vb_time now)
{
	vb_connect_owner_gone(host.connect, now, &host.owner);
	while (vb_connect_next_deadline(host.connect) != VB_TIME_NEVER)
		vb_connect_expire(host.connect, vb_connect_next_deadline(host.connect));
	assert_int_equal(vb_connect_count(host.connect), 0);
	vb_connect_destroy(host.connect);
}

static struct vb_cm_reply obey(struct vb_cm_command command)
{
	struct vb_cm_reply reply;

	command.type = VB_CM_COMMAND;
	vb_connect_command(host.connect, 0, &host.owner, &command, &reply);
	assert_int_equal(reply.error, 0);
	return reply;
}

static void hear(const struct vb_path *from, const struct vb_cm_mad *mad)
{
	uint8_t bytes[VB_CM_MAD_LENGTH];

	vb_cm_mad_encode(mad, bytes);
	vb_connect_receive(host.connect, 0, from, bytes, sizeof(bytes));
}

struct heard {
	struct vb_path path;
	struct vb_cm_mad mad;
};

static unsigned read_mads(const char *name, struct heard *heard)
{
	struct captured_packet golden;
	struct vb_roce_packet packet;
	struct capture capture;
	char path[4096];
	unsigned count = 0;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (!capture_open(&capture, path))
		fail_msg("cannot read %s", path);
	while (count < MOST_MADS && capture_next(&capture, &golden)) {
		if (vb_roce_packet_decode(&packet, golden.datagram, golden.length, &golden.path, true, 0) !=
			    VB_PACKET_OK ||
		    !vb_cm_packet_is_mad(&packet))
			continue;
		heard[count].path = golden.path;
		assert_int_equal(vb_cm_mad_decode(&heard[count].mad, packet.payload, packet.payload_length), 0);
		count++;
	}
	capture_close(&capture);
	return count;
}

static uint16_t family_of(const struct vb_path *path)
{
	return vb_path_is_ipv4(path) ? AF_INET : AF_INET6;
}

static uint32_t listen_for(uint64_t service_id, uint16_t family)
{
	uint32_t id = obey((struct vb_cm_command){.verb = VB_CM_CREATE,
						  .port_space = vb_cm_service_port_space(service_id)}).id;

	obey((struct vb_cm_command){
		.verb = VB_CM_BIND, .id = id, .source = {.family = family, .port = vb_cm_service_port(service_id)}});
	obey((struct vb_cm_command){.verb = VB_CM_LISTEN, .id = id});
	return id;
}

/* The captured client's later words about connection `theirs`, with our numbers in place of its server's. */
static void follow_up(const struct heard *heard, unsigned count, uint32_t theirs, uint32_t ours)
{
	bool disconnected = false;

	for (unsigned i = 0; i < count; i++) {
		struct vb_cm_mad mad = heard[i].mad;

		if ((mad.attribute != VB_CM_RTU && mad.attribute != VB_CM_DREQ) || mad.rtu.local_id != theirs)
			continue;
		mad.rtu.remote_id = ours;
		if (mad.attribute == VB_CM_DREQ)
			mad.dreq.remote_qpn = OUR_QPN;
		host.events = 0;
		hear(&heard[i].path, &mad);
		if (mad.attribute == VB_CM_DREQ && disconnected)
			continue;
		assert_int_equal(host.events, 1);
		assert_int_equal(host.event.id, ours);
		assert_int_equal(host.event.kind,
				 mad.attribute == VB_CM_RTU ? VB_CM_EVENT_ESTABLISHED : VB_CM_EVENT_DISCONNECTED);
		if (mad.attribute == VB_CM_RTU)
			continue;
		disconnected = true;
		obey((struct vb_cm_command){.verb = VB_CM_DISCONNECT, .id = ours});
		assert_int_equal(host.sent.attribute, VB_CM_DREP);
		assert_int_equal(host.sent.transaction, mad.transaction);
		assert_int_equal(host.sent.drep.remote_id, theirs);
	}
}

/* The kernel asks us. */
static unsigned answer_requests(const struct heard *heard, unsigned count)
{
	unsigned answered = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct vb_cm_mad *mad = &heard[i].mad;
		bool sidr = mad->attribute == VB_CM_SIDR_REQ;
		uint32_t theirs, ours;

		if (mad->attribute != VB_CM_REQ && !sidr)
			continue;
		begin_host(heard[i].path.destination);
		listen_for(sidr ? mad->sidr_req.service_id : mad->req.service_id, family_of(&heard[i].path));
		hear(&heard[i].path, mad);
		assert_int_equal(host.events, 1);
		assert_int_equal(host.event.kind, VB_CM_EVENT_CONNECT_REQUEST);
		assert_memory_equal(host.event.destination.gid, heard[i].path.source, 16);
		theirs = sidr ? mad->sidr_req.request_id : mad->req.local_id;
		ours = host.event.id;
		/* Once more: patience, no second event. */
		hear(&heard[i].path, mad);
		assert_int_equal(host.events, 1);
		obey((struct vb_cm_command){.verb = VB_CM_ACCEPT, .id = ours, .conn = {.qpn = OUR_QPN}});
		assert_int_equal(host.sent.transaction, mad->transaction);
		if (sidr) {
			assert_int_equal(host.sent.sidr_rep.request_id, theirs);
		} else {
			assert_int_equal(host.sent.rep.remote_id, theirs);
			follow_up(heard + i, count - i, theirs, ours);
		}
		end_host(0);
		answered++;
	}
	return answered;
}

/* We ask the kernel: its answer to the captured request is given to ours. */
static unsigned ask_again(const struct heard *heard, unsigned count)
{
	unsigned asked = 0;

	for (unsigned i = 0; i < count; i++) {
		struct vb_cm_mad answer = heard[i].mad;
		struct vb_cm_address from = {.family = family_of(&heard[i].path)}, to = from;
		uint32_t id;

		if (answer.attribute != VB_CM_REP)
			continue;
		begin_host(heard[i].path.destination);
		memcpy(from.gid, host.gid, 16);
		memcpy(to.gid, heard[i].path.source, 16);
		to.port = 7174;
		id = obey((struct vb_cm_command){.verb = VB_CM_CREATE, .port_space = VB_CM_PS_TCP}).id;
		obey((struct vb_cm_command){
			.verb = VB_CM_CONNECT,
			.id = id,
			.source = from,
			.destination = to,
			.conn = {.qpn = OUR_QPN, .responder_resources = 128, .initiator_depth = 128}});
		assert_int_equal(host.sent.attribute, VB_CM_REQ);
		answer.rep.remote_id = id;
		hear(&heard[i].path, &answer);
		assert_int_equal(host.events, 1);
		assert_int_equal(host.event.kind, VB_CM_EVENT_CONNECT_RESPONSE);
		assert_int_equal(host.event.conn.qpn, answer.rep.local_qpn);
		assert_int_equal(host.event.conn.starting_psn, answer.rep.starting_psn);
		assert_int_equal(host.event.conn.initiator_depth, answer.rep.responder_resources);
		assert_int_equal(host.event.conn.responder_resources, answer.rep.initiator_depth);
		obey((struct vb_cm_command){.verb = VB_CM_ESTABLISH, .id = id});
		assert_int_equal(host.sent.attribute, VB_CM_RTU);
		assert_int_equal(host.sent.rtu.remote_id, answer.rep.local_id);
		/* A repeated REP is answered again. */
		host.sent_count = 0;
		hear(&heard[i].path, &answer);
		assert_int_equal(host.sent_count, 1);
		assert_int_equal(host.sent.attribute, VB_CM_RTU);
		end_host(0);
		asked++;
	}
	return asked;
}

static void the_kernel_and_we_understand_each_other(void **state)
{
	static struct heard heard[MOST_MADS];
	char path[4096], line[4096], name[128];
	unsigned answered = 0, asked = 0;
	FILE *index;

	(void)state;
	snprintf(path, sizeof(path), "%s/index.txt", folder);
	index = fopen(path, "r");
	assert_non_null(index);
	while (fgets(line, sizeof(line), index)) {
		unsigned count;

		if (sscanf(line, "%127s", name) != 1 || strncmp(name, "rxe-", 4) != 0)
			continue;
		count = read_mads(name, heard);
		answered += answer_requests(heard, count);
		asked += ask_again(heard, count);
	}
	fclose(index);
	assert_int_equal(answered, 46 + 1);
	assert_int_equal(asked, 41);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_kernel_and_we_understand_each_other)};

	if (argc < 2)
		return 2;
	folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
