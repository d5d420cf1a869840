/* SPDX-License-Identifier: MIT
 *
 * A context knows its device from a list that verbenad gave at that moment. What the engine thread hears afterwards may be older.
 */
#include <poll.h>
#include <stdbool.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/engine_stop.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "lib/two_processes.h"

static bool is_of_port(const struct ibv_async_event *event)
{
	return event->event_type == IBV_EVENT_PORT_ERR || event->event_type == IBV_EVENT_PORT_ACTIVE;
}

/* verbenad may not have heard of it yet. */
static bool opens_active(struct world *world)
{
	struct ibv_port_attr port;

	world_open(world, "vb0");
	assert_int_equal(ibv_query_port(world->context, 1, &port), 0);
	if (port.state == IBV_PORT_ACTIVE)
		return true;
	world_close(world);
	return false;
}

/* Its engine thread stands still while an interface appears, goes up and has an address, each of which is news. */
static void open_before_the_news(int fd)
{
	struct world world, late;
	struct ibv_port_attr port;
	struct pollfd waiting = {.events = POLLIN};
	struct card nothing;

	world_open(&world, "lo");
	talk(fd, &(const struct card){.qpn = (uint32_t)engine_asleep()}, &nothing);
	meet(fd);                        /* it is stopped */
	assert_int_equal(private_network_add_interface("vb0", "192.0.2.1", 24), 0);
	assert_int_equal(private_network_set_up("veth0", 1), 0);
	assert_true(eventually(opens_active(&late)));
	meet(fd);
	meet(fd);                        /* it goes on */
	(void)engine_asleep();
	waiting.fd = late.context->async_fd;
	while (poll(&waiting, 1, 0) == 1) {
		struct ibv_async_event event;

		assert_int_equal(ibv_get_async_event(late.context, &event), 0);
		ibv_ack_async_event(&event);
		assert_false(is_of_port(&event));
	}
	assert_int_equal(ibv_query_port(late.context, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	world_close(&late);
	world_close(&world);
}

static void news_that_are_older_than_the_list_change_nothing(void **state)
{
	struct card other;
	pid_t child, engine;
	int fd;

	(void)state;
	if (private_network_set_up("lo", 1) != 0)
		skip();
	child = start(open_before_the_news, &fd);
	talk(fd, &(const struct card){.qpn = 0}, &other);
	engine = (pid_t)other.qpn;
	stop_engine(engine);
	meet(fd);
	meet(fd);                        /* the context is open */
	resume_engine(engine);
	meet(fd);
	finish(child, fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(news_that_are_older_than_the_list_change_nothing),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
