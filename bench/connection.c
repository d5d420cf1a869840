/* SPDX-License-Identifier: MIT
 *
 * See connection.h.
 */
#include "connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 30.0 /* seconds without a completion: something is wrong */

void bench_give_up(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", bench_name, what, strerror(errno));
	exit(1);
}

double bench_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double bench_cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

uint64_t bench_resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long total, resident = 0;

	if (file) {
		if (fscanf(file, "%lu %lu", &total, &resident) != 2)
			resident = 0;
		fclose(file);
	}
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int compare(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

double bench_median(double *values, unsigned count)
{
	qsort(values, count, sizeof(*values), compare);
	return values[count / 2];
}

void bench_open(struct bench_device *device, const char *name, unsigned gid_index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	device->context = NULL;
	for (unsigned i = 0; list && list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			device->context = ibv_open_device(list[i]);
	device->gid_index = (uint8_t)gid_index;
	if (!device->context || ibv_query_gid(device->context, 1, (int)gid_index, &device->gid) != 0)
		bench_give_up(name);
	device->pd = ibv_alloc_pd(device->context);
	if (!device->pd)
		bench_give_up("ibv_alloc_pd");
	ibv_free_device_list(list);
}

void bench_close(struct bench_device *device)
{
	ibv_dealloc_pd(device->pd);
	ibv_close_device(device->context);
}

int bench_accept(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), line, one = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 1) != 0)
		bench_give_up("listen");
	line = accept(listener, NULL, NULL);
	if (line < 0)
		bench_give_up("accept");
	close(listener);
	setsockopt(line, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return line;
}

int bench_connect(const char *text, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int line = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (line < 0 || inet_pton(AF_INET, text, &address.sin_addr) != 1 ||
	    connect(line, (struct sockaddr *)&address, sizeof(address)) != 0)
		bench_give_up("connect");
	setsockopt(line, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return line;
}

void bench_swap(int line, const void *mine, void *theirs, size_t bytes)
{
	size_t sent = 0, got = 0;

	/* A little at a time, so that both can be sending. */
	while (sent < bytes || got < bytes) {
		size_t part = bytes - sent < 1024 ? bytes - sent : 1024;
		ssize_t done = part ? send(line, (const char *)mine + sent, part, MSG_NOSIGNAL) : 0;

		if (done < 0)
			bench_give_up("the other side is gone");
		sent += (size_t)done;
		while (got < sent) {
			done = recv(line, (char *)theirs + got, sent - got, 0);
			if (done <= 0)
				bench_give_up("the other side is gone");
			got += (size_t)done;
		}
	}
}

void bench_meet(int line)
{
	char mine = 0, theirs;

	bench_swap(line, &mine, &theirs, 1);
}

struct ibv_qp *bench_create_qp(struct bench_device *device, const struct bench_queues *queues)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = queues->send_cq,
		.recv_cq = queues->receive_cq,
		.cap = {.max_send_wr = queues->sends, .max_recv_wr = queues->receives, .max_send_sge = 1, .max_recv_sge = 1,
			.max_inline_data = queues->inline_bytes},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_qp *qp = ibv_create_qp(device->pd, &init);

	if (!qp)
		bench_give_up("ibv_create_qp");
	errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (errno)
		bench_give_up("INIT");
	return qp;
}

struct name {
	uint32_t qpn;
	union ibv_gid gid;
};

static void to_rts(struct bench_device *device, struct ibv_qp *qp, const struct name *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.rq_psn = 0,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .sgid_index = device->gid_index, .hop_limit = 64}},
	};

	errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (errno)
		bench_give_up("RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 16};
	errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			      IBV_QP_MAX_QP_RD_ATOMIC);
	if (errno)
		bench_give_up("RTS");
}

void bench_connect_with(struct bench_device *device, struct ibv_qp *qp, struct ibv_qp *other)
{
	to_rts(device, qp, &(struct name){.qpn = other->qp_num, .gid = device->gid});
}

void bench_connect_qps(struct bench_device *device, int line, struct ibv_qp **qp, unsigned count)
{
	struct name *mine = calloc(count, sizeof(*mine)), *theirs = calloc(count, sizeof(*theirs));

	if (!mine || !theirs)
		bench_give_up("memory");
	for (unsigned i = 0; i < count; i++)
		mine[i] = (struct name){.qpn = qp[i]->qp_num, .gid = device->gid};
	bench_swap(line, mine, theirs, count * sizeof(*mine));
	for (unsigned i = 0; i < count; i++)
		to_rts(device, qp[i], &theirs[i]);
	bench_meet(line);
	free(mine);
	free(theirs);
}

void bench_poll(struct ibv_cq *cq, struct ibv_wc *wc)
{
	double limit = 0;

	for (unsigned tries = 1;; tries++) {
		int count = ibv_poll_cq(cq, 1, wc);

		if (count > 0 && wc->status == IBV_WC_SUCCESS)
			return;
		if (count > 0) {
			fprintf(stderr, "%s: %s\n", bench_name, ibv_wc_status_str(wc->status));
			exit(1);
		}
		if (count < 0)
			bench_give_up("ibv_poll_cq");
		if (tries % 65536 == 0) {
			if (limit == 0)
				limit = bench_now() + PATIENCE;
			errno = ETIMEDOUT;
			if (bench_now() > limit)
				bench_give_up("no completion");
		}
	}
}
