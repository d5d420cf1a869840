/* SPDX-License-Identifier: MIT
 *
 * Is memory there? Small ranges by bringing them in, large ones by looking at the mappings.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "io/memory_check.h"

static bool kernel_is_old;                 /* it tells of mappings by their list alone */

/* In place of the C library's. */
int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (kernel_is_old) {
		errno = ENOTTY;
		return -1;
	}
	return (int)syscall(SYS_ioctl, fd, request, argument);
}

/* The same with the kernel's answer and without. */
static void holes_and_rights(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t sizes[] = {8 * page, 1u << 20, 2u << 20, 64u << 20};  /* below and above what is brought in */

	kernel_is_old = *state != NULL;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t length = sizes[i], middle = length / 2 & ~(page - 1);
		char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		uint64_t start = (uintptr_t)memory;

		assert_true(memory != MAP_FAILED);
		assert_int_equal(vb_memory_range_check(start, length, true), 0);
		assert_int_equal(vb_memory_range_check(start + 1, length - 2, true), 0);
		assert_int_equal(mprotect(memory + middle, page, PROT_READ), 0);
		assert_int_equal(vb_memory_range_check(start, length, false), 0);
		assert_int_equal(vb_memory_range_check(start, length, true), -EFAULT);
		assert_int_equal(vb_memory_range_check(start, middle, true), 0);
		assert_int_equal(mprotect(memory + middle, page, PROT_NONE), 0);
		assert_int_equal(vb_memory_range_check(start, length, false), -EFAULT);
		assert_int_equal(munmap(memory + middle, page), 0);
		assert_int_equal(vb_memory_range_check(start, length, false), -EFAULT);
		assert_int_equal(vb_memory_range_check(start, middle + 1, false), -EFAULT);
		assert_int_equal(vb_memory_range_prefetch(start, middle + 1, false), -EFAULT);
		assert_int_equal(vb_memory_range_prefetch(start, page, true), 0);
		munmap(memory, middle);
		munmap(memory + middle + page, length - middle - page);
	}
	assert_int_equal(vb_memory_range_check(0, 100, false), -EFAULT);
	assert_int_equal(vb_memory_range_check(UINT64_MAX - 100, 50, false), -EFAULT);
}

int main(void)
{
	static bool old = true;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holes_and_rights),
		cmocka_unit_test_prestate(holes_and_rights, &old),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
