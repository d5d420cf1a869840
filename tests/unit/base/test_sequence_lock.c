/* SPDX-License-Identifier: MIT
 *
 * The sequence lock on the processor that we have: readers never see contents that do not belong together, whatever the writer is at.
 * The fields lie on lines of their own, so that their stores may be seen in any order that the processor allows. (Every execution
 * that any may come up with is in tests/unit/litmus.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>

#include "base/sequence_lock.h"

enum { FIELDS = 6, READERS = 2, WRITES = 20000, READS = 1000 };

static struct {
	uint64_t word __attribute__((aligned(128)));
	struct {
		uint64_t value __attribute__((aligned(128)));
	} field[FIELDS];
} shared;

static bool stop;

struct seen {
	uint64_t good, torn, changed;
};

static void *read_on(void *argument)
{
	struct seen *seen = argument;

	/* Until the writer is through, and then as often as it takes for what stands to be seen. */
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE) || seen->good < READS) {
		uint64_t number = vb_sequence_read(&shared.word), value[FIELDS];
		bool same = true;

		if (number == 0)
			continue;
		for (unsigned i = 0; i < FIELDS; i++)
			value[i] = VB_SEQUENCE_GET(shared.field[i].value);
		if (!vb_sequence_stands(&shared.word, number)) {
			seen->changed++;
			continue;
		}
		for (unsigned i = 0; i < FIELDS; i++)
			same &= value[i] == number;
		if (same)
			seen->good++;
		else
			seen->torn++;
	}
	return NULL;
}

static void contents_belong_together(void **state)
{
	struct seen seen[READERS] = {{0}};
	pthread_t reader[READERS];

	(void)state;
	for (unsigned i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&reader[i], NULL, read_on, &seen[i]), 0);
	for (uint64_t number = 1; number <= WRITES; number++) {
		vb_sequence_begin(&shared.word, 0);
		for (unsigned i = 0; i < FIELDS; i++)
			VB_SEQUENCE_SET(shared.field[i].value, number);
		vb_sequence_end(&shared.word, number);
		if (number % 1000 == 0)
			sched_yield();
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < READERS; i++) {
		pthread_join(reader[i], NULL);
		print_message("%llu whole, %llu changed meanwhile\n", (unsigned long long)seen[i].good,
			      (unsigned long long)seen[i].changed);
		assert_int_equal(seen[i].torn, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contents_belong_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
