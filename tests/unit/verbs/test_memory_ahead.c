/* SPDX-License-Identifier: MIT
 *
 * A program registers its memory piece by piece, upwards: the pages behind are brought in before it asks for them, as far as
 * they are memory of its own.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "io/memory_ahead.h"
#include "io/memory_check.h"
#include "io/memory_run.h"
#include "lib/patience.h"

#define MIB (1ull << 20)
enum { WHOLE = 96, PIECES = 16 };          /* MiB mapped, and registered */

/* ---- in place of the C library's ---- */

static _Atomic unsigned questions;         /* how often the kernel was asked for a mapping */
static char *_Atomic moved;                /* 32 MiB that go away when it has told, for this file, or nothing */
static _Atomic int moved_to = -1;
static _Atomic uint64_t lowest, highest;   /* no page is brought in here */
static _Atomic bool trespassed;
static _Atomic bool time_is_up;            /* the thread waited for long enough */

static void take_away(void)
{
	char *memory = moved;

	if (!memory)
		return;
	munmap(memory, 32 * MIB);
	if (moved_to >= 0)
		(void)!mmap(memory, 32 * MIB, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, moved_to, 0);
	moved = NULL;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;
	int result;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	result = (int)syscall(SYS_ioctl, fd, request, argument);
	take_away();
	questions++;
	return result;
}

int madvise(void *start, size_t length, int advice)
{
	if ((uintptr_t)start < highest && lowest < (uintptr_t)start + length)
		trespassed = true;
	return (int)syscall(SYS_madvise, start, length, advice);
}

/* No time passes until it is up. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
	(void)until;
	return time_is_up ? ETIMEDOUT : pthread_cond_wait(condition, mutex);
}

/* ---- tools ---- */

/* Whole huge pages, none of them there. */
static char *reserve(void)
{
	char *memory = mmap(NULL, (WHOLE + 2) * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(memory != MAP_FAILED);
	return (char *)(((uintptr_t)memory + 2 * MIB - 1) & ~(uintptr_t)(2 * MIB - 1));
}

static void use(char *memory, unsigned first, unsigned count)
{
	vb_memory_ahead_registered((uintptr_t)memory + first * MIB, (uintptr_t)memory + (first + count) * MIB);
}

static bool is_there(const char *memory, unsigned from, unsigned to)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	static unsigned char there[WHOLE * MIB / 4096];
	size_t length = (to - from) * MIB;

	assert_int_equal(mincore((void *)(uintptr_t)(memory + from * MIB), length, there), 0);
	for (size_t i = 0; i < length / page; i++)
		if (!(there[i] & 1))
			return false;
	return true;
}

static bool kernel_tells(void)
{
	FILE *file = fopen("/proc/sys/kernel/osrelease", "r");
	int major = 0, minor = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%d.%d", &major, &minor), 2);
	fclose(file);
	return major > 6 || (major == 6 && minor >= 11);
}

/* The thread has done what it was asked for before. */
static void show_that_it_works(void)
{
	char *memory = reserve();

	use(memory, 0, PIECES);
	assert_true(eventually(is_there(memory, PIECES, PIECES + 4)));
	munmap(memory, WHOLE * MIB);
}

/* ---- runs ---- */

static uint64_t brought(struct vb_memory_run *run)
{
	uint64_t from, to, all = 0;

	while (vb_memory_run_next(run, &from, &to)) {
		assert_true(from < to && to % (2 * MIB) == 0 && from >= run->end);
		all += to - from;
	}
	return all;
}

static void a_quarter_and_no_more(void **state)
{
	struct vb_memory_run run = {.start = 0};
	uint64_t start = 4096 * MIB, all = 0;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		uint64_t end = start + (i + 1) * MIB, most = (i + 1) * MIB / 4;

		vb_memory_run_add(&run, end - MIB, end);
		all += brought(&run);
		assert_true(run.ahead <= end + (most < 8 * MIB ? most : 8 * MIB));
		if (i == 3)
			assert_int_equal(all, 0);
		if (i == 7)
			assert_int_equal(run.ahead, end + 2 * MIB);
		if (i % 2 == 1 && i >= 31)
			assert_int_equal(run.ahead, end + 8 * MIB);
		vb_memory_run_add(&run, 4096, 8192);           /* small ones are not looked at */
	}
}

/* A part of it is registered no more, or something else. */
static void a_run_that_is_given_up(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		const uint64_t start[] = {99 * MIB, 100 * MIB, 103 * MIB, 131 * MIB, 98 * MIB, 132 * MIB};
		struct vb_memory_run run = {.start = 0};

		vb_memory_run_add(&run, 100 * MIB, 132 * MIB);
		vb_memory_run_forget(&run, start[i], i == 0 ? 2 * MIB : MIB);
		assert_int_equal(brought(&run), i < 4 ? 0 : 8 * MIB);
		vb_memory_run_add(&run, 132 * MIB, 136 * MIB);
		assert_int_equal(brought(&run), i < 4 ? 0 : 4 * MIB);
	}
}

static void no_run(void **state)
{
	struct vb_memory_run run = {.start = 0};

	(void)state;
	for (unsigned i = 100; i > 0; i--) {                   /* downwards */
		vb_memory_run_add(&run, i * MIB, (i + 1) * MIB);
		assert_int_equal(brought(&run), 0);
	}
	for (unsigned i = 0; i < 100; i++) {                   /* with gaps */
		vb_memory_run_add(&run, 2 * i * MIB, (2 * i + 1) * MIB);
		assert_int_equal(brought(&run), 0);
	}
	for (unsigned i = 0; i < 100; i++)                     /* at the end of all addresses */
		vb_memory_run_add(&run, -(100 - i) * MIB, i == 99 ? UINT64_MAX : -(99 - i) * MIB);
	assert_int_equal(brought(&run), 0);
}

/* ---- the thread ---- */

static void pages_come_ahead(void **state)
{
	char *memory = reserve();

	(void)state;
	use(memory, 0, PIECES);
	assert_true(eventually(is_there(memory, PIECES, PIECES + 4)));
	use(memory, PIECES, 2);
	assert_false(is_there(memory, PIECES + 8, PIECES + 9));
	use(memory, PIECES + 2, 16);
	assert_true(eventually(is_there(memory, PIECES + 18, PIECES + 18 + 8)));
	assert_false(is_there(memory, PIECES + 18 + 8, PIECES + 18 + 9));
	munmap(memory, WHOLE * MIB);
}

/* The thread that brings pages in; 0: there is none. */
static int find_thread(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int found = 0;

	assert_non_null(tasks);
	for (struct dirent *entry = readdir(tasks); entry; entry = readdir(tasks)) {
		char path[300], name[20] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fscanf(file, "%19s", name) == 1 && strcmp(name, "verbena-ahead") == 0)
			found = atoi(entry->d_name);
		fclose(file);
	}
	closedir(tasks);
	return found;
}

/* Chunk after chunk is brought in by one thread, which goes when no more come. */
static void the_thread_stays_for_a_while(void **state)
{
	char *memory = reserve();
	int thread;

	(void)state;
	use(memory, 0, PIECES);
	assert_true(eventually(is_there(memory, PIECES, PIECES + 4)));
	thread = find_thread();
	assert_int_not_equal(thread, 0);
	for (unsigned i = PIECES; i < 2 * PIECES; i += 2) {
		use(memory, i, 2);
		assert_true(eventually(is_there(memory, i + 2, i + 6)));
		assert_int_equal(find_thread(), thread);
	}
	time_is_up = true;
	use(memory, 2 * PIECES, 2);
	assert_true(eventually(find_thread() == 0));
	time_is_up = false;
	use(memory, 2 * PIECES + 2, 2);
	assert_true(eventually(is_there(memory, 2 * PIECES + 4, 2 * PIECES + 12)));
	munmap(memory, WHOLE * MIB);
}

/* As ibv_reg_mr asks for it: writable pieces of up to a megabyte count, others are not brought in either. */
static void of_what_is_checked(void **state)
{
	const struct { size_t size; bool writable, comes; } kinds[] = {{MIB, false, false}, {2 * MIB, true, false}, {MIB, true, true}};

	(void)state;
	for (unsigned kind = 0; kind < 3; kind++) {
		char *memory = reserve();
		unsigned before = questions;

		for (size_t at = 0; at < PIECES * MIB; at += kinds[kind].size)
			assert_int_equal(vb_memory_range_check((uintptr_t)memory + at, kinds[kind].size, kinds[kind].writable), 0);
		if (kinds[kind].comes)
			assert_true(eventually(is_there(memory, PIECES, PIECES + 4)));
		else
			assert_int_equal(questions - before, kinds[kind].writable ? PIECES / 2 : 0);   /* the check's own */
		munmap(memory, WHOLE * MIB);
	}
}

/* Behind the run there is something else: a file that is shared, a file's copy, read-only memory, nothing. */
static void only_memory_of_its_own(void **state)
{
	int file = memfd_create("behind", 0);

	(void)state;
	assert_int_equal(ftruncate(file, 8 * MIB), 0);
	for (unsigned kind = 0; kind < 4; kind++) {
		char *memory = reserve(), *behind = memory + PIECES * MIB;
		unsigned before = questions;

		assert_int_equal(munmap(behind, (WHOLE - PIECES) * MIB), 0);
		if (kind < 3)
			assert_true(mmap(behind, 8 * MIB, kind == 2 ? PROT_READ : PROT_READ | PROT_WRITE,
					 MAP_FIXED | (kind == 0 ? MAP_SHARED : MAP_PRIVATE) | (kind == 2 ? MAP_ANONYMOUS : 0),
					 kind == 2 ? -1 : file, 0) == behind);
		lowest = (uintptr_t)behind;
		highest = lowest + 8 * MIB;
		use(memory, 0, PIECES);
		assert_true(eventually(questions == before + 2));
		show_that_it_works();
		assert_false(trespassed);
		lowest = highest = 0;
		munmap(memory, WHOLE * MIB);
	}
	close(file);
}

/* All of a run in a file's mapping. */
static void files_are_left_alone(void **state)
{
	int file = memfd_create("all", 0);
	unsigned before = questions;
	struct stat status;
	char *memory;

	(void)state;
	assert_int_equal(ftruncate(file, WHOLE * MIB), 0);
	memory = mmap(NULL, WHOLE * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	assert_true(memory != MAP_FAILED);
	use(memory, 0, PIECES);
	assert_true(eventually(questions == before + 2));
	show_that_it_works();
	assert_int_equal(fstat(file, &status), 0);
	assert_int_equal(status.st_blocks, 0);
	munmap(memory, WHOLE * MIB);
	close(file);
}

/* The program puts a file there, or nothing, when the thread has looked. */
static void mappings_that_change(void **state)
{
	int file = memfd_create("instead", 0);
	static char text[] = "as it was", found[sizeof(text)];

	(void)state;
	assert_int_equal(ftruncate(file, 32 * MIB), 0);
	assert_int_equal(pwrite(file, text, sizeof(text), 2 * MIB), sizeof(text));
	for (unsigned kind = 0; kind < 2; kind++) {
		char *memory = reserve();
		unsigned before = questions;

		moved_to = kind == 0 ? -1 : file;
		moved = memory + PIECES * MIB;
		use(memory, 0, PIECES);
		assert_true(eventually(questions == before + 2));
		show_that_it_works();
		munmap(memory, WHOLE * MIB);
	}
	assert_int_equal(pread(file, found, sizeof(found), 2 * MIB), sizeof(found));
	assert_string_equal(found, text);
	close(file);
}

#ifndef __SANITIZE_THREAD__                /* which has no threads after a fork among threads */
static void a_forked_child_has_a_thread_of_its_own(void **state)
{
	char *memory = reserve();
	int status = 0;
	pid_t child;

	(void)state;
	show_that_it_works();
	child = fork();
	if (child == 0) {
		use(memory, 0, PIECES);
		_exit(eventually(is_there(memory, PIECES, PIECES + 4)) ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_false(is_there(memory, PIECES, PIECES + 1));
	munmap(memory, WHOLE * MIB);
}
#endif

int main(void)
{
	const struct CMUnitTest runs[] = {
		cmocka_unit_test(a_quarter_and_no_more),
		cmocka_unit_test(a_run_that_is_given_up),
		cmocka_unit_test(no_run),
	};
	const struct CMUnitTest threads[] = {
		cmocka_unit_test(pages_come_ahead),
		cmocka_unit_test(the_thread_stays_for_a_while),
		cmocka_unit_test(of_what_is_checked),
		cmocka_unit_test(only_memory_of_its_own),
		cmocka_unit_test(files_are_left_alone),
		cmocka_unit_test(mappings_that_change),
#ifndef __SANITIZE_THREAD__
		cmocka_unit_test(a_forked_child_has_a_thread_of_its_own),
#endif
	};
	int failed = cmocka_run_group_tests(runs, NULL, NULL);

	return failed != 0 || !kernel_tells() ? failed : cmocka_run_group_tests(threads, NULL, NULL);
}
