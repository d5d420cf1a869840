/* SPDX-License-Identifier: MIT
 *
 * See cm.h.
 */
#include "cm.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/patience.h"
#include "wire/daemon_message.h"

struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

struct rdma_cm_event *next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	if (event->event != type)
		print_error("%s (%d) instead of %s\n", rdma_event_str(event->event), event->status, rdma_event_str(type));
	assert_int_equal(event->event, type);
	return event;
}

int expect_cm_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = next_event(channel, type);
	int status = event->status;

	assert_int_equal(rdma_ack_cm_event(event), 0);
	return status;
}

void expect_no_cm_event(struct rdma_event_channel *channel)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};

	assert_int_equal(poll(&fd, 1, 0), 0);
}

struct rdma_cm_id *listen_on_loopback(struct rdma_event_channel *channel, enum rdma_port_space space, uint16_t *port)
{
	struct sockaddr_in address = loopback(0);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, space), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(id, 8), 0);
	*port = ntohs(rdma_get_src_port(id));
	assert_int_not_equal(*port, 0);
	return id;
}

struct rdma_cm_id *resolved_id(struct rdma_event_channel *channel, enum rdma_port_space space, uint16_t port)
{
	struct sockaddr_in address = loopback(port);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, space), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, PATIENCE_MS), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_resolve_route(id, PATIENCE_MS), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	return id;
}

void add_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = id->qp_type,
		.sq_sig_all = 1,
	};

	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_non_null(id->qp);
	assert_non_null(id->send_cq);
	assert_non_null(id->recv_cq);
}

void connection_open(struct connection *connection)
{
	struct rdma_conn_param param = {.responder_resources = 2, .initiator_depth = 2, .retry_count = 7, .rnr_retry_count = 7};
	struct rdma_cm_event *event;

	for (int i = 0; i < 2; i++)
		connection->channel[i] = rdma_create_event_channel();
	connection->listener = listen_on_loopback(connection->channel[1], RDMA_PS_TCP, &connection->port);
	connection->id[0] = resolved_id(connection->channel[0], RDMA_PS_TCP, connection->port);
	add_qp(connection->id[0]);
	assert_int_equal(rdma_connect(connection->id[0], &param), 0);
	event = next_event(connection->channel[1], RDMA_CM_EVENT_CONNECT_REQUEST);
	connection->id[1] = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	add_qp(connection->id[1]);
	assert_int_equal(rdma_accept(connection->id[1], &param), 0);
	assert_int_equal(expect_cm_event(connection->channel[0], RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_cm_event(connection->channel[1], RDMA_CM_EVENT_ESTABLISHED), 0);
}

void connection_close(struct connection *connection)
{
	for (int i = 0; i < 2; i++) {
		rdma_destroy_qp(connection->id[i]);
		assert_int_equal(rdma_destroy_id(connection->id[i]), 0);
	}
	assert_int_equal(rdma_destroy_id(connection->listener), 0);
	for (int i = 0; i < 2; i++)
		rdma_destroy_event_channel(connection->channel[i]);
}

void exchange_message(struct connection *connection, int from, const char *text)
{
	struct rdma_cm_id *sender = connection->id[from], *receiver = connection->id[!from];
	char out[64] = "", in[64] = "";
	struct ibv_mr *out_mr = rdma_reg_msgs(sender, out, sizeof(out)), *in_mr = rdma_reg_msgs(receiver, in, sizeof(in));
	struct ibv_wc wc;

	assert_non_null(out_mr);
	assert_non_null(in_mr);
	snprintf(out, sizeof(out), "%s", text);
	assert_int_equal(rdma_post_recv(receiver, in, in, sizeof(in), in_mr), 0);
	assert_int_equal(rdma_post_send(sender, out, out, sizeof(out), out_mr, 0), 0);
	assert_int_equal(rdma_get_send_comp(sender, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_get_recv_comp(receiver, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_string_equal(in, text);
	rdma_dereg_mr(out_mr);
	rdma_dereg_mr(in_mr);
}

/* Whoever listens at its address; /proc is not that of our process namespace. */
int daemon_pid(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer = {0};
	socklen_t length = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), found = 0;

	assert_true(fd >= 0);
	memcpy(address.sun_path + 1, VB_DAEMON_SOCKET, strlen(VB_DAEMON_SOCKET));
	if (connect(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
								  strlen(VB_DAEMON_SOCKET))) == 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0)
		found = peer.pid;
	close(fd);
	return found;
}

unsigned descriptors_in(const char *folder)
{
	DIR *directory = opendir(folder);
	unsigned count = 0;

	assert_non_null(directory);
	while (readdir(directory) != NULL)
		count++;
	closedir(directory);
	return count;
}

unsigned open_descriptors(void)
{
	return descriptors_in("/proc/self/fd");
}
