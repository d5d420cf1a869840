/* SPDX-License-Identifier: MIT
 *
 * The picture as text, for terminals and mails: a column for each party, a line for each arrow or box.
 *
 *              rping                                   rping
 *              pid 100, 192.0.2.1                      pid 101, 192.0.2.2
 *      0.0 us  |-------- MPA request, IRD 1, ORD 1 -------->|
 *      9.1 us  [posted: SEND 16 B]                          |
 *
 * Names come from the program that wrote the capture: what is no printable character of UTF-8 is shown as '?'.
 */
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "capture/ladder.h"
#include "capture/ladder_text.h"
#include "capture/story.h"

enum {
	TIME_WIDTH = 14,
	LEAST_STEP = 32, MOST_STEP = 72,
	ARROW_ENDS = 8,                    /* two dashes, a blank and the head: at least, and on either side */
	CELL = 5,                          /* a character of UTF-8, and the end */
	WIDTH = TIME_WIDTH + (VB_LADDER_LANES + 1) * MOST_STEP + 1,
};

/* One line, a character to a cell. */
struct row {
	char cell[WIDTH][CELL];
	unsigned length;                   /* cells up to the last that is not blank */
};

static void put_at(struct row *row, unsigned x, const char *character, size_t length)
{
	if (x >= WIDTH)
		return;
	memcpy(row->cell[x], character, length);
	row->cell[x][length] = '\0';
	if (x >= row->length)
		row->length = x + 1;
}

static unsigned text_width(const char *text)
{
	unsigned width = 0;

	for (size_t length; *text; text += length ? length : 1, width++)
		length = vb_utf8_length(text);
	return width;
}

/* As much of it as there is room for. */
static void put_text(struct row *row, unsigned x, unsigned room, const char *text)
{
	for (size_t length; *text && room > 0; text += length ? length : 1, x++, room--) {
		length = vb_utf8_length(text);
		put_at(row, x, length ? text : "?", length ? length : 1);
	}
}

static void print_row(const struct row *row, FILE *out)
{
	for (unsigned x = 0; x < row->length; x++)
		fputs(row->cell[x][0] ? row->cell[x] : " ", out);
	fputc('\n', out);
}

/* ---- parts ---- */

static unsigned step_of(const struct vb_ladder *ladder)
{
	unsigned widest = LEAST_STEP;

	for (size_t i = 0; i < ladder->items; i++) {
		unsigned width = text_width(ladder->item[i].label) + 2 * ARROW_ENDS;

		widest = width > widest ? width : widest;
	}
	return widest < MOST_STEP ? widest : MOST_STEP;
}

static unsigned lane_x(unsigned step, unsigned lane)
{
	return TIME_WIDTH + lane * step;
}

static void put_lanes(const struct vb_ladder *ladder, unsigned step, struct row *row)
{
	for (unsigned lane = 0; lane < ladder->lanes; lane++)
		put_at(row, lane_x(step, lane), "|", 1);
}

static void put_time(struct row *row, int64_t nanoseconds)
{
	double n = (double)nanoseconds;
	char text[32];

	if (n < 1e6)
		snprintf(text, sizeof(text), "%9.1f us", n / 1e3);
	else if (n < 1e9)
		snprintf(text, sizeof(text), "%9.3f ms", n / 1e6);
	else
		snprintf(text, sizeof(text), "%9.3f s", n / 1e9);
	put_text(row, 0, TIME_WIDTH - 1, text);
}

static void put_arrow(const struct vb_ladder_item *item, unsigned step, struct row *row)
{
	unsigned from = lane_x(step, item->from), to = lane_x(step, item->to), low, high, width = text_width(item->label);
	const char *dash = item->style == VB_LADDER_AGAIN ? "=" : "-";
	bool reaches = item->arrives && !item->lost;

	/* To itself: it needs no way. */
	if (from == to) {
		put_text(row, from + 1, step - 1, item->label);
		return;
	}
	low = from < to ? from : to;
	high = from < to ? to : from;
	for (unsigned x = low + 1; x < high; x++)
		put_at(row, x, dash, 1);
	put_at(row, from < to ? high - 1 : low + 1, !reaches ? "x" : from < to ? ">" : "<", 1);
	if (width > step - ARROW_ENDS)
		width = step - ARROW_ENDS;
	low += (high - low - width) / 2;
	put_at(row, low - 1, " ", 1);
	put_text(row, low, width, item->label);
	put_at(row, low + width, " ", 1);
}

static void put_box(const struct vb_ladder_item *item, unsigned step, struct row *row)
{
	unsigned x = lane_x(step, item->from), width = text_width(item->label);

	if (width > step - 3)
		width = step - 3;
	put_at(row, x, "[", 1);
	put_text(row, x + 1, width, item->label);
	put_at(row, x + 1 + width, "]", 1);
}

static void print_heads(const struct vb_ladder *ladder, unsigned step, FILE *out)
{
	struct row names = {.length = 0}, details = {.length = 0};

	for (unsigned lane = 0; lane < ladder->lanes; lane++) {
		put_text(&names, lane_x(step, lane), step - 1, ladder->lane[lane].name);
		put_text(&details, lane_x(step, lane), step - 1, ladder->lane[lane].detail);
	}
	print_row(&names, out);
	print_row(&details, out);
}

void vb_ladder_plain(const struct vb_ladder *ladder, FILE *out)
{
	unsigned step = step_of(ladder);
	size_t gap = 0;

	if (ladder->title) {
		struct row title = {.length = 0};

		put_text(&title, 0, WIDTH, ladder->title);
		print_row(&title, out);
	}
	print_heads(ladder, step, out);
	for (size_t i = 0; i < ladder->items; i++) {
		const struct vb_ladder_item *item = &ladder->item[i];
		struct row row = {.length = 0};

		for (; gap < ladder->gaps && ladder->gap[gap].y < item->y; gap++) {
			struct row pause = {.length = 0};

			put_lanes(ladder, step, &pause);
			put_time(&pause, ladder->gap[gap].length);
			put_at(&pause, 0, "+", 1);
			print_row(&pause, out);
		}
		put_lanes(ladder, step, &row);
		put_time(&row, vb_story_elapsed(ladder->start, item->time));
		if (item->is_arrow)
			put_arrow(item, step, &row);
		else
			put_box(item, step, &row);
		print_row(&row, out);
	}
	if (ladder->psn_note[0])
		fprintf(out, "%s\n", ladder->psn_note);
	if (ladder->left_out > 0)
		fprintf(out, "%zu packet%s not drawn\n", ladder->left_out, ladder->left_out == 1 ? " is" : "s are");
}
