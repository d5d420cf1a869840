/* SPDX-License-Identifier: MIT
 *
 * 14: Asynchronous events: what an adapter has to say that belongs to no request.
 *
 *   cc 14_async_events.c -libverbs && ./a.out [DEVICE]
 *
 * A completion answers a request. But a cable is pulled, a queue runs low, a peer breaks a rule: no request of ours
 * asked about that. Such news comes by the context's async_fd. Read one with ibv_get_async_event, and acknowledge
 * every one: destroying an object waits for its events to be acknowledged.
 *
 * Three events provoked here, and what they are good for:
 *
 *   SRQ_LIMIT_REACHED     the shared receive queue has fewer buffers than the limit we set: post more. Fires once, then
 *                         must be armed again
 *   QP_LAST_WQE_REACHED   a queue pair with an SRQ is in error and takes no more buffers: now it may be destroyed
 *   QP_ACCESS_ERR         a peer tried to touch memory it may not touch; our queue pair went into error state
 *
 * Others to expect on hardware: PORT_ERR and PORT_ACTIVE (the cable), GID_CHANGE (an address), DEVICE_FATAL.
 */
#include <poll.h>

#include "course.h"

/* The next event within 5 seconds, acknowledged; the object it is about is given by the caller, who knows what to
 * expect. */
static void expect(const struct device *device, enum ibv_event_type wanted)
{
	struct pollfd entry = { .fd = device->context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	enum ibv_event_type type;

	for (;;) {
		int ready = poll(&entry, 1, 5000);

		if (ready < 0)
			die("poll");
		errno = 0;
		if (ready == 0)
			die("%s did not come", ibv_event_type_str(wanted));
		if (ibv_get_async_event(device->context, &event))
			die("ibv_get_async_event");
		type = event.event_type;
		/* event.element says which object: .qp, .srq, .cq or .port_num, as the type demands. */
		if (type == IBV_EVENT_SRQ_LIMIT_REACHED)
			printf("event: %s, of SRQ %p\n", ibv_event_type_str(type), (void *)event.element.srq);
		else if (type == IBV_EVENT_QP_LAST_WQE_REACHED || type == IBV_EVENT_QP_ACCESS_ERR ||
			 type == IBV_EVENT_COMM_EST)
			printf("event: %s, of queue pair 0x%06x\n", ibv_event_type_str(type), event.element.qp->qp_num);
		else
			printf("event: %s\n", ibv_event_type_str(type));
		ibv_ack_async_event(&event);
		/* Events may be mixed with others: an address of the interface may change just now. */
		if (type == wanted)
			return;
	}
}

static void post_to_srq(struct ibv_srq *srq, struct ibv_sge *piece)
{
	struct ibv_recv_wr request = { .sg_list = piece, .num_sge = 1 }, *refused;

	if ((errno = ibv_post_srq_recv(srq, &request, &refused)))
		die("ibv_post_srq_recv");
}

int main(int argc, char **argv)
{
	struct device device = open_device(argc > 1 ? argv[1] : NULL);
	struct side client = side_open(&device), server = side_open(&device);
	struct ibv_srq_init_attr kind = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(server.pd, &kind);

	if (!srq)
		die("ibv_create_srq");
	/* The server's queue pair: one that uses the SRQ. */
	if ((errno = ibv_destroy_qp(server.qp)))
		die("ibv_destroy_qp");
	server.qp = create_qp(server.pd, server.cq, srq);
	sides_connect(&device, &client, &server);

	struct buffer words = buffer_register(client.pd, 64, 0),
		      pool = buffer_register(server.pd, 64, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge full = piece_of(&words, 0, 64), empty = piece_of(&pool, 0, 64);
	struct ibv_send_wr send = {
		.sg_list = &full, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};

	/* 1. Four buffers, and the wish to be told when fewer than three are left. */
	struct ibv_srq_attr limit = { .srq_limit = 3 };

	for (int i = 0; i < 4; i++)
		post_to_srq(srq, &empty);
	if ((errno = ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT)))
		die("ibv_modify_srq");
	for (int i = 0; i < 2; i++) {
		post_send(client.qp, &send);
		wait_completion(client.cq, "send");
		wait_completion(server.cq, "receive");
		printf("%d messages taken, %d buffers left\n", i + 1, 3 - i);
	}
	expect(&device, IBV_EVENT_SRQ_LIMIT_REACHED);

	/* 2. The client writes with a key that means nothing to the server. Its own completion says so; the server,
	 * whose program did nothing, learns it by an event. */
	struct ibv_send_wr write = { .sg_list = &full,
				     .num_sge = 1,
				     .opcode = IBV_WR_RDMA_WRITE,
				     .send_flags = IBV_SEND_SIGNALED,
				     .wr.rdma = { .remote_addr = (uintptr_t)pool.bytes, .rkey = pool.mr->rkey } };

	printf("the client writes to memory that is registered for local use only\n");
	post_send(client.qp, &write);

	struct ibv_wc completion = wait_any_completion(client.cq, "RDMA WRITE");

	printf("the client's completion: %s\n", ibv_wc_status_str(completion.status));
	if (completion.status != IBV_WC_REM_ACCESS_ERR)
		die("that should have been refused");
	expect(&device, IBV_EVENT_QP_ACCESS_ERR);

	/* 3. The server's queue pair is in error now. Buffers it took from the SRQ and has not returned would be lost
	 * if it were destroyed at once; after this event there are none. */
	expect(&device, IBV_EVENT_QP_LAST_WQE_REACHED);

	buffer_release(&words);
	buffer_release(&pool);
	side_close(&client);
	if ((errno = ibv_destroy_qp(server.qp)))
		die("ibv_destroy_qp");
	server.qp = NULL;
	if ((errno = ibv_destroy_srq(srq)))
		die("ibv_destroy_srq");
	side_close(&server);
	close_device(&device);
	return EXIT_SUCCESS;
}
