/* SPDX-License-Identifier: MIT
 *
 * What librdmacm answers to bad arguments and to ids in the wrong state: -1 and the errno of the man pages and the
 * kernel, nothing else happening.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/patience.h"
#include "lib/private_network.h"

#define assert_fails(call, error)                  \
	do {                                       \
		errno = 0;                         \
		assert_int_equal(call, -1);        \
		assert_int_equal(errno, error);    \
	} while (0)

static struct rdma_event_channel *channel;

static int make_channel(void **state)
{
	(void)state;
	channel = rdma_create_event_channel();
	return channel == NULL;
}

static int destroy_channel(void **state)
{
	(void)state;
	rdma_destroy_event_channel(channel);
	return 0;
}

static struct rdma_cm_id *fresh_id(enum rdma_port_space space)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, space), 0);
	return id;
}

static void unknown_port_spaces_are_refused(void **state)
{
	struct rdma_cm_id *id;

	(void)state;
	assert_fails(rdma_create_id(channel, &id, NULL, (enum rdma_port_space)0x777), EINVAL);
	assert_fails(rdma_create_id(channel, NULL, NULL, RDMA_PS_TCP), EINVAL);
}

static void port_spaces_choose_the_queue_pair(void **state)
{
	static const struct { enum rdma_port_space space; enum ibv_qp_type type; } expected[] = {
		{RDMA_PS_TCP, IBV_QPT_RC}, {RDMA_PS_UDP, IBV_QPT_UD}, {RDMA_PS_IPOIB, IBV_QPT_UD}, {RDMA_PS_IB, IBV_QPT_RC},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		struct rdma_cm_id *id = fresh_id(expected[i].space);

		assert_int_equal(id->qp_type, expected[i].type);
		assert_int_equal(id->ps, expected[i].space);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
}

static void addresses_are_checked(void **state)
{
	struct rdma_cm_id *id = fresh_id(RDMA_PS_TCP);
	struct sockaddr_in address = loopback(0);
	struct sockaddr_in6 other = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr unknown = {.sa_family = AF_UNIX};

	(void)state;
	assert_fails(rdma_resolve_addr(id, NULL, NULL, 1000), EINVAL);
	assert_fails(rdma_resolve_addr(id, NULL, &unknown, 1000), EINVAL);
	assert_fails(rdma_resolve_addr(id, (struct sockaddr *)&other, (struct sockaddr *)&address, 1000), EINVAL);
	assert_fails(rdma_bind_addr(id, NULL), EINVAL);
	assert_fails(rdma_bind_addr(id, &unknown), EINVAL);
	address.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1 is not ours */
	assert_fails(rdma_bind_addr(id, (struct sockaddr *)&address), EADDRNOTAVAIL);
	expect_no_cm_event(channel);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void no_route_is_an_event(void **state)
{
	struct rdma_cm_id *id = fresh_id(RDMA_PS_TCP);
	struct sockaddr_in address = loopback(1);

	(void)state;
	address.sin_addr.s_addr = htonl(0xc0000201);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ADDR_ERROR), -ENETUNREACH);
	/* The id can try another address. */
	address = loopback(1);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* An id whose port is taken is as it was before: bound to no device. */
static void a_taken_port_binds_no_device(void **state)
{
	struct rdma_cm_id *holder = fresh_id(RDMA_PS_TCP), *id = fresh_id(RDMA_PS_TCP);
	struct sockaddr_in address = loopback(0), here = loopback(0);

	(void)state;
	assert_int_equal(private_network_add_address("lo", "198.51.100.1", 32), 0);
	address.sin_addr.s_addr = htonl(0xc6336401);
	/* The kernel tells of an address a moment after it is there. */
	assert_true(eventually(rdma_bind_addr(holder, (struct sockaddr *)&address) == 0));
	assert_non_null(holder->verbs);
	address.sin_port = rdma_get_src_port(holder);
	assert_fails(rdma_bind_addr(id, (struct sockaddr *)&address), EADDRINUSE);
	assert_null(id->verbs);
	assert_null(id->pd);
	assert_fails(rdma_resolve_addr(id, (struct sockaddr *)&address, (struct sockaddr *)&address, 1000), EADDRINUSE);
	assert_null(id->verbs);
	/* Loopback is any device, also now. */
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&here), 0);
	assert_null(id->verbs);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(holder), 0);
	assert_int_equal(private_network_remove_address("lo", "198.51.100.1", 32), 0);
}

static void calls_out_of_order_are_refused(void **state)
{
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *id = fresh_id(RDMA_PS_TCP), *other;
	struct sockaddr_in address = loopback(0);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};
	int mask;

	(void)state;
	assert_fails(rdma_resolve_route(id, 1000), EINVAL);
	assert_fails(rdma_connect(id, &param), EINVAL);
	assert_fails(rdma_accept(id, &param), EINVAL);
	assert_fails(rdma_reject(id, NULL, 0), EINVAL);
	assert_fails(rdma_establish(id), EINVAL);
	assert_fails(rdma_disconnect(id), EINVAL);
	assert_fails(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	assert_fails(rdma_create_qp(id, NULL, &init), EINVAL); /* no device yet */
	assert_fails(rdma_init_qp_attr(id, &attr, &mask), EINVAL);
	assert_fails(rdma_get_request(id, &other), EINVAL);     /* not synchronous */
	assert_fails(rdma_join_multicast(id, (struct sockaddr *)&address, NULL), EINVAL);
	assert_fails(rdma_leave_multicast(id, (struct sockaddr *)&address), EADDRNOTAVAIL);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
	assert_null(id->verbs); /* a loopback address stands for any device, as with the kernel */
	assert_fails(rdma_bind_addr(id, (struct sockaddr *)&address), EINVAL);
	assert_fails(rdma_init_qp_attr(id, &attr, &mask), EINVAL); /* RTR needs a peer */
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* Names of later versions, for programs that bind to them. */
static void what_came_later_is_refused(void **state)
{
	static const struct { const char *name, *version; } later[] = {
		{"rdma_write_cm_event", "RDMACM_1.4"}, {"rdma_resolve_addrinfo", "RDMACM_1.4"}, {"rdma_query_addrinfo", "RDMACM_1.4"},
		{"repoll_create", "RDMACM_1.5"}, {"repoll_ctl", "RDMACM_1.5"}, {"repoll_wait", "RDMACM_1.5"},
	};
	int (*call)(void *, void *, void *, void *);

	(void)state;
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		*(void **)&call = dlvsym(RTLD_DEFAULT, later[i].name, later[i].version);
		if (call == NULL)
			fail_msg("%s is not there", later[i].name);
		assert_fails(call(NULL, NULL, NULL, NULL), ENOSYS);
	}
}

static void null_is_refused(void **state)
{
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	(void)state;
	assert_fails(rdma_get_cm_event(NULL, NULL), EINVAL);
	assert_fails(rdma_get_cm_event(channel, NULL), EINVAL);
	assert_fails(rdma_ack_cm_event(NULL), EINVAL);
	assert_fails(rdma_destroy_id(NULL), EINVAL);
	assert_fails(rdma_listen(NULL, 1), EINVAL);
	assert_fails(rdma_create_ep(&id, NULL, NULL, NULL), EINVAL);
	assert_fails(rdma_getaddrinfo(NULL, NULL, NULL, &info), EINVAL);
	rdma_freeaddrinfo(NULL);
	rdma_free_devices(NULL);
}

static void ports_are_shared_only_on_request(void **state)
{
	struct rdma_cm_id *first, *second, *third;
	struct sockaddr_in address;
	uint16_t port;
	int one = 1;

	(void)state;
	first = listen_on_loopback(channel, RDMA_PS_TCP, &port);
	second = fresh_id(RDMA_PS_TCP);
	address = loopback(port);
	assert_fails(rdma_bind_addr(second, (struct sockaddr *)&address), EADDRINUSE);
	/* Another port space is another set of ports. */
	third = fresh_id(RDMA_PS_UDP);
	assert_int_equal(rdma_bind_addr(third, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_destroy_id(first), 0);
	/* Free again. */
	assert_int_equal(rdma_bind_addr(second, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_destroy_id(second), 0);
	assert_int_equal(rdma_destroy_id(third), 0);

	first = fresh_id(RDMA_PS_TCP);
	second = fresh_id(RDMA_PS_TCP);
	assert_int_equal(rdma_set_option(first, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(rdma_set_option(second, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(rdma_bind_addr(first, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_bind_addr(second, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_destroy_id(first), 0);
	assert_int_equal(rdma_destroy_id(second), 0);
}

static void options_are_checked(void **state)
{
	struct rdma_cm_id *id = fresh_id(RDMA_PS_TCP);
	struct sockaddr_in address = loopback(0);
	uint8_t byte = 32;
	int one = 1;

	(void)state;
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, sizeof(byte)), 0);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &one, sizeof(one)), EINVAL);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, sizeof(byte)), EINVAL); /* > 31 */
	byte = 14;
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, sizeof(byte)), 0);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &one, sizeof(one)), 0);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &one, 1), EINVAL);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, 99, &one, sizeof(one)), ENOSYS);
	assert_fails(rdma_set_option(id, 99, 0, &one, sizeof(one)), ENOSYS);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1), EINVAL);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof(one)), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void private_data_must_fit(void **state)
{
	static const uint8_t data[255];
	struct rdma_conn_param param = {.private_data = data, .private_data_len = 57};
	struct rdma_cm_id *id = resolved_id(channel, RDMA_PS_TCP, 9);

	(void)state;
	add_qp(id);
	assert_fails(rdma_connect(id, &param), EINVAL); /* 56 in a REQ */
	param.private_data_len = 0;
	param.responder_resources = 254;
	assert_fails(rdma_connect(id, &param), EINVAL); /* more than the device has */
	rdma_destroy_qp(id);
	assert_fails(rdma_connect(id, NULL), EINVAL);   /* no queue pair and no number for one */
	assert_int_equal(rdma_destroy_id(id), 0);

	id = resolved_id(channel, RDMA_PS_UDP, 9);
	param = (struct rdma_conn_param){.private_data = data, .private_data_len = 181};
	assert_fails(rdma_connect(id, &param), EINVAL); /* 180 in a SIDR_REQ */
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void an_empty_channel_says_try_again(void **state)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct sockaddr_in address = loopback(7);
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};

	(void)state;
	assert_int_equal(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
	assert_fails(rdma_get_cm_event(channel, &event), EAGAIN);
	id = fresh_id(RDMA_PS_TCP);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
	assert_int_equal(poll(&fd, 1, 0), 1);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_fails(rdma_get_cm_event(channel, &event), EAGAIN);
	/* An event nobody takes goes with its id. */
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(poll(&fd, 1, 0), 1);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(poll(&fd, 1, 0), 0);
}

static void events_have_names(void **state)
{
	(void)state;
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED");
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT");
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type)99), "UNKNOWN EVENT");
}

static void addrinfo_translates(void **state)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *info;

	(void)state;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &info), 0);
	assert_int_equal(info->ai_flags, RAI_PASSIVE);
	assert_int_equal(info->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(info->ai_port_space, RDMA_PS_TCP);
	assert_non_null(info->ai_src_addr);
	assert_null(info->ai_dst_addr);
	assert_int_equal(((struct sockaddr_in *)(void *)info->ai_src_addr)->sin_port, htons(7471));
	rdma_freeaddrinfo(info);
	hints = (struct rdma_addrinfo){.ai_port_space = RDMA_PS_UDP};
	assert_int_equal(rdma_getaddrinfo("::1", "7471", &hints, &info), 0);
	assert_int_equal(info->ai_family, AF_INET6);
	assert_int_equal(info->ai_qp_type, IBV_QPT_UD);
	assert_non_null(info->ai_dst_addr);
	rdma_freeaddrinfo(info);
	hints.ai_flags = RAI_NUMERICHOST;
	assert_int_not_equal(rdma_getaddrinfo("no.such.host", "7471", &hints, &info), 0);
}

/* As the kernel: of Ethernet devices no GID is an address; an id may be bound to none in particular. */
static void native_addresses_are_of_infiniband(void **state)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST | RAI_FAMILY, .ai_family = AF_IB, .ai_port_space = RDMA_PS_TCP}, *info;
	struct sockaddr_ib any = {.sib_family = AF_IB}, *sib;
	struct rdma_cm_id *id = fresh_id(RDMA_PS_TCP), *bound = fresh_id(RDMA_PS_TCP), *ipoib = fresh_id(RDMA_PS_IPOIB);
	struct sockaddr_in here = loopback(0);

	(void)state;
	assert_int_equal(rdma_getaddrinfo("::ffff:127.0.0.1", "7471", &hints, &info), 0);
	assert_int_equal(info->ai_family, AF_IB);
	assert_int_equal(info->ai_dst_len, sizeof(*sib));
	sib = (struct sockaddr_ib *)(void *)info->ai_dst_addr;
	assert_int_equal(sib->sib_family, AF_IB);
	assert_int_equal(sib->sib_pkey, htons(0xffff));
	assert_int_equal(be64toh(sib->sib_sid), RDMA_IB_IP_PS_TCP | 7471);
	assert_int_equal(sib->sib_sid_mask, UINT64_MAX);
	assert_fails(rdma_resolve_addr(id, NULL, info->ai_dst_addr, 100), ENODEV);
	assert_fails(rdma_resolve_addr(bound, (struct sockaddr *)&here, info->ai_dst_addr, 100), EINVAL);
	sib->sib_addr.sib_raw[15] = 9;
	assert_fails(rdma_bind_addr(bound, (struct sockaddr *)sib), ENODEV);
	assert_int_equal(rdma_bind_addr(bound, (struct sockaddr *)&any), 0);
	assert_null(bound->verbs);
	assert_int_not_equal(rdma_get_src_port(bound), 0);
	assert_int_equal(rdma_listen(bound, 1), 0);
	assert_fails(rdma_bind_addr(ipoib, (struct sockaddr *)&any), EPROTONOSUPPORT);
	rdma_freeaddrinfo(info);
	assert_int_not_equal(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &info), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(bound), 0);
	assert_int_equal(rdma_destroy_id(ipoib), 0);
}

/* ::1 is whichever InfiniBand device there is, and never the Ethernet device of loopback. */
static void native_loopback_is_no_ethernet_device(void **state)
{
	struct sockaddr_ib here = {.sib_family = AF_IB, .sib_pkey = htons(0xffff), .sib_addr.sib_raw = {[15] = 1}};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct rdma_cm_id *id = fresh_id(RDMA_PS_TCP);

	(void)state;
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&here), 0);
	assert_null(id->verbs);
	assert_fails(rdma_create_qp(id, NULL, &init), EINVAL);
	assert_null(id->verbs);
	assert_fails(rdma_resolve_addr(id, NULL, (struct sockaddr *)&here, 100), ENODEV);
	assert_null(id->verbs);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void devices_are_opened_once(void **state)
{
	int count = 0;
	struct ibv_context **first = rdma_get_devices(&count), **second = rdma_get_devices(NULL);
	struct rdma_cm_id *id = fresh_id(RDMA_PS_TCP);
	struct sockaddr_in address = loopback(0);

	(void)state;
	assert_non_null(first);
	assert_true(count >= 1);
	assert_null(first[count]);
	assert_ptr_equal(first[0], second[0]);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_true(id->verbs == first[0] || (count > 1 && id->verbs == first[1]));
	assert_non_null(id->pd);
	assert_int_equal(id->port_num, 1);
	rdma_free_devices(first);
	rdma_free_devices(second);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void ece_needs_an_id_without_queue_pair(void **state)
{
	struct rdma_cm_id *id = fresh_id(RDMA_PS_TCP);
	struct ibv_ece ece = {.vendor_id = 0x15b3, .options = 1}, none = {0};

	(void)state;
	assert_int_equal(rdma_set_local_ece(id, &ece), 0);
	assert_fails(rdma_set_local_ece(id, &none), EINVAL);
	assert_fails(rdma_set_local_ece(id, NULL), EINVAL);
	assert_int_equal(rdma_get_remote_ece(id, &ece), 0);
	assert_int_equal(ece.vendor_id, 0);
	assert_fails(rdma_get_remote_ece(NULL, &ece), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

#define on_channel(name) cmocka_unit_test_setup_teardown(name, make_channel, destroy_channel)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_channel(unknown_port_spaces_are_refused),
		on_channel(port_spaces_choose_the_queue_pair),
		on_channel(addresses_are_checked),
		on_channel(no_route_is_an_event),
		on_channel(a_taken_port_binds_no_device),
		on_channel(calls_out_of_order_are_refused),
		on_channel(what_came_later_is_refused),
		on_channel(null_is_refused),
		on_channel(ports_are_shared_only_on_request),
		on_channel(options_are_checked),
		on_channel(private_data_must_fit),
		on_channel(an_empty_channel_says_try_again),
		on_channel(events_have_names),
		on_channel(addrinfo_translates),
		on_channel(native_addresses_are_of_infiniband),
		on_channel(native_loopback_is_no_ethernet_device),
		on_channel(devices_are_opened_once),
		on_channel(ece_needs_an_id_without_queue_pair),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
