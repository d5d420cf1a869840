/* SPDX-License-Identifier: MIT
 *
 * Two processes of one host that go through memory: that they do, that nobody is woken for what needs nobody, and that
 * the death of either, at any moment, harms the other no more than on the wire. Which way was taken is seen by what the
 * network namespace counts: through memory not one datagram is sent.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "lib/two_processes.h"

enum { SIZE = 64 * 1024 };

/* Of both sides: a child has what its parent had. */
static enum ibv_qp_type type;

/* This process as /proc has it, which may be mounted for another process namespace than ours. */
static uint32_t number_in_proc(void)
{
	char number[32] = "";

	assert_true(readlink("/proc/self", number, sizeof(number) - 1) > 0);
	return (uint32_t)atoi(number);
}

#ifndef __SANITIZE_THREAD__
/* A value in a file of /proc that says how a thread is. */
static bool read_task(uint32_t pid, const char *thread, const char *file_name, const char *format, void *value)
{
	char path[512];
	FILE *file;
	bool found;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/%s", (int)pid, thread, file_name);
	file = fopen(path, "r");
	found = file && fscanf(file, format, value) == 1;
	if (file)
		fclose(file);
	return found;
}

/* Nanoseconds on a processor, of all threads; and whether all of them sleep. One that is ready to run and is not given a processor
 * spends no time either. */
static unsigned long long run_time(uint32_t pid, bool *all_sleep)
{
	char path[64], state;
	unsigned long long sum = 0, one;
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	assert_non_null(tasks);
	*all_sleep = true;
	while ((entry = readdir(tasks)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		if (read_task(pid, entry->d_name, "schedstat", "%llu", &one))
			sum += one;
		if (read_task(pid, entry->d_name, "stat", "%*d (%*[^)]) %c", &state))
			*all_sleep &= state == 'S';
	}
	closedir(tasks);
	return sum;
}

/* Did no thread of it run, or want to, for so long? */
static bool rested(uint32_t pid, useconds_t microseconds, unsigned long long *spent)
{
	bool slept, sleeps;
	unsigned long long before = run_time(pid, &slept);

	usleep(microseconds);
	*spent = run_time(pid, &sleeps);
	return slept && sleeps && *spent == before;
}
#endif

/* ---- the child's parts ---- */

/* Sends three messages back, as often as it is asked to. */
static void echo(int fd)
{
	const struct pair_options options = {.type = type};
	struct world world;
	struct pair pair;
	struct card other, wish, nothing = {0};

	open_half(&world, &pair, CHILD, &options, fd, &other);
	for (talk(fd, &nothing, &wish); wish.qpn != 0; talk(fd, &nothing, &wish)) {
		for (uint64_t i = 0; i < 3; i++)
			pair_receive(&pair, CHILD, i, i * SIZE, SIZE);
		meet(fd);
		for (uint64_t i = 0; i < 3; i++) {
			struct ibv_wc wc = expect_completion(pair.cq[CHILD], i, IBV_WC_RECV);
			struct ibv_sge sge;
			struct ibv_send_wr wr = half_request(&pair, CHILD, &other, IBV_WR_SEND, &sge, i * SIZE, wc.byte_len);

			wr.wr_id = 100 + i;
			pair_post(&pair, CHILD, &wr);
			expect_completion(pair.cq[CHILD], 100 + i, IBV_WC_SEND);
		}
	}
	close_half(&world, &pair);
}

static void let_nobody_in_and_echo(int fd)
{
	assert_int_equal(prctl(PR_SET_DUMPABLE, 0), 0);
	echo(fd);
}

/* Is there, and does nothing. */
static void lie_still(int fd)
{
	const struct pair_options options = {.type = type};
	const struct card name = {.qpn = number_in_proc()};
	struct world world;
	struct pair pair;
	struct card other;

	open_half(&world, &pair, CHILD, &options, fd, &other);
	talk(fd, &name, &other);
	meet(fd);
	close_half(&world, &pair);
}

/* Writes and reads as much as it can until it is killed. */
static void write_for_ever(int fd)
{
	const struct pair_options options = {.depth = 16};
	struct world world;
	struct pair pair;
	struct card other;
	struct ibv_sge sge;

	open_half(&world, &pair, CHILD, &options, fd, &other);
	for (unsigned i = 0;; i++) {
		struct ibv_send_wr wr = half_request(&pair, CHILD, &other, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, &sge, 0,
						     PAIR_BUFFER);
		struct ibv_wc wc;

		pair_post(&pair, CHILD, &wr);
		wc = wait_completion(pair.cq[CHILD]);
		/* The other took its key away. */
		if (wc.status != IBV_WC_SUCCESS)
			for (;;)
				pause();
		if (i == 0)
			meet(fd);
	}
}

/* ---- tests ---- */

/* A message each way, of a size that is copied through the ring and of ones that are not. Returns the datagrams it took. */
static unsigned long exchange(struct pair *pair, const struct card *other, int fd)
{
	const uint32_t lengths[] = {100, 5000, SIZE};
	const struct card go = {.qpn = 1};
	unsigned long before = private_network_datagrams();
	struct card nothing;
	struct ibv_sge sge;

	talk(fd, &go, &nothing);
	for (uint64_t i = 0; i < 3; i++)
		pair_receive(pair, PARENT, i, i * SIZE, SIZE);
	meet(fd);
	for (uint64_t i = 0; i < 3; i++) {
		struct ibv_send_wr wr = half_request(pair, PARENT, other, IBV_WR_SEND, &sge, 3 * SIZE, lengths[i]);

		wr.wr_id = 100 + i;
		wr.send_flags = 0;
		fill_pattern(pair->buffer[PARENT] + 3 * SIZE, lengths[i], (uint32_t)i);
		pair_post(pair, PARENT, &wr);
		assert_int_equal(expect_completion(pair->cq[PARENT], i, IBV_WC_RECV).byte_len, lengths[i]);
		assert_true(has_pattern(pair->buffer[PARENT] + i * SIZE, lengths[i], (uint32_t)i));
	}
	return private_network_datagrams() - before;
}

/* The same in a life of its own, against such a child. */
static unsigned long exchange_with(void (*play)(int fd))
{
	const struct pair_options options = {.type = type};
	struct world world;
	struct pair pair;
	struct card other;
	unsigned long took;
	int fd;
	pid_t child = start(play, &fd);

	open_half(&world, &pair, PARENT, &options, fd, &other);
	took = exchange(&pair, &other, fd);
	meet(fd);
	close_half(&world, &pair);
	finish(child, fd);
	return took;
}

static void not_a_packet_is_sent(void **state)
{
	(void)state;
	assert_int_equal(exchange_with(echo), 0);
}

static void nor_by_unreliable_connections(void **state)
{
	(void)state;
	type = IBV_QPT_UC;
	assert_int_equal(exchange_with(echo), 0);
	type = 0;
}

static void ask_for_the_wire(void)
{
	const struct pair_options options = {.type = type};
	struct world world;
	struct pair pair;
	struct card other;
	pid_t child;
	int fd;

	/* One of the two is enough. */
	child = start(echo, &fd);
	setenv("VERBENA_WIRE", "rocev2", 1);
	open_half(&world, &pair, PARENT, &options, fd, &other);
	setenv("VERBENA_WIRE", "auto", 1);
	assert_true(exchange(&pair, &other, fd) > 0);
	meet(fd);
	close_half(&world, &pair);
	finish(child, fd);
}

static void the_wire_can_be_asked_for(void **state)
{
	(void)state;
	ask_for_the_wire();
	type = IBV_QPT_UC;
	ask_for_the_wire();
	type = 0;
}

/* A segment has room for so many open devices; the queue pairs of the next ones go by wire. */
static void more_devices_than_a_segment_has_room_for(void **state)
{
	enum { MOST = 8 };
	struct world world[MOST + 1];
	struct pair pair;

	(void)state;
	for (unsigned i = 0; i <= MOST; i++)
		world_open(&world[i], "lo");
	for (unsigned i = MOST - 1; i <= MOST; i++) {
		unsigned long before;
		struct ibv_sge sge;
		struct ibv_send_wr wr;

		pair_open(&pair, &world[i], &(struct pair_options){0});
		before = private_network_datagrams();
		pair_receive(&pair, 1, 7, 0, 100);
		wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 100);
		pair_post(&pair, 0, &wr);
		expect_completion(pair.cq[1], 7, IBV_WC_RECV);
		expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
		assert_int_equal(private_network_datagrams() - before > 0, i == MOST);
		pair_close(&pair);
	}
	for (unsigned i = 0; i <= MOST; i++)
		world_close(&world[i]);
}

/* ptrace(2): a process that is not dumpable lets nobody into its memory. Either one is enough for the wire. */
static int index_of_gid(struct ibv_context *context, const union ibv_gid *wanted)
{
	union ibv_gid gid;

	for (int i = 0; i < 16; i++)
		if (ibv_query_gid(context, 1, i, &gid) == 0 && memcmp(&gid, wanted, sizeof(gid)) == 0)
			return i;
	return -1;
}

/* An address that was asked for in vain and then becomes one of this host is one of this host. */
static void an_address_may_come_later(void **state)
{
	struct pair_options options = {.stay_in_reset = true};
	const union ibv_gid other = {.raw = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 2}};
	union ibv_gid own;
	struct world world;
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	unsigned long before;

	(void)state;
	if (private_network_add_interface("vb0", "192.0.2.1", 24) != 0 || private_network_set_up("veth0", 1) != 0)
		skip();
	world_open(&world, "vb0");
	own = world.gid;
	world.gid = other;
	/* The second time it is known. */
	for (unsigned i = 0; i < 2; i++) {
		pair_open(&pair, &world, &options);
		pair_to_init(&pair, 0);
		pair_to_rtr(&pair, 0);
		pair_close(&pair);
	}
	assert_memory_not_equal(&own, &other, sizeof(own));
	assert_int_equal(private_network_add_address("vb0", "192.0.2.2", 24), 0);
	assert_true(eventually(index_of_gid(world.context, &other) >= 0));
	world.gid_index = index_of_gid(world.context, &other);
	options.stay_in_reset = false;
	pair_open(&pair, &world, &options);
	before = private_network_datagrams();
	pair_receive(&pair, 1, 1, 0, SIZE);
	wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 100);
	pair_post(&pair, 0, &wr);
	expect_completion(pair.cq[1], 1, IBV_WC_RECV);
	assert_int_equal(private_network_datagrams(), before);
	pair_close(&pair);
	world_close(&world);
}

static void who_lets_nobody_in_is_reached_by_wire(void **state)
{
	(void)state;
	assert_true(exchange_with(let_nobody_in_and_echo) > 0);
	assert_int_equal(prctl(PR_SET_DUMPABLE, 0), 0);
	assert_true(exchange_with(echo) > 0);
	assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0);
	assert_int_equal(exchange_with(echo), 0);
}

#ifndef __SANITIZE_THREAD__
static pid_t daemon_pid(void)
{
	static const char name[] = "\0verbena/1";
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer = {0};
	socklen_t length = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, name, sizeof(name) - 1);
	if (connect(fd, (struct sockaddr *)&address, offsetof(struct sockaddr_un, sun_path) + sizeof(name) - 1) == 0)
		assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length), 0);
	close(fd);
	return peer.pid;
}

/* What is connected needs no daemon; what is to be connected finds the next one, and what it shows there. */
static void the_daemon_may_die(void **state)
{
	const struct pair_options options = {0};
	struct world world;
	struct pair pair;
	struct card other;
	pid_t child, daemon, next;
	bool by_memory = false;
	int fd;

	(void)state;
	child = start(echo, &fd);
	open_half(&world, &pair, PARENT, &options, fd, &other);
	assert_int_equal(exchange(&pair, &other, fd), 0);
	daemon = daemon_pid();
	assert_true(daemon > 1);
	assert_int_equal(kill(daemon, SIGKILL), 0);
	(void)exchange(&pair, &other, fd);
	assert_true(eventually((next = daemon_pid()) != 0 && next != daemon));
	(void)exchange(&pair, &other, fd);
	/* Until both have shown it what they had shown the other, the wire must do. */
	for (int64_t end = patience_clock() + PATIENCE_MS; !by_memory && patience_clock() < end;)
		by_memory = exchange_with(echo) == 0;
	assert_true(by_memory);
	meet(fd);
	close_half(&world, &pair);
	finish(child, fd);
}

/* WRITE and READ are the initiator's alone: the target's threads do not run, not for a nanosecond, even if it is stopped. */
static void a_target_does_nothing(void **state)
{
	const struct pair_options options = {0};
	struct world world;
	struct pair pair;
	struct card other, name = {0};
	struct ibv_sge sge;
	unsigned long long before;
	bool sleeps;
	int fd, status;
	pid_t child = start(lie_still, &fd);

	(void)state;
	open_half(&world, &pair, PARENT, &options, fd, &other);
	talk(fd, &name, &name);
	/* It may be on its way to sleep still, and wait for a processor on it. */
	assert_true(eventually(rested(name.qpn, 100000, &before)));
	for (unsigned i = 0; i < 10000; i++) {
		struct ibv_send_wr wr = half_request(&pair, PARENT, &other, i % 4 == 3 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, &sge,
						     0, i % 2 ? 8 : 4096);

		wr.wr_id = i;
		pair_post(&pair, PARENT, &wr);
		expect_completion(pair.cq[PARENT], i, i % 4 == 3 ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE);
	}
	assert_int_equal(run_time(name.qpn, &sleeps), before);

	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	{
		struct ibv_send_wr wr = half_request(&pair, PARENT, &other, IBV_WR_RDMA_WRITE, &sge, 0, 4096);

		pair_post(&pair, PARENT, &wr);
		expect_completion(pair.cq[PARENT], wr.wr_id, IBV_WC_RDMA_WRITE);
	}
	assert_int_equal(kill(child, SIGCONT), 0);
	meet(fd);
	close_half(&world, &pair);
	finish(child, fd);
}

/* A connection that nobody uses wakes nobody. */
static void nobody_wakes_without_reason(void **state)
{
	const struct pair_options options = {0};
	struct world world;
	struct pair pair;
	struct card other, name = {0};
	unsigned long long spent;
	int fd;
	pid_t child = start(lie_still, &fd);

	(void)state;
	open_half(&world, &pair, PARENT, &options, fd, &other);
	talk(fd, &name, &name);
	/* Half a second during which no thread runs; it may take some until there is one. */
	assert_true(eventually(rested(name.qpn, 500000, &spent)));
	meet(fd);
	close_half(&world, &pair);
	finish(child, fd);
}

#endif

static void sleepers_are_woken(int fd)
{
	struct pair_options options = {0};
	struct ibv_comp_channel *channel;
	struct world world;
	struct pair pair;
	struct card other;
	struct ibv_sge sge;
	struct ibv_cq *cq;
	void *context;

	world_open(&world, "lo");
	channel = ibv_create_comp_channel(world.context);
	assert_non_null(channel);
	options.channel = channel;
	options.stay_in_reset = true;
	pair_open(&pair, &world, &options);
	{
		struct card own = {pair.qp[CHILD]->qp_num, pair.mr[CHILD]->rkey, (uintptr_t)pair.buffer[CHILD]};

		talk(fd, &own, &other);
	}
	pair.elsewhere = other.qpn;
	pair_to_init(&pair, CHILD);
	pair_to_rtr(&pair, CHILD);
	pair_to_rts(&pair, CHILD);
	pair_receive(&pair, CHILD, 1, 0, SIZE);
	assert_int_equal(ibv_req_notify_cq(pair.cq[CHILD], 0), 0);
	meet(fd);
	for (unsigned i = 0; i < 300; i++) {
		struct ibv_send_wr wr = half_request(&pair, CHILD, &other, IBV_WR_SEND, &sge, 0, i);
		struct ibv_wc wc;
		bool received = false;

		while (!received) {
			struct pollfd item = {.fd = channel->fd, .events = POLLIN};

			assert_int_equal(poll(&item, 1, PATIENCE_MS), 1);
			assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
			ibv_ack_cq_events(cq, 1);
			assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
			while (ibv_poll_cq(cq, 1, &wc) == 1) {
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
				received |= wc.opcode == IBV_WC_RECV;
			}
		}
		pair_receive(&pair, CHILD, 1, 0, SIZE);
		pair_post(&pair, CHILD, &wr);
	}
	meet(fd);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	world_close(&world);
}

static void events_wake_whoever_sleeps(void **state)
{
	const struct pair_options options = {.depth = 300}; /* none is signaled */
	struct world world;
	struct pair pair;
	struct card other;
	struct ibv_sge sge;
	int fd;
	pid_t child = start(sleepers_are_woken, &fd);

	(void)state;
	open_half(&world, &pair, PARENT, &options, fd, &other);
	for (unsigned i = 0; i < 300; i++) {
		struct ibv_send_wr wr = half_request(&pair, PARENT, &other, IBV_WR_SEND, &sge, 0, i);

		wr.send_flags = 0;
		pair_receive(&pair, PARENT, i, SIZE, SIZE);
		pair_post(&pair, PARENT, &wr);
		assert_int_equal(expect_completion(pair.cq[PARENT], i, IBV_WC_RECV).byte_len, i);
		/* Now and then long enough for all to fall asleep. */
		if (i % 50 == 49)
			usleep(20000);
	}
	meet(fd);
	close_half(&world, &pair);
	finish(child, fd);
}

/* Killed in the middle of a copy, an initiator is out of our memory, and deregistration does not wait for it. */
static void a_killed_initiator_holds_nothing(void **state)
{
	unsigned seed = 4791;

	(void)state;
	for (unsigned round = 0; round < 12; round++) {
		const struct pair_options options = {0};
		struct world world;
		struct pair pair;
		struct card other;
		int fd, status;
		int64_t began;
		pid_t child = start(write_for_ever, &fd);

		open_half(&world, &pair, PARENT, &options, fd, &other);
		meet(fd);
		usleep((useconds_t)(rand_r(&seed) % 3000));
		/* Every second time the key goes while the other still lives. */
		if (round % 2)
			assert_int_equal(kill(child, SIGKILL), 0);
		began = patience_clock();
		assert_int_equal(ibv_dereg_mr(pair.mr[PARENT]), 0);
		assert_true(patience_clock() - began < 10000);
		/* Whoever still wrote here would be found out. */
		memset(pair.buffer[PARENT], 0x5a, PAIR_BUFFER);
		usleep(2000);
		for (size_t i = 0; i < PAIR_BUFFER; i++)
			if (pair.buffer[PARENT][i] != 0x5a)
				fail_msg("byte %zu was written after deregistration", i);
		if (round % 2 == 0)
			assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		pair.mr[PARENT] = ibv_reg_mr(world.pd, pair.buffer[PARENT], PAIR_BUFFER, IBV_ACCESS_LOCAL_WRITE);
		assert_non_null(pair.mr[PARENT]);
		close(fd);
		close_half(&world, &pair);
	}
}

/* All that an initiator sees of a dead target is that it does not answer. */
static void a_killed_target_is_a_silent_one(void **state)
{
	unsigned seed = 4792;

	(void)state;
	for (unsigned round = 0; round < 8; round++) {
		const struct pair_options options = {.timeout = 8, .retry = 2, .depth = 16};
		enum ibv_wr_opcode opcode = round % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
		int64_t killed = 0, due = patience_clock() + 1 + rand_r(&seed) % 4;
		struct world world;
		struct pair pair;
		struct card other;
		struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
		int fd, status;
		pid_t child = start(lie_still, &fd);

		open_half(&world, &pair, PARENT, &options, fd, &other);
		meet(fd);
		while (wc.status == IBV_WC_SUCCESS) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = half_request(&pair, PARENT, &other, opcode, &sge, 0, PAIR_BUFFER);

			/* A SEND waits for a receive for ever: the first is under way when the target dies. */
			if (!killed && (patience_clock() >= due || opcode == IBV_WR_SEND)) {
				pair_post(&pair, PARENT, &wr);
				assert_int_equal(kill(child, SIGKILL), 0);
				killed = patience_clock();
			} else {
				pair_post(&pair, PARENT, &wr);
			}
			wc = wait_completion(pair.cq[PARENT]);
			assert_true(!killed || patience_clock() - killed < 20000);
		}
		assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(waitpid(child, &status, 0), child);
		close(fd);
		close_half(&world, &pair);
	}
}

/* A target that stopped does not execute messages: the initiator gives up when it said it would. */
static void a_stopped_target_is_given_up(void **state)
{
	/* 4.096 us x 2^14 = 67 ms, twice. */
	const struct pair_options options = {.timeout = 14, .retry = 1};
	struct world world;
	struct pair pair;
	struct card other;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	int64_t began, took;
	int fd, status;
	pid_t child = start(lie_still, &fd);

	(void)state;
	open_half(&world, &pair, PARENT, &options, fd, &other);
	meet(fd);
	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	began = patience_clock();
	wr = half_request(&pair, PARENT, &other, IBV_WR_SEND, &sge, 0, 64);
	pair_post(&pair, PARENT, &wr);
	expect_status(pair.cq[PARENT], wr.wr_id, IBV_WC_RETRY_EXC_ERR);
	took = patience_clock() - began;
	assert_in_range(took, 130, 20000);
	assert_int_equal(kill(child, SIGCONT), 0);
	meet(fd);
	close_half(&world, &pair);
	finish(child, fd);
}

/* A sender of UC hears nothing of a peer that is killed or stopped, and does not wait for it. */
static void lose_a_peer(int sign)
{
	const struct pair_options options = {.type = IBV_QPT_UC, .depth = 64};
	struct world world;
	struct pair pair;
	struct card other;
	unsigned long before;
	int fd, status;
	pid_t child;

	type = IBV_QPT_UC;
	child = start(lie_still, &fd);
	type = 0;
	open_half(&world, &pair, PARENT, &options, fd, &other);
	meet(fd);
	before = private_network_datagrams();
	assert_int_equal(kill(child, sign), 0);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	for (uint64_t i = 0; i < 60; i++) {
		static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE};
		struct ibv_sge sge;
		struct ibv_send_wr wr = half_request(&pair, PARENT, &other, opcodes[i % 3], &sge, 0, i % 2 ? PAIR_BUFFER : 100);

		wr.wr_id = i;
		pair_post(&pair, PARENT, &wr);
	}
	for (uint64_t i = 0; i < 60; i++)
		expect_status(pair.cq[PARENT], i, IBV_WC_SUCCESS);
	assert_int_equal(private_network_datagrams(), before);
	if (sign == SIGSTOP) {
		assert_int_equal(kill(child, SIGCONT), 0);
		meet(fd);
		close_half(&world, &pair);
		finish(child, fd);
	} else {
		close(fd);
		close_half(&world, &pair);
	}
}

static void unreliable_connections_wait_for_nobody(void **state)
{
	(void)state;
	lose_a_peer(SIGKILL);
	lose_a_peer(SIGSTOP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(not_a_packet_is_sent),
		cmocka_unit_test(nor_by_unreliable_connections),
		cmocka_unit_test(the_wire_can_be_asked_for),
		cmocka_unit_test(more_devices_than_a_segment_has_room_for),
		cmocka_unit_test(an_address_may_come_later),
		cmocka_unit_test(who_lets_nobody_in_is_reached_by_wire),
#ifndef __SANITIZE_THREAD__              /* which has a thread of its own in every process, and no threads after a fork among threads */
		cmocka_unit_test(the_daemon_may_die),
		cmocka_unit_test(a_target_does_nothing),
		cmocka_unit_test(nobody_wakes_without_reason),
#endif
		cmocka_unit_test(events_wake_whoever_sleeps),
		cmocka_unit_test(a_killed_initiator_holds_nothing),
		cmocka_unit_test(a_killed_target_is_a_silent_one),
		cmocka_unit_test(a_stopped_target_is_given_up),
		cmocka_unit_test(unreliable_connections_wait_for_nobody),
	};

	setenv("VERBENA_WIRE", "auto", 1);
	private_network_enter();
	private_network_give_up_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
