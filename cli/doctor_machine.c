/* SPDX-License-Identifier: MIT
 *
 * What this machine offers: interfaces, IP versions, socket buffers, UDP offloads, and the few things of the kernel
 * that Verbena stands on. Tried where trying does no harm, on sockets that no packet reaches.
 */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "io/netlink.h"
#include "wire/mtu.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif

/* What a slot's receive socket asks for (io/udp.c), and what carries a window of packets without loss. */
enum { WANTED_BUFFER = 8 * 1024 * 1024, ENOUGH_BUFFER = 1024 * 1024 };

/* IPv6, UDP, BTH and the largest extension header, ICRC. */
enum { HEADERS = 40 + 8 + 12 + 28 + 4 };

static bool read_number(const char *path, long *value)
{
	FILE *file = fopen(path, "r");
	bool done = file && fscanf(file, "%ld", value) == 1;

	if (file)
		fclose(file);
	return done;
}

/* ---- the network ---- */

static void check_interface(struct vb_cli_report *report, const struct vb_interface *interface, unsigned *usable,
			    bool *loopback)
{
	uint32_t payload = interface->mtu > HEADERS ? vb_mtu_bytes(vb_mtu_code(interface->mtu - HEADERS)) : 0;
	char check[32];

	if (!interface->is_ethernet && !interface->is_loopback)
		return;
	snprintf(check, sizeof(check), "device %s", interface->name);
	if (interface->is_loopback && interface->is_up)
		*loopback = true;
	if (!interface->is_up || !interface->is_running || interface->addresses == 0) {
		if (!interface->is_loopback)
			vb_cli_report_add(report, check, VB_CLI_OK, NULL, "roce_%s and iwarp_%s are not active: %s",
					  interface->name, interface->name,
					  !interface->is_up ? "the interface is down" :
					  !interface->is_running ? "it has no link" : "it has no address");
		return;
	}
	*usable += !interface->is_loopback;
	if (payload == 0)
		vb_cli_report_add(report, check, VB_CLI_WARN, "Enlarge the MTU: `ip link set DEVICE mtu 1500`.",
				  "MTU %u of %s carries no RoCE packet", interface->mtu, interface->name);
	else
		vb_cli_report_add(report, check, VB_CLI_OK,
				  payload < 4096 && !interface->is_loopback
					  ? "An MTU of 4188 or more on both ends gives RoCE's largest packets, 4096 "
					    "bytes, and more speed."
					  : NULL,
				  "roce_%s: MTU %u carries packets of %u bytes, %u address%s; iwarp_%s by TCP",
				  interface->name, interface->mtu, payload, interface->addresses,
				  interface->addresses == 1 ? "" : "es", interface->name);
}

static void check_interfaces(struct vb_cli_report *report)
{
	struct vb_interface *list;
	unsigned count, usable = 0;
	bool loopback = false;
	int error = vb_netlink_interfaces(&list, &count);

	if (error) {
		vb_cli_report_add(report, "interfaces", VB_CLI_FAIL, "A sandbox may forbid netlink sockets.",
				  "cannot be listed: %s", strerror(-error));
		return;
	}
	for (unsigned i = 0; i < count; i++)
		check_interface(report, &list[i], &usable, &loopback);
	free(list);
	if (!loopback)
		vb_cli_report_add(report, "loopback", usable ? VB_CLI_WARN : VB_CLI_FAIL, "ip link set lo up",
				  "the loopback interface is down: processes of this host cannot reach 127.0.0.1");
	else if (usable == 0)
		vb_cli_report_add(report, "interfaces", VB_CLI_WARN,
				  "Give an Ethernet interface an address to reach other machines.",
				  "only loopback is active");
}

static void check_ipv6(struct vb_cli_report *report)
{
	long disabled = 0;
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	(void)read_number("/proc/sys/net/ipv6/conf/all/disable_ipv6", &disabled);
	if (fd < 0)
		vb_cli_report_add(report, "IPv6", VB_CLI_WARN,
				  "Devices have IPv4 GIDs only; programs that ask for others fail.",
				  "this kernel has none: %s", strerror(EAFNOSUPPORT));
	else if (disabled)
		vb_cli_report_add(report, "IPv6", VB_CLI_WARN,
				  "Devices have IPv4 GIDs only; GID index 0, which many programs take, is then IPv4.\n"
				  "sysctl -w net.ipv6.conf.all.disable_ipv6=0",
				  "disabled by net.ipv6.conf.all.disable_ipv6");
	else
		vb_cli_report_add(report, "IPv6", VB_CLI_OK, NULL, "there; no groups on the loopback");
}

/* ---- sockets ---- */

static void check_buffer(struct vb_cli_report *report, const char *name, const char *path, const char *effect)
{
	char advice[256];
	long value;

	/* Namespaces other than the first do not show it. */
	if (!read_number(path, &value)) {
		vb_cli_report_add(report, name, VB_CLI_OK, NULL, "cannot be seen from this network namespace");
		return;
	}
	snprintf(advice, sizeof(advice), "%s\nAs root: sysctl -w net.core.%s=%d", effect, name, WANTED_BUFFER);
	vb_cli_report_add(report, name, value < ENOUGH_BUFFER ? VB_CLI_WARN : VB_CLI_OK,
			  value < ENOUGH_BUFFER ? advice : NULL, "%ld bytes; Verbena asks for %d and gets the smaller",
			  value, WANTED_BUFFER);
}

/* Options are set on a fresh socket, and the socket is closed. */
static int try_option(int family, int level, int option, const void *value, socklen_t length, bool reuse)
{
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1, error = 0;

	if (fd < 0)
		return -errno;
	if ((reuse && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) != 0) ||
	    setsockopt(fd, level, option, value, length) != 0)
		error = -errno;
	close(fd);
	return error;
}

static void check_offloads(struct vb_cli_report *report)
{
	int segment = 1024, one = 1;
	int gso = try_option(AF_INET, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment), false);
	int gro = try_option(AF_INET, IPPROTO_UDP, UDP_GRO, &one, sizeof(one), false);

	if (gso == 0 && gro == 0)
		vb_cli_report_add(report, "UDP GSO, GRO", VB_CLI_OK, NULL, "both: many packets to a system call");
	else
		vb_cli_report_add(report, "UDP GSO, GRO", VB_CLI_WARN,
				  "Linux 5.0 or later has both. Without them Verbena works, slower.",
				  "GSO: %s; GRO: %s", gso ? strerror(-gso) : "there", gro ? strerror(-gro) : "there");
}

static void check_steering(struct vb_cli_report *report)
{
	struct sock_filter everything_to_the_first[] = { { BPF_RET | BPF_K, 0, 0, 0 } };
	struct sock_fprog program = { .len = 1, .filter = everything_to_the_first };
	int error = try_option(AF_INET, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program), true);

	if (error)
		vb_cli_report_add(report, "port sharing", VB_CLI_FAIL,
				  "Linux 4.5 or later has it. Some sandboxes (gVisor, some container profiles) do not.",
				  "SO_ATTACH_REUSEPORT_CBPF: %s; processes cannot share port 4791", strerror(-error));
	else
		vb_cli_report_add(report, "port sharing", VB_CLI_OK, NULL,
				  "the kernel hands packets to processes by queue pair number");
}

/* ---- the rest of the kernel ---- */

static void check_memory_files(struct vb_cli_report *report)
{
	int fd = memfd_create("verbena-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0)
		close(fd);
	if (fd < 0)
		vb_cli_report_add(report, "shared memory", VB_CLI_FAIL, "A sandbox may forbid memfd_create.",
				  "memfd_create: %s", strerror(errno));
	else
		vb_cli_report_add(report, "shared memory", VB_CLI_OK, NULL, "memory files with seals");
}

/* Whether processes of this host can reach each other's memory (docs/same-host.md). */
static void check_same_host(struct vb_cli_report *report, bool copies, long scope)
{
	const char *wire = getenv("VERBENA_WIRE"), *ptracer = getenv("VERBENA_PTRACER");

	if (wire && *wire && strcmp(wire, "auto") != 0)
		vb_cli_report_add(report, "same host", VB_CLI_OK, NULL, "packets, because VERBENA_WIRE=%s", wire);
	else if (!copies)
		vb_cli_report_add(report, "same host", VB_CLI_WARN, "A sandbox forbids process_vm_readv.",
				  "packets: processes cannot reach each other's memory");
	else if (scope >= 2 && geteuid() != 0)
		vb_cli_report_add(report, "same host", VB_CLI_WARN,
				  "As root: sysctl kernel.yama.ptrace_scope=1, which is enough.",
				  "packets: ptrace_scope %ld keeps processes out of each other's memory", scope);
	else if (scope == 1 && ptracer && !strcmp(ptracer, "off"))
		vb_cli_report_add(report, "same host", VB_CLI_WARN, "Unset VERBENA_PTRACER.",
				  "packets: ptrace_scope 1, and VERBENA_PTRACER=off lets nobody in");
	else
		vb_cli_report_add(report, "same host", VB_CLI_OK, NULL,
				  "processes of one user reach each other through memory%s",
				  scope == 1 ? "; each lets the others in (PR_SET_PTRACER)" : "");
}

static void check_ptrace(struct vb_cli_report *report)
{
	static const char *const meaning[] = {
		"processes of one user may read each other's memory",
		"only parents may trace their children, and whom a process lets in",
		"only root may trace",
		"nobody may trace",
	};
	char from[8] = "verbena", to[8] = "";
	struct iovec local = { .iov_base = to, .iov_len = sizeof(to) },
		     remote = { .iov_base = from, .iov_len = sizeof(from) };
	bool own = process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)sizeof(to);
	long scope = 0;

	(void)read_number("/proc/sys/kernel/yama/ptrace_scope", &scope);
	vb_cli_report_add(
		report, "ptrace", own ? VB_CLI_OK : VB_CLI_WARN,
		own ? NULL : "A sandbox forbids process_vm_readv; on-demand regions are copied through pipes, slower.",
		"ptrace_scope %ld (%s); process_vm_readv is %s", scope, meaning[scope >= 0 && scope < 4 ? scope : 0],
		own ? "allowed" : "forbidden");
	check_same_host(report, own, scope);
}

static void check_descriptors(struct vb_cli_report *report)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	vb_cli_report_add(report, "descriptors", limit.rlim_max < 256 ? VB_CLI_WARN : VB_CLI_OK,
			  limit.rlim_max < 256 ? "A process with many devices and channels needs more: ulimit -n 1024"
					       : NULL,
			  "%llu per process", (unsigned long long)limit.rlim_max);
}

static void check_privileges(struct vb_cli_report *report)
{
	long spaces = 0;

	if (read_number("/proc/sys/user/max_user_namespaces", &spaces) && spaces == 0 && geteuid() != 0)
		vb_cli_report_add(
			report, "privileges", VB_CLI_OK,
			"The tests, and labs with several hosts on this machine, need namespaces; programs do not.",
			"none needed; namespaces for users are switched off here");
	else
		vb_cli_report_add(report, "privileges", VB_CLI_OK, NULL,
				  "none needed: no root, no kernel module, no locked memory");
}

void vb_cli_doctor_machine(struct vb_cli_report *report)
{
	check_interfaces(report);
	check_ipv6(report);
	check_buffer(report, "rmem_max", "/proc/sys/net/core/rmem_max",
		     "Small receive buffers lose packets when many senders talk at once; they are sent again, which "
		     "costs time.");
	check_buffer(report, "wmem_max", "/proc/sys/net/core/wmem_max", "Small send buffers make senders wait.");
	check_offloads(report);
	check_steering(report);
	check_memory_files(report);
	check_ptrace(report);
	check_descriptors(report);
	check_privileges(report);
}
