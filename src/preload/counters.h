/* SPDX-License-Identifier: MIT
 *
 * The counters of a device: files of the view that are empty, and that a program which opens one finds filled. The figure is asked of
 * verbenad at that moment, and again when the program goes back to the beginning of the file, as with the kernel's files. Nothing is
 * written while no program looks.
 */
#ifndef VB_PRELOAD_COUNTERS_H
#define VB_PRELOAD_COUNTERS_H

/* A program has opened `path` (absolute or not) as `fd`, with these flags of open(2). If that is a counter of the view, its figure is
 * put in the file's place, under the same descriptor. 0; or -1 with errno (ENODEV, EIO) where there is no figure to be had: then the
 * program is to get no file. Keeps errno otherwise. */
int vb_preload_counters_fill(int fd, const char *path, int flags);

/* A program is about to read this descriptor from its beginning. If it is a counter, its figure is a new one from now on; where there is
 * none to be had any more, the file is empty. Keeps errno. */
void vb_preload_counters_renew(int fd);

#endif
