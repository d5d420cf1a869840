/* SPDX-License-Identifier: MIT
 *
 * 16: The extended interface: work requests that are built, and completions that are read field by field.
 *
 *   cc 16_extended.c -libverbs && ./a.out [DEVICE]
 *
 * ibv_send_wr and ibv_wc are structs for everything that a request or a completion could ever be; a new field would break
 * every program. So the newer interface has functions instead, and asks for what is needed when an object is made:
 *
 *   ibv_create_qp_ex   send_ops_flags: which requests will be posted. Others are not there to be called
 *   ibv_wr_start       begins a batch; nothing is seen by the adapter before
 *   ibv_wr_complete    rings its doorbell, once for the whole batch, or says what was wrong: all of it or nothing is posted
 *   ibv_create_cq_ex   wc_flags: which fields of a completion will be read, a timestamp of the adapter's clock among them
 *   ibv_start_poll     the first completion, ibv_next_poll the next, ibv_end_poll: their places are free again
 *
 * Both interfaces may be mixed: this queue pair posts its receives, and its peer does everything, the old way.
 */
#include <arpa/inet.h>

#include "course.h"

enum { SLOTS = 3, SLOT = 256 };

static const char *const words[SLOTS] = { "built", "in one", "batch" };

static struct ibv_cq_ex *create_cq(const struct device *device)
{
	struct ibv_cq_init_attr_ex attributes = { .cqe = 32, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM |
									 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(device->context, &attributes);

	if (!cq)
		die("ibv_create_cq_ex (an adapter without timestamps?)");
	return cq;
}

static struct ibv_qp_ex *create_qp_ex(const struct device *device, const struct side *side)
{
	struct ibv_qp_init_attr_ex attributes = {
		.send_cq = side->cq, .recv_cq = side->cq, .qp_type = IBV_QPT_RC, .pd = side->pd,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND_WITH_IMM,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(device->context, &attributes);

	if (!qp)
		die("ibv_create_qp_ex");
	return ibv_qp_to_qp_ex(qp);
}

/* Three WRITEs and a SEND with immediate data: one doorbell. Of each request first what it is, then what goes with it. */
static void post_batch(struct ibv_qp_ex *qp, const struct buffer *buffer, const struct window *target)
{
	ibv_wr_start(qp);
	for (uint32_t i = 0; i < SLOTS; i++) {
		qp->wr_id = i;
		qp->wr_flags = 0;
		ibv_wr_rdma_write(qp, target->rkey, target->address + (uint64_t)i * SLOT);
		ibv_wr_set_sge(qp, buffer->mr->lkey, (uintptr_t)(buffer->bytes + i * SLOT), SLOT);
	}
	qp->wr_id = SLOTS;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(qp, htonl(SLOTS));
	/* Copied now: this text may be gone before the doorbell. */
	ibv_wr_set_inline_data(qp, "done", 5);
	if ((errno = ibv_wr_complete(qp)))
		die("ibv_wr_complete");
}

/* The next completion is the current one of `cq` until ibv_end_poll; its wr_id and status are fields, the rest is asked for. */
static void wait_for_one(struct ibv_cq_ex *cq, const char *whose)
{
	struct ibv_poll_cq_attr none = { 0 };
	time_t limit = time(NULL) + 10;

	while ((errno = ibv_start_poll(cq, &none)) == ENOENT)
		if (time(NULL) > limit)
			die("%s: no completion within 10 seconds", whose);
	if (errno)
		die("ibv_start_poll");
	if (cq->status != IBV_WC_SUCCESS) {
		errno = 0;
		die("%s: %s", whose, ibv_wc_status_str(cq->status));
	}
	printf("%s: request %llu", whose, (unsigned long long)cq->wr_id);
	if (ibv_wc_read_opcode(cq) == IBV_WC_RECV)
		printf(", %u bytes, immediate %u", ibv_wc_read_byte_len(cq), ntohl(ibv_wc_read_imm_data(cq)));
	printf(", at %llu of the adapter's clock\n", (unsigned long long)ibv_wc_read_completion_ts(cq));
	ibv_end_poll(cq);
}

int main(int argc, char **argv)
{
	struct device device = open_device(argc > 1 ? argv[1] : NULL);
	struct side builder = { 0 }, reader = { 0 };
	struct ibv_cq_ex *builder_cq = create_cq(&device), *reader_cq = create_cq(&device);
	struct ibv_qp_ex *qp;

	/* An extended queue is a queue: old functions take it, too. */
	builder.cq = ibv_cq_ex_to_cq(builder_cq);
	reader.cq = ibv_cq_ex_to_cq(reader_cq);
	if (!(builder.pd = ibv_alloc_pd(device.context)) || !(reader.pd = ibv_alloc_pd(device.context)))
		die("ibv_alloc_pd");
	qp = create_qp_ex(&device, &builder);
	builder.qp = &qp->qp_base;
	reader.qp = create_qp(reader.pd, reader.cq, NULL);
	sides_connect(&device, &builder, &reader);

	struct buffer source = buffer_register(builder.pd, SLOTS * SLOT, 0);
	struct buffer target = buffer_register(reader.pd, SLOTS * SLOT, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct buffer note = buffer_register(reader.pd, SLOT, IBV_ACCESS_LOCAL_WRITE);
	struct window window = window_of(&target);
	struct ibv_sge piece = piece_of(&note, 0, SLOT);

	for (int i = 0; i < SLOTS; i++)
		strcpy(source.bytes + i * SLOT, words[i]);
	post_receive(reader.qp, 7, &piece, 1);
	post_batch(qp, &source, &window);
	wait_for_one(reader_cq, "reader");
	wait_for_one(builder_cq, "builder");
	printf("the reader finds:");
	for (int i = 0; i < SLOTS; i++) {
		printf(" %s", target.bytes + i * SLOT);
		if (strcmp(target.bytes + i * SLOT, words[i]))
			die("\nslot %d is not what was written", i);
	}
	printf("\n");

	/* What was begun and is given up leaves nothing behind. */
	ibv_wr_start(qp);
	qp->wr_id = 99;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(qp, 0);
	ibv_wr_set_inline_data(qp, "never", 5);
	ibv_wr_abort(qp);
	printf("given up: nothing of it was posted\n");

	buffer_release(&note);
	buffer_release(&target);
	buffer_release(&source);
	side_close(&builder);
	side_close(&reader);
	close_device(&device);
	return EXIT_SUCCESS;
}
