/* SPDX-License-Identifier: MIT
 *
 * Two processes: traffic between them, a peer that ends or is killed, and a context handed over.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/engine_stop.h"
#include "lib/private_network.h"
#include "lib/two_processes.h"

static void echo(int fd)
{
	const struct pair_options options = {0};
	struct world world;
	struct pair pair;
	struct card other;

	open_half(&world, &pair, CHILD, &options, fd, &other);
	for (uint64_t i = 0; i < 32; i++)
		pair_receive(&pair, CHILD, i, i * 4096, 4096);
	meet(fd);                        /* receives are posted */
	for (uint64_t i = 0; i < 32; i++) {
		struct ibv_wc wc = expect_completion(pair.cq[CHILD], i, IBV_WC_RECV);
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(&pair, CHILD, IBV_WR_SEND, &sge, i * 4096, wc.byte_len);

		wr.wr_id = 100 + i;
		pair_post(&pair, CHILD, &wr);
		expect_completion(pair.cq[CHILD], 100 + i, IBV_WC_SEND);
	}
	meet(fd);                        /* the parent is done with our memory */
	close_half(&world, &pair);
}

static void messages_writes_and_reads_between_processes(void **state)
{
	const struct pair_options options = {0};
	struct world world;
	struct pair pair;
	struct card other;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	int fd;
	pid_t child = start(echo, &fd);

	(void)state;
	open_half(&world, &pair, PARENT, &options, fd, &other);
	meet(fd);
	for (uint64_t i = 0; i < 32; i++) {      /* one at a time */
		uint32_t length = (uint32_t)(i * 131 + 1) % 4096;

		fill_pattern(pair.buffer[PARENT], length, (uint32_t)i);
		pair_receive(&pair, PARENT, i, 8192, 4096);
		wr = pair_request(&pair, PARENT, IBV_WR_SEND, &sge, 0, length);
		wr.send_flags = 0;
		pair_post(&pair, PARENT, &wr);
		assert_int_equal(expect_completion(pair.cq[PARENT], i, IBV_WC_RECV).byte_len, length);
		assert_true(has_pattern(pair.buffer[PARENT] + 8192, length, (uint32_t)i));
	}
	fill_pattern(pair.buffer[PARENT], 100000, 77);
	wr = half_request(&pair, PARENT, &other, IBV_WR_RDMA_WRITE, &sge, 0, 100000);
	pair_post(&pair, PARENT, &wr);
	expect_completion(pair.cq[PARENT], wr.wr_id, IBV_WC_RDMA_WRITE);
	wr = pair_request(&pair, PARENT, IBV_WR_RDMA_READ, &sge, 120000, 100000);
	wr.wr.rdma.rkey = other.rkey;
	wr.wr.rdma.remote_addr = other.address;
	pair_post(&pair, PARENT, &wr);
	expect_completion(pair.cq[PARENT], wr.wr_id, IBV_WC_RDMA_READ);
	assert_true(has_pattern(pair.buffer[PARENT] + 120000, 100000, 77));
	meet(fd);
	close_half(&world, &pair);
	finish(child, fd);
}

enum { AHEAD = 3 /* messages before the acknowledgement */ };

/* Sends, and ends its queue pair when that was acknowledged, without having looked. */
static void send_and_end(int fd)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct world world;
	struct pair pair;
	struct card other;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	open_half(&world, &pair, CHILD, &(const struct pair_options){0}, fd, &other);
	for (uint64_t i = 0; i <= AHEAD; i++)
		pair_receive(&pair, CHILD, i, i * 4096, 4096);
	meet(fd);                        /* the receives are posted */
	expect_completion(pair.cq[CHILD], 0, IBV_WC_RECV);
	wr = pair_request(&pair, CHILD, IBV_WR_SEND, &sge, 65536, 8);
	talk(fd, &(const struct card){.qpn = (uint32_t)engine_asleep()}, &other);
	meet(fd);                        /* our engine thread stands still, and messages are there */
	pair_post(&pair, CHILD, &wr);
	meet(fd);                        /* the acknowledgement is there, behind them */
	assert_int_equal(ibv_modify_qp(pair.qp[CHILD], &error, IBV_QP_STATE), 0);
	do                               /* receives come before or after it */
		wc = wait_completion(pair.cq[CHILD]);
	while (wc.wr_id != wr.wr_id);
	assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(IBV_WC_SUCCESS));
	meet(fd);                        /* the engine thread may go on */
	close_half(&world, &pair);
}

/* What has arrived counts, read or not: an adapter would have taken it long ago. */
static void what_was_acknowledged_is_not_flushed(void **state)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct world world;
	struct pair pair;
	struct card other;
	struct ibv_sge sge;
	int fd;
	pid_t child = start(send_and_end, &fd), engine = 0;

	(void)state;
	open_half(&world, &pair, PARENT, &(const struct pair_options){0}, fd, &other);
	pair_receive(&pair, PARENT, 3, 65536, 8);
	meet(fd);
	for (uint32_t i = 0; i <= AHEAD; i++) {
		struct ibv_send_wr wr = pair_request(&pair, PARENT, IBV_WR_SEND, &sge, 0, 8 + 8 * i);

		pair_post(&pair, PARENT, &wr);
		if (i > 0)
			continue;
		expect_completion(pair.cq[PARENT], wr.wr_id, IBV_WC_SEND);
		talk(fd, &(const struct card){0}, &other);
		engine = (pid_t)other.qpn;
		stop_engine(engine);
	}
	meet(fd);
	expect_completion(pair.cq[PARENT], 3, IBV_WC_RECV);
	/* The acknowledgement leaves before the queue pair ends. */
	assert_int_equal(ibv_modify_qp(pair.qp[PARENT], &error, IBV_QP_STATE), 0);
	meet(fd);
	meet(fd);
	resume_engine(engine);
	close_half(&world, &pair);
	finish(child, fd);
}

enum { TURNS = 100, KEPT = 32 };

/* Turn by turn, messages that are not signaled. `side` begins, if it is the parent. */
static void converse(struct pair *pair, int side, unsigned turns)
{
	for (unsigned i = 0; i < turns; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = pair_request(pair, side, IBV_WR_SEND, &sge, 0, 8);

		wr.send_flags = 0;
		if (side == PARENT)
			pair_post(pair, side, &wr);
		expect_completion(pair->cq[side], 7, IBV_WC_RECV);
		pair_receive(pair, side, 7, 4096, 8);
		if (side == CHILD)
			pair_post(pair, side, &wr);
	}
}

static void open_conversation(struct world *world, struct pair *pair, int side, int fd)
{
	struct card other;

	open_half(world, pair, side, &(const struct pair_options){.depth = 256}, fd, &other);
	for (unsigned i = 0; i < KEPT; i++)
		pair_receive(pair, side, 7, 4096, 8);
	meet(fd);                        /* receives are posted */
}

/* LeakSanitizer looks into /proc, which is not that of the test's own process numbers: where no process has this one's, it fails. */
static bool is_not_looked_at;

__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return is_not_looked_at;
}

static void end_with_the_last_message(int fd)
{
	struct world world;
	struct pair pair;

	open_conversation(&world, &pair, CHILD, fd);
	converse(&pair, CHILD, TURNS);
	expect_completion(pair.cq[CHILD], 7, IBV_WC_RECV);
	is_not_looked_at = true;
	exit(0);
}

/* Its acknowledgement was not asked for (roce/late.c), and may not be lost with the process: else the sender would not be done with it. */
static void send_before_the_end(void)
{
	struct ibv_qp_attr drain = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct world world;
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	int fd;
	pid_t child = start(end_with_the_last_message, &fd);

	open_conversation(&world, &pair, PARENT, fd);
	converse(&pair, PARENT, TURNS);
	wr = pair_request(&pair, PARENT, IBV_WR_SEND, &sge, 0, 8);
	wr.send_flags = 0;
	pair_post(&pair, PARENT, &wr);
	finish(child, fd);
	assert_int_equal(ibv_modify_qp(pair.qp[PARENT], &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_ptr_equal(expect_event(world.context, IBV_EVENT_SQ_DRAINED).element.qp, pair.qp[PARENT]);
	close_half(&world, &pair);
}

/* More than once: where the engine thread takes it in it is acknowledged at once. */
static void a_message_before_the_end_is_acknowledged(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 5; i++)
		send_before_the_end();
}

static void wait_for_death(int fd)
{
	const struct pair_options options = {0};
	struct world world;
	struct pair pair;
	struct card other;

	open_half(&world, &pair, CHILD, &options, fd, &other);
	for (;;)
		pause();
}

static void a_killed_peer_is_noticed(void **state)
{
	const struct pair_options options = {.timeout = 15, .retry = 6};
	struct world world;
	struct pair pair;
	struct card other;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	int fd, status;
	pid_t child = start(wait_for_death, &fd);

	(void)state;
	open_half(&world, &pair, PARENT, &options, fd, &other);
	/* It serves one-sided requests without running a line of its program. */
	wr = half_request(&pair, PARENT, &other, IBV_WR_RDMA_WRITE, &sge, 0, 4096);
	pair_post(&pair, PARENT, &wr);
	expect_completion(pair.cq[PARENT], wr.wr_id, IBV_WC_RDMA_WRITE);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	wr.wr_id = 2;
	pair_post(&pair, PARENT, &wr);
	expect_status(pair.cq[PARENT], 2, IBV_WC_RETRY_EXC_ERR);
	close(fd);
	close_half(&world, &pair);
}

static void send_descriptor(int fd, int descriptor, uint32_t handle)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct iovec content = {&handle, sizeof(handle)};
	struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1, .msg_control = &control,
				 .msg_controllen = sizeof(control.bytes)};

	memcpy(CMSG_DATA(&control.header), &descriptor, sizeof(descriptor));
	assert_int_equal(sendmsg(fd, &message, 0), sizeof(handle));
}

static int receive_descriptor(int fd, uint32_t *handle)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec content = {handle, sizeof(*handle)};
	struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1, .msg_control = &control,
				 .msg_controllen = sizeof(control.bytes)};
	int descriptor;

	assert_int_equal(recvmsg(fd, &message, 0), sizeof(*handle));
	memcpy(&descriptor, CMSG_DATA(&control.header), sizeof(descriptor));
	return descriptor;
}

static void hand_over(int fd)
{
	struct world world;
	char done;

	world_open(&world, "lo");
	send_descriptor(fd, world.context->cmd_fd, world.pd->handle);
	assert_int_equal(read(fd, &done, 1), 0); /* end of file: the parent is done */
	world_close(&world);
}

/* The device is the same; the other process's objects are not to be had. */
static void a_context_handed_over_opens_its_device(void **state)
{
	struct ibv_context *context;
	uint32_t handle;
	int fd, descriptor;
	pid_t child = start(hand_over, &fd);

	(void)state;
	descriptor = receive_descriptor(fd, &handle);
	context = ibv_import_device(descriptor);
	assert_non_null(context);
	assert_string_equal(ibv_get_device_name(context->device), "roce_lo");
	assert_null(ibv_import_pd(context, handle));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_close_device(context), 0);
	close(descriptor);
	finish(child, fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_writes_and_reads_between_processes),
		cmocka_unit_test(what_was_acknowledged_is_not_flushed),
		cmocka_unit_test(a_message_before_the_end_is_acknowledged),
		cmocka_unit_test(a_killed_peer_is_noticed),
		cmocka_unit_test(a_context_handed_over_opens_its_device),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
