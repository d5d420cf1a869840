/* SPDX-License-Identifier: MIT
 *
 * The system calls of those who post and poll, without the C library's functions of these names. Those are points at which a thread may be
 * cancelled (pthreads(7)): they would end an application's thread that polls or posts in the midst of it, with our locks held, and
 * where there are several threads, as in every process of ours, each call asks twice whether that is due, by an atomic exchange
 * each time: 50 ns of the 550 that a look at an empty socket took.
 */
#ifndef VB_IO_UNCANCELLED_H
#define VB_IO_UNCANCELLED_H

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline ssize_t vb_call_read(int fd, void *bytes, size_t length)
{
	return syscall(SYS_read, fd, bytes, length);
}

static inline ssize_t vb_call_write(int fd, const void *bytes, size_t length)
{
	return syscall(SYS_write, fd, bytes, length);
}

static inline int vb_call_connect(int fd, const void *to, socklen_t to_length)
{
	return (int)syscall(SYS_connect, fd, to, to_length);
}

static inline ssize_t vb_call_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return syscall(SYS_sendmsg, fd, message, flags);
}

static inline ssize_t vb_call_sendto(int fd, const void *bytes, size_t length, int flags, const void *to, socklen_t to_length)
{
	return syscall(SYS_sendto, fd, bytes, length, flags, to, to_length);
}

static inline ssize_t vb_call_send(int fd, const void *bytes, size_t length, int flags)
{
	return syscall(SYS_sendto, fd, bytes, length, flags, NULL, 0);
}

static inline ssize_t vb_call_recv(int fd, void *bytes, size_t length, int flags)
{
	return syscall(SYS_recvfrom, fd, bytes, length, flags, NULL, NULL);
}

static inline int vb_call_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

static inline ssize_t vb_call_recvmsg(int fd, struct msghdr *message, int flags)
{
	return syscall(SYS_recvmsg, fd, message, flags);
}

static inline int vb_call_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout)
{
	return (int)syscall(SYS_ppoll, fds, count, timeout, NULL, 0);
}

/* Without a time to wait. */
static inline int vb_call_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	return (int)syscall(SYS_recvmmsg, fd, messages, count, flags, NULL);
}

#endif
