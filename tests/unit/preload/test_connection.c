/* SPDX-License-Identifier: MIT
 *
 * A TCP connection that waits for its peer's rsocket (preload/sockets/connection.c): epoll sets that it is in hear of the peer's coming,
 * though nothing comes by TCP. The peer may hold back the end of what we wrote as the beginning of a token, and neither side would
 * ever say more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/descriptor.h"
#include "io/event.h"
#include "preload/sockets/connection.h"
#include "preload/sockets/report.h"

enum { FD = 700 };

/* What rsockets have to do with it. */
static const char it;
static struct vb_rsocket *const listener = (struct vb_rsocket *)&it;
static const struct vb_rsocket *observed;
static struct vb_connection *told;
static unsigned closed;

void vb_upgrade_observe(struct vb_connection *connection, struct vb_rsocket *rs)
{
	told = connection;
	observed = rs;
}

void vb_upgrade_close_rsocket(struct vb_rsocket *rs)
{
	assert_ptr_equal(rs, listener);
	closed++;
}

void vb_sockets_report(const struct vb_connection *connection)
{
	(void)connection;
}

static void a_set_hears_of_the_peers_coming(void **state)
{
	struct vb_connection_observer observer = {.wake_fd = vb_event_open()};
	struct vb_wait_item item = {.fd = observer.wake_fd};
	const uint8_t token[VB_TOKEN] = {1};

	(void)state;
	vb_connection_track(FD, true, true, listener, token);
	assert_ptr_equal(observed, listener);
	vb_connection_observe(told, &observer);
	/* As the service thread does when a peer was accepted (upgrade.c). */
	vb_connection_ring(told, NULL);
	vb_wait(&item, 1, 0);
	assert_true(item.readable);
	assert_true(observer.rung);
	vb_connection_unobserve(told, &observer);
	vb_connection_forget(FD);
	assert_int_equal(closed, 1);
	vb_descriptor_close(observer.wake_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_hears_of_the_peers_coming),
	};

	return cmocka_run_group_tests_name("preload/connection", tests, NULL, NULL);
}
