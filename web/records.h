/* SPDX-License-Identifier: MIT
 *
 * What the processes on the page write about themselves: captures (VERBENA_CAPTURE) and explanations (VERBENA_EXPLAIN=FILE). Which
 * files those are says the environment that each was started with. They are kept when the process is gone: then they matter most.
 * Only of this user's own processes, whatever else is to be seen: a file that another user names is not opened.
 */
#ifndef VB_WEB_RECORDS_H
#define VB_WEB_RECORDS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct vb_cli_holders;
struct vb_web_records;

/* 0 or -ENOMEM. */
int vb_web_records_create(struct vb_web_records **records);
void vb_web_records_destroy(struct vb_web_records *records);

/* A file of explanations that is read from the beginning, whoever writes to it. */
void vb_web_records_follow(struct vb_web_records *records, const char *path);
/* Look at processes that were not seen before, and read on in all files of explanations. */
void vb_web_records_find(struct vb_web_records *records, const struct vb_cli_holders *holders);
/* {"captured": [pid, ...], "explanations": [{"number": n, "time": t, "text": "..."}, ...]}, the newest last. */
void vb_web_records_print(const struct vb_web_records *records, FILE *out);
/* The ladder of that process's queue pair as a page, malloc'ed. 0, or -errno and a sentence. */
int vb_web_records_draw(const struct vb_web_records *records, uint32_t pid, uint32_t qpn, char **page, size_t *length, char *why,
			size_t room);

#endif
