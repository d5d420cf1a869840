/* SPDX-License-Identifier: MIT */
#include "cli/loader.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The loader ignores LD_LIBRARY_PATH and LD_PRELOAD for programs that gain rights (ld.so(8), secure-execution mode). */
static bool gains_rights(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && ((status.st_mode & S_ISUID && status.st_uid != geteuid()) ||
					    (status.st_mode & S_ISGID && status.st_gid != getegid()));
}

bool vb_cli_loader_is_absent(int fd)
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (pread(fd, &header, sizeof(header), 0) != sizeof(header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(segment))
		return false;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		off_t at = (off_t)(header.e_phoff + i * sizeof(segment));

		if (pread(fd, &segment, sizeof(segment), at) != sizeof(segment))
			return false;
		if (segment.p_type == PT_INTERP)
			return false;
	}
	return true;
}

static bool is_static(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool found = fd >= 0 && vb_cli_loader_is_absent(fd);

	if (fd >= 0)
		close(fd);
	return found;
}

void vb_cli_loader_warn(const char *path)
{
	if (gains_rights(path))
		fprintf(stderr, "verbena run: warning: %s is a set-id program; the loader will ignore our libraries\n",
			path);
	else if (is_static(path))
		fprintf(stderr, "verbena run: warning: %s is linked statically; it does not load our libraries\n",
			path);
}
