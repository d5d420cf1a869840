/* SPDX-License-Identifier: MIT
 *
 * The store lab, client: reads values by RDMA READ from the server's table, and asks the server to put new ones.
 *
 *   cc client.c -lrdmacm -libverbs -o client && ./client ADDRESS PORT COMMAND...
 *
 *   peek N          the contents of bucket N
 *   get KEY         the value of a key
 *   put KEY VALUE   a new value
 *
 * store.h has the table and the conversation, server.c the other side.
 * In the exercise that `verbena lab start store` writes, the insides of the five parts are left out.
 *
 * Exit code: 0 when all commands were done (a key that is absent is an answer too), 1 otherwise, 2 wrong usage.
 */
#include <netdb.h>
#include <time.h>

#include "store.h"

struct client {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;                     /* over memory */
	struct {
		struct store_bucket bucket;    /* READs come here */
		struct store_request request;
		struct store_answer answer;
	} memory;
	struct store_table table;              /* where to read; in this machine's byte order */
	bool done[4];                          /* by wr_id: completed, and nobody has waited for it yet */
};

enum { READ = 1, SEND, RECEIVE };              /* wr_id */

/* ---- Connecting ---- */

/* The next event of the connection, which has to be the wanted one. Caller acknowledges it. */
static struct rdma_cm_event *next_event(struct client *client, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(client->events, &event))
		lab_fail("rdma_get_cm_event: %s", strerror(errno));
	if (event->event != wanted)
		lab_fail("not connected: %s", rdma_event_str(event->event));
	return event;
}

/* client->id has a device: everything that a connection needs. */
static void prepare(struct client *client)
{
	struct ibv_qp_init_attr kind = { .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };

	if (!(client->pd = ibv_alloc_pd(client->id->verbs)) ||
	    !(client->cq = ibv_create_cq(client->id->verbs, 4, NULL, NULL, 0)) ||
	    !(client->mr = ibv_reg_mr(client->pd, &client->memory, sizeof(client->memory), IBV_ACCESS_LOCAL_WRITE)))
		lab_fail("no PD, CQ or region: %s", strerror(errno));
	kind.send_cq = kind.recv_cq = client->cq;
	if (rdma_create_qp(client->id, client->pd, &kind))
		lab_fail("rdma_create_qp: %s", strerror(errno));
}

static void connect_to_server(struct client *client, struct sockaddr *address)
{
	client->events = rdma_create_event_channel();
	if (!client->events || rdma_create_id(client->events, &client->id, NULL, RDMA_PS_TCP))
		lab_fail("rdma_create_id: %s", strerror(errno));
	if (rdma_resolve_addr(client->id, NULL, address, 2000))
		lab_fail("rdma_resolve_addr: %s", strerror(errno));
	rdma_ack_cm_event(next_event(client, RDMA_CM_EVENT_ADDR_RESOLVED));
	if (rdma_resolve_route(client->id, 2000))
		lab_fail("rdma_resolve_route: %s", strerror(errno));
	rdma_ack_cm_event(next_event(client, RDMA_CM_EVENT_ROUTE_RESOLVED));
	prepare(client);
	/* PART 1: connect, and learn where the table is. (examples/13_cm_client.c, 05_rdma_read.c)
	 *
	 * Connect: READs of ours may be under way, so initiator_depth must not be 0 (retry_count and rnr_retry_count:
	 * 7). ESTABLISHED (next_event) brings the server's private data: a struct store_table, big-endian. Keep it in
	 * client->table, in this machine's byte order, before the event is acknowledged. */
	struct rdma_conn_param parameters = { .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_event *event;
	struct store_table table;

	if (rdma_connect(client->id, &parameters))
		lab_fail("rdma_connect: %s", strerror(errno));
	event = next_event(client, RDMA_CM_EVENT_ESTABLISHED);
	if (event->param.conn.private_data_len < sizeof(table))
		lab_fail("the server did not say where its table is");
	memcpy(&table, event->param.conn.private_data, sizeof(table));
	rdma_ack_cm_event(event);
	client->table = (struct store_table){ be64toh(table.address), be32toh(table.rkey), be32toh(table.buckets) };
	/* END OF PART 1 */
	printf("the table: %u buckets at 0x%llx, rkey 0x%x\n", client->table.buckets,
	       (unsigned long long)client->table.address, client->table.rkey);
}

/* ---- Reading ---- */

/* Waits for the completion of that request. Others may be completed before it: they are remembered. */
static void wait_for(struct client *client, unsigned wr_id)
{
	time_t limit = time(NULL) + 10;
	struct ibv_wc wc;
	int count;

	while (!client->done[wr_id]) {
		while ((count = ibv_poll_cq(client->cq, 1, &wc)) == 0)
			if (time(NULL) > limit)
				lab_fail("request %u was not completed within 10 seconds (is it signaled?)", wr_id);
		if (count < 0)
			lab_fail("ibv_poll_cq failed");
		if (wc.status != IBV_WC_SUCCESS)
			lab_fail("request %u failed: %s", (unsigned)wc.wr_id, ibv_wc_status_str(wc.status));
		if (wc.wr_id < sizeof(client->done) / sizeof(client->done[0]))
			client->done[wc.wr_id] = true;
	}
	client->done[wr_id] = false;
}

/* That bucket of the server's table, as it is at this moment, into client->memory.bucket. */
static void read_bucket(struct client *client, uint32_t number)
{
	/* PART 2: RDMA READ. (examples/05_rdma_read.c)
	 *
	 * One signaled RDMA READ with wr_id READ of sizeof(struct store_bucket) bytes from bucket `number` of the table
	 * into client->memory.bucket, whose region is client->mr; then wait_for(client, READ). */
	struct ibv_sge piece = { (uintptr_t)&client->memory.bucket, sizeof(struct store_bucket), client->mr->lkey };
	struct ibv_send_wr request = {
		.wr_id = READ, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = client->table.address + number * sizeof(struct store_bucket),
			     .rkey = client->table.rkey } }, *refused;
	int error = ibv_post_send(client->id->qp, &request, &refused);

	if (error)
		lab_fail("ibv_post_send: %s", strerror(error));
	wait_for(client, READ);
	/* END OF PART 2 */
}

/* Can what was read be believed? */
static bool is_whole(const struct store_bucket *bucket)
{
	/* PART 3: a bucket that is being changed.
	 *
	 * An empty bucket (version 0) is whole. Any other is whole if its version (big-endian) is even and its checksum
	 * (store_check, as it stands in the bucket) is right. Return whether it is. */
	uint64_t version = be64toh(bucket->version);

	return version == 0 || (version % 2 == 0 && bucket->check == store_check(bucket));
	/* END OF PART 3 */
}

/* Reads it until it is whole. */
static const struct store_bucket *fetch(struct client *client, uint32_t number)
{
	printf("reading bucket %u\n", number);
	do
		read_bucket(client, number);
	while (!is_whole(&client->memory.bucket));
	return &client->memory.bucket;
}

/* The value of a key, or NULL: there is none. */
static const char *find(struct client *client, const char *key)
{
	/* PART 4: find a key.
	 *
	 * Begin at its home (store_home). fetch() gives a bucket: the key is in it, or it is empty and the key is absent,
	 * or it belongs to another key and the search goes on in the next. It ends when all have been seen. */
	uint32_t home = store_home(key, client->table.buckets);

	for (uint32_t i = 0; i < client->table.buckets; i++) {
		const struct store_bucket *bucket = fetch(client, (home + i) % client->table.buckets);

		if (bucket->version == 0)
			return NULL;
		if (!strncmp(bucket->key, key, STORE_KEY))
			return bucket->value;
	}
	return NULL;
	/* END OF PART 4 */
}

/* ---- Putting ---- */

/* Asks the server to store it. Did it? */
static bool put(struct client *client, const char *key, const char *value)
{
	snprintf(client->memory.request.key, STORE_KEY, "%s", key);
	snprintf(client->memory.request.value, STORE_VALUE, "%s", value);
	/* PART 5: put. (examples/02_first_send.c)
	 *
	 * Post a receive (wr_id RECEIVE) into client->memory.answer, and then a signaled SEND (wr_id
	 * SEND) of client->memory.request: the answer may come before ibv_post_send has returned. Wait for both. */
	struct ibv_sge in = { (uintptr_t)&client->memory.answer, sizeof(struct store_answer), client->mr->lkey };
	struct ibv_sge out = { (uintptr_t)&client->memory.request, sizeof(struct store_request), client->mr->lkey };
	struct ibv_recv_wr receive = { .wr_id = RECEIVE, .sg_list = &in, .num_sge = 1 }, *refused_receive;
	struct ibv_send_wr send = { .wr_id = SEND, .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED }, *refused;
	int error = ibv_post_recv(client->id->qp, &receive, &refused_receive);

	if (error || (error = ibv_post_send(client->id->qp, &send, &refused)))
		lab_fail("cannot post: %s", strerror(error));
	wait_for(client, SEND);
	wait_for(client, RECEIVE);
	/* END OF PART 5 */
	return be32toh(client->memory.answer.stored) == 1;
}

/* ---- All together ---- */

/* How many words it took; 0: it is none. */
static int obey(struct client *client, char **word)
{
	if (!strcmp(word[0], "peek") && word[1]) {
		const struct store_bucket *bucket = fetch(client, (uint32_t)atoi(word[1]));

		if (bucket->version == 0)
			printf("bucket %s is empty\n", word[1]);
		else
			printf("bucket %s: %.*s = %.*s\n", word[1], STORE_KEY, bucket->key, STORE_VALUE, bucket->value);
		return 2;
	}
	if (!strcmp(word[0], "get") && word[1]) {
		const char *value = find(client, word[1]);

		if (value)
			printf("%s = %.*s\n", word[1], STORE_VALUE, value);
		else
			printf("%s is absent\n", word[1]);
		return 2;
	}
	if (!strcmp(word[0], "put") && word[1] && word[2]) {
		if (!put(client, word[1], word[2]))
			lab_fail("the table is full");
		printf("%s is stored\n", word[1]);
		return 3;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct client client;
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
	int error, taken;

	if (argc < 4) {
		fprintf(stderr, "Usage: %s ADDRESS PORT COMMAND...   (peek N, get KEY, put KEY VALUE)\n", argv[0]);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	error = getaddrinfo(argv[1], argv[2], &hints, &found);
	if (error)
		lab_fail("%s port %s: %s", argv[1], argv[2], gai_strerror(error));
	connect_to_server(&client, found->ai_addr);
	freeaddrinfo(found);
	for (char **word = argv + 3; *word; word += taken)
		if (!(taken = obey(&client, word)))
			lab_fail("%s: no such command, or a word is missing", *word);
	rdma_disconnect(client.id);
	rdma_ack_cm_event(next_event(&client, RDMA_CM_EVENT_DISCONNECTED));
	rdma_destroy_qp(client.id);
	ibv_dereg_mr(client.mr);
	ibv_destroy_cq(client.cq);
	ibv_dealloc_pd(client.pd);
	rdma_destroy_id(client.id);
	rdma_destroy_event_channel(client.events);
	return EXIT_SUCCESS;
}
