/* SPDX-License-Identifier: MIT
 *
 * What becomes of an id when verbenad is replaced while its program is inside rdma_accept. The new verbenad is the test's, and says yes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/clock.h"
#include "io/daemon_client.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/unix_socket.h"
#include "rdmacm/adopt.h"
#include "rdmacm/channel.h"
#include "rdmacm/streams.h"

enum { OLD = 5, NEW = 77 };

static struct vb_cm_command said;

/* ---- in place of the system, verbenad and the rest of the library ---- */

vb_time vb_clock_now(void)
{
	return 0;
}

void vb_wait(struct vb_wait_item *items, unsigned count, vb_time deadline)
{
	(void)items;
	(void)count;
	(void)deadline;
}

bool vb_descriptor_error_passes(int error)
{
	(void)error;
	return false;
}

int vb_daemon_client_connect(struct vb_daemon_client *client, bool may_start)
{
	(void)client;
	(void)may_start;
	return -1;
}

int vb_unix_send(int fd, const void *bytes, size_t length, const int *fds, unsigned count, bool wait)
{
	(void)fd;
	(void)fds;
	(void)count;
	(void)wait;
	assert_int_equal(length, sizeof(said));
	memcpy(&said, bytes, length);
	return 0;
}

ssize_t vb_unix_receive(int fd, void *bytes, size_t room, int *fds, unsigned most, unsigned *count, vb_time deadline)
{
	const struct vb_cm_reply reply = {.type = VB_CM_REPLY, .serial = said.serial, .id = NEW};

	(void)fd;
	(void)fds;
	(void)most;
	(void)count;
	(void)deadline;
	assert_true(room >= sizeof(reply));
	memcpy(bytes, &reply, sizeof(reply));
	return sizeof(reply);
}

int vb_rdmacm_channel_tell(struct vb_rdmacm_id *id, enum rdma_cm_event_type type, int status)
{
	(void)id;
	(void)type;
	(void)status;
	fail_msg("the program is told something");
	return 0;
}

bool vb_rdmacm_id_is_stream(const struct vb_rdmacm_id *id)
{
	(void)id;
	return false;
}

bool vb_rdmacm_streams_serve_alone(const struct vb_rdmacm_id *id)
{
	(void)id;
	return false;
}

static void ask_again(struct vb_rdmacm_id *id)
{
	(void)id;
	fail_msg("it did not ask");
}

static int otherwise(const void *bytes, size_t length)
{
	(void)bytes;
	(void)length;
	return -1;
}

/* ---- */

static enum vb_rdmacm_state adopted_from(enum vb_rdmacm_state state, uint32_t calling)
{
	struct vb_rdmacm_registry registry = {0};
	struct vb_rdmacm_id id = {.handle = OLD, .calling = calling};

	vb_mutex_init(&id.lock, VB_RANK_CM_ID);
	vb_rdmacm_id_become(&id, state);
	assert_int_equal(vb_rdmacm_registry_insert(&registry, &id), 0);
	assert_int_equal(vb_rdmacm_adopt_all(0, &registry, ask_again, otherwise), 0);
	assert_int_equal(said.verb, VB_CM_CREATE);
	assert_int_equal(id.handle, NEW);
	vb_mutex_fini(&id.lock);
	free(registry.bucket);
	return vb_rdmacm_id_state(&id);
}

/* Its peer's REQ is forgotten: rdma_accept will fail. */
static void a_request_that_waits_is_lost(void **state)
{
	(void)state;
	assert_int_equal(adopted_from(VB_RDMACM_REQUESTED, 0), VB_RDMACM_FAILED);
}

/* The ACCEPT goes to the new verbenad, which knows of no request and refuses. rdma_accept does not wait for that: it is told to an id that
 * has accepted, and to no other (link.c), or else the program waits for ever. */
static void an_accept_under_way_will_hear_that_it_is_refused(void **state)
{
	(void)state;
	assert_int_equal(adopted_from(VB_RDMACM_ACCEPTED, VB_CM_ACCEPT), VB_RDMACM_ACCEPTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_that_waits_is_lost),
		cmocka_unit_test(an_accept_under_way_will_hear_that_it_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
