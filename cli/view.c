/* SPDX-License-Identifier: MIT
 *
 * Views are kept in $XDG_RUNTIME_DIR/verbena-UID or /tmp/verbena-UID, one for each network namespace (its devices are
 * its own) and choice of devices. Who finds one that is not as the devices are now puts a new one in its place, so
 * programs that run longer see it, too. A view goes when a new one is made and no process of this user is left in its
 * namespace.
 *
 * A view is shown by preloading a library, not by mounting: that needs no privilege and no user namespace, which
 * containers often forbid, and processes of different user namespaces may not touch each other's memory (ptrace(2),
 * access mode checking), which is how they are so fast on one host. Programs that call the kernel without the C
 * library do not see it.
 */
#include "cli/view.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/pci_function.h"
#include "cli/view_tree.h"
#include "progress/devices.h"

#define LIBRARY "libverbena-view.so"

enum { KEY_ROOM = 64 };

static int find_library(const char *name, char path[VB_CLI_PATH_MAX])
{
	char directory[VB_CLI_PATH_MAX];
	int error = vb_cli_library_directory(directory);

	if (error)
		return error;
	if (snprintf(path, VB_CLI_PATH_MAX, "%s/%s", directory, name) >= VB_CLI_PATH_MAX)
		return -ENAMETOOLONG;
	/* The loader cuts LD_PRELOAD at spaces and colons. */
	if (strpbrk(path, " :"))
		return -EINVAL;
	return access(path, R_OK) ? -errno : 0;
}

/* ---- where ---- */

/* A directory of our own that no other user can write to: /tmp is everybody's, and names there can be guessed. */
static int open_own_directory(const char *path)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) == 0 && status.st_uid == geteuid() && !(status.st_mode & 022))
		return fd;
	close(fd);
	return -EPERM;
}

/* The directory of this user's views, opened; -ENOENT where it could be made. */
static int open_place(const char *place, bool make, char path[VB_CLI_PATH_MAX])
{
	int fd;

	if (!place || place[0] != '/' || strlen(place) > 128)
		return -ENOTDIR;
	snprintf(path, VB_CLI_PATH_MAX, "%s/verbena-%u", place, (unsigned)geteuid());
	fd = open_own_directory(path);
	if (fd != -ENOENT)
		return fd;
	if (!make)
		return access(place, W_OK) ? -errno : -ENOENT;
	return mkdir(path, 0700) && errno != EEXIST ? -errno : open_own_directory(path);
}

static int open_directory(bool make, char path[VB_CLI_PATH_MAX])
{
	int fd = open_place(getenv("XDG_RUNTIME_DIR"), make, path);

	return fd >= 0 || (!make && fd == -ENOENT) ? fd : open_place("/tmp", make, path);
}

static int complain_library(int error, char why[VB_CLI_PATH_MAX])
{
	snprintf(why, VB_CLI_PATH_MAX, LIBRARY " beside our libibverbs.so.1: %s",
		 error == -EINVAL ? "a path with a space or a colon cannot be preloaded" : strerror(-error));
	return error;
}

static int complain_directory(int error, char why[VB_CLI_PATH_MAX])
{
	snprintf(why, VB_CLI_PATH_MAX, "no directory of ours in $XDG_RUNTIME_DIR or /tmp: %s", strerror(-error));
	return error;
}

int vb_cli_view_check(char found[VB_CLI_PATH_MAX])
{
	int error = find_library(LIBRARY, found), fd;

	if (error)
		return complain_library(error, found);
	fd = open_directory(false, found);
	if (fd >= 0)
		close(fd);
	return fd >= 0 || fd == -ENOENT ? 0 : complain_directory(fd, found);
}

static uint64_t add_to_hash(uint64_t hash, const char *text)
{
	for (; text && *text; text++)
		hash = (hash ^ (uint8_t)*text) * 0x100000001b3;
	return (hash ^ ';') * 0x100000001b3;
}

static unsigned long network_namespace(void)
{
	struct stat status;

	return stat("/proc/self/ns/net", &status) == 0 ? (unsigned long)status.st_ino : 0;
}

int vb_cli_view_beside(const char *name, char path[VB_CLI_PATH_MAX])
{
	char directory[VB_CLI_PATH_MAX];
	int fd = open_directory(true, directory);

	if (fd < 0)
		return fd;
	close(fd);
	return snprintf(path, VB_CLI_PATH_MAX, "%s/%lu-%s", directory, network_namespace(), name) < VB_CLI_PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* The namespace's number, and the devices chosen where others than usual are to be seen. */
static void name_view(const char *transports, const char *chosen, char key[KEY_ROOM])
{
	unsigned long namespace = network_namespace();

	if ((!chosen || !*chosen) && (!transports || !*transports)) {
		snprintf(key, KEY_ROOM, "%lu", namespace);
		return;
	}
	snprintf(key, KEY_ROOM, "%lu-%016lx", namespace,
		 (unsigned long)add_to_hash(add_to_hash(0xcbf29ce484222325, transports), chosen));
}

/* ---- writing and removing ---- */

static void remove_tree(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *entry;
	DIR *directory;

	if (fd < 0) {
		unlinkat(at, name, 0);
		return;
	}
	directory = fdopendir(fd);
	if (!directory) {
		close(fd);
		return;
	}
	while ((entry = readdir(directory)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			remove_tree(fd, entry->d_name);
	closedir(directory);
	unlinkat(at, name, AT_REMOVEDIR);
}

/* Make the directories above `path`, which is relative to `at`. */
static int make_parents(int at, const char *path)
{
	char parent[VB_CLI_PATH_MAX];

	snprintf(parent, sizeof(parent), "%s", path);
	for (char *slash = strchr(parent, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdirat(at, parent, 0755) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return 0;
}

static int write_file(int at, const char *path, const char *text)
{
	size_t length = strlen(text);
	int fd = openat(at, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	ssize_t written;

	if (fd < 0)
		return -errno;
	written = write(fd, text, length);
	close(fd);
	return written == (ssize_t)length ? 0 : written < 0 ? -errno : -ENOSPC;
}

static int write_tree(int at, const struct vb_cli_view_tree *tree, const char *stamp)
{
	int error = 0;

	for (size_t i = 0; i < tree->count && !error; i++) {
		const struct vb_cli_view_entry *entry = &tree->entry[i];
		const char *path = entry->path + 1;

		error = make_parents(at, path);
		if (!error)
			error = !entry->is_link ? write_file(at, path, entry->text) :
				symlinkat(entry->text, at, path) ? -errno : 0;
	}
	return error ? error : write_file(at, "stamp", stamp);
}

/* A new tree beside the old one, then in its place, in one step: a program never finds half of one. Caller holds the
 * directory's lock. */
static int replace_view(int directory, const char *key, const struct vb_cli_view_tree *tree, const char *stamp)
{
	char fresh[KEY_ROOM + 8];
	int error, fd;

	snprintf(fresh, sizeof(fresh), "%s.new", key);
	remove_tree(directory, fresh);
	if (mkdirat(directory, fresh, 0755))
		return -errno;
	fd = openat(directory, fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	error = write_tree(fd, tree, stamp);
	close(fd);
	/* By its number: musl has no name for it. */
	if (!error && syscall(SYS_renameat2, directory, fresh, directory, key, RENAME_EXCHANGE) && errno != ENOENT)
		remove_tree(directory, key); /* a file system without exchange */
	if (!error && faccessat(directory, key, F_OK, 0) && renameat(directory, fresh, directory, key))
		error = -errno;
	remove_tree(directory, fresh);
	return error;
}

static bool is_current(int directory, const char *key, const char *stamp)
{
	char path[KEY_ROOM + 8], found[64] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/stamp", key);
	fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, found, sizeof(found) - 1) < 0)
		found[0] = '\0';
	close(fd);
	return !strcmp(found, stamp);
}

/* ---- views that are not needed any more ---- */

/* Is any process that we may look at in that network namespace? Those of other users cannot have been given our
 * views. */
static bool is_inhabited(unsigned long namespace)
{
	DIR *processes = opendir("/proc");
	struct dirent *process;
	bool found = false;

	if (!processes)
		return true;
	while (!found && (process = readdir(processes))) {
		char path[300];
		struct stat status;

		if (process->d_name[0] < '0' || process->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/ns/net", process->d_name);
		found = stat(path, &status) == 0 && status.st_ino == namespace;
	}
	closedir(processes);
	return found;
}

/* Caller holds the directory's lock. */
static void remove_abandoned(int directory)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *views = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *view;

	while (views && (view = readdir(views))) {
		char *end;
		unsigned long namespace = strtoul(view->d_name, &end, 10);

		if (end != view->d_name && !is_inhabited(namespace))
			remove_tree(directory, view->d_name);
	}
	if (views)
		closedir(views);
	else if (fd >= 0)
		close(fd);
}

/* ---- the devices ---- */

/* All its addresses mean "this host" on every host. */
static bool is_loopback(const struct vb_device_info *info)
{
	return !strcmp(info->interface, "lo");
}

/* Libraries that use all devices there are take loopback's address for one that other hosts reach, and give up when
 * it is not. So where there is another device they are not offered loopback: UCX by what it can open, NCCL by its
 * own variable. */
static bool has_other_than_loopback(const struct vb_device_info *infos, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!is_loopback(&infos[i]) && infos[i].state == IBV_PORT_ACTIVE)
			return true;
	return false;
}

static int fill_tree(struct vb_cli_view_tree *tree, const char *transports, const char *chosen)
{
	struct vb_device_info *infos;
	char pci[VB_CLI_PATH_MAX];
	unsigned count;
	bool others;
	int error = vb_devices_list(&infos, &count);

	if (error)
		return error;
	count = vb_devices_choose(infos, count, transports, chosen);
	others = has_other_than_loopback(infos, count);
	for (unsigned i = 0; i < count; i++) {
		bool left_out = others && is_loopback(&infos[i]);

		vb_cli_view_tree_add_device(tree, &infos[i], vb_cli_pci_function("/sys", infos[i].interface, pci) ? pci : NULL, !left_out);
		if (left_out)
			setenv("NCCL_IB_HCA", "^=roce_lo", 0);
	}
	vb_cli_view_tree_add_rest(tree);
	free(infos);
	return tree->out_of_memory ? -ENOMEM : 0;
}

static int bring_up_to_date(int directory, const char *key, const struct vb_cli_view_tree *tree)
{
	char stamp[64];
	int error = 0;

	snprintf(stamp, sizeof(stamp), "%016lx\n", (unsigned long)vb_cli_view_tree_hash(tree));
	if (is_current(directory, key, stamp))
		return 0;
	if (flock(directory, LOCK_EX))
		return -errno;
	if (!is_current(directory, key, stamp)) {
		remove_abandoned(directory);
		error = replace_view(directory, key, tree, stamp);
	}
	flock(directory, LOCK_UN);
	return error;
}

/* ---- the environment ---- */

/* Put `value` before what the variable has, unless it has it already. */
static int prepend(const char *name, const char *value, char separator)
{
	const char *before = getenv(name);
	char *both;
	int error;

	if (before && strstr(before, value))
		return 0;
	if (!before || !*before)
		return setenv(name, value, 1) ? -errno : 0;
	if (asprintf(&both, "%s%c%s", value, separator, before) < 0)
		return -ENOMEM;
	error = setenv(name, both, 1) ? -errno : 0;
	free(both);
	return error;
}

static int set_environment(const char *directory, const char *key, const char *library)
{
	char view[VB_CLI_PATH_MAX + KEY_ROOM];
	int error;

	snprintf(view, sizeof(view), "%s/%s", directory, key);
	if (setenv("VERBENA_VIEW", view, 1))
		return -errno;
	error = prepend("LD_PRELOAD", library, ':');
	if (error)
		return error;
	/* A program made with gcc's AddressSanitizer refuses to run behind any preloaded library. Behind this one it
	 * works. */
	return prepend("ASAN_OPTIONS", "verify_asan_link_order=0", ':');
}

int vb_cli_view_provide(char why[VB_CLI_PATH_MAX])
{
	char library[VB_CLI_PATH_MAX], directory[VB_CLI_PATH_MAX], key[KEY_ROOM];
	const char *chosen = getenv("VERBENA_DEVICES"), *transports = getenv("VERBENA_TRANSPORT");
	struct vb_cli_view_tree tree = {0};
	int error = find_library(LIBRARY, library), fd;

	if (error)
		return complain_library(error, why);
	fd = open_directory(true, directory);
	if (fd < 0)
		return complain_directory(fd, why);
	name_view(transports, chosen, key);
	error = fill_tree(&tree, transports, chosen);
	if (!error)
		error = bring_up_to_date(fd, key, &tree);
	if (!error)
		error = set_environment(directory, key, library);
	if (error)
		snprintf(why, VB_CLI_PATH_MAX, "%s", strerror(-error));
	vb_cli_view_tree_free(&tree);
	close(fd);
	return error;
}

int vb_cli_preload(const char *name, char why[VB_CLI_PATH_MAX])
{
	char library[VB_CLI_PATH_MAX];
	int error = find_library(name, library);

	if (!error)
		error = prepend("LD_PRELOAD", library, ':');
	if (!error)
		error = prepend("ASAN_OPTIONS", "verify_asan_link_order=0", ':');
	if (error)
		snprintf(why, VB_CLI_PATH_MAX, "%s: %s", name, strerror(-error));
	return error;
}
