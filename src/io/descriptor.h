/* SPDX-License-Identifier: MIT
 *
 * What can be done with any descriptor, and pages shared through one.
 */
#ifndef VB_IO_DESCRIPTOR_H
#define VB_IO_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As socket(2), but always the kernel's, also where a preloaded library makes something else of the name. -1 with
 * errno. */
int vb_descriptor_socket(int domain, int type, int protocol);
/* Out of the low numbers, which are the program's: returns where it is now (where it was, if there is no room above), and keeps
 * errno. Close-on-exec. */
int vb_descriptor_lift(int fd);
/* Above all others that are open among the low numbers, whatever was free below them; returns where it is now (where it was, if it
 * cannot be moved, and what is none as it is), and keeps errno. Close-on-exec. */
int vb_descriptor_raise(int fd);
void vb_descriptor_close(int fd);
/* Is that -errno of a call for want of something that may be there in a moment: memory, buffers, descriptors, or no signal? */
bool vb_descriptor_error_passes(int error);
int vb_descriptor_duplicate(int fd);       /* close-on-exec; descriptor or -errno */
void vb_descriptor_replace(int fd, int by); /* `fd` is what `by` was, which is closed */

/* One datagram, cut to `room`, without waiting. Length or -errno. */
ssize_t vb_descriptor_receive(int fd, void *bytes, size_t room);

/* From `at` on. Length or -errno. */
ssize_t vb_descriptor_read_at(int fd, void *bytes, size_t room, off_t at);
/* The file's first bytes. Length, or -1 with errno. */
ssize_t vb_file_read(const char *path, void *bytes, size_t room);
/* Of what is behind it: bytes, or -errno. */
off_t vb_descriptor_size(int fd);
/* Which file it is of: the same for all descriptors of one, and for no other while it is there. 0 or -errno. */
struct vb_file_identity {
	uint64_t device, inode;
};
int vb_descriptor_identity(int fd, struct vb_file_identity *identity);
/* Share it from `offset` on, a multiple of the page size. 0 or -errno. vb_page_unmap ends it. */
int vb_descriptor_map(int fd, off_t offset, size_t length, bool writable, void **memory);

size_t vb_page_size(void);
/* Shared memory of a fixed size, whose size no process can change. Descriptor or -errno. */
int vb_page_create(const char *name, size_t size);
/* Map one that comes from elsewhere: NULL unless it has that size and cannot shrink under us. */
void *vb_page_map(int fd, size_t size, bool writable);
void vb_page_unmap(void *page, size_t size);
/* Give back what it holds, which is zeros from now on for all who have it mapped. */
void vb_page_forget(void *page, size_t size);
/* Map `by` in the place of `page`, at once: other threads may use it meanwhile. 0 or -errno. */
int vb_page_replace(void *page, void *by, size_t size);
/* A list for another process: shared memory with these bytes. Descriptor or -errno. */
int vb_page_create_filled(const char *name, const void *bytes, size_t length);
/* Copy out what another process wrote, whatever it does meanwhile. *bytes is malloc'ed. 0 or -errno: -EPROTO this is no
 * shared memory, -EFBIG there are more than `most` bytes. */
int vb_page_read(int fd, size_t most, void **bytes, size_t *length);

/* Close everything from `first` on: what was inherited. */
void vb_descriptor_close_from(int first);
/* As many as the administrator lets us have. */
void vb_descriptor_raise_limit(void);
unsigned vb_descriptor_limit(void);
/* The process is to have so many, if it may: to make room for them takes no time later. Nothing is done where other threads run. */
void vb_descriptor_make_room(unsigned count);
/* One that does nothing but be there: closed, it makes room for another. Descriptor or -errno. */
int vb_descriptor_reserve(void);

#endif
