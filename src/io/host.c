/* SPDX-License-Identifier: MIT
 *
 * machine-id(5), boot_id of random(4), network_namespaces(7), getpwnam(3), proc(5).
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

/* FNV-1a */
static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t mix_file(uint64_t hash, const char *path)
{
	char text[128];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text));

	if (fd >= 0)
		close(fd);
	return got > 0 ? mix(hash, text, (size_t)got) : hash;
}

/* machine-id alone does not do: copies of one image have the same, and so have containers and network namespaces of one host. */
uint64_t vb_host_seed(void)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	char name[128] = "";
	struct stat network;

	hash = mix_file(hash, "/etc/machine-id");
	hash = mix_file(hash, "/proc/sys/kernel/random/boot_id");
	if (stat("/proc/self/ns/net", &network) == 0)
		hash = mix(hash, &network.st_ino, sizeof(network.st_ino));
	(void)gethostname(name, sizeof(name) - 1);
	return mix(hash, name, strlen(name));
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
