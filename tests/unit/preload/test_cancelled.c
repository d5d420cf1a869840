/* SPDX-License-Identifier: MIT
 *
 * Threads that are cancelled (pthread_cancel, pthreads(7)) in the calls of libverbena-sockets.so, which this program is linked with: its
 * recv, poll and the others are that library's. One that was told to end does so at the beginning of a call that is a point of
 * cancellation, or where it sleeps; it has changed nothing, leaves no lock held and nothing behind. It comes back from all others.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/tcp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "wire/sleeping_call.h"

enum { MANY = 64, ROUNDS = 50, SETTLED = 10, PORT = 7000 };

static const char *const here = "10.77.0.1", *const there = "10.77.0.2"; /* two of lo: as two hosts are to librdmacm */

int execute_ioctl(struct ibv_context *context, void *command);

/* ---- connections ---- */

static struct sockaddr_in address_of(const char *host, in_port_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	assert_int_equal(inet_pton(AF_INET, host, &address.sin_addr), 1);
	return address;
}

static int open_listener(void)
{
	struct sockaddr_in address = address_of(here, PORT);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

/* [0] connected, [1] was accepted. Nothing has been said on it yet. */
static void connect_pair(int pair[2])
{
	struct sockaddr_in from = address_of(there, 0), to = address_of(here, PORT);
	int listener = open_listener();

	pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(pair[0], (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(pair[0], (struct sockaddr *)&to, sizeof(to)), 0);
	pair[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(pair[1] >= 0);
	assert_int_equal(close(listener), 0);
}

static void close_pair(const int pair[2])
{
	assert_int_equal(close(pair[0]), 0);
	assert_int_equal(close(pair[1]), 0);
}

/* Bytes that TCP has sent on it. */
static uint64_t by_tcp(int fd)
{
	struct tcp_info info;
	socklen_t length = sizeof(info);

	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
	return info.tcpi_bytes_sent;
}

/* A byte that may be the beginning of a token is held back until the other side has made a call. */
static bool comes(int from, int to, char expected)
{
	char got = 0;
	ssize_t count = recv(to, &got, 1, MSG_DONTWAIT);

	(void)poll(&(struct pollfd){.fd = from, .events = POLLIN}, 1, 0);
	if (count < 0)
		return false;
	assert_int_equal(count, 1);
	assert_int_equal(got, expected);
	return true;
}

static void say(int from, int to, char what)
{
	assert_int_equal(send(from, &what, 1, 0), 1);
	assert_true(eventually(comes(from, to, what)));
}

static bool talk_by_rdma(const int pair[2])
{
	uint64_t before = by_tcp(pair[0]) + by_tcp(pair[1]);

	say(pair[0], pair[1], 'a');
	say(pair[1], pair[0], 'b');
	return by_tcp(pair[0]) + by_tcp(pair[1]) == before;
}

static void move_over(const int pair[2])
{
	assert_true(eventually(talk_by_rdma(pair)));
}

/* ---- the calls that are points of cancellation ---- */

static void call_read(int fd)
{
	char byte;

	(void)!read(fd, &byte, 1);
}

static void call_readv(int fd)
{
	char byte;

	(void)!readv(fd, &(struct iovec){.iov_base = &byte, .iov_len = 1}, 1);
}

static void call_recv(int fd)
{
	char byte;

	(void)!recv(fd, &byte, 1, 0);
}

static void call_recvfrom(int fd)
{
	char byte;

	(void)!recvfrom(fd, &byte, 1, 0, NULL, NULL);
}

static void call_recvmsg(int fd)
{
	char byte;
	struct msghdr message = {.msg_iov = &(struct iovec){.iov_base = &byte, .iov_len = 1}, .msg_iovlen = 1};

	(void)!recvmsg(fd, &message, 0);
}

static void call_recvmmsg(int fd)
{
	char byte;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct mmsghdr message = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};

	(void)recvmmsg(fd, &message, 1, 0, NULL);
}

static void call_poll(int fd)
{
	struct pollfd fds[MANY];

	for (unsigned i = 0; i < MANY; i++)
		fds[i] = (struct pollfd){.fd = i == 0 ? fd : -1, .events = POLLIN};
	(void)poll(fds, MANY, -1);
}

static void call_ppoll(int fd)
{
	(void)ppoll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, NULL, NULL);
}

static void call_select(int fd)
{
	fd_set readable;

	FD_ZERO(&readable);
	FD_SET(fd, &readable);
	(void)select(fd + 1, &readable, NULL, NULL, NULL);
}

static void call_pselect(int fd)
{
	fd_set readable;

	FD_ZERO(&readable);
	FD_SET(fd, &readable);
	(void)pselect(fd + 1, &readable, NULL, NULL, NULL, NULL);
}

static int epoll = -1;                     /* with what they wait for */

static void call_epoll_wait(int fd)
{
	struct epoll_event event;

	(void)fd;
	(void)epoll_wait(epoll, &event, 1, -1);
}

static void call_epoll_pwait2(int fd)
{
	struct epoll_event event;

	(void)fd;
	(void)epoll_pwait2(epoll, &event, 1, NULL, NULL);
}

typedef void call(int fd);

static call *const receiving[] = {
	call_read, call_readv, call_recv, call_recvfrom, call_recvmsg, call_recvmmsg, call_poll, call_ppoll, call_select, call_pselect,
	call_epoll_wait, call_epoll_pwait2,
};

enum { RECEIVING = sizeof(receiving) / sizeof(receiving[0]) };

static void call_write(int fd)
{
	(void)!write(fd, "x", 1);
}

static void call_writev(int fd)
{
	char byte = 'x';

	(void)!writev(fd, &(struct iovec){.iov_base = &byte, .iov_len = 1}, 1);
}

static void call_send(int fd)
{
	(void)!send(fd, "x", 1, 0);
}

static void call_sendto(int fd)
{
	(void)!sendto(fd, "x", 1, 0, NULL, 0);
}

static void call_sendmsg(int fd)
{
	char byte = 'x';
	struct msghdr message = {.msg_iov = &(struct iovec){.iov_base = &byte, .iov_len = 1}, .msg_iovlen = 1};

	(void)!sendmsg(fd, &message, 0);
}

static void call_sendmmsg(int fd)
{
	char byte = 'x';
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct mmsghdr message = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};

	(void)sendmmsg(fd, &message, 1, 0);
}

static void call_close(int fd)
{
	(void)close(fd);
}

static call *const others[] = {call_write, call_writev, call_send, call_sendto, call_sendmsg, call_sendmmsg, call_close};

enum { OTHERS = sizeof(others) / sizeof(others[0]) };

static void send_for_ever(int fd)
{
	static const char bytes[64 * 1024];

	while (send(fd, bytes, sizeof(bytes), 0) > 0)
		;
}

static void open_epoll(int fd)
{
	epoll = epoll_create1(EPOLL_CLOEXEC);
	assert_true(epoll >= 0);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN}), 0);
}

/* ---- asleep ---- */

struct sleeper {
	call *sleep;
	int fd;
	pthread_t thread;
	sem_t ready;
	int look;                        /* /proc/.../syscall of it */
};

static void *sleep_in_call(void *argument)
{
	struct sleeper *sleeper = argument;

	sleeper->look = open("/proc/thread-self/syscall", O_RDONLY | O_CLOEXEC);
	sem_post(&sleeper->ready);
	sleeper->sleep(sleeper->fd);
	return NULL;
}

/* In which system call, and with what. */
static long call_of(const struct sleeper *sleeper, unsigned long *first, unsigned long *second)
{
	char said[256] = "";
	long number = -1;

	if (pread(sleeper->look, said, sizeof(said) - 1, 0) <= 0 || sscanf(said, "%ld %lx %lx", &number, first, second) != 3)
		return -1;
	return number;
}

static bool sleeps(const struct sleeper *sleeper)
{
	unsigned long first, second;
	long number = call_of(sleeper, &first, &second);

	return number == SYS_ppoll || number == SYS_epoll_pwait;
}

static void start_sleeper(struct sleeper *sleeper, call *sleep, int fd)
{
	*sleeper = (struct sleeper){.sleep = sleep, .fd = fd};
	assert_int_equal(sem_init(&sleeper->ready, 0, 0), 0);
	assert_int_equal(pthread_create(&sleeper->thread, NULL, sleep_in_call, sleeper), 0);
	assert_int_equal(sem_wait(&sleeper->ready), 0);
	assert_true(sleeper->look >= 0);
}

static void cancel_sleeper(struct sleeper *sleeper)
{
	void *result;

	assert_int_equal(pthread_cancel(sleeper->thread), 0);
	assert_int_equal(pthread_join(sleeper->thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	close(sleeper->look);
	sem_destroy(&sleeper->ready);
}

static void cancel_asleep(call *sleep, int fd)
{
	struct sleeper sleeper;

	start_sleeper(&sleeper, sleep, fd);
	assert_true(eventually(sleeps(&sleeper)));
	cancel_sleeper(&sleeper);
}

static void is_cancelled_while_it_sleeps(void **state)
{
	int pair[2];

	(void)state;
	connect_pair(pair);
	open_epoll(pair[0]);
	/* By TCP, with an rsocket that waits for its peer; and by RDMA. */
	for (unsigned i = 0; i < RECEIVING; i++)
		cancel_asleep(receiving[i], pair[0]);
	move_over(pair);
	for (unsigned i = 0; i < RECEIVING; i++) {
		cancel_asleep(receiving[i], pair[0]);
		say(pair[1], pair[0], 'c');
	}
	cancel_asleep(send_for_ever, pair[0]);
	assert_int_equal(poll(&(struct pollfd){.fd = pair[1], .events = POLLIN}, 1, -1), 1);
	assert_int_equal(close(epoll), 0);
	close_pair(pair);
}

static size_t in_use(void)
{
	return mallinfo2().uordblks;
}

/* What the first threads leave is theirs to keep: caches, tables. */
static void leaves_nothing_behind(void **state)
{
	size_t before = 0;
	int pair[2];

	(void)state;
	connect_pair(pair);
	move_over(pair);
	open_epoll(pair[0]);
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (i == SETTLED)
			before = in_use();
		cancel_asleep(call_poll, pair[0]);
		cancel_asleep(call_select, pair[0]);
		cancel_asleep(call_recv, pair[0]);
		cancel_asleep(call_epoll_wait, pair[0]);
	}
	/* Each list of poll's has 64 entries. */
	assert_in_range(in_use(), 0, before + (size_t)(ROUNDS - SETTLED) * MANY);
	assert_int_equal(close(epoll), 0);
	close_pair(pair);
}

/* ---- asleep on the sockets that packets come by (wire/sleeping_call.h) ---- */

static struct ibv_context *context;

static int ask(enum vb_sleeping_verb verb)
{
	struct vb_sleeping_call wanted = {.magic = VB_SLEEPING_MAGIC, .version = VB_SLEEPING_VERSION, .verb = verb, .fd = -1};

	return execute_ioctl(context, &wanted);
}

static void receive_for_ever(int fd)
{
	char byte;

	while (recv(fd, &byte, 1, 0) == 1)
		;
}

static void poll_for_ever(int fd)
{
	char byte;

	while (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1) == 1 && recv(fd, &byte, 1, 0) == 1)
		;
}

/* Those are an epoll set; its other descriptors are none. */
static bool sleeps_on_the_wire(const struct sleeper *sleeper)
{
	unsigned long first = 0, count = 0;
	const struct pollfd *fds;

	if (call_of(sleeper, &first, &count) != SYS_ppoll)
		return false;
	fds = (const struct pollfd *)first;
	for (unsigned long i = 0; i < count; i++) {
		char path[64], what[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[i].fd);
		if (readlink(path, what, sizeof(what) - 1) > 0 && strcmp(what, "anon_inode:[eventpoll]") == 0)
			return true;
	}
	return false;
}

/* It does when no other thread went to sleep for a while, so it is woken now and then. */
static bool wake_until_on_the_wire(const struct sleeper *sleeper, int from)
{
	if (!sleeps(sleeper))
		return false;
	if (sleeps_on_the_wire(sleeper))
		return true;
	assert_int_equal(send(from, "w", 1, 0), 1);
	return false;
}

static void cancel_on_the_wire(call *sleep, const int pair[2])
{
	struct sleeper sleeper;

	start_sleeper(&sleeper, sleep, pair[0]);
	assert_true(eventually(wake_until_on_the_wire(&sleeper, pair[1])));
	cancel_sleeper(&sleeper);
	/* Another thread can have it. */
	assert_true(eventually(ask(VB_SLEEPING_BEGIN) == 0));
	assert_int_equal(ask(VB_SLEEPING_END), 0);
}

static void another_sleeps_on_the_wire(void **state)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	int pair[2];

	(void)state;
	assert_non_null(devices);
	context = ibv_open_device(devices[0]);
	assert_non_null(context);
	connect_pair(pair);
	move_over(pair);
	cancel_on_the_wire(receive_for_ever, pair);
	cancel_on_the_wire(poll_for_ever, pair);
	close_pair(pair);
	assert_int_equal(ibv_close_device(context), 0);
	ibv_free_device_list(devices);
}

/* ---- told to end beforehand ---- */

struct told {
	call *make;
	int fd;
	bool came_back;
};

static void *call_when_told(void *argument)
{
	struct told *told = argument;

	pthread_cancel(pthread_self());
	told->make(told->fd);
	told->came_back = true;
	return NULL;
}

static void expect_end_at_call(call *make, int fd)
{
	struct told told = {.make = make, .fd = fd};
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, call_when_told, &told), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_false(told.came_back);
	assert_ptr_equal(result, PTHREAD_CANCELED);
}

/* ---- cancelled asynchronously, as iperf3's threads are ---- */

struct sender {
	int fd;
	bool goes;                         /* atomic: it has made a call */
};

static void *send_without_end(void *argument)
{
	struct sender *sender = argument;
	char bytes[512] = "";

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;) {
		(void)send(sender->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		__atomic_store_n(&sender->goes, true, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* Whenever it is told: it leaves no lock held that the next call wants. Each round is ended at another moment of some microseconds. */
static void holds_nothing_when_it_ends_at_any_time(void **state)
{
	char bytes[4096];
	int pair[2];

	(void)state;
	connect_pair(pair);
	move_over(pair);
	for (int round = 0; round < 300; round++) {
		struct sender sender = {.fd = pair[0]};
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, send_without_end, &sender), 0);
		while (!__atomic_load_n(&sender.goes, __ATOMIC_ACQUIRE))
			sched_yield();
		assert_int_equal(pthread_cancel(thread), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		(void)send(pair[0], "x", 1, MSG_DONTWAIT);
		while (recv(pair[1], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
	}
	close_pair(pair);
}

/* There is something to read, and room to write. Nothing of that is different afterwards. */
static void ends_at_the_beginning(void **state)
{
	int pair[2], bytes = 0;

	(void)state;
	connect_pair(pair);
	for (unsigned i = 0; i < OTHERS; i++)
		expect_end_at_call(others[i], pair[0]);
	move_over(pair);
	open_epoll(pair[0]);
	assert_int_equal(send(pair[1], "y", 1, 0), 1);
	assert_int_equal(poll(&(struct pollfd){.fd = pair[0], .events = POLLIN}, 1, -1), 1);
	for (unsigned i = 0; i < RECEIVING; i++)
		expect_end_at_call(receiving[i], pair[0]);
	for (unsigned i = 0; i < OTHERS; i++)
		expect_end_at_call(others[i], pair[0]);
	assert_int_equal(ioctl(pair[0], FIONREAD, &bytes), 0);
	assert_int_equal(bytes, 1);
	assert_true(comes(pair[1], pair[0], 'y'));
	assert_int_equal(ioctl(pair[1], FIONREAD, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_true(talk_by_rdma(pair));
	assert_int_equal(close(epoll), 0);
	close_pair(pair);
}

/* ---- calls that are no points of cancellation ---- */

/* Both sides are asked again and again: the rsocket comes about, and the tokens are written and read. */
static bool has_moved_over(const int pair[2])
{
	uint64_t before = by_tcp(pair[0]) + by_tcp(pair[1]);
	int bytes[2];

	(void)ioctl(pair[0], FIONREAD, &bytes[0]);
	(void)ioctl(pair[1], FIONREAD, &bytes[1]);
	return by_tcp(pair[0]) + by_tcp(pair[1]) == before && before >= 32;
}

/* Not by a nap: that would be a point of cancellation. */
static bool moves_over(const int pair[2])
{
	int64_t begun = patience_clock();

	while (!has_moved_over(pair)) {
		if (patience_clock() - begun > PATIENCE_MS)
			return false;
		sched_yield();
	}
	return true;
}

static void *live(void *argument)
{
	bool *came_back = argument;
	int pair[2], file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), before, copy, set;
	struct epoll_event event = {.events = EPOLLIN};

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	connect_pair(pair);
	/* So that it is used. */
	assert_int_equal(recv(pair[1], &(char){0}, 1, MSG_DONTWAIT), -1);
	pthread_cancel(pthread_self());
	(void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
	assert_true(file >= 0);
	assert_true(moves_over(pair));
	copy = dup(pair[0]);
	assert_int_equal(dup2(pair[0], copy), copy);
	assert_int_equal(dup3(pair[1], copy, O_CLOEXEC), copy);
	set = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event), 0);
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_DEL, pair[0], &event), 0);
	assert_int_equal(sendfile(pair[0], file, NULL, 1000), 1000);
	assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(shutdown(pair[0], SHUT_RDWR), 0);
	/* What is left of it ends. */
	assert_int_equal(dup2(file, pair[0]), pair[0]);
	assert_int_equal(dup2(file, pair[1]), pair[1]);
	assert_int_equal(dup2(file, copy), copy);
	assert_int_equal(dup2(file, set), set);
	*came_back = true;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	close(pair[0]);
	close(pair[1]);
	close(copy);
	close(set);
	close(file);
	return NULL;
}

static void is_not_cancelled_elsewhere(void **state)
{
	bool came_back = false;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, live, &came_back), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(came_back);
}

/* ---- at any moment ---- */

struct busy {
	int pair[2];
	sem_t begun;
};

static void *be_busy(void *argument)
{
	struct busy *busy = argument;

	for (unsigned turn = 0;; turn++) {
		struct epoll_event event;
		int fd = busy->pair[turn % 2];
		char bytes[100];

		(void)!send(fd, "z", 1, MSG_DONTWAIT);
		(void)!recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		(void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0);
		(void)epoll_wait(epoll, &event, 1, 0);
		if (turn == 0)
			sem_post(&busy->begun);
	}
	return NULL;
}

static bool is_empty(const int pair[2])
{
	char bytes[1000];
	ssize_t got[2] = {recv(pair[0], bytes, sizeof(bytes), MSG_DONTWAIT), recv(pair[1], bytes, sizeof(bytes), MSG_DONTWAIT)};

	return got[0] < 0 && got[1] < 0;
}

static void leaves_no_lock_wherever_it_is(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct busy busy;
		pthread_t thread;

		connect_pair(busy.pair);
		open_epoll(busy.pair[1]);
		assert_int_equal(sem_init(&busy.begun, 0, 0), 0);
		assert_int_equal(pthread_create(&thread, NULL, be_busy, &busy), 0);
		assert_int_equal(sem_wait(&busy.begun), 0);
		for (unsigned yields = 0; yields < i; yields++)
			sched_yield();
		assert_int_equal(pthread_cancel(thread), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_true(eventually(is_empty(busy.pair)));
		(void)is_empty(busy.pair);
		sem_destroy(&busy.begun);
		assert_int_equal(close(epoll), 0);
		close_pair(busy.pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_cancelled_while_it_sleeps),
		cmocka_unit_test(leaves_nothing_behind),
		cmocka_unit_test(holds_nothing_when_it_ends_at_any_time),
		cmocka_unit_test(ends_at_the_beginning),
		cmocka_unit_test(is_not_cancelled_elsewhere),
		cmocka_unit_test(leaves_no_lock_wherever_it_is),
	};
	const struct CMUnitTest of_wire[] = {cmocka_unit_test(another_sleeps_on_the_wire)};
	int failed;

	private_network_enter();
	if (private_network_add_address("lo", here, 32) != 0 || private_network_add_address("lo", there, 32) != 0)
		return 77;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (getenv("VERBENA_WIRE") != NULL)
		failed += cmocka_run_group_tests(of_wire, NULL, NULL);
	return failed;
}
