/* SPDX-License-Identifier: MIT
 *
 * machine-id(5), gethostname(2), getpwnam(3), proc(5).
 */
#include "io/host.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t vb_host_seed(void)
{
	char text[128] = "";
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		ssize_t got = read(fd, text, sizeof(text) - 1);

		if (got < 0)
			text[0] = '\0';
		close(fd);
	}
	if (text[0] == '\0')
		(void)gethostname(text, sizeof(text) - 1);
	/* FNV-1a */
	for (const char *at = text; *at; at++)
		hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
	return hash;
}

bool vb_host_account(const char *name, uid_t *uid)
{
	struct passwd entry, *found = NULL;
	char room[4096];

	if (getpwnam_r(name, &entry, room, sizeof(room), &found) != 0 || !found)
		return false;
	*uid = entry.pw_uid;
	return true;
}

bool vb_host_group(const char *name, gid_t *gid)
{
	struct group entry, *found = NULL;
	char room[16384], *end;
	unsigned long number;

	if (getgrnam_r(name, &entry, room, sizeof(room), &found) == 0 && found) {
		*gid = entry.gr_gid;
		return true;
	}
	number = strtoul(name, &end, 10);
	*gid = (gid_t)number;
	return *name >= '0' && *name <= '9' && *end == '\0' && number < (gid_t)-1;
}

void vb_host_user_name(uid_t uid, char *out, size_t room)
{
	struct passwd entry, *found = NULL;
	char buffer[4096];

	if (getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found) == 0 && found)
		snprintf(out, room, "%s (uid %u)", entry.pw_name, (unsigned)uid);
	else
		snprintf(out, room, "uid %u", (unsigned)uid);
}

/* Paths are shared between network namespaces: the namespace's inode number tells them apart (namespaces(7)). */
bool vb_host_meeting_path(const char *directory, char *out, size_t room)
{
	struct stat status;

	if (stat("/proc/self/ns/net", &status) != 0)
		return false;
	snprintf(out, room, "%s/net-%lu", directory, (unsigned long)status.st_ino);
	return true;
}

/* The first socket of /proc/net/udp or udp6 with that local port. */
static bool find_udp_socket(const char *table, unsigned wanted, uid_t *uid, unsigned long *inode)
{
	FILE *rows = fopen(table, "re");
	char row[512];
	bool found = false;

	while (rows && !found && fgets(row, sizeof(row), rows)) {
		unsigned port, owner;

		found = sscanf(row, " %*[^:]: %*[0-9A-F]:%X %*s %*s %*s %*s %*s %u %*s %lu", &port, &owner, inode) == 3 &&
			port == wanted;
		if (found)
			*uid = owner;
	}
	if (rows)
		fclose(rows);
	return found;
}

static bool holds(pid_t pid, const char *link)
{
	char path[1024], target[64];
	DIR *descriptors;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	descriptors = opendir(path);
	for (struct dirent *entry; descriptors && !found && (entry = readdir(descriptors));) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid, entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		found = length > 0 && (size_t)length == strlen(link) && memcmp(target, link, (size_t)length) == 0;
	}
	if (descriptors)
		closedir(descriptors);
	return found;
}

bool vb_host_port_holder(unsigned port, pid_t *pid, uid_t *uid)
{
	unsigned long inode;
	char link[64];
	DIR *processes;

	*pid = 0;
	if (!find_udp_socket("/proc/self/net/udp", port, uid, &inode) &&
	    !find_udp_socket("/proc/self/net/udp6", port, uid, &inode))
		return false;
	snprintf(link, sizeof(link), "socket:[%lu]", inode);
	processes = opendir("/proc");
	for (struct dirent *entry; processes && *pid == 0 && (entry = readdir(processes));) {
		pid_t candidate = (pid_t)strtol(entry->d_name, NULL, 10);

		if (candidate > 0 && holds(candidate, link))
			*pid = candidate;
	}
	if (processes)
		closedir(processes);
	return true;
}
