/* SPDX-License-Identifier: MIT
 *
 * verbenad: the half of RDMA that lives in the kernel elsewhere. One per network namespace: the process that binds the abstract
 * socket name first is it.
 *
 * Started on demand it is told a descriptor to write "ready" to, so that its starter can wait without guessing.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/sandbox.h"
#include "daemon/server.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/host.h"
#include "io/thread.h"
#include "io/unix_socket.h"
#include "wire/daemon_message.h"

#ifndef VERBENA_VERSION
#define VERBENA_VERSION "0"
#endif

/* The program that starts us connects when it hears that we are ready; its machine may be busy. */
#define STARTER_PATIENCE VB_SECONDS(10)

struct options {
	struct vb_server_config server;
	bool foreground;
	int ready;                         /* -1: no process waits */
	int listener;                      /* handed over by systemd, -1: none */
	const char *log;
};

static void print_help(void)
{
	puts("usage: verbenad [OPTION]...\n"
	     "Registry of RDMA devices, queue pair numbers and UDP port 4791 for the processes of this network "
	     "namespace.\n"
	     "Verbena's libraries start it when they need it; several users need the system's, started by root.\n"
	     "\n"
	     "  -s, --system            serve every user, and stay\n"
	     "  -t, --trust-group GROUP users of this group trust each other and may share UDP port 4791\n"
	     "  -f, --foreground        do not go to the background\n"
	     "  -i, --idle-seconds N    exit when nobody was connected for N seconds (VERBENA_IDLE_SECONDS, else 5)\n"
	     "  -l, --log FILE          append messages to FILE; VERBENA_LOG=error|warn|info|debug says how many\n"
	     "  -V, --version           print the version\n"
	     "  -h, --help              print this text");
}

static bool parse_seconds(const char *text, vb_time *out)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end != '\0' || !(seconds >= 0 && seconds <= 1e6))
		return false;
	*out = (vb_time)(seconds * 1e9);
	return true;
}

static bool parse_fd(const char *text, int *out)
{
	char *end;
	long fd = strtol(text, &end, 10);

	if (end == text || *end != '\0' || fd < 0 || fd > 1 << 20)
		return false;
	*out = (int)fd;
	return true;
}

/* Returns an exit status, or -1: go on. */
static int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"system", no_argument, NULL, 's'},
		{"trust-group", required_argument, NULL, 't'},
		{"foreground", no_argument, NULL, 'f'},
		{"idle-seconds", required_argument, NULL, 'i'},
		{"log", required_argument, NULL, 'l'},
		{"ready-fd", required_argument, NULL, 'r'},
		{"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const char *idle = getenv("VERBENA_IDLE_SECONDS");
	int option;

	*options = (struct options){.server.idle = VB_SECONDS(5), .ready = -1, .listener = -1};
	if (idle && *idle && !parse_seconds(idle, &options->server.idle))
		fprintf(stderr, "verbenad: VERBENA_IDLE_SECONDS is not a number: %s\n", idle);
	while ((option = getopt_long(argc, argv, "st:fi:l:Vh", known, NULL)) != -1) {
		switch (option) {
		case 's':
			options->server.system = true;
			break;
		case 't':
			if (!vb_host_group(optarg, &options->server.trusted)) {
				fprintf(stderr, "verbenad: there is no group `%s'\n", optarg);
				return 2;
			}
			options->server.has_trusted = true;
			break;
		case 'f':
			options->foreground = true;
			break;
		case 'i':
			if (!parse_seconds(optarg, &options->server.idle)) {
				fprintf(stderr, "verbenad: not a number of seconds: %s\n", optarg);
				return 2;
			}
			break;
		case 'l':
			options->log = optarg;
			break;
		case 'r':
			if (!parse_fd(optarg, &options->ready)) {
				fprintf(stderr, "verbenad: not a descriptor: %s\n", optarg);
				return 2;
			}
			break;
		case 'V':
			puts("verbenad " VERBENA_VERSION);
			return 0;
		case 'h':
			print_help();
			return 0;
		default:
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "verbenad: what is `%s'? Try --help.\n", argv[optind]);
		return 2;
	}
	return -1;
}

/* The process that waits for us reads one line. */
static void tell_starter(int ready, const char *line)
{
	if (ready < 0)
		return;
	if (dprintf(ready, "%s\n", line) < 0)
		vb_log(VB_LOG_WARN, "nobody waits for this verbenad any more");
	close(ready);
}

/* A listening socket that systemd made, or another that speaks its protocol (sd_listen_fds(3)): it is there before we
 * are, and while we are away. */
static int listener_of_starter(void)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	bool given = pid && count && strtol(pid, NULL, 10) == (long)getpid() && strtol(count, NULL, 10) >= 1;

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return given && vb_unix_is_listener(3) ? 3 : -1;
}

/* Keep standard streams and the starter's descriptor, nothing else of the program we come from. */
static void shed_inheritance(struct options *options)
{
	options->listener = options->ready >= 0 ? -1 : listener_of_starter();
	if (options->listener >= 0) {
		vb_descriptor_close_from(options->listener + 1);
		fcntl(options->listener, F_SETFD, FD_CLOEXEC);
		return;
	}
	if (options->ready >= 0 && options->ready != 3) {
		dup2(options->ready, 3);
		options->ready = 3;
	}
	vb_descriptor_close_from(options->ready >= 0 ? 4 : 3);
	if (options->ready >= 0)
		fcntl(options->ready, F_SETFD, FD_CLOEXEC);
}

/* In the parent: wait for the child's line, and exit with what it says. */
static void follow_child(int from)
{
	char line[512] = "";
	ssize_t got = read(from, line, sizeof(line) - 1);

	if (got > 0 && strcmp(line, "ready\n") == 0)
		_exit(0);
	fprintf(stderr, "verbenad: %s", got > 0 ? line : "it did not start\n");
	_exit(1);
}

/* Leave session, terminal and directory of the process that started us; it must have no child to wait for. */
static int go_to_background(struct options *options)
{
	int ends[2] = {-1, -1}, null;
	pid_t child;

	if (options->ready < 0 && pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	child = fork();
	if (child < 0)
		return -errno;
	if (child > 0) {
		if (options->ready >= 0)
			_exit(0);
		close(ends[1]);
		follow_child(ends[0]);
	}
	if (options->ready < 0) {
		close(ends[0]);
		options->ready = ends[1];
	}
	setsid();
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, 0);
		dup2(null, 1);
		if (!options->log)
			dup2(null, 2);
		if (null > 2)
			close(null);
	}
	return chdir("/") == 0 ? 0 : -errno;
}

static int open_log(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);

	if (fd < 0)
		return -errno;
	dup2(fd, 2);
	if (fd > 2)
		close(fd);
	return 0;
}

/* A process holds the name. When we were started on demand that is as good as being there ourselves. */
static int report_other(const struct options *options)
{
	char line[256] = "another verbenad runs in this network namespace", owner[96];
	struct vb_unix_peer peer;
	int fd = vb_unix_connect(VB_DAEMON_SOCKET);

	if (fd >= 0 && vb_unix_peer(fd, &peer) == 0) {
		vb_host_user_name(peer.uid, owner, sizeof(owner));
		snprintf(line, sizeof(line), "another verbenad runs in this network namespace: pid %d of %s",
			 (int)peer.pid, owner);
	}
	if (fd >= 0)
		close(fd);
	if (options->foreground)
		fprintf(stderr, "verbenad: %s\n", line);
	tell_starter(options->ready, line);
	return 1;
}

/* Root's path, beside the name that any user may take. -errno where there is none to be had. */
static int listen_at_path(void)
{
	char path[64];

	if (!vb_host_meeting_path(VB_DAEMON_DIRECTORY, path, sizeof(path)))
		return -ENOENT;
	/* systemd makes it for the account (RuntimeDirectory=). */
	if (mkdir(VB_DAEMON_DIRECTORY, 0755) == 0 && chmod(VB_DAEMON_DIRECTORY, 0755) != 0)
		return -errno;
	return vb_unix_listen(path);
}

/* Is the name held by who is no verbenad that libraries would use? */
static bool name_is_squatted(void)
{
	struct vb_unix_peer peer;
	int fd = vb_unix_connect(VB_DAEMON_SOCKET);
	bool squatted = fd >= 0 && vb_unix_peer(fd, &peer) == 0 && peer.uid != 0 && peer.uid != geteuid();

	if (squatted)
		vb_log(VB_LOG_WARN, "uid %u, pid %d, holds verbenad's name; processes find this one in " VB_DAEMON_DIRECTORY,
		       (unsigned)peer.uid, (int)peer.pid);
	if (fd >= 0)
		close(fd);
	return squatted;
}

/* It serves all the same where it cannot be had. */
static void enter_sandbox(void)
{
	int error = vb_sandbox_enter();

	if (error == -ENOTSUP)
		vb_log(VB_LOG_INFO, "system calls are not filtered: this build has no list of them");
	else if (error != 0)
		vb_log(VB_LOG_WARN, "system calls are not filtered: %s", strerror(-error));
}

static int run(struct options *options, bool on_demand)
{
	int listener = options->listener >= 0 ? options->listener : vb_unix_listen(VB_DAEMON_SOCKET), error;
	int path = options->server.system ? listen_at_path() : -ENOENT;
	struct vb_server *server;

	if (listener == -EADDRINUSE && on_demand) {
		tell_starter(options->ready, "ready");
		return 0;
	}
	if (path == -EADDRINUSE || (listener == -EADDRINUSE && (path < 0 || !name_is_squatted())))
		return report_other(options);
	if (options->server.system && path < 0)
		vb_log(VB_LOG_INFO, VB_DAEMON_DIRECTORY " is not to be had: %s", strerror(-path));
	vb_thread_prefer_soon();
	enter_sandbox();
	error = listener < 0 && path < 0 ? listener :
					   vb_server_create(&server, (int[]){listener, path}, &options->server);
	if (error != 0) {
		vb_log(VB_LOG_ERROR, "cannot start: %s", strerror(-error));
		tell_starter(options->ready, strerror(-error));
		return 1;
	}
	tell_starter(options->ready, "ready");
	vb_server_run(server);
	vb_server_destroy(server);
	return 0;
}

int main(int argc, char **argv)
{
	struct options options;
	int status = parse_options(argc, argv, &options), error;
	bool on_demand;

	if (status >= 0)
		return status;
	on_demand = options.ready >= 0;
	if (on_demand)
		options.server.first = STARTER_PATIENCE;
	/* Of a program that happens to be the first it has neither descriptors nor processors. What a service manager sets holds. */
	if (on_demand)
		vb_thread_forget_maker();
	shed_inheritance(&options);
	umask(077);
	/* It starts no program, and if it were made to, that would gain nothing. */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	vb_descriptor_raise_limit();
	if (options.log && (error = open_log(options.log)) != 0) {
		fprintf(stderr, "verbenad: %s: %s\n", options.log, strerror(-error));
		return 1;
	}
	if (!options.foreground && (error = go_to_background(&options)) != 0) {
		fprintf(stderr, "verbenad: cannot go to the background: %s\n", strerror(-error));
		return 1;
	}
	return run(&options, on_demand);
}
