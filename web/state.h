/* SPDX-License-Identifier: MIT
 *
 * What the page shows, as JSON: devices, what processes hold, the rates between the last two looks, the fabric, explanations. The parts are
 * printed by what prints them for `verbena devices`, `res`, `top` and `fabric show`, so they are the same.
 */
#ifndef VB_WEB_STATE_H
#define VB_WEB_STATE_H

#include <stdio.h>

struct vb_web_records;
struct vb_web_state;

/* 0 or -ENOMEM. */
int vb_web_state_create(struct vb_web_state **state);
void vb_web_state_destroy(struct vb_web_state *state);

/* 0 or -errno. */
int vb_web_state_print(struct vb_web_state *state, struct vb_web_records *records, FILE *out);
/* As `verbena res --json` has it. */
int vb_web_state_print_resources(struct vb_web_state *state, FILE *out);
/* The software InfiniBand of this host, as `verbena fabric show --svg` draws it. -ENOENT: there is none. */
int vb_web_state_draw_fabric(FILE *out);

#endif
