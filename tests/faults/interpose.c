/* SPDX-License-Identifier: MIT
 *
 * Preloaded into a program: of the calls that its objects make to the C library, one fails. Allocations fail with ENOMEM,
 * system calls with what they fail with when a machine is short of something, or with EINTR.
 *
 *   FAIL_IN=NAME[:NAME]   objects whose calls count: libibverbs.so.1, librdmacm.so.1, verbenad
 *   FAIL_AT=N[,M]         the Nth such call fails, and the Mth; 0: none
 *   FAIL_KIND=short       for want of something (default); =interrupted: EINTR, of calls that can have it; =killed: instead of
 *                         the call the process dies, as by kill -9; =stopped: it stops there, until it is told to go on;
 *                         =part: the Nth read or write of a stream or file moves one byte; =pieces: each of them moves N bytes
 *                         at most
 *   FAIL_TELLS=1          on SIGTERM the program ends as if by itself: for those that never do
 *
 * Lines go to standard error: which call failed, of whom, and (at the end of the program) how many there were.
 * The program may turn it on and off: fail_calls_begin() and fail_calls_end(), found by dlsym. A program without these words is
 * watched from its beginning on.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

enum { MOST_RANGES = 16 };

static struct range {
	uintptr_t begin, end;
	char name[64];
} ranges[MOST_RANGES];
static unsigned range_count;
static unsigned long fail_at, fail_again, calls; /* calls: atomic */
static bool interrupts, parts, pieces, is_on = true;
static int signal_number;                /* killed, stopped: this one */
static __thread bool inside;

void fail_calls_begin(void);
void fail_calls_end(void);

static bool is_named(const char *object)
{
	const char *names = getenv("FAIL_IN");
	size_t length = strlen(object);

	while (names && *names && length > 0) {
		const char *end = strchrnul(names, ':');

		if ((size_t)(end - names) == length && memcmp(names, object, length) == 0)
			return true;
		names = *end ? end + 1 : end;
	}
	return false;
}

static int note_object(struct dl_phdr_info *info, size_t size, void *unused)
{
	const char *path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : program_invocation_short_name;
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

	(void)size;
	(void)unused;
	if (!is_named(name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum && range_count < MOST_RANGES; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
			continue;
		ranges[range_count] = (struct range){info->dlpi_addr + header->p_vaddr,
						     info->dlpi_addr + header->p_vaddr + header->p_memsz, ""};
		snprintf(ranges[range_count++].name, sizeof(ranges[0].name), "%s", name);
	}
	return 0;
}

static void tell(const char *format, ...)
{
	char line[256];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (write(2, line, (size_t)length) < 0)
		abort();
}

static void tell_and_end(int number)
{
	(void)number;
	inside = true;
	tell("calls %lu\n", calls);
	_exit(0);
}

__attribute__((constructor)) static void prepare(void)
{
	const char *at = getenv("FAIL_AT"), *kind = getenv("FAIL_KIND");
	char *rest = NULL;

	inside = true;
	interrupts = kind && strcmp(kind, "interrupted") == 0;
	pieces = kind && strcmp(kind, "pieces") == 0;
	parts = pieces || (kind && strcmp(kind, "part") == 0);
	if (kind && strcmp(kind, "killed") == 0)
		signal_number = SIGKILL;
	else if (kind && strcmp(kind, "stopped") == 0)
		signal_number = SIGSTOP;
	dl_iterate_phdr(note_object, NULL);
	is_on = !getenv("FAIL_WAITS");
	if (range_count > 0 && getenv("FAIL_TELLS"))
		signal(SIGTERM, tell_and_end);
	fail_at = at ? strtoul(at, &rest, 10) : 0;
	fail_again = rest && *rest == ',' ? strtoul(rest + 1, NULL, 10) : 0;
	inside = false;
}

VISIBLE void fail_calls_begin(void)
{
	__atomic_store_n(&is_on, true, __ATOMIC_SEQ_CST);
}

VISIBLE void fail_calls_end(void)
{
	__atomic_store_n(&is_on, false, __ATOMIC_SEQ_CST);
}

__attribute__((destructor)) static void tell_count(void)
{
	inside = true;
	if (range_count > 0)
		tell("calls %lu\n", calls);
}

/* The object whose call it is, NULL: one that does not count, or not now. */
static const struct range *range_of(void *caller)
{
	uintptr_t at = (uintptr_t)caller;

	if (inside || !__atomic_load_n(&is_on, __ATOMIC_SEQ_CST))
		return NULL;
	for (unsigned i = 0; i < range_count; i++)
		if (at >= ranges[i].begin && at < ranges[i].end)
			return &ranges[i];
	return NULL;
}

/* Is it the Nth, or the Mth? */
static bool is_the_one(const char *call, void *caller)
{
	const struct range *range = range_of(caller);
	unsigned long number = range ? __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) : 0;
	bool now = number != 0 && (number == fail_at || number == fail_again);

	if (!now)
		return false;
	inside = true;
	tell("call %s failed in %s at 0x%lx\n", call, range->name, (unsigned long)((uintptr_t)caller - range->begin));
	if (signal_number != 0) {
		raise(signal_number);
		now = false;
	}
	inside = false;
	return now;
}

static bool fails(const char *call, void *caller, bool can_be_interrupted)
{
	return !parts && (!interrupts || can_be_interrupted) && is_the_one(call, caller);
}

/* What moves bytes of a stream or a file may move fewer than it is asked to. Messages are whole. */
static size_t part_of(const char *call, void *caller, int fd, size_t length)
{
	int type = 0;
	struct stat status;
	socklen_t size = sizeof(type);
	bool flows;

	if (!parts || inside || range_count == 0 || length < 2)
		return length;
	inside = true;
	/* A file may be short once; memory that is shared, which is one too, never is. */
	flows = fstat(fd, &status) == 0 && ((S_ISREG(status.st_mode) && !pieces) || S_ISFIFO(status.st_mode) ||
		(S_ISSOCK(status.st_mode) && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM));
	inside = false;
	if (pieces && flows && range_of(caller)) {
		__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
		return fail_at > 0 && length > fail_at ? fail_at : length;
	}
	return !pieces && flows && is_the_one(call, caller) ? 1 : length;
}

/* Of a message: that much of its first span. */
static const struct msghdr *part_of_message(const char *call, void *caller, int fd, const struct msghdr *message, struct msghdr *part,
					    struct iovec *piece)
{
	size_t whole = 0, length;

	for (size_t i = 0; parts && i < (size_t)message->msg_iovlen; i++)
		whole += message->msg_iov[i].iov_len;
	length = part_of(call, caller, fd, whole);
	if (length == whole || message->msg_iov[0].iov_len == 0)
		return message;
	*part = *message;
	*piece = message->msg_iov[0];
	piece->iov_len = length < piece->iov_len ? length : piece->iov_len;
	part->msg_iov = piece;
	part->msg_iovlen = 1;
	return part;
}

/* The C library's own. */
#define REAL(type, name, ...)                                           \
	static type (*real_)(__VA_ARGS__);                              \
	if (!real_) {                                                   \
		inside = true;                                          \
		*(void **)&real_ = dlsym(RTLD_NEXT, name);              \
		inside = false;                                         \
	}
#define FAIL_WITH(name, error, interruptible)                                               \
	/* With EINTR alone: what it is used on fails in no other way. */                     \
	if ((interrupts || (error) != EINTR) && fails(name, __builtin_return_address(0), interruptible)) { \
		errno = interrupts ? EINTR : (error);                                        \
		return -1;                                                                   \
	}

/* dlsym may allocate: these must not ask it. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *pointer, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

#define FAIL_ALLOCATION(name)                                            \
	if (fails(name, __builtin_return_address(0), false)) {           \
		errno = ENOMEM;                                          \
		return NULL;                                             \
	}

VISIBLE void *malloc(size_t size)
{
	FAIL_ALLOCATION("malloc");
	return __libc_malloc(size);
}

VISIBLE void *calloc(size_t count, size_t size)
{
	FAIL_ALLOCATION("calloc");
	return __libc_calloc(count, size);
}

VISIBLE void *realloc(void *pointer, size_t size)
{
	FAIL_ALLOCATION("realloc");
	return __libc_realloc(pointer, size);
}

VISIBLE void *aligned_alloc(size_t alignment, size_t size)
{
	FAIL_ALLOCATION("aligned_alloc");
	return __libc_memalign(alignment, size);
}

VISIBLE int posix_memalign(void **out, size_t alignment, size_t size)
{
	if (fails("posix_memalign", __builtin_return_address(0), false))
		return ENOMEM;
	*out = __libc_memalign(alignment, size);
	return *out ? 0 : ENOMEM;
}

#define CALL(type, name, error, interruptible, parameters, types, arguments) \
	VISIBLE type name parameters                                         \
	{                                                                    \
		REAL(type, #name, types);                                    \
		FAIL_WITH(#name, error, interruptible);                      \
		return real_ arguments;                                      \
	}
#define LIST(...) __VA_ARGS__

CALL(int, socket, EMFILE, false, (int a, int b, int c), LIST(int, int, int), (a, b, c))
CALL(int, bind, ENOBUFS, false, (int fd, const struct sockaddr *a, socklen_t n), LIST(int, const struct sockaddr *, socklen_t), (fd, a, n))
CALL(int, connect, EAGAIN, false, (int fd, const struct sockaddr *a, socklen_t n), LIST(int, const struct sockaddr *, socklen_t),
     (fd, a, n))
CALL(int, listen, EADDRINUSE, false, (int fd, int n), LIST(int, int), (fd, n))
CALL(int, accept4, EMFILE, true, (int fd, struct sockaddr *a, socklen_t *n, int f), LIST(int, struct sockaddr *, socklen_t *, int),
     (fd, a, n, f))
CALL(int, setsockopt, ENOBUFS, false, (int fd, int l, int o, const void *v, socklen_t n), LIST(int, int, int, const void *, socklen_t),
     (fd, l, o, v, n))
CALL(int, getsockopt, ENOBUFS, false, (int fd, int l, int o, void *v, socklen_t *n), LIST(int, int, int, void *, socklen_t *),
     (fd, l, o, v, n))
CALL(int, getsockname, ENOBUFS, false, (int fd, struct sockaddr *a, socklen_t *n), LIST(int, struct sockaddr *, socklen_t *), (fd, a, n))
CALL(int, socketpair, EMFILE, false, (int a, int b, int c, int v[2]), LIST(int, int, int, int *), (a, b, c, v))
VISIBLE ssize_t sendmsg(int fd, const struct msghdr *m, int f)
{
	struct msghdr part;
	struct iovec piece;

	REAL(ssize_t, "sendmsg", int, const struct msghdr *, int);
	FAIL_WITH("sendmsg", ENOBUFS, true);
	return real_(fd, part_of_message("sendmsg", __builtin_return_address(0), fd, m, &part, &piece), f);
}

VISIBLE ssize_t recvmsg(int fd, struct msghdr *m, int f)
{
	struct msghdr part;
	struct iovec piece;
	const struct msghdr *asked;
	ssize_t got;

	REAL(ssize_t, "recvmsg", int, struct msghdr *, int);
	FAIL_WITH("recvmsg", ENOMEM, true);
	asked = part_of_message("recvmsg", __builtin_return_address(0), fd, m, &part, &piece);
	if (asked == m)
		return real_(fd, m, f);
	got = real_(fd, &part, f);
	m->msg_flags = part.msg_flags;
	m->msg_controllen = part.msg_controllen;
	m->msg_namelen = part.msg_namelen;
	return got;
}

#define MOVE(name, error, parameters, types, arguments)                                     \
	VISIBLE ssize_t name parameters                                                     \
	{                                                                                   \
		REAL(ssize_t, #name, types);                                                \
		FAIL_WITH(#name, error, true);                                              \
		n = part_of(#name, __builtin_return_address(0), fd, n);                     \
		return real_ arguments;                                                     \
	}

MOVE(send, ENOBUFS, (int fd, const void *b, size_t n, int f), LIST(int, const void *, size_t, int), (fd, b, n, f))
MOVE(recv, ENOMEM, (int fd, void *b, size_t n, int f), LIST(int, void *, size_t, int), (fd, b, n, f))
MOVE(sendto, ENOBUFS, (int fd, const void *b, size_t n, int f, const struct sockaddr *a, socklen_t l),
     LIST(int, const void *, size_t, int, const struct sockaddr *, socklen_t), (fd, b, n, f, a, l))
MOVE(read, EINTR, (int fd, void *b, size_t n), LIST(int, void *, size_t), (fd, b, n))
MOVE(write, EINTR, (int fd, const void *b, size_t n), LIST(int, const void *, size_t), (fd, b, n))
CALL(int, epoll_create1, EMFILE, false, (int f), LIST(int), (f))
CALL(int, epoll_ctl, ENOSPC, false, (int e, int o, int fd, struct epoll_event *v), LIST(int, int, int, struct epoll_event *), (e, o, fd, v))
CALL(int, epoll_wait, EINTR, true, (int e, struct epoll_event *v, int n, int t), LIST(int, struct epoll_event *, int, int), (e, v, n, t))
CALL(int, poll, ENOMEM, true, (struct pollfd *v, nfds_t n, int t), LIST(struct pollfd *, nfds_t, int), (v, n, t))
CALL(int, ppoll, ENOMEM, true, (struct pollfd *v, nfds_t n, const struct timespec *t, const sigset_t *s),
     LIST(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *), (v, n, t, s))
CALL(int, eventfd, EMFILE, false, (unsigned v, int f), LIST(unsigned, int), (v, f))
CALL(int, memfd_create, EMFILE, false, (const char *n, unsigned f), LIST(const char *, unsigned), (n, f))
CALL(int, ftruncate64, ENOSPC, true, (int fd, off64_t n), LIST(int, off64_t), (fd, n))
CALL(int, pipe2, EMFILE, false, (int v[2], int f), LIST(int *, int), (v, f))

CALL(int, getpeername, ENOBUFS, false, (int fd, struct sockaddr *a, socklen_t *n), LIST(int, struct sockaddr *, socklen_t *), (fd, a, n))
CALL(int, dup3, EMFILE, true, (int a, int b, int f), LIST(int, int, int), (a, b, f))
CALL(int, madvise, ENOMEM, false, (void *a, size_t n, int f), LIST(void *, size_t, int), (a, n, f))
CALL(ssize_t, getrandom, EINTR, true, (void *b, size_t n, unsigned f), LIST(void *, size_t, unsigned), (b, n, f))
CALL(pid_t, waitpid, EINTR, true, (pid_t p, int *s, int f), LIST(pid_t, int *, int), (p, s, f))
CALL(ssize_t, readlink, ENOMEM, false, (const char *p, char *b, size_t n), LIST(const char *, char *, size_t), (p, b, n))
CALL(int, getifaddrs, ENOMEM, false, (struct ifaddrs **l), LIST(struct ifaddrs **), (l))
CALL(ssize_t, process_vm_readv, ENOMEM, false,
     (pid_t p, const struct iovec *a, unsigned long n, const struct iovec *b, unsigned long m, unsigned long f),
     LIST(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long), (p, a, n, b, m, f))
CALL(ssize_t, process_vm_writev, ENOMEM, false,
     (pid_t p, const struct iovec *a, unsigned long n, const struct iovec *b, unsigned long m, unsigned long f),
     LIST(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long), (p, a, n, b, m, f))
CALL(int, recvmmsg, ENOMEM, true, (int fd, struct mmsghdr *m, unsigned n, int f, struct timespec *t),
     LIST(int, struct mmsghdr *, unsigned, int, struct timespec *), (fd, m, n, f, t))
CALL(int, sendmmsg, ENOBUFS, true, (int fd, struct mmsghdr *m, unsigned n, int f), LIST(int, struct mmsghdr *, unsigned, int),
     (fd, m, n, f))
CALL(ssize_t, readv, EINTR, true, (int fd, const struct iovec *v, int n), LIST(int, const struct iovec *, int), (fd, v, n))
CALL(ssize_t, writev, EINTR, true, (int fd, const struct iovec *v, int n), LIST(int, const struct iovec *, int), (fd, v, n))
CALL(int, timerfd_create, EMFILE, false, (int c, int f), LIST(int, int), (c, f))
MOVE(recvfrom, ENOMEM, (int fd, void *b, size_t n, int f, struct sockaddr *a, socklen_t *l),
     LIST(int, void *, size_t, int, struct sockaddr *, socklen_t *), (fd, b, n, f, a, l))
MOVE(pread64, EINTR, (int fd, void *b, size_t n, off64_t o), LIST(int, void *, size_t, off64_t), (fd, b, n, o))

#define OPEN(type, name, parameters, types, arguments)                                     \
	VISIBLE type *name parameters                                                      \
	{                                                                                  \
		REAL(type *, #name, types);                                                \
		if (fails(#name, __builtin_return_address(0), false)) {                    \
			errno = EMFILE;                                                    \
			return NULL;                                                       \
		}                                                                          \
		return real_ arguments;                                                    \
	}

OPEN(FILE, fopen, (const char *p, const char *m), LIST(const char *, const char *), (p, m))
OPEN(FILE, fopen64, (const char *p, const char *m), LIST(const char *, const char *), (p, m))
OPEN(DIR, opendir, (const char *p), LIST(const char *), (p))

/* Without the C library's functions: those that packets pass (io/uncancelled.h), and those that it has none for: membarrier, pidfd_open. */
static const struct kernel_call {
	long number;
	const char *name;
	int error;
	bool can_be_interrupted;
} kernel_calls[] = {
	{SYS_socket, "socket", EMFILE, false},     {SYS_sendmsg, "sendmsg", ENOBUFS, true},   {SYS_sendto, "sendto", ENOBUFS, true},
	{SYS_sendmmsg, "sendmmsg", ENOBUFS, true}, {SYS_recvfrom, "recvfrom", ENOMEM, true},  {SYS_recvmsg, "recvmsg", ENOMEM, true},
	{SYS_recvmmsg, "recvmmsg", ENOMEM, true},  {SYS_connect, "connect", EAGAIN, false},   {-1, "syscall", ENOMEM, false},
};

static const struct kernel_call *find_kernel_call(long number)
{
	const struct kernel_call *call = kernel_calls;

	while (call->number != number && call->number != -1)
		call++;
	return call;
}

VISIBLE long syscall(long number, ...)
{
	const struct kernel_call *call = find_kernel_call(number);
	void *caller = __builtin_return_address(0);
	struct msghdr part, *message = NULL;
	struct iovec piece;
	va_list arguments;
	long argument[6], result;

	va_start(arguments, number);
	for (unsigned i = 0; i < 6; i++)
		argument[i] = va_arg(arguments, long);
	va_end(arguments);
	REAL(long, "syscall", long, ...);
	if (fails(call->name, caller, call->can_be_interrupted)) {
		errno = interrupts ? EINTR : call->error;
		return -1;
	}
	if (number == SYS_sendto || number == SYS_recvfrom)
		argument[2] = (long)part_of(call->name, caller, (int)argument[0], (size_t)argument[2]);
	if (number == SYS_sendmsg || number == SYS_recvmsg) {
		message = (struct msghdr *)argument[1];
		argument[1] = (long)part_of_message(call->name, caller, (int)argument[0], message, &part, &piece);
	}
	result = real_(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
	if (number == SYS_recvmsg && argument[1] == (long)&part) {
		message->msg_flags = part.msg_flags;
		message->msg_controllen = part.msg_controllen;
		message->msg_namelen = part.msg_namelen;
	}
	return result;
}

VISIBLE char *strdup(const char *text)
{
	size_t length = strlen(text) + 1;
	char *copy;

	FAIL_ALLOCATION("strdup");
	copy = __libc_malloc(length);
	return copy ? memcpy(copy, text, length) : NULL;
}

VISIBLE int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
			char *const *words, char *const *environment)
{
	REAL(int, "posix_spawn", pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const *,
	     char *const *);
	if (fails("posix_spawn", __builtin_return_address(0), false))
		return EAGAIN;
	return real_(pid, path, actions, attributes, words, environment);
}

VISIBLE void *mremap(void *address, size_t old_length, size_t length, int flags, ...)
{
	va_list arguments;
	void *wanted;

	va_start(arguments, flags);
	wanted = va_arg(arguments, void *);
	va_end(arguments);
	REAL(void *, "mremap", void *, size_t, size_t, int, ...);
	if (fails("mremap", __builtin_return_address(0), false)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return real_(address, old_length, length, flags, wanted);
}

VISIBLE void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset)
{
	REAL(void *, "mmap64", void *, size_t, int, int, int, off64_t);
	if (fails("mmap", __builtin_return_address(0), false)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return real_(address, length, protection, flags, fd, offset);
}

VISIBLE int fcntl64(int fd, int command, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	REAL(int, "fcntl64", int, int, ...);
	if (command == F_DUPFD_CLOEXEC) {
		FAIL_WITH("fcntl(F_DUPFD)", EMFILE, false);
	}
	return real_(fd, command, argument);
}

VISIBLE int open64(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, mode_t);
	va_end(arguments);
	REAL(int, "open64", const char *, int, ...);
	FAIL_WITH("open", EMFILE, true);
	return real_(path, flags, mode);
}

VISIBLE int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	REAL(int, "pthread_create", pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	if (fails("pthread_create", __builtin_return_address(0), false))
		return EAGAIN;
	return real_(thread, attributes, run, argument);
}
