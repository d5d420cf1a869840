/* SPDX-License-Identifier: MIT
 *
 * UDP port 4791 of this host: who has it, and do packets get there? A firewall's rules cannot be read by ordinary
 * users; a packet can be sent. It goes through the loopback interface, so that rules for other interfaces are not met:
 * those only a peer can try.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "cli/names.h"
#include "io/inquiry.h"
#include "io/unix_socket.h"
#include "wire/daemon_message.h"

enum { ROCE_PORT = 4791, ARRIVAL_MS = 500 };

/* ---- whose it is ---- */

/* The command line of the process that has the socket, as far as we may look; else "". */
static void find_owner(unsigned long inode, char *text, size_t room)
{
	char wanted[64], path[512], target[64];
	DIR *processes = opendir("/proc");
	struct dirent *process;

	text[0] = '\0';
	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	while (processes && !text[0] && (process = readdir(processes))) {
		struct dirent *entry;
		DIR *descriptors;

		if (!isdigit((unsigned char)process->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%.16s/fd", process->d_name);
		descriptors = opendir(path);
		while (descriptors && (entry = readdir(descriptors))) {
			ssize_t length;

			snprintf(path, sizeof(path), "/proc/%.16s/fd/%.16s", process->d_name, entry->d_name);
			length = readlink(path, target, sizeof(target) - 1);
			if (length < 0)
				continue;
			target[length] = '\0';
			if (!strcmp(target, wanted))
				snprintf(text, room, ", pid %.16s", process->d_name);
		}
		if (descriptors)
			closedir(descriptors);
	}
	if (processes)
		closedir(processes);
}

/* Sockets of other users than `ours` on the port (-1: of any); the first of them is described. */
static unsigned count_foreign(const char *table, long ours, char *who, size_t room)
{
	FILE *rows = fopen(table, "r");
	unsigned foreign = 0;
	char line[512];

	if (!rows)
		return 0;
	while (fgets(line, sizeof(line), rows)) {
		char user[VB_CLI_USER_ROOM], owner[64];
		unsigned long uid, inode;
		unsigned port;

		if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %lu %*s %lu", &port, &uid, &inode) != 3 ||
		    port != ROCE_PORT || (long)uid == ours)
			continue;
		if (foreign++ == 0) {
			find_owner(inode, owner, sizeof(owner));
			snprintf(who, room, "%s%s", vb_cli_user_name((uint32_t)uid, user), owner);
		}
	}
	fclose(rows);
	return foreign;
}

/* Who runs the verbenad of this network namespace, whether or not it serves us; -1: none runs. */
static long daemon_owner(void)
{
	struct vb_unix_peer peer;
	int fd = vb_unix_connect(VB_DAEMON_SOCKET);
	long uid = -1;

	if (fd < 0)
		return -1;
	if (vb_unix_peer(fd, &peer) == 0)
		uid = (long)peer.uid;
	close(fd);
	return uid;
}

static bool check_owner(struct vb_cli_report *report, bool serves_us)
{
	long owner = daemon_owner();
	char who[128] = "", user[VB_CLI_USER_ROOM];
	unsigned foreign = count_foreign("/proc/net/udp", owner, who, sizeof(who));

	if (foreign == 0)
		foreign = count_foreign("/proc/net/udp6", owner, who, sizeof(who));
	if (foreign > 0)
		vb_cli_report_add(report, "UDP port 4791", VB_CLI_FAIL,
				  "RoCEv2 has this one port. If it is the kernel's rxe: `rdma link` shows it, `rdma "
				  "link delete NAME`\n"
				  "ends it. Else end that program, or use a network namespace of your own:\n"
				  "unshare -Urn sh -c 'ip link set lo up && exec bash'",
				  "taken by somebody who is not verbenad (%s)", who);
	else if (owner >= 0 && !serves_us)
		vb_cli_report_add(report, "UDP port 4791", VB_CLI_OK, NULL, "of the verbenad of %s, and of programs that use it",
				  vb_cli_user_name((uint32_t)owner, user));
	else
		vb_cli_report_add(report, "UDP port 4791", VB_CLI_OK, NULL, owner >= 0 ? "free, or verbenad's" : "free");
	return foreign == 0;
}

/* ---- whether packets get there ---- */

/* A rule may be for one family alone, so both are tried. */
struct family {
	const char *name;
	struct sockaddr_storage here;
	socklen_t length;
	uint8_t gid[16];
};

static struct family family_get(bool six)
{
	struct family family = {.name = six ? "IPv6" : "IPv4", .gid = {[15] = 1}};
	struct sockaddr_in four = {
		.sin_family = AF_INET,
		.sin_port = htons(ROCE_PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct sockaddr_in6 other = {.sin6_family = AF_INET6, .sin6_port = htons(ROCE_PORT), .sin6_addr = IN6ADDR_LOOPBACK_INIT};

	if (six) {
		memcpy(&family.here, &other, sizeof(other));
		family.length = sizeof(other);
	} else {
		memcpy(&family.here, &four, sizeof(four));
		family.length = sizeof(four);
		memset(family.gid + 10, 0xff, 2);
		family.gid[12] = 127;
	}
	return family;
}

/* No program has the port: we take it for a moment. 0: arrived; -errno; -ETIMEDOUT: it did not. */
static int try_ourselves(const struct family *family)
{
	const struct sockaddr *here = (const struct sockaddr *)&family->here;
	int target = socket(here->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), source = socket(here->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd wait = {.fd = target, .events = POLLIN};
	int error = 0;

	if (target < 0 || source < 0 || bind(target, here, family->length) != 0 ||
	    sendto(source, "?", 1, MSG_NOSIGNAL, here, family->length) != 1)
		error = -errno;
	else if (poll(&wait, 1, ARRIVAL_MS) != 1)
		error = -ETIMEDOUT;
	if (target >= 0)
		close(target);
	if (source >= 0)
		close(source);
	return error;
}

static int try_daemon(const struct family *family)
{
	struct vb_inquiry_answer answer;
	struct vb_path path = {0};

	memcpy(path.source, family->gid, sizeof(family->gid));
	memcpy(path.destination, family->gid, sizeof(family->gid));
	switch (vb_inquiry_ask(&path, &(struct vb_inquiry){.qpn = 1}, &answer)) {
	case VB_REACH_ANSWERED:
		return 0;
	case VB_REACH_REFUSED:
		/* It serves no client at the moment and has no socket. That the kernel says so is no rule's doing, most likely. */
		return try_ourselves(family);
	default:
		return -ETIMEDOUT;
	}
}

static bool has_loopback(const struct family *family)
{
	int fd = socket(family->here.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage here = family->here;
	bool there;

	/* Any port. */
	if (here.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&here)->sin6_port = 0;
	else
		((struct sockaddr_in *)&here)->sin_port = 0;
	there = fd >= 0 && bind(fd, (struct sockaddr *)&here, family->length) == 0;
	if (fd >= 0)
		close(fd);
	return there;
}

static void check_firewall(struct vb_cli_report *report)
{
	const char *silence = getenv("VERBENA_EXPLAIN_PEERS");
	bool asks = daemon_owner() >= 0;

	/* A verbenad of the same environment does not answer. */
	if (asks && silence && !strcmp(silence, "0")) {
		vb_cli_report_add(report, "firewall", VB_CLI_OK, NULL, "not tried: VERBENA_EXPLAIN_PEERS=0");
		return;
	}
	for (int six = 0; six < 2; six++) {
		struct family family = family_get(six);
		int error;

		/* Where a family is missing another row says so. */
		if (six && !has_loopback(&family))
			continue;
		error = asks ? try_daemon(&family) : try_ourselves(&family);
		if (error == -ETIMEDOUT || error == -EPERM || error == -EACCES) {
			vb_cli_report_add(report, "firewall", VB_CLI_FAIL,
					  "Let UDP port 4791 in and out, on the loopback interface too; as root `nft list ruleset` "
					  "shows rules.",
					  "packets to UDP port 4791 of this host do not arrive by %s: %s", family.name,
					  error == -ETIMEDOUT ? "a rule drops them" : "a rule forbids to send them");
			return;
		}
		if (error) {
			vb_cli_report_add(report, "firewall", VB_CLI_WARN, NULL, "not tried: %s", strerror(-error));
			return;
		}
	}
	vb_cli_report_add(report, "firewall", VB_CLI_OK, "Rules for other interfaces show only from outside: verbena doctor --peer ADDRESS",
			  "packets to UDP port 4791 arrive, on the loopback interface");
}

void vb_cli_doctor_port(struct vb_cli_report *report, bool serves_us)
{
	if (check_owner(report, serves_us))
		check_firewall(report);
}
