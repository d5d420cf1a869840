/* SPDX-License-Identifier: MIT
 *
 * `verbena top`: samples of what processes count and hold, the rates between two of them, and lines to show them on a
 * screen or in a pipe.
 */
#ifndef VB_CLI_TOP_H
#define VB_CLI_TOP_H

#include <stdbool.h>
#include <stdio.h>

#include "base/time.h"
#include "cli/processes.h"

struct vb_cli_sample {
	vb_time when;
	bool has_daemon;
	struct vb_daemon_client daemon;    /* for its name; not open */
	struct vb_cli_processes processes;
	struct vb_cli_holders holders;
};

/* Keeps the connection in *daemon (fd -1: none) from sample to sample. No daemon is an empty sample. 0 or -errno. */
int vb_cli_sample_take(struct vb_daemon_client *daemon, struct vb_cli_sample *sample);
void vb_cli_sample_free(struct vb_cli_sample *sample);

/* ---- what moved between two samples; rows point into the newer one ---- */

enum vb_cli_sort { VB_CLI_SORT_RATE, VB_CLI_SORT_RETRIES, VB_CLI_SORT_PID, VB_CLI_SORT_PROGRAM, VB_CLI_SORT_PEER, VB_CLI_SORTS };
extern const char *const vb_cli_sort_names[VB_CLI_SORTS];

struct vb_cli_process_rates {
	const struct vb_cli_process *process;
	double out, in, retries, lost;
	double work_bytes, received_bytes; /* of its queue pairs */
};

struct vb_cli_qp_rates {
	const struct vb_cli_holder *holder;
	const struct vb_resource_qp *qp;
	double out, in;
	double work_bytes, received_bytes;
};

struct vb_cli_rates {
	unsigned processes, qps;
	struct vb_cli_process_rates *process;
	struct vb_cli_qp_rates *qp;
};

/* 0 or -ENOMEM. */
int vb_cli_rates_compute(const struct vb_cli_sample *older, const struct vb_cli_sample *newer, enum vb_cli_sort sort,
			 struct vb_cli_rates *rates);
void vb_cli_rates_free(struct vb_cli_rates *rates);

/* ---- lines ---- */

enum vb_cli_line_style { VB_CLI_LINE_PLAIN, VB_CLI_LINE_TITLE, VB_CLI_LINE_HEADING, VB_CLI_LINE_BAD };

struct vb_cli_line {
	enum vb_cli_line_style style;
	char text[224];
};

struct vb_cli_lines {
	unsigned count, room;
	struct vb_cli_line *line;
};

/* The newer sample, with rates since the older one. Replaces what was in `lines`. 0 or -ENOMEM. */
int vb_cli_top_describe(const struct vb_cli_sample *older, const struct vb_cli_sample *newer, enum vb_cli_sort sort,
			struct vb_cli_lines *lines);
void vb_cli_lines_free(struct vb_cli_lines *lines);

/* The same for programs. 0 or -ENOMEM. */
int vb_cli_top_print_json(FILE *out, const struct vb_cli_sample *older, const struct vb_cli_sample *newer, enum vb_cli_sort sort);

/* Show it until q is pressed. Exit code of the command; -1: this terminal cannot. */
int vb_cli_top_screen(vb_time interval, enum vb_cli_sort sort);

#endif
