/* SPDX-License-Identifier: MIT
 *
 * 12: A server that clients find by IP address and port. Its client is 13_cm_client.c.
 *
 *   cc 12_cm_server.c -lrdmacm -libverbs && ./a.out [PORT]
 *
 * So far both ends were in one process and told each other their addresses in a variable. Two machines need to
 * exchange GIDs, queue pair numbers and first PSNs; the connection manager (rdma_cm) does it, with calls that look
 * like those for sockets:
 *
 *   socket   rdma_create_id           connect   rdma_resolve_addr, rdma_resolve_route, rdma_connect
 *   bind     rdma_bind_addr           accept    an event CONNECT_REQUEST, then rdma_accept
 *   listen   rdma_listen              close     rdma_disconnect, rdma_destroy_id
 *
 * Each answer is an event on a channel (a file descriptor), and each event must be acknowledged. rdma_cm also takes the
 * queue pair through INIT, RTR and RTS, with the GID that fits the address: nothing here asks for a GID index.
 *
 * The server serves one client: it turns each message around, letter by letter, and ends when the client disconnects.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include "course.h"

enum { SIZE = 256, RECEIVES = 4 };

struct connection {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	struct buffer in, out;
};

static struct rdma_cm_event *next_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	printf("event: %s\n", rdma_event_str(event->event));
	return event;
}

static void post_one_receive(struct connection *connection, uint64_t slot)
{
	struct ibv_sge piece = piece_of(&connection->in, slot * SIZE, SIZE);

	post_receive(connection->id->qp, slot, &piece, 1);
}

/* A request arrived, and with it a new id that already knows its device. Everything must be ready before rdma_accept:
 * the client may send as soon as it has our answer, and a message that finds no receive has to be repeated. */
static void prepare(struct connection *connection, struct rdma_cm_id *id)
{
	connection->id = id;
	if (!(connection->pd = ibv_alloc_pd(id->verbs)))
		die("ibv_alloc_pd");
	if (!(connection->completions = ibv_create_comp_channel(id->verbs)))
		die("ibv_create_comp_channel");
	if (!(connection->cq = ibv_create_cq(id->verbs, 16, NULL, connection->completions, 0)))
		die("ibv_create_cq");
	if ((errno = ibv_req_notify_cq(connection->cq, 0)))
		die("ibv_req_notify_cq");
	struct ibv_qp_init_attr kind = { .send_cq = connection->cq, .recv_cq = connection->cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1 } };

	if (rdma_create_qp(id, connection->pd, &kind))
		die("rdma_create_qp");
	connection->in = buffer_register(connection->pd, RECEIVES * SIZE, IBV_ACCESS_LOCAL_WRITE);
	connection->out = buffer_register(connection->pd, RECEIVES * SIZE, 0);
	for (uint64_t slot = 0; slot < RECEIVES; slot++)
		post_one_receive(connection, slot);
}

/* Each slot has a place of its own for the answer: a buffer that is being sent belongs to the adapter until its send has completed, and
 * the client may ask again before that. Only then does the slot's receive go back (serve), so that no slot is answered twice at a time. */
static void answer(struct connection *connection, const struct ibv_wc *received)
{
	const char *text = connection->in.bytes + received->wr_id * SIZE;
	char *reply = connection->out.bytes + received->wr_id * SIZE;
	struct ibv_sge piece = piece_of(&connection->out, received->wr_id * SIZE, received->byte_len);
	struct ibv_send_wr send = { .wr_id = received->wr_id, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };

	printf("the client says: %.*s\n", (int)received->byte_len, text);
	for (uint32_t i = 0; i < received->byte_len; i++)
		reply[i] = text[received->byte_len - 1 - i];
	post_send(connection->id->qp, &send);
}

/* Completions and connection events come by two descriptors, so wait for either (03 explains the first kind). That
 * the client is gone is an event and nothing else by RoCE: nothing happens to our queue pair until we call rdma_disconnect
 * ourselves. By iWARP the queue pair ends with the client's TCP connection, and receives that are left are flushed: then the
 * event is on its way. */
static int serve(struct connection *connection, struct rdma_event_channel *channel)
{
	struct pollfd wait[2] = { { .fd = channel->fd, .events = POLLIN },
				  { .fd = connection->completions->fd, .events = POLLIN } };
	int answered = 0;

	for (;;) {
		struct ibv_wc completion;
		struct ibv_cq *cq;
		void *context;

		while (ibv_poll_cq(connection->cq, 1, &completion) > 0) {
			if (completion.status == IBV_WC_WR_FLUSH_ERR)
				return answered;
			if (completion.status != IBV_WC_SUCCESS)
				die("%s", ibv_wc_status_str(completion.status));
			if (completion.opcode == IBV_WC_RECV) {
				answer(connection, &completion);
				answered++;
			} else {
				post_one_receive(connection, completion.wr_id);
			}
		}
		if (poll(wait, 2, -1) < 0)
			die("poll");
		if (wait[0].revents)
			return answered;
		if (ibv_get_cq_event(connection->completions, &cq, &context))
			die("ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		if ((errno = ibv_req_notify_cq(cq, 0)))
			die("ibv_req_notify_cq");
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 7471)) };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param parameters = { .responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7 };
	struct connection connection;
	struct rdma_cm_id *listener;
	struct rdma_cm_event *event;
	int answered;

	if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	/* The address is 0.0.0.0: every device. */
	if (rdma_bind_addr(listener, (struct sockaddr *)&address))
		die("rdma_bind_addr");
	if (rdma_listen(listener, 4))
		die("rdma_listen");
	printf("listening on port %d\n", ntohs(rdma_get_src_port(listener)));
	fflush(stdout);

	event = next_event(channel);
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		die("no CONNECT_REQUEST");
	prepare(&connection, event->id);
	if (rdma_accept(connection.id, &parameters))
		die("rdma_accept");
	rdma_ack_cm_event(event);
	event = next_event(channel);
	if (event->event != RDMA_CM_EVENT_ESTABLISHED)
		die("not ESTABLISHED");
	rdma_ack_cm_event(event);

	answered = serve(&connection, channel);
	event = next_event(channel);
	if (event->event != RDMA_CM_EVENT_DISCONNECTED)
		die("not DISCONNECTED");
	rdma_ack_cm_event(event);
	if (rdma_disconnect(connection.id))
		die("rdma_disconnect");
	printf("answered %d messages\n", answered);

	rdma_destroy_qp(connection.id);
	buffer_release(&connection.in);
	buffer_release(&connection.out);
	if ((errno = ibv_destroy_cq(connection.cq)) || (errno = ibv_destroy_comp_channel(connection.completions)) ||
	    (errno = ibv_dealloc_pd(connection.pd)))
		die("closing");
	if (rdma_destroy_id(connection.id) || rdma_destroy_id(listener))
		die("rdma_destroy_id");
	rdma_destroy_event_channel(channel);
	return EXIT_SUCCESS;
}
