/* SPDX-License-Identifier: MIT
 *
 * 10: Unreliable datagrams (UD): one queue pair that talks to anybody.
 *
 *   cc 10_datagram.c -libverbs && ./a.out [DEVICE]
 *
 * A UD queue pair is not connected. Each send says where it goes: an address handle (AH: which port), the number of
 * the far queue pair, and its Q_Key, which the receiver compares with its own and drops the datagram silently if they
 * differ. Like UDP: nothing is repeated, nothing is promised, and a message has to fit into one packet (the path's
 * MTU).
 *
 * What surprises everybody once: every receive begins with 40 bytes of Global Routing Header (GRH), whether they mean
 * anything or not. Post buffers that are 40 bytes longer than the message. byte_len counts them, too.
 */
#include <arpa/inet.h>

#include "course.h"

enum { GRH = 40, SIZE = 256, Q_KEY = 0x1ee7 };

struct party {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct buffer in, out;
};

static struct party open_party(const struct device *device)
{
	struct party party;

	if (!(party.pd = ibv_alloc_pd(device->context)))
		die("ibv_alloc_pd");
	if (!(party.cq = ibv_create_cq(device->context, 8, NULL, NULL, 0)))
		die("ibv_create_cq");

	struct ibv_qp_init_attr kind = { .send_cq = party.cq, .recv_cq = party.cq, .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
	/* The same three states, with less to say: there is no peer yet. */
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = device->port, .qkey = Q_KEY };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR }, rts = { .qp_state = IBV_QPS_RTS };

	if (!(party.qp = ibv_create_qp(party.pd, &kind)))
		die("ibv_create_qp");
	if ((errno = ibv_modify_qp(party.qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)))
		die("to INIT");
	if ((errno = ibv_modify_qp(party.qp, &rtr, IBV_QP_STATE)))
		die("to RTR");
	if ((errno = ibv_modify_qp(party.qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN)))
		die("to RTS");
	party.in = buffer_register(party.pd, GRH + SIZE, IBV_ACCESS_LOCAL_WRITE);
	party.out = buffer_register(party.pd, SIZE, 0);
	return party;
}

static void close_party(struct party *party)
{
	buffer_release(&party->in);
	buffer_release(&party->out);
	if ((errno = ibv_destroy_qp(party->qp)) || (errno = ibv_destroy_cq(party->cq)) ||
	    (errno = ibv_dealloc_pd(party->pd)))
		die("closing");
}

static void listen_for_one(struct party *party)
{
	struct ibv_sge piece = piece_of(&party->in, 0, GRH + SIZE);

	post_receive(party->qp, 1, &piece, 1);
}

static void say(struct party *party, struct ibv_ah *to, uint32_t qp_number, uint32_t q_key, const char *text)
{
	struct ibv_sge piece = piece_of(&party->out, 0, strlen(text) + 1);
	struct ibv_send_wr send = { .sg_list = &piece,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED,
				    .wr.ud = { .ah = to, .remote_qpn = qp_number, .remote_qkey = q_key } };

	strcpy(party->out.bytes, text);
	post_send(party->qp, &send);
	/* This completion says that the datagram has left, and nothing of its arrival. */
	wait_completion(party->cq, "datagram");
}

int main(int argc, char **argv)
{
	struct device device = open_device(argc > 1 ? argv[1] : NULL);
	struct party ada = open_party(&device), bob = open_party(&device);
	struct ibv_ah_attr to_bob = { .is_global = 1, .dlid = device.port_attributes.lid, .port_num = device.port,
		.grh = { .dgid = device.gid, .sgid_index = (uint8_t)device.gid_index, .hop_limit = 64 } };
	struct ibv_ah *bobs_port = ibv_create_ah(ada.pd, &to_bob), *back;
	struct ibv_wc completion;

	if (!bobs_port)
		die("ibv_create_ah");
	listen_for_one(&bob);

	/* With the wrong Q_Key: sent, as far as ada can know; never received. */
	say(&ada, bobs_port, bob.qp->qp_num, Q_KEY + 1, "you will not read this");
	say(&ada, bobs_port, bob.qp->qp_num, Q_KEY, "hello bob");
	completion = wait_completion(bob.cq, "bob's receive");
	printf("bob got %u bytes, %u of them text: %s\n", completion.byte_len, completion.byte_len - GRH,
	       bob.in.bytes + GRH);
	if (strcmp(bob.in.bytes + GRH, "hello bob"))
		die("that is not what ada said last");

	/* Who was it? The completion has the queue pair's number, the GRH has the address, and this makes an AH of
	 * both. With IPv4, the second half of those 40 bytes is the IPv4 header that was on the wire. */
	if (!(completion.wc_flags & IBV_WC_GRH))
		die("RoCE datagrams always have a GRH");
	printf("it came from queue pair 0x%06x (ada's is 0x%06x)\n", completion.src_qp, ada.qp->qp_num);
	back = ibv_create_ah_from_wc(bob.pd, &completion, (struct ibv_grh *)bob.in.bytes, device.port);
	if (!back)
		die("ibv_create_ah_from_wc");
	listen_for_one(&ada);
	say(&bob, back, completion.src_qp, Q_KEY, "hello ada");
	completion = wait_completion(ada.cq, "ada's receive");
	printf("ada got: %s\n", ada.in.bytes + GRH);
	if (completion.src_qp != bob.qp->qp_num || strcmp(ada.in.bytes + GRH, "hello ada"))
		die("that is not bob's answer");

	if ((errno = ibv_destroy_ah(bobs_port)) || (errno = ibv_destroy_ah(back)))
		die("ibv_destroy_ah");
	close_party(&ada);
	close_party(&bob);
	close_device(&device);
	return EXIT_SUCCESS;
}
