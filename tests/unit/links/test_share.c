/* SPDX-License-Identifier: MIT
 *
 * Memory shared with a peer: a forked child plays the peer and maps something, the test finds it (or not) by the
 * child's number and address alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "local/segment.h"
#include "links/memory/share.h"

enum { PAGES = 16, SLOT = 7, QPN = SLOT << 14 | 1234, TABLE = 2, PATIENCE = 30 };

static size_t page;
static uint64_t copying[VB_SEGMENT_COPIES];
static struct vb_local_share share;

/* ---- the peer ---- */

static struct {
	pid_t pid;
	int line;
	uint8_t *memory;                   /* where it is there */
} peer;

/* What the child does: asked for 0 first, it returns the address of what it mapped; later commands are the test's own. */
typedef uint8_t *(*script)(char command, uint8_t *memory);

static void play(script act, int line)
{
	uint8_t *memory = act(0, NULL);
	char command;

	while (write(line, &memory, sizeof(memory)) == sizeof(memory) && read(line, &command, 1) == 1)
		memory = act(command, memory);
	_exit(0);
}

static void start_peer(script act)
{
	int line[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0);
	peer.pid = fork();
	assert_true(peer.pid >= 0);
	if (peer.pid == 0) {
		close(line[0]);
		play(act, line[1]);
	}
	close(line[1]);
	peer.line = line[0];
	assert_int_equal(setsockopt(peer.line, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = PATIENCE},
				    sizeof(struct timeval)), 0);
	assert_int_equal(read(peer.line, &peer.memory, sizeof(peer.memory)), sizeof(peer.memory));
	assert_non_null(peer.memory);
	vb_local_share_init(&share, peer.pid, SLOT, copying);
}

static void tell(char command)
{
	assert_int_equal(write(peer.line, &command, 1), 1);
	assert_int_equal(read(peer.line, &peer.memory, sizeof(peer.memory)), sizeof(peer.memory));
}

static void end_peer(void)
{
	close(peer.line);
	assert_int_equal(waitpid(peer.pid, NULL, 0), peer.pid);
}

static int setup(void **state)
{
	(void)state;
	page = (size_t)sysconf(_SC_PAGESIZE);
	memset(copying, 0, sizeof(copying));
	return 0;
}

static void finish(void)
{
	vb_local_share_fini(&share);
	end_peer();
}

/* ---- asking ---- */

static void *find_once(uint32_t key, uint64_t generation, size_t offset, size_t length)
{
	return vb_local_share_find(&share, TABLE, key, generation, (uintptr_t)peer.memory, PAGES * page,
				   (uintptr_t)peer.memory + offset, length);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* As often as it takes until it is worth a look, however slow this machine is. */
static void *find(uint32_t key, uint64_t generation, size_t offset, size_t length)
{
	double limit = now() + PATIENCE;
	uint8_t *found;

	do
		found = find_once(key, generation, offset, length);
	while (found == NULL && now() < limit);
	return found;
}

/* So often that a look was worth it long ago, and then again. */
static void find_nothing(uint32_t key, uint64_t generation)
{
	for (unsigned i = 0; i < 20000; i++)
		assert_null(find_once(key, generation, 0, PAGES * page));
}

static bool is_mapped(void *address)
{
	unsigned char resident;

	return mincore((void *)((uintptr_t)address & ~(page - 1)), page, &resident) == 0;
}

/* ---- memfds ---- */

static uint8_t *map_memfd(int seals, int rights, bool keep)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint8_t *memory;

	if (fd < 0 || ftruncate(fd, (off_t)(PAGES * page)) != 0 || (seals != 0 && fcntl(fd, F_ADD_SEALS, seals) != 0))
		return NULL;
	memory = mmap(NULL, PAGES * page, rights, MAP_SHARED, fd, 0);
	if (!keep)
		close(fd);
	return memory == MAP_FAILED ? NULL : memory;
}

static uint8_t *sealed_memfd(char command, uint8_t *memory)
{
	if (command == 0)
		return map_memfd(F_SEAL_SHRINK | F_SEAL_GROW, PROT_READ | PROT_WRITE, true);
	memory[1] = (uint8_t)(memory[0] + 1);
	return memory;
}

static void finds_a_memfd(void **state)
{
	uint8_t *ours;

	(void)state;
	start_peer(sealed_memfd);
	assert_null(find_once(5, 1, 0, 8));        /* one access is not worth a look */
	ours = find(5, 1, 0, 8);
	assert_non_null(ours);
	ours[0] = 41;
	tell('+');
	assert_int_equal(ours[1], 42);
	/* Every part, and nothing outside. */
	assert_ptr_equal(find_once(5, 1, 3 * page + 5, 8), ours + 3 * page + 5);
	assert_ptr_equal(find_once(5, 1, 0, PAGES * page), ours);
	assert_null(find_once(5, 1, PAGES * page - 4, 8));
	assert_null(find_once(5, 1, -8, 8));
	/* Another registration is another question. */
	assert_null(find_once(6, 1, 0, 8));
	assert_null(find_once(5, 2, 0, 8));
	finish();
	assert_false(is_mapped(ours));
}

static uint8_t *unaligned_part(char command, uint8_t *memory)
{
	return command == 0 ? sealed_memfd(0, NULL) + 100 : memory;
}

static void finds_a_region_inside_a_file(void **state)
{
	uint8_t *ours = NULL;

	(void)state;
	start_peer(unaligned_part);
	for (double limit = now() + PATIENCE; ours == NULL && now() < limit;)
		ours = vb_local_share_find(&share, TABLE, 1, 1, (uintptr_t)peer.memory + 2 * page, 300,
					   (uintptr_t)peer.memory + 2 * page + 8, 8);
	assert_non_null(ours);
	assert_int_equal((uintptr_t)ours % page, 108);
	finish();
}

static uint8_t *private_memory(char command, uint8_t *memory)
{
	return command == 0 ? calloc(PAGES, page) : memory;
}

static uint8_t *closed_memfd(char command, uint8_t *memory)
{
	return command == 0 ? map_memfd(0, PROT_READ | PROT_WRITE, false) : memory;
}

static uint8_t *readable_memfd(char command, uint8_t *memory)
{
	return command == 0 ? map_memfd(0, PROT_READ, true) : memory;
}

/* The last page is something else. */
static uint8_t *partly_private(char command, uint8_t *memory)
{
	if (command != 0)
		return memory;
	memory = sealed_memfd(0, NULL);
	return mmap(memory + (PAGES - 1) * page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
			       MAP_FAILED ? NULL : memory;
}

static uint8_t *with_a_gap(char command, uint8_t *memory)
{
	if (command != 0)
		return memory;
	memory = sealed_memfd(0, NULL);
	return munmap(memory + 3 * page, page) != 0 ? NULL : memory;
}

/* Two pages of the file change places: one mapping there would be two here. */
static uint8_t *out_of_order(char command, uint8_t *memory)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	if (command != 0)
		return memory;
	if (ftruncate(fd, (off_t)(PAGES * page)) != 0)
		return NULL;
	memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mmap(memory + page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)(2 * page));
	mmap(memory + 2 * page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)page);
	return memory;
}

static uint8_t *file_on_a_disk(char command, uint8_t *memory)
{
	char name[] = "local_share.XXXXXX";
	int fd;

	if (command != 0)
		return memory;
	fd = mkstemp(name);
	unlink(name);
	if (fd < 0 || ftruncate(fd, (off_t)(PAGES * page)) != 0)
		return NULL;
	return mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static void leaves_alone_what_is_not_shared(void **state)
{
	static const script scripts[] = {private_memory, closed_memfd, readable_memfd, partly_private, with_a_gap, out_of_order};

	(void)state;
	for (unsigned i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		start_peer(scripts[i]);
		find_nothing(1, 1);
		finish();
	}
}

static void leaves_files_on_disks_alone(void **state)
{
	char directory[] = "/var/tmp/local_share.XXXXXX";
	struct statfs system;

	(void)state;
	if (mkdtemp(directory) == NULL || chdir(directory) != 0 || statfs(".", &system) != 0)
		skip();
	if (system.f_type == TMPFS_MAGIC) {
		rmdir(directory);
		skip();
	}
	start_peer(file_on_a_disk);
	find_nothing(1, 1);
	finish();
	assert_int_equal(chdir("/"), 0);
	rmdir(directory);
}

/* Rights that were changed and changed back leave their traces in the list of mappings. */
static uint8_t *split_memfd(char command, uint8_t *memory)
{
	if (command != 0)
		return sealed_memfd(command, memory);
	memory = sealed_memfd(0, NULL);
	return madvise(memory + 4 * page, 4 * page, MADV_DONTFORK) != 0 ? NULL : memory;
}

static void joins_what_belongs_together(void **state)
{
	uint8_t *ours;

	(void)state;
	start_peer(split_memfd);
	ours = find(1, 1, 0, PAGES * page);
	assert_non_null(ours);
	ours[0] = 1;
	tell('+');
	assert_int_equal(ours[1], 2);
	finish();
}

/* ---- files with a name ---- */

static char shm_name[64];

static uint8_t *shm_file(char command, uint8_t *memory)
{
	int fd;

	if (command == 'f') {
		for (unsigned i = 0; i < PAGES; i++)
			memory[i * page] = 1;
		return memory;
	}
	if (command != 0)
		return sealed_memfd(command, memory);
	fd = shm_open(shm_name, O_RDWR, 0);
	memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return memory == MAP_FAILED ? NULL : memory;
}

static void finds_a_file_by_its_name_once_it_is_filled(void **state)
{
	uint8_t *ours;
	int fd;

	(void)state;
	snprintf(shm_name, sizeof(shm_name), "/verbena-test-%ld", (long)getpid());
	fd = shm_open(shm_name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		skip();
	assert_int_equal(ftruncate(fd, (off_t)(PAGES * page)), 0);
	close(fd);
	start_peer(shm_file);
	/* Filling a hole might fail, and then it would be us who get the signal. */
	find_nothing(1, 1);
	tell('f');
	ours = find(1, 1, 0, PAGES * page);
	assert_non_null(ours);
	assert_int_equal(ours[page], 1);
	tell('+');
	assert_int_equal(ours[1], 2);
	finish();
	shm_unlink(shm_name);
}

/* ---- coming and going ---- */

/* Another file at the same address, as an application gets it that unmaps and maps again. */
static uint8_t *changing(char command, uint8_t *memory)
{
	if (command == 'c') {
		int fd = memfd_create("other", MFD_CLOEXEC);

		return ftruncate(fd, (off_t)(PAGES * page)) != 0 || mmap(memory, PAGES * page, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ? NULL : memory;
	}
	return sealed_memfd(command, memory);
}

static void a_new_life_is_looked_at_anew(void **state)
{
	uint8_t *first, *second;

	(void)state;
	start_peer(changing);
	first = find(1, 1, 0, 8);
	assert_non_null(first);
	tell('c');
	second = find(1, 2, 0, 8);
	assert_non_null(second);
	assert_true(first != second);
	second[0] = 9;
	tell('+');
	assert_int_equal(second[1], 10);
	finish();
}

static uint64_t lives_until;

/* Who was told that all of a region is mapped may use all of it without asking again. */
static void a_registration_that_changes_its_length_is_not_shared(void **state)
{
	(void)state;
	start_peer(sealed_memfd);
	assert_non_null(find(1, 1, 0, 8));
	for (unsigned i = 0; i < 100; i++) {
		assert_null(vb_local_share_find(&share, TABLE, 1, 1, (uintptr_t)peer.memory, PAGES * page + 1, (uintptr_t)peer.memory, 8));
		assert_null(vb_local_share_find(&share, TABLE, 1, 1, (uintptr_t)peer.memory - 1, PAGES * page, (uintptr_t)peer.memory, 8));
	}
	assert_non_null(find_once(1, 1, 0, 8));
	finish();
}

static bool lives(void *context, uint32_t table, uint32_t key, uint64_t generation)
{
	assert_ptr_equal(context, &lives_until);
	assert_int_equal(table, TABLE);
	assert_int_equal(key, 1);
	return generation < lives_until;
}

static void goes_when_it_is_dead_and_nobody_copies(void **state)
{
	uint8_t *ours;

	(void)state;
	start_peer(sealed_memfd);
	share.lives = lives;
	share.context = &lives_until;
	lives_until = 2;
	copying[9] = vb_segment_copy_word(QPN, TABLE, 1);
	ours = find(1, 1, 0, 8);
	assert_non_null(ours);
	vb_local_share_sweep(&share);
	assert_ptr_equal(find_once(1, 1, 0, 8), ours);
	lives_until = 1;
	vb_local_share_sweep(&share);
	assert_true(is_mapped(ours));
	assert_int_equal(share.given_up, 1);
	ours[0] = 1;
	assert_null(find_once(1, 1, 0, 8));
	copying[9] = vb_segment_copy_word(QPN, TABLE, 2);
	vb_local_share_sweep(&share);
	assert_false(is_mapped(ours));
	finish();
}

static unsigned mapped_files(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned count = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL)
		count += strstr(line, "memfd:test") != NULL;
	fclose(file);
	return count;
}

static void a_full_cache_lets_go_of_the_old(void **state)
{
	(void)state;
	start_peer(sealed_memfd);
	for (uint32_t key = 1; key < 1000; key++) {
		uint8_t *ours = find(key, 1, 0, PAGES * page);

		assert_non_null(ours);
		ours[0] = 1;
	}
	assert_in_range(mapped_files(), 100, 300);
	finish();
	assert_int_equal(mapped_files(), 0);
}

static void a_dead_peer_shares_nothing(void **state)
{
	(void)state;
	start_peer(sealed_memfd);
	end_peer();
	find_nothing(1, 1);
	vb_local_share_fini(&share);
}

static void our_own_memory_is_where_it_is(void **state)
{
	char bytes[8];

	(void)state;
	vb_local_share_init(&share, getpid(), SLOT, copying);
	assert_ptr_equal(vb_local_share_find(&share, 0, 1, 1, (uintptr_t)bytes, 8, (uintptr_t)bytes + 1, 4), bytes + 1);
	vb_local_share_fini(&share);
}

/* ---- threads ---- */

struct worker {
	pthread_t thread;
	unsigned number;
	uint64_t found;
};

/* More keys than the cache holds, so that each thread's finds make others' mappings go. */
static void *work(void *argument)
{
	struct worker *worker = argument;
	unsigned seed = worker->number;

	for (unsigned i = 0; i < 20000; i++) {
		uint32_t key = (uint32_t)rand_r(&seed) % 600;
		uint8_t *ours;

		__atomic_store_n(&copying[worker->number], vb_segment_copy_word(QPN, TABLE, key), __ATOMIC_SEQ_CST);
		/* Heavy, so that each look is worth it. */
		ours = vb_local_share_find(&share, TABLE, key, 1, (uintptr_t)peer.memory, PAGES * page,
					   (uintptr_t)peer.memory, PAGES * page);
		if (ours != NULL) {
			__atomic_fetch_add((uint64_t *)ours, 1, __ATOMIC_RELAXED);
			worker->found++;
		}
		__atomic_store_n(&copying[worker->number], 0, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void threads_do_not_pull_it_from_under_each_other(void **state)
{
	struct worker workers[4] = {0};
	uint64_t found = 0, *ours;

	(void)state;
	start_peer(sealed_memfd);
	for (unsigned i = 0; i < 4; i++) {
		workers[i].number = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(workers[i].thread, NULL);
		found += workers[i].found;
	}
	ours = find(10000, 1, 0, 8);
	assert_non_null(ours);
	assert_int_equal(*ours, found);
	assert_true(found > 0);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(finds_a_memfd, setup),
		cmocka_unit_test_setup(finds_a_region_inside_a_file, setup),
		cmocka_unit_test_setup(leaves_alone_what_is_not_shared, setup),
		cmocka_unit_test_setup(leaves_files_on_disks_alone, setup),
		cmocka_unit_test_setup(joins_what_belongs_together, setup),
		cmocka_unit_test_setup(finds_a_file_by_its_name_once_it_is_filled, setup),
		cmocka_unit_test_setup(a_new_life_is_looked_at_anew, setup),
		cmocka_unit_test_setup(a_registration_that_changes_its_length_is_not_shared, setup),
		cmocka_unit_test_setup(goes_when_it_is_dead_and_nobody_copies, setup),
		cmocka_unit_test_setup(a_full_cache_lets_go_of_the_old, setup),
		cmocka_unit_test_setup(a_dead_peer_shares_nothing, setup),
		cmocka_unit_test_setup(our_own_memory_is_where_it_is, setup),
		cmocka_unit_test_setup(threads_do_not_pull_it_from_under_each_other, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
