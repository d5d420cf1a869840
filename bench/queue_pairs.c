/* SPDX-License-Identifier: MIT
 *
 * queue_pairs [COUNT]: what an RC queue pair costs. Creates COUNT of them (default 10,000) with ordinary queues (128 sends, 128
 * receives, one element each) and brings each to INIT with a receive posted, so that lazily allocated memory is paid for;
 * prints the growth of the resident set and the time per queue pair.
 *
 * Prints: COUNT BYTES_PER_QP CREATE_MICROSECONDS DESTROY_MICROSECONDS
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t resident_bytes(void)
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

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static int give_up(const char *what)
{
	fprintf(stderr, "queue_pairs: %s: %s\n", what, strerror(errno));
	return 1;
}

static int bring_to_init(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = 64, .lkey = mr->lkey };
	struct ibv_recv_wr receive = { .sg_list = &sge, .num_sge = 1 }, *bad;
	int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	return error ? error : ibv_post_recv(qp, &receive, &bad);
}

int main(int argc, char **argv)
{
	static char buffer[4096];
	unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 10000;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_qp **qp = calloc(count, sizeof(*qp));
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint64_t before;
	double began, created, destroyed;

	if (!context || !qp || count == 0)
		return give_up("no device");
	pd = ibv_alloc_pd(context);
	init.send_cq = init.recv_cq = ibv_create_cq(context, 4096, NULL, NULL, 0);
	mr = pd ? ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!pd || !init.send_cq || !mr)
		return give_up("set-up");
	before = resident_bytes();
	began = now_seconds();
	for (unsigned i = 0; i < count; i++) {
		qp[i] = ibv_create_qp(pd, &init);
		if (!qp[i])
			return give_up("ibv_create_qp");
		errno = bring_to_init(qp[i], mr);
		if (errno)
			return give_up("INIT");
	}
	created = now_seconds();
	printf("%u %.0f ", count, (double)(resident_bytes() - before) / count);
	for (unsigned i = 0; i < count; i++) {
		errno = ibv_destroy_qp(qp[i]);
		if (errno)
			return give_up("ibv_destroy_qp");
	}
	destroyed = now_seconds();
	printf("%.2f %.2f\n", (created - began) / count * 1e6, (destroyed - created) / count * 1e6);
	ibv_dereg_mr(mr);
	ibv_destroy_cq(init.send_cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(list);
	free(qp);
	return 0;
}
