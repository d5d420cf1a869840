/* SPDX-License-Identifier: MIT
 *
 * The store lab, server: owns the table. Clients read it by RDMA READ, of which nothing is seen here; what they want to
 * put they send.
 *
 *   cc server.c -lrdmacm -libverbs -o server && ./server [PORT [WORD]]
 *
 * It begins with some keys, whose values end with WORD: two that share a home, two that share the last bucket as theirs,
 * and two whose buckets are half changed and stay so until SIGUSR1 comes. SIGTERM ends it; it says then how many messages it
 * has received.
 */
#include <poll.h>
#include <signal.h>

#include "store.h"

enum { CLIENTS = 16 };

struct client {
	struct rdma_cm_id *id;                 /* NULL: this place is free */
	struct ibv_pd *pd;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	struct ibv_mr *table_mr, *mr;
	struct {
		struct store_request request;
		struct store_answer answer;
	} memory;
};

static struct store_bucket table[STORE_BUCKETS];
static struct client clients[CLIENTS];
static unsigned messages;
static volatile sig_atomic_t finish, ended;

static void take_signal(int number)
{
	if (number == SIGUSR1)
		finish = 1;
	else
		ended = 1;
}

/* ---- The table ---- */

/* Its bucket, or the empty one that it would get; NULL: the table is full. */
static struct store_bucket *place_of(const char *key)
{
	for (uint32_t i = 0, home = store_home(key, STORE_BUCKETS); i < STORE_BUCKETS; i++) {
		struct store_bucket *bucket = &table[(home + i) % STORE_BUCKETS];

		if (bucket->version == 0 || !strncmp(bucket->key, key, STORE_KEY))
			return bucket;
	}
	return NULL;
}

/* Odd, change, even: in this order also for those who look from another processor. */
static void change(struct store_bucket *bucket, const char *key, const char *value)
{
	uint64_t version = be64toh(bucket->version);
	struct store_bucket next = { .version = htobe64(version + 2) };

	snprintf(next.key, STORE_KEY, "%s", key);
	snprintf(next.value, STORE_VALUE, "%s", value);
	next.check = store_check(&next);
	__atomic_store_n(&bucket->version, htobe64(version + 1), __ATOMIC_SEQ_CST);
	memcpy(bucket->key, next.key, STORE_KEY);
	memcpy(bucket->value, next.value, STORE_VALUE);
	bucket->check = next.check;
	__atomic_store_n(&bucket->version, next.version, __ATOMIC_SEQ_CST);
}

/* The first key of the form word-N with that home. */
static void key_with_home(char key[STORE_KEY], const char *word, uint32_t home)
{
	for (int i = 0; snprintf(key, STORE_KEY, "%s-%d", word, i) > 0 && store_home(key, STORE_BUCKETS) != home; i++)
		continue;
}

static void seed_key(const char *key, const char *word)
{
	struct store_bucket *bucket = place_of(key);
	char value[STORE_VALUE];

	snprintf(value, sizeof(value), "the value of %s, %s", key, word);
	change(bucket, key, value);
	printf("seeded: bucket %d: %s = %s\n", (int)(bucket - table), key, value);
}

static struct store_bucket *odd, *unsound;
static struct store_bucket finished_odd, finished_unsound;

static void seed(const char *word)
{
	char key[STORE_KEY];

	key_with_home(key, "alpha", 5);
	seed_key(key, word);
	key_with_home(key, "beta", 5);
	seed_key(key, word);
	key_with_home(key, "gamma", STORE_BUCKETS - 1);
	seed_key(key, word);
	key_with_home(key, "delta", STORE_BUCKETS - 1);
	seed_key(key, word);
	key_with_home(key, "nobody", 5);
	printf("absent: %s\n", key);

	/* Two that are caught in the middle: one says so, of the other only the checksum tells. */
	odd = &table[12];
	unsound = &table[20];
	key_with_home(key, "half", 12);
	seed_key(key, word);
	finished_odd = *odd;
	odd->version = htobe64(1);
	memcpy(odd->value, "an older value   ", 17);
	key_with_home(key, "torn", 20);
	seed_key(key, word);
	finished_unsound = *unsound;
	memcpy(unsound->value, "an older value   ", 17);
}

static void finish_changes(void)
{
	memcpy(unsound->value, finished_unsound.value, STORE_VALUE);
	memcpy(odd->value, finished_odd.value, STORE_VALUE);
	__atomic_store_n(&odd->version, finished_odd.version, __ATOMIC_SEQ_CST);
	printf("finished\n");
}

/* ---- Clients ---- */

static void post_receive(struct client *client)
{
	struct ibv_sge piece = { (uintptr_t)&client->memory.request, sizeof(struct store_request), client->mr->lkey };
	struct ibv_recv_wr request = { .sg_list = &piece, .num_sge = 1 }, *refused;
	int error = ibv_post_recv(client->id->qp, &request, &refused);

	if (error)
		lab_fail("ibv_post_recv: %s", strerror(error));
}

static void obey(struct client *client, uint32_t length)
{
	struct store_request *request = &client->memory.request;
	struct ibv_sge piece = { (uintptr_t)&client->memory.answer, sizeof(struct store_answer), client->mr->lkey };
	struct ibv_send_wr answer = { .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *refused;
	struct store_bucket *bucket;
	int error;

	messages++;
	if (length != sizeof(*request))
		lab_fail("a request of %u bytes arrived; they have %zu", length, sizeof(*request));
	request->key[STORE_KEY - 1] = request->value[STORE_VALUE - 1] = '\0';
	printf("put: %s = %s\n", request->key, request->value);
	bucket = place_of(request->key);
	if (bucket)
		change(bucket, request->key, request->value);
	client->memory.answer.stored = htobe32(bucket != NULL);
	if ((error = ibv_post_send(client->id->qp, &answer, &refused)))
		lab_fail("ibv_post_send: %s", strerror(error));
}

static void take_completions(struct client *client)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(client->completions, &cq, &context))
		lab_fail("ibv_get_cq_event: %s", strerror(errno));
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0))
		lab_fail("ibv_req_notify_cq failed");
	while (ibv_poll_cq(cq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS)
			continue;
		/* The next request may come when the answer to this one has been taken. */
		if (wc.opcode == IBV_WC_RECV)
			obey(client, wc.byte_len);
		else
			post_receive(client);
	}
}

static void welcome(struct client *client, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr kind = { .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct store_table where = { .address = htobe64((uintptr_t)table), .buckets = htobe32(STORE_BUCKETS) };
	struct rdma_conn_param parameters = { .responder_resources = 4, .rnr_retry_count = 7, .private_data = &where,
					      .private_data_len = sizeof(where) };

	client->id = id;
	if (!(client->pd = ibv_alloc_pd(id->verbs)) || !(client->completions = ibv_create_comp_channel(id->verbs)) ||
	    !(client->cq = ibv_create_cq(id->verbs, 8, NULL, client->completions, 0)) ||
	    !(client->mr = ibv_reg_mr(client->pd, &client->memory, sizeof(client->memory), IBV_ACCESS_LOCAL_WRITE)) ||
	    !(client->table_mr = ibv_reg_mr(client->pd, table, sizeof(table), IBV_ACCESS_REMOTE_READ)))
		lab_fail("no PD, channel, CQ or region: %s", strerror(errno));
	kind.send_cq = kind.recv_cq = client->cq;
	if (ibv_req_notify_cq(client->cq, 0) || rdma_create_qp(id, client->pd, &kind))
		lab_fail("rdma_create_qp: %s", strerror(errno));
	post_receive(client);
	where.rkey = htobe32(client->table_mr->rkey);
	if (rdma_accept(id, &parameters))
		lab_fail("rdma_accept: %s", strerror(errno));
	printf("table: %d buckets at 0x%llx, rkey 0x%x\n", STORE_BUCKETS, (unsigned long long)(uintptr_t)table,
	       client->table_mr->rkey);
}

static void farewell(struct client *client)
{
	rdma_disconnect(client->id);
	rdma_destroy_qp(client->id);
	ibv_dereg_mr(client->mr);
	ibv_dereg_mr(client->table_mr);
	ibv_destroy_cq(client->cq);
	ibv_destroy_comp_channel(client->completions);
	ibv_dealloc_pd(client->pd);
	rdma_destroy_id(client->id);
	memset(client, 0, sizeof(*client));
}

static struct client *client_of(const struct rdma_cm_id *id)
{
	for (int i = 0; i < CLIENTS; i++)
		if (clients[i].id == id)
			return &clients[i];
	return NULL;
}

static void take_event(struct rdma_event_channel *events)
{
	struct rdma_cm_event *event;
	struct client *client;

	if (rdma_get_cm_event(events, &event))
		lab_fail("rdma_get_cm_event: %s", strerror(errno));

	struct rdma_cm_id *id = event->id;
	enum rdma_cm_event_type type = event->event;

	rdma_ack_cm_event(event);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		client = client_of(NULL);
		if (client)
			welcome(client, id);
		else
			rdma_reject(id, NULL, 0);
	} else if (type == RDMA_CM_EVENT_DISCONNECTED && (client = client_of(id))) {
		farewell(client);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htobe16((uint16_t)(argc > 1 ? atoi(argv[1]) : STORE_PORT)) };
	struct rdma_event_channel *events = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	struct pollfd wait[1 + CLIENTS];

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGUSR1, take_signal);
	signal(SIGTERM, take_signal);
	signal(SIGINT, take_signal);
	seed(argc > 2 ? argv[2] : "sesame");
	if (!events || rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&address) || rdma_listen(listener, CLIENTS))
		lab_fail("cannot listen: %s", strerror(errno));
	printf("listening on port %d\n", ntohs(rdma_get_src_port(listener)));
	while (!ended) {
		wait[0] = (struct pollfd){ .fd = events->fd, .events = POLLIN };
		for (int i = 0; i < CLIENTS; i++)
			wait[1 + i] = (struct pollfd){ .fd = clients[i].id ? clients[i].completions->fd : -1, .events = POLLIN };
		/* A signal that comes just before poll() is seen a second later. */
		if (poll(wait, 1 + CLIENTS, 1000) < 0)
			wait[0].revents = 0;
		else
			for (int i = 0; i < CLIENTS; i++)
				if (clients[i].id && wait[1 + i].revents)
					take_completions(&clients[i]);
		if (wait[0].revents)
			take_event(events);
		if (finish) {
			finish = 0;
			finish_changes();
		}
	}
	printf("messages: %u\n", messages);
	for (int i = 0; i < CLIENTS; i++)
		if (clients[i].id)
			farewell(&clients[i]);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(events);
	return EXIT_SUCCESS;
}
