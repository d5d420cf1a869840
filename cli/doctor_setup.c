/* SPDX-License-Identifier: MIT
 *
 * Is Verbena itself in order: its files, its daemon, its port, the programs people run with it, the environment?
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "cli/library.h"
#include "cli/names.h"
#include "cli/view.h"
#include "io/daemon_client.h"
#include "io/daemon_silence.h"

static void check_libraries(struct vb_cli_report *report)
{
	char directory[VB_CLI_PATH_MAX], path[VB_CLI_PATH_MAX + 32];

	if (vb_cli_library_directory(directory) != 0) {
		vb_cli_report_add(report, "libraries", VB_CLI_FAIL,
				  "Build with `make`, or install with `make install`.",
				  "no libibverbs.so.1 of ours lies near this program");
		return;
	}
	snprintf(path, sizeof(path), "%s/librdmacm.so.1", directory);
	if (access(path, R_OK) != 0)
		vb_cli_report_add(report, "libraries", VB_CLI_WARN,
				  "Build with `make`, or install with `make install`.",
				  "%s has libibverbs.so.1 but no librdmacm.so.1", directory);
	else
		vb_cli_report_add(report, "libraries", VB_CLI_OK, NULL, "libibverbs.so.1 and librdmacm.so.1 in %s",
				  directory);
}

static void check_view(struct vb_cli_report *report)
{
	char found[VB_CLI_PATH_MAX];

	if (vb_cli_view_check(found) != 0)
		vb_cli_report_add(report, "view", VB_CLI_WARN,
				  "UCX, MPI and NCCL look for devices in /sys and /dev and will find none. `make install`\n"
				  "puts the library in place; the directory is yours to make, with mode 0700.",
				  "%s", found);
	else
		vb_cli_report_add(report, "view", VB_CLI_OK, NULL,
				  "`verbena run` shows devices in /sys/class/infiniband and /dev/infiniband, from %s", found);
}

/* ---- the daemon and its port ---- */

/* True: a daemon that we can use runs. */
static bool check_daemon(struct vb_cli_report *report)
{
	char root[VB_CLI_PATH_MAX], path[VB_CLI_PATH_MAX + 32], user[VB_CLI_USER_ROOM];
	const char *chosen = getenv("VERBENA_DAEMON");
	struct vb_daemon_client daemon;
	int error = vb_daemon_client_connect(&daemon, false);

	if (error == 0) {
		vb_daemon_client_close(&daemon);
		vb_cli_report_add(report, "daemon", VB_CLI_OK, NULL, "verbenad %s answers: pid %u, of %s%s",
				  daemon.version, daemon.pid, vb_cli_user_name(daemon.uid, user),
				  daemon.is_system ? ", for all users" : "");
		return true;
	}
	if (error == -EACCES) {
		vb_cli_report_add(
			report, "daemon", VB_CLI_FAIL,
			"One daemon serves a network namespace. For several users let root start the system's:\n"
			"verbenad --system (systemd: systemctl enable --now verbenad). Or use a namespace of your "
			"own:\n"
			"unshare -Urn sh -c 'ip link set lo up && exec bash'",
			"the verbenad that runs here belongs to another user");
		return false;
	}
	if (error == -ETIMEDOUT) {
		snprintf(path, sizeof(path),
			 "kill -CONT %u lets one go on that is stopped. If it has to go: kill -9 %u; the next program starts another.",
			 daemon.pid, daemon.pid);
		vb_cli_report_add(report, "daemon", VB_CLI_FAIL, daemon.pid != 0 ? path : "End it; the next program starts another.",
				  "verbenad (pid %u) %s", daemon.pid, vb_daemon_silence_in_words((pid_t)daemon.pid));
		return false;
	}
	if (error != -ECONNREFUSED && error != -ECONNRESET) {
		vb_cli_report_add(report, "daemon", VB_CLI_FAIL, "Stop it; the next program starts a new one.",
				  "a verbenad runs here but does not answer as it should: %s", strerror(-error));
		return false;
	}
	if (chosen && *chosen)
		snprintf(path, sizeof(path), "%s", chosen);
	else if (vb_cli_root_directory(root) == 0)
		snprintf(path, sizeof(path), "%s/bin/verbenad", root);
	else
		path[0] = '\0';
	if (access(path, X_OK) == 0)
		vb_cli_report_add(report, "daemon", VB_CLI_OK, NULL,
				  "none runs; the first program that opens a device starts %s", path);
	else
		vb_cli_report_add(report, "daemon", VB_CLI_FAIL,
				  "Build with `make`, or let VERBENA_DAEMON say where it is.",
				  "none runs, and there is none to start at %s", path);
	return false;
}

/* ---- other stacks ---- */

static bool module_is_loaded(const char *name)
{
	FILE *modules = fopen("/proc/modules", "r");
	bool loaded = false;
	char line[512];

	while (modules && !loaded && fgets(line, sizeof(line), modules))
		loaded = !strncmp(line, name, strlen(name)) && line[strlen(name)] == ' ';
	if (modules)
		fclose(modules);
	return loaded;
}

static void check_other_stacks(struct vb_cli_report *report)
{
	DIR *directory = opendir("/sys/class/infiniband");
	char names[256] = "";
	struct dirent *entry;
	size_t at = 0;

	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.' && at < sizeof(names))
			at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", at ? ", " : "", entry->d_name);
	if (directory)
		closedir(directory);
	if (module_is_loaded("rdma_rxe"))
		vb_cli_report_add(report, "kernel RDMA", VB_CLI_WARN,
				  "rxe takes UDP port 4791 in every network namespace that has one of its links.",
				  "the module rdma_rxe is loaded%s%s", names[0] ? "; devices: " : "", names);
	else if (names[0])
		vb_cli_report_add(report, "kernel RDMA", VB_CLI_OK, NULL,
				  "devices of the kernel: %s; programs under `verbena run` do not see them", names);
	else
		vb_cli_report_add(report, "kernel RDMA", VB_CLI_OK, NULL, "none, and none is needed");
}

/* ---- programs ---- */

static bool in_path(const char *name)
{
	const char *search = getenv("PATH");
	char path[VB_CLI_PATH_MAX];

	for (search = search ? search : "/usr/bin:/bin"; *search; search += *search == ':') {
		size_t length = strcspn(search, ":");

		snprintf(path, sizeof(path), "%.*s/%s", (int)length, search, name);
		if (length && access(path, X_OK) == 0)
			return true;
		search += length;
	}
	return false;
}

static void check_programs(struct vb_cli_report *report)
{
	static const struct {
		const char *package, *program;
		bool wanted;               /* by the demo and the first steps of every tutorial */
	} rows[] = {
		{ "ibverbs-utils", "ibv_rc_pingpong", true },
		{ "perftest", "ib_write_bw", true },
		{ "rdmacm-utils", "rping", true },
		{ "fio", "fio", false },
	};
	char there[128] = "", missing[128] = "", advice[192];
	size_t have = 0, lack = 0;
	bool wanted = false;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (in_path(rows[i].program)) {
			have += (size_t)snprintf(there + have, sizeof(there) - have, "%s%s", have ? ", " : "",
						 rows[i].package);
		} else {
			lack += (size_t)snprintf(missing + lack, sizeof(missing) - lack, "%s%s", lack ? " " : "",
						 rows[i].package);
			wanted = wanted || rows[i].wanted;
		}
	}
	snprintf(advice, sizeof(advice), "To try more programs: apt-get install %s", missing);
	vb_cli_report_add(report, "programs", wanted ? VB_CLI_WARN : VB_CLI_OK, lack ? advice : NULL,
			  "installed: %s%s%s", have ? there : "none", lack ? "; not installed: " : "", missing);
}

/* ---- the environment ---- */

/* The first directory of a search path that holds a libibverbs.so.1. */
static bool find_in_search(const char *search, char found[VB_CLI_PATH_MAX])
{
	for (; *search; search += *search == ':') {
		size_t length = strcspn(search, ":");
		char path[VB_CLI_PATH_MAX + 32];

		snprintf(path, sizeof(path), "%.*s/libibverbs.so.1", (int)length, search);
		if (length && access(path, R_OK) == 0) {
			snprintf(found, VB_CLI_PATH_MAX, "%.*s", (int)length, search);
			return true;
		}
		search += length;
	}
	return false;
}

static bool is_same_file(const char *directory, const char *other)
{
	char *a = realpath(directory, NULL), *b = realpath(other, NULL);
	bool same = a && b && !strcmp(a, b);

	free(a);
	free(b);
	return same;
}

static void check_environment(struct vb_cli_report *report)
{
	const char *search = getenv("LD_LIBRARY_PATH"), *preload = getenv("LD_PRELOAD");
	char ours[VB_CLI_PATH_MAX] = "", found[VB_CLI_PATH_MAX];

	(void)vb_cli_library_directory(ours);
	if (preload && (strstr(preload, "libibverbs") || strstr(preload, "librdmacm")))
		vb_cli_report_add(report, "environment", VB_CLI_WARN, "unset LD_PRELOAD",
				  "LD_PRELOAD=%s comes before our libraries", preload);
	else if (!search || !*search)
		vb_cli_report_add(report, "environment", VB_CLI_OK, NULL,
				  "LD_LIBRARY_PATH is not set; `verbena run` sets it");
	else if (!find_in_search(search, found))
		vb_cli_report_add(report, "environment", VB_CLI_OK, NULL, "LD_LIBRARY_PATH names no other libibverbs");
	else if (is_same_file(found, ours))
		vb_cli_report_add(report, "environment", VB_CLI_OK, NULL,
				  "LD_LIBRARY_PATH finds our libraries, also without `verbena run`");
	else
		vb_cli_report_add(report, "environment", VB_CLI_WARN,
				  "`verbena run` puts ours first. A program started without it uses the other one.",
				  "LD_LIBRARY_PATH finds another libibverbs.so.1, in %s", found);
}

void vb_cli_doctor_setup(struct vb_cli_report *report)
{
	check_libraries(report);
	check_view(report);
	vb_cli_doctor_port(report, check_daemon(report));
	check_other_stacks(report);
	check_programs(report);
	check_environment(report);
}
