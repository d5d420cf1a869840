/* SPDX-License-Identifier: MIT
 *
 * Event channels, ids, ports and rsockets until no more are given: the errno of each kind, all given back, and once more as many.
 * The second time costs neither descriptors nor memory that the first did not.
 */
#include <errno.h>
#include <malloc.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/private_network.h"
#include "lib/resident.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif
enum { MOST = 70000, DESCRIPTORS = 200, MAY_GROW = 1 << 20 };

static void *objects[MOST];
static struct rdma_event_channel *channel;

static size_t resident(void)
{
	malloc_trim(0);
	return resident_bytes("/proc/self");
}

/* ---- one of each kind ---- */

static void *make_channel(void)
{
	return rdma_create_event_channel();
}

static void end_channel(void *object)
{
	rdma_destroy_event_channel(object);
}

static void *make_id_on(struct rdma_event_channel *on)
{
	struct rdma_cm_id *id;

	return rdma_create_id(on, &id, NULL, RDMA_PS_TCP) == 0 ? id : NULL;
}

/* Without a channel: it has one of its own. */
static void *make_lone_id(void)
{
	return make_id_on(NULL);
}

static void end_id(void *object)
{
	assert_int_equal(rdma_destroy_id(object), 0);
}

static void *make_bound_id(void)
{
	struct sockaddr_in address = loopback(0);
	struct rdma_cm_id *id = make_id_on(channel);

	assert_non_null(id);
	if (rdma_bind_addr(id, (struct sockaddr *)&address) == 0)
		return id;
	assert_int_equal(errno, EADDRNOTAVAIL);
	assert_int_equal(rdma_destroy_id(id), 0);
	errno = EADDRNOTAVAIL;
	return NULL;
}

static void *make_rsocket(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	return fd < 0 ? NULL : (void *)(intptr_t)(fd + 1);
}

static void end_rsocket(void *object)
{
	assert_int_equal(rclose((int)(intptr_t)object - 1), 0);
}

static void *make_datagram_rsocket(void)
{
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

	return fd < 0 ? NULL : (void *)(intptr_t)(fd + 1);
}

/* Returns how many there were. */
static unsigned exhaust(void *(*make)(void), void (*end)(void *object), int error)
{
	unsigned count = 0;

	for (errno = 0; count < MOST && (objects[count] = make()) != NULL; errno = 0)
		count++;
	assert_true(count < MOST);
	assert_int_equal(errno, error);
	assert_null(make());
	assert_int_equal(errno, error);
	for (unsigned i = 0; i < count; i += 2)
		end(objects[i]);
	for (unsigned i = 1; i < count; i += 2)
		end(objects[i]);
	return count;
}

static unsigned exhaust_twice(void *(*make)(void), void (*end)(void *object), int error)
{
	unsigned first = exhaust(make, end, error), descriptors = open_descriptors();
	size_t before = resident(), after;

	assert_true(first > 0);
	assert_int_equal(exhaust(make, end, error), first);
	assert_int_equal(open_descriptors(), descriptors);
	after = resident();
	if (!IS_SANITIZED && after > before + MAY_GROW)
		fail_msg("%u objects, twice: %zu bytes, then %zu", first, before, after);
	return first;
}

static void exhaust_descriptors(void *(*make)(void), void (*end)(void *object))
{
	struct rlimit before, few;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){DESCRIPTORS, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	/* The first time of all it opens what is used from then on. */
	exhaust(make, end, EMFILE);
	exhaust_twice(make, end, EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* ---- tests ---- */

static void event_channels(void **state)
{
	(void)state;
	exhaust_descriptors(make_channel, end_channel);
}

static void ids_with_channels_of_their_own(void **state)
{
	(void)state;
	exhaust_descriptors(make_lone_id, end_id);
}

static void stream_rsockets(void **state)
{
	(void)state;
	exhaust_descriptors(make_rsocket, end_rsocket);
}

static void datagram_rsockets(void **state)
{
	(void)state;
	exhaust_descriptors(make_datagram_rsocket, end_rsocket);
}

/* Ids are many; ports of the system's choice are as many as its range has. All of them once, for there are thousands. */
static void bound_ids(void **state)
{
	unsigned descriptors;

	(void)state;
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	objects[0] = make_bound_id();
	end_id(objects[0]);
	descriptors = open_descriptors();
	assert_true(exhaust(make_bound_id, end_id, EADDRNOTAVAIL) > 1000);
	for (unsigned i = 0; i < 1000; i++)
		assert_non_null(objects[i] = make_bound_id());
	for (unsigned i = 0; i < 1000; i++)
		end_id(objects[i]);
	assert_int_equal(open_descriptors(), descriptors);
	rdma_destroy_event_channel(channel);
}

/* And then all works. */
static void connection_afterwards(void **state)
{
	struct connection connection;

	(void)state;
	connection_open(&connection);
	exchange_message(&connection, 0, "there is room again");
	connection_close(&connection);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event_channels),
		cmocka_unit_test(ids_with_channels_of_their_own),
		cmocka_unit_test(stream_rsockets),
		cmocka_unit_test(datagram_rsockets),
		cmocka_unit_test(bound_ids),
		cmocka_unit_test(connection_afterwards),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
