/* SPDX-License-Identifier: MIT
 *
 * 08: One message gathered from several buffers, and scattered over several others.
 *
 *   cc 08_scatter_gather.c -libverbs && ./a.out [DEVICE]
 *
 * A request does not name a buffer but a list of pieces (struct ibv_sge: address, length, L_Key). The sender's
 * adapter reads them one after the other, the receiver's adapter fills its own list the same way; where the sender's
 * pieces ended is not visible in between. So a header and a body need not be copied together, and may be parted again
 * on arrival.
 *
 * How many pieces a request may have was agreed when the queue pair was created (max_send_sge, max_recv_sge). Small
 * messages have a shortcut: with IBV_SEND_INLINE the bytes are copied into the request itself when it is posted. They
 * need no registration, and the buffer may be used again at once. cap.max_inline_data says how many bytes fit.
 */
#include "course.h"

struct header {
	uint32_t kind, length;
};

int main(int argc, char **argv)
{
	static const char body_text[] = "a body that lives somewhere else entirely";
	struct device device = open_device(argc > 1 ? argv[1] : NULL);
	struct side sender = side_open(&device), receiver = side_open(&device);

	/* 16 receives were agreed to in course.h. This pair needs room for inline data too, so the sender gets a QP
	 * of its own. */
	struct ibv_qp_init_attr wanted = {
		.send_cq = sender.cq,
		.recv_cq = sender.cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4,
			 .max_recv_wr = 4,
			 .max_send_sge = 3,
			 .max_recv_sge = 1,
			 .max_inline_data = 32 },
	};

	if ((errno = ibv_destroy_qp(sender.qp)))
		die("ibv_destroy_qp");
	if (!(sender.qp = ibv_create_qp(sender.pd, &wanted)))
		die("ibv_create_qp");
	/* What was granted is written back, and may be more than was asked for. */
	printf("granted: %u pieces a send, %u bytes inline\n", wanted.cap.max_send_sge, wanted.cap.max_inline_data);
	sides_connect(&device, &sender, &receiver);

	/* Gather: header from here, body from there, a trailer from a third place. */
	struct buffer head = buffer_register(sender.pd, sizeof(struct header), 0);
	struct buffer body = buffer_register(sender.pd, 256, 0), tail = buffer_register(sender.pd, 4, 0);
	struct header header = { 7, sizeof(body_text) };
	struct ibv_sge from[3] = { piece_of(&head, 0, sizeof(header)), piece_of(&body, 0, sizeof(body_text)),
				   piece_of(&tail, 0, 4) };
	struct ibv_send_wr send = {
		.sg_list = from, .num_sge = 3, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED
	};

	memcpy(head.bytes, &header, sizeof(header));
	memcpy(body.bytes, body_text, sizeof(body_text));
	memcpy(tail.bytes, "END", 4);

	/* Scatter: the header into one buffer, then two halves of whatever follows. The cuts are the receiver's own. */
	struct buffer head_in = buffer_register(receiver.pd, sizeof(struct header), IBV_ACCESS_LOCAL_WRITE);
	struct buffer rest_in = buffer_register(receiver.pd, 512, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge to[3] = { piece_of(&head_in, 0, sizeof(header)), piece_of(&rest_in, 0, 16),
				 piece_of(&rest_in, 256, 256) };

	post_receive(receiver.qp, 1, to, 3);
	post_send(sender.qp, &send);
	wait_completion(sender.cq, "gathering send");

	struct ibv_wc completion = wait_completion(receiver.cq, "scattering receive");
	struct header got;

	memcpy(&got, head_in.bytes, sizeof(got));
	printf("%u bytes arrived; header: kind %u, length %u\n", completion.byte_len, got.kind, got.length);
	printf("first 16 bytes of the rest: \"%.16s\"\n", rest_in.bytes);
	printf("and the others:             \"%s\", \"%s\"\n", rest_in.bytes + 256,
	       rest_in.bytes + 256 + sizeof(body_text) - 16);
	if (completion.byte_len != sizeof(header) + sizeof(body_text) + 4 || got.kind != 7 ||
	    memcmp(rest_in.bytes, body_text, 16) || strcmp(rest_in.bytes + 256, body_text + 16))
		die("the pieces are not where they belong");

	/* Inline: this array is on the stack, was never registered, and may change as soon as post_send is back. */
	char note[] = "no key needed";
	struct ibv_sge inline_piece = { (uintptr_t)note, sizeof(note), 0 };
	struct ibv_send_wr quick = { .sg_list = &inline_piece, .num_sge = 1, .opcode = IBV_WR_SEND,
				     .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE };
	struct ibv_sge whole = piece_of(&rest_in, 0, 512);

	if (wanted.cap.max_inline_data < sizeof(note))
		die("this device has no inline data");
	post_receive(receiver.qp, 2, &whole, 1);
	post_send(sender.qp, &quick);
	memset(note, '?', sizeof(note) - 1);
	wait_completion(sender.cq, "inline send");
	wait_completion(receiver.cq, "receive");
	printf("inline: \"%s\" (the array now says \"%s\")\n", rest_in.bytes, note);
	if (strcmp(rest_in.bytes, "no key needed"))
		die("the inline bytes were not copied at once");

	buffer_release(&head);
	buffer_release(&body);
	buffer_release(&tail);
	buffer_release(&head_in);
	buffer_release(&rest_in);
	side_close(&sender);
	side_close(&receiver);
	close_device(&device);
	return EXIT_SUCCESS;
}
