/* SPDX-License-Identifier: MIT
 *
 * idle_connections serve ADDRESS
 * idle_connections ADDRESS COUNT [hold]
 *
 * What a connection of librdmacm costs a process beside its queue pair: the growth of the resident set from COUNT ids with queue pairs that
 * know their way to COUNT that are connected and idle. The server says "ready", accepts whoever comes and leaves with its client. The
 * client prints bytes for each connection; `hold`: and stays, with its connections, until it is killed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PORT = 47915, TIMEOUT_MS = 10000, DEPTH = 4 };

static void give_up(const char *what)
{
	fprintf(stderr, "idle_connections: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (!file || fscanf(file, "%*d %ld", &pages) != 1)
		give_up("/proc/self/statm");
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

static struct sockaddr_in address_of(const char *text)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
		give_up(text);
	return address;
}

static void create_queue_pair(struct rdma_cm_id *id)
{
	static struct ibv_cq *cq;
	static struct ibv_pd *pd;
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1,
								       .max_recv_sge = 1}};

	if (!pd)
		pd = ibv_alloc_pd(id->verbs);
	if (!cq)
		cq = ibv_create_cq(id->verbs, DEPTH, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = cq;
	if (!pd || !cq || rdma_create_qp(id, pd, &attr) != 0)
		give_up("rdma_create_qp");
}

static struct rdma_cm_event *next_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event) != 0)
		give_up("rdma_get_cm_event");
	return event;
}

static void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event = next_event(channel);

	if (event->event != wanted) {
		fprintf(stderr, "idle_connections: %s (%d), not %s\n", rdma_event_str(event->event), event->status, rdma_event_str(wanted));
		exit(1);
	}
	rdma_ack_cm_event(event);
}

static int serve(const char *text)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = address_of(text);
	struct rdma_cm_id *listener;

	if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_bind_addr(listener, (struct sockaddr *)&address) != 0 || rdma_listen(listener, 1024) != 0)
		give_up("rdma_listen");
	printf("ready\n");
	fflush(stdout);
	alarm(120);
	for (;;) {
		struct rdma_cm_event *event = next_event(channel);
		struct rdma_conn_param parameters = {.responder_resources = 1, .initiator_depth = 1};

		if (event->event == RDMA_CM_EVENT_DISCONNECTED)
			return 0;
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			create_queue_pair(event->id);
			if (rdma_accept(event->id, &parameters) != 0)
				give_up("rdma_accept");
		}
		rdma_ack_cm_event(event);
	}
}

static int measure(const char *text, unsigned count, int hold)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id **ids = calloc(count, sizeof(*ids));
	struct sockaddr_in address = address_of(text);
	struct rdma_conn_param parameters = {.responder_resources = 1, .initiator_depth = 1};
	long before = 0;

	if (!channel || !ids)
		give_up("rdma_create_event_channel");
	for (unsigned i = 0; i < count; i++) {
		if (rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP) != 0 ||
		    rdma_resolve_addr(ids[i], NULL, (struct sockaddr *)&address, TIMEOUT_MS) != 0)
			give_up("rdma_resolve_addr");
		expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
		if (rdma_resolve_route(ids[i], TIMEOUT_MS) != 0)
			give_up("rdma_resolve_route");
		expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
		create_queue_pair(ids[i]);
	}
	/* What is made with the first connection is not counted. */
	for (unsigned i = 0; i < count; i++) {
		if (i == 1)
			before = resident_bytes();
		if (rdma_connect(ids[i], &parameters) != 0)
			give_up("rdma_connect");
		expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	}
	printf("%.0f\n", (double)(resident_bytes() - before) / (count - 1));
	fflush(stdout);
	while (hold)
		pause();
	free(ids);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2]);
	if ((argc == 3 || (argc == 4 && strcmp(argv[3], "hold") == 0)) && atoi(argv[2]) > 1)
		return measure(argv[1], (unsigned)atoi(argv[2]), argc == 4);
	fprintf(stderr, "usage: idle_connections serve ADDRESS\n       idle_connections ADDRESS COUNT [hold]\n");
	return 2;
}
