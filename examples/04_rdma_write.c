/* SPDX-License-Identifier: MIT
 *
 * 04: RDMA WRITE puts bytes into the other side's memory, and the other side's program notices nothing.
 *
 *   cc 04_rdma_write.c -libverbs && ./a.out [DEVICE]
 *
 * To SEND, the receiver must have posted a buffer. To WRITE, the target does nothing at all: it once registered
 * memory with IBV_ACCESS_REMOTE_WRITE and told us where it is (address) and what opens it (R_Key). From then on its
 * adapter serves us, without its processor, and without a completion on that side.
 *
 * So how does the target know that data is there? It does not, until somebody tells it. Here the writer sends a
 * message afterwards: a reliable connection keeps the order, so when the SEND arrives, what was written before it has
 * arrived as well. (07_immediate.c shows how to do both in one request.)
 */
#include "course.h"

/* The message in which one side invites the other into its memory. */
static void send_window(struct side *from, struct side *to, const struct window *window, struct window *received)
{
	struct buffer outgoing = buffer_register(from->pd, sizeof(*window), 0);
	struct buffer incoming = buffer_register(to->pd, sizeof(*window), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge full = piece_of(&outgoing, 0, sizeof(*window)), empty = piece_of(&incoming, 0, sizeof(*window));
	struct ibv_send_wr send = {
		.sg_list = &full, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};

	memcpy(outgoing.bytes, window, sizeof(*window));
	post_receive(to->qp, 0, &empty, 1);
	post_send(from->qp, &send);
	wait_completion(from->cq, "sending the window");
	wait_completion(to->cq, "receiving the window");
	memcpy(received, incoming.bytes, sizeof(*window));
	buffer_release(&outgoing);
	buffer_release(&incoming);
}

int main(int argc, char **argv)
{
	struct device device = open_device(argc > 1 ? argv[1] : NULL);
	struct side writer = side_open(&device), target = side_open(&device);
	struct window window;
	struct ibv_wc unexpected;

	sides_connect(&device, &writer, &target);

	/* The target: memory that others may write. REMOTE_WRITE needs LOCAL_WRITE beside it. */
	struct buffer memory = buffer_register(target.pd, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct window mine = window_of(&memory);

	strcpy(memory.bytes, "(nothing yet)");
	send_window(&target, &writer, &mine, &window);
	printf("the target offers %u bytes at 0x%lx, R_Key 0x%x\n", window.length, (unsigned long)window.address,
	       window.rkey);

	/* The writer: an ordinary request plus the two things that name the far memory. */
	struct buffer words = buffer_register(writer.pd, 64, 0);
	struct ibv_sge piece = piece_of(&words, 0, 64);
	struct ibv_send_wr write = {
		.wr_id = 1,
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = window.address + 100, .rkey = window.rkey },
	};

	strcpy(memory.bytes + 100, "(nothing yet)");
	printf("target's memory before: %s\n", memory.bytes + 100);
	strcpy(words.bytes, "written from afar");
	post_send(writer.qp, &write);
	wait_completion(writer.cq, "RDMA WRITE");

	/* The completion means: the target's adapter has taken it. Now look at the target. */
	if (ibv_poll_cq(target.cq, 1, &unexpected) != 0)
		die("the target got a completion for a plain WRITE");
	printf("target's memory after:  %s (and no completion there)\n", memory.bytes + 100);
	if (strcmp(memory.bytes + 100, "written from afar") || strcmp(memory.bytes, "(nothing yet)"))
		die("the bytes are not where they were written to");

	/* Now the way programs do it: write, then say so. Only the last request asks for a completion; because
	 * requests finish in order, it speaks for the ones before it. An unsignaled request still holds its place in
	 * the queue until then. */
	struct buffer note = buffer_register(target.pd, 64, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge empty = piece_of(&note, 0, 64);
	struct ibv_send_wr tell = { .wr_id = 3, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };

	post_receive(target.qp, 7, &empty, 1);
	strcpy(words.bytes, "your memory has changed");
	write.wr_id = 2;
	write.send_flags = 0;
	write.wr.rdma.remote_addr = window.address + 200;
	write.next = &tell;
	/* One call, two requests, in this order. */
	post_send(writer.qp, &write);

	struct ibv_wc completion = wait_completion(writer.cq, "WRITE and SEND");

	printf("the writer got a completion for request %lu only\n", (unsigned long)completion.wr_id);
	wait_completion(target.cq, "receive");
	printf("the target was told \"%s\" and finds \"%s\"\n", note.bytes, memory.bytes + 200);

	buffer_release(&note);
	buffer_release(&words);
	buffer_release(&memory);
	side_close(&writer);
	side_close(&target);
	close_device(&device);
	return EXIT_SUCCESS;
}
