/* SPDX-License-Identifier: MIT
 *
 * mpi_check [quick | two-sided]: every byte that arrives is compared with what was sent; then the pace of a ping-pong.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 20, NUMBERS = 100000 };

static int rank, ranks;

static void require(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char pattern(int round, int from, size_t at)
{
	return (unsigned char)(round * 31 + from * 7 + (int)(at % 251));
}

static void fill(unsigned char *buffer, size_t size, int round, int from)
{
	for (size_t i = 0; i < size; i++)
		buffer[i] = pattern(round, from, i);
}

static void compare(const unsigned char *buffer, size_t size, int round, int from)
{
	for (size_t i = 0; i < size; i++)
		require(buffer[i] == pattern(round, from, i), "a byte of a message");
}

/* Eager and rendezvous: sizes on both sides of where libraries change their protocol. */
static void exchange(unsigned char *out, unsigned char *in)
{
	static const int sizes[] = {0, 1, 8, 1000, 8192, 65536, LARGEST - 1, LARGEST};

	for (int i = 0; i < (int)(sizeof(sizes) / sizeof(sizes[0])); i++) {
		fill(out, (size_t)sizes[i], i, rank);
		memset(in, 0, LARGEST);
		MPI_Sendrecv(out, sizes[i], MPI_BYTE, (rank + 1) % ranks, i, in, sizes[i], MPI_BYTE, (rank + ranks - 1) % ranks, i,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		compare(in, (size_t)sizes[i], i, (rank + ranks - 1) % ranks);
	}
}

static void collect(void)
{
	long *mine = malloc(NUMBERS * sizeof(long)), *sum = malloc(NUMBERS * sizeof(long));

	for (long i = 0; i < NUMBERS; i++)
		mine[i] = i * (rank + 1);
	MPI_Allreduce(mine, sum, NUMBERS, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	for (long i = 0; i < NUMBERS; i++)
		require(sum[i] == i * ranks * (ranks + 1) / 2, "a sum");
	for (long i = 0; i < ranks; i++)
		mine[i] = rank * 1000 + i;
	MPI_Alltoall(mine, 1, MPI_LONG, sum, 1, MPI_LONG, MPI_COMM_WORLD);
	for (long i = 0; i < ranks; i++)
		require(sum[i] == i * 1000 + rank, "an element of all-to-all");
	free(mine);
	free(sum);
}

/* One-sided: each writes into its neighbour's window. */
static void put(void)
{
	long *window, value = 4711 + rank;
	MPI_Win handle;

	MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window, &handle);
	*window = 0;
	MPI_Barrier(MPI_COMM_WORLD); /* a fence that ends nothing need not be one */
	MPI_Win_fence(0, handle);
	MPI_Put(&value, 1, MPI_LONG, (rank + 1) % ranks, 0, 1, MPI_LONG, handle);
	MPI_Win_fence(0, handle);
	require(*window == 4711 + (rank + ranks - 1) % ranks, "a put");
	MPI_Win_free(&handle);
}

static int by_size(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* Seconds one way: the median, since a machine that others use stops a round now and then for as long as thousands take. For `limit`
 * seconds or ROUNDS rounds; rank 0 says in the last message that it is the last. */
static double pingpong(unsigned char *buffer, int size, double limit)
{
	enum { ROUNDS = 20000 };
	static double times[ROUNDS];
	double began = MPI_Wtime(), now = began, next;
	int rounds = 0;

	buffer[0] = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	while (rank < 2 && buffer[0] == 0) {
		if (rank == 0) {
			buffer[0] = rounds + 1 == ROUNDS || now - began > limit;
			MPI_Send(buffer, size, MPI_BYTE, 1, 9, MPI_COMM_WORLD);
		}
		MPI_Recv(buffer, size, MPI_BYTE, 1 - rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(buffer, size, MPI_BYTE, 0, 9, MPI_COMM_WORLD);
		next = MPI_Wtime();
		times[rounds++] = next - now;
		now = next;
	}
	qsort(times, (size_t)rounds, sizeof(times[0]), by_size);
	return rounds == 0 ? 0 : times[rounds / 2] / 2;
}

int main(int argc, char **argv)
{
	unsigned char *out = malloc(LARGEST), *in = malloc(LARGEST);
	bool quick = argc > 1 && !strcmp(argv[1], "quick"), two_sided = argc > 1 && !strcmp(argv[1], "two-sided");
	double limit = quick ? 0.01 : 1.5;
	double small, large;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	exchange(out, in);
	collect();
	if (!two_sided)
		put();
	small = pingpong(out, 8, limit);
	large = pingpong(out, LARGEST, limit);
	if (rank == 0)
		printf("%d ranks: all right. 8 B: %.2f us. 1 MiB: %.1f MB/s\n", ranks, small * 1e6, LARGEST / large / 1e6);
	MPI_Finalize();
	free(out);
	free(in);
	return 0;
}
