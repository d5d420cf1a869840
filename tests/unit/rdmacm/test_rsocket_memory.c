/* SPDX-License-Identifier: MIT
 *
 * What a connection costs before anything is said on it: its buffers have no pages yet. To bring them in took longer than all else of
 * making it.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/private_network.h"
#include "rsockets.h"

enum { LARGE = 1 << 20, CRUMBS = 64 };

/* Kilobytes of memory of rsockets that are there; `mappings`: how many. */
static unsigned long resident(unsigned *mappings)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	unsigned long sum = 0, here;
	char line[512];
	bool ours = false;

	assert_non_null(maps);
	*mappings = 0;
	while (fgets(line, sizeof(line), maps) != NULL) {
		if (strstr(line, "/memfd:rsocket") != NULL) {
			ours = true;
			++*mappings;
		} else if (ours && sscanf(line, "Rss: %lu kB", &here) == 1) {
			sum += here;
			ours = false;
		}
	}
	fclose(maps);
	return sum;
}

static void buffers_have_no_pages_until_they_are_used(void **state)
{
	unsigned mappings;
	int pair[2];

	(void)state;
	connected(pair, 0, 0);           /* as large as they are unless asked for: LARGE */
	assert_in_range(resident(&mappings), 0, CRUMBS);
	assert_true(mappings > 0);
	for (unsigned i = 0; i < 8; i++) {
		send_stream(pair[0], (uint64_t)i * LARGE / 4, LARGE / 4);
		expect_stream(pair[1], (uint64_t)i * LARGE / 4, LARGE / 4);
	}
	assert_true(resident(&mappings) >= LARGE / 1024);
	close_both(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(buffers_have_no_pages_until_they_are_used)};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
