/* SPDX-License-Identifier: MIT
 *
 * The file lab: what a connection needs before it can be made, for both sides. It is made when the device is known, and given
 * back in the opposite order.
 */
#include "lab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Completions that can be waiting at a time: all WRITEs, a message, a probe, and all receives. */
enum { COMPLETIONS = LAB_WRITES + 2 + LAB_RECEIVES };

static void make_completion_queue(struct lab_connection *connection, struct ibv_context *device)
{
	/* PART 7: protection domain and completion queue. (examples/02_first_send.c, 03_completion_channel.c)
	 *
	 * Make connection->pd, connection->completions (a completion channel: lab_wait sleeps on its descriptor) and
	 * connection->cq, with room for COMPLETIONS, which reports to that channel. */
	if (!(connection->pd = ibv_alloc_pd(device)))
		lab_fail("ibv_alloc_pd: %s", strerror(errno));
	if (!(connection->completions = ibv_create_comp_channel(device)))
		lab_fail("ibv_create_comp_channel: %s", strerror(errno));
	connection->cq = ibv_create_cq(device, COMPLETIONS, NULL, connection->completions, 0);
	if (!connection->cq)
		lab_fail("ibv_create_cq: %s", strerror(errno));
	/* END OF PART 7 */
	if (!connection->pd || !connection->completions || !connection->cq)
		lab_fail("connection->pd, ->completions or ->cq is not set");
	printf("completion queue: %d entries, %s\n", connection->cq->cqe,
	       connection->cq->channel == connection->completions ? "events to the channel" : "no channel");
}

static void make_queue_pair(struct lab_connection *connection)
{
	struct ibv_qp_attr state;
	struct ibv_qp_init_attr made;

	/* PART 8: queue pair. (examples/12_cm_server.c)
	 *
	 * rdma_create_qp for connection->id: RC, both completion queues connection->cq, room for LAB_WRITES WRITEs, a
	 * message and a probe, and for LAB_RECEIVES receives; one piece each. rdma_cm takes it to INIT. */
	struct ibv_qp_init_attr kind = { .send_cq = connection->cq, .recv_cq = connection->cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = LAB_WRITES + 2, .max_send_sge = 1,
			 .max_recv_wr = LAB_RECEIVES, .max_recv_sge = 1 } };

	if (rdma_create_qp(connection->id, connection->pd, &kind))
		lab_fail("rdma_create_qp: %s", strerror(errno));
	/* END OF PART 8 */
	if (!connection->id->qp || ibv_query_qp(connection->id->qp, &state, IBV_QP_STATE, &made))
		lab_fail("connection->id has no queue pair");
	printf("queue pair: %u sends, %u receives\n", made.cap.max_send_wr, made.cap.max_recv_wr);
}

static void make_messages(struct lab_connection *connection)
{
	connection->messages = calloc(LAB_RECEIVES + 1, sizeof(struct lab_message));
	if (!connection->messages)
		lab_fail("out of memory");
	/* PART 9: memory of the messages. (examples/02_first_send.c)
	 *
	 * Register all LAB_RECEIVES + 1 messages as connection->messages_mr; the adapter writes into those that are
	 * received. Then post a receive for each slot but the last, which is sent from (lab_post_receive): before the
	 * connection stands, as the peer may send as soon as it does. */
	connection->messages_mr = ibv_reg_mr(connection->pd, connection->messages,
					     (LAB_RECEIVES + 1) * sizeof(struct lab_message), IBV_ACCESS_LOCAL_WRITE);
	if (!connection->messages_mr)
		lab_fail("ibv_reg_mr: %s", strerror(errno));
	for (unsigned slot = 0; slot < LAB_RECEIVES; slot++)
		lab_post_receive(connection, slot);
	/* END OF PART 9 */
	if (!connection->messages_mr)
		lab_fail("connection->messages_mr is not set");
	printf("messages: %u receives posted\n", connection->receives_posted);
}

void lab_prepare(struct lab_connection *connection)
{
	uint8_t patience = LAB_ACK_TIMEOUT;

	printf("device: %s\n", ibv_get_device_name(connection->id->verbs->device));
	/* rdma_cm's own choice is several times as patient. A system too old to be asked keeps it. */
	(void)rdma_set_option(connection->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &patience, sizeof(patience));
	make_completion_queue(connection, connection->id->verbs);
	make_queue_pair(connection);
	make_messages(connection);
}

void lab_close(struct lab_connection *connection)
{
	rdma_destroy_qp(connection->id);
	ibv_dereg_mr(connection->messages_mr);
	free(connection->messages);
	ibv_destroy_cq(connection->cq);
	ibv_destroy_comp_channel(connection->completions);
	ibv_dealloc_pd(connection->pd);
	rdma_destroy_id(connection->id);
}
