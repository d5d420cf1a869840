/* SPDX-License-Identifier: MIT
 *
 * One connection, one thread ("verbena-cm"). A caller puts a record of its call on a list, sends the command and
 * sleeps; the thread reads everything the daemon says, wakes the caller whose serial a reply repeats, and puts events
 * on the channel of their id.
 * Requests for connections are sent without waiting: their outcome is an event.
 *
 *      stopped --call--> connecting --ok--> up --daemon gone--> connecting (while there are ids or callers)
 *                             |                                     |
 *                             `--failed--> waiting --time, call-----'
 *
 * When the daemon dies the thread connects again (which starts a new one) and tells it about every id (adopt.c)
 * before any other thread may speak. A call that was under way is said again, at most RETRIES times: the daemon's part in
 * it died with the daemon.
 *
 * A REQ that is refused because no program listens (REJ 8, or port 4791 is closed) is sent again a few times within 75 ms
 * before the program hears of it: programs (perftest) agree over one connection to open the next, and then race.
 *
 * Locks: send_lock -> lock. `line.lock` guards the registry, the calls and the state; it is never held while writing
 * to the socket, so that the thread can always go on reading, which is what lets a daemon with a full queue go on.
 */
#include "rdmacm/link.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mutex.h"
#include "io/clock.h"
#include "io/daemon_silence.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/thread.h"
#include "io/unix_socket.h"
#include "rdmacm/adopt.h"
#include "rdmacm/channel.h"
#include "rdmacm/registry.h"
#include "rdmacm/resolve.h"
#include "rdmacm/streams.h"
#include "rdmacm/trace.h"
#include "rdmacm/turns.h"

enum { NO_LISTENER = 8, NO_SUCH_SERVICE = 1 };         /* REJ reason, SIDR_REP status: IBA 12.6.7.2, 12.11.1.2 */
enum { MOST_REFUSALS = 4, FIRST_REFUSAL_MS = 5 };      /* 5 + 10 + 20 + 40 ms */
enum { NAPS_FOR_MEMORY = 100 };                         /* a second */
/* The longest is less than a new daemon waits for ids (VB_CONNECT_ADOPTION). */
enum { RETRIES = 3, BACKOFF_FIRST_MS = 50, BACKOFF_LAST_MS = 1000 };
enum { SILENCE_MS = 2000 };                             /* as long as libibverbs waits for what it can do without */
enum { MESSAGES_AT_ONCE = 8, LONGEST_MESSAGE = 4096 };
/* Requests that the program has taken and verbenad does not know to be taken: they count for the backlog there, which is of 1024. */
enum { MOST_UNTOLD = 64 };

/* Of a reply that no call waits for: far from the others. */
#define UNASKED_SERIAL (UINT64_C(1) << 62)

enum link_state { LINK_STOPPED, LINK_CONNECTING, LINK_UP, LINK_WAITING };

struct call {
	struct vb_list node;
	uint64_t serial;
	struct vb_rdmacm_id *id;
	struct vb_rdmacm_id *creates;    /* CREATE: gets the handle */
	struct vb_cm_reply reply;
	int error;                       /* of the link; ECONNRESET: say it again */
	bool done;
	pthread_cond_t answered;
};

static struct {
	struct vb_mutex send_lock, lock;
	pthread_cond_t changed;          /* state */
	enum link_state state;
	int fd;
	int error;                       /* why the last attempt to connect failed */
	unsigned asked;                  /* callers waiting for the link */
	uint64_t serial;
	struct vb_list calls;
	struct vb_rdmacm_turns turns;    /* ids that ask for connections */
	struct vb_list resolving;        /* ids whose neighbour has not answered (resolve.c) */
	struct vb_list fetched;          /* ids of requests that the program has taken, which the daemon was not told */
	unsigned fetched_count;
	bool port_is_open;               /* this daemon has carried out a CONNECT: no later one fails for want of the port */
	struct vb_rdmacm_registry registry;
	bool fork_handled;
} line = {
	.send_lock = VB_MUTEX_INITIALIZER(VB_RANK_CM_SEND),
	.lock = VB_MUTEX_INITIALIZER(VB_RANK_CM_LINE),
	.changed = PTHREAD_COND_INITIALIZER,
	.fd = -1,
	.calls = {&line.calls, &line.calls},
	.turns = {.destinations = {&line.turns.destinations, &line.turns.destinations}},
	.resolving = {&line.resolving, &line.resolving},
	.fetched = {&line.fetched, &line.fetched},
};

/* Caller holds line.lock. */
static void finish_call(struct call *call, int error)
{
	vb_list_remove(&call->node);
	call->error = error;
	call->done = true;
	pthread_cond_signal(&call->answered);
}

/* Caller holds line.lock. A request that no thread waits for (vb_rdmacm_link_request) was refused. Of an id that is in neither state
 * the program knows more already. */
static void tell_refusal(const struct vb_cm_reply *reply)
{
	struct vb_rdmacm_id *id = vb_rdmacm_registry_find(&line.registry, reply->id);

	if (id == NULL || (vb_rdmacm_id_state(id) != VB_RDMACM_CONNECTING && vb_rdmacm_id_state(id) != VB_RDMACM_ACCEPTED))
		return;
	vb_rdmacm_turn_leave(&id->turn, false);
	(void)vb_rdmacm_channel_tell(id, RDMA_CM_EVENT_CONNECT_ERROR, -reply->error);
}

/* Caller holds line.lock. */
static void handle_reply(const struct vb_cm_reply *reply)
{
	VB_LIST_FOR_EACH(node, &line.calls) {
		struct call *call = vb_container_of(node, struct call, node);

		if (call->serial != reply->serial)
			continue;
		call->reply = *reply;
		line.port_is_open |= call->id->calling == VB_CM_CONNECT && reply->error == 0;
		call->id->calling = 0;
		if (call->creates != NULL && reply->error == 0) {
			call->creates->handle = reply->id;
			if (vb_rdmacm_registry_insert(&line.registry, call->creates) != 0)
				call->reply.error = ENOMEM;
		}
		finish_call(call, 0);
		return;
	}
	if (reply->error != 0)
		tell_refusal(reply);
}

/* An id without an owner: let the daemon forget it (a request gets its REJ). The reply has no caller and is dropped. */
static void disown(uint32_t handle)
{
	struct vb_cm_command command = {.type = VB_CM_COMMAND, .verb = VB_CM_DESTROY, .id = handle};

	(void)vb_unix_send(line.fd, &command, sizeof(command), NULL, 0, false);
}

/* Caller holds line.lock. */
static bool will_ask_again(struct vb_rdmacm_id *id, const struct vb_cm_event *told)
{
	bool closed = told->kind == VB_CM_EVENT_UNREACHABLE && told->status == -ECONNREFUSED;
	bool no_listener = vb_rdmacm_id_is_datagram(id) ?
			      told->kind == VB_CM_EVENT_UNREACHABLE && told->status == NO_SUCH_SERVICE :
			      told->kind == VB_CM_EVENT_REJECTED && told->status == NO_LISTENER;

	if ((no_listener || closed) && id->turn.state != VB_RDMACM_TURN_NONE && id->turn.refusals < MOST_REFUSALS &&
	    vb_rdmacm_id_state(id) == VB_RDMACM_CONNECTING) {
		/* A host sends half a dozen ICMP errors in a row, then one a second (icmp_ratelimit). */
		vb_rdmacm_turn_refused(&id->turn, closed ? 2 : 1,
				       vb_clock_now() + (VB_MILLISECONDS(FIRST_REFUSAL_MS) << id->turn.refusals));
		return true;
	}
	/* Answered; or refused for good, and then those that waited for it hear the same, and need not one after the other. */
	vb_rdmacm_turn_leave(&id->turn, true);
	return false;
}

/* Caller holds line.lock. Its REQ was never sent, and verbenad knows the id as it is. -EAGAIN: verbenad has much to read. */
static int ask_first(int fd, struct vb_rdmacm_id *id)
{
	struct vb_cm_command command = {0};

	vb_mutex_lock(&id->lock);
	if (id->kept_command != NULL)
		command = *id->kept_command;
	vb_mutex_unlock(&id->lock);
	if (command.verb != VB_CM_CONNECT)
		return 0;
	command.type = VB_CM_COMMAND;
	command.only_refusals = true;
	command.serial = ++line.serial;
	command.id = id->handle;
	return vb_unix_send(fd, &command, sizeof(command), NULL, 0, false);
}

/* Caller holds line.lock. Everybody asks whose turn it is. 0 or -errno: the daemon is gone. */
static int ask_in_turn(int fd, int (*otherwise)(const void *bytes, size_t length))
{
	struct vb_rdmacm_turn *turn;

	while ((turn = vb_rdmacm_turns_next(&line.turns, vb_clock_now())) != NULL) {
		struct vb_rdmacm_id *id = vb_container_of(turn, struct vb_rdmacm_id, turn);
		int error;

		if (turn->state == VB_RDMACM_TURN_WAITS) {
			error = ask_first(fd, id);
			if (error == -EAGAIN)
				return 0; /* next_turn */
			vb_rdmacm_turn_asked(turn, vb_clock_now());
		} else {
			/* Before: what comes of it may be heard before adopt_again returns. */
			vb_rdmacm_turn_asked(turn, vb_clock_now());
			vb_rdmacm_registry_remove(&line.registry, id);
			error = vb_rdmacm_adopt_again(fd, id, otherwise);
			(void)vb_rdmacm_registry_insert(&line.registry, id); /* never grows: it was in there */
		}
		if (error != 0)
			return error;
	}
	return 0;
}

/* Caller holds line.lock. */
static vb_time next_turn(void)
{
	vb_time when = vb_rdmacm_turns_deadline(&line.turns), soon = vb_clock_now() + VB_MILLISECONDS(1);

	return when > soon ? when : soon; /* one that is due could not be sent */
}

/* A new daemon was told of it, and has not been asked. */
static void ask_again(struct vb_rdmacm_id *id)
{
	vb_rdmacm_turn_repeat(&line.turns, &id->turn, id->id.ps, &id->destination);
}

/* As the kernel's cma_process_remove: each id that is bound to the device hears of it, whatever it is doing. A listener
 * on all addresses is bound to none, and goes on. */
static void tell_removal(struct vb_rdmacm_id *id, const void *gone)
{
	if (__atomic_load_n(&id->interface_index, __ATOMIC_ACQUIRE) == *(const uint32_t *)gone)
		(void)vb_rdmacm_channel_tell(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

/* A program waits for this event, maybe for ever: so we wait for memory, for a while. */
static struct vb_rdmacm_event *allocate_event(void)
{
	const struct timespec nap = {.tv_nsec = 10000000};
	struct vb_rdmacm_event *event = calloc(1, sizeof(*event));

	for (unsigned naps = 0; event == NULL && naps < NAPS_FOR_MEMORY; naps++) {
		nanosleep(&nap, NULL);
		event = calloc(1, sizeof(*event));
	}
	return event;
}

/* Caller holds line.lock. */
static void handle_event(const struct vb_cm_event *told)
{
	bool request = told->kind == VB_CM_EVENT_CONNECT_REQUEST;
	struct vb_rdmacm_id *id = vb_rdmacm_registry_find(&line.registry, request ? told->listen_id : told->id);
	struct vb_rdmacm_event *event;

	if (told->kind == VB_CM_EVENT_DEVICE_REMOVAL) {
		if (told->interface_index != 0) {
			vb_rdmacm_registry_visit(&line.registry, tell_removal, &told->interface_index);
			vb_rdmacm_streams_interface_gone(told->interface_index);
		}
		return;
	}
	if (id == NULL) {
		if (request)
			disown(told->id);
		return;
	}
	if (will_ask_again(id, told))
		return;
	/* As with the kernel's: the backlog is of requests the program has not taken; one too many is refused. */
	if (request && __atomic_load_n(&id->requests, __ATOMIC_RELAXED) >= id->backlog) {
		disown(told->id);
		return;
	}
	event = request ? calloc(1, sizeof(*event)) : allocate_event();
	if (event == NULL) {
		/* The peer is told. Of other events it is only the log that tells. */
		if (request)
			disown(told->id);
		else
			vb_log(VB_LOG_ERROR, "no memory for an event of a connection: it is lost");
		return;
	}
	if (request) {
		event->child = vb_rdmacm_id_create_child(id, told);
		if (event->child == NULL || vb_rdmacm_registry_insert(&line.registry, event->child) != 0) {
			if (event->child != NULL)
				vb_rdmacm_id_free(event->child);
			free(event);
			disown(told->id);
			return;
		}
		__atomic_add_fetch(&id->requests, 1, __ATOMIC_RELAXED);
	}
	event->owner = id;
	event->from_daemon = true;
	event->told = *told;
	vb_mutex_lock(&id->lock);
	vb_rdmacm_channel_put(vb_rdmacm_channel_of(id->id.channel), event);
	vb_mutex_unlock(&id->lock);
}

/* Both ends run on this host, but neither trusts the other: nothing is used before the whole message was checked. */
static int handle_message(const void *bytes, size_t length)
{
	uint32_t type;

	if (length < sizeof(type))
		return -EPROTO;
	memcpy(&type, bytes, sizeof(type));
	if (type == VB_CM_REPLY && length == sizeof(struct vb_cm_reply)) {
		handle_reply(bytes);
		return 0;
	}
	if (type == VB_CM_EVENT && length == sizeof(struct vb_cm_event)) {
		const struct vb_cm_event *event = bytes;

		if (event->conn.private_data_length > VB_CM_PRIVATE_DATA)
			return -EPROTO;
		handle_event(event);
		return 0;
	}
	if (type == VB_CM_TRACE)
		return vb_rdmacm_trace_packet(bytes, length) ? 0 : -EPROTO;
	return type < VB_CM_COMMAND ? 0 : -EPROTO; /* talk that is not about connections */
}

/* -ECONNRESET: the daemon hung up. */
static int handle_messages(struct vb_unix_message *messages, int count)
{
	int error = 0;

	for (int i = 0; i < count; i++) {
		for (unsigned j = 0; j < messages[i].count; j++)
			vb_descriptor_close(messages[i].fds[j]); /* none was asked for */
		if (messages[i].length <= 0 && error == 0)
			error = -ECONNRESET;
		if (error == 0)
			error = handle_message(messages[i].bytes, (size_t)messages[i].length);
	}
	return error;
}

/* Read until the daemon is gone. */
static void serve(int fd)
{
	_Alignas(8) char bytes[MESSAGES_AT_ONCE][LONGEST_MESSAGE];
	struct vb_unix_message messages[MESSAGES_AT_ONCE];
	vb_time deadline = 0; /* adoption may have left something to do */

	for (unsigned i = 0; i < MESSAGES_AT_ONCE; i++)
		messages[i] = (struct vb_unix_message){.bytes = bytes[i], .room = sizeof(bytes[i])};
	for (;;) {
		int count = vb_unix_receive_several(fd, messages, MESSAGES_AT_ONCE, deadline);
		int error;

		/* What the kernel has no memory for is there still. A daemon that is hung up on ends the connections. */
		if (count < 0 && count != -EAGAIN && count != -ENOMEM && count != -ENOBUFS)
			return;
		vb_mutex_lock(&line.lock);
		error = handle_messages(messages, count);
		if (error == 0 && ask_in_turn(fd, handle_message) != 0) {
			vb_mutex_unlock(&line.lock);
			return;
		}
		vb_rdmacm_resolve_look(&line.resolving);
		deadline = vb_time_earlier(next_turn(), vb_rdmacm_resolve_deadline(&line.resolving));
		vb_mutex_unlock(&line.lock);
		if (error == -ECONNRESET)
			return;
		if (error != 0) {
			vb_log_limited(VB_LOG_ERROR, "verbenad said something this librdmacm does not understand: connecting again");
			return;
		}
	}
}

/* Caller holds line.lock, which is given up meanwhile unless there are ids to tell about. */
static int connect_and_adopt(void) VB_NEEDS(line.lock)
{
	int fd, error;

	vb_mutex_unlock(&line.lock);
	fd = vb_rdmacm_daemon_connect();
	vb_mutex_lock(&line.lock);
	if (fd < 0)
		return fd;
	/* From here to the end of adoption no thread may register, destroy or call: the lock stays held. Bounded by
	 * adopt's timeout. */
	vb_rdmacm_trace_ask(fd);
	error = vb_rdmacm_adopt_all(fd, &line.registry, ask_again, handle_message);
	if (error != 0) {
		close(fd);
		return error;
	}
	line.fd = fd;
	return 0;
}

/* Caller holds line.lock. */
static void forget_fetched(struct vb_rdmacm_id *id)
{
	if (vb_list_is_empty(&id->fetched_node))
		return;
	vb_list_remove(&id->fetched_node);
	line.fetched_count--;
}

/* The daemon hung up: calls that wait for a reply learn it, and the descriptor is closed when no thread writes to it. Returns
 * with line.lock held. */
static void hang_up(void) VB_TAKES(line.lock)
{
	shutdown(line.fd, SHUT_RDWR);
	vb_mutex_lock(&line.send_lock);
	vb_mutex_lock(&line.lock);
	close(line.fd);
	line.fd = -1;
	line.state = LINK_CONNECTING;
	line.port_is_open = false;
	VB_LIST_FOR_EACH(node, &line.fetched)
		forget_fetched(vb_container_of(node, struct vb_rdmacm_id, fetched_node)); /* requests are lost with their daemon */
	VB_LIST_FOR_EACH(node, &line.calls)
		finish_call(vb_container_of(node, struct call, node), ECONNRESET);
	vb_mutex_unlock(&line.send_lock);
}

/* Of the clock of conditions. */
static struct timespec time_in(unsigned milliseconds)
{
	struct timespec when;

	clock_gettime(CLOCK_REALTIME, &when);
	when.tv_sec += milliseconds / 1000;
	when.tv_nsec += (long)(milliseconds % 1000) * 1000000;
	if (when.tv_nsec >= 1000000000) {
		when.tv_nsec -= 1000000000;
		when.tv_sec++;
	}
	return when;
}

static void wait_before_retry(unsigned milliseconds) VB_NEEDS(line.lock)
{
	struct timespec when = time_in(milliseconds);

	vb_mutex_wait_until(&line.lock, &line.changed, &when);
}

static void *link_main(void *unused)
{
	unsigned backoff = BACKOFF_FIRST_MS;

	(void)unused;
	vb_thread_prepare("verbena-cm");
	vb_mutex_lock(&line.lock);
	for (;;) {
		int error = connect_and_adopt();

		if (error == 0) {
			backoff = BACKOFF_FIRST_MS;
			line.error = 0;
			line.state = LINK_UP;
			pthread_cond_broadcast(&line.changed);
			vb_mutex_unlock(&line.lock);
			serve(line.fd);
			hang_up();
		} else {
			line.error = error;
			line.state = LINK_WAITING;
			pthread_cond_broadcast(&line.changed);
			if (line.registry.count == 0)
				break;
			/* Ids live here: go on trying, ever slower, or at once when a thread asks. */
			wait_before_retry(backoff);
			vb_rdmacm_resolve_look(&line.resolving);
			backoff = backoff * 2 < BACKOFF_LAST_MS ? backoff * 2 : BACKOFF_LAST_MS;
			line.state = LINK_CONNECTING;
			continue;
		}
		if (line.registry.count == 0 && line.asked == 0)
			break;
	}
	line.state = LINK_STOPPED;
	pthread_cond_broadcast(&line.changed);
	vb_mutex_unlock(&line.lock);
	return NULL;
}

/* A child shares nothing with its parent's daemon connection: it has no thread, and ids of the parent are not its
 * own. */
static void forget_after_fork(void)
{
	if (line.fd >= 0)
		close(line.fd);
	line.fd = -1;
	line.state = LINK_STOPPED;
	line.asked = 0;
	vb_list_init(&line.calls);
	vb_rdmacm_turns_forget(&line.turns);
	vb_list_init(&line.resolving);
	vb_list_init(&line.fetched);
	line.fetched_count = 0;
	line.port_is_open = false;
	(void)vb_rdmacm_registry_drain(&line.registry);
	vb_mutex_init(&line.lock, VB_RANK_CM_LINE);
	vb_mutex_init(&line.send_lock, VB_RANK_CM_SEND);
	pthread_cond_init(&line.changed, NULL);
}

/* Caller holds line.lock. */
static int start_thread(void)
{
	int error;

	if (!line.fork_handled) {
		pthread_atfork(NULL, NULL, forget_after_fork);
		line.fork_handled = true;
	}
	line.state = LINK_CONNECTING;
	error = vb_thread_start_detached(link_main, NULL);
	if (error != 0)
		line.state = LINK_STOPPED;
	return error;
}

/* Wait until a daemon answers at the other end. Caller holds line.lock. 0 or -errno of the attempt made for this
 * call. */
static int bring_up(void) VB_NEEDS(line.lock)
{
	int error = 0;

	if (line.state == LINK_UP)
		return 0;
	line.asked++;
	if (line.state == LINK_STOPPED)
		error = start_thread();
	else if (line.state == LINK_WAITING) {
		line.state = LINK_CONNECTING;
		pthread_cond_broadcast(&line.changed);
	}
	while (error == 0 && line.state == LINK_CONNECTING)
		vb_mutex_wait(&line.lock, &line.changed);
	line.asked--;
	if (error == 0 && line.state != LINK_UP)
		error = line.error != 0 ? line.error : -ECONNREFUSED;
	return error;
}

/* Does the daemon free its place in the backlog by itself? */
static bool frees_place(uint32_t verb)
{
	return verb == VB_CM_ACCEPT || verb == VB_CM_REJECT || verb == VB_CM_DESTROY;
}

static void tell_silence(void)
{
	struct vb_unix_peer daemon;

	if (vb_daemon_is_silent() || vb_unix_peer(line.fd, &daemon) != 0)
		return;
	vb_daemon_note(-ETIMEDOUT, daemon.pid);
	vb_log(VB_LOG_ERROR, "calls of librdmacm wait for verbenad (pid %d), which %s", (int)daemon.pid,
	       vb_daemon_silence_in_words(daemon.pid));
}

/* For as long as it takes: what a daemon that stands still was told it does when it goes on, and to hang up would end the connections. */
static void await_reply(struct call *call) VB_NEEDS(line.lock)
{
	struct timespec silence = time_in(SILENCE_MS);

	while (!call->done && vb_mutex_wait_until(&line.lock, &call->answered, &silence) == 0)
		;
	if (call->done)
		return;
	tell_silence();
	while (!call->done)
		vb_mutex_wait(&line.lock, &call->answered);
	vb_daemon_note(0, 0);
}

/* Send, wait. 0, -ECONNRESET: the daemon died meanwhile, or another -errno of the link. */
static int call_daemon(struct vb_rdmacm_id *id, struct vb_cm_command *command, struct call *call)
{
	int error;

	vb_mutex_lock(&line.send_lock);
	vb_mutex_lock(&line.lock);
	error = line.state == LINK_UP ? 0 : -ECONNRESET;
	if (error == 0) {
		command->type = VB_CM_COMMAND;
		command->serial = call->serial = ++line.serial;
		command->id = call->creates != NULL ? 0 : id->handle;
		if (frees_place(command->verb))
			forget_fetched(id);
		vb_list_append(&line.calls, &call->node);
		vb_mutex_unlock(&line.lock);
		/* A send that fails means that the daemon is gone; the thread finds that out by itself and ends
		 * the call. */
		if (vb_unix_send(line.fd, command, sizeof(*command), NULL, 0, true) != 0)
			shutdown(line.fd, SHUT_RDWR);
		vb_mutex_unlock(&line.send_lock);
		vb_mutex_lock(&line.lock);
		await_reply(call);
		error = -call->error;
	} else {
		vb_mutex_unlock(&line.send_lock);
	}
	vb_mutex_unlock(&line.lock);
	return error;
}

void vb_rdmacm_link_intend(struct vb_rdmacm_id *id, uint32_t verb)
{
	vb_mutex_lock(&line.lock);
	id->calling = verb;
	vb_mutex_unlock(&line.lock);
}

int vb_rdmacm_link_call(struct vb_rdmacm_id *id, struct vb_cm_command *command, struct vb_cm_reply *reply)
{
	struct call call = {.id = id, .creates = command->verb == VB_CM_CREATE ? id : NULL};
	int error = 0;

	pthread_cond_init(&call.answered, NULL);
	for (unsigned attempt = 0; attempt < RETRIES; attempt++) {
		vb_mutex_lock(&line.lock);
		id->calling = command->verb;
		error = bring_up();
		vb_mutex_unlock(&line.lock);
		if (error != 0)
			break;
		call.done = false;
		vb_list_init(&call.node);
		error = call_daemon(id, command, &call);
		if (error != -ECONNRESET)
			break;
	}
	pthread_cond_destroy(&call.answered);
	if (error != 0) {
		vb_mutex_lock(&line.lock);
		id->calling = 0;
		vb_mutex_unlock(&line.lock);
		return error;
	}
	if (reply != NULL)
		*reply = call.reply;
	return -call.reply.error;
}

void vb_rdmacm_link_say(struct vb_rdmacm_id *id, struct vb_cm_command *command)
{
	bool up;

	command->type = VB_CM_COMMAND;
	vb_mutex_lock(&line.send_lock);
	vb_mutex_lock(&line.lock);
	up = line.state == LINK_UP;
	command->id = id->handle;
	vb_mutex_unlock(&line.lock);
	if (up)
		(void)vb_unix_send(line.fd, command, sizeof(*command), NULL, 0, true);
	vb_mutex_unlock(&line.send_lock);
}

int vb_rdmacm_link_request(struct vb_rdmacm_id *id, struct vb_cm_command *command)
{
	bool now;

	vb_mutex_lock(&line.send_lock);
	vb_mutex_lock(&line.lock);
	/* Without the port no connection can be made: the first that asks hears of it at once. */
	now = line.state == LINK_UP && (line.port_is_open || command->verb != VB_CM_CONNECT);
	if (now) {
		command->type = VB_CM_COMMAND;
		command->only_refusals = true;
		command->serial = ++line.serial;
		command->id = id->handle;
		/* From here on a new daemon hears of it by adoption: the one it is sent to cannot be replaced before send_lock is free. */
		id->calling = 0;
		if (frees_place(command->verb))
			forget_fetched(id);
	}
	vb_mutex_unlock(&line.lock);
	if (now && vb_unix_send(line.fd, command, sizeof(*command), NULL, 0, true) != 0)
		shutdown(line.fd, SHUT_RDWR);
	vb_mutex_unlock(&line.send_lock);
	return now ? 0 : vb_rdmacm_link_call(id, command, NULL);
}

/* Means nothing to the daemon; its reply wakes the thread, which then knows when to look. */
static void wake_thread(struct vb_rdmacm_id *id)
{
	vb_rdmacm_link_say(id, &(struct vb_cm_command){.verb = VB_CM_FETCHED, .serial = UNASKED_SERIAL});
}

int vb_rdmacm_link_connect(struct vb_rdmacm_id *id, struct vb_cm_command *command, bool waits)
{
	vb_time before, after;
	int error;

	vb_mutex_lock(&line.lock);
	before = vb_rdmacm_turns_deadline(&line.turns);
	error = vb_rdmacm_turn_take(&line.turns, &id->turn, id->id.ps, &id->destination, vb_clock_now());
	after = vb_rdmacm_turns_deadline(&line.turns);
	if (error == 0)
		id->calling = 0; /* a new daemon hears of it by adoption */
	vb_mutex_unlock(&line.lock);
	if (error < 0)
		return error;
	if (error == 0) {
		if (after < before)
			wake_thread(id);
		return 0;
	}
	error = waits ? vb_rdmacm_link_call(id, command, NULL) : vb_rdmacm_link_request(id, command);
	if (error != 0) {
		vb_mutex_lock(&line.lock);
		vb_rdmacm_turn_leave(&id->turn, false);
		vb_mutex_unlock(&line.lock);
	}
	return error;
}

/* Caller holds send_lock. */
static void tell_fetched(void)
{
	struct vb_cm_command command = {.type = VB_CM_COMMAND, .verb = VB_CM_FETCHED};
	uint32_t handles[MOST_UNTOLD];
	unsigned count = 0;
	bool up;

	vb_mutex_lock(&line.lock);
	up = line.state == LINK_UP;
	VB_LIST_FOR_EACH(node, &line.fetched) {
		struct vb_rdmacm_id *id = vb_container_of(node, struct vb_rdmacm_id, fetched_node);

		if (count == MOST_UNTOLD)
			break;
		handles[count++] = id->handle;
		forget_fetched(id);
	}
	vb_mutex_unlock(&line.lock);
	for (unsigned i = 0; up && i < count; i++) {
		command.id = handles[i];
		(void)vb_unix_send(line.fd, &command, sizeof(command), NULL, 0, true);
	}
}

void vb_rdmacm_link_fetched(struct vb_rdmacm_id *id)
{
	bool many;

	vb_mutex_lock(&line.lock);
	if (id->handle != 0 && vb_list_is_empty(&id->fetched_node)) {
		vb_list_append(&line.fetched, &id->fetched_node);
		line.fetched_count++;
	}
	many = line.fetched_count >= MOST_UNTOLD;
	vb_mutex_unlock(&line.lock);
	if (!many)
		return;
	vb_mutex_lock(&line.send_lock);
	tell_fetched();
	vb_mutex_unlock(&line.send_lock);
}

int vb_rdmacm_link_resolve(struct vb_rdmacm_id *id)
{
	struct vb_cm_command command = {.verb = VB_CM_FETCHED};
	int error;

	vb_mutex_lock(&line.lock);
	vb_list_append(&line.resolving, &id->resolving.node);
	vb_mutex_unlock(&line.lock);
	/* Means nothing to the daemon; its reply wakes the thread, which then knows when to look. */
	error = vb_rdmacm_link_call(id, &command, NULL);
	if (error == 0)
		return 0;
	vb_mutex_lock(&line.lock);
	vb_list_remove(&id->resolving.node);
	vb_mutex_unlock(&line.lock);
	return error;
}

static int call_alone(struct vb_rdmacm_id *id, struct vb_cm_command *command, struct call *call)
{
	int error;

	*call = (struct call){.id = id};
	pthread_cond_init(&call->answered, NULL);
	vb_list_init(&call->node);
	error = call_daemon(id, command, call);
	pthread_cond_destroy(&call->answered);
	return error;
}

/* Has it a peer that may not know of its end? */
static bool has_peer(struct vb_rdmacm_id *id)
{
	enum vb_rdmacm_state state = vb_rdmacm_id_state(id);

	return !vb_rdmacm_id_is_datagram(id) && !vb_rdmacm_id_is_stream(id) &&
	       (state == VB_RDMACM_CONNECTED || state == VB_RDMACM_DISCONNECTING);
}

/* The daemon died that was to tell the peer of its end: the next one does. */
static void end_with_next_daemon(struct vb_rdmacm_id *id)
{
	struct vb_cm_command command;
	struct call call;
	int error;

	vb_mutex_lock(&line.lock);
	error = bring_up();
	__atomic_store_n(&id->handle, 0, __ATOMIC_RELAXED);
	vb_mutex_unlock(&line.lock);
	if (error != 0)
		return; /* there is none to tell it */
	vb_rdmacm_adopt_describe_connection(id, &command);
	if (call_alone(id, &command, &call) != 0 || call.reply.error != 0)
		return;
	__atomic_store_n(&id->handle, call.reply.id, __ATOMIC_RELAXED);
	command = (struct vb_cm_command){.verb = VB_CM_DISCONNECT};
	if (call_alone(id, &command, &call) != 0)
		return;
	command = (struct vb_cm_command){.verb = VB_CM_DESTROY};
	(void)call_alone(id, &command, &call);
}

void vb_rdmacm_link_destroy(struct vb_rdmacm_id *id)
{
	struct vb_cm_command command = {.verb = VB_CM_DESTROY};
	struct call call;
	bool up, lost;

	vb_mutex_lock(&line.lock);
	vb_rdmacm_registry_remove(&line.registry, id);
	vb_rdmacm_turn_leave(&id->turn, false);
	vb_list_remove(&id->resolving.node);
	forget_fetched(id);
	up = line.state == LINK_UP && id->handle != 0;
	/* Not of a parent's, of which a child knows no link. */
	lost = line.state != LINK_UP && line.state != LINK_STOPPED && id->handle != 0;
	vb_mutex_unlock(&line.lock);
	if (up)
		lost = call_alone(id, &command, &call) == -ECONNRESET;
	if (lost && has_peer(id))
		end_with_next_daemon(id);
}
