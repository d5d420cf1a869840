/* SPDX-License-Identifier: MIT
 *
 * Memory that one process writes and others read, copies between processes, and who is still there: against a child that is really
 * another process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/descriptor.h"
#include "io/process.h"
#include "io/process_memory.h"
#include "io/shared_memory.h"

enum { SIZE = 64 << 20, MANY = 3000 };

static void only_the_owner_writes(void **state)
{
	const uint8_t *seen;
	void *memory;
	int fd;

	(void)state;
	assert_int_equal(vb_shared_memory_create("test", SIZE, &fd, &memory), 0);
	memset((uint8_t *)memory + SIZE - 4096, 7, 4096);
	seen = vb_shared_memory_map(fd, SIZE);
	assert_non_null(seen);
	assert_int_equal(seen[SIZE - 1], 7);
	assert_int_equal(seen[0], 0);
	/* Nobody else gets a mapping to write through, nor writes, nor cuts. */
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(mprotect((void *)(uintptr_t)seen, 4096, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(fd, 4096), -1);
	/* And ours still does. */
	*(uint8_t *)memory = 9;
	assert_int_equal(seen[0], 9);
	vb_shared_memory_unmap(seen, SIZE);
	vb_shared_memory_unmap(memory, SIZE);
	vb_descriptor_close(fd);
}

static void others_of_another_size_or_kind_are_not_mapped(void **state)
{
	int page = vb_page_create("test", 8192), plain = memfd_create("test", MFD_CLOEXEC), fd;
	void *memory;

	(void)state;
	assert_true(page >= 0 && plain >= 0);
	assert_int_equal(ftruncate(plain, 8192), 0);
	assert_null(vb_shared_memory_map(page, 8192));
	assert_null(vb_shared_memory_map(plain, 8192));
	assert_int_equal(vb_shared_memory_create("test", 8192, &fd, &memory), 0);
	assert_null(vb_shared_memory_map(fd, 4096));
	assert_null(vb_shared_memory_map(fd, 16384));
	vb_shared_memory_unmap(memory, 8192);
	vb_descriptor_close(fd);
	vb_descriptor_close(page);
	vb_descriptor_close(plain);
}

/* What a child does to the memory after fork is its own affair. */
static void a_child_abandons_it(void **state)
{
	uint8_t *memory;
	int fd, status;
	pid_t child;

	(void)state;
	assert_int_equal(vb_shared_memory_create("test", SIZE, &fd, (void **)&memory), 0);
	memory[5] = 5;
	child = fork();
	if (child == 0) {
		vb_shared_memory_abandon(memory, SIZE, fd);
		close(fd);
		if (memory[5] != 5)
			_exit(1);
		memory[5] = 6;
		_exit(memory[5] == 6 ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(memory[5], 5);
	vb_shared_memory_unmap(memory, SIZE);
	vb_descriptor_close(fd);
}

/* A process with the memory that this one had when it was made, until it is killed. */
static pid_t make_child(bool dumpable)
{
	int ready[2];
	pid_t child;
	char byte;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!dumpable)
			prctl(PR_SET_DUMPABLE, 0);
		if (write(ready[1], "!", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return child;
}

static void end_child(pid_t child)
{
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* More spans than one call takes, of unlike lengths, some of them empty. */
static void spans_are_copied_to_the_last_byte(void **state)
{
	static uint8_t theirs[MANY * 40], ours[MANY * 40], back[MANY * 40];
	static struct iovec here[MANY], there[MANY];
	size_t here_bytes = 0, there_bytes = 0, all;
	pid_t child = make_child(true);

	(void)state;
	for (size_t i = 0; i < sizeof(ours); i++)
		ours[i] = (uint8_t)(i * 31 + i / 256);
	for (unsigned i = 0; i < MANY; i++) {
		here[i] = (struct iovec){ours + here_bytes, i * 7 % 37};
		there[i] = (struct iovec){theirs + there_bytes, i * 11 % 29};
		here_bytes += here[i].iov_len;
		there_bytes += there[i].iov_len;
	}
	all = here_bytes < there_bytes ? here_bytes : there_bytes;
	assert_int_equal(vb_process_memory_write_to(child, here, MANY, there, MANY), 0);
	assert_int_equal(vb_process_memory_read_from(child, &(struct iovec){back, sizeof(back)}, 1,
						     &(struct iovec){theirs, sizeof(theirs)}, 1), 0);
	assert_memory_equal(back, ours, all);
	assert_int_equal(back[all], 0);
	assert_int_equal(theirs[0], 0);
	end_child(child);
}

static void what_is_not_there_is_a_fault(void **state)
{
	uint8_t *pages = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), ours[5 * 4096];
	pid_t child;
	int watch;

	(void)state;
	assert_int_equal(munmap(pages + 4 * 4096, 4096), 0);
	child = make_child(true);
	watch = vb_process_watch(child);
	assert_true(watch >= 0);
	memset(ours, 1, sizeof(ours));
	assert_int_equal(vb_process_memory_write_to(child, &(struct iovec){ours, sizeof(ours)}, 1,
						    &(struct iovec){pages, sizeof(ours)}, 1), -EFAULT);
	assert_int_equal(vb_process_memory_read_from(child, &(struct iovec){ours, 8}, 1,
						     &(struct iovec){pages + 4 * 4096 + 8, 8}, 1), -EFAULT);
	assert_false(vb_process_has_ended(watch));
	end_child(child);
	assert_true(vb_process_has_ended(watch));
	assert_int_equal(vb_process_memory_read_from(child, &(struct iovec){ours, 8}, 1, &(struct iovec){pages, 8}, 1), -ESRCH);
	assert_true(vb_process_watch(child) < 0);
	vb_descriptor_close(watch);
	munmap(pages, 8 * 4096);
}

/* Root may reach everybody. */
static void a_process_may_refuse(void **state)
{
	uint8_t ours[8];
	pid_t child;

	(void)state;
	if (geteuid() == 0) {
		child = fork();
		if (child == 0) {
			if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0)
				_exit(2);
			/* Losing rights made us undumpable, which is what is not wanted of the one who reads. */
			prctl(PR_SET_DUMPABLE, 1);
			pid_t grandchild = make_child(false);
			int error = vb_process_memory_read_from(grandchild, &(struct iovec){ours, 8}, 1, &(struct iovec){ours, 8}, 1);

			kill(grandchild, SIGKILL);
			_exit(error == -EPERM ? 0 : 1);
		}
		int status;

		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		return;
	}
	child = make_child(false);
	assert_int_equal(vb_process_memory_read_from(child, &(struct iovec){ours, 8}, 1, &(struct iovec){ours, 8}, 1), -EPERM);
	end_child(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_owner_writes),
		cmocka_unit_test(others_of_another_size_or_kind_are_not_mapped),
		cmocka_unit_test(a_child_abandons_it),
		cmocka_unit_test(spans_are_copied_to_the_last_byte),
		cmocka_unit_test(what_is_not_there_is_a_fault),
		cmocka_unit_test(a_process_may_refuse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
