/* SPDX-License-Identifier: MIT
 *
 * A hostile peer that knows much: it sends messages with the right numbers, nearly right ones and noise, whole and
 * truncated, to a host with live connections. Nothing crashes, nothing grows without bound, connections of others stay,
 * and in the end nothing is left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sim.h"

enum { PORT = 7174, ROUNDS = 60000, BACKLOG = 16, KNOWN = 256 };

static struct sim sim;
/* What the attacker has seen go by. */
static struct vb_cm_mad seen[KNOWN];
static unsigned seen_count;

static uint32_t draw(uint32_t below)
{
	return sim_draw(&sim) % below;
}

static void react(struct sim *s, struct sim_process *process, const struct vb_cm_event *event)
{
	seen[seen_count++ % KNOWN] = s->last;
	switch (event->kind) {
	case VB_CM_EVENT_CONNECT_REQUEST:
		switch (draw(4)) {
		case 0:
			(void)sim_order(process, VB_CM_REJECT, event->id);
			break;
		case 1:
			break;
		default:
			(void)sim_accept(process, event->id, 1 + draw(1000));
		}
		break;
	case VB_CM_EVENT_CONNECT_RESPONSE:
		(void)sim_order(process, VB_CM_ESTABLISH, event->id);
		break;
	case VB_CM_EVENT_ESTABLISHED:
		break;
	default:
		(void)sim_order(process, VB_CM_DESTROY, event->id);
	}
}

/* A request that a listener will look at. */
static void make_request(struct vb_cm_mad *mad)
{
	struct vb_cm_ip_header header = {.ip_version = 4, .port = (uint16_t)draw(65536)};
	bool sidr = draw(2);

	memset(mad, 0, sizeof(*mad));
	memcpy(header.source, sim.host[0].gid, 16);
	memcpy(header.destination, sim.host[1].gid, 16);
	if (sidr) {
		mad->attribute = VB_CM_SIDR_REQ;
		mad->sidr_req.request_id = 1 + draw(64);
		mad->sidr_req.service_id = 0x01110000 | PORT;
		vb_cm_ip_header_encode(&header, mad->sidr_req.private_data);
		return;
	}
	mad->attribute = VB_CM_REQ;
	mad->req.local_id = 1 + draw(64);
	mad->req.local_ca_guid = draw(4);
	mad->req.local_qpn = draw(64);
	mad->req.service_id = 0x01060000 | PORT;
	mad->req.max_cm_retries = draw(16) & 15;
	mad->req.local_response_timeout = draw(32) & 31;
	mad->req.responder_resources = (uint8_t)draw(256);
	mad->req.primary.local_ack_timeout = draw(32) & 31;
	vb_cm_ip_header_encode(&header, mad->req.private_data);
}

/* Something it has seen, about the same ids but another message. */
static void make_variation(struct vb_cm_mad *mad)
{
	const struct vb_cm_mad *model = &seen[draw(seen_count < KNOWN ? seen_count : KNOWN)];
	uint32_t ours = model->rep.local_id, theirs = model->rep.remote_id;

	if (draw(2)) {
		ours = model->rep.remote_id;
		theirs = model->rep.local_id;
	}
	memset(mad, 0, sizeof(*mad));
	mad->attribute = (uint16_t)(VB_CM_REQ + draw(VB_CM_ATTRIBUTE_END - VB_CM_REQ));
	mad->rep.local_id = draw(4) ? ours : draw(64);
	mad->rep.remote_id = draw(8) ? theirs : 0;
	mad->rej.reason = mad->attribute == VB_CM_REJ ? (uint16_t)draw(40) : 0;
	if (mad->attribute == VB_CM_DREQ)
		mad->dreq.remote_qpn = draw(1000);
	if (mad->attribute == VB_CM_MRA)
		mad->mra.service_timeout = draw(32) & 31;
}

static void attack(void)
{
	struct vb_path path = {.hop_limit = 64};
	uint8_t bytes[VB_CM_MAD_LENGTH];
	size_t length = VB_CM_MAD_LENGTH;
	struct vb_cm_mad mad;

	if (seen_count == 0 || draw(3) == 0)
		make_request(&mad);
	else
		make_variation(&mad);
	vb_cm_mad_encode(&mad, bytes);
	for (unsigned i = draw(4); i > 0 && draw(2); i--)
		bytes[draw(3) ? draw(VB_CM_MAD_LENGTH) : draw(80)] = (uint8_t)draw(256);
	if (draw(10) == 0)
		length = draw(VB_CM_MAD_LENGTH + 1);
	memcpy(path.source, sim.host[draw(8) ? 0 : 1].gid, 16);
	memcpy(path.destination, sim.host[1].gid, 16);
	if (draw(50) == 0)
		path.source[draw(16)] = (uint8_t)draw(256);
	vb_connect_receive(sim.host[1].connect, sim.now, &path, bytes, length);
}

static void attacks_leave_the_host_standing(void **state)
{
	struct sim_process *client = &sim.host[0].process[0], *server = &sim.host[1].process[0];
	unsigned most = 0;

	(void)state;
	seen_count = 0;
	sim_begin(&sim, 0x40571e);
	sim.react = react;
	sim_listen(server, VB_CM_PS_TCP, PORT, BACKLOG);
	sim_listen(server, VB_CM_PS_UDP, PORT, BACKLOG);
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (i % 20 == 0)
			(void)sim_connect(client, sim_create(client, draw(4) ? VB_CM_PS_TCP : VB_CM_PS_UDP), 1, PORT,
					  1 + draw(1000));
		attack();
		sim_run(&sim, sim.now + VB_MICROSECONDS(draw(200)));
		if (i % 100 == 0) /* an honest process tidies up now and then */
			sim_run(&sim, sim.now + VB_SECONDS(1));
		if (i % 2000 == 1999) {
			vb_connect_owner_gone(sim.host[0].connect, sim.now, &client->owner);
			sim_run(&sim, sim.now + VB_SECONDS(20));
		}
		if (vb_connect_count(sim.host[1].connect) > most)
			most = vb_connect_count(sim.host[1].connect);
	}
	print_message("at most %u ids\n", most);
	assert_true(most < 5000);
	for (unsigned h = 0; h < SIM_HOSTS; h++)
		vb_connect_owner_gone(sim.host[h].connect, sim.now, &sim.host[h].process[0].owner);
	sim_run(&sim, VB_TIME_NEVER);
	sim_end_clean(&sim);
}

/* Pure noise, and every length. */
static void noise_is_ignored(void **state)
{
	struct vb_path path = {.hop_limit = 64};
	uint8_t bytes[VB_CM_MAD_LENGTH];

	(void)state;
	sim_begin(&sim, 0x4015e);
	sim_listen(&sim.host[1].process[0], VB_CM_PS_TCP, PORT, BACKLOG);
	memcpy(path.source, sim.host[0].gid, 16);
	memcpy(path.destination, sim.host[1].gid, 16);
	for (unsigned i = 0; i < 50000; i++) {
		for (unsigned j = 0; j < sizeof(bytes); j += 4) {
			uint32_t word = sim_draw(&sim);

			memcpy(bytes + j, &word, 4);
		}
		if (i & 1) { /* noise with a good header */
			memcpy(bytes, (uint8_t[]){1, 7, 2, 3}, 4);
			bytes[16] = 0;
			bytes[17] = (uint8_t)(VB_CM_REQ + draw(VB_CM_ATTRIBUTE_END - VB_CM_REQ));
		}
		vb_connect_receive(sim.host[1].connect, sim.now, &path, bytes, i % (VB_CM_MAD_LENGTH + 1));
		vb_connect_receive(sim.host[1].connect, sim.now, &path, bytes, sizeof(bytes));
		sim.packet_count = 0;
	}
	sim_expect_none(&sim.host[1].process[0]);
	assert_int_equal(vb_connect_count(sim.host[1].connect), 1);
	vb_connect_owner_gone(sim.host[1].connect, sim.now, &sim.host[1].process[0].owner);
	sim_run(&sim, VB_TIME_NEVER);
	sim_end_clean(&sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attacks_leave_the_host_standing),
		cmocka_unit_test(noise_is_ignored),
	};

	puts("seeds 0x40571e and 0x4015e");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
