/* SPDX-License-Identifier: MIT
 *
 * One RDMA operation over one librdmacm connection, for what no stock program makes: immediate data, invalidation, odd
 * lengths, each kind of refusal, and bulk data and messages to and fro that both sides check.
 *
 *   operation -s ADDRESS NAME            serve one connection
 *   operation -c ADDRESS NAME [STATUS,...] connect, do it, print the completion; STATUS: the ibv_wc_status that is wanted
 *                                        instead of the usual one, as implementations differ; -1: it cannot be posted
 *
 * The server's REP carries address, key and length of its region as private data. Exit code 0: all was as expected.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REGION = 1 << 20, SMALL_REGION = 8192, RECEIVE = 1024, LIMIT_SECONDS = 110, PATIENCE_MS = 30000, ROUNDS = 50 };

enum twist {
	NOTHING,
	WRONG_KEY,
	PAST_END,
	NO_RIGHT,           /* the server's region may not be written */
	ODD_ADDRESS,
	LATE_RECEIVE,       /* the server posts its receive 100 ms after accepting */
	SHORT_RECEIVE,      /* 16 bytes */
	REJECTED,           /* the server refuses, with private data */
	PRIVATE_DATA,       /* so many bytes with the request and with the reply, and nothing else in them */
	SERVER_LEAVES,      /* the server disconnects first */
	BULK,               /* write, read back, compare; the server compares too */
	PINGPONG,           /* messages of several packets, each answered with the next; nobody leaves before the other is done */
};

static const struct operation {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t length;
	enum twist twist;
	enum ibv_wc_status status;
	uint8_t request_data, reply_data; /* PRIVATE_DATA */
} operations[] = {
	{"send", IBV_WR_SEND, 64, NOTHING, IBV_WC_SUCCESS},
	{"send0", IBV_WR_SEND, 0, NOTHING, IBV_WC_SUCCESS},
	{"send1", IBV_WR_SEND, 1, NOTHING, IBV_WC_SUCCESS},
	{"send5", IBV_WR_SEND, 5, NOTHING, IBV_WC_SUCCESS},
	{"sendimm", IBV_WR_SEND_WITH_IMM, 64, NOTHING, IBV_WC_SUCCESS},
	{"sendsol", IBV_WR_SEND, 64, NOTHING, IBV_WC_SUCCESS},
	{"sendinv", IBV_WR_SEND_WITH_INV, 64, NOTHING, IBV_WC_SUCCESS},
	{"write0", IBV_WR_RDMA_WRITE, 0, NOTHING, IBV_WC_SUCCESS},
	{"write3", IBV_WR_RDMA_WRITE, 3, NOTHING, IBV_WC_SUCCESS},
	{"writeimm", IBV_WR_RDMA_WRITE_WITH_IMM, 64, NOTHING, IBV_WC_SUCCESS},
	{"read0", IBV_WR_RDMA_READ, 0, NOTHING, IBV_WC_SUCCESS},
	{"read7", IBV_WR_RDMA_READ, 7, NOTHING, IBV_WC_SUCCESS},
	{"readbig", IBV_WR_RDMA_READ, 5000, NOTHING, IBV_WC_SUCCESS},
	{"fadd", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, NOTHING, IBV_WC_SUCCESS},
	{"cas", IBV_WR_ATOMIC_CMP_AND_SWP, 8, NOTHING, IBV_WC_SUCCESS},
	{"rnr", IBV_WR_SEND, 64, LATE_RECEIVE, IBV_WC_SUCCESS},
	{"toolong", IBV_WR_SEND, 64, SHORT_RECEIVE, IBV_WC_REM_INV_REQ_ERR},
	{"badkeyw", IBV_WR_RDMA_WRITE, 64, WRONG_KEY, IBV_WC_REM_ACCESS_ERR},
	{"badkeyr", IBV_WR_RDMA_READ, 64, WRONG_KEY, IBV_WC_REM_ACCESS_ERR},
	{"badkeya", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, WRONG_KEY, IBV_WC_REM_ACCESS_ERR},
	{"boundw", IBV_WR_RDMA_WRITE, 64, PAST_END, IBV_WC_REM_ACCESS_ERR},
	{"boundr", IBV_WR_RDMA_READ, 64, PAST_END, IBV_WC_REM_ACCESS_ERR},
	{"noperm", IBV_WR_RDMA_WRITE, 64, NO_RIGHT, IBV_WC_REM_ACCESS_ERR},
	{"unaligned", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, ODD_ADDRESS, IBV_WC_REM_INV_REQ_ERR},
	{"reject", IBV_WR_SEND, 0, REJECTED, IBV_WC_SUCCESS},
	{"pdata", IBV_WR_SEND, 64, PRIVATE_DATA, IBV_WC_SUCCESS, 56, 148},  /* as much as fits with the CM */
	{"pdata0", IBV_WR_SEND, 64, PRIVATE_DATA, IBV_WC_SUCCESS, 0, 56},
	{"pdata251", IBV_WR_SEND, 64, PRIVATE_DATA, IBV_WC_SUCCESS, 251, 251}, /* with MPA */
	{"lazy", IBV_WR_SEND, 0, SERVER_LEAVES, IBV_WC_SUCCESS},
	{"bulk", IBV_WR_RDMA_WRITE, REGION, BULK, IBV_WC_SUCCESS},
	{"pingpong", IBV_WR_SEND, 4096, PINGPONG, IBV_WC_SUCCESS},
};

struct peer {
	uint64_t address;
	uint32_t key, length;
} __attribute__((packed));

static const struct operation *op;
static char *region, *second;

static void give_up(const char *what)
{
	perror(what);
	exit(1);
}

static void wait_ms(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* One completion, for at most ms. */
static bool completed(struct ibv_cq *cq, struct ibv_wc *wc, unsigned ms)
{
	uint64_t end = now_ms() + ms;

	while (now_ms() < end) {
		int n = ibv_poll_cq(cq, 1, wc);

		if (n != 0)
			return n > 0;
		wait_ms(1);
	}
	return false;
}

static void show(const char *who, const struct ibv_wc *wc)
{
	printf("%s: status %d (%s)", who, wc->status, ibv_wc_status_str(wc->status));
	if (wc->status == IBV_WC_SUCCESS)
		printf(" opcode %d byte_len %u flags %x imm/rkey %08x", (int)wc->opcode, wc->byte_len, wc->wc_flags,
		       wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV) ? ntohl(wc->imm_data) : 0);
	printf("\n");
}

static struct rdma_cm_id *endpoint(const char *address, bool passive)
{
	struct rdma_addrinfo hints = {.ai_flags = (passive ? RAI_PASSIVE : 0) | RAI_NUMERICHOST,
				      .ai_port_space = RDMA_PS_TCP};
	struct ibv_qp_init_attr attr = {.cap = {32, 16, 1, 1, 64}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo((char *)(uintptr_t)address, "7500", &hints, &info) != 0)
		give_up("rdma_getaddrinfo");
	if (rdma_create_ep(&id, info, NULL, &attr) != 0)
		give_up("rdma_create_ep");
	return id;
}

/* The byte at a place of the bulk: differs from its neighbours and from page to page. */
static char bulk_byte(size_t at)
{
	return (char)(at * 7 + at / 4096 * 13 + 5);
}

static bool is_bulk(const char *bytes)
{
	for (size_t i = 0; i < REGION; i++)
		if (bytes[i] != bulk_byte(i)) {
			printf("byte %zu is %02x instead of %02x\n", i, (unsigned char)bytes[i], (unsigned char)bulk_byte(i));
			return false;
		}
	return true;
}

/* The client leaves first, when it has all that it waits for; a server that left earlier would end what is still on its way. */
static void wait_for_leave(struct rdma_cm_id *id)
{
	/* The next event is that it has left; it stays there for rdma_disconnect to take. */
	struct pollfd next = {.fd = id->channel->fd, .events = POLLIN};

	poll(&next, 1, PATIENCE_MS);
}

/* Message `number` of a ping-pong. */
static void fill_message(char *bytes, unsigned number)
{
	for (uint32_t i = 0; i < op->length; i++)
		bytes[i] = (char)(i * 5 + i / 256 + number * 29);
}

static bool is_message(const char *bytes, unsigned number)
{
	static char wanted[SMALL_REGION];

	fill_message(wanted, number);
	if (memcmp(bytes, wanted, op->length) == 0)
		return true;
	printf("message %u is not what was sent\n", number);
	return false;
}

static void post_message(struct rdma_cm_id *id, struct ibv_mr *mr, unsigned number)
{
	fill_message(region, number);
	if (rdma_post_send(id, NULL, region, op->length, mr, 0) != 0)
		give_up("rdma_post_send");
}

/* Wait for message `number` and check it; the receive for the next one is posted first. */
static bool take_message(struct rdma_cm_id *id, struct ibv_mr *mr, unsigned number)
{
	char *here = second + number % 2 * SMALL_REGION, *next = second + (number + 1) % 2 * SMALL_REGION;
	struct ibv_wc wc = {0};

	if (!completed(id->recv_cq, &wc, PATIENCE_MS)) {
		printf("message %u does not come\n", number);
		return false;
	}
	if (wc.status != IBV_WC_SUCCESS || wc.byte_len != op->length) {
		printf("message %u: %s, %u bytes\n", number, ibv_wc_status_str(wc.status), wc.byte_len);
		return false;
	}
	if (rdma_post_recv(id, NULL, next, SMALL_REGION, mr) != 0)
		give_up("rdma_post_recv");
	return is_message(here, number);
}

/* Each waits for the other's message before it fills its own again: that one was received then. */
static int answer_messages(struct rdma_cm_id *id, struct ibv_mr *mr, struct ibv_mr *receiving)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < ROUNDS; i++) {
		if (!take_message(id, receiving, i))
			return 1;
		post_message(id, mr, ROUNDS + i);
		while (ibv_poll_cq(id->send_cq, 1, &wc) > 0)
			if (wc.status != IBV_WC_SUCCESS)
				return 1;
	}
	wait_for_leave(id);
	rdma_disconnect(id);
	return 0;
}

static int exchange_messages(struct rdma_cm_id *id, struct ibv_mr *mr, struct ibv_mr *receiving)
{
	struct ibv_wc wc = {0};

	for (unsigned i = 0; i < ROUNDS; i++) {
		post_message(id, mr, i);
		if (!take_message(id, receiving, ROUNDS + i))
			return 1;
		if (!completed(id->send_cq, &wc, PATIENCE_MS) || wc.status != IBV_WC_SUCCESS) {
			show("client", &wc);
			return 1;
		}
	}
	show("client", &wc);
	rdma_disconnect(id);
	return 0;
}

/* At least so many bytes came (the CM pads), and from `first` on each is `fill`. */
static bool is_private_data(const struct rdma_cm_id *id, size_t first, size_t length, char fill)
{
	const char *bytes = id->event->param.conn.private_data;

	if (id->event->param.conn.private_data_len < length) {
		printf("%u bytes of private data instead of %zu\n", id->event->param.conn.private_data_len, length);
		return false;
	}
	for (size_t i = first; i < length; i++)
		if (bytes[i] != fill) {
			printf("byte %zu of the private data is %02x\n", i, (unsigned char)bytes[i]);
			return false;
		}
	return true;
}

static int serve(const char *address)
{
	struct rdma_cm_id *listener = endpoint(address, true), *id;
	struct rdma_conn_param param = {.responder_resources = 4, .initiator_depth = 4, .rnr_retry_count = 7};
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	char private_data[UINT8_MAX];
	struct ibv_mr *exposed, *receiving;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	int code = 0;

	if (rdma_listen(listener, 1) != 0)
		give_up("rdma_listen");
	if (rdma_get_request(listener, &id) != 0)
		give_up("rdma_get_request");
	if (op->twist == PRIVATE_DATA && !is_private_data(id, 0, op->request_data, 'q'))
		return 1;
	if (op->twist == REJECTED) {
		if (rdma_reject(id, "not today", 9) != 0)
			give_up("rdma_reject");
		wait_ms(300); /* siw does not hear why if the connection ends at the same time, as it does with the process */
		return 0;
	}
	if (op->twist != NO_RIGHT)
		access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	exposed = ibv_reg_mr(id->pd, region, op->twist == BULK ? REGION : SMALL_REGION, access);
	receiving = ibv_reg_mr(id->pd, second, REGION, IBV_ACCESS_LOCAL_WRITE);
	if (exposed == NULL || receiving == NULL)
		give_up("ibv_reg_mr");
	if (op->twist != LATE_RECEIVE &&
	    rdma_post_recv(id, NULL, second, op->twist == SHORT_RECEIVE ? 16 : op->twist == PINGPONG ? SMALL_REGION : RECEIVE,
			   receiving) != 0)
		give_up("rdma_post_recv");

	struct peer me = {htobe64((uintptr_t)region), htonl(exposed->rkey), htonl((uint32_t)exposed->length)};

	memset(private_data, 'p', sizeof(private_data));
	memcpy(private_data, &me, sizeof(me));
	param.private_data = private_data;
	param.private_data_len = op->twist == PRIVATE_DATA ? op->reply_data : sizeof(me);
	if (rdma_accept(id, &param) != 0)
		give_up("rdma_accept");
	printf("server: accepted\n");
	if (op->twist == LATE_RECEIVE) {
		wait_ms(100);
		if (rdma_post_recv(id, NULL, second, RECEIVE, receiving) != 0)
			give_up("rdma_post_recv");
	}
	if (op->twist == SERVER_LEAVES) {
		wait_ms(200);
		rdma_disconnect(id);
		wait_ms(500);
		return 0;
	}
	if (op->twist == PINGPONG)
		return answer_messages(id, exposed, receiving);
	if (completed(id->recv_cq, &wc, op->twist == BULK ? PATIENCE_MS : 3000))
		show("server", &wc);
	if (op->twist == BULK) {
		code = wc.status != IBV_WC_SUCCESS || !is_bulk(region);
		wait_for_leave(id);
	} else {
		wait_ms(300);
	}
	rdma_disconnect(id);
	return code;
}

/* The second region gets what the first one sends out. */
static int move_bulk(struct rdma_cm_id *id, struct ibv_mr *mr, struct ibv_mr *back, const struct peer *to)
{
	enum { PIECES = 16, PIECE = REGION / PIECES };
	struct ibv_wc wc;

	for (size_t i = 0; i < REGION; i++)
		region[i] = bulk_byte(i);
	for (int i = 0; i < PIECES; i++)
		if (rdma_post_write(id, NULL, region + i * PIECE, PIECE, mr, 0, to->address + (uint64_t)i * PIECE, to->key) != 0)
			give_up("rdma_post_write");
	for (int i = 0; i < PIECES; i++)
		if (rdma_post_read(id, NULL, second + i * PIECE, PIECE, back, 0, to->address + (uint64_t)i * PIECE, to->key) != 0)
			give_up("rdma_post_read");
	for (int i = 0; i < 2 * PIECES; i++)
		if (!completed(id->send_cq, &wc, PATIENCE_MS) || wc.status != IBV_WC_SUCCESS) {
			show("client", &wc);
			return 1;
		}
	if (!is_bulk(second))
		return 1;
	if (rdma_post_send(id, NULL, region, 4, mr, 0) != 0 || !completed(id->send_cq, &wc, PATIENCE_MS))
		give_up("the last message");
	show("client", &wc);
	wait_ms(100);
	rdma_disconnect(id);
	return wc.status != IBV_WC_SUCCESS;
}

static void fill(struct ibv_send_wr *wr, const struct peer *to)
{
	uint64_t address = to->address;
	uint32_t key = to->key;

	if (op->twist == WRONG_KEY)
		key ^= 0x5a;
	if (op->twist == PAST_END)
		address += to->length - 8;
	if (op->twist == ODD_ADDRESS)
		address++;
	switch (op->opcode) {
	case IBV_WR_SEND_WITH_INV:
		wr->invalidate_rkey = key;
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		wr->wr.atomic.remote_addr = address;
		wr->wr.atomic.rkey = key;
		wr->wr.atomic.compare_add = 0x0102030405060708ull;
		wr->wr.atomic.swap = 0x1112131415161718ull;
		break;
	default:
		wr->imm_data = htonl(0x11223344);
		wr->wr.rdma.remote_addr = address;
		wr->wr.rdma.rkey = key;
	}
	if (strcmp(op->name, "sendsol") == 0)
		wr->send_flags |= IBV_SEND_SOLICITED;
}

static bool peer_of(const struct rdma_cm_id *id, struct peer *to)
{
	const struct rdma_conn_param *param = &id->event->param.conn;

	printf("client: established, %u bytes of private data, responder %u initiator %u\n", param->private_data_len,
	       param->responder_resources, param->initiator_depth);
	if (param->private_data_len < sizeof(*to))
		return false;
	memcpy(to, param->private_data, sizeof(*to));
	to->address = be64toh(to->address);
	to->key = ntohl(to->key);
	to->length = ntohl(to->length);
	return true;
}

/* `wanted`: numbers with commas between; NULL: the usual one. */
static bool is_wanted(int status, const char *wanted)
{
	if (wanted == NULL)
		return status == (int)op->status;
	for (const char *at = wanted; at != NULL; at = strchr(at, ','))
		if (atoi(at += *at == ',') == status)
			return true;
	return false;
}

static int connect_and_operate(const char *address, const char *wanted)
{
	struct rdma_cm_id *id = endpoint(address, false);
	struct rdma_conn_param param = {.responder_resources = 4, .initiator_depth = 4, .retry_count = 7, .rnr_retry_count = 7};
	struct ibv_mr *mr = ibv_reg_mr(id->pd, region, REGION, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *back = ibv_reg_mr(id->pd, second, REGION, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_wc wc = {0};
	char private_data[UINT8_MAX];
	struct peer to;

	if (mr == NULL || back == NULL)
		give_up("ibv_reg_mr");
	memset(private_data, 'q', sizeof(private_data));
	if (op->twist == PRIVATE_DATA) {
		param.private_data = private_data;
		param.private_data_len = op->request_data;
	}
	/* Before the server can answer: it may be quick. */
	if (op->twist == PINGPONG && rdma_post_recv(id, NULL, second, SMALL_REGION, back) != 0)
		give_up("rdma_post_recv");
	if (rdma_connect(id, &param) != 0) {
		perror("client: rdma_connect");
		if (id->event != NULL)
			printf("client: event %s status %d private data %.9s\n", rdma_event_str(id->event->event), id->event->status,
			       id->event->param.conn.private_data_len >= 9 ? (const char *)id->event->param.conn.private_data : "");
		return op->twist != REJECTED;
	}
	if (op->twist == REJECTED || !peer_of(id, &to) ||
	    (op->twist == PRIVATE_DATA && !is_private_data(id, sizeof(to), op->reply_data, 'p')))
		return 1;
	if (op->twist == SERVER_LEAVES) {
		wait_ms(600);
		rdma_disconnect(id);
		return 0;
	}
	if (op->twist == BULK)
		return move_bulk(id, mr, back, &to);
	if (op->twist == PINGPONG)
		return exchange_messages(id, mr, back);

	struct ibv_sge sge = {(uintptr_t)region, op->length, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = op->opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;

	fill(&wr, &to);
	if (ibv_post_send(id->qp, &wr, &bad) != 0) {
		perror("client: ibv_post_send");
		return !is_wanted(-1, wanted);
	}
	if (!completed(id->send_cq, &wc, 15000)) {
		printf("client: no completion\n");
		return 1;
	}
	show("client", &wc);
	wait_ms(100);
	rdma_disconnect(id);
	if (is_wanted((int)wc.status, wanted))
		return 0;
	printf("client: expected status %s\n", wanted != NULL ? wanted : ibv_wc_status_str(op->status));
	return 1;
}

int main(int argc, char **argv)
{
	if (argc >= 4)
		for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
			if (strcmp(operations[i].name, argv[3]) == 0)
				op = &operations[i];
	if (op == NULL) {
		fprintf(stderr, "usage: operation -s|-c ADDRESS NAME [STATUS,...]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (posix_memalign((void **)&region, 4096, REGION) != 0 || posix_memalign((void **)&second, 4096, REGION) != 0)
		return 1;
	memset(region, 1, REGION);
	alarm(LIMIT_SECONDS);
	if (strcmp(argv[1], "-s") == 0)
		return serve(argv[2]);
	return connect_and_operate(argv[2], argc > 4 ? argv[4] : NULL);
}
