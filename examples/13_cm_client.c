/* SPDX-License-Identifier: MIT
 *
 * 13: The client of 12_cm_server.c: connect by IP address and port, send a few messages, disconnect.
 *
 *   cc 13_cm_client.c -lrdmacm -libverbs && ./a.out ADDRESS [PORT]
 *
 * Three steps lead to a connection, and each can fail for a reason of its own:
 *
 *   rdma_resolve_addr    which device and GID lead to that address?   ADDR_ERROR: no RDMA device on the way there
 *   rdma_resolve_route   how does one get there?                      ROUTE_ERROR
 *   rdma_connect         does somebody listen, and does he want us?   REJECTED: nobody, or he said no
 *                                                                     UNREACHABLE: no answer at all
 */
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include "course.h"

enum { SIZE = 256 };

/* The wanted event, or an explanation. */
static void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	printf("event: %s\n", rdma_event_str(event->event));
	if (event->event != wanted) {
		/* Of a rejection, status holds the CM's reason, which is no errno: 8 says that nobody listens there,
		 * 28 that the program at the other end refused. */
		errno = event->event == RDMA_CM_EVENT_REJECTED || event->status > 0 ? 0 : -event->status;
		die("expected %s (status %d)", rdma_event_str(wanted), event->status);
	}
	rdma_ack_cm_event(event);
}

static struct addrinfo *look_up(const char *name, const char *port)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *found;
	int error = getaddrinfo(name, port, &hints, &found);

	errno = 0;
	if (error)
		die("%s port %s: %s", name, port, gai_strerror(error));
	return found;
}

/* Sends a text and waits for what comes back. */
static void converse(struct rdma_cm_id *id, struct ibv_cq *cq, struct buffer *in, struct buffer *out, const char *text)
{
	struct ibv_sge empty = piece_of(in, 0, SIZE), full = piece_of(out, 0, strlen(text));
	struct ibv_send_wr send = { .wr_id = 1, .sg_list = &full, .num_sge = 1, .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };
	size_t length = strlen(text), received = 0;

	/* The receive for the answer comes before the question. */
	post_receive(id->qp, 2, &empty, 1);
	memcpy(out->bytes, text, length);
	post_send(id->qp, &send);
	for (int done = 0; done < 2; done++) {
		struct ibv_wc completion = wait_completion(cq, "talking to the server");

		if (completion.wr_id == 2)
			received = completion.byte_len;
	}
	printf("%s -> %.*s\n", text, (int)received, in->bytes);
	for (size_t i = 0; i < length; i++)
		if (received != length || in->bytes[i] != text[length - 1 - i])
			die("the server did not turn it around");
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	/* responder_resources and initiator_depth are max_dest_rd_atomic and max_rd_atomic of 05: READs and atomics
	 * under way. */
	struct rdma_conn_param parameters = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7,
					      .rnr_retry_count = 7 };
	struct rdma_cm_id *id;
	struct addrinfo *server;

	if (argc < 2) {
		fprintf(stderr, "Usage: %s ADDRESS [PORT]\n", argv[0]);
		return 2;
	}
	server = look_up(argv[1], argc > 2 ? argv[2] : "7471");
	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		die("rdma_create_id");

	if (rdma_resolve_addr(id, NULL, server->ai_addr, 2000))
		die("rdma_resolve_addr");
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	freeaddrinfo(server);
	printf("we go by %s\n", ibv_get_device_name(id->verbs->device));
	if (rdma_resolve_route(id, 2000))
		die("rdma_resolve_route");
	expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);

	struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr kind = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };

	if (!pd || !cq)
		die("ibv_alloc_pd or ibv_create_cq");
	if (rdma_create_qp(id, pd, &kind))
		die("rdma_create_qp");

	struct buffer in = buffer_register(pd, SIZE, IBV_ACCESS_LOCAL_WRITE), out = buffer_register(pd, SIZE, 0);

	if (rdma_connect(id, &parameters))
		die("rdma_connect");
	expect(channel, RDMA_CM_EVENT_ESTABLISHED);

	converse(id, cq, &in, &out, "a drawer is no reward");
	converse(id, cq, &in, &out, "remote direct memory access");
	converse(id, cq, &in, &out, "was it a car or a cat I saw");

	if (rdma_disconnect(id))
		die("rdma_disconnect");
	expect(channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	buffer_release(&in);
	buffer_release(&out);
	if ((errno = ibv_destroy_cq(cq)) || (errno = ibv_dealloc_pd(pd)))
		die("closing");
	if (rdma_destroy_id(id))
		die("rdma_destroy_id");
	rdma_destroy_event_channel(channel);
	return EXIT_SUCCESS;
}
