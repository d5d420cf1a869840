/* SPDX-License-Identifier: MIT
 *
 * event_pingpong HOW serve DEVICE GID_INDEX
 * event_pingpong HOW ADDRESS DEVICE GID_INDEX [ROUNDS]
 *
 * How long a SEND of eight bytes takes one way when both sides sleep until it has come, as servers do. HOW they wait for their
 * completion channel: `call` (ibv_get_cq_event), `poll` or `epoll`.
 *
 * The server listens on TCP port 18533 and leaves with its client. The client prints the median of half a round trip, in microseconds,
 * and how often in a hundred rounds threads of it other than the one that plays went to sleep: of twenty stretches that with the fewest,
 * since a thread that loses its processor to other programs leaves its packets to those threads.
 */
#include "connection.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

const char *bench_name = "event_pingpong";

enum { PORT = 18533, SENDS = 32, RECEIVES = 8, BYTES = 8, SIGNALED_EACH = 8, ROUNDS = 20000, MOST_ROUNDS = 1000000, WARM_UP = 1000,
       STRETCHES = 20, PATIENCE_MS = 20000 };

static enum { BY_CALL, BY_POLL, BY_EPOLL } how;
static struct bench_device device;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static char buffer[RECEIVES][BYTES];
static int set = -1;
static unsigned sent, arrived;

static void post_receive(unsigned i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buffer[i], .length = BYTES, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	errno = ibv_post_recv(qp, &wr, &bad);
	if (errno)
		bench_give_up("ibv_post_recv");
}

static void post_send(void)
{
	char message[BYTES] = "message";
	struct ibv_sge sge = {.addr = (uintptr_t)message, .length = BYTES};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_INLINE}, *bad;

	if (++sent % SIGNALED_EACH == 0)
		wr.send_flags |= IBV_SEND_SIGNALED;
	errno = ibv_post_send(qp, &wr, &bad);
	if (errno)
		bench_give_up("ibv_post_send");
}

static void take_completions(void)
{
	struct ibv_wc wc;
	int count;

	while ((count = ibv_poll_cq(cq, 1, &wc)) > 0) {
		if (wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "event_pingpong: %s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
		if (wc.opcode & IBV_WC_RECV) {
			post_receive((unsigned)wc.wr_id);
			arrived++;
		}
	}
	if (count < 0)
		bench_give_up("ibv_poll_cq");
}

static void wait_for_descriptor(void)
{
	struct pollfd one = {.fd = channel->fd, .events = POLLIN};
	struct epoll_event found;

	if ((how == BY_POLL ? poll(&one, 1, PATIENCE_MS) : epoll_wait(set, &found, 1, PATIENCE_MS)) != 1)
		bench_give_up("no message");
}

static void sleep_until_event(void)
{
	struct ibv_cq *of;
	void *context;

	if (how != BY_CALL)
		wait_for_descriptor();
	if (ibv_get_cq_event(channel, &of, &context) != 0)
		bench_give_up("ibv_get_cq_event");
	ibv_ack_cq_events(of, 1);
	errno = ibv_req_notify_cq(cq, 0);
	if (errno)
		bench_give_up("ibv_req_notify_cq");
}

static void take_message(void)
{
	for (take_completions(); arrived == 0; take_completions())
		sleep_until_event();
	arrived--;
}

static void open_ends(const char *name, unsigned gid_index)
{
	struct bench_queues queues = {.sends = SENDS, .receives = RECEIVES, .inline_bytes = BYTES};
	struct epoll_event readable = {.events = EPOLLIN};

	bench_open(&device, name, gid_index);
	channel = ibv_create_comp_channel(device.context);
	cq = channel ? ibv_create_cq(device.context, SENDS + RECEIVES, NULL, channel, 0) : NULL;
	mr = ibv_reg_mr(device.pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	if (!cq || !mr)
		bench_give_up("ibv_create_cq");
	queues.send_cq = queues.receive_cq = cq;
	qp = bench_create_qp(&device, &queues);
	if (how != BY_CALL && fcntl(channel->fd, F_SETFL, O_NONBLOCK) != 0)
		bench_give_up("fcntl");
	if (how != BY_EPOLL)
		return;
	set = epoll_create1(EPOLL_CLOEXEC);
	if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, channel->fd, &readable) != 0)
		bench_give_up("epoll_ctl");
}

static void meet(int line)
{
	bench_connect_qps(&device, line, &qp, 1);
	for (unsigned i = 0; i < RECEIVES; i++)
		post_receive(i);
	errno = ibv_req_notify_cq(cq, 0);
	if (errno)
		bench_give_up("ibv_req_notify_cq");
	bench_meet(line);
}

static unsigned long sleeps_of(const char *thread)
{
	char path[sizeof("/proc/self/task//status") + 256], line[256];
	unsigned long count = 0;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
	status = fopen(path, "r");
	if (!status)
		return 0;
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "voluntary_ctxt_switches: %lu", &count) == 1)
			break;
	fclose(status);
	return count;
}

/* Of all threads but this one, which is the process's first. */
static unsigned long sleeps_of_others(void)
{
	unsigned long sum = 0;
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;

	if (!tasks)
		bench_give_up("/proc/self/task");
	while ((entry = readdir(tasks)) != NULL)
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != getpid())
			sum += sleeps_of(entry->d_name);
	closedir(tasks);
	return sum;
}

static void exchange(unsigned rounds, double *took)
{
	for (unsigned i = 0; i < rounds; i++) {
		double began = bench_now();

		post_send();
		take_message();
		took[i] = (bench_now() - began) / 2;
	}
}

static unsigned long fewest_sleeps(unsigned rounds, double *took)
{
	unsigned long fewest = ULONG_MAX;

	for (unsigned i = 0; i < STRETCHES; i++) {
		unsigned first = i * (rounds / STRETCHES), end = i + 1 < STRETCHES ? first + rounds / STRETCHES : rounds;
		unsigned long before = sleeps_of_others(), sleeps;

		exchange(end - first, took + first);
		sleeps = (sleeps_of_others() - before) * 100 / (end - first);
		fewest = sleeps < fewest ? sleeps : fewest;
	}
	return fewest;
}

static void play(int line, unsigned rounds)
{
	double *took = calloc(rounds + WARM_UP, sizeof(*took));
	unsigned told = htobe32(rounds), nothing;
	unsigned long sleeps;

	if (!took)
		bench_give_up("memory");
	bench_swap(line, &told, &nothing, sizeof(told));
	exchange(WARM_UP, took);
	sleeps = fewest_sleeps(rounds, took);
	printf("%.2f %lu\n", bench_median(took, rounds) * 1e6, sleeps);
	free(took);
}

static void answer(int line)
{
	unsigned rounds, nothing = 0;

	bench_swap(line, &nothing, &rounds, sizeof(rounds));
	rounds = be32toh(rounds) + WARM_UP;
	for (unsigned i = 0; i < rounds; i++) {
		take_message();
		post_send();
	}
}

static void close_ends(void)
{
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_destroy_comp_channel(channel);
	ibv_dereg_mr(mr);
	bench_close(&device);
	if (set >= 0)
		close(set);
}

int main(int count, char **arguments)
{
	bool serves = count == 5 && strcmp(arguments[2], "serve") == 0;
	unsigned rounds = count == 6 ? (unsigned)atoi(arguments[5]) : ROUNDS;
	int line;

	if (count < 5 || count > 6 || rounds < STRETCHES || rounds > MOST_ROUNDS) {
		fprintf(stderr, "usage: event_pingpong call|poll|epoll serve|ADDRESS DEVICE GID_INDEX [ROUNDS]\n");
		return 2;
	}
	how = strcmp(arguments[1], "call") == 0 ? BY_CALL : strcmp(arguments[1], "poll") == 0 ? BY_POLL : BY_EPOLL;
	open_ends(arguments[3], (unsigned)atoi(arguments[4]));
	line = serves ? bench_accept(PORT) : bench_connect(arguments[2], PORT);
	meet(line);
	if (serves)
		answer(line);
	else
		play(line, rounds);
	bench_meet(line);
	close(line);
	close_ends();
	return 0;
}
