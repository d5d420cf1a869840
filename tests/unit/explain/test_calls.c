/* SPDX-License-Identifier: MIT
 *
 * Calls of librdmacm that fail at once: each tells the state the id is in and the one it should be in, or the argument
 * at fault.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "unit/explain/told.h"
#include "unit/rdmacm/cm.h"

static struct rdma_event_channel *channel;

static struct rdma_cm_id *fresh_id(enum rdma_port_space space)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, space), 0);
	return id;
}

static void addresses(void **state)
{
	struct rdma_cm_id *id = fresh_id(RDMA_PS_TCP), *other = fresh_id(RDMA_PS_TCP);
	struct sockaddr_in address = loopback(0), foreign = {.sin_family = AF_INET, .sin_port = htons(7001)};

	(void)state;
	told_clear();
	inet_pton(AF_INET, "192.0.2.77", &foreign.sin_addr);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&foreign), -1);
	told_expect("verb", "rdma_bind_addr", "address", "192.0.2.77", "port", "7001", "state", "not bound", NULL);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), -1);
	assert_int_equal(errno, EINVAL);
	told_expect("verb", "rdma_bind_addr", "error", "EINVAL", "state", "bound", "needed", "not bound", NULL);
	assert_int_equal(rdma_listen(id, 1), 0);
	address.sin_port = rdma_get_src_port(id);
	assert_int_equal(rdma_bind_addr(other, (struct sockaddr *)&address), -1);
	assert_int_equal(errno, EADDRINUSE);
	told_expect("verb", "rdma_bind_addr", "error", "EADDRINUSE", "address", "127.0.0.1", "port", number(ntohs(address.sin_port)), NULL);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), -1);
	told_expect("verb", "rdma_resolve_addr", "state", "listening", "needed", "not bound or bound", NULL);
	assert_int_equal(rdma_listen(id, 1), -1);
	told_expect("verb", "rdma_listen", "state", "listening", NULL);
	rdma_destroy_id(other);
	rdma_destroy_id(id);
}

static void steps_out_of_order(void **state)
{
	struct rdma_cm_id *id = fresh_id(RDMA_PS_TCP), *resolved = resolved_id(channel, RDMA_PS_TCP, 7002);
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct rdma_conn_param param = {0};
	uint8_t data[255] = {0};

	(void)state;
	told_clear();
	assert_int_equal(rdma_connect(id, &param), -1);
	told_expect("verb", "rdma_connect", "error", "EINVAL", "state", "not bound", "needed", "route resolved", NULL);
	assert_int_equal(rdma_resolve_route(id, 1000), -1);
	told_expect("verb", "rdma_resolve_route", "state", "not bound", "needed", "address resolved", NULL);
	assert_int_equal(rdma_accept(id, &param), -1);
	told_expect("verb", "rdma_accept", "state", "not bound", "needed", "requested", NULL);
	assert_int_equal(rdma_reject(id, NULL, 0), -1);
	told_expect("verb", "rdma_reject", "needed", "requested", NULL);
	assert_int_equal(rdma_disconnect(id), -1);
	told_expect("verb", "rdma_disconnect", "state", "not bound", "needed", "connected", NULL);
	assert_int_equal(rdma_create_qp(id, NULL, &attr), -1);
	told_expect("verb", "rdma_create_qp", "error", "EINVAL", "state", "not bound", NULL);
	told_clear();
	param.private_data = data;
	param.private_data_len = sizeof(data);
	add_qp(resolved);
	assert_int_equal(rdma_connect(resolved, &param), -1);
	told_expect("verb", "rdma_connect", "state", "route resolved", "address", "127.0.0.1", "port", "7002", NULL);
	assert_int_equal(told_count("needed", "route resolved"), 0);
	rdma_destroy_qp(resolved);
	rdma_destroy_id(resolved);
	rdma_destroy_id(id);
}

static void groups_and_port_spaces(void **state)
{
	struct sockaddr_in group = {.sin_family = AF_INET};
	struct rdma_cm_id *id = fresh_id(RDMA_PS_UDP), *none;
	struct sockaddr_in address = loopback(0);

	(void)state;
	told_clear();
	inet_pton(AF_INET, "239.1.2.3", &group.sin_addr);
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), -1);
	told_expect("verb", "rdma_join_multicast", "error", "EINVAL", "address", "239.1.2.3", "state", "not bound", NULL);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&address, NULL), -1);
	told_expect("verb", "rdma_join_multicast", "address", "127.0.0.1", "state", "bound", NULL);
	assert_int_equal(rdma_create_id(channel, &none, NULL, (enum rdma_port_space)0x777), -1);
	told_expect("verb", "rdma_create_id", "error", "EINVAL", NULL);
	rdma_destroy_id(id);
}

static void *acknowledge_when_told(void *event)
{
	if (!eventually(told_count("misuse", "unacknowledged_events") > 0))
		print_error("not told\n");
	rdma_ack_cm_event(event);
	return NULL;
}

/* rdma_destroy_id waits for it, so another thread acknowledges as soon as it is told. */
static void an_event_that_is_not_acknowledged(void **state)
{
	struct rdma_cm_id *id = fresh_id(RDMA_PS_TCP);
	struct sockaddr_in address = loopback(7003);
	struct rdma_cm_event *event;
	pthread_t thread;

	(void)state;
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000), 0);
	expect_cm_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 2000), 0);
	event = next_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	told_clear();
	pthread_create(&thread, NULL, acknowledge_when_told, event);
	assert_int_equal(rdma_destroy_id(id), 0);
	pthread_join(thread, NULL);
	told_expect("misuse", "unacknowledged_events", "object", "rdma_cm_id", "events_read", "2", "events_acknowledged", "1", NULL);
}

static int open_channel(void **state)
{
	(void)state;
	channel = rdma_create_event_channel();
	return channel == NULL;
}

static int close_channel(void **state)
{
	(void)state;
	rdma_destroy_event_channel(channel);
	told_remove();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses),
		cmocka_unit_test(steps_out_of_order),
		cmocka_unit_test(groups_and_port_spaces),
		cmocka_unit_test(an_event_that_is_not_acknowledged),
	};

	private_network_enter();
	told_prepare();
	return cmocka_run_group_tests(tests, open_channel, close_channel);
}
