/* SPDX-License-Identifier: MIT
 *
 * memory_peers line [ROUNDS]             hand a cache line to and fro
 * memory_peers copy [ROUNDS]             hand eight bytes to and fro by process_vm_writev
 * memory_peers rate [ROUNDS]             write eight bytes by process_vm_writev, again and again
 * memory_peers writev|readv BYTES [VOLUME]    bandwidth of process_vm_writev, process_vm_readv
 * memory_peers memcpy BYTES [VOLUME]     bandwidth of memcpy into memory that both processes have
 *
 * What two processes of one host can do at best, without any protocol. The first two print the median of half a round trip in
 * nanoseconds, the third how long one takes, the others GB/s (10^9 bytes), after having moved VOLUME bytes (default 4 GiB) from
 * one buffer to another, the same again and again, as the programs do that these figures stand beside.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 100, LINE = 64, PARALLEL = 8 };

/* Both processes have this. */
static struct {
	volatile uint64_t turn __attribute__((aligned(LINE))); /* line: whose turn it is */
	volatile uint64_t ready __attribute__((aligned(LINE)));
	volatile uintptr_t child_buffer;
	uint8_t bytes[] __attribute__((aligned(4096)));
} *both;

static volatile uint64_t mailbox __attribute__((aligned(LINE))); /* each process has its own, at the same address */

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void give_up(const char *what)
{
	fprintf(stderr, "memory_peers: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint8_t *allocate(size_t length)
{
	void *memory;

	if (posix_memalign(&memory, (size_t)sysconf(_SC_PAGESIZE), length) != 0)
		give_up("memory");
	return memset(memory, 1, length);
}

/* ---- latency ---- */

static void wait_for(volatile uint64_t *word, uint64_t value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
		;
}

static void pass_line(pid_t other, uint64_t value)
{
	(void)other;
	__atomic_store_n(&both->turn, value, __ATOMIC_RELEASE);
}

static void pass_copy(pid_t other, uint64_t value)
{
	struct iovec ours = {&value, sizeof(value)}, theirs = {(void *)&mailbox, sizeof(value)};

	if (process_vm_writev(other, &ours, 1, &theirs, 1, 0) != sizeof(value))
		give_up("process_vm_writev");
}

static int compare(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static double ping(pid_t other, volatile uint64_t *word, void (*pass)(pid_t other, uint64_t value), unsigned batches)
{
	double *times = calloc(batches, sizeof(*times)), median;
	uint64_t value = 1;

	for (unsigned i = 0; i < batches; i++) {
		double began = now_seconds();

		for (unsigned j = 0; j < BATCH; j++, value += 2) {
			pass(other, value);
			wait_for(word, value + 1);
		}
		times[i] = (now_seconds() - began) / BATCH / 2 * 1e9;
	}
	qsort(times, batches, sizeof(*times), compare);
	median = times[batches / 2];
	free(times);
	return median;
}

static void pong(pid_t other, volatile uint64_t *word, void (*pass)(pid_t other, uint64_t value), unsigned batches)
{
	for (uint64_t value = 1; value < 2ull * batches * BATCH; value += 2) {
		wait_for(word, value);
		pass(other, value + 1);
	}
}

static double repeat_copy(pid_t other, unsigned batches)
{
	double began = now_seconds();

	for (uint64_t i = 0; i < (uint64_t)batches * BATCH; i++)
		pass_copy(other, i);
	return (now_seconds() - began) / batches / BATCH * 1e9;
}

/* ---- bandwidth ---- */

static void move(const char *how, pid_t other, uint8_t *buffer, size_t length)
{
	struct iovec ours = {buffer, length}, theirs = {(void *)both->child_buffer, length};
	ssize_t done = (ssize_t)length;

	if (strcmp(how, "memcpy") == 0)
		memcpy(both->bytes, buffer, length);
	else if (strcmp(how, "writev") == 0)
		done = process_vm_writev(other, &ours, 1, &theirs, 1, 0);
	else
		done = process_vm_readv(other, &ours, 1, &theirs, 1, 0);
	if (done != (ssize_t)length)
		give_up(how);
	/* So that nothing is left out. */
	__asm__ volatile("" ::: "memory");
}

static double bandwidth(const char *how, pid_t other, size_t length, uint64_t volume)
{
	uint8_t *buffer = allocate(length);
	uint64_t count = volume / length + 1;
	double began;

	for (unsigned i = 0; i < PARALLEL; i++)
		move(how, other, buffer, length);
	began = now_seconds();
	for (uint64_t i = 0; i < count; i++)
		move(how, other, buffer, length);
	return (double)(count * length) / (now_seconds() - began) / 1e9;
}

static void be_the_other(const char *how, size_t length, unsigned batches)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (length != 0)
		both->child_buffer = (uintptr_t)allocate(length);
	__atomic_store_n(&both->ready, 1, __ATOMIC_RELEASE);
	if (length != 0 || strcmp(how, "rate") == 0)
		pause();
	else if (strcmp(how, "line") == 0)
		pong(getppid(), &both->turn, pass_line, batches);
	else
		pong(getppid(), &mailbox, pass_copy, batches);
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	bool latency = strcmp(how, "line") == 0 || strcmp(how, "copy") == 0 || strcmp(how, "rate") == 0;
	size_t length = latency || argc < 3 ? 0 : strtoull(argv[2], NULL, 0);
	unsigned batches = latency && argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) / BATCH + 1 : 2000;
	uint64_t volume = argc > 3 ? strtoull(argv[3], NULL, 0) : 4ull << 30;
	pid_t child;

	if (!latency && (length == 0 || (strcmp(how, "writev") && strcmp(how, "readv") && strcmp(how, "memcpy")))) {
		fprintf(stderr, "usage: memory_peers line|copy|rate [ROUNDS]\n       memory_peers writev|readv|memcpy BYTES [VOLUME]\n");
		return 2;
	}
	both = mmap(NULL, sizeof(*both) + length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (both == MAP_FAILED)
		give_up("mmap");
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	child = fork();
	if (child < 0)
		give_up("fork");
	if (child == 0)
		be_the_other(how, length, batches);
	wait_for(&both->ready, 1);
	if (strcmp(how, "line") == 0)
		printf("%.1f\n", ping(child, &both->turn, pass_line, batches));
	else if (strcmp(how, "copy") == 0)
		printf("%.1f\n", ping(child, &mailbox, pass_copy, batches));
	else if (latency)
		printf("%.1f\n", repeat_copy(child, batches));
	else
		printf("%.2f\n", bandwidth(how, child, length, volume));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
