/* SPDX-License-Identifier: MIT
 *
 * The MADs of this host's InfiniBand adapter, for `verbena capture`: programs hand them to verbenad and never see them as packets, so
 * verbenad is asked for what passes.
 */
#ifndef VB_CLI_CAPTURE_MADS_H
#define VB_CLI_CAPTURE_MADS_H

struct vb_cli_mads;

/* Write them to the capture, from now on. NULL: this host has not joined a fabric, or another user has. */
struct vb_cli_mads *vb_cli_mads_start(const char *path);
/* All that passed before this call is in the file. */
void vb_cli_mads_stop(struct vb_cli_mads *mads);

#endif
