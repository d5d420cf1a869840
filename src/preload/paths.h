/* SPDX-License-Identifier: MIT
 *
 * Which paths of a program lead into the view (docs/applications.md), and where they lead.
 *
 * A view is a directory that `verbena run` fills: ROOT/sys/class/infiniband/..., ROOT/dev/infiniband/... The path a
 * program names is the part behind ROOT.
 */
#ifndef VB_PRELOAD_PATHS_H
#define VB_PRELOAD_PATHS_H

#include <stdbool.h>
#include <stddef.h>

/* A view's paths are short. Every call that names a file has this much on its stack, also in signal handlers, whose
 * stacks are small. */
enum { VB_PRELOAD_PATH_ROOM = 512 };

/* Could this path, absolute or not, lead into a view? Quick: asked for every file a program opens. */
bool vb_preload_path_may_lead_into_view(const char *path);

/* Write ROOT/path to `room` if the absolute `path` is one of a view's; false, with nothing written, if it is not or
 * is too long. */
bool vb_preload_path_enter(const char *root, const char *path, char room[VB_PRELOAD_PATH_ROOM]);

/* The path a program knows a file of the view by: takes ROOT off, in place. True if there was one. */
bool vb_preload_path_leave(const char *root, char *path);

#endif
