/* SPDX-License-Identifier: MIT */
#include "io/memory_cable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/descriptor.h"
#include "io/uncancelled.h"
#include "io/unix_socket.h"

#define PREFIX "fabric-"

enum { PATH = 96, TRIES = 1000, NAME = sizeof(PREFIX) - 1 + 2 * VB_MEMORY_CABLE_NAME };

static int write_path(const uint8_t name[VB_MEMORY_CABLE_NAME], char path[PATH])
{
	int directory = snprintf(path, PATH, "/tmp/verbena-%u", (unsigned)geteuid()), at = directory;

	at += snprintf(path + at, PATH - (size_t)at, "/" PREFIX);
	for (unsigned i = 0; i < VB_MEMORY_CABLE_NAME; i++)
		at += snprintf(path + at, PATH - (size_t)at, "%02x", name[i]);
	return directory;
}

/* It is ours, and no other user can put anything there: /tmp is everybody's, and names there can be guessed. */
static bool is_own_directory(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() && !(status.st_mode & 022);
}

/* As write_path() names them. */
static bool is_meeting(const char *name)
{
	return strlen(name) == NAME && strncmp(name, PREFIX, sizeof(PREFIX) - 1) == 0 &&
	       strspn(name + sizeof(PREFIX) - 1, "0123456789abcdef") == NAME - (sizeof(PREFIX) - 1);
}

/* What is left of fabrics that were killed. Caller holds the directory's lock: a socket that is bound and does not listen yet is as
 * deserted as a dead one's, and the place of a dead one may be taken over between our look and the end of it. */
static void sweep(DIR *directory, const char *path)
{
	struct dirent *entry;
	struct stat status;
	char socket[PATH + NAME + 2];

	while ((entry = readdir(directory)) != NULL) {
		if (!is_meeting(entry->d_name) || fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISSOCK(status.st_mode) || status.st_uid != geteuid())
			continue;
		snprintf(socket, sizeof(socket), "%s/%.*s", path, NAME, entry->d_name);
		if (vb_unix_is_deserted(socket))
			(void)unlinkat(dirfd(directory), entry->d_name, 0);
	}
}

static int lock(int fd)
{
	while (flock(fd, LOCK_EX) != 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

int vb_memory_cable_listen(const uint8_t name[VB_MEMORY_CABLE_NAME])
{
	char path[PATH];
	int length = write_path(name, path), result;
	DIR *directory;

	path[length] = 0;
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return -errno;
	if (!is_own_directory(path))
		return -EPERM;
	directory = opendir(path);
	if (!directory)
		return -errno;
	result = lock(dirfd(directory));
	if (result == 0) {
		sweep(directory, path);
		path[length] = '/';
		result = vb_unix_listen(path);
	}
	/* Which gives the lock back. */
	closedir(directory);
	return result;
}

void vb_memory_cable_hide(const uint8_t name[VB_MEMORY_CABLE_NAME])
{
	char path[PATH];

	(void)write_path(name, path);
	(void)unlink(path);
}

bool vb_memory_cable_is_ours(int line)
{
	struct vb_unix_peer peer;

	return vb_unix_peer(line, &peer) == 0 && peer.uid == geteuid();
}

int vb_memory_cable_connect(const uint8_t name[VB_MEMORY_CABLE_NAME])
{
	char path[PATH];
	int line;

	(void)write_path(name, path);
	line = vb_unix_connect(path);
	if (line < 0 || vb_memory_cable_is_ours(line))
		return line;
	vb_descriptor_close(line);
	return -EPERM;
}

/* A socket that is full is heard. A system that has no memory for one byte has some a moment later. */
void vb_memory_cable_ring(int line)
{
	int saved = errno;
	char byte = 1;

	for (unsigned i = 0; i < TRIES; i++)
		if (vb_call_send(line, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
		    (errno != ENOBUFS && errno != ENOMEM && errno != EINTR))
			break;
	errno = saved;
}

/* One is taken at a time: most often there is no more, and what is left is reported again. */
bool vb_memory_cable_heard(int line, bool *rang)
{
	ssize_t got;
	char byte;

	do
		got = vb_call_recv(line, &byte, 1, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	*rang = got > 0;
	return got > 0 || (got < 0 && errno == EAGAIN);
}
