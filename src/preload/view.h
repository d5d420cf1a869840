/* SPDX-License-Identifier: MIT
 *
 * The view of this process: which directory it is, and what a path that a program names is there.
 */
#ifndef VB_PRELOAD_VIEW_H
#define VB_PRELOAD_VIEW_H

#include "preload/paths.h"

/* The directory, without a slash at its end; NULL if this process has none. */
const char *vb_preload_view_root(void);

/* What to open in place of `path`: `path` itself, or `room` with the path of a file of the view. A path that is not
 * absolute counts from the directory `at` (a descriptor, or AT_FDCWD). Keeps errno. */
const char *vb_preload_view_path(int at, const char *path, char room[VB_PRELOAD_PATH_ROOM]);

#endif
