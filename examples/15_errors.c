/* SPDX-License-Identifier: MIT
 *
 * 15: Everything that goes wrong, on purpose.
 *
 *   cc 15_errors.c -libverbs && ./a.out [DEVICE]
 *
 * Requests fail in their completion, not when they are posted, and a status says why. Learn to read it: often it is
 * all you get. What happens around it is always the same. The queue pair goes into error state, and everything still
 * queued comes back as "flushed" (WR_FLUSH_ERR): the first bad completion tells the cause, the others are its echo.
 * Of a bad completion nothing but wr_id, status, qp_num and vendor_err means anything: not opcode, not byte_len.
 *
 * Each case runs on a fresh pair of queue pairs. The end takes a broken pair back to work, and shows what is refused
 * at once.
 */
#include "course.h"

enum { SIZE = 256, NOTHING = -1 };

struct stage {
	struct device device;
	struct side left, right;
	struct buffer from, to, secret;
};

static void set_up(struct stage *stage, uint8_t rnr_retry)
{
	stage->left = side_open(&stage->device);
	stage->right = side_open(&stage->device);
	connect_qp_with(&stage->device, stage->left.qp, address_of(&stage->device, stage->right.qp), rnr_retry);
	connect_qp(&stage->device, stage->right.qp, address_of(&stage->device, stage->left.qp));
	stage->from = buffer_register(stage->left.pd, SIZE, IBV_ACCESS_LOCAL_WRITE);
	stage->to = buffer_register(stage->right.pd, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	stage->secret = buffer_register(stage->right.pd, SIZE, IBV_ACCESS_LOCAL_WRITE);
}

static void tear_down(struct stage *stage)
{
	buffer_release(&stage->from);
	buffer_release(&stage->to);
	buffer_release(&stage->secret);
	side_close(&stage->left);
	side_close(&stage->right);
}

/* A SEND of the whole buffer or, with an address, a WRITE of it. */
static void post(struct stage *stage, uint64_t wr_id, uint32_t lkey, uint64_t far_address, uint32_t rkey)
{
	struct ibv_sge piece = { (uintptr_t)stage->from.bytes, SIZE, lkey };
	struct ibv_send_wr request = { .wr_id = wr_id, .sg_list = &piece, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.opcode = far_address ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, .wr.rdma = { far_address, rkey } };

	post_send(stage->left.qp, &request);
}

static void wrong_local_key(struct stage *stage)
{
	post(stage, 1, stage->from.mr->lkey ^ 0x5a5a5a, 0, 0);
}

static void beyond_the_end(struct stage *stage)
{
	post(stage, 1, stage->from.mr->lkey, (uintptr_t)stage->to.bytes + 1, stage->to.mr->rkey);
}

static void right_not_granted(struct stage *stage)
{
	post(stage, 1, stage->from.mr->lkey, (uintptr_t)stage->secret.bytes, stage->secret.mr->rkey);
}

static void receive_too_small(struct stage *stage)
{
	struct ibv_sge small = piece_of(&stage->to, 0, 16);

	post_receive(stage->right.qp, 7, &small, 1);
	post(stage, 1, stage->from.mr->lkey, 0, 0);
}

static void receive_with_wrong_key(struct stage *stage)
{
	struct ibv_sge wrong = { (uintptr_t)stage->to.bytes, SIZE, stage->to.mr->lkey ^ 0x5a5a5a };

	post_receive(stage->right.qp, 7, &wrong, 1);
	post(stage, 1, stage->from.mr->lkey, 0, 0);
}

static void no_receive(struct stage *stage)
{
	post(stage, 1, stage->from.mr->lkey, 0, 0);
}

static void peer_is_gone(struct stage *stage)
{
	if ((errno = ibv_destroy_qp(stage->right.qp)))
		die("ibv_destroy_qp");
	stage->right.qp = NULL;
	post(stage, 1, stage->from.mr->lkey, 0, 0);
}

static const struct {
	const char *what;
	void (*provoke)(struct stage *stage);
	int left, right;               /* the completion each side gets */
	const char *fix;
} cases[] = {
	{ "an L_Key that names nothing", wrong_local_key, IBV_WC_LOC_PROT_ERR, NOTHING,
	  "use the lkey of the MR that holds the buffer" },
	{ "one byte beyond the region", beyond_the_end, IBV_WC_REM_ACCESS_ERR, NOTHING,
	  "check address and length against the MR" },
	{ "a right that was not granted", right_not_granted, IBV_WC_REM_ACCESS_ERR, NOTHING,
	  "register with IBV_ACCESS_REMOTE_WRITE" },
	{ "a receive that is too small", receive_too_small, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR,
	  "agree on a largest message" },
	{ "a receive with a wrong key", receive_with_wrong_key, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR,
	  "look at the receiver" },
	{ "no receive posted", no_receive, IBV_WC_RNR_RETRY_EXC_ERR, NOTHING,
	  "post receives before the peer can send" },
	{ "nobody there", peer_is_gone, IBV_WC_RETRY_EXC_ERR, NOTHING,
	  "is the peer alive, the GID right, UDP port 4791 open?" },
};

/* The completion with the wanted status, first of all; NOTHING: none may be there. */
static void judge(struct ibv_cq *cq, int wanted, const char *side)
{
	struct ibv_wc completion;

	if (wanted == NOTHING) {
		if (ibv_poll_cq(cq, 1, &completion) != 0)
			die("the %s side has a completion: %s", side, ibv_wc_status_str(completion.status));
		return;
	}
	completion = wait_any_completion(cq, side);
	printf("   %s request %lu: %s\n", side, (unsigned long)completion.wr_id, ibv_wc_status_str(completion.status));
	if (completion.status != (enum ibv_wc_status)wanted)
		die("expected: %s", ibv_wc_status_str((enum ibv_wc_status)wanted));
}

/* The way back: RESET forgets everything, and the connection is made again. Both sides have to, each PSN starts
 * anew. */
static void recover(struct stage *stage)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_sge place = piece_of(&stage->to, 0, SIZE);

	wrong_local_key(stage);
	for (uint64_t i = 2; i <= 3; i++)
		post(stage, i, stage->from.mr->lkey, 0, 0);
	printf("\nthree requests, the first of them bad:\n");
	judge(stage->left.cq, IBV_WC_LOC_PROT_ERR, "left ");
	judge(stage->left.cq, IBV_WC_WR_FLUSH_ERR, "left ");
	judge(stage->left.cq, IBV_WC_WR_FLUSH_ERR, "left ");
	if ((errno = ibv_modify_qp(stage->left.qp, &reset, IBV_QP_STATE)) ||
	    (errno = ibv_modify_qp(stage->right.qp, &reset, IBV_QP_STATE)))
		die("to RESET");
	sides_connect(&stage->device, &stage->left, &stage->right);
	post_receive(stage->right.qp, 7, &place, 1);
	post(stage, 4, stage->from.mr->lkey, 0, 0);
	wait_completion(stage->left.cq, "send after the recovery");
	wait_completion(stage->right.cq, "receive after the recovery");
	printf("   both reset and connected again: request 4 works\n");
}

/* A few mistakes need no adapter to be seen: ibv_post_send returns them, and `refused` is the first request not
 * taken. */
static void refused_at_once(struct stage *stage)
{
	struct ibv_send_wr too_many = { .num_sge = 1000, .opcode = IBV_WR_SEND }, *refused = NULL;
	int error = ibv_post_send(stage->left.qp, &too_many, &refused);

	printf("\na request of 1000 pieces is refused by ibv_post_send: %s\n", strerror(error));
	if (!error || refused != &too_many)
		die("it should have been refused");
}

int main(int argc, char **argv)
{
	struct stage stage = { .device = open_device(argc > 1 ? argv[1] : NULL) };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_up(&stage, 1);
		printf("%zu. %s\n", i + 1, cases[i].what);
		cases[i].provoke(&stage);
		judge(stage.left.cq, cases[i].left, "left ");
		judge(stage.right.cq, cases[i].right, "right");
		printf("   remedy: %s\n", cases[i].fix);
		tear_down(&stage);
	}
	set_up(&stage, 7);
	recover(&stage);
	refused_at_once(&stage);
	tear_down(&stage);
	close_device(&stage.device);
	return EXIT_SUCCESS;
}
