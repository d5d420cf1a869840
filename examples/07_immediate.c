/* SPDX-License-Identifier: MIT
 *
 * 07: Immediate data: four bytes that travel with a message and arrive in the completion.
 *
 *   cc 07_immediate.c -libverbs && ./a.out [DEVICE]
 *
 * RDMA WRITE WITH IMMEDIATE joins the two requests of 04: the data goes straight to its place, and the target is
 * told. The price is that it is no longer silent: it uses up a posted receive, whose buffer stays untouched. The
 * completion says
 *
 *   opcode     IBV_WC_RECV_RDMA_WITH_IMM
 *   wc_flags   IBV_WC_WITH_IMM: only then does imm_data mean anything
 *   imm_data   the sender's four bytes, in network byte order
 *   byte_len   how many bytes were written (but not where: put that into the immediate)
 */
#include <arpa/inet.h>

#include "course.h"

enum { SLOTS = 4, SLOT = 1024 };

/* A ring of slots in the target's memory; the immediate is the number of the slot. */
static void write_slot(struct side *writer, struct buffer *words, const struct window *ring, uint32_t slot,
		       const char *text)
{
	struct ibv_sge piece;
	struct ibv_send_wr write = {
		.wr_id = slot, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(slot),
		.wr.rdma = { .remote_addr = ring->address + (uint64_t)slot * SLOT, .rkey = ring->rkey },
	};

	strcpy(words->bytes, text);
	piece = piece_of(words, 0, strlen(text) + 1);
	post_send(writer->qp, &write);
	wait_completion(writer->cq, "WRITE WITH IMMEDIATE");
}

int main(int argc, char **argv)
{
	static const char *const lines[SLOTS] = { "to be", "or not to be", "that is", "the question" };
	struct device device = open_device(argc > 1 ? argv[1] : NULL);
	struct side writer = side_open(&device), target = side_open(&device);

	sides_connect(&device, &writer, &target);

	struct buffer words = buffer_register(writer.pd, SLOT, 0);
	struct buffer memory =
		buffer_register(target.pd, SLOTS * SLOT, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct window ring = window_of(&memory);

	/* Receives without a buffer: no bytes come this way. */
	for (uint64_t i = 0; i < SLOTS; i++)
		post_receive(target.qp, 100 + i, NULL, 0);

	for (uint32_t slot = 0; slot < SLOTS; slot++)
		write_slot(&writer, &words, &ring, slot, lines[slot]);

	for (uint32_t i = 0; i < SLOTS; i++) {
		struct ibv_wc completion = wait_completion(target.cq, "receive");
		uint32_t slot;

		if (completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM || !(completion.wc_flags & IBV_WC_WITH_IMM))
			die("a completion without immediate data");
		slot = ntohl(completion.imm_data);
		printf("receive %lu: slot %u holds %u bytes: %s\n", (unsigned long)completion.wr_id, slot,
		       completion.byte_len, memory.bytes + slot * SLOT);
		if (slot != i || completion.byte_len != strlen(lines[i]) + 1 ||
		    strcmp(memory.bytes + slot * SLOT, lines[i]))
			die("that is not what was written");
	}

	/* SEND can carry an immediate as well: a message type, say, beside the message. */
	struct buffer incoming = buffer_register(target.pd, 64, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge empty = piece_of(&incoming, 0, 64), piece = piece_of(&words, 0, 8);
	struct ibv_send_wr send = { .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				    .send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(0xc0ffee) };

	post_receive(target.qp, 200, &empty, 1);
	post_send(writer.qp, &send);
	wait_completion(writer.cq, "SEND WITH IMMEDIATE");

	struct ibv_wc completion = wait_completion(target.cq, "receive");

	if (completion.opcode != IBV_WC_RECV || !(completion.wc_flags & IBV_WC_WITH_IMM))
		die("a SEND WITH IMMEDIATE should be an ordinary receive with a flag");
	printf("receive %lu: a SEND of %u bytes, immediate 0x%x\n", (unsigned long)completion.wr_id,
	       completion.byte_len, ntohl(completion.imm_data));

	buffer_release(&incoming);
	buffer_release(&memory);
	buffer_release(&words);
	side_close(&writer);
	side_close(&target);
	close_device(&device);
	return EXIT_SUCCESS;
}
