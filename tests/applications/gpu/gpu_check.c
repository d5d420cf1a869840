/* SPDX-License-Identifier: MIT
 *
 * gpu_check [pointer | dmabuf | late]   GPU memory as RDMA programs use it: two processes, each with memory of its
 * own on the first GPU
 *
 * WRITE, READ, SEND and FETCH_ADD from GPU memory to GPU memory, each verified by what the driver finds there,
 * then the pace of WRITEs. `dmabuf` registers the driver's export of it, `late` asks for a registration after
 * connecting, which on one host is to be refused.
 *
 * Needs no CUDA headers: the driver's interface is what cuda.h says, and it is loaded as programs load it. Exit
 * code 77: there is no such thing here.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 32 << 20, PACE = 1 << 20, ROUNDS = 64, DMA_BUF_FD = 1, SKIP = 77 };
enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

static struct {
	int (*cuInit)(unsigned);
	int (*cuDeviceGet)(int *, int);
	int (*cuDevicePrimaryCtxRetain)(void **, int);
	int (*cuCtxSetCurrent)(void *);
	int (*cuMemAlloc_v2)(uint64_t *, size_t);
	int (*cuMemFree_v2)(uint64_t);
	int (*cuMemcpyHtoD_v2)(uint64_t, const void *, size_t);
	int (*cuMemcpyDtoH_v2)(void *, uint64_t, size_t);
	int (*cuMemGetHandleForAddressRange)(void *, uint64_t, size_t, int, unsigned long long);
} cuda;

static int side, line;
static uint64_t gpu;
static uint8_t *host;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;

struct end {
	union ibv_gid gid;
	uint64_t address;
	uint32_t qpn, rkey;
} mine, theirs;

#define REQUIRE(holds, ...)                                              \
	do {                                                             \
		if (!(holds)) {                                          \
			fprintf(stderr, "gpu_check %d: ", side);         \
			fprintf(stderr, __VA_ARGS__);                    \
			fprintf(stderr, " (%s)\n", strerror(errno));     \
			exit(1);                                         \
		}                                                        \
	} while (0)

static void open_gpu(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *place;
	int device;

	if (library == NULL)
		exit(SKIP);
#define FIND(name) *(void **)&cuda.name = dlsym(library, #name)
	FIND(cuInit);
	FIND(cuDeviceGet);
	FIND(cuDevicePrimaryCtxRetain);
	FIND(cuCtxSetCurrent);
	FIND(cuMemAlloc_v2);
	FIND(cuMemFree_v2);
	FIND(cuMemcpyHtoD_v2);
	FIND(cuMemcpyDtoH_v2);
	FIND(cuMemGetHandleForAddressRange);
	if (cuda.cuInit(0) != 0 || cuda.cuDeviceGet(&device, 0) != 0)
		exit(SKIP);
	REQUIRE(cuda.cuDevicePrimaryCtxRetain(&place, device) == 0 && cuda.cuCtxSetCurrent(place) == 0, "no context");
	REQUIRE(cuda.cuMemAlloc_v2(&gpu, BYTES) == 0, "no GPU memory");
	host = malloc(BYTES);
	REQUIRE(host != NULL, "no memory");
}

static void fill(uint32_t seed, size_t length)
{
	for (size_t i = 0; i < length; i++)
		host[i] = (uint8_t)(seed * 131 + i * 7 + (i >> 9));
	REQUIRE(cuda.cuMemcpyHtoD_v2(gpu, host, length) == 0, "cuMemcpyHtoD");
}

static void verify(uint32_t seed, size_t length, const char *what)
{
	REQUIRE(cuda.cuMemcpyDtoH_v2(host, gpu, length) == 0, "cuMemcpyDtoH");
	for (size_t i = 0; i < length; i++)
		REQUIRE(host[i] == (uint8_t)(seed * 131 + i * 7 + (i >> 9)), "%s of %zu: byte %zu is wrong", what, length, i);
}

/* Both sides come by here, and the other's bytes. */
static void meet(const void *out, void *in, size_t length)
{
	char nothing = 0, ignored;

	REQUIRE(write(line, out ? out : &nothing, length) == (ssize_t)length, "write");
	REQUIRE(recv(line, in ? in : &ignored, length, MSG_WAITALL) == (ssize_t)length, "the other side is gone");
}

static int has_gid(struct ibv_context *device)
{
	static const union ibv_gid none;

	return device && ibv_query_gid(device, 1, 0, &mine.gid) == 0 && memcmp(&mine.gid, &none, sizeof(none)) != 0;
}

static void open_device(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {64, 64, 1, 1, 0}};

	REQUIRE(list != NULL, "no device");
	for (int i = 0; i < count && !has_gid(context); i++)
		context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	REQUIRE(has_gid(context), "no device with a GID");
	printf("on %s\n", ibv_get_device_name(context->device));
	REQUIRE((pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 128, NULL, NULL, 0)), "no device");
	attr.send_cq = attr.recv_cq = cq;
	REQUIRE((qp = ibv_create_qp(pd, &attr)), "no queue pair");
	mine.qpn = qp->qp_num;
	mine.address = gpu;
}

static void register_gpu(const char *how)
{
	int fd = -1, result = 0;

	if (strcmp(how, "dmabuf") == 0) {
		result = cuda.cuMemGetHandleForAddressRange ? cuda.cuMemGetHandleForAddressRange(&fd, gpu, BYTES, DMA_BUF_FD, 0) : -1;
		if (result != 0) {
			fprintf(stderr, "gpu_check %d: the driver exports no dmabuf (%d)\n", side, result);
			exit(SKIP);
		}
		mr = ibv_reg_dmabuf_mr(pd, 0, BYTES, gpu, fd, ALL);
		close(fd);
	} else {
		mr = ibv_reg_mr(pd, (void *)(uintptr_t)gpu, BYTES, ALL);
	}
	if (mr)
		mine.rkey = mr->rkey;
}

static void connect_qp(void)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL & ~IBV_ACCESS_LOCAL_WRITE};

	meet(&mine, &theirs, sizeof(mine));
	REQUIRE(ibv_query_port(context, 1, &port) == 0, "no port");
	REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = port.active_mtu,
		.dest_qp_num = theirs.qpn,
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = theirs.gid, .hop_limit = 64}},
	};
	REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0, "RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 17, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 8};
	REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						 IBV_QP_MAX_QP_RD_ATOMIC) == 0, "RTS");
	meet(NULL, NULL, 1);
}

static void post(enum ibv_wr_opcode opcode, uint32_t length)
{
	struct ibv_sge sge = {gpu, length, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = theirs.address;
		wr.wr.atomic.rkey = theirs.rkey;
		wr.wr.atomic.compare_add = 1000;
	} else {
		wr.wr.rdma.remote_addr = theirs.address;
		wr.wr.rdma.rkey = theirs.rkey;
	}
	REQUIRE(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
}

static void complete(const char *what)
{
	struct ibv_wc wc;
	int got;

	while ((got = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	REQUIRE(got == 1 && wc.status == IBV_WC_SUCCESS, "%s: %s", what, got == 1 ? ibv_wc_status_str(wc.status) : "no completion");
}

static void try_length(uint32_t length)
{
	struct ibv_sge sge = {gpu, length, mr->lkey};
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad;

	fill((uint32_t)side, length);
	meet(NULL, NULL, 1);
	if (side == 0) {
		post(IBV_WR_RDMA_WRITE, length);
		complete("WRITE");
	}
	meet(NULL, NULL, 1);
	verify(0, length, "WRITE");
	meet(NULL, NULL, 1);
	fill((uint32_t)side + 2, length);
	meet(NULL, NULL, 1);
	if (side == 0) {
		post(IBV_WR_RDMA_READ, length);
		complete("READ");
		verify(3, length, "READ");
	}
	meet(NULL, NULL, 1);
	fill((uint32_t)side + 4, length);
	if (side == 1)
		REQUIRE(ibv_post_recv(qp, &receive, &bad) == 0, "ibv_post_recv");
	meet(NULL, NULL, 1);
	if (side == 0)
		post(IBV_WR_SEND, length);
	complete("SEND");
	verify(4, length, "SEND");
	meet(NULL, NULL, 1);
}

static void try_atomic(void)
{
	uint64_t value = 7 + (uint64_t)side;

	REQUIRE(cuda.cuMemcpyHtoD_v2(gpu, &value, sizeof(value)) == 0, "cuMemcpyHtoD");
	meet(NULL, NULL, 1);
	if (side == 0) {
		post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
		complete("FETCH_ADD");
	}
	meet(NULL, NULL, 1);
	REQUIRE(cuda.cuMemcpyDtoH_v2(&value, gpu, sizeof(value)) == 0, "cuMemcpyDtoH");
	REQUIRE(value == (side == 0 ? 8 : 1008), "FETCH_ADD left %llu", (unsigned long long)value);
	meet(NULL, NULL, 1);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void measure(enum ibv_wr_opcode opcode, const char *name)
{
	double began = now();

	if (side == 0) {
		for (int i = 0; i < ROUNDS; i++)
			post(opcode, PACE);
		for (int i = 0; i < ROUNDS; i++)
			complete(name);
		printf("%s, 1 MiB, GPU to GPU: %.2f GB/s\n", name, (double)ROUNDS * PACE / (now() - began) / 1e9);
	}
	meet(NULL, NULL, 1);
}

static int run(const char *how)
{
	open_gpu();
	open_device();
	if (strcmp(how, "late") == 0) {
		connect_qp();
		register_gpu(how);
		REQUIRE(mr == NULL && errno == EOPNOTSUPP, "it was registered late");
		meet(NULL, NULL, 1);
		return 0;
	}
	register_gpu(how);
	REQUIRE(mr != NULL, "not registered");
	connect_qp();
	for (uint32_t length = 1; length <= BYTES; length = length * 17 + 5)
		try_length(length);
	try_length(BYTES);
	try_atomic();
	measure(IBV_WR_RDMA_WRITE, "WRITE");
	measure(IBV_WR_RDMA_READ, "READ");
	REQUIRE(ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(mr) == 0 && cuda.cuMemFree_v2(gpu) == 0, "what was made does not go");
	return 0;
}

int main(int count, char **words)
{
	const char *how = count > 1 ? words[1] : "pointer";
	int ends[2], status, other;
	pid_t child;

	setvbuf(stdout, NULL, _IOLBF, 0);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
	child = fork();
	REQUIRE(child >= 0, "fork");
	side = child == 0;
	line = ends[side];
	close(ends[!side]);
	if (child == 0)
		return run(how);
	status = run(how);
	REQUIRE(waitpid(child, &other, 0) == child, "waitpid");
	if (!WIFEXITED(other) || WEXITSTATUS(other) != 0)
		return 1;
	printf("gpu_check %s: passed\n", how);
	return status;
}
