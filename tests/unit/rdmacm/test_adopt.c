/* SPDX-License-Identifier: MIT
 *
 * What becomes of an id when verbenad is replaced while its program does something else: it is inside rdma_accept, or takes what the dead
 * verbenad has told. The new verbenad is the test's.
 */
#include <errno.h>
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
#include "rdmacm/device.h"
#include "rdmacm/streams.h"

enum { OLD = 5, NEW = 77, MOST_SAID = 8 };

static struct vb_cm_command said[MOST_SAID];
static unsigned count_said;
static int refusal;                      /* of an ADOPT */
static void (*meanwhile)(void);          /* called once, while the new verbenad is told of the id */
static struct vb_rdmacm_id *id_told;     /* the one that the program is told something of */
static struct {
	enum rdma_cm_event_type type;
	int status;
} told;

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
	void (*call)(void) = meanwhile;

	(void)fd;
	(void)fds;
	(void)count;
	(void)wait;
	assert_int_equal(length, sizeof(said[0]));
	assert_true(count_said < MOST_SAID);
	memcpy(&said[count_said++], bytes, length);
	meanwhile = NULL;
	if (call)
		call();
	return 0;
}

ssize_t vb_unix_receive(int fd, void *bytes, size_t room, int *fds, unsigned most, unsigned *count, vb_time deadline)
{
	const struct vb_cm_command *last = &said[count_said - 1];
	const struct vb_cm_reply reply = {
		.type = VB_CM_REPLY,
		.serial = last->serial,
		.id = NEW,
		.error = last->verb == VB_CM_ADOPT ? refusal : 0,
	};

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
	assert_null(id_told);
	id_told = id;
	told.type = type;
	told.status = status;
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

bool vb_rdmacm_speaks_frames(void)
{
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

static struct vb_rdmacm_id id;

static int set_up(void **state)
{
	(void)state;
	id = (struct vb_rdmacm_id){.handle = OLD};
	vb_mutex_init(&id.lock, VB_RANK_CM_ID);
	count_said = 0;
	refusal = 0;
	id_told = NULL;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(id.kept_command);
	vb_mutex_fini(&id.lock);
	return 0;
}

static void replace_daemon(void)
{
	struct vb_rdmacm_registry registry = {0};

	assert_int_equal(vb_rdmacm_registry_insert(&registry, &id), 0);
	assert_int_equal(vb_rdmacm_adopt_all(0, &registry, ask_again, otherwise), 0);
	assert_int_equal(id.handle, NEW);
	free(registry.bucket);
}

static enum vb_rdmacm_state made_anew_from(enum vb_rdmacm_state state, uint32_t calling)
{
	vb_rdmacm_id_become(&id, state);
	id.calling = calling;
	replace_daemon();
	assert_int_equal(count_said, 1);
	assert_int_equal(said[0].verb, VB_CM_CREATE);
	assert_null(id_told);
	return vb_rdmacm_id_state(&id);
}

/* Its peer's REQ is forgotten: rdma_accept will fail. */
static void a_request_that_waits_is_lost(void **state)
{
	(void)state;
	assert_int_equal(made_anew_from(VB_RDMACM_REQUESTED, 0), VB_RDMACM_FAILED);
}

/* The ACCEPT goes to the new verbenad, which knows of no request and refuses. rdma_accept does not wait for that: it is told to an id that
 * has accepted, and to no other (link.c), or else the program waits for ever. */
static void an_accept_under_way_will_hear_that_it_is_refused(void **state)
{
	(void)state;
	assert_int_equal(made_anew_from(VB_RDMACM_ACCEPTED, VB_CM_ACCEPT), VB_RDMACM_ACCEPTED);
}

/* Its peer could not tell it of its end, nor it the peer: the program hears that it is over. */
static void a_connection_that_is_not_taken_over_is_disconnected(void **state)
{
	(void)state;
	vb_rdmacm_id_become(&id, VB_RDMACM_CONNECTED);
	refusal = EADDRNOTAVAIL;
	replace_daemon();
	assert_int_equal(count_said, 2);
	assert_int_equal(said[0].verb, VB_CM_ADOPT);
	assert_int_equal(said[1].verb, VB_CM_CREATE);
	assert_ptr_equal(id_told, &id);
	assert_int_equal(told.type, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(told.status, -EADDRNOTAVAIL);
}

/* It has no connection that could be lost. */
static void an_id_for_datagrams_is_not_disconnected(void **state)
{
	(void)state;
	id.id.qp_type = IBV_QPT_UD;
	refusal = EINVAL;
	assert_int_equal(made_anew_from(VB_RDMACM_CONNECTED, 0), VB_RDMACM_CONNECTED);
}

static void take_answer(void)
{
	vb_rdmacm_id_become(&id, VB_RDMACM_RESPONDED);
}

/* It was told as one that asks; then the program takes the peer's answer, of the dead verbenad. */
static void an_answer_that_is_taken_meanwhile_counts(void **state)
{
	(void)state;
	vb_rdmacm_id_become(&id, VB_RDMACM_CONNECTING);
	meanwhile = take_answer;
	replace_daemon();
	assert_int_equal(count_said, 3);
	assert_int_equal(said[0].verb, VB_CM_ADOPT);
	assert_int_equal(said[0].state, VB_CM_ADOPTED_BOUND);
	assert_int_equal(said[1].verb, VB_CM_DESTROY);
	assert_int_equal(said[1].id, NEW);
	assert_int_equal(said[2].verb, VB_CM_ADOPT);
	assert_int_equal(said[2].state, VB_CM_ADOPTED_CONNECTED);
	assert_null(id_told);
}

static void take_established(void)
{
	free(id.kept_command);
	id.kept_command = NULL;
	vb_rdmacm_id_become(&id, VB_RDMACM_CONNECTED);
}

/* The new verbenad was told of a request, and would wait for ever for what is made of it. */
static void an_accept_is_said_again_though_it_succeeded_meanwhile(void **state)
{
	(void)state;
	vb_rdmacm_id_become(&id, VB_RDMACM_ACCEPTED);
	id.kept_command = calloc(1, sizeof(*id.kept_command));
	assert_non_null(id.kept_command);
	id.kept_command->verb = VB_CM_ACCEPT;
	meanwhile = take_established;
	replace_daemon();
	assert_int_equal(count_said, 2);
	assert_int_equal(said[0].verb, VB_CM_ADOPT);
	assert_int_equal(said[0].state, VB_CM_ADOPTED_REQUESTED);
	assert_int_equal(said[1].verb, VB_CM_ACCEPT);
	assert_int_equal(said[1].id, NEW);
	assert_int_equal(vb_rdmacm_id_state(&id), VB_RDMACM_CONNECTED);
	assert_null(id_told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_request_that_waits_is_lost, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_accept_under_way_will_hear_that_it_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_connection_that_is_not_taken_over_is_disconnected, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_id_for_datagrams_is_not_disconnected, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_answer_that_is_taken_meanwhile_counts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_accept_is_said_again_though_it_succeeded_meanwhile, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
