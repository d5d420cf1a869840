/* SPDX-License-Identifier: MIT
 *
 * A capture as what a teacher would draw: one vertical line for each party, time flowing down, packets as arrows
 * between the lines, work posted and completed beside them. Here it is decided what is drawn and where; ladder_svg.c
 * and ladder_plain.c draw.
 *
 * Time is not to scale: microseconds and seconds must fit one picture. Order is kept, and long pauses are marked.
 */
#ifndef VB_CAPTURE_LADDER_H
#define VB_CAPTURE_LADDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct vb_story;

enum { VB_LADDER_LANES = 8, VB_LADDER_LABEL = 96, VB_LADDER_DETAIL = 320 };

struct vb_ladder_options {
	size_t first;                      /* packets skipped at the beginning */
	size_t most;                       /* arrows drawn at most */
	uint32_t qpn;                      /* 0: all; else only packets to or from it and its peer, and their work */
	bool absolute;                     /* PSNs as on the wire, not counted from each queue pair's first */
	const char *title;
};

struct vb_ladder_lane {
	uint32_t pid;                      /* 0: a host that is not part of the capture */
	uint64_t host;
	uint32_t qpn;                      /* 0: all of the process's; 1, 2: this end of its connections, that end */
	bool boxes_left;                   /* on which side boxes stand */
	uint8_t address[16];
	char name[48], detail[64];
};

enum vb_ladder_style {
	VB_LADDER_REQUEST, VB_LADDER_RESPONSE, VB_LADDER_AGAIN, VB_LADDER_NAK, VB_LADDER_CM,    /* arrows */
	VB_LADDER_POST, VB_LADDER_DONE, VB_LADDER_ERROR, VB_LADDER_NEWS,                        /* boxes */
};

struct vb_ladder_item {
	enum vb_ladder_style style;
	bool is_arrow;
	bool arrives, lost, damaged;
	bool folds;                        /* a run of its like may be told as one */
	unsigned from, to;                 /* lanes; of a box `from` */
	int64_t time, arrival;
	double y, arrival_y;
	unsigned times;                    /* packets or events that it stands for */
	char label[VB_LADDER_LABEL];
	char detail[VB_LADDER_DETAIL];
};

/* A pause worth telling. */
struct vb_ladder_gap {
	double y;
	int64_t length;
};

struct vb_ladder {
	const char *title;
	unsigned lanes;
	struct vb_ladder_lane lane[VB_LADDER_LANES];
	struct vb_ladder_item *item;
	size_t items;
	struct vb_ladder_gap *gap;
	size_t gaps;
	size_t left_out;                   /* packets not drawn */
	int64_t start;
	double height;
	char psn_note[256];
};

/* 0 or -ENOMEM. */
int vb_ladder_build(struct vb_ladder *ladder, const struct vb_story *story, const struct vb_ladder_options *options);
void vb_ladder_free(struct vb_ladder *ladder);

/* The picture as text, as SVG, and a page with the picture and a table of everything in it. */
void vb_ladder_plain(const struct vb_ladder *ladder, FILE *out);
void vb_ladder_svg(const struct vb_ladder *ladder, FILE *out);
void vb_ladder_html(const struct vb_ladder *ladder, FILE *out);

#endif
