/* SPDX-License-Identifier: MIT
 *
 * Within one host long messages go straight from the program's memory into the peer's (rdmacm/rsocket/stream_place.c). That call of
 * libibverbs is counted here, and refused now and then: the stream is the same.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/private_network.h"
#include "rsockets.h"
#include "wire/placing_call.h"

enum { MESSAGE = 50000, MESSAGES = 60, LISTED = 20, SHORT = 100 };

static unsigned asked, placed;
static unsigned refuse_one_of;           /* 0: none */

/* Before libibverbs' own. */
int execute_ioctl(struct ibv_context *context, void *command);
__attribute__((visibility("default"))) int execute_ioctl(struct ibv_context *context, void *command)
{
	static int (*own)(struct ibv_context *context, void *command);
	uint64_t magic;
	int error;

	if (!own)
		own = (int (*)(struct ibv_context *, void *))dlsym(RTLD_NEXT, "execute_ioctl");
	memcpy(&magic, command, sizeof(magic));
	if (magic != VB_PLACING_MAGIC)
		return own(context, command);
	asked++;
	if (refuse_one_of != 0 && asked % refuse_one_of == 0)
		return EOPNOTSUPP;
	error = own(context, command);
	placed += error == 0;
	return error;
}

static void *take_all(void *socket)
{
	expect_stream(*(int *)socket, 0, (size_t)MESSAGE * MESSAGES);
	return NULL;
}

/* The memory is the program's own again when the call returns. */
static void send_and_spoil(int socket, uint64_t from, size_t length, unsigned elements)
{
	uint8_t *bytes = malloc(length);
	struct iovec iov[LISTED];
	size_t each = length / elements;

	assert_non_null(bytes);
	for (size_t i = 0; i < length; i++)
		bytes[i] = stream_byte(from + i);
	for (unsigned i = 0; i < elements; i++)
		iov[i] = (struct iovec){bytes + i * each, i + 1 < elements ? each : length - i * each};
	assert_int_equal(rwritev(socket, iov, (int)elements), length);
	memset(bytes, 0xee, length);
	free(bytes);
}

static void stream(unsigned elements)
{
	pthread_t thread;
	int pair[2];

	asked = placed = 0;
	connected(pair, 0, 0);
	pthread_create(&thread, NULL, take_all, &pair[1]);
	for (unsigned i = 0; i < MESSAGES; i++) {
		uint64_t from = (uint64_t)i * MESSAGE;

		/* And short ones between them, which are not asked for. */
		send_and_spoil(pair[0], from, SHORT, 1);
		send_and_spoil(pair[0], from + SHORT, MESSAGE - SHORT, elements);
	}
	pthread_join(thread, NULL);
	close_both(pair);
}

static void long_messages_are_placed(void **state)
{
	(void)state;
	refuse_one_of = 0;
	stream(1);
	/* All but those before the first WRITE, and pieces that are short. */
	assert_true(placed >= MESSAGES / 2);
	stream(3);
	assert_true(placed >= MESSAGES / 2);
}

static void refusals_make_no_difference(void **state)
{
	(void)state;
	for (refuse_one_of = 1; refuse_one_of < 4; refuse_one_of++) {
		stream(2);
		assert_true(asked >= MESSAGES / 2);
		assert_true(refuse_one_of > 1 ? placed > 0 : placed == 0);
	}
}

/* Longer lists than a call has room for. */
static void long_lists_go_the_ordinary_way(void **state)
{
	(void)state;
	refuse_one_of = 0;
	stream(LISTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_messages_are_placed),
		cmocka_unit_test(refusals_make_no_difference),
		cmocka_unit_test(long_lists_go_the_ordinary_way),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
