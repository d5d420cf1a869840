/* SPDX-License-Identifier: MIT
 *
 * What another process has mapped, and mapping the same: where its memory is a file in memory (memfd, /dev/shm,
 * hugetlbfs) that it shares, this process can have the very same pages.
 *
 * The process is named by a directory in /proc that was opened while it lived: such a descriptor never means another
 * process that got the same number later.
 *
 * Limits: files on disks are left alone (reading them may fail, and failing means a signal). The file must still be
 * open in the other process, or have a name that leads to it. If a process cuts it short, or punches holes into it that
 * cannot be filled again, access to the lost pages ends this process by SIGBUS, like any other that maps it; who can do
 * that is a process of the same user, which could as well have sent the signal. A sealed memfd cannot be cut.
 */
#ifndef VB_IO_MAPPINGS_H
#define VB_IO_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Descriptor or -errno. */
int vb_mappings_open(pid_t pid);

/* A stretch of the process's addresses that is one stretch of a file, shared and writable. */
struct vb_mapped_stretch {
	uint64_t start, length;            /* addresses there */
	uint64_t offset;                   /* in the file */
	uint64_t device, inode;
};

/* The stretch that holds all of the range. 0, -ENOENT: there is none, -errno: cannot tell. Takes as long as reading a list of
 * everything that is mapped there. */
int vb_mappings_find(int process, uint64_t start, uint64_t length, struct vb_mapped_stretch *stretch);

struct vb_mapped_file {
	void *base;                        /* whole pages */
	size_t length;
	uint8_t *bytes;                    /* of the address that was asked for */
};

/* Map that part of the stretch here, readable and writable, left out of core dumps. 0; -ENOENT: there is no way to the
 * file; -EAGAIN: it has holes there, whose filling might fail; -EMEDIUMTYPE: it is not a file in memory; or another
 * -errno. */
int vb_mappings_map(int process, const struct vb_mapped_stretch *stretch, uint64_t start, uint64_t length,
		    struct vb_mapped_file *mapped);
void vb_mappings_unmap(const struct vb_mapped_file *mapped);

#endif
