/* SPDX-License-Identifier: MIT */
#include "preload/sockets/epoll.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "io/cancellation.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "preload/next.h"
#include "preload/sockets/connection.h"
#include "preload/sockets/patience.h"
#include "preload/sockets/readiness.h"
#include "preload/sockets/table.h"
#include "rdmacm/rsocket/pace.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"

enum {
	INNER_EVENTS = 64,
	FEW = 8,                         /* connections: to look at all of them costs less than an event that names the one */
};

/* Of the sockets of the wire, in the inner set. Registrations are aligned, and so is NULL. */
#define WIRE_TAG ((void *)(uintptr_t)2)

#define KERNEL_INTERVAL VB_MICROSECONDS(50)

struct set {
	unsigned references;             /* atomic */
	int epoll, inner, wake_fd;
	struct vb_patience patience;
	struct vb_mutex lock;            /* everything below */
	unsigned sleepers, connections;
	int wire;                        /* the sockets of the wire, while they are in the inner set; or -1 */
	vb_time kernel_asked;            /* when */
	struct registration **by_fd;     /* by_fd_size of them */
	int by_fd_size;
	struct vb_list registrations, hot;
};

struct registration {
	struct vb_list node, hot_node;
	struct set *set;
	struct vb_connection *connection; /* a reference */
	int fd;
	struct epoll_event event;        /* as the program gave it */
	bool is_hot, is_disarmed;        /* disarmed: EPOLLONESHOT has fired */
	bool is_absent;                  /* EPOLL_CTL_DEL: not in the program's set, and kept in ours */
	bool has_completions;            /* told of, to be collected */
	bool is_nudged;                  /* the inner set has named it, or epoll_ctl: worth an edge */
	uint32_t seen;                   /* changes of the connection that were reported */
	int completions;                 /* the descriptor in the inner set, or -1 */
	struct vb_connection_observer observer;
};

static struct vb_fd_table sets = {.lock = VB_MUTEX_INITIALIZER(VB_RANK_SOCKETS_TABLE)};
static struct vb_fd_table noted = {.lock = VB_MUTEX_INITIALIZER(VB_RANK_SOCKETS_TABLE)};

/* ---- sets ---- */

static void put_set(struct set *set)
{
	if (__atomic_sub_fetch(&set->references, 1, __ATOMIC_ACQ_REL) != 0)
		return;

	VB_UNCANCELLED;

	vb_mutex_fini(&set->lock);
	close(set->wake_fd);
	close(set->inner);
	free(set->by_fd);
	free(set);
}

static struct set *get_set(int epoll)
{
	struct set *set;

	if (vb_fd_table_look(&sets, epoll) == NULL)
		return NULL;
	vb_mutex_lock(&sets.lock);
	set = vb_fd_table_look(&sets, epoll);
	if (set != NULL)
		__atomic_add_fetch(&set->references, 1, __ATOMIC_RELAXED);
	vb_mutex_unlock(&sets.lock);
	return set;
}

static int add(int epoll, int fd, uint32_t events, void *tag)
{
	struct epoll_event event = {.events = events, .data.ptr = tag};

	return NEXT(epoll_ctl)(epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

/* The inner set is known in the program's by the address of the set: no pointer of the program's. */
static int open_set(struct set *set, int epoll)
{
	int error;

	set->epoll = epoll;
	set->wake_fd = set->wire = -1;
	set->inner = epoll_create1(EPOLL_CLOEXEC);
	if (set->inner < 0)
		return -errno;
	set->inner = vb_descriptor_lift(set->inner);
	set->wake_fd = vb_event_open();
	error = set->wake_fd < 0 ? set->wake_fd : add(set->inner, set->wake_fd, EPOLLIN, NULL);
	return error != 0 ? error : add(epoll, set->inner, EPOLLIN, set);
}

/* The set with a reference of the caller's; NULL with -errno in *error. */
static struct set *make_set(int epoll, int *error)
{
	VB_UNCANCELLED;
	struct set *set = calloc(1, sizeof(*set));

	*error = -ENOMEM;
	if (set == NULL)
		return NULL;
	set->references = 2;
	vb_mutex_init(&set->lock, VB_RANK_SOCKETS_EPOLL);
	vb_list_init(&set->registrations);
	vb_list_init(&set->hot);
	*error = open_set(set, epoll);
	if (*error == 0) {
		vb_mutex_lock(&sets.lock);
		*error = vb_fd_table_set(&sets, epoll, set);
		vb_mutex_unlock(&sets.lock);
	}
	if (*error == 0)
		return set;
	if (set->inner >= 0)
		close(set->inner);
	if (set->wake_fd >= 0)
		close(set->wake_fd);
	vb_mutex_fini(&set->lock);
	free(set);
	return NULL;
}

static void before_fork(void) VB_TAKES(sets.lock)
{
	vb_mutex_lock(&sets.lock);
}

static void after_fork_in_parent(void) VB_RELEASES(sets.lock)
{
	vb_mutex_unlock(&sets.lock);
}

/* The connections in it are the parent's. */
static void after_fork_in_child(void) VB_RELEASES(sets.lock)
{
	VB_UNCANCELLED;

	for (int fd = 0; (fd = vb_fd_table_next(&sets, fd)) >= 0; fd++) {
		struct set *set = vb_fd_table_look(&sets, fd);

		close(set->wake_fd);
		close(set->inner);
		vb_fd_table_set(&sets, fd, NULL);
	}
	vb_mutex_unlock(&sets.lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- registrations; caller holds set->lock ---- */

/* To be looked at. */
static void warm(struct registration *registration)
{
	if (registration->is_hot || registration->is_absent)
		return;
	registration->is_hot = true;
	vb_list_append(&registration->set->hot, &registration->hot_node);
}

static void heat(struct registration *registration)
{
	registration->is_nudged = true;
	warm(registration);
}

static void cool(struct registration *registration)
{
	if (!registration->is_hot)
		return;
	registration->is_hot = false;
	vb_list_remove(&registration->hot_node);
}

static struct registration *find(const struct set *set, int fd)
{
	return fd >= 0 && fd < set->by_fd_size ? set->by_fd[fd] : NULL;
}

/* As the program knows it. */
static struct registration *find_present(const struct set *set, int fd)
{
	struct registration *registration = find(set, fd);

	return registration != NULL && !registration->is_absent ? registration : NULL;
}

static int make_room(struct set *set, int fd)
{
	int size = set->by_fd_size > 0 ? set->by_fd_size : 64;
	struct registration **larger;

	if (fd < set->by_fd_size)
		return 0;
	while (size <= fd)
		size *= 2;
	larger = realloc(set->by_fd, (size_t)size * sizeof(*larger));
	if (larger == NULL)
		return -ENOMEM;
	for (int i = set->by_fd_size; i < size; i++)
		larger[i] = NULL;
	set->by_fd = larger;
	set->by_fd_size = size;
	return 0;
}

static void watch_completions(struct registration *registration, int completions)
{
	if (registration->completions == completions)
		return;
	if (registration->completions >= 0)
		NEXT(epoll_ctl)(registration->set->inner, EPOLL_CTL_DEL, registration->completions, NULL);
	registration->completions = completions;
	/* The lowest bit of the tag tells it from the TCP socket's. */
	if (completions >= 0 && add(registration->set->inner, completions, EPOLLIN | EPOLLET,
				    (void *)((uintptr_t)registration | 1)) != 0)
		registration->completions = -1;
}

static void remove_registration(struct registration *registration)
{
	struct set *set = registration->set;

	cool(registration);
	watch_completions(registration, -1);
	NEXT(epoll_ctl)(set->inner, EPOLL_CTL_DEL, registration->fd, NULL);
	vb_list_remove(&registration->node);
	set->connections--;
	set->by_fd[registration->fd] = NULL;
	vb_connection_unobserve(registration->connection, &registration->observer);
	vb_connection_put(registration->connection);
	free(registration);
}

static int add_registration(struct set *set, int fd, struct vb_connection *connection, const struct epoll_event *event)
{
	struct registration *registration;
	int error = make_room(set, fd);

	if (error != 0)
		return error;
	registration = calloc(1, sizeof(*registration));
	if (registration == NULL)
		return -ENOMEM;
	registration->set = set;
	registration->fd = fd;
	registration->event = *event;
	registration->completions = -1;
	registration->observer.wake_fd = set->wake_fd;
	error = add(set->inner, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET, registration);
	if (error != 0) {
		free(registration);
		return error;
	}
	registration->connection = vb_connection_hold(connection);
	vb_list_append(&set->registrations, &registration->node);
	set->connections++;
	set->by_fd[fd] = registration;
	vb_connection_observe(connection, &registration->observer);
	heat(registration);
	return 0;
}

/* The kernel has it from here on: TCP is all it will ever be. */
static void give_to_kernel(struct registration *registration)
{
	struct epoll_event event = registration->event;
	int epoll = registration->set->epoll, fd = registration->fd;

	if (registration->is_disarmed)
		event.events &= EPOLLET | EPOLLONESHOT;
	remove_registration(registration);
	NEXT(epoll_ctl)(epoll, EPOLL_CTL_ADD, fd, &event);
	vb_sockets_epoll_note(fd);
}

static void begin_registration(struct registration *registration, const struct epoll_event *event)
{
	registration->event = *event;
	registration->is_disarmed = registration->is_absent = false;
	heat(registration);
}

/* One that was there before goes on, unless the descriptor is another connection's by now. Caller holds set->lock. */
static int add_or_resume(struct set *set, int fd, struct vb_connection *connection, const struct epoll_event *event)
{
	struct registration *registration = find(set, fd);

	if (registration != NULL && !registration->is_absent)
		return -EEXIST;
	if (registration != NULL && registration->connection == connection) {
		begin_registration(registration, event);
		return 0;
	}
	if (registration != NULL)
		remove_registration(registration);
	return add_registration(set, fd, connection, event);
}

/* Programs take a connection out and put it in again for each answer they wait for (redis-benchmark does): two system calls each
 * time, and two more for its completions, which were 40 % of that program's time. One that goes by RDMA hears of nothing but its
 * completions, of which there is one event until they are armed again, so it stays until it is closed. Caller holds set->lock. */
static void leave_set(struct registration *registration)
{
	if (vb_connection_phase(registration->connection) != VB_CONNECTION_UP) {
		remove_registration(registration);
		return;
	}
	cool(registration);
	registration->is_absent = true;
}

/* Caller holds set->lock. */
static int control(struct set *set, int operation, int fd, struct vb_connection *connection,
		   const struct epoll_event *event)
{
	struct registration *registration = find_present(set, fd);

	if (operation == EPOLL_CTL_ADD)
		return add_or_resume(set, fd, connection, event);
	if (registration == NULL)
		return -ENOENT;
	if (operation == EPOLL_CTL_DEL) {
		leave_set(registration);
		return 0;
	}
	if (operation != EPOLL_CTL_MOD)
		return -EINVAL;
	begin_registration(registration, event);
	return 0;
}

int vb_sockets_epoll_control(int epoll, int operation, int fd, struct vb_connection *connection,
			     const struct epoll_event *event)
{
	struct set *set = get_set(epoll);
	int error = 0;

	if (event == NULL && operation != EPOLL_CTL_DEL)
		error = -EFAULT;
	else if (set == NULL && operation == EPOLL_CTL_ADD)
		set = make_set(epoll, &error);
	if (set == NULL)
		return error != 0 ? error : -ENOENT;
	if (error == 0) {
		vb_mutex_lock(&set->lock);
		error = control(set, operation, fd, connection, event);
		if (error == 0 && set->sleepers > 0)
			vb_event_raise(set->wake_fd);
		vb_mutex_unlock(&set->lock);
	}
	put_set(set);
	return error;
}

bool vb_sockets_epoll_has(int epoll, int fd)
{
	struct set *set = get_set(epoll);
	bool has;

	if (set == NULL)
		return false;
	vb_mutex_lock(&set->lock);
	has = find_present(set, fd) != NULL;
	vb_mutex_unlock(&set->lock);
	put_set(set);
	return has;
}

/* ---- waiting ---- */

static void take_rung(struct set *set)
{
	vb_event_clear(set->wake_fd);
	VB_LIST_FOR_EACH(node, &set->registrations) {
		struct registration *registration = vb_container_of(node, struct registration, node);

		if (__atomic_exchange_n(&registration->observer.rung, false, __ATOMIC_ACQUIRE))
			heat(registration);
	}
}

/* Which registrations have to be looked at. Caller holds set->lock. True: packets have come. */
static bool take_inner_events(struct set *set)
{
	VB_UNCANCELLED;
	struct epoll_event events[INNER_EVENTS];
	bool packets = false;
	int count;

	do {
		count = NEXT(epoll_wait)(set->inner, events, INNER_EVENTS, 0);
		for (int i = 0; i < count; i++) {
			uintptr_t tag = (uintptr_t)events[i].data.ptr;
			struct registration *registration = (struct registration *)(tag & ~(uintptr_t)1);

			if (events[i].data.ptr == WIRE_TAG) {
				packets = true;
				continue;
			}
			if (registration == NULL) {
				take_rung(set);
				continue;
			}
			if (tag & 1)
				registration->has_completions = true;
			heat(registration);
		}
	} while (count == INNER_EVENTS);
	return packets;
}

/* What it has to report, 0 if nothing; false in *is_ours: it is the kernel's now. Caller holds set->lock. */
static uint32_t look(struct registration *registration, bool before_sleep, bool *is_ours)
{
	struct vb_connection *connection = registration->connection;
	struct pollfd fds[VB_READINESS_FDS];
	uint32_t happened;

	vb_mutex_lock(&connection->lock);
	if (registration->has_completions) {
		vb_readiness_collect(connection);
		vb_connection_ring(connection, &registration->observer);
		registration->has_completions = false;
	}
	happened = (uint16_t)vb_readiness_look(connection, before_sleep);
	if (before_sleep)
		vb_readiness_sleep(connection, 0, fds);
	vb_mutex_unlock(&connection->lock);
	*is_ours = connection->phase != VB_CONNECTION_PLAIN;
	if (!*is_ours) {
		give_to_kernel(registration);
		return 0;
	}
	if (before_sleep)
		watch_completions(registration, fds[1].fd);
	if (registration->is_disarmed)
		return 0;
	happened &= registration->event.events | EPOLLERR | EPOLLHUP;
	/* An edge: something has changed since the last report. */
	if ((registration->event.events & EPOLLET) && !registration->is_nudged &&
	    registration->seen == connection->changes)
		return 0;
	return happened;
}

static void report(struct registration *registration, uint32_t happened, struct epoll_event *event)
{
	event->events = happened;
	event->data = registration->event.data;
	registration->seen = registration->connection->changes;
	registration->is_nudged = false;
	if (registration->event.events & EPOLLONESHOT)
		registration->is_disarmed = true;
}

/* Look at all that are hot. They stay so as long as they have something to report, and those that go by RDMA until
 * they were looked at before a sleep: to look at them costs no system call. Caller holds set->lock. */
static int look_at_hot(struct set *set, struct epoll_event *events, int room, bool before_sleep)
{
	struct vb_list before;
	int used = 0;

	vb_list_init(&before);
	VB_LIST_FOR_EACH(node, &set->hot) {
		vb_list_remove(node);
		vb_list_append(&before, node);
	}
	while (!vb_list_is_empty(&before)) {
		struct registration *registration = vb_container_of(before.next, struct registration, hot_node);
		bool goes_by_rdma = vb_connection_phase(registration->connection) == VB_CONNECTION_UP;
		bool arms = before_sleep || !goes_by_rdma, is_ours = true;
		uint32_t happened = 0;

		cool(registration);
		if (used < room)
			happened = look(registration, arms, &is_ours);
		if (!is_ours)
			continue;
		if (happened != 0)
			report(registration, happened, &events[used++]);
		if (happened != 0 || !arms || used == room) {
			registration->is_hot = true;
			vb_list_append(&set->hot, &registration->hot_node);
		}
	}
	return used;
}

static int wait_in_kernel(struct set *set, struct epoll_event *events, int room, vb_time deadline, const sigset_t *mask)
{
	vb_time left = deadline == VB_TIME_NEVER ? VB_TIME_NEVER : deadline == 0 ? 0 : deadline - vb_rsocket_now();
	int timeout = -1;

	if (left != VB_TIME_NEVER)
		timeout = left <= 0 ? 0 : left > VB_SECONDS(1000000) ? 1000000000 : (int)((left + 999999) / 1000000);
	timeout = NEXT(epoll_pwait)(set->epoll, events, room, timeout, mask);
	return timeout < 0 ? -errno : timeout;
}

/* Takes our own entry out of what the kernel reported. True: it was there. */
static bool take_own(const struct set *set, struct epoll_event *events, int *count)
{
	for (int i = 0; i < *count; i++)
		if (events[i].data.ptr == set) {
			events[i] = events[--*count];
			return true;
		}
	return false;
}

/* What the kernel has to report of other descriptors; which of ours are to be looked at is noted. At most until the deadline.
 * Events, or -errno. */
static int ask_kernel(struct set *set, struct epoll_event *events, int room, vb_time deadline, const sigset_t *mask)
{
	VB_UNCANCELLED;
	int count = wait_in_kernel(set, events, room, deadline, mask);

	if (count <= 0)
		return count;
	vb_mutex_lock(&set->lock);
	if (take_own(set, events, &count))
		(void)take_inner_events(set);
	vb_mutex_unlock(&set->lock);
	return count;
}

/* The same, with those of ours that have something to report. Each must be reported once: programs take a second report
 * of what they have read already for an error. */
static int ask_kernel_and_look(struct set *set, struct epoll_event *events, int room, vb_time deadline, const sigset_t *mask)
{
	int count = ask_kernel(set, events, room, deadline, mask);

	if (count < 0)
		return count;
	vb_mutex_lock(&set->lock);
	count += look_at_hot(set, events + count, room - count, false);
	vb_mutex_unlock(&set->lock);
	return count;
}

/* Others get their turn also while connections have something to report all the time. */
static int add_others(struct set *set, struct epoll_event *events, int used, int room)
{
	vb_time now = vb_rsocket_now();
	int count;

	if (used == room || now - set->kernel_asked < KERNEL_INTERVAL)
		return used;
	set->kernel_asked = now;
	count = ask_kernel(set, events + used, room - used, 0, NULL);
	return count < 0 ? used : used + count;
}

/* A peer that answers at once is answered at once: to sleep and be woken takes longer than to look for a while. */
static int look_a_while(struct set *set, struct epoll_event *events, int room)
{
	vb_time now = vb_rsocket_now(), length = vb_patience_length(&set->patience, now), pace = vb_pace_length(vb_rsocket_pace());
	vb_time end = now + (pace > length ? pace : length), last = now;
	bool is_hot;
	int used;

	do {
		vb_mutex_lock(&set->lock);
		used = look_at_hot(set, events, room, false);
		is_hot = !vb_list_is_empty(&set->hot);
		vb_mutex_unlock(&set->lock);
		/* Only here: the kernel would name the same descriptors a second time. */
		if (used > 0 || is_hot)
			used = add_others(set, events, used, room);
	} while (used == 0 && is_hot && vb_patience_goes_on(&set->patience, &last, vb_rsocket_now(), end));
	if (is_hot)
		vb_rsocket_looked(used != 0);
	return used;
}

/* ---- asleep ---- */

/* The sockets of the wire are in the inner set only as long as threads may sleep on them: others would be woken by each packet. Caller
 * holds set->lock. */
static void put_wire(struct set *set, int wire)
{
	if (set->wire == wire)
		return;
	if (set->wire >= 0)
		NEXT(epoll_ctl)(set->inner, EPOLL_CTL_DEL, set->wire, NULL);
	set->wire = wire >= 0 && add(set->inner, wire, EPOLLIN, WIRE_TAG) == 0 ? wire : -1;
}

/* True: the thread sleeps on the wire itself. Caller holds set->lock. */
static bool begin_sleep(struct set *set)
{
	int wire = -1;

	VB_LIST_FOR_EACH(node, &set->registrations) {
		struct vb_connection *connection = vb_container_of(node, struct registration, node)->connection;

		if (vb_connection_phase(connection) != VB_CONNECTION_UP)
			continue;
		vb_mutex_lock(&connection->lock);
		wire = vb_readiness_sleep_begin(connection);
		vb_mutex_unlock(&connection->lock);
		/* It is the same for all. */
		break;
	}
	/* Another that sleeps on the set may do so on the wire. */
	if (wire >= 0 || set->sleepers == 0)
		put_wire(set, wire);
	if (wire >= 0 && set->wire < 0)
		vb_rstream_sleep_end();
	return wire >= 0 && set->wire >= 0;
}

/* Everything is prepared for a sleep. What became ready before, if something did. */
static int prepare_sleep(struct set *set, struct epoll_event *events, int room, bool *by_itself)
{
	int used;

	vb_mutex_lock(&set->lock);
	*by_itself = begin_sleep(set);
	used = look_at_hot(set, events, room, true);
	if (used == 0)
		set->sleepers++;
	vb_mutex_unlock(&set->lock);
	if (used > 0 && *by_itself)
		vb_rstream_sleep_end();
	else if (*by_itself)
		vb_rstream_sleep_settle();
	return used;
}

/* Packets have come, and this thread makes the pass. Where there are many connections, or another thread may be woken by an event, CQs
 * that are armed say which are concerned; where not, all are looked at. Caller holds set->lock. */
static void take_packets(struct set *set)
{
	if (set->connections > FEW || set->sleepers > 1) {
		vb_rstream_sleep_pass();
		(void)take_inner_events(set);
		return;
	}
	VB_LIST_FOR_EACH(node, &set->registrations) {
		struct registration *registration = vb_container_of(node, struct registration, node);
		struct vb_connection *connection = registration->connection;

		if (registration->is_absent)
			continue;
		if (!registration->has_completions) {
			vb_mutex_lock(&connection->lock);
			vb_readiness_disarm(connection, &registration->observer);
			vb_mutex_unlock(&connection->lock);
		}
		warm(registration);
	}
}

/* A thread that was cancelled while it slept. */
static void give_up(void *argument)
{
	struct set *set = argument;

	vb_rstream_sleep_end();
	vb_mutex_lock(&set->lock);
	set->sleepers--;
	vb_mutex_unlock(&set->lock);
	put_set(set);
}

/* Asleep until there is something to report, or the deadline has come. `by_packets`: packets have come, perhaps for nothing of that. */
static int sleep_once(struct set *set, struct epoll_event *events, int room, vb_time deadline, const sigset_t *mask, bool by_itself,
		      bool *by_packets)
{
	unsigned owed = vb_cancellation_owe(give_up, set);
	int count = wait_in_kernel(set, events, room, deadline, mask);

	vb_cancellation_settled(owed);
	if (by_itself)
		vb_rstream_sleep_end();
	vb_mutex_lock(&set->lock);
	*by_packets = count > 0 && take_own(set, events, &count) && take_inner_events(set) && by_itself;
	if (*by_packets) {
		vb_rstream_sleep_woken();
		take_packets(set);
	}
	set->sleepers--;
	if (count >= 0)
		count += look_at_hot(set, events + count, room - count, false);
	vb_mutex_unlock(&set->lock);
	return count;
}

/* Not when packets have come that have nothing for it: the peer's acknowledgements. */
static int sleep_until_ready(struct set *set, struct epoll_event *events, int room, vb_time deadline, const sigset_t *mask)
{
	vb_time asleep_since = vb_rsocket_now(), now;
	bool by_itself, by_packets;
	int used;

	do {
		used = prepare_sleep(set, events, room, &by_itself);
		if (used > 0)
			return add_others(set, events, used, room);
		used = sleep_once(set, events, room, deadline, mask, by_itself, &by_packets);
		now = vb_rsocket_now();
	} while (used == 0 && by_packets && now < deadline);
	vb_mutex_lock(&set->lock);
	set->kernel_asked = now;
	vb_mutex_unlock(&set->lock);
	vb_patience_slept(&set->patience, now - asleep_since, now, by_itself);
	return used;
}

static int wait_once(struct set *set, struct epoll_event *events, int room, vb_time deadline, const sigset_t *mask)
{
	int used = 0;

	vb_mutex_lock(&set->lock);
	used = look_at_hot(set, events, room, false);
	vb_mutex_unlock(&set->lock);
	if (used > 0)
		return add_others(set, events, used, room);
	if (deadline == 0)
		return ask_kernel_and_look(set, events, room, 0, mask);
	used = look_a_while(set, events, room);
	return used > 0 ? used : sleep_until_ready(set, events, room, deadline, mask);
}

bool vb_sockets_epoll_concerns(int epoll)
{
	return vb_fd_table_look(&sets, epoll) != NULL;
}

int vb_sockets_epoll_wait(int epoll, struct epoll_event *events, int room, vb_time deadline, const sigset_t *mask)
{
	struct set *set = get_set(epoll);
	int result;

	if (set == NULL)
		return -EBADF;
	do
		result = wait_once(set, events, room, deadline, mask);
	while (result == 0 && deadline != 0 && (deadline == VB_TIME_NEVER || vb_rsocket_now() < deadline));
	put_set(set);
	return result;
}

/* ---- the end of descriptors ---- */

static void close_set(int fd)
{
	struct set *set;

	vb_mutex_lock(&sets.lock);
	set = vb_fd_table_look(&sets, fd);
	if (set != NULL)
		vb_fd_table_set(&sets, fd, NULL);
	vb_mutex_unlock(&sets.lock);
	if (set == NULL)
		return;
	vb_mutex_lock(&set->lock);
	while (!vb_list_is_empty(&set->registrations))
		remove_registration(vb_container_of(set->registrations.next, struct registration, node));
	vb_mutex_unlock(&set->lock);
	put_set(set);
}

/* Out of every set that has it. */
static void leave_sets(int fd)
{
	int epoll = 0;

	for (;; epoll++) {
		struct registration *registration;
		struct set *set;

		vb_mutex_lock(&sets.lock);
		epoll = vb_fd_table_next(&sets, epoll);
		vb_mutex_unlock(&sets.lock);
		if (epoll < 0)
			return;
		set = get_set(epoll);
		if (set == NULL)
			continue;
		vb_mutex_lock(&set->lock);
		registration = find(set, fd);
		if (registration != NULL)
			remove_registration(registration);
		vb_mutex_unlock(&set->lock);
		put_set(set);
	}
}

void vb_sockets_epoll_forget(int fd)
{
	if (vb_fd_table_look(&noted, fd) != NULL) {
		vb_mutex_lock(&noted.lock);
		vb_fd_table_set(&noted, fd, NULL);
		vb_mutex_unlock(&noted.lock);
	}
	if (vb_fd_table_look(&sets, fd) != NULL)
		close_set(fd);
	if (vb_connection_is_known(fd))
		leave_sets(fd);
}

void vb_sockets_epoll_note(int fd)
{
	vb_mutex_lock(&noted.lock);
	vb_fd_table_set(&noted, fd, &noted);
	vb_mutex_unlock(&noted.lock);
}

bool vb_sockets_epoll_is_noted(int fd)
{
	return vb_fd_table_look(&noted, fd) != NULL;
}
