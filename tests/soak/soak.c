/* SPDX-License-Identifier: MIT
 *
 * A program that lives long and looks at every byte: queue pairs with work of all kinds, connections of rdma_cm that come and go, and
 * rsockets. tests/soak/run lets it live in bad networks and watches it.
 *
 *   soak serve PORT                               until it is told to stop; rsockets at PORT + 1
 *   soak drive ADDRESS PORT SEED OPERATIONS       so many of each kind (0: until SIGTERM), then 0, or 1 and what was wrong
 *
 * What is done so far is a line, "verbs N connections N streams N", several times a second.
 */
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	REGION = 128 << 10,              /* of the server, for each connection: counter, then bytes */
	COUNTER = 64,
	MESSAGE = 16 << 10,
	RECEIVES = 4,
	BATCH = 8,
	SEND_DEPTH = BATCH + 2,
	STREAM_ROUNDS = 20,              /* of one rsocket */
	PAUSE = 100000,                  /* microseconds between two lines */
};

enum kind { VERBS, CONNECTIONS, STREAMS, KINDS };

struct offer {                           /* as private data of the answer */
	uint64_t address;
	uint32_t key;
} __attribute__((packed));

struct worker {
	enum kind kind;
	uint64_t random;
	pthread_t thread;
};

static const char *server_name, *server_port;
static char stream_port[16];
static unsigned long wanted;             /* of each kind; 0: no end */
static unsigned long done[KINDS];        /* atomic */
static volatile sig_atomic_t is_told_to_stop;

#define MUST(condition)                                                                                            \
	do {                                                                                                       \
		if (!(condition)) {                                                                                \
			fprintf(stderr, "WRONG: %s:%d: %s (%m)\n", __FILE__, __LINE__, #condition);               \
			fflush(stdout);                                                                            \
			_exit(1);                                                                                  \
		}                                                                                                  \
	} while (0)

static void tell_to_stop(int number)
{
	(void)number;
	is_told_to_stop = 1;
}

static uint32_t draw(struct worker *worker, uint32_t below)
{
	uint64_t x = worker->random += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ x >> 31) >> 16) % below;
}

static void fill(struct worker *worker, uint8_t *bytes, size_t length)
{
	uint32_t word = draw(worker, UINT32_MAX);

	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)((word += 0x9e3779b9u) >> 24);
}

static bool is_enough(enum kind kind)
{
	return is_told_to_stop || (wanted > 0 && __atomic_load_n(&done[kind], __ATOMIC_RELAXED) >= wanted);
}

static void count(enum kind kind, unsigned long operations)
{
	__atomic_add_fetch(&done[kind], operations, __ATOMIC_RELAXED);
}

/* ---- both ends of a connection ---- */

struct end {
	struct rdma_cm_id *id;
	uint8_t *region, *out, *in;      /* in: RECEIVES messages */
	struct ibv_mr *region_mr, *out_mr, *in_mr;
};

static const struct ibv_qp_init_attr queue_pair = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
						   .cap = {SEND_DEPTH, RECEIVES, 1, 1, 0}};

static void open_end(struct end *end)
{
	MUST((end->region = aligned_alloc(4096, REGION)) && (end->out = malloc(MESSAGE)) && (end->in = malloc(RECEIVES * MESSAGE)));
	memset(end->region, 0, REGION);
	MUST(end->region_mr = ibv_reg_mr(end->id->pd, end->region, REGION, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC));
	MUST(end->out_mr = ibv_reg_mr(end->id->pd, end->out, MESSAGE, 0));
	MUST(end->in_mr = ibv_reg_mr(end->id->pd, end->in, RECEIVES * MESSAGE, IBV_ACCESS_LOCAL_WRITE));
	for (uintptr_t i = 0; i < RECEIVES; i++)
		MUST(rdma_post_recv(end->id, (void *)i, end->in + i * MESSAGE, MESSAGE, end->in_mr) == 0);
}

static void close_end(struct end *end)
{
	MUST(ibv_dereg_mr(end->region_mr) == 0 && ibv_dereg_mr(end->out_mr) == 0 && ibv_dereg_mr(end->in_mr) == 0);
	rdma_destroy_ep(end->id);
	free(end->region);
	free(end->out);
	free(end->in);
}

/* ---- server ---- */

/* Turns messages around until one of no bytes, then waits for the client to go. */
static void *serve_connection(void *context)
{
	struct end end = {.id = context};
	struct offer offer;
	struct rdma_conn_param parameters = {.responder_resources = 4, .initiator_depth = 4, .rnr_retry_count = 7, .private_data = &offer,
					     .private_data_len = sizeof(offer)};
	struct rdma_cm_event *event;
	struct ibv_wc wc;
	bool over = false;

	open_end(&end);
	offer = (struct offer){(uintptr_t)end.region, end.region_mr->rkey};
	if (rdma_accept(end.id, &parameters) == 0) {
		while (!over && rdma_get_recv_comp(end.id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len > 0) {
			uint32_t length = wc.byte_len;
			uint64_t slot = wc.wr_id;

			memcpy(end.out, end.in + slot * MESSAGE, length);
			MUST(rdma_post_recv(end.id, (void *)(uintptr_t)slot, end.in + slot * MESSAGE, MESSAGE, end.in_mr) == 0);
			MUST(rdma_post_send(end.id, NULL, end.out, length, end.out_mr, 0) == 0);
			/* A client that has its answer may be gone before its acknowledgement is here. */
			over = rdma_get_send_comp(end.id, &wc) != 1 || wc.status != IBV_WC_SUCCESS;
		}
		while (rdma_get_cm_event(end.id->channel, &event) == 0) {
			over = event->event == RDMA_CM_EVENT_DISCONNECTED;
			rdma_ack_cm_event(event);
			if (over)
				break;
		}
		rdma_disconnect(end.id);
	}
	close_end(&end);
	return NULL;
}

static void *serve_stream(void *context)
{
	int fd = (int)(intptr_t)context;
	uint8_t *bytes = malloc(MESSAGE);
	ssize_t got;

	MUST(bytes);
	while ((got = rrecv(fd, bytes, MESSAGE, 0)) > 0)
		for (ssize_t sent = 0, now; sent < got; sent += now)
			MUST((now = rsend(fd, bytes + sent, (size_t)(got - sent), 0)) > 0);
	rclose(fd);
	free(bytes);
	return NULL;
}

static void start_detached(void *(*run)(void *), void *context)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	/* So that the C library keeps few stacks of those that have ended. */
	pthread_attr_setstacksize(&attributes, 256 << 10);
	MUST(pthread_create(&thread, &attributes, run, context) == 0);
	pthread_attr_destroy(&attributes);
}

static void *accept_streams(void *unused)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(stream_port))};
	int listener = rsocket(AF_INET, SOCK_STREAM, 0);

	(void)unused;
	MUST(listener >= 0 && rbind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 && rlisten(listener, 64) == 0);
	printf("streams\n");
	for (;;) {
		int fd = raccept(listener, NULL, NULL);

		MUST(fd >= 0);
		start_detached(serve_stream, (void *)(intptr_t)fd);
	}
	return NULL;
}

static void *accept_connections(void *unused)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *found;
	struct ibv_qp_init_attr attr = queue_pair;
	struct rdma_cm_id *listener, *id;

	(void)unused;
	MUST(rdma_getaddrinfo(NULL, server_port, &hints, &found) == 0);
	MUST(rdma_create_ep(&listener, found, NULL, &attr) == 0 && rdma_listen(listener, 64) == 0);
	rdma_freeaddrinfo(found);
	printf("listening\n");
	for (;;) {
		MUST(rdma_get_request(listener, &id) == 0);
		start_detached(serve_connection, id);
	}
	return NULL;
}

/* ---- client ---- */

struct client {
	struct end end;
	struct offer offer;
	uint8_t *mirror;                 /* what the server's region must hold */
	struct ibv_mr *mirror_mr;
	uint64_t counter;
};

static void open_client(struct client *client)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
	struct rdma_conn_param parameters = {.responder_resources = 4, .initiator_depth = 4, .retry_count = 7, .rnr_retry_count = 7};
	struct ibv_qp_init_attr attr = queue_pair;

	memset(client, 0, sizeof(*client));
	MUST(rdma_getaddrinfo(server_name, server_port, &hints, &found) == 0);
	MUST(rdma_create_ep(&client->end.id, found, NULL, &attr) == 0);
	rdma_freeaddrinfo(found);
	open_end(&client->end);
	MUST(rdma_connect(client->end.id, &parameters) == 0);
	MUST(client->end.id->event->param.conn.private_data_len >= sizeof(client->offer));
	memcpy(&client->offer, client->end.id->event->param.conn.private_data, sizeof(client->offer));
	MUST(client->mirror = calloc(1, REGION));
	MUST(client->mirror_mr = ibv_reg_mr(client->end.id->pd, client->mirror, REGION, 0));
}

static void complete(struct client *client, unsigned operations)
{
	struct ibv_wc wc;

	for (; operations > 0; operations--) {
		MUST(rdma_get_send_comp(client->end.id, &wc) == 1);
		if (wc.status != IBV_WC_SUCCESS)
			fprintf(stderr, "status %s\n", ibv_wc_status_str(wc.status));
		MUST(wc.status == IBV_WC_SUCCESS);
	}
}

/* There and back. */
static void echo(struct worker *worker, struct client *client)
{
	struct end *end = &client->end;
	uint32_t length = 1 + draw(worker, draw(worker, 2) ? 64 : MESSAGE - 1);
	struct ibv_wc wc;

	fill(worker, end->out, length);
	MUST(rdma_post_send(end->id, NULL, end->out, length, end->out_mr, 0) == 0);
	complete(client, 1);
	MUST(rdma_get_recv_comp(end->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == length);
	MUST(memcmp(end->in + wc.wr_id * MESSAGE, end->out, length) == 0);
	MUST(rdma_post_recv(end->id, (void *)(uintptr_t)wc.wr_id, end->in + wc.wr_id * MESSAGE, MESSAGE, end->in_mr) == 0);
}

static void close_client(struct client *client)
{
	MUST(rdma_post_send(client->end.id, NULL, client->end.out, 0, client->end.out_mr, 0) == 0);
	complete(client, 1);
	MUST(rdma_disconnect(client->end.id) == 0);
	MUST(ibv_dereg_mr(client->mirror_mr) == 0);
	close_end(&client->end);
	free(client->mirror);
}

/* WRITEs, then all of the region is read and compared: what is behind another on a connection is done behind it. Where they overlap the
 * last is what stays, so a WRITE may take bytes that a later one has put there. */
static unsigned write_and_read(struct worker *worker, struct client *client)
{
	struct end *end = &client->end;
	unsigned writes = 1 + draw(worker, BATCH);
	uint64_t told;

	for (unsigned i = 0; i < writes; i++) {
		uint32_t length = 1 + draw(worker, draw(worker, 2) ? 200 : MESSAGE);
		uint32_t at = COUNTER + draw(worker, REGION - COUNTER - length);

		fill(worker, client->mirror + at, length);
		MUST(rdma_post_write(end->id, NULL, client->mirror + at, length, client->mirror_mr, 0, client->offer.address + at,
				     client->offer.key) == 0);
	}
	MUST(rdma_post_read(end->id, NULL, end->region, REGION, end->region_mr, 0, client->offer.address, client->offer.key) == 0);
	complete(client, writes + 1);
	MUST(memcmp(end->region + COUNTER, client->mirror + COUNTER, REGION - COUNTER) == 0);
	memcpy(&told, end->region, sizeof(told));
	MUST(told == client->counter);
	return writes + 1;
}

static void add(struct client *client)
{
	struct end *end = &client->end;
	struct ibv_sge sge = {(uintptr_t)end->region, 8, end->region_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .wr.atomic = {client->offer.address, 1, 0, client->offer.key}}, *bad;
	uint64_t before;

	MUST(ibv_post_send(end->id->qp, &wr, &bad) == 0);
	complete(client, 1);
	memcpy(&before, end->region, sizeof(before));
	MUST(before == client->counter);
	client->counter++;
}

static void work_verbs(struct worker *worker)
{
	struct client client;

	open_client(&client);
	while (!is_enough(VERBS)) {
		count(VERBS, write_and_read(worker, &client));
		add(&client);
		echo(worker, &client);
		count(VERBS, 2);
	}
	close_client(&client);
}

static void work_connections(struct worker *worker)
{
	while (!is_enough(CONNECTIONS)) {
		struct client client;

		open_client(&client);
		echo(worker, &client);
		close_client(&client);
		count(CONNECTIONS, 1);
	}
}

static void stream_once(struct worker *worker, int fd)
{
	static __thread uint8_t out[MESSAGE], in[MESSAGE];
	uint32_t length = 1 + draw(worker, draw(worker, 2) ? 100 : MESSAGE - 1), got = 0;

	fill(worker, out, length);
	for (uint32_t sent = 0; sent < length;) {
		ssize_t now = rsend(fd, out + sent, length - sent, 0);

		MUST(now > 0);
		sent += (uint32_t)now;
	}
	while (got < length) {
		ssize_t now = rrecv(fd, in + got, length - got, 0);

		MUST(now > 0);
		got += (uint32_t)now;
	}
	MUST(memcmp(in, out, length) == 0);
}

static void work_streams(struct worker *worker)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;

	MUST(getaddrinfo(server_name, stream_port, &hints, &found) == 0);
	while (!is_enough(STREAMS)) {
		uint8_t byte;
		int fd = rsocket(AF_INET, SOCK_STREAM, 0);

		MUST(fd >= 0 && rconnect(fd, found->ai_addr, found->ai_addrlen) == 0);
		for (unsigned round = 0; round < STREAM_ROUNDS; round++)
			stream_once(worker, fd);
		MUST(rshutdown(fd, SHUT_WR) == 0 && rrecv(fd, &byte, 1, 0) == 0);
		MUST(rclose(fd) == 0);
		count(STREAMS, STREAM_ROUNDS);
	}
	freeaddrinfo(found);
}

static void *work(void *context)
{
	struct worker *worker = context;

	if (worker->kind == VERBS)
		work_verbs(worker);
	else if (worker->kind == CONNECTIONS)
		work_connections(worker);
	else
		work_streams(worker);
	return NULL;
}

static int drive(uint64_t seed)
{
	static const enum kind kinds[] = {VERBS, VERBS, CONNECTIONS, STREAMS, STREAMS};
	enum { WORKERS = sizeof(kinds) / sizeof(kinds[0]) };
	struct worker worker[WORKERS];
	bool is_over = false;

	for (unsigned i = 0; i < WORKERS; i++) {
		worker[i] = (struct worker){.kind = kinds[i], .random = seed * WORKERS + i};
		MUST(pthread_create(&worker[i].thread, NULL, work, &worker[i]) == 0);
	}
	while (!is_over) {
		is_over = is_enough(VERBS) && is_enough(CONNECTIONS) && is_enough(STREAMS);
		printf("verbs %lu connections %lu streams %lu\n", done[VERBS], done[CONNECTIONS], done[STREAMS]);
		if (!is_over)
			usleep(PAUSE);
	}
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(worker[i].thread, NULL);
	printf("ended: verbs %lu connections %lu streams %lu\n", done[VERBS], done[CONNECTIONS], done[STREAMS]);
	return 0;
}

static int serve(void)
{
	pthread_t streams, connections;

	MUST(pthread_create(&connections, NULL, accept_connections, NULL) == 0);
	MUST(pthread_create(&streams, NULL, accept_streams, NULL) == 0);
	while (!is_told_to_stop)
		usleep(PAUSE);
	return 0;
}

int main(int argc, char **argv)
{
	bool serves = argc == 3 && strcmp(argv[1], "serve") == 0;

	if (!serves && (argc != 6 || strcmp(argv[1], "drive") != 0)) {
		fprintf(stderr, "usage: soak serve PORT | drive ADDRESS PORT SEED OPERATIONS\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGTERM, tell_to_stop);
	server_name = argv[2];
	server_port = serves ? argv[2] : argv[3];
	snprintf(stream_port, sizeof(stream_port), "%d", atoi(server_port) + 1);
	wanted = serves ? 0 : strtoul(argv[5], NULL, 0);
	return serves ? serve() : drive(strtoull(argv[4], NULL, 0));
}
