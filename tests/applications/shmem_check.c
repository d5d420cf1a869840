/* SPDX-License-Identifier: MIT
 *
 * shmem_check: puts, gets, atomics and a reduction of OpenSHMEM around a ring, compared; then the pace of gets and puts.
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NUMBERS = 131072, ROUNDS = 100, MEASURED = 1001 };

static long counter, sum, mine, work[SHMEM_REDUCE_MIN_WRKDATA_SIZE], sync_words[SHMEM_REDUCE_SYNC_SIZE];

static void require(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "rank %d: wrong: %s\n", shmem_my_pe(), what);
	shmem_global_exit(1);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int by_size(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* Seconds, the median: `length` numbers of the neighbour's are fetched, or, if `puts`, given to it until they are there. */
static double pace(long *there, long *here, size_t length, int puts)
{
	static double times[MEASURED];
	int rounds = length == 1 ? MEASURED : MEASURED / 10, neighbour = (shmem_my_pe() + 1) % shmem_n_pes();

	for (int i = 0; i < rounds; i++) {
		double began = now();

		if (puts) {
			shmem_long_put(there, here, length, neighbour);
			shmem_quiet();
		} else {
			shmem_long_get(here, there, length, neighbour);
		}
		times[i] = now() - began;
	}
	qsort(times, (size_t)rounds, sizeof(times[0]), by_size);
	return times[rounds / 2];
}

int main(void)
{
	double small = 0, large = 0;
	long *there, *here = malloc(NUMBERS * sizeof(long));
	int me, all, before;

	shmem_init();
	me = shmem_my_pe();
	all = shmem_n_pes();
	before = (me + all - 1) % all;
	there = shmem_malloc(NUMBERS * sizeof(long));
	for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
		sync_words[i] = SHMEM_SYNC_VALUE;
	mine = me + 1;
	shmem_barrier_all();

	for (long i = 0; i < NUMBERS; i++)
		here[i] = me * 1000000 + i;
	shmem_long_put(there, here, NUMBERS, (me + 1) % all);
	for (int i = 0; i < ROUNDS; i++)
		shmem_long_atomic_add(&counter, me + 1, 0);
	shmem_long_sum_to_all(&sum, &mine, 1, 0, 0, all, work, sync_words);
	shmem_barrier_all();

	for (long i = 0; i < NUMBERS; i++)
		require(there[i] == before * 1000000 + i, "what was put");
	require(sum == (long)all * (all + 1) / 2, "the sum");
	require(me != 0 || counter == ROUNDS * (long)all * (all + 1) / 2, "what was added");
	shmem_long_get(here, there, NUMBERS, (me + 1) % all);
	for (long i = 0; i < NUMBERS; i++)
		require(here[i] == me * 1000000 + i, "what was got");
	shmem_barrier_all();
	if (me == 0) {
		small = pace(there, here, 1, 0);
		large = pace(there, here, NUMBERS, 1);
	}
	shmem_barrier_all();
	if (me == 0)
		printf("%d ranks: all right. 8 B: %.2f us. 1 MiB: %.1f MB/s\n", all, small * 1e6, NUMBERS * sizeof(long) / large / 1e6);
	shmem_finalize();
	free(here);
	return 0;
}
