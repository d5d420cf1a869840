/* SPDX-License-Identifier: MIT
 *
 * The echo lab, client: sends messages, ECHO_WINDOW of them under way at a time, and compares what comes back.
 *
 *   cc client.c -lrdmacm -libverbs -o client && ./client ADDRESS [PORT [MESSAGES [hold]]]
 *
 * With "hold" it stays connected and silent afterwards, until it is ended (SIGTERM).
 *
 * Exit code: 0 when every message came back as it was, 1 otherwise, 2 wrong usage.
 */
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include "echo.h"

enum { PATIENCE = 10 };                   /* seconds until a message that does not come back is missed */
enum { SENT = 100 };                      /* wr_id of a send: SENT + slot; of a receive: its slot */

struct client {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct {
		char in[ECHO_WINDOW][ECHO_SIZE], out[ECHO_WINDOW][ECHO_SIZE];
	} memory;
	unsigned number[ECHO_WINDOW];         /* of the message in each slot of `out` */
	unsigned pending[ECHO_WINDOW];        /* 2: sent; 1: the send is completed, or the echo is here; 0: both */
	unsigned asked, answered;
};

static volatile sig_atomic_t ended;

static void end(int number)
{
	(void)number;
	ended = 1;
}

static void expect(struct client *client, enum rdma_cm_event_type wanted)
{
	struct pollfd wait = { .fd = client->events->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	enum rdma_cm_event_type got;

	if (poll(&wait, 1, PATIENCE * 1000) <= 0)
		lab_fail("no %s within %d seconds", rdma_event_str(wanted), PATIENCE);
	if (rdma_get_cm_event(client->events, &event))
		lab_fail("rdma_get_cm_event: %s", strerror(errno));
	got = event->event;
	rdma_ack_cm_event(event);
	if (got != wanted)
		lab_fail("not connected: %s%s", rdma_event_str(got),
			 got == RDMA_CM_EVENT_REJECTED ? " (does the server listen?)" : "");
}

static void post_receive(struct client *client, uint64_t slot)
{
	struct ibv_sge piece = { (uintptr_t)client->memory.in[slot], ECHO_SIZE, client->mr->lkey };
	struct ibv_recv_wr request = { .wr_id = slot, .sg_list = &piece, .num_sge = 1 }, *refused;
	int error = ibv_post_recv(client->id->qp, &request, &refused);

	if (error)
		lab_fail("ibv_post_recv: %s", strerror(error));
}

/* Message n has a length and letters of its own, so that one cannot be taken for another. */
static uint32_t length_of(unsigned number)
{
	return 1 + number * 37 % ECHO_SIZE;
}

static char letter(unsigned number, uint32_t at)
{
	return (char)('a' + (number * 7 + at * 3 + at / 26) % 26);
}

static void ask(struct client *client, unsigned slot)
{
	unsigned number = client->asked++;
	struct ibv_sge piece = { (uintptr_t)client->memory.out[slot], length_of(number), client->mr->lkey };
	struct ibv_send_wr request = { .wr_id = SENT + slot, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED }, *refused;
	int error;

	for (uint32_t i = 0; i < piece.length; i++)
		client->memory.out[slot][i] = letter(number, i);
	client->number[slot] = number;
	client->pending[slot] = 2;
	if ((error = ibv_post_send(client->id->qp, &request, &refused)))
		lab_fail("ibv_post_send: %s", strerror(error));
}

/* Echoes come in the order of the messages: RC keeps it, and so must the server. */
static void compare(struct client *client, const struct ibv_wc *wc)
{
	unsigned number = client->answered++;
	const char *text = client->memory.in[wc->wr_id];

	if (wc->byte_len != length_of(number))
		lab_fail("message %u has %u bytes, its echo %u", number, length_of(number), wc->byte_len);
	for (uint32_t i = 0; i < wc->byte_len; i++)
		if (text[i] != letter(number, i))
			lab_fail("the echo of message %u differs at byte %u: '%c' became '%c'", number, i,
				 letter(number, i), text[i]);
}

static void take_completion(struct client *client)
{
	time_t limit = time(NULL) + PATIENCE;
	struct ibv_wc wc;
	unsigned slot;
	int count;

	while ((count = ibv_poll_cq(client->cq, 1, &wc)) == 0)
		if (time(NULL) > limit)
			lab_fail("message %u did not come back within %d seconds", client->answered, PATIENCE);
	if (count < 0)
		lab_fail("ibv_poll_cq failed");
	if (wc.status != IBV_WC_SUCCESS)
		lab_fail("the connection broke at message %u: %s", client->answered, ibv_wc_status_str(wc.status));
	if (wc.wr_id >= SENT) {
		client->pending[wc.wr_id - SENT]--;
		return;
	}
	for (slot = 0; slot < ECHO_WINDOW && (client->pending[slot] == 0 || client->number[slot] != client->answered); slot++)
		continue;
	if (slot == ECHO_WINDOW)
		lab_fail("a message came that is no echo");
	compare(client, &wc);
	client->pending[slot]--;
	post_receive(client, wc.wr_id);
}

static void prepare(struct client *client)
{
	struct ibv_qp_init_attr kind = { .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = ECHO_WINDOW, .max_recv_wr = ECHO_WINDOW, .max_send_sge = 1, .max_recv_sge = 1 } };

	if (!(client->pd = ibv_alloc_pd(client->id->verbs)) ||
	    !(client->cq = ibv_create_cq(client->id->verbs, 2 * ECHO_WINDOW, NULL, NULL, 0)) ||
	    !(client->mr = ibv_reg_mr(client->pd, &client->memory, sizeof(client->memory), IBV_ACCESS_LOCAL_WRITE)))
		lab_fail("no PD, CQ or region: %s", strerror(errno));
	kind.send_cq = kind.recv_cq = client->cq;
	if (rdma_create_qp(client->id, client->pd, &kind))
		lab_fail("rdma_create_qp: %s", strerror(errno));
	for (uint64_t slot = 0; slot < ECHO_WINDOW; slot++)
		post_receive(client, slot);
}

static void connect_to(struct client *client, const char *address, const char *port)
{
	struct rdma_conn_param parameters = { .retry_count = 7, .rnr_retry_count = 7 };
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
	int error = getaddrinfo(address, port, &hints, &found);

	if (error)
		lab_fail("%s port %s: %s", address, port, gai_strerror(error));
	if (!(client->events = rdma_create_event_channel()) ||
	    rdma_create_id(client->events, &client->id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(client->id, NULL, found->ai_addr, 2000))
		lab_fail("no way to %s: %s", address, strerror(errno));
	freeaddrinfo(found);
	expect(client, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(client->id, 2000))
		lab_fail("rdma_resolve_route: %s", strerror(errno));
	expect(client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	prepare(client);
	if (rdma_connect(client->id, &parameters))
		lab_fail("rdma_connect: %s", strerror(errno));
	expect(client, RDMA_CM_EVENT_ESTABLISHED);
	printf("connected\n");
}

int main(int argc, char **argv)
{
	static struct client client;
	unsigned messages = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
	char port[16];

	if (argc < 2 || argc > 5) {
		fprintf(stderr, "Usage: %s ADDRESS [PORT [MESSAGES [hold]]]\n", argv[0]);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGTERM, end);
	signal(SIGINT, end);
	snprintf(port, sizeof(port), "%d", ECHO_PORT);
	connect_to(&client, argv[1], argc > 2 ? argv[2] : port);
	while (client.answered < messages) {
		for (unsigned slot = 0; slot < ECHO_WINDOW && client.asked < messages; slot++)
			if (client.pending[slot] == 0)
				ask(&client, slot);
		take_completion(&client);
	}
	printf("echoed %u messages\n", client.answered);
	if (argc > 4) {
		printf("holding\n");
		while (!ended)
			poll(NULL, 0, 20);
	}
	if (rdma_disconnect(client.id))
		lab_fail("rdma_disconnect: %s", strerror(errno));
	expect(&client, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(client.id);
	ibv_dereg_mr(client.mr);
	ibv_destroy_cq(client.cq);
	ibv_dealloc_pd(client.pd);
	rdma_destroy_id(client.id);
	rdma_destroy_event_channel(client.events);
	return EXIT_SUCCESS;
}
