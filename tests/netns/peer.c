/* SPDX-License-Identifier: MIT
 *
 * A process with an endpoint and some RC queue pairs, told on standard input what to do: the tests' hands on the
 * progress room, below libibverbs. It sleeps on an eventfd raised by an armed CQ, so that every message also tests a
 * wake-up.
 *
 *	peer [-n QUEUE_PAIRS] [-a ADDRESS] [-s]
 *	ready SLOT QPN...
 *	connect I QPN      queue pair I to the one with that number at ADDRESS; "connected I"
 *	serve I COUNT      begin COUNT round trips on it; "done I COUNT MICROSECONDS"
 *	spin MS            poll without sleeping for so long; "spun"
 *	counters           "counters SENT RECEIVED SEND_ERRORS"
 *	processes          "process PID UID SLOT QUEUE_PAIRS" for each that verbenad knows, "processes COUNT"
 *	fork               a child that does nothing but live until its standard input ends; "forked PID"
 *	quit               close everything
 *
 * News of devices come at any time: "device NAME STATE GIDS" or "gone NAME".
 * Anything received is sent back unless it completes a round trip of ours. -s opens the endpoint twice, one after the
 * other.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "io/daemon_client.h"
#include "io/process_memory.h"
#include "profiles/profile.h"
#include "memory/region.h"
#include "progress/endpoint.h"
#include "queue/qp.h"
#include "roce/roce.h"

enum { MOST_PAIRS = 64, MESSAGE = 256, RECEIVES = 8 };

struct pair {
	struct vb_qp *qp;
	unsigned left, asked;              /* round trips */
	vb_time begun;
};

static struct vb_endpoint *endpoint;
static struct vb_memory *memory;
static struct vb_pd pd = {.handle = 1};
static struct vb_cq cq;
static struct vb_counters counters;
static struct vb_queue_host host;
static struct pair pair[MOST_PAIRS];
static unsigned pairs = 1;
static int event_fd;
static uint32_t key;
static uint8_t buffer[MOST_PAIRS][2][MESSAGE];
static uint8_t address[16];

static void fail(const char *what, int error)
{
	printf("failed %s: %s\n", what, strerror(error < 0 ? -error : error));
	exit(1);
}

static void on_completion(struct vb_cq *which)
{
	uint64_t one = 1;

	(void)which;
	if (write(event_fd, &one, sizeof(one)) < 0)
		exit(3);
}

static void on_deadline(struct vb_cq *which, vb_time when)
{
	vb_endpoint_cq_deadline(endpoint, which, when);
}

static void on_qp_event(struct vb_qp *qp, enum ibv_event_type event)
{
	(void)qp;
	(void)event;
}

static void on_cq_event(struct vb_cq *which, enum ibv_event_type event)
{
	(void)which;
	printf("cq event %d\n", event);
}

static void on_srq_event(struct vb_srq *srq, enum ibv_event_type event)
{
	(void)srq;
	(void)event;
}

static void post_receive(unsigned i)
{
	struct ibv_sge element = {(uintptr_t)buffer[i][0], MESSAGE, key};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &element, .num_sge = 1}, *bad;
	int error;

	vb_lock_take(&pair[i].qp->lock);
	error = vb_qp_post_receive(pair[i].qp, &wr, &bad, vb_endpoint_now());
	vb_lock_release(&pair[i].qp->lock);
	if (error)
		fail("post_receive", error);
}

static void post_send(unsigned i)
{
	struct ibv_sge element = {(uintptr_t)buffer[i][1], MESSAGE, key};
	struct ibv_send_wr wr = {.wr_id = i, .sg_list = &element, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	int error;

	vb_lock_take(&pair[i].qp->lock);
	error = vb_qp_post_send(pair[i].qp, &wr, &bad, vb_endpoint_now());
	if (!error)
		vb_endpoint_transmit(endpoint, pair[i].qp, vb_endpoint_now());
	vb_lock_release(&pair[i].qp->lock);
	if (error)
		fail("post_send", error);
}

static void modify(unsigned i, struct ibv_qp_attr *attr, int mask, const struct vb_path *path)
{
	int error = vb_qp_modify(pair[i].qp, attr, mask, path, IBV_MTU_1024, vb_endpoint_now());

	if (error)
		fail("modify", error);
}

static void connect_pair(unsigned i, uint32_t qpn)
{
	struct vb_path path = {.hop_limit = 64};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qpn, .rq_psn = 1,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	memcpy(path.source, address, 16);
	memcpy(path.destination, address, 16);
	path.source_port = vb_endpoint_source_port(endpoint, &path, qpn, 0);
	modify(i, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, &path);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 1;
	attr.timeout = 17;      /* half a second: sixty-four of us may share a core */
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	modify(i, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	       IBV_QP_MAX_QP_RD_ATOMIC, NULL);
	printf("connected %u\n", i);
}

static void create_pair(unsigned i)
{
	struct vb_qp_config config = {
		.type = IBV_QPT_RC, .pd = &pd, .send_cq = &cq, .recv_cq = &cq, .signal_all = true,
		.cap = {.max_send_wr = 8, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE};
	int error = vb_endpoint_reserve_qpn(endpoint, 0, &config.qpn);

	if (error == 0)
		error = vb_qp_create(&config, &host, vb_endpoint_transport(endpoint, VB_DEVICE_ROCE, IBV_QPT_RC), NULL, &pair[i].qp);
	if (error)
		fail("create", error);
	vb_endpoint_publish(endpoint, pair[i].qp, 0, &counters);
	modify(i, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, NULL);
	for (unsigned r = 0; r < RECEIVES; r++)
		post_receive(i);
}

static void on_receive(unsigned i)
{
	post_receive(i);
	if (pair[i].left == 0) {
		post_send(i);
		return;
	}
	if (--pair[i].left > 0) {
		post_send(i);
		return;
	}
	printf("done %u %u %lld\n", i, pair[i].asked, (long long)(vb_endpoint_now() - pair[i].begun) / 1000);
}

/* Everything that waits; true if there was something. */
static bool drain(void)
{
	struct ibv_wc wc[16];
	int count = vb_cq_poll(&cq, 16, wc);

	for (int k = 0; k < count; k++) {
		if (wc[k].status != IBV_WC_SUCCESS) {
			printf("completion %llu status %d\n", (unsigned long long)wc[k].wr_id, wc[k].status);
			exit(2);
		}
		if (wc[k].opcode & IBV_WC_RECV)
			on_receive((unsigned)wc[k].wr_id);
	}
	if (count > 0)
		vb_endpoint_polled(endpoint, false);
	return count > 0;
}

static void spin(long milliseconds)
{
	vb_time end = vb_endpoint_now() + VB_MILLISECONDS(milliseconds);

	while (vb_endpoint_now() < end)
		if (!drain())
			vb_endpoint_progress(endpoint);
	printf("spun\n");
}

static void open_all(void)
{
	struct vb_memory_host memory_host = {
		.random = vb_endpoint_random,
		.checked_read = vb_process_memory_read,
		.checked_write = vb_process_memory_write,
	};
	struct vb_region_info region = {.kind = VB_REGION_MR, .pd = &pd, .start = (uintptr_t)buffer,
					.length = sizeof(buffer), .iova = (uintptr_t)buffer,
					.access = IBV_ACCESS_LOCAL_WRITE};
	int error = vb_endpoint_get(&endpoint);

	if (error)
		fail("endpoint", error);
	memory = vb_memory_create(&memory_host, 16);
	if (!memory || vb_region_register(memory, &region, &key) != 0)
		fail("memory", ENOMEM);
	host = (struct vb_queue_host){
		.profile = &vb_profile_roce,
		.completion_event = on_completion, .completion_deadline = on_deadline, .qp_event = on_qp_event,
		.cq_event = on_cq_event, .srq_event = on_srq_event, .random = vb_endpoint_random, .memory = memory,
		.counters = &counters,
	};
	error = vb_cq_init(&cq, &host, NULL, 4096);
	if (error)
		fail("cq", error);
	for (unsigned i = 0; i < pairs; i++)
		create_pair(i);
	printf("ready %u", pair[0].qp->qpn >> 14);
	for (unsigned i = 0; i < pairs; i++)
		printf(" %u", pair[i].qp->qpn);
	printf("\n");
}

static void close_all(void)
{
	for (unsigned i = 0; i < pairs; i++) {
		vb_endpoint_withdraw(endpoint, pair[i].qp);
		vb_qp_destroy(pair[i].qp);
	}
	vb_endpoint_cq_forget(endpoint, &cq);
	vb_cq_fini(&cq);
	vb_memory_destroy(memory);
	vb_endpoint_put(endpoint);
}

static bool print_process(void *context, const struct vb_daemon_message *m, const int *fds, unsigned count)
{
	(void)context;
	(void)fds;
	(void)count;
	if (m->header.type == VB_DAEMON_PROCESS)
		printf("process %u %u %u %u\n", m->process.pid, m->process.uid, m->process.slot,
		       m->process.queue_pairs);
	else if (m->header.type == VB_DAEMON_END)
		printf("processes %u\n", m->end.count);
	return true;
}

static void list_processes(void)
{
	struct vb_daemon_client client;
	struct vb_daemon_message request;
	int error = vb_daemon_client_connect(&client, true);

	if (error)
		fail("processes", error);
	vb_daemon_message_begin(&request, VB_DAEMON_LIST_PROCESSES, 0);
	error = vb_daemon_client_request(&client, &request, NULL, 0, print_process, NULL);
	vb_daemon_client_close(&client);
	if (error)
		fail("processes", error);
}

static void on_device(struct vb_endpoint_watcher *watcher, const struct vb_device_info *device, bool gone)
{
	unsigned gids = 0;

	(void)watcher;
	for (uint32_t i = 0; i < device->gid_count; i++)
		gids += memcmp(device->gid[i].gid, (uint8_t[16]){0}, 16) != 0;
	if (gone)
		printf("gone %s\n", device->name);
	else
		printf("device %s %s %u\n", device->name, device->state == IBV_PORT_ACTIVE ? "active" : "down", gids);
}

static struct vb_endpoint_watcher watcher = {.device_changed = on_device};

static void fork_child(void)
{
	pid_t child = fork();

	if (child == 0) {
		char byte;

		while (read(0, &byte, 1) > 0)
			;
		_exit(0);
	}
	printf("forked %d\n", (int)child);
}

/* False: quit. */
static bool obey(char *line)
{
	unsigned i, number;
	long milliseconds;

	if (sscanf(line, "connect %u %u", &i, &number) == 2 && i < pairs) {
		connect_pair(i, number);
	} else if (sscanf(line, "serve %u %u", &i, &number) == 2 && i < pairs && number > 0) {
		pair[i].left = pair[i].asked = number;
		pair[i].begun = vb_endpoint_now();
		post_send(i);
	} else if (sscanf(line, "spin %ld", &milliseconds) == 1) {
		spin(milliseconds);
	} else if (strcmp(line, "counters\n") == 0) {
		printf("counters %llu %llu %llu\n", (unsigned long long)counters.sent_pkts,
		       (unsigned long long)counters.rcvd_pkts, (unsigned long long)counters.send_err);
	} else if (strcmp(line, "processes\n") == 0) {
		list_processes();
	} else if (strcmp(line, "fork\n") == 0) {
		fork_child();
	} else {
		return false;
	}
	return true;
}

static void work(void)
{
	char line[256];
	size_t used = 0;

	for (;;) {
		struct pollfd set[] = {{.fd = 0, .events = POLLIN}, {.fd = event_fd, .events = POLLIN}};
		uint64_t count;
		ssize_t got;

		vb_cq_arm(&cq, false);
		vb_endpoint_watch(endpoint);
		while (drain())
			;
		if (poll(set, 2, -1) < 0 && errno != EINTR)
			fail("poll", errno);
		if (set[1].revents && read(event_fd, &count, sizeof(count)) < 0)
			fail("event", errno);
		if (!set[0].revents)
			continue;
		got = read(0, line + used, sizeof(line) - 1 - used);
		if (got <= 0)
			return;
		used += (size_t)got;
		line[used] = '\0';
		for (char *end; (end = strchr(line, '\n')) != NULL;) {
			char after = end[1];

			end[1] = '\0';
			if (!obey(line))
				return;
			end[1] = after;
			used -= (size_t)(end + 1 - line);
			memmove(line, end + 1, used + 1);
		}
	}
}

int main(int argc, char **argv)
{
	const char *where = "127.0.0.1";
	int option;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((option = getopt(argc, argv, "n:a:s")) != -1) {
		if (option == 'n')
			pairs = (unsigned)atoi(optarg);
		else if (option == 'a')
			where = optarg;
		else if (option == 's' && vb_endpoint_get(&endpoint) == 0)
			vb_endpoint_put(endpoint);
	}
	if (pairs < 1 || pairs > MOST_PAIRS)
		return 2;
	if (inet_pton(AF_INET, where, address + 12) == 1)
		address[10] = address[11] = 0xff;
	else if (inet_pton(AF_INET6, where, address) != 1)
		return 2;
	event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	open_all();
	vb_endpoint_add_watcher(endpoint, &watcher);
	work();
	vb_endpoint_remove_watcher(endpoint, &watcher);
	close_all();
	return 0;
}
