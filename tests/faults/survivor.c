/* SPDX-License-Identifier: MIT
 *
 * Programs that live longer than a verbenad: a server that listens and sends back what comes, and clients that each keep a connection
 * to it. What they have must outlive the daemon, and what is new must be had from the next, whatever becomes of that one.
 *
 *   survivor server PORT      "ready"; "gone PID.NUMBER" for each connection that has ended; until SIGTERM
 *   survivor client PORT      "ready" when it is connected. For each SIGUSR1 a message over that connection and back, and one
 *                             over a new one, which then ends: "well". On SIGTERM the connection is ended, and all given back: "ended"
 *
 * What is refused is said, and asked for again for a while. Exit 1: something was lost; standard output says what.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "lib/patience.h"

enum { LENGTH = 3000, PATIENCE_FOR_ONE = 60000, MOST_CONNECTIONS = 16, LOOK_AGAIN_MS = 2 };

/* Who connects says it. */
struct name {
	uint32_t pid, number;
};

struct connection {
	struct rdma_event_channel *channel;   /* a client's; the server has one for all */
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct name name;
	uint8_t in[LENGTH], out[LENGTH];
};

static int signals;

static void lost(const char *what)
{
	printf("lost: %s\n", what);
	fflush(stdout);
	_exit(1);
}

static bool refused(const char *what)
{
	printf("refused: %s (%s)\n", what, strerror(errno));
	return false;
}

static void watch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_NONBLOCK);
}

/* 0: none is here. */
static int next_signal(void)
{
	struct signalfd_siginfo info;

	return read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}

/* ---- both ---- */

static bool prepare(struct connection *c)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = {4, 4, 1, 1, 0}};

	if (rdma_create_qp(c->id, NULL, &attr) != 0)
		return refused("rdma_create_qp");
	c->mr = rdma_reg_msgs(c->id, c->in, 2 * LENGTH);
	if (!c->mr)
		return refused("rdma_reg_msgs");
	return rdma_post_recv(c->id, NULL, c->in, LENGTH, c->mr) == 0 || refused("rdma_post_recv");
}

static void give_back(struct connection *c)
{
	if (c->id && c->id->qp)
		rdma_destroy_qp(c->id);
	if (c->mr)
		rdma_dereg_mr(c->mr);
	if (c->id && rdma_destroy_id(c->id) != 0)
		lost("an id that cannot be destroyed");
	if (c->channel)
		rdma_destroy_event_channel(c->channel);
	free(c);
}

/* ---- the server ---- */

static struct connection *connections[MOST_CONNECTIONS];

static void begin(struct rdma_cm_id *id, const struct rdma_conn_param *asked)
{
	struct rdma_conn_param answer = {.responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7};
	struct connection *c = calloc(1, sizeof(*c));
	unsigned i = 0;

	while (i < MOST_CONNECTIONS && connections[i])
		i++;
	if (!c || i == MOST_CONNECTIONS || asked->private_data_len < sizeof(c->name))
		lost("room for a connection");
	c->id = id;
	memcpy(&c->name, asked->private_data, sizeof(c->name));
	if (!prepare(c) || rdma_accept(id, &answer) != 0) {
		(void)refused("rdma_accept");
		give_back(c);
		return;
	}
	connections[i] = c;
}

static void finish(struct rdma_cm_id *id)
{
	for (unsigned i = 0; i < MOST_CONNECTIONS; i++) {
		if (!connections[i] || connections[i]->id != id)
			continue;
		(void)rdma_disconnect(id);
		printf("gone %u.%u\n", connections[i]->name.pid, connections[i]->name.number);
		give_back(connections[i]);
		connections[i] = NULL;
		return;
	}
}

static void take_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event, copy;
	uint8_t data[256] = {0};

	if (rdma_get_cm_event(channel, &event) != 0)
		lost("an event");
	copy = *event;
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		memcpy(data, event->param.conn.private_data, event->param.conn.private_data_len);
		copy.param.conn.private_data = data;
	}
	rdma_ack_cm_event(event);
	if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		begin(copy.id, &copy.param.conn);
	else if (copy.event != RDMA_CM_EVENT_ESTABLISHED && copy.event != RDMA_CM_EVENT_TIMEWAIT_EXIT)
		finish(copy.id);
}

static void send_back(struct connection *c)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(c->id->send_cq, 1, &wc) > 0)
		;
	while (ibv_poll_cq(c->id->recv_cq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS)
			continue;
		memcpy(c->out, c->in, LENGTH);
		if (rdma_post_recv(c->id, NULL, c->in, LENGTH, c->mr) != 0 || rdma_post_send(c->id, NULL, c->out, LENGTH, c->mr, 0) != 0)
			(void)refused("a message back");
	}
}

static int serve(struct sockaddr_in *address)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener;

	if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_bind_addr(listener, (struct sockaddr *)address) != 0 || rdma_listen(listener, 8) != 0)
		lost("a listener");
	puts("ready");
	while (next_signal() != SIGTERM) {
		struct pollfd wait = {.fd = channel->fd, .events = POLLIN};

		if (poll(&wait, 1, LOOK_AGAIN_MS) == 1)
			take_event(channel);
		for (unsigned i = 0; i < MOST_CONNECTIONS; i++)
			if (connections[i])
				send_back(connections[i]);
	}
	for (unsigned i = 0; i < MOST_CONNECTIONS; i++)
		if (connections[i])
			give_back(connections[i]);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	return 0;
}

/* ---- a client ---- */

static bool next_event(struct connection *c, enum rdma_cm_event_type type)
{
	struct pollfd wait = {.fd = c->channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;
	bool expected;

	for (int got; (got = poll(&wait, 1, PATIENCE_FOR_ONE)) != 1;)
		if (got == 0)
			lost(rdma_event_str(type));
	if (rdma_get_cm_event(c->channel, &event) != 0)
		return refused("rdma_get_cm_event");
	expected = event->event == type;
	if (!expected)
		printf("refused: %s instead of %s (%d)\n", rdma_event_str(event->event), rdma_event_str(type), event->status);
	rdma_ack_cm_event(event);
	return expected;
}

static bool reach(struct connection *c, struct sockaddr_in *address)
{
	struct rdma_conn_param parameters = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7,
					     .private_data = &c->name, .private_data_len = sizeof(c->name)};

	c->channel = rdma_create_event_channel();
	if (!c->channel || rdma_create_id(c->channel, &c->id, NULL, RDMA_PS_TCP) != 0)
		return refused("rdma_create_id");
	if (rdma_resolve_addr(c->id, NULL, (struct sockaddr *)address, 2000) != 0)
		return refused("rdma_resolve_addr");
	if (!next_event(c, RDMA_CM_EVENT_ADDR_RESOLVED))
		return false;
	if (rdma_resolve_route(c->id, 2000) != 0)
		return refused("rdma_resolve_route");
	if (!next_event(c, RDMA_CM_EVENT_ROUTE_RESOLVED) || !prepare(c))
		return false;
	if (rdma_connect(c->id, &parameters) != 0)
		return refused("rdma_connect");
	return next_event(c, RDMA_CM_EVENT_ESTABLISHED);
}

/* NULL: it was refused, and said so. */
static struct connection *connect_to(struct sockaddr_in *address, uint32_t number)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (!c)
		lost("memory");
	c->name = (struct name){(uint32_t)getpid(), number};
	if (reach(c, address))
		return c;
	give_back(c);
	return NULL;
}

/* There and back. */
static bool exchange(struct connection *c, unsigned seed)
{
	struct ibv_wc wc;
	int count = 0;

	for (unsigned i = 0; i < LENGTH; i++)
		c->out[i] = (uint8_t)(i * 13 + seed);
	memset(c->in, 0, LENGTH);
	if (rdma_post_send(c->id, NULL, c->out, LENGTH, c->mr, 0) != 0)
		return refused("rdma_post_send");
	if (!eventually_within(PATIENCE_FOR_ONE, (count = ibv_poll_cq(c->id->send_cq, 1, &wc)) != 0))
		lost("a completion of a send");
	if (count != 1 || wc.status != IBV_WC_SUCCESS) {
		printf("refused: send: %s\n", ibv_wc_status_str(wc.status));
		return false;
	}
	if (!eventually_within(PATIENCE_FOR_ONE, (count = ibv_poll_cq(c->id->recv_cq, 1, &wc)) != 0))
		lost("a message back");
	if (count != 1 || wc.status != IBV_WC_SUCCESS) {
		printf("refused: receive: %s\n", ibv_wc_status_str(wc.status));
		return false;
	}
	if (memcmp(c->in, c->out, LENGTH) != 0)
		lost("bytes");
	return rdma_post_recv(c->id, NULL, c->in, LENGTH, c->mr) == 0 || refused("rdma_post_recv");
}

/* It hears of the end, also where no verbenad was there to say it to. */
static bool disconnect(struct connection *c)
{
	if (rdma_disconnect(c->id) != 0)
		(void)refused("rdma_disconnect");
	return next_event(c, RDMA_CM_EVENT_DISCONNECTED);
}

static bool another(struct sockaddr_in *address, unsigned number)
{
	struct connection *c = connect_to(address, number);
	bool good = c && exchange(c, number) && disconnect(c);

	if (c)
		give_back(c);
	return good;
}

/* Of its own libraries, where there are any (interpose.c): from now on. */
static void begin_faults(void)
{
	void (*found)(void);

	*(void **)&found = dlsym(RTLD_DEFAULT, "fail_calls_begin");
	if (found)
		found();
}

static int ask(struct sockaddr_in *address)
{
	struct connection *kept = connect_to(address, 0);
	unsigned number = 0;
	int told = 0;

	if (!kept || !exchange(kept, 0))
		lost("the first connection");
	puts("ready");
	while (told != SIGTERM) {
		struct pollfd wait = {.fd = signals, .events = POLLIN};

		(void)poll(&wait, 1, -1);
		told = next_signal();
		if (told != SIGUSR1)
			continue;
		begin_faults();
		/* No verbenad stands in its way. */
		if (!exchange(kept, ++number))
			lost("the connection that was kept");
		if (!eventually_within(PATIENCE_FOR_ONE, another(address, ++number)))
			lost("new connections");
		puts("well");
	}
	if (!disconnect(kept))
		lost("the end of the connection that was kept");
	give_back(kept);
	puts("ended");
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	if (argc != 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	watch_signals();
	address.sin_port = htons((uint16_t)atoi(argv[2]));
	return strcmp(argv[1], "server") == 0 ? serve(&address) : ask(&address);
}
