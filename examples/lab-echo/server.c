/* SPDX-License-Identifier: MIT
 *
 * The echo lab, server: sends every message back to the client it came from. One thread, many clients, and no
 * processor time while nothing happens.
 *
 *   cc server.c -lrdmacm -libverbs -o server && ./server [PORT [CLIENTS]]
 *
 * echo.h has the conversation, client.c the other side.
 * In the exercise that `verbena lab start echo` writes, the insides of the five parts are left out.
 *
 * Exit code: 0 when so many clients have come and gone (without CLIENTS it serves for ever), 1 when something failed.
 */
#include <poll.h>

#include "echo.h"

enum { CLIENTS = 64 };

struct client {
	struct rdma_cm_id *id;                 /* NULL: this place is free */
	struct ibv_pd *pd;
	struct ibv_comp_channel *completions;  /* its descriptor is readable when an event waits */
	struct ibv_cq *cq;
	struct ibv_mr *mr;                     /* over slots */
	char slots[ECHO_WINDOW][ECHO_SIZE];    /* each holds a message: first received, then sent back */
};

struct server {
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	struct client clients[CLIENTS];
	unsigned gone;                         /* clients that have been here */
};

/* ---- One client ---- */

/* wr_id is the slot. */
static void post_receive(struct client *client, uint64_t slot)
{
	struct ibv_sge piece = { (uintptr_t)client->slots[slot], ECHO_SIZE, client->mr->lkey };
	struct ibv_recv_wr request = { .wr_id = slot, .sg_list = &piece, .num_sge = 1 }, *refused;
	int error = ibv_post_recv(client->id->qp, &request, &refused);

	if (error)
		lab_fail("ibv_post_recv: %s", strerror(error));
}

static void post_answer(struct client *client, uint64_t slot, uint32_t length)
{
	struct ibv_sge piece = { (uintptr_t)client->slots[slot], length, client->mr->lkey };
	struct ibv_send_wr request = { .wr_id = slot, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED }, *refused;
	int error = ibv_post_send(client->id->qp, &request, &refused);

	if (error)
		lab_fail("ibv_post_send: %s", strerror(error));
}

/* id came with a request for a connection: make what the client needs, then accept. */
static void welcome(struct client *client, struct rdma_cm_id *id)
{
	struct rdma_conn_param parameters = { .responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7 };

	printf("a client comes\n");
	client->id = id;
	/* PART 4: accept. (examples/12_cm_server.c)
	 *
	 * Make client->pd, client->completions, client->cq (room for ECHO_WINDOW receives and as many sends) and the
	 * queue pair, and register client->slots. Ask for an event of the completion queue (ibv_req_notify_cq): the
	 * first message must make one. Post a receive for each slot (post_receive). Only then accept, with
	 * `parameters`. */
	if (!(client->pd = ibv_alloc_pd(id->verbs)))
		lab_fail("ibv_alloc_pd: %s", strerror(errno));
	if (!(client->completions = ibv_create_comp_channel(id->verbs)))
		lab_fail("ibv_create_comp_channel: %s", strerror(errno));
	if (!(client->cq = ibv_create_cq(id->verbs, 2 * ECHO_WINDOW, NULL, client->completions, 0)))
		lab_fail("ibv_create_cq: %s", strerror(errno));
	if (ibv_req_notify_cq(client->cq, 0))
		lab_fail("ibv_req_notify_cq failed");

	struct ibv_qp_init_attr kind = { .send_cq = client->cq, .recv_cq = client->cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = ECHO_WINDOW, .max_recv_wr = ECHO_WINDOW, .max_send_sge = 1, .max_recv_sge = 1 } };

	if (rdma_create_qp(id, client->pd, &kind))
		lab_fail("rdma_create_qp: %s", strerror(errno));
	client->mr = ibv_reg_mr(client->pd, client->slots, sizeof(client->slots), IBV_ACCESS_LOCAL_WRITE);
	if (!client->mr)
		lab_fail("ibv_reg_mr: %s", strerror(errno));
	for (uint64_t slot = 0; slot < ECHO_WINDOW; slot++)
		post_receive(client, slot);
	if (rdma_accept(id, &parameters))
		lab_fail("rdma_accept: %s", strerror(errno));
	/* END OF PART 4 */
}

/* The descriptor of client->completions is readable: requests of this client are completed. */
static void take_completions(struct client *client)
{
	/* PART 5: echo. (examples/03_completion_channel.c)
	 *
	 * Take the event (ibv_get_cq_event), acknowledge it, and ask for the next. Then poll until the queue is empty;
	 * in this order, so that what completes in between makes another event. A message that was received goes back
	 * from its slot (post_answer, wc.byte_len bytes). When that send is completed, the slot is free, and not before:
	 * post its receive again. A completion with an error says that the client is gone; its DISCONNECTED will come. */
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(client->completions, &cq, &context))
		lab_fail("ibv_get_cq_event: %s", strerror(errno));
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0))
		lab_fail("ibv_req_notify_cq failed");
	while (ibv_poll_cq(cq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS)
			continue;
		if (wc.opcode == IBV_WC_RECV)
			post_answer(client, wc.wr_id, wc.byte_len);
		else
			post_receive(client, wc.wr_id);
	}
	/* END OF PART 5 */
}

static void farewell(struct server *server, struct client *client)
{
	rdma_destroy_qp(client->id);
	if (ibv_dereg_mr(client->mr) || ibv_destroy_cq(client->cq) || ibv_destroy_comp_channel(client->completions) ||
	    ibv_dealloc_pd(client->pd))
		lab_fail("something of this client is still in use");
	rdma_destroy_id(client->id);
	memset(client, 0, sizeof(*client));
	server->gone++;
	printf("a client has gone\n");
}

/* ---- The server ---- */

static void listen_on(struct server *server, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htobe16(port) };

	server->events = rdma_create_event_channel();
	if (!server->events)
		lab_fail("rdma_create_event_channel: %s", strerror(errno));
	/* PART 1: listen. (examples/12_cm_server.c)
	 *
	 * Create server->listener on server->events (RDMA_PS_TCP), bind it to `address`, and listen. */
	if (rdma_create_id(server->events, &server->listener, NULL, RDMA_PS_TCP))
		lab_fail("rdma_create_id: %s", strerror(errno));
	if (rdma_bind_addr(server->listener, (struct sockaddr *)&address))
		lab_fail("rdma_bind_addr: %s", strerror(errno));
	if (rdma_listen(server->listener, CLIENTS))
		lab_fail("rdma_listen: %s", strerror(errno));
	/* END OF PART 1 */
	if (!server->listener)
		lab_fail("server->listener is not set");
	printf("listening on port %d\n", ntohs(rdma_get_src_port(server->listener)));
}

/* Sleeps until there is news: wait[0].revents says that of connections, wait[1 + i].revents that of client i. */
static void sleep_for_news(struct server *server, struct pollfd wait[1 + CLIENTS])
{
	/* PART 2: sleep.
	 *
	 * One call of poll(2) for all descriptors: server->events->fd, and completions->fd of each client that is there
	 * (client->id is not NULL); poll ignores an entry whose fd is -1. No time limit. */
	wait[0] = (struct pollfd){ .fd = server->events->fd, .events = POLLIN };
	for (unsigned i = 0; i < CLIENTS; i++)
		wait[1 + i] = (struct pollfd){ .fd = server->clients[i].id ? server->clients[i].completions->fd : -1,
					       .events = POLLIN };
	while (poll(wait, 1 + CLIENTS, -1) < 0)
		if (errno != EINTR)
			lab_fail("poll: %s", strerror(errno));
	/* END OF PART 2 */
}

static struct client *client_of(struct server *server, const struct rdma_cm_id *id)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		if (server->clients[i].id == id)
			return &server->clients[i];
	return NULL;
}

static void take_event(struct server *server)
{
	struct rdma_cm_event *event;
	struct client *client;

	if (rdma_get_cm_event(server->events, &event))
		lab_fail("rdma_get_cm_event: %s", strerror(errno));
	printf("event: %s\n", rdma_event_str(event->event));
	/* PART 3: connections.
	 *
	 * CONNECT_REQUEST: event->id is a new id for this client; welcome it in a free place (client_of(server, NULL)),
	 * or rdma_reject it if there is none. DISCONNECTED: rdma_disconnect and farewell(). Every event is acknowledged,
	 * once, and before its id is destroyed; afterwards nothing in it may be looked at. */
	struct rdma_cm_id *id = event->id;
	enum rdma_cm_event_type type = event->event;

	rdma_ack_cm_event(event);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		client = client_of(server, NULL);
		if (client)
			welcome(client, id);
		else
			rdma_reject(id, NULL, 0);
	} else if (type == RDMA_CM_EVENT_DISCONNECTED && (client = client_of(server, id))) {
		rdma_disconnect(id);
		farewell(server, client);
	}
	/* END OF PART 3 */
}

int main(int argc, char **argv)
{
	static struct server server;
	struct pollfd wait[1 + CLIENTS];
	unsigned clients = argc > 2 ? (unsigned)atoi(argv[2]) : 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	listen_on(&server, (uint16_t)(argc > 1 ? atoi(argv[1]) : ECHO_PORT));
	while (clients == 0 || server.gone < clients) {
		sleep_for_news(&server, wait);
		/* Completions first: an event may be that the client leaves. */
		for (unsigned i = 0; i < CLIENTS; i++)
			if (server.clients[i].id && wait[1 + i].revents)
				take_completions(&server.clients[i]);
		if (wait[0].revents)
			take_event(&server);
	}
	rdma_destroy_id(server.listener);
	rdma_destroy_event_channel(server.events);
	printf("served %u clients\n", server.gone);
	return EXIT_SUCCESS;
}
