/* SPDX-License-Identifier: MIT
 *
 * shmem_check: puts, gets, atomics and a reduction of OpenSHMEM around a ring, compared.
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBERS = 100000, ROUNDS = 100 };

static long counter, sum, mine, work[SHMEM_REDUCE_MIN_WRKDATA_SIZE], sync_words[SHMEM_REDUCE_SYNC_SIZE];

static void require(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "rank %d: wrong: %s\n", shmem_my_pe(), what);
	shmem_global_exit(1);
}

int main(void)
{
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
	if (me == 0)
		printf("%d ranks: all right\n", all);
	shmem_finalize();
	free(here);
	return 0;
}
