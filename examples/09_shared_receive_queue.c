/* SPDX-License-Identifier: MIT
 *
 * 09: A shared receive queue: one pool of buffers for many connections.
 *
 *   cc 09_shared_receive_queue.c -libverbs && ./a.out [DEVICE]
 *
 * A server with a thousand clients does not know who speaks next. With a receive queue for each connection it would
 * need a thousand times the buffers for the busiest; with a shared receive queue (SRQ) it needs as many as may be
 * under way in all. Each message, whoever sends it, takes the next buffer; the completion says which buffer (wr_id)
 * and whose message (qp_num).
 */
#include "course.h"

enum { CLIENTS = 3, BUFFERS = 4, SIZE = 64 };

struct server {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp[CLIENTS];
	struct buffer pool;
};

static void give_buffer(struct server *server, uint64_t number)
{
	struct ibv_sge piece = piece_of(&server->pool, number * SIZE, SIZE);
	struct ibv_recv_wr request = { .wr_id = number, .sg_list = &piece, .num_sge = 1 }, *refused;

	/* Not ibv_post_recv: a queue pair with an SRQ has no receive queue of its own, and answers EINVAL. */
	if ((errno = ibv_post_srq_recv(server->srq, &request, &refused)))
		die("ibv_post_srq_recv");
}

static void open_server(const struct device *device, struct server *server)
{
	struct ibv_srq_init_attr attributes = { .attr = { .max_wr = BUFFERS, .max_sge = 1 } };

	if (!(server->pd = ibv_alloc_pd(device->context)))
		die("ibv_alloc_pd");
	if (!(server->cq = ibv_create_cq(device->context, 16, NULL, NULL, 0)))
		die("ibv_create_cq");
	if (!(server->srq = ibv_create_srq(server->pd, &attributes)))
		die("ibv_create_srq");
	for (int i = 0; i < CLIENTS; i++)
		server->qp[i] = create_qp(server->pd, server->cq, server->srq);
	server->pool = buffer_register(server->pd, BUFFERS * SIZE, IBV_ACCESS_LOCAL_WRITE);
	for (uint64_t i = 0; i < BUFFERS; i++)
		give_buffer(server, i);
	printf("the server has %d connections and %d buffers for all of them\n", CLIENTS, BUFFERS);
}

static void close_server(struct server *server)
{
	/* The SRQ goes after the queue pairs that use it. */
	for (int i = 0; i < CLIENTS; i++)
		if ((errno = ibv_destroy_qp(server->qp[i])))
			die("ibv_destroy_qp");
	if ((errno = ibv_destroy_srq(server->srq)))
		die("ibv_destroy_srq");
	if ((errno = ibv_destroy_cq(server->cq)))
		die("ibv_destroy_cq");
	buffer_release(&server->pool);
	if ((errno = ibv_dealloc_pd(server->pd)))
		die("ibv_dealloc_pd");
}

/* Which client is at the other end of that queue pair? */
static int client_of(const struct server *server, uint32_t qp_number)
{
	for (int i = 0; i < CLIENTS; i++)
		if (server->qp[i]->qp_num == qp_number)
			return i;
	die("a completion of an unknown queue pair 0x%x", qp_number);
}

int main(int argc, char **argv)
{
	struct device device = open_device(argc > 1 ? argv[1] : NULL);
	struct side client[CLIENTS];
	struct buffer words[CLIENTS];
	struct server server;
	int heard[CLIENTS] = { 0 };

	open_server(&device, &server);
	for (int i = 0; i < CLIENTS; i++) {
		client[i] = side_open(&device);
		words[i] = buffer_register(client[i].pd, SIZE, 0);
		connect_qp(&device, client[i].qp, address_of(&device, server.qp[i]));
		connect_qp(&device, server.qp[i], address_of(&device, client[i].qp));
	}

	/* Client 0 says one thing, client 1 two, client 2 three: six messages through four buffers. */
	for (int i = 0; i < CLIENTS; i++)
		for (int message = 0; message <= i; message++) {
			struct ibv_sge piece = piece_of(&words[i], 0, SIZE);
			struct ibv_send_wr send = { .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND,
						    .send_flags = IBV_SEND_SIGNALED };

			snprintf(words[i].bytes, SIZE, "message %d of client %d", message, i);
			post_send(client[i].qp, &send);
			wait_completion(client[i].cq, "send");

			struct ibv_wc completion = wait_completion(server.cq, "receive");
			int who = client_of(&server, completion.qp_num);

			printf("buffer %lu, queue pair of client %d: %s\n", (unsigned long)completion.wr_id, who,
			       server.pool.bytes + completion.wr_id * SIZE);
			heard[who]++;
			/* Read it, then give the buffer back to the pool. */
			give_buffer(&server, completion.wr_id);
		}
	for (int i = 0; i < CLIENTS; i++)
		if (heard[i] != i + 1)
			die("client %d was heard %d times", i, heard[i]);

	for (int i = 0; i < CLIENTS; i++) {
		buffer_release(&words[i]);
		side_close(&client[i]);
	}
	close_server(&server);
	close_device(&device);
	return EXIT_SUCCESS;
}
