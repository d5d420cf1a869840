/* SPDX-License-Identifier: MIT
 *
 * 11: Multicast: one datagram, every member of a group.
 *
 *   cc 11_multicast.c -lrdmacm -libverbs && ./a.out [LOCAL_ADDRESS]
 *
 * A UD queue pair can be attached to a group. Joining takes two things: the network has to carry the group's packets
 * to us (IGMP on RoCE, the subnet manager on InfiniBand), and the adapter has to copy them to our queue pair
 * (ibv_attach_mcast). rdma_cm does both in rdma_join_multicast, and its event brings what a sender needs: an address
 * handle's attributes and a Q_Key. Messages go to queue pair number 0xffffff, which stands for all members.
 *
 * LOCAL_ADDRESS is an IP address of the interface to use: 127.0.0.1 (Verbena has a device there) unless you say
 * otherwise.
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include "course.h"

enum { MEMBERS = 3, GRH = 40, SIZE = 128 };

struct member {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_ah *group;
	uint32_t group_qp, group_q_key;
	struct buffer buffer;
};

/* rdma_cm works with events: each call starts something, an event says how it ended. */
static struct rdma_cm_event *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	if (event->event != wanted) {
		errno = event->status < 0 ? -event->status : 0;
		die("%s instead of %s", rdma_event_str(event->event), rdma_event_str(wanted));
	}
	return event;
}

static void join(struct member *member, struct rdma_event_channel *channel, struct sockaddr *local,
		 struct sockaddr *group)
{
	struct rdma_cm_event *event;

	if (rdma_create_id(channel, &member->id, NULL, RDMA_PS_UDP))
		die("rdma_create_id");
	/* Which device? The one the interface of this address belongs to. Afterwards id->verbs is an open context. */
	if (rdma_resolve_addr(member->id, local, group, 2000))
		die("rdma_resolve_addr");
	rdma_ack_cm_event(expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED));

	if (!(member->pd = ibv_alloc_pd(member->id->verbs)))
		die("ibv_alloc_pd");
	if (!(member->cq = ibv_create_cq(member->id->verbs, 8, NULL, NULL, 0)))
		die("ibv_create_cq");
	struct ibv_qp_init_attr kind = { .send_cq = member->cq, .recv_cq = member->cq, .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };

	/* Creates the queue pair and takes it to RTS. */
	if (rdma_create_qp(member->id, member->pd, &kind))
		die("rdma_create_qp");
	member->buffer = buffer_register(member->pd, GRH + SIZE, IBV_ACCESS_LOCAL_WRITE);

	if (rdma_join_multicast(member->id, group, NULL))
		die("rdma_join_multicast");
	event = expect(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	member->group_qp = event->param.ud.qp_num;
	member->group_q_key = event->param.ud.qkey;
	if (!(member->group = ibv_create_ah(member->pd, &event->param.ud.ah_attr)))
		die("ibv_create_ah");
	rdma_ack_cm_event(event);
}

static void leave(struct member *member, struct sockaddr *group)
{
	if ((errno = ibv_destroy_ah(member->group)))
		die("ibv_destroy_ah");
	if (rdma_leave_multicast(member->id, group))
		die("rdma_leave_multicast");
	rdma_destroy_qp(member->id);
	buffer_release(&member->buffer);
	if ((errno = ibv_destroy_cq(member->cq)) || (errno = ibv_dealloc_pd(member->pd)))
		die("closing");
	if (rdma_destroy_id(member->id))
		die("rdma_destroy_id");
}

int main(int argc, char **argv)
{
	struct sockaddr_in local = { .sin_family = AF_INET }, group = { .sin_family = AF_INET };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct member member[MEMBERS];
	struct ibv_sge piece;

	if (!channel)
		die("rdma_create_event_channel");
	if (inet_pton(AF_INET, argc > 1 ? argv[1] : "127.0.0.1", &local.sin_addr) != 1)
		die("%s is not an IPv4 address", argv[1]);
	inet_pton(AF_INET, "239.77.1.1", &group.sin_addr);
	for (int i = 0; i < MEMBERS; i++)
		join(&member[i], channel, (struct sockaddr *)&local, (struct sockaddr *)&group);
	printf("%d members joined 239.77.1.1; the group's queue pair is 0x%x\n", MEMBERS, member[0].group_qp);

	/* Everybody but the speaker listens. */
	for (int i = 1; i < MEMBERS; i++) {
		piece = piece_of(&member[i].buffer, 0, GRH + SIZE);
		post_receive(member[i].id->qp, 1, &piece, 1);
	}

	struct ibv_send_wr send = { .sg_list = &piece,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED,
				    .wr.ud = { .ah = member[0].group,
					       .remote_qpn = member[0].group_qp,
					       .remote_qkey = member[0].group_q_key } };

	strcpy(member[0].buffer.bytes, "one for all");
	piece = piece_of(&member[0].buffer, 0, sizeof("one for all"));
	post_send(member[0].id->qp, &send);
	wait_completion(member[0].cq, "multicast send");
	printf("sent once\n");

	for (int i = 1; i < MEMBERS; i++) {
		struct ibv_wc completion = wait_completion(member[i].cq, "multicast receive");

		printf("member %d received from queue pair 0x%06x: %s\n", i, completion.src_qp,
		       member[i].buffer.bytes + GRH);
		if (strcmp(member[i].buffer.bytes + GRH, "one for all"))
			die("that is not what was said");
	}
	for (int i = 0; i < MEMBERS; i++)
		leave(&member[i], (struct sockaddr *)&group);
	rdma_destroy_event_channel(channel);
	return EXIT_SUCCESS;
}
