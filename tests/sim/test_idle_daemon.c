/* SPDX-License-Identifier: MIT
 *
 * When a verbenad without clients leaves: it waits for its first one, and for the next ones as long as it was told to. verbenad itself,
 * with a clock of the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <unistd.h>

#include "daemon/server.h"
#include "io/unix_socket.h"
#include "lib/private_network.h"
#include "sim/seams.h"

#define NAME "verbena/idle"
#define BEGAN VB_SECONDS(1000)

enum { MOST_TURNS = 50 };

static struct vb_server *server;

static uint32_t draw(uint32_t bound)
{
	return bound / 2;
}

static void start_daemon(vb_time idle, vb_time first)
{
	const struct vb_server_config config = {.idle = idle, .first = first};
	int listener;

	seam = (struct seam){.now = BEGAN, .draw = draw, .is_patient = true};
	listener = vb_unix_listen(NAME);
	assert_true(listener >= 0);
	assert_int_equal(vb_server_create(&server, (int[]){listener, -1}, &config), 0);
}

static int tear_down(void **state)
{
	(void)state;
	vb_server_destroy(server);
	return 0;
}

/* Does it leave, when it has seen to all that is there? */
static bool leaves_at(vb_time when)
{
	seam.now = when;
	for (unsigned turns = 0; turns < MOST_TURNS; turns++) {
		if (vb_server_turn(server, seam.now))
			return true;
		if (seam.ready == 0)
			return false;
	}
	fail_msg("verbenad finds no end of what there is to do");
	return false;
}

static void it_waits_for_its_first_client(void **state)
{
	(void)state;
	start_daemon(0, VB_SECONDS(10));
	assert_false(leaves_at(BEGAN));
	assert_false(leaves_at(BEGAN + VB_SECONDS(10) - 1));
	/* If none ever comes it leaves. */
	assert_true(leaves_at(BEGAN + VB_SECONDS(10)));
}

static void when_its_first_client_has_left_it_leaves_as_told(void **state)
{
	int client;

	(void)state;
	start_daemon(0, VB_SECONDS(10));
	assert_false(leaves_at(BEGAN));
	client = vb_unix_connect(NAME);
	assert_true(client >= 0);
	assert_false(leaves_at(BEGAN + VB_SECONDS(1)));
	close(client);
	assert_true(leaves_at(BEGAN + VB_SECONDS(2)));
}

static void told_to_stay_for_longer_it_does(void **state)
{
	(void)state;
	start_daemon(VB_SECONDS(60), VB_SECONDS(10));
	assert_false(leaves_at(BEGAN + VB_SECONDS(60) - 1));
	assert_true(leaves_at(BEGAN + VB_SECONDS(60)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(it_waits_for_its_first_client, tear_down),
		cmocka_unit_test_teardown(when_its_first_client_has_left_it_leaves_as_told, tear_down),
		cmocka_unit_test_teardown(told_to_stay_for_longer_it_does, tear_down),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
