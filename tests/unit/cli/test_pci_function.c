/* SPDX-License-Identifier: MIT
 *
 * Which interfaces have a PCI function that scripts find them by, in a /sys of the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/pci_function.h"

static char sysfs[] = "/tmp/verbena-test-sysfs-XXXXXX", resolved[VB_CLI_PATH_MAX];

static void run(const char *format, const char *what)
{
	char command[1024];

	snprintf(command, sizeof(command), format, sysfs, what);
	assert_int_equal(system(command), 0);
}

/* `device` is the directory that the kernel's driver has bound to, of the bus `bus`; the interface is below its `net`. */
static void add(const char *interface, const char *device, const char *bus)
{
	char more[512];

	snprintf(more, sizeof(more), "mkdir -p devices/%s/net/%s class/net && ln -s ../../../bus/%s devices/%s/subsystem && "
		 "ln -s ../../devices/%s/net/%s class/net/%s && ln -s ../.. devices/%s/net/%s/device", device, interface, bus, device,
		 device, interface, interface, device, interface);
	run("cd %s && %s", more);
}

static int set_up(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(sysfs));
	assert_non_null(realpath(sysfs, resolved));
	add("ens1f0", "pci0000:00/0000:3b:00.0", "pci");
	/* A function of two ports. */
	run("cd %s && mkdir -p devices/pci0000:00/0000:3b:00.0/net/%s", "ens1f0d1");
	/* As cloud machines have it: the function is the bus's, the driver's device is below it. */
	run("cd %s && mkdir -p %s && ln -s ../../../bus/pci devices/pci0000:00/0000:00:03.0/subsystem", "devices/pci0000:00/0000:00:03.0");
	add("eth0", "pci0000:00/0000:00:03.0/virtio2", "virtio");
	add("usb0", "pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0", "usb");
	run("cd %s && mkdir -p devices/virtual/net/%s && ln -s ../../devices/virtual/net/lo class/net/lo", "lo");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	run("rm -r %s%s", "");
	return 0;
}

static void an_adapters_function(void **state)
{
	char out[VB_CLI_PATH_MAX], want[2 * VB_CLI_PATH_MAX];

	(void)state;
	assert_true(vb_cli_pci_function(sysfs, "ens1f0", out));
	snprintf(want, sizeof(want), "%s/devices/pci0000:00/0000:3b:00.0", resolved);
	assert_string_equal(out, want);
}

static void none_where_device_net_would_be_missing(void **state)
{
	char out[VB_CLI_PATH_MAX];

	(void)state;
	assert_false(vb_cli_pci_function(sysfs, "eth0", out));
	assert_false(vb_cli_pci_function(sysfs, "usb0", out));
	assert_false(vb_cli_pci_function(sysfs, "lo", out));
	assert_false(vb_cli_pci_function(sysfs, "gone0", out));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_adapters_function),
		cmocka_unit_test(none_where_device_net_would_be_missing),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
