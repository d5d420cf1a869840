/* SPDX-License-Identifier: MIT
 *
 * Connection management for tests: both ends of a connection in one process, over the loopback device. Everything
 * asserts; a test reads as what it tests.
 */
#ifndef TESTS_UNIT_RDMACM_CM_H
#define TESTS_UNIT_RDMACM_CM_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

struct sockaddr_in loopback(uint16_t port);

/* The next event, which must be of that type. Not acknowledged. */
struct rdma_cm_event *next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* Likewise, acknowledged; gives its status. */
int expect_cm_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* Nothing is queued. */
void expect_no_cm_event(struct rdma_event_channel *channel);

/* A listener on a port of the system's choice. */
struct rdma_cm_id *listen_on_loopback(struct rdma_event_channel *channel, enum rdma_port_space space, uint16_t *port);
/* Address and route resolved. */
struct rdma_cm_id *resolved_id(struct rdma_event_channel *channel, enum rdma_port_space space, uint16_t port);
/* A queue pair with 16 entries each way and the library's own completion queues. */
void add_qp(struct rdma_cm_id *id);

/* Two connected ids with queue pairs: [0] asked, [1] accepted. Each has a channel of its own. */
struct connection {
	struct rdma_event_channel *channel[2];
	struct rdma_cm_id *listener, *id[2];
	uint16_t port;
};
void connection_open(struct connection *connection);
void connection_close(struct connection *connection);
/* Send one message from id[from] to the other and check it. */
void exchange_message(struct connection *connection, int from, const char *text);

/* verbenad of this test's network. 0: none runs. */
int daemon_pid(void);

/* Of the process whose folder of descriptors in /proc that is; of this one. Counted alike, "." and ".." included. */
unsigned descriptors_in(const char *folder);
unsigned open_descriptors(void);

#endif
