/* SPDX-License-Identifier: MIT
 *
 * Preloaded into a program: of the calls that its objects make to the C library, one fails. Allocations fail with ENOMEM,
 * system calls with what they fail with when a machine is short of something, or with EINTR.
 *
 *   FAIL_IN=NAME[:NAME]   objects whose calls count: libibverbs.so.1, librdmacm.so.1, verbenad
 *   FAIL_AT=N             the Nth such call fails; 0: none
 *   FAIL_KIND=short       for want of something (default); =interrupted: EINTR, of calls that can have it; =killed: instead of
 *                         the call the process dies, as by kill -9; =stopped: it stops there, until it is told to go on
 *
 * Two lines go to standard error: which call failed, of whom, and (at the end of the program) how many there were.
 * The program may turn it on and off: fail_calls_begin() and fail_calls_end(), found by dlsym. A program without these words is
 * watched from its beginning on.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

enum { MOST_RANGES = 16 };

static struct range {
	uintptr_t begin, end;
	char name[64];
} ranges[MOST_RANGES];
static unsigned range_count;
static unsigned long fail_at, calls;     /* calls: atomic */
static bool interrupts, is_on = true;
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

__attribute__((constructor)) static void prepare(void)
{
	const char *at = getenv("FAIL_AT"), *kind = getenv("FAIL_KIND");

	inside = true;
	interrupts = kind && strcmp(kind, "interrupted") == 0;
	if (kind && strcmp(kind, "killed") == 0)
		signal_number = SIGKILL;
	else if (kind && strcmp(kind, "stopped") == 0)
		signal_number = SIGSTOP;
	dl_iterate_phdr(note_object, NULL);
	is_on = !getenv("FAIL_WAITS");
	fail_at = at ? strtoul(at, NULL, 10) : 0;
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

static bool fails(const char *call, void *caller, bool can_be_interrupted)
{
	uintptr_t at = (uintptr_t)caller;
	bool now = false;

	if (inside || range_count == 0 || !__atomic_load_n(&is_on, __ATOMIC_SEQ_CST) || (interrupts && !can_be_interrupted))
		return false;
	for (unsigned i = 0; i < range_count; i++) {
		if (at < ranges[i].begin || at >= ranges[i].end)
			continue;
		now = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) == fail_at;
		if (!now)
			return false;
		inside = true;
		tell("call %s failed in %s at 0x%lx\n", call, ranges[i].name, (unsigned long)(at - ranges[i].begin));
		if (signal_number != 0) {
			raise(signal_number);
			now = false;
		}
		inside = false;
		break;
	}
	return now;
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
CALL(ssize_t, sendmsg, ENOBUFS, true, (int fd, const struct msghdr *m, int f), LIST(int, const struct msghdr *, int), (fd, m, f))
CALL(ssize_t, recvmsg, ENOMEM, true, (int fd, struct msghdr *m, int f), LIST(int, struct msghdr *, int), (fd, m, f))
CALL(ssize_t, send, ENOBUFS, true, (int fd, const void *b, size_t n, int f), LIST(int, const void *, size_t, int), (fd, b, n, f))
CALL(ssize_t, recv, ENOMEM, true, (int fd, void *b, size_t n, int f), LIST(int, void *, size_t, int), (fd, b, n, f))
CALL(ssize_t, sendto, ENOBUFS, true, (int fd, const void *b, size_t n, int f, const struct sockaddr *a, socklen_t l),
     LIST(int, const void *, size_t, int, const struct sockaddr *, socklen_t), (fd, b, n, f, a, l))
CALL(ssize_t, read, EINTR, true, (int fd, void *b, size_t n), LIST(int, void *, size_t), (fd, b, n))
CALL(ssize_t, write, EINTR, true, (int fd, const void *b, size_t n), LIST(int, const void *, size_t), (fd, b, n))
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
