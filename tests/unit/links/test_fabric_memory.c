/* SPDX-License-Identifier: MIT
 *
 * The cable of memory of the link of InfiniBand: when it is offered, that it is used once it was taken, and when it ends. The test is the
 * fabric.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/descriptor.h"
#include "io/event.h"
#include "io/memory_cable.h"
#include "io/unix_socket.h"
#include "links/fabric/fabric_link.h"
#include "wire/cable.h"

enum { KEY = 77, GENERATION = 3, SLOT = 9 };

static struct vb_schedule schedule;
static struct vb_fabric_link ours;
static struct vb_frame_page page;
static struct vb_cable_slot answer;
static int listener, line, pipe_ends[2];
static struct vb_frame_ring_segment *segment;
static struct vb_frame_ring_writer writer;
static struct vb_frame_ring_reader reader;

static int begin(void **state)
{
	pid_t own = getpid();

	(void)state;
	memset(&ours, 0, sizeof(ours));
	schedule = (struct vb_schedule){.slot = SLOT, .event_fd = vb_event_open()};
	vb_lock_init(&schedule.progress, VB_RANK_PROGRESS);
	assert_int_equal(pipe(pipe_ends), 0);
	page = (struct vb_frame_page){.key = KEY, .generation = GENERATION};
	ours.link.schedule = ours.schedule = &schedule;
	ours.link.members = 1;
	ours.fd = pipe_ends[0];
	ours.udp = pipe_ends[1];
	ours.page = &page;
	vb_fabric_memory_init(&ours.memory);
	memset(&answer, 0, sizeof(answer));
	memcpy(answer.gid + 4, &own, sizeof(own));
	answer.slot_key = be32_of(KEY);
	answer.generation = be32_of(GENERATION);
	listener = vb_memory_cable_listen(answer.gid);
	assert_true(listener >= 0);
	line = -1;
	segment = NULL;
	return 0;
}

static void hang_up(void)
{
	if (line >= 0)
		vb_descriptor_close(line);
	line = -1;
	vb_page_unmap(segment, sizeof(*segment));
	segment = NULL;
}

static int end(void **state)
{
	(void)state;
	hang_up();
	if (ours.memory.line >= 0)
		vb_descriptor_close(ours.memory.line);
	vb_fabric_memory_fini(&ours.memory);
	vb_memory_cable_hide(answer.gid);
	vb_descriptor_close(listener);
	vb_descriptor_close(schedule.event_fd);
	vb_descriptor_close(pipe_ends[0]);
	vb_descriptor_close(pipe_ends[1]);
	return 0;
}

static void offer(void)
{
	vb_lock_take(&schedule.progress);
	vb_fabric_memory_offer(&ours, &answer);
	vb_lock_release(&schedule.progress);
}

static void listen_to_it(void)
{
	vb_lock_take(&schedule.progress);
	vb_fabric_memory_listen(&ours);
	vb_lock_release(&schedule.progress);
}

/* As the fabric does. False: nothing was offered. */
static bool take_it(void)
{
	struct vb_cable_plug plug;
	unsigned count;
	int memory;

	line = vb_unix_accept(listener);
	if (line < 0)
		return false;
	assert_true(vb_memory_cable_is_ours(line));
	assert_int_equal(vb_unix_receive(line, &plug, sizeof(plug), &memory, 1, &count, 0), sizeof(plug));
	assert_int_equal(count, 1);
	assert_int_equal(be16_get(plug.slot), SLOT);
	assert_int_equal(be32_get(plug.slot_key), page.key);
	segment = vb_page_map(memory, sizeof(*segment), true);
	vb_descriptor_close(memory);
	assert_non_null(segment);
	vb_frame_ring_open(segment, 1, &writer, &reader);
	vb_memory_cable_ring(line);
	return true;
}

static bool send_bytes(const char *text)
{
	struct iovec part = {(void *)(uintptr_t)text, strlen(text)};

	return vb_fabric_memory_send(&ours, &part, 1, part.iov_len);
}

static void plug(void)
{
	offer();
	assert_true(take_it());
	listen_to_it();
	assert_true(vb_fabric_memory_is_there(&ours));
}

static void it_is_used_once_it_was_taken(void **state)
{
	struct vb_frame_ring_record record;
	bool rang;

	(void)state;
	offer();
	assert_false(vb_fabric_memory_is_there(&ours));
	assert_false(send_bytes("early"));
	assert_true(take_it());
	listen_to_it();
	assert_true(vb_fabric_memory_is_there(&ours));
	assert_true(send_bytes("hello"));
	assert_true(vb_memory_cable_heard(line, &rang) && rang);
	assert_int_equal(vb_frame_ring_look(&reader, &record), VB_FRAME_RING_HAS_RECORD);
	assert_memory_equal(record.bytes, "hello", 5);
	assert_false(vb_fabric_memory_has_work(&ours.link));
	memcpy(vb_frame_ring_reserve(&writer, 5), "world", 5);
	assert_true(vb_frame_ring_publish(&writer, 5, 5));
	assert_true(vb_fabric_memory_has_work(&ours.link));
	assert_true(vb_fabric_memory_look(&ours, &record));
	assert_memory_equal(record.bytes, "world", 5);
	vb_fabric_memory_done(&ours, &record);
	assert_false(vb_fabric_memory_look(&ours, &record));
}

/* Where the fabric does not listen, or not for us: once, and then not again for that generation. */
static void it_is_offered_once(void **state)
{
	(void)state;
	offer();
	assert_true(take_it());
	hang_up();
	/* That it was taken; that the other end is gone. */
	listen_to_it();
	listen_to_it();
	assert_int_equal(ours.memory.state, VB_FABRIC_MEMORY_NONE);
	offer();
	assert_false(take_it());
	page.generation++;
	answer.generation = be32_of(page.generation);
	plug();
}

static void a_fabric_that_dies(void **state)
{
	(void)state;
	plug();
	hang_up();
	listen_to_it();
	assert_false(vb_fabric_memory_is_there(&ours));
	assert_false(send_bytes("late"));
}

/* Another generation, or another verbenad with another key and the same number: what was plugged is of no use at once, and another is. */
static void the_slot_is_another(void **state)
{
	(void)state;
	plug();
	page.key++;
	assert_false(vb_fabric_memory_is_there(&ours));
	hang_up();
	answer.slot_key = be32_of(page.key);
	plug();
	page.generation++;
	assert_false(vb_fabric_memory_is_there(&ours));
	listen_to_it();
	assert_int_equal(ours.memory.state, VB_FABRIC_MEMORY_NONE);
}

/* Nothing is received without verbenad, so nothing keeps the engine thread from sleeping. */
static void without_verbenad_no_thread_looks(void **state)
{
	(void)state;
	plug();
	vb_fabric_memory_spun(&ours.link);
	memcpy(vb_frame_ring_reserve(&writer, 5), "world", 5);
	assert_false(vb_frame_ring_publish(&writer, 5, 5));
	assert_int_equal(vb_fabric_memory_rest(&ours.link, VB_TIME_NEVER), 0);
	ours.is_closed = true;
	assert_false(vb_fabric_memory_has_work(&ours.link));
	assert_true(vb_fabric_memory_rest(&ours.link, VB_TIME_NEVER) == VB_TIME_NEVER);
}

static void a_full_cable_is_waited_for_once(void **state)
{
	static uint8_t bytes[50000];
	struct iovec part = {bytes, sizeof(bytes)};
	struct vb_frame_ring_record record;
	unsigned sent = 0;

	(void)state;
	plug();
	while (vb_fabric_memory_send(&ours, &part, 1, 1000))
		sent++;
	assert_in_range(sent, 5, VB_FRAME_RING / sizeof(bytes));
	assert_true(ours.memory.is_stuck);
	assert_false(vb_fabric_memory_send(&ours, &part, 1, 1000));
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(vb_frame_ring_look(&reader, &record), VB_FRAME_RING_HAS_RECORD);
		assert_int_equal(record.segment, 1000);
		vb_frame_ring_done(&reader, &record);
	}
	assert_true(vb_fabric_memory_send(&ours, &part, 1, 1000));
	assert_false(ours.memory.is_stuck);
}

static void nonsense_ends_it(void **state)
{
	struct vb_frame_ring_record record;

	(void)state;
	plug();
	memcpy(segment->ring[1], &(uint64_t[]){1, UINT64_MAX}, 16);
	assert_false(vb_fabric_memory_look(&ours, &record));
	assert_int_equal(ours.memory.state, VB_FABRIC_MEMORY_NONE);
	assert_false(send_bytes("more"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_is_used_once_it_was_taken, begin, end),
		cmocka_unit_test_setup_teardown(it_is_offered_once, begin, end),
		cmocka_unit_test_setup_teardown(a_fabric_that_dies, begin, end),
		cmocka_unit_test_setup_teardown(the_slot_is_another, begin, end),
		cmocka_unit_test_setup_teardown(without_verbenad_no_thread_looks, begin, end),
		cmocka_unit_test_setup_teardown(a_full_cable_is_waited_for_once, begin, end),
		cmocka_unit_test_setup_teardown(nonsense_ends_it, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
