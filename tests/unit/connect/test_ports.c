/* SPDX-License-Identifier: MIT
 *
 * Who may share a port, who is found by a request, and that no port leaks.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "connect/ports.h"

static struct vb_connect_ports ports;

static int set_up(void **state)
{
	(void)state;
	vb_connect_ports_init(&ports);
	return 0;
}

/* 'a' and 'b': IPv4 addresses, '4' and '6': the wildcards, 'x': an IPv6 address */
static struct vb_cm_address address(char which, uint16_t port)
{
	struct vb_cm_address a = {.family = which == '6' || which == 'x' ? AF_INET6 : AF_INET, .port = port};

	if (which == 'a' || which == 'b') {
		a.gid[10] = a.gid[11] = 0xff;
		a.gid[12] = 10;
		a.gid[15] = which == 'a' ? 1 : 2;
	} else if (which == 'x') {
		a.gid[0] = 0x20;
		a.gid[15] = 1;
	}
	return a;
}

enum { R = 1, F = 2 };           /* reuse, family only */

static int bind_as(struct vb_connect_binding *binding, char which, uint16_t port, unsigned options)
{
	struct vb_cm_address a = address(which, port);

	memset(binding, 0, sizeof(*binding));
	vb_list_init(&binding->node);
	binding->reuse = options & R;
	binding->family_only = options & F;
	return vb_connect_ports_bind(&ports, binding, VB_CM_PS_TCP, &a, 0);
}

static void sharing_follows_the_rules(void **state)
{
	static const struct {
		char first;
		unsigned first_options;
		char second;
		unsigned second_options;
		int result;
	} cases[] = {
		{'a', 0, 'a', 0, -EADDRINUSE},
		{'a', 0, 'b', 0, 0},
		{'a', 0, 'x', 0, 0},
		{'a', 0, '4', 0, -EADDRNOTAVAIL},
		{'4', 0, 'a', 0, -EADDRNOTAVAIL},
		{'4', 0, '6', 0, -EADDRNOTAVAIL},
		{'4', F, '6', F, 0},
		{'4', F, '6', 0, -EADDRNOTAVAIL},
		{'4', 0, '6', F, -EADDRNOTAVAIL},
		{'4', F, 'x', F, 0},
		{'a', R, 'a', R, 0},
		{'a', R, 'a', 0, -EADDRINUSE},
		{'a', 0, 'a', R, -EADDRINUSE},
		{'4', R, 'a', R, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vb_connect_binding first, second;

		assert_int_equal(bind_as(&first, cases[i].first, 5000, cases[i].first_options), 0);
		assert_int_equal(bind_as(&second, cases[i].second, 5000, cases[i].second_options), cases[i].result);
		vb_connect_ports_release(&ports, &second);
		vb_connect_ports_release(&ports, &first);
		assert_int_equal(ports.count, 0);
	}
}

static void spaces_are_apart(void **state)
{
	struct vb_connect_binding tcp, udp = {0};
	struct vb_cm_address a = address('a', 5000);

	(void)state;
	vb_list_init(&udp.node);
	assert_int_equal(bind_as(&tcp, 'a', 5000, 0), 0);
	assert_int_equal(vb_connect_ports_bind(&ports, &udp, VB_CM_PS_UDP, &a, 0), 0);
	assert_int_equal(vb_connect_ports_listen(&ports, &tcp), 0);
	assert_ptr_equal(vb_connect_ports_listener(&ports, VB_CM_PS_TCP, &a), &tcp);
	assert_null(vb_connect_ports_listener(&ports, VB_CM_PS_UDP, &a));
	assert_null(vb_connect_ports_listener(&ports, VB_CM_PS_IB, &a));
	vb_connect_ports_release(&ports, &tcp);
	vb_connect_ports_release(&ports, &udp);
}

static void a_listener_is_alone(void **state)
{
	struct vb_connect_binding first, second;

	(void)state;
	assert_int_equal(bind_as(&first, 'a', 5000, R), 0);
	assert_int_equal(bind_as(&second, 'a', 5000, R), 0);
	assert_int_equal(vb_connect_ports_listen(&ports, &first), -EADDRINUSE);
	vb_connect_ports_release(&ports, &second);
	assert_int_equal(vb_connect_ports_listen(&ports, &first), 0);
	assert_int_equal(bind_as(&second, 'a', 5000, R), -EADDRINUSE);
	vb_connect_ports_release(&ports, &first);
}

static void requests_find_their_listener(void **state)
{
	struct vb_cm_address to_a = address('a', 7), to_b = address('b', 7), to_x = address('x', 7),
			     elsewhere = address('a', 8);
	struct vb_connect_binding four, six, specific;

	(void)state;
	assert_int_equal(bind_as(&specific, 'a', 7, 0), 0);
	assert_null(vb_connect_ports_listener(&ports, VB_CM_PS_TCP, &to_a));
	assert_int_equal(vb_connect_ports_listen(&ports, &specific), 0);
	assert_ptr_equal(vb_connect_ports_listener(&ports, VB_CM_PS_TCP, &to_a), &specific);
	assert_null(vb_connect_ports_listener(&ports, VB_CM_PS_TCP, &to_b));
	assert_null(vb_connect_ports_listener(&ports, VB_CM_PS_TCP, &to_x));
	assert_null(vb_connect_ports_listener(&ports, VB_CM_PS_TCP, &elsewhere));
	vb_connect_ports_release(&ports, &specific);

	assert_int_equal(bind_as(&four, '4', 7, F), 0);
	assert_int_equal(bind_as(&six, '6', 7, F), 0);
	assert_int_equal(vb_connect_ports_listen(&ports, &four), 0);
	assert_int_equal(vb_connect_ports_listen(&ports, &six), 0);
	assert_ptr_equal(vb_connect_ports_listener(&ports, VB_CM_PS_TCP, &to_b), &four);
	assert_ptr_equal(vb_connect_ports_listener(&ports, VB_CM_PS_TCP, &to_x), &six);
	vb_connect_ports_release(&ports, &four);
	vb_connect_ports_release(&ports, &six);

	assert_int_equal(bind_as(&six, '6', 7, 0), 0);
	assert_int_equal(vb_connect_ports_listen(&ports, &six), 0);
	assert_ptr_equal(vb_connect_ports_listener(&ports, VB_CM_PS_TCP, &to_a), &six);
	assert_ptr_equal(vb_connect_ports_listener(&ports, VB_CM_PS_TCP, &to_x), &six);
	vb_connect_ports_release(&ports, &six);
	assert_null(vb_connect_ports_listener(&ports, VB_CM_PS_TCP, &to_x));
}

/* Every ephemeral port once, then none; and all come back. */
static void ephemeral_ports_run_out(void **state)
{
	enum { RANGE = VB_CONNECT_EPHEMERAL_LAST - VB_CONNECT_EPHEMERAL_FIRST + 1 };
	struct vb_connect_binding *bindings = calloc(RANGE + 1, sizeof(*bindings));
	static uint8_t used[65536];
	struct vb_cm_address any = address('a', 0);
	uint32_t start = 12345;

	(void)state;
	memset(used, 0, sizeof(used));
	for (unsigned i = 0; i < RANGE; i++) {
		vb_list_init(&bindings[i].node);
		assert_int_equal(vb_connect_ports_bind(&ports, &bindings[i], VB_CM_PS_TCP, &any, start + i), 0);
		assert_in_range(bindings[i].address.port, VB_CONNECT_EPHEMERAL_FIRST, VB_CONNECT_EPHEMERAL_LAST);
		assert_int_equal(used[bindings[i].address.port]++, 0);
	}
	assert_int_equal(vb_connect_ports_bind(&ports, &bindings[RANGE], VB_CM_PS_TCP, &any, start), -EADDRNOTAVAIL);
	for (unsigned i = 0; i < RANGE; i++)
		vb_connect_ports_release(&ports, &bindings[i]);
	assert_int_equal(ports.count, 0);
	assert_int_equal(vb_connect_ports_bind(&ports, &bindings[0], VB_CM_PS_TCP, &any, start), 0);
	vb_connect_ports_release(&ports, &bindings[0]);
	free(bindings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(sharing_follows_the_rules, set_up),
		cmocka_unit_test_setup(spaces_are_apart, set_up),
		cmocka_unit_test_setup(a_listener_is_alone, set_up),
		cmocka_unit_test_setup(requests_find_their_listener, set_up),
		cmocka_unit_test_setup(ephemeral_ports_run_out, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
