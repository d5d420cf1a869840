/* SPDX-License-Identifier: MIT
 *
 * Peers write while the owner deregisters: once deregister has returned no store may land any more. The owner frees
 * and poisons the memory at once, so a late store is a use after free to ASan, a race to TSan, and a wrong byte to
 * us. Also: a reader that sees the last bytes of a placement sees all of it.
 */
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"
#include "lib/patience.h"

enum { WRITERS = 2, ROUNDS = 60, SIZE = 512, PATIENCE = 30 };

struct shared {
	struct vb_memory *memory;
	struct vb_pd pd;
	uint64_t region;                 /* atomic: key of the region now, 0: none */
	uint32_t stop;                   /* atomic */
	bool got_in;                     /* atomic: a writer did */
};

static void *write_away(void *argument)
{
	struct shared *s = argument;
	uint8_t from[SIZE];
	bool placed = false;

	memset(from, 0x5a, sizeof(from));
	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		uint32_t key = (uint32_t)__atomic_load_n(&s->region, __ATOMIC_ACQUIRE);
		struct vb_accessor who = fixture_remote(&s->pd, 1, key, IBV_ACCESS_REMOTE_ATOMIC);
		struct vb_fault_record why;
		uint64_t original;

		placed |= vb_memory_atomic(s->memory, &who, VB_ATOMIC_FETCH_ADD, 0x1000, 1, 0, &original, &why);
		/* The writers' bytes are the same and their ranges apart from the counter: only freeing races with
		 * them. */
		who.rights = IBV_ACCESS_REMOTE_READ;
		placed |= vb_memory_fetch(s->memory, &who, 0x1008, from, SIZE - 8, &why);
		if (placed && !__atomic_load_n(&s->got_in, __ATOMIC_RELAXED))
			__atomic_store_n(&s->got_in, true, __ATOMIC_RELAXED);
	}
	return NULL;
}

static unsigned barriers, refusals;        /* atomic: how often it was had; how often it is refused yet */

static bool impose(void)
{
	if (__atomic_load_n(&refusals, __ATOMIC_RELAXED) > 0) {
		__atomic_fetch_sub(&refusals, 1, __ATOMIC_RELAXED);
		return false;
	}
	__atomic_fetch_add(&barriers, 1, __ATOMIC_RELAXED);
	return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static bool can_impose(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* A region comes, writers may get in, and it goes. */
static void play_round(struct shared *s, unsigned round)
{
	uint8_t *bytes = calloc(1, SIZE);
	struct vb_region_info info = {
		.kind = VB_REGION_MR, .pd = &s->pd, .start = (uintptr_t)bytes, .length = SIZE, .iova = 0x1000,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ,
	};
	uint32_t key;

	assert_non_null(bytes);
	assert_int_equal(vb_region_register(s->memory, &info, &key), 0);
	__atomic_store_n(&s->region, key, __ATOMIC_RELEASE);
	/* Let somebody in, where the scheduler lets us; rounds without anybody inside are cheap. */
	for (unsigned spin = 0; spin < 200 && __atomic_load_n((uint64_t *)(void *)bytes, __ATOMIC_RELAXED) == 0; spin++)
		sched_yield();
	if (round % 3 == 0) {
		info.length = SIZE - 8;
		assert_int_equal(vb_region_reregister(s->memory, key, &info), 0);
	}
	assert_int_equal(vb_region_deregister(s->memory, key), 0);
	memset(bytes, 0xee, SIZE);
	sched_yield();
	for (unsigned i = 0; i < SIZE; i++)
		assert_int_equal(bytes[i], 0xee);
	free(bytes);
}

static bool got_in(const struct shared *s)
{
	return __atomic_load_n(&s->got_in, __ATOMIC_RELAXED);
}

static void deregister_beside_writers(bool (*barrier)(void))
{
	struct fixture f = {.seed = 71};
	const struct vb_memory_host host = {.random = fixture_random, .checked_read = fixture_read, .checked_write = fixture_write,
					    .context = &f, .barrier = barrier};
	struct shared s = {.memory = vb_memory_create(&host, 4)};
	pthread_t writers[WRITERS];
	bool anybody;

	assert_non_null(s.memory);
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writers[i], NULL, write_away, &s), 0);
	for (unsigned round = 0; round < ROUNDS; round++)
		play_round(&s, round);
	/* On a busy machine the writers may not have run yet. */
	anybody = eventually(got_in(&s) || (play_round(&s, 0), got_in(&s)));
	__atomic_store_n(&s.stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	assert_true(anybody);
	vb_memory_destroy(s.memory);
}

static void deregister_waits_for_those_inside(void **state)
{
	(void)state;
	deregister_beside_writers(NULL);
	if (can_impose())
		deregister_beside_writers(impose);
}

/* Where accesses leave without a release each wait ends with a barrier, which is asked for again where it is refused; but not for ever. */
static void barriers_make_up_for_releases(void **state)
{
	struct fixture f = {.seed = 76};
	const struct vb_memory_host host = {.random = fixture_random, .checked_read = fixture_read, .checked_write = fixture_write,
					    .context = &f, .barrier = impose};
	struct vb_memory *memory;
	struct vb_pd pd = {0};
	uint8_t bytes[64];
	bool light;

	(void)state;
	if (!can_impose())
		skip();
	barriers = refusals = 0;
	memory = vb_memory_create(&host, 4);
	assert_non_null(memory);
	/* Asked for once, to see whether it is to be had; or not at all, where a release costs nothing. */
	light = barriers == 1;
	for (unsigned i = 0; i < 3; i++) {
		static const unsigned refused[] = {0, 5, UINT32_MAX};
		uint32_t key = fixture_register(memory, &pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);

		barriers = 0;
		refusals = refused[i];
		assert_int_equal(vb_region_deregister(memory, key), 0);
		assert_int_equal(barriers, light && i < 2 ? 1 : 0);
		assert_int_equal(refusals == refused[i], i == 0 || !light);
	}
	vb_memory_destroy(memory);
	/* Refused from the beginning. */
	refusals = 1;
	memory = vb_memory_create(&host, 4);
	barriers = 0;
	assert_int_equal(vb_region_deregister(memory, fixture_register(memory, &pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE)), 0);
	assert_int_equal(barriers, 0);
	refusals = 0;
	vb_memory_destroy(memory);
}

struct stream {
	struct vb_memory *memory;
	struct vb_pd pd;
	uint32_t key;
	_Alignas(8) uint8_t bytes[72];
};

enum { MESSAGES = 1000 };

static void *place_messages(void *argument)
{
	struct stream *s = argument;
	struct vb_accessor who = fixture_remote(&s->pd, 1, s->key, IBV_ACCESS_REMOTE_WRITE);
	struct vb_fault_record why;
	uint64_t message[9];

	for (uint64_t i = 1; i <= MESSAGES; i++) {
		for (unsigned word = 0; word < 9; word++)
			message[word] = i;
		/* Wait until the reader has seen the last one: it clears the tail. */
		while (__atomic_load_n((uint64_t *)(void *)(s->bytes + 64), __ATOMIC_ACQUIRE) != 0)
			sched_yield();
		if (!vb_memory_place(s->memory, &who, (uintptr_t)s->bytes, message, sizeof(message), &why))
			return (void *)1;
	}
	return NULL;
}

static void the_tail_becomes_visible_last(void **state)
{
	struct fixture f;
	struct stream s = {.memory = fixture_memory(&f, 72, 4)};
	pthread_t writer;
	void *failed;

	(void)state;
	s.key = fixture_register(s.memory, &s.pd, s.bytes, sizeof(s.bytes),
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(pthread_create(&writer, NULL, place_messages, &s), 0);
	for (uint64_t i = 1; i <= MESSAGES; i++) {
		uint64_t tail, first;

		while ((tail = __atomic_load_n((uint64_t *)(void *)(s.bytes + 64), __ATOMIC_ACQUIRE)) == 0)
			sched_yield();
		assert_int_equal(tail, i);
		memcpy(&first, s.bytes, 8);
		assert_int_equal(first, i);
		memcpy(&first, s.bytes + 56, 8);
		assert_int_equal(first, i);
		__atomic_store_n((uint64_t *)(void *)(s.bytes + 64), 0, __ATOMIC_RELEASE);
	}
	pthread_join(writer, &failed);
	assert_null(failed);
	vb_memory_destroy(s.memory);
}

/* Windows come and go under their users as well. */
static void invalidate_waits_for_those_inside(void **state)
{
	struct fixture f;
	struct shared s = {.memory = fixture_memory(&f, 73, 8)};
	pthread_t writers[WRITERS];
	_Alignas(8) uint8_t bytes[SIZE] = {0};
	uint32_t region = fixture_register(s.memory, &s.pd, bytes, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct vb_fault_record why;
	uint32_t window;

	(void)state;
	assert_int_equal(vb_window_allocate(s.memory, VB_REGION_MW_TYPE_2, &s.pd, &window), 0);
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writers[i], NULL, write_away, &s), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct vb_window_bind bind = {
			.window_key = window, .new_key = (window & ~0xffu) | (round & 0xff), .region_lkey = region,
			.address = (uintptr_t)bytes, .length = SIZE, .qpn = 1, .pd = &s.pd,
			.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		};

		assert_true(vb_window_bind(s.memory, &bind, &why));
		__atomic_store_n(&s.region, bind.new_key, __ATOMIC_RELEASE);
		sched_yield();
		assert_true(vb_memory_invalidate(s.memory, bind.new_key, &s.pd, 1, true, &why));
		memset(bytes, 0, SIZE);
	}
	__atomic_store_n(&s.stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	assert_int_equal(vb_region_deregister(s.memory, region), 0);
	vb_memory_destroy(s.memory);
}

/* One that is inside when the window is invalidated by a peer leaves without a release, as of regions. */
static bool is_inside, may_leave;          /* atomic */

static int read_for_long(void *context, void *to, uint64_t from, size_t length)
{
	__atomic_store_n(&is_inside, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&may_leave, __ATOMIC_ACQUIRE))
		sched_yield();
	return fixture_read(context, to, from, length);
}

struct invalidation {
	struct vb_memory *memory;
	struct vb_pd pd;
	struct vb_window_bind bind;
};

static void *read_through_window(void *argument)
{
	struct invalidation *s = argument;
	struct vb_accessor who = fixture_remote(&s->pd, 1, s->bind.new_key, IBV_ACCESS_REMOTE_READ);
	struct vb_fault_record why;
	uint64_t read;

	return vb_memory_fetch(s->memory, &who, s->bind.address, &read, sizeof(read), &why) ? NULL : s;
}

static void *invalidate(void *argument)
{
	struct invalidation *s = argument;
	struct vb_fault_record why;

	return vb_memory_invalidate(s->memory, s->bind.new_key, &s->pd, 1, true, &why) == VB_WINDOW_DONE ? NULL : s;
}

static void barriers_make_up_for_releases_of_windows(void **state)
{
	struct fixture f = {.seed = 79};
	const struct vb_memory_host host = {.random = fixture_random, .checked_read = read_for_long, .checked_write = fixture_write,
					    .context = &f, .barrier = impose};
	_Alignas(8) uint8_t bytes[64] = {0};
	struct invalidation s = {
		.bind = {.address = (uintptr_t)bytes, .length = sizeof(bytes), .access = IBV_ACCESS_REMOTE_READ, .qpn = 1},
	};
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &s.pd, .start = (uintptr_t)bytes, .length = sizeof(bytes),
				      .iova = (uintptr_t)bytes, .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, .checked = true};
	struct vb_accessor who;
	struct vb_fault_record why;
	pthread_t reader, going;
	void *failed;
	bool light;

	(void)state;
	if (!can_impose())
		skip();
	barriers = refusals = 0;
	s.memory = vb_memory_create(&host, 8);
	assert_non_null(s.memory);
	light = barriers == 1;
	assert_int_equal(vb_region_register(s.memory, &info, &s.bind.region_lkey), 0);
	assert_int_equal(vb_window_allocate(s.memory, VB_REGION_MW_TYPE_2, &s.pd, &s.bind.window_key), 0);
	s.bind.new_key = s.bind.window_key ^ 1;
	s.bind.pd = &s.pd;
	assert_int_equal(vb_window_bind(s.memory, &s.bind, &why), VB_WINDOW_DONE);
	assert_int_equal(pthread_create(&reader, NULL, read_through_window, &s), 0);
	while (!__atomic_load_n(&is_inside, __ATOMIC_ACQUIRE))
		sched_yield();
	assert_int_equal(pthread_create(&going, NULL, invalidate, &s), 0);
	who = fixture_remote(&s.pd, 1, s.bind.new_key, IBV_ACCESS_REMOTE_WRITE);
	/* Until it is withdrawn, and has been looked at under the mutex, which this takes too. */
	while (vb_memory_check(s.memory, &who, s.bind.address, 1, &why) || why.fault != VB_FAULT_KEY_INVALIDATED)
		sched_yield();
	(void)fixture_register(s.memory, &s.pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	barriers = 0;
	__atomic_store_n(&may_leave, true, __ATOMIC_RELEASE);
	pthread_join(going, &failed);
	assert_null(failed);
	assert_int_equal(barriers, light ? 1 : 0);
	pthread_join(reader, &failed);
	assert_null(failed);
	vb_memory_destroy(s.memory);
}

/* ---- a deregistration that has to wait keeps nobody else waiting ---- */

struct scene {
	struct vb_memory *memory;
	struct vb_pd pd;
	uint32_t region, window;         /* what waits */
	uint32_t bindable;               /* a region that has nothing to do with it */
	uint8_t bytes[SIZE];
};

static void *deregister(void *argument)
{
	struct scene *s = argument;

	return vb_region_deregister(s->memory, s->region) == 0 ? NULL : s;
}

/* Everything that changes the table. */
static void *change_everything_else(void *argument)
{
	struct scene *s = argument;
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &s->pd, .start = (uintptr_t)s->bytes, .length = SIZE,
				      .iova = (uintptr_t)s->bytes, .access = IBV_ACCESS_LOCAL_WRITE};
	struct vb_window_bind bind = {.region_lkey = s->bindable, .address = (uintptr_t)s->bytes, .length = 8, .qpn = 1,
				      .pd = &s->pd, .access = IBV_ACCESS_REMOTE_READ};
	struct vb_fault_record why;
	uint32_t key, window;

	if (vb_region_register(s->memory, &info, &key) != 0 || vb_region_reregister(s->memory, key, &info) != 0 ||
	    vb_region_deregister(s->memory, key) != 0 ||
	    vb_window_allocate(s->memory, VB_REGION_MW_TYPE_2, &s->pd, &window) != 0)
		return s;
	bind.window_key = window;
	bind.new_key = window ^ 1;
	if (!vb_window_bind(s->memory, &bind, &why) || !vb_memory_invalidate(s->memory, bind.new_key, &s->pd, 1, true, &why))
		return s;
	bind.window_key = bind.new_key;
	bind.new_key ^= 2;
	if (!vb_window_bind(s->memory, &bind, &why))
		return s;
	vb_memory_unbind_qp(s->memory, 1);
	return vb_window_deallocate(s->memory, window) == 0 ? NULL : s;
}

static void open_scene(struct scene *s, struct vb_memory *memory)
{
	*s = (struct scene){.memory = memory};
	s->region = fixture_register(memory, &s->pd, s->bytes, SIZE, IBV_ACCESS_LOCAL_WRITE);
	s->bindable = fixture_register(memory, &s->pd, s->bytes, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
}

static void await_withdrawal(struct scene *s, uint32_t key)
{
	struct vb_accessor who = fixture_local(&s->pd, key, 0);
	struct vb_fault_record why;

	while (vb_memory_check(s->memory, &who, (uintptr_t)s->bytes, 1, &why))
		sched_yield();
}

static bool ends_in_time(pthread_t thread, void **result)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += PATIENCE;
	return pthread_timedjoin_np(thread, result, &limit) == 0;
}

/* A batch that holds a region meets a SEND_WITH_INV while another thread deregisters that region: neither may wait for the other. */
static void a_held_region_delays_only_its_deregistration(void **state)
{
	struct fixture f;
	struct vb_accessor who;
	struct vb_hold hold = {.entry = NULL};
	pthread_t going, other;
	void *failed = NULL;
	struct scene s;
	bool in_time;

	(void)state;
	open_scene(&s, fixture_memory(&f, 74, 8));
	who = fixture_local(&s.pd, s.region, 0);
	assert_true(vb_memory_hold(s.memory, &who, (uintptr_t)s.bytes, SIZE, &hold));
	assert_int_equal(pthread_create(&going, NULL, deregister, &s), 0);
	await_withdrawal(&s, s.region);
	assert_int_equal(pthread_create(&other, NULL, change_everything_else, &s), 0);
	in_time = ends_in_time(other, &failed);
	assert_int_equal(pthread_tryjoin_np(going, NULL), EBUSY);
	vb_memory_let_go(&hold);
	if (!in_time)
		pthread_join(other, &failed);
	assert_true(in_time);
	assert_null(failed);
	pthread_join(going, &failed);
	assert_null(failed);
	vb_memory_destroy(s.memory);
}

/* Where the bytes of a list are is told for as long as they are held: an application that deregisters (and then unmaps)
 * them under a posted send waits for the packet that is being made of them. */
static void spans_are_held(void **state)
{
	struct fixture f;
	struct iovec spans[2];
	struct vb_hold holds[2];
	struct vb_fault_record why;
	struct ibv_sge list[2];
	pthread_t going;
	void *failed = NULL;
	struct scene s;
	bool held = true;

	(void)state;
	open_scene(&s, fixture_memory(&f, 78, 8));
	list[0] = (struct ibv_sge){(uintptr_t)s.bytes, 8, s.bindable};
	list[1] = (struct ibv_sge){(uintptr_t)s.bytes + 8, 8, s.region};
	assert_int_equal(vb_memory_gather_spans(s.memory, &s.pd, 1, list, 2, 0, 16, spans, holds, 2, &why), 2);
	assert_int_equal(pthread_create(&going, NULL, deregister, &s), 0);
	await_withdrawal(&s, s.region);
	/* Time enough for it to go, if it could. */
	for (unsigned i = 0; i < 100 && held; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		held = pthread_tryjoin_np(going, &failed) == EBUSY;
	}
	vb_memory_let_go_all(holds, 2);
	assert_true(held);
	pthread_join(going, &failed);
	assert_null(failed);
	assert_int_equal(vb_memory_gather_spans(s.memory, &s.pd, 1, list, 2, 0, 16, spans, holds, 2, &why), -1);
	/* Nothing was kept of what was found before. */
	assert_int_equal(vb_region_deregister(s.memory, s.bindable), 0);
	vb_memory_destroy(s.memory);
}

/* ---- a peer that is stopped in the middle of a copy (in a debugger, say) delays what it copies by, and nothing else ---- */

static uint32_t copied_key;              /* atomic */

static bool is_copying(void *context, uint32_t key)
{
	(void)context;
	return __atomic_load_n(&copied_key, __ATOMIC_ACQUIRE) == key;
}

static void *deallocate(void *argument)
{
	struct scene *s = argument;

	return vb_window_deallocate(s->memory, s->window) == 0 ? NULL : s;
}

static void *unbind_qp(void *argument)
{
	struct scene *s = argument;

	vb_memory_unbind_qp(s->memory, 2);
	return NULL;
}

static void a_stopped_peer_delays_only_what_it_copies_by(void **state)
{
	void *(*const what[])(void *) = {deregister, deallocate, unbind_qp};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct fixture f = {.seed = 75 + i};
		struct vb_memory_host host = {fixture_random, fixture_read, fixture_write, &f, NULL, is_copying, NULL};
		struct vb_memory *memory = vb_memory_create(&host, 8);
		struct vb_window_bind bind;
		struct vb_fault_record why;
		pthread_t going, other;
		void *failed = NULL;
		struct scene s;
		bool in_time;

		assert_non_null(memory);
		open_scene(&s, memory);
		assert_int_equal(vb_window_allocate(memory, VB_REGION_MW_TYPE_2, &s.pd, &s.window), 0);
		bind = (struct vb_window_bind){s.window, s.window ^ 1, s.bindable, (uintptr_t)s.bytes, 8, IBV_ACCESS_REMOTE_READ, 2,
					       &s.pd};
		assert_int_equal(vb_window_bind(memory, &bind, &why), VB_WINDOW_DONE);
		__atomic_store_n(&copied_key, i == 0 ? s.region : bind.new_key, __ATOMIC_RELEASE);
		assert_int_equal(pthread_create(&going, NULL, what[i], &s), 0);
		if (i == 0) {
			await_withdrawal(&s, s.region);
		} else {
			struct vb_accessor who = fixture_remote(&s.pd, 2, bind.new_key, IBV_ACCESS_REMOTE_READ);

			while (vb_memory_check(memory, &who, (uintptr_t)s.bytes, 1, &why))
				sched_yield();
		}
		assert_int_equal(pthread_create(&other, NULL, change_everything_else, &s), 0);
		in_time = ends_in_time(other, &failed);
		assert_int_equal(pthread_tryjoin_np(going, NULL), EBUSY);
		__atomic_store_n(&copied_key, 0, __ATOMIC_RELEASE);
		if (!in_time)
			pthread_join(other, &failed);
		assert_true(in_time);
		assert_null(failed);
		pthread_join(going, &failed);
		assert_null(failed);
		vb_memory_destroy(memory);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deregister_waits_for_those_inside),
		cmocka_unit_test(barriers_make_up_for_releases),
		cmocka_unit_test(the_tail_becomes_visible_last),
		cmocka_unit_test(invalidate_waits_for_those_inside),
		cmocka_unit_test(barriers_make_up_for_releases_of_windows),
		cmocka_unit_test(a_held_region_delays_only_its_deregistration),
		cmocka_unit_test(spans_are_held),
		cmocka_unit_test(a_stopped_peer_delays_only_what_it_copies_by),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
