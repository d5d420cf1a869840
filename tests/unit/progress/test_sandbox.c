/* SPDX-License-Identifier: MIT
 *
 * The daemon's filter of system calls: what it needs works, what it does not need is refused, and what nobody asks of it
 * but an intruder ends it. Each in a process of its own, which cannot leave the filter again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/sandbox.h"
#include "io/clock.h"
#include "io/host.h"
#include "io/netlink.h"
#include "io/udp.h"

enum { NOT_TO_BE_HAD = 78 };

/* Gives what the call returned, or -errno. */
typedef long (*call)(void);

/* How a process ends that enters the sandbox and calls: its wait status. What the call gives is compared with `expected`. */
static int run(call act, long expected)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		struct rlimit no_core = {0, 0};
		int error;

		setrlimit(RLIMIT_CORE, &no_core);
		error = vb_sandbox_enter();
		if (error == -ENOTSUP)
			_exit(NOT_TO_BE_HAD);
		_exit(error == 0 && act() == expected ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static long do_nothing(void)
{
	return 0;
}

static bool is_to_be_had(void)
{
	bool had = WEXITSTATUS(run(do_nothing, 0)) != NOT_TO_BE_HAD;

	if (!had)
		print_message("no filter with a sanitizer\n");
	return had;
}

#define RESULT(expression)                       \
	({                                       \
		long rc_ = (long)(expression);   \
		rc_ < 0 ? -errno : rc_;          \
	})

static long exec_program(void)
{
	char *argv[] = {(char *)"true", NULL};

	return RESULT(execv("/bin/true", argv));
}

static long exec_descriptor(void)
{
	return RESULT(syscall(SYS_execveat, AT_FDCWD, "/bin/true", NULL, NULL, 0));
}

static long fork_process(void)
{
	return RESULT(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

static long trace(void)
{
	return RESULT(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static long read_process(void)
{
	char byte = 1, other;
	struct iovec from = {&byte, 1}, to = {&other, 1};

	return RESULT(process_vm_readv(getpid(), &to, 1, &from, 1, 0));
}

static long leave_namespace(void)
{
	return RESULT(unshare(CLONE_NEWNS));
}

static long change_user(void)
{
	return RESULT(setuid(getuid()));
}

static long load_program(void)
{
	return RESULT(syscall(SYS_bpf, 0, NULL, 0));
}

#ifdef __x86_64__
static long other_numbers(void)
{
	return RESULT(syscall(0x40000000 | SYS_getpid));
}
#endif

static void intruders_end_it(void **state)
{
	static const call calls[] = {
		exec_program, exec_descriptor, fork_process, trace, read_process, leave_namespace, change_user, load_program,
#ifdef __x86_64__
		other_numbers,
#endif
	};

	(void)state;
	if (!is_to_be_had())
		return;
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int status = run(calls[i], 0);

		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			fail_msg("call %u: status 0x%x", i, (unsigned)status);
	}
}

static long write_file(void)
{
	return RESULT(open("/dev/null", O_WRONLY));
}

static long create_file(void)
{
	return RESULT(open("/tmp/verbena-sandbox", O_RDONLY | O_CREAT, 0600));
}

static long remove_file(void)
{
	return RESULT(unlink("/tmp/verbena-sandbox"));
}

static long make_directory(void)
{
	return RESULT(mkdir("/tmp/verbena-sandbox", 0700));
}

static long open_key_socket(void)
{
	return RESULT(socket(AF_KEY, SOCK_RAW, 2));
}

static long signal_other(void)
{
	return RESULT(kill(getpid(), 0));
}

static long signal_parent_thread(void)
{
	return RESULT(syscall(SYS_tgkill, syscall(SYS_getpid) - 1, syscall(SYS_getpid) - 1, 0));
}

static void the_rest_is_refused(void **state)
{
	static const call calls[] = {
		write_file, create_file, remove_file, make_directory, open_key_socket, signal_other, signal_parent_thread,
	};

	(void)state;
	if (!is_to_be_had())
		return;
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (run(calls[i], -EPERM) != 0)
			fail_msg("call %u is not refused", i);
}

/* What a daemon does in its life, in short; the tests of netns/ have it do all of it. */
static long do_the_daemons_work(void)
{
	struct vb_interface *interfaces;
	unsigned count;
	char name[96];
	int epoll = epoll_create1(EPOLL_CLOEXEC), udp = vb_udp_open_receiver(false, 0), memory = memfd_create("test", MFD_CLOEXEC);

	if (epoll < 0 || udp < 0 || memory < 0 || ftruncate(memory, 4096) != 0)
		return 1;
	if (vb_netlink_interfaces(&interfaces, &count) != 0 || count == 0)
		return 2;
	free(interfaces);
	/* Name services may load a library. */
	vb_host_user_name(geteuid(), name, sizeof(name));
	return name[0] == '\0' || vb_clock_now() == 0 ? 3 : 0;
}

static long abort_itself(void)
{
	abort();
}

static void the_daemons_work_is_done(void **state)
{
	(void)state;
	if (!is_to_be_had())
		return;
	assert_int_equal(run(do_the_daemons_work, 0), 0);
	/* A failed assertion ends it as ever. */
	assert_int_equal(WTERMSIG(run(abort_itself, 0)), SIGABRT);
}

/* A container may have no filters to give. */
static void without_filters_it_goes_on(void **state)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(steps) / sizeof(steps[0]), steps};
	int status;
	pid_t child;

	(void)state;
	if (!is_to_be_had())
		return;
	child = fork();
	if (child == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
			_exit(2);
		_exit(vb_sandbox_enter() == -ENOSYS && open("/dev/null", O_WRONLY) >= 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intruders_end_it),
		cmocka_unit_test(the_rest_is_refused),
		cmocka_unit_test(the_daemons_work_is_done),
		cmocka_unit_test(without_filters_it_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
