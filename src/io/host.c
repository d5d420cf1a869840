/* SPDX-License-Identifier: MIT
 *
 * machine-id(5), gethostname(2), getpwnam(3).
 */
#include "io/host.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
