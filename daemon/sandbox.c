/* SPDX-License-Identifier: MIT
 *
 * A classic BPF program over struct seccomp_data: the number is compared with each entry of two lists, and three calls
 * have their arguments looked at. The kernel remembers which numbers are always allowed (since 5.11), so the length of
 * the lists costs nothing on the way of a message.
 *
 * Numbers differ between processors, and calls that an older one has (open, poll) the newer lack; what is not defined is
 * left out. The program's first look is at the processor: the same number means something else on another.
 */
#include "daemon/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#define NATIVE 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED true
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED false
#endif

static const int fatal[] = {
	/* programs, processes, threads */
	SYS_execve, SYS_execveat, SYS_clone,
#ifdef SYS_clone3
	SYS_clone3,
#endif
#ifdef SYS_fork
	SYS_fork, SYS_vfork,
#endif
	/* others' memory */
	SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_userfaultfd,
#ifdef SYS_pidfd_getfd
	SYS_pidfd_getfd,
#endif
	/* users, namespaces, roots */
	SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups, SYS_setfsuid, SYS_setfsgid,
	SYS_capset, SYS_unshare, SYS_setns, SYS_chroot, SYS_pivot_root, SYS_mount, SYS_umount2,
#ifdef SYS_open_tree
	SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsmount, SYS_fsconfig,
#endif
	/* the kernel */
	SYS_bpf, SYS_perf_event_open, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot, SYS_swapon,
	SYS_swapoff, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_open_by_handle_at, SYS_personality,
#ifdef SYS_io_uring_setup
	SYS_io_uring_setup,
#endif
};

static const int allowed[] = {
	/* the loop */
	SYS_epoll_pwait, SYS_epoll_ctl, SYS_epoll_create1, SYS_ppoll, SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep,
#ifdef SYS_epoll_wait
	SYS_epoll_wait, SYS_poll,
#endif
#ifdef SYS_epoll_pwait2
	SYS_epoll_pwait2,
#endif
	/* sockets; socket(2) is below */
	SYS_recvmsg, SYS_sendmsg, SYS_recvmmsg, SYS_sendmmsg, SYS_recvfrom, SYS_sendto, SYS_accept4, SYS_bind,
	SYS_connect, SYS_listen, SYS_socketpair,
	SYS_getsockname, SYS_getpeername, SYS_getsockopt, SYS_setsockopt, SYS_shutdown,
	/* descriptors and files; openat(2) is below */
	SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_close, SYS_fcntl, SYS_dup, SYS_dup3, SYS_lseek, SYS_fstat,
	SYS_newfstatat, SYS_statx, SYS_getdents64, SYS_readlinkat, SYS_ioctl, SYS_ftruncate, SYS_memfd_create, SYS_eventfd2,
#ifdef SYS_readlink
	SYS_readlink, SYS_stat, SYS_lstat, SYS_access, SYS_dup2,
#endif
	SYS_faccessat,
#ifdef SYS_close_range
	SYS_close_range,
#endif
#ifdef SYS_pidfd_open
	SYS_pidfd_open,
#endif
	/* memory */
	SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_futex,
	/* itself; tgkill(2) is below */
	SYS_getpid, SYS_gettid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrandom, SYS_sched_yield, SYS_uname, SYS_sysinfo,
	SYS_prlimit64, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall, SYS_exit, SYS_exit_group,
#ifdef SYS_getrlimit
	SYS_getrlimit,
#endif
};

static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET};

enum {
	COUNT_FATAL = sizeof(fatal) / sizeof(fatal[0]),
	COUNT_ALLOWED = sizeof(allowed) / sizeof(allowed[0]),
	COUNT_FAMILIES = sizeof(families) / sizeof(families[0]),
	ROOM = 2 * (COUNT_FATAL + COUNT_ALLOWED + COUNT_FAMILIES) + 40,
};

/* Where openat(2) has its flags, and what in them would change a file. O_TMPFILE comes with O_RDWR. */
enum { OPENAT_FLAGS = 2, OPEN_FLAGS = 1, CHANGES = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC };

#define REFUSED (SECCOMP_RET_ERRNO | (EPERM & SECCOMP_RET_DATA))

struct program {
	struct sock_filter step[ROOM];
	unsigned short length;
};

static void add(struct program *program, uint16_t code, uint32_t value, uint8_t if_true, uint8_t if_false)
{
	program->step[program->length++] = (struct sock_filter)BPF_JUMP(code, value, if_true, if_false);
}

static void load(struct program *program, size_t offset)
{
	add(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void end_with(struct program *program, uint32_t action)
{
	add(program, BPF_RET | BPF_K, action, 0, 0);
}

/* The lower half of an argument: descriptors, families and flags are ints. */
static void load_argument(struct program *program, unsigned index)
{
	load(program, offsetof(struct seccomp_data, args) + index * sizeof(uint64_t) +
			      (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(uint32_t) : 0));
}

/* If what was loaded is `value`: that is the answer. */
static void decide(struct program *program, int value, uint32_t action)
{
	add(program, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)value, 0, 1);
	end_with(program, action);
}

static void look_at_families(struct program *program)
{
	add(program, BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 2 * COUNT_FAMILIES + 2);
	load_argument(program, 0);
	for (unsigned i = 0; i < COUNT_FAMILIES; i++)
		decide(program, families[i], SECCOMP_RET_ALLOW);
	end_with(program, REFUSED);
}

static void look_at_flags(struct program *program, int number, unsigned argument)
{
	add(program, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 4);
	load_argument(program, argument);
	add(program, BPF_JMP | BPF_JSET | BPF_K, CHANGES, 0, 1);
	end_with(program, REFUSED);
	end_with(program, SECCOMP_RET_ALLOW);
}

/* abort(3) is a signal to oneself alone. */
static void look_at_signals(struct program *program)
{
	add(program, BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 4);
	load_argument(program, 0);
	add(program, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getpid(), 0, 1);
	end_with(program, SECCOMP_RET_ALLOW);
	end_with(program, REFUSED);
}

static void write_program(struct program *program)
{
	program->length = 0;
	load(program, offsetof(struct seccomp_data, arch));
	add(program, BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0);
	end_with(program, SECCOMP_RET_KILL_PROCESS);
	load(program, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
	/* The same calls once more, by numbers of their own. */
	add(program, BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
	end_with(program, SECCOMP_RET_KILL_PROCESS);
#endif
	for (unsigned i = 0; i < COUNT_ALLOWED; i++)
		decide(program, allowed[i], SECCOMP_RET_ALLOW);
	for (unsigned i = 0; i < COUNT_FATAL; i++)
		decide(program, fatal[i], SECCOMP_RET_KILL_PROCESS);
	/* Each of these loads something else, and answers then whatever it is. */
	look_at_families(program);
	look_at_flags(program, SYS_openat, OPENAT_FLAGS);
#ifdef SYS_open
	look_at_flags(program, SYS_open, OPEN_FLAGS);
#endif
	look_at_signals(program);
	end_with(program, REFUSED);
}

int vb_sandbox_enter(void)
{
	static struct program program;
	struct sock_fprog whole = {.filter = program.step};

	if (NATIVE == 0 || IS_SANITIZED)
		return -ENOTSUP;
	write_program(&program);
	whole.len = program.length;
	/* Without it a filter needs CAP_SYS_ADMIN. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) != 0)
		return -errno;
	return 0;
}
