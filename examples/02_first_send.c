/* SPDX-License-Identifier: MIT
 *
 * 02: One message from one queue pair to another, with every step written out.
 *
 *   cc 02_first_send.c -libverbs && ./a.out [DEVICE [GID_INDEX]]
 *
 * A SEND is the simplest thing RDMA can do: the receiver gives the adapter an empty buffer (ibv_post_recv), the
 * sender gives it a full one (ibv_post_send), and both are told when it is over (ibv_poll_cq). No system call moves
 * data, and nothing is copied into a kernel. In the words of the trade:
 *
 *   protection domain (PD)   a fence: queue pairs can only use memory registered within the same one
 *   memory region (MR)       memory the adapter may touch; its L_Key goes into every request that names it
 *   completion queue (CQ)    where the adapter says what is done ("cookies", CQEs)
 *   queue pair (QP)          a send queue and a receive queue, where requests go ("wookies", WQEs)
 *
 * Both ends are in this process, with one PD and CQ for both, to keep the first program short.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 1, FIRST_PSN = 1000 };

static void stop(const char *what, int reason)
{
	fprintf(stderr, "%s: %s\n", what, strerror(reason));
	exit(EXIT_FAILURE);
}

/* Step 1. The device named, or the first. */
static struct ibv_context *open_device(const char *name)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = NULL;

	if (!list)
		stop("ibv_get_device_list", errno);
	for (int i = 0; i < count && !context; i++)
		if (!name || !strcmp(name, ibv_get_device_name(list[i])))
			context = ibv_open_device(list[i]);
	if (!context)
		stop("no such device could be opened", ENODEV);
	printf("1. opened %s\n", ibv_get_device_name(context->device));
	ibv_free_device_list(list);
	return context;
}

/* Step 4. How many requests may wait in each queue is fixed here. */
static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attributes = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attributes);

	if (!qp)
		stop("ibv_create_qp", errno);
	printf("4. created queue pair number 0x%06x\n", qp->qp_num);
	return qp;
}

/* Step 5. A queue pair is born in RESET. INIT ties it to a port; RTR (ready to receive) tells it who the peer is and
 * from which packet number (PSN) to expect it; RTS (ready to send) adds how patient to be when acknowledgements do
 * not come. */
static void connect_to(struct ibv_qp *qp, uint32_t peer_number, const union ibv_gid *peer_gid, int gid_index,
		       const struct ibv_port_attr *port)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = PORT };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = port->active_mtu, .dest_qp_num = peer_number,
		.rq_psn = FIRST_PSN, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		/* dlid matters on InfiniBand only; RoCE goes by the GIDs. */
		.ah_attr = { .is_global = 1, .dlid = port->lid, .port_num = PORT,
			     .grh = { .dgid = *peer_gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64 } } };
	/* timeout 14 is 4.096 us * 2^14 = 67 ms before a packet is repeated, 7 times. rnr_retry 7 means: for ever. */
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .sq_psn = FIRST_PSN,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = 1 };
	int error;

	if ((error = ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)))
		stop("to INIT", error);
	if ((error = ibv_modify_qp(qp, &rtr,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)))
		stop("to RTR", error);
	if ((error = ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)))
		stop("to RTS", error);
	printf("5. 0x%06x is connected to 0x%06x\n", qp->qp_num, peer_number);
}

/* Step 8. Two completions: the send is done (the peer has acknowledged it), the receive is done (a message is
 * there). */
static void poll_until_both_are_done(struct ibv_cq *cq)
{
	for (int done = 0; done < 2;) {
		struct ibv_wc completion;
		int count = ibv_poll_cq(cq, 1, &completion);

		if (count < 0)
			stop("ibv_poll_cq", EIO);
		if (count == 0)
			continue;
		if (completion.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "request %lu failed: %s\n", (unsigned long)completion.wr_id,
				ibv_wc_status_str(completion.status));
			exit(EXIT_FAILURE);
		}
		if (completion.opcode == IBV_WC_RECV)
			printf("8. received %u bytes (request %lu)\n", completion.byte_len,
			       (unsigned long)completion.wr_id);
		else
			printf("8. sent (request %lu)\n", (unsigned long)completion.wr_id);
		done++;
	}
}

int main(int argc, char **argv)
{
	static char outgoing[64] = "Hello, memory of somebody else!", incoming[64];
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index = argc > 2 ? atoi(argv[2]) : 0, error;

	/* Step 2. Who are we on the network? 01_devices shows which GIDs there are, and which of them are RoCE v2. */
	if ((error = ibv_query_port(context, PORT, &port)))
		stop("ibv_query_port", error);
	if (ibv_query_gid(context, PORT, gid_index, &gid))
		stop("ibv_query_gid", errno);
	printf("2. port %d is %s\n", PORT, ibv_port_state_str(port.state));

	/* Step 3. A fence, and memory within it. Receiving means that the adapter writes: LOCAL_WRITE. */
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *outgoing_mr = pd ? ibv_reg_mr(pd, outgoing, sizeof(outgoing), 0) : NULL;
	struct ibv_mr *incoming_mr = pd ? ibv_reg_mr(pd, incoming, sizeof(incoming), IBV_ACCESS_LOCAL_WRITE) : NULL;
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);

	if (!pd || !outgoing_mr || !incoming_mr || !cq)
		stop("ibv_alloc_pd, ibv_reg_mr or ibv_create_cq", errno);
	printf("3. registered two buffers: L_Keys 0x%x and 0x%x\n", outgoing_mr->lkey, incoming_mr->lkey);

	struct ibv_qp *sender = create_qp(pd, cq), *receiver = create_qp(pd, cq);

	connect_to(sender, receiver->qp_num, &gid, gid_index, &port);
	connect_to(receiver, sender->qp_num, &gid, gid_index, &port);

	/* Step 6. First the receiver: a message that finds no buffer has to be sent again. wr_id is ours, to tell
	 * requests apart. */
	struct ibv_sge empty = { (uintptr_t)incoming, sizeof(incoming), incoming_mr->lkey };
	struct ibv_recv_wr receive = { .wr_id = 1, .sg_list = &empty, .num_sge = 1 }, *refused_receive;

	if ((error = ibv_post_recv(receiver, &receive, &refused_receive)))
		stop("ibv_post_recv", error);
	printf("6. posted a receive\n");

	/* Step 7. IBV_SEND_SIGNALED asks for a completion. */
	struct ibv_sge full = { (uintptr_t)outgoing, (uint32_t)strlen(outgoing) + 1, outgoing_mr->lkey };
	struct ibv_send_wr send = { .wr_id = 2, .sg_list = &full, .num_sge = 1, .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED }, *refused_send;

	if ((error = ibv_post_send(sender, &send, &refused_send)))
		stop("ibv_post_send", error);
	printf("7. posted a send\n");

	poll_until_both_are_done(cq);
	printf("   the message: %s\n", incoming);

	/* Step 9. Back in the reverse order; what is still used by something else answers EBUSY. */
	if ((error = ibv_destroy_qp(sender)) || (error = ibv_destroy_qp(receiver)) || (error = ibv_destroy_cq(cq)) ||
	    (error = ibv_dereg_mr(outgoing_mr)) || (error = ibv_dereg_mr(incoming_mr)) ||
	    (error = ibv_dealloc_pd(pd)) || (error = ibv_close_device(context)))
		stop("giving back", error);
	printf("9. gave everything back\n");
	return strcmp(incoming, outgoing) ? EXIT_FAILURE : EXIT_SUCCESS;
}
