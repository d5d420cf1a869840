/* SPDX-License-Identifier: MIT
 *
 * `verbena run [--] CMD...`: replace this process by the command, with our libraries first on the loader's path.
 * Nothing else needs to be configured: the library starts the daemon by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/capture.h"
#include "cli/command.h"
#include "cli/library.h"
#include "cli/loader.h"
#include "cli/profile.h"
#include "cli/view.h"
#include "preload/sockets/filter.h"
#include "progress/devices.h"

/* Where Debian keeps the usual tools, for the error message of a user who has just installed us. */
static const struct {
	const char *prefix, *package;
} tool_packages[] = {
	{ "ibv_", "ibverbs-utils" },
	{ "ib_", "perftest" },
	{ "raw_ethernet_", "perftest" },
	{ "rping", "rdmacm-utils" },
	{ "ucmatose", "rdmacm-utils" },
	{ "udaddy", "rdmacm-utils" },
	{ "mckey", "rdmacm-utils" },
	{ "rstream", "rdmacm-utils" },
	{ "riostream", "rdmacm-utils" },
	{ "rcopy", "rdmacm-utils" },
	{ "rdma_", "rdmacm-utils" },
	{ "cmtime", "rdmacm-utils" },
	{ "opensm", "opensm" },
	{ "osmtest", "opensm" },
	{ "ibsim", "ibsim-utils" },
	{ "ib", "infiniband-diags" },
	{ "saquery", "infiniband-diags" },
	{ "sminfo", "infiniband-diags" },
	{ "smp", "infiniband-diags" },
	{ "perfquery", "infiniband-diags" },
	{ "dump_", "infiniband-diags" },
	{ "vendstat", "infiniband-diags" },
};

static bool is_runnable(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

static bool is_found(const char *name, const char *search, char path[VB_CLI_PATH_MAX])
{
	while (true) {
		size_t length = strcspn(search, ":");
		int written = length ? snprintf(path, VB_CLI_PATH_MAX, "%.*s/%s", (int)length, search, name)
				     : snprintf(path, VB_CLI_PATH_MAX, "./%s", name);

		if (written < VB_CLI_PATH_MAX && is_runnable(path))
			return true;
		if (!search[length])
			return false;
		search += length + 1;
	}
}

/* As execvp would: a name with a slash is a path, any other is looked up in PATH. Then where opensm and infiniband-diags are: on many
 * systems an ordinary user's PATH does not have it. */
static int find_command(const char *name, char path[VB_CLI_PATH_MAX])
{
	const char *search = getenv("PATH");

	if (strchr(name, '/')) {
		if (snprintf(path, VB_CLI_PATH_MAX, "%s", name) >= VB_CLI_PATH_MAX)
			return -ENAMETOOLONG;
		if (access(path, F_OK) != 0)
			return -errno;
		return is_runnable(path) ? 0 : -EACCES;
	}
	if (!search)
		search = "/usr/local/bin:/usr/bin:/bin";
	return is_found(name, search, path) || is_found(name, "/usr/local/sbin:/usr/sbin:/sbin", path) ? 0 : -ENOENT;
}

static int complain_not_found(const char *name)
{
	fprintf(stderr, "verbena run: %s: command not found\n", name);
	for (size_t i = 0; i < sizeof(tool_packages) / sizeof(tool_packages[0]); i++)
		if (!strncmp(name, tool_packages[i].prefix, strlen(tool_packages[i].prefix))) {
			fprintf(stderr, "On Debian and Ubuntu it is in the package %s.\n", tool_packages[i].package);
			break;
		}
	return VB_CLI_NOT_FOUND;
}

static int set_library_path(void)
{
	char directory[VB_CLI_PATH_MAX], *value;
	const char *before = getenv("LD_LIBRARY_PATH");
	int error = vb_cli_library_directory(directory);
	size_t length;

	if (error) {
		fprintf(stderr, "verbena run: our libibverbs.so.1 is neither in ../lib nor in ../lib/verbena of this "
				"program: %s\n", strerror(-error));
		return error;
	}
	length = strlen(directory);
	if (!before || !*before)
		return setenv("LD_LIBRARY_PATH", directory, 1) ? -errno : 0;
	if (!strncmp(before, directory, length) && (before[length] == ':' || before[length] == '\0'))
		return 0;
	if (asprintf(&value, "%s:%s", directory, before) < 0)
		return -ENOMEM;
	error = setenv("LD_LIBRARY_PATH", value, 1) ? -errno : 0;
	free(value);
	return error;
}

static bool without_view;

/* What else a program needs to find devices that are no kernel's. Without it libibverbs lists them all the same,
 * which is enough for most: so a failure is told only to those who ask why. */
static void show_devices(void)
{
	char why[VB_CLI_PATH_MAX];

	if (without_view)
		return;
	/* NCCL 2.28.7 to 2.28.9 call through a pointer of -1 where there are devices and none is an mlx5
	 * (ncclNetPluginInit), unless told which kind of communication started by the GPU to use: none. */
	setenv("NCCL_GIN_TYPE", "0", 0);
	/* Open MPI prefers UCX to TCP only where there is a device of a driver that it has heard of (mlx). */
	setenv("OMPI_MCA_opal_common_ucx_devices", "any", 0);
	if (vb_cli_view_provide(why) != 0 && getenv("VERBENA_EXPLAIN"))
		fprintf(stderr, "verbena: programs that look for devices in /sys/class/infiniband or /dev/infiniband (UCX, "
				"MPI, NCCL) will find none: %s\n", why);
}

/* opensm keeps LIDs and dumps in directories that are root's, and ends where it may not. Who may not write there and has not said where to
 * instead gets a directory of his own, which opensm makes, one for each network namespace: two subnet managers on one machine do not share
 * it. */
static void keep_for_opensm(void)
{
	char path[VB_CLI_PATH_MAX];

	if ((access("/var/cache/opensm", W_OK) == 0 || access("/var/cache", W_OK) == 0) && access("/var/log", W_OK) == 0)
		return;
	if ((getenv("OSM_CACHE_DIR") && getenv("OSM_TMP_DIR")) || vb_cli_view_beside("opensm", path) != 0)
		return;
	setenv("OSM_CACHE_DIR", path, 0);
	setenv("OSM_TMP_DIR", path, 0);
}

static const char *sockets;

/* TCP connections by RDMA: the ports, for the library that is preloaded. */
static int provide_sockets(void)
{
	char why[VB_CLI_PATH_MAX] = "no memory";

	if (!sockets)
		return VB_CLI_DONE;
	if (setenv("VERBENA_SOCKETS", sockets, 1) == 0 && vb_cli_preload("libverbena-sockets.so", why) == 0)
		return VB_CLI_DONE;
	fprintf(stderr, "verbena run: --sockets: %s\n", why);
	return VB_CLI_FAILED;
}

int vb_cli_run_command(char **command, int count)
{
	char path[VB_CLI_PATH_MAX];
	int error = count > 0 ? find_command(command[0], path) : -ENOENT;

	if (error == -ENOENT || error == -ENOTDIR)
		return complain_not_found(command[0]);
	if (error) {
		fprintf(stderr, "verbena run: %s: %s\n", command[0], strerror(-error));
		return VB_CLI_CANNOT_START;
	}
	if (set_library_path() != 0)
		return VB_CLI_FAILED;
	vb_cli_loader_warn(path);
	show_devices();
	keep_for_opensm();
	if (provide_sockets() != VB_CLI_DONE)
		return VB_CLI_FAILED;
	execv(path, command);
	fprintf(stderr, "verbena run: %s: %s\n", path, strerror(errno));
	return VB_CLI_CANNOT_START;
}

/* --explain to stderr, --explain=FILE; the library reads the environment (docs/explain.md). */
static bool ask_for_explanations(const char *option)
{
	static const char name[] = "--explain";
	const char *file = option + strlen(name);

	if (strncmp(option, name, strlen(name)) != 0 || (*file != '\0' && *file != '='))
		return false;
	return setenv("VERBENA_EXPLAIN", *file == '=' ? file + 1 : "1", 1) == 0;
}

/* A file that cannot be written is said before the command runs: many programs send what the library says to nowhere. */
static int check_explanations(void)
{
	const char *file = getenv("VERBENA_EXPLAIN");
	int fd;

	if (!file || !*file || !strcmp(file, "0") || !strcmp(file, "1"))
		return VB_CLI_DONE;
	fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0) {
		fprintf(stderr, "verbena run: explanations cannot be written to %s: %s\n", file, strerror(errno));
		return VB_CLI_FAILED;
	}
	close(fd);
	return VB_CLI_DONE;
}

/* Only these devices (names separated by commas) are to be seen. The names are checked: a program that finds no device
 * at all seldom says why. */
static int choose_devices(const char *names)
{
	const char *transports = getenv("VERBENA_TRANSPORT");
	struct vb_device_info *list;
	unsigned count;
	int error = vb_devices_list(&list, &count);

	if (error) {
		fprintf(stderr, "verbena run: %s\n", strerror(-error));
		return VB_CLI_FAILED;
	}
	for (const char *name = names; name; name = strchr(name, ','), name += name != NULL) {
		size_t length = strcspn(name, ",");
		unsigned i = 0;

		while (i < count && (strlen(list[i].name) != length || strncmp(list[i].name, name, length) != 0))
			i++;
		if (i < count && vb_devices_may_show(list[i].kind, transports, names))
			continue;
		if (i < count)
			fprintf(stderr, "verbena run: `%.*s' is not among the devices of the transport that is asked for, %s.\n",
				(int)length, name, transports);
		else
			fprintf(stderr, "verbena run: there is no device `%.*s'. `verbena devices` lists them.\n", (int)length, name);
		free(list);
		return VB_CLI_FAILED;
	}
	free(list);
	return setenv("VERBENA_DEVICES", names, 1) ? VB_CLI_FAILED : VB_CLI_DONE;
}

static bool is_wire(const char *name)
{
	return !strcmp(name, "rocev2") || !strcmp(name, "auto");
}

/* --wire, --wire=NAME or --wire NAME: packets even between processes of one host, or as the library sees fit
 * (docs/same-host.md). Takes the next argument only where that is a name. */
static const char *ask_for_wire(const char *option, const char *next, int *used)
{
	static const char name[] = "--wire";

	if (strncmp(option, name, strlen(name)) != 0)
		return NULL;
	option += strlen(name);
	if (*option == '=')
		return option + 1;
	if (*option != '\0')
		return NULL;
	if (!next || !is_wire(next))
		return "rocev2";
	(*used)++;
	return next;
}

static int choose_wire(const char *name)
{
	if (is_wire(name))
		return setenv("VERBENA_WIRE", name, 1) ? VB_CLI_FAILED : VB_CLI_DONE;
	fprintf(stderr, "verbena run: --wire=%s: there are rocev2 (packets, even on one host) and auto\n", name);
	return VB_CLI_USAGE;
}

/* --sockets, --sockets=PORTS. */
static const char *ask_for_sockets(const char *option)
{
	static const char name[] = "--sockets";

	if (strncmp(option, name, strlen(name)) != 0)
		return NULL;
	option += strlen(name);
	return *option == '=' ? option + 1 : *option == '\0' ? "all" : NULL;
}

static int check_sockets(void)
{
	struct vb_sockets_filter filter;

	if (!sockets || vb_sockets_filter_parse(&filter, sockets))
		return VB_CLI_DONE;
	fprintf(stderr, "verbena run: --sockets=%s: ports are listed as 6379,8000-8999; !22 is all but 22\n", sockets);
	return VB_CLI_USAGE;
}

static int run(int argc, char **argv)
{
	const struct vb_cli_pictures none = {.options = {.most = 0}};
	const char *capture = NULL, *faults = NULL, *devices = NULL, *wire = NULL, *transport = NULL, *profile = NULL, *chosen;
	int first = 1, error;

	for (; first < argc && argv[first][0] == '-' && strcmp(argv[first], "--") != 0; first++) {
		if (ask_for_explanations(argv[first]))
			continue;
		if (!strcmp(argv[first], "--no-view")) {
			without_view = true;
			continue;
		}
		if (!strcmp(argv[first], "--iwarp")) {
			transport = "iwarp";
			continue;
		}
		chosen = ask_for_sockets(argv[first]);
		if (chosen) {
			sockets = chosen;
			continue;
		}
		chosen = ask_for_wire(argv[first], argv[first + 1], &first);
		if (chosen) {
			wire = chosen;
			continue;
		}
		const char **value = !strcmp(argv[first], "--capture") ? &capture :
				     !strcmp(argv[first], "--faults") ? &faults :
				     !strcmp(argv[first], "--profile") ? &profile :
				     !strcmp(argv[first], "--device") ? &devices : NULL;

		if (!value)
			return vb_cli_usage_error(&vb_cli_run, "unknown option", argv[first]);
		if (first + 1 == argc)
			return vb_cli_usage_error(&vb_cli_run, "a value is missing", argv[first]);
		*value = argv[++first];
	}
	if (first < argc && !strcmp(argv[first], "--"))
		first++;
	if (first >= argc)
		return vb_cli_usage_error(&vb_cli_run, "which command?", NULL);
	if ((error = check_explanations()) != 0 || (error = check_sockets()) != 0)
		return error;
	if (transport && setenv("VERBENA_TRANSPORT", transport, 1))
		return VB_CLI_FAILED;
	if (profile && (error = vb_cli_profile_choose("run", profile)) != 0)
		return error;
	if ((wire && (error = choose_wire(wire)) != 0) || (devices && (error = choose_devices(devices)) != 0))
		return error;
	if (faults && (error = vb_cli_set_faults("run", faults)) != 0)
		return error;
	if (capture)
		return vb_cli_capture_command("run", capture, capture, &none, argv + first);
	return vb_cli_run_command(argv + first, argc - first);
}

const struct vb_cli_command vb_cli_run = {
	.name = "run",
	.summary = "run any command against Verbena's libibverbs and librdmacm",
	.usage = "Usage: verbena run [OPTIONS] [--] COMMAND [ARGUMENTS]\n\n"
		 "Runs the command with LD_LIBRARY_PATH set to Verbena's libraries, and shows it Verbena's devices also in\n"
		 "/sys/class/infiniband and /dev/infiniband, by a preloaded library: docs/applications.md.\n"
		 "The exit code is the command's own; 127 when there is no such command, 126 when it cannot be started.\n\n"
		 "  --explain[=FILE] say why something failed, on stderr or in FILE: docs/explain.md\n"
		 "  --device NAME    let it see only this device, or these (NAME,NAME): many programs take the first they find\n"
		 "  --iwarp          let it see iWARP devices, which speak by TCP, instead of RoCE ones: docs/iwarp.md\n"
		 "  --profile NAME   give devices the limits of an adapter (mlx5, rxe, irdma, ...): docs/profiles.md\n"
		 "  --wire[=rocev2]  send packets also to processes of this host; --wire=auto: through memory where\n"
		 "                   both allow it, docs/same-host.md\n"
		 "  --sockets[=PORTS] its TCP connections go on by RDMA where the other side runs so, too:\n"
		 "                   docs/sockets.md\n"
		 "  --no-view        leave out the view: for programs that bear no preloaded library\n"
		 "  --capture FILE   keep every packet, for Wireshark: see `verbena help capture`\n"
		 "  --faults SPEC    lose, double, damage, delay or reorder packets that it sends: docs/faults.md\n\n"
		 "Examples:\n"
		 "  verbena run ibv_devinfo -v\n"
		 "  verbena run ib_write_bw                # a server\n"
		 "  verbena run ib_write_bw 192.0.2.1      # and its client\n"
		 "  verbena run --explain rping -c -a 192.0.2.1\n"
		 "  verbena run --faults loss=1%,seed=7 ib_write_bw 192.0.2.1\n"
		 "  verbena run --device roce_eth0 ibv_devinfo\n"
		 "  verbena run --explain --profile erdma-compat ./my-program\n"
		 "  verbena run --sockets redis-server\n"
		 "  verbena run -- ./my-program --verbose\n",
	.main = run,
};
