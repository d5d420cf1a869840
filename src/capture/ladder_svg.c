/* SPDX-License-Identifier: MIT
 *
 * The picture as SVG, drawn with nothing but lines, rectangles and text, and no reference to anything outside the file.
 * Details show as tool tips. Names come from the program that wrote the capture: everything is escaped.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "capture/ladder.h"
#include "capture/ladder_text.h"
#include "capture/story.h"

enum {
	TIME_WIDTH = 84,                   /* the column of times */
	SIDE = 300,                        /* boxes beside the outer lanes */
	LANE_STEP = 540, CROWDED_STEP = 470,
	BOX_HEIGHT = 20, HEAD_TOP = 40, HEAD_HEIGHT = 40, LEGEND = 66,
	LABEL_GAP = 14,
};

static const struct {
	const char *name, *colour, *fill, *says;
} styles[] = {
	[VB_LADDER_REQUEST] = {"request", "#1f4e9c", "none", "request"},
	[VB_LADDER_RESPONSE] = {"response", "#1b7f5c", "none", "response"},
	[VB_LADDER_AGAIN] = {"again", "#c25e00", "none", "sent again"},
	[VB_LADDER_NAK] = {"nak", "#c62828", "none", "NAK, lost or damaged"},
	[VB_LADDER_CM] = {"cm", "#6a3fa0", "none", "connection management"},
	[VB_LADDER_POST] = {"post", "#1f4e9c", "#e8f0fb", "posted"},
	[VB_LADDER_DONE] = {"done", "#1b7f5c", "#e5f5ee", "completed"},
	[VB_LADDER_ERROR] = {"error", "#c62828", "#fdeaea", "error"},
	[VB_LADDER_NEWS] = {"news", "#7a6200", "#fdf6dc", "event"},
};

enum { ARROW_STYLES = VB_LADDER_CM + 1, STYLES = VB_LADDER_NEWS + 1 };

/* Keeps text legible where lines cross it. */
#define HALO(width) "stroke=\"#fff\" stroke-width=\"" #width "\" paint-order=\"stroke\" "

static void put_escaped(FILE *out, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	while (*at) {
		size_t length = vb_utf8_length((const char *)at);

		switch (*at) {
		case '<': fputs("&lt;", out); break;
		case '>': fputs("&gt;", out); break;
		case '&': fputs("&amp;", out); break;
		case '"': fputs("&quot;", out); break;
		default:
			if (length > 0)
				fwrite(at, 1, length, out);
			else
				fputc('?', out);
		}
		at += length > 0 ? length : 1;
	}
}

static double lane_x(const struct vb_ladder *ladder, unsigned lane)
{
	return TIME_WIDTH + SIDE + (double)lane * (ladder->lanes > 2 ? CROWDED_STEP : LANE_STEP);
}

static double width_of(const struct vb_ladder *ladder)
{
	return lane_x(ladder, ladder->lanes > 1 ? ladder->lanes - 1 : 1) + SIDE + 10;
}

static void put_duration(FILE *out, int64_t nanoseconds)
{
	double n = (double)nanoseconds;

	if (n < 1e6)
		fprintf(out, "%.1f \xc2\xb5s", n / 1e3);
	else if (n < 1e9)
		fprintf(out, "%.3f ms", n / 1e6);
	else
		fprintf(out, "%.3f s", n / 1e9);
}

/* ---- parts of the picture ---- */

static void put_definitions(FILE *out)
{
	fputs("<defs>\n", out);
	for (unsigned i = 0; i < ARROW_STYLES; i++)
		fprintf(out, "<marker id=\"head-%s\" viewBox=\"0 0 10 10\" refX=\"9.5\" refY=\"5\" markerWidth=\"12\" "
			"markerHeight=\"10\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">"
			"<path d=\"M0 0 L10 5 L0 10 z\" fill=\"%s\"/></marker>\n",
			styles[i].name, styles[i].colour);
	fputs("</defs>\n", out);
}

static void put_lanes(const struct vb_ladder *ladder, FILE *out)
{
	for (unsigned i = 0; i < ladder->lanes; i++) {
		const struct vb_ladder_lane *lane = &ladder->lane[i];
		double x = lane_x(ladder, i);

		fprintf(out, "<line class=\"lane\" x1=\"%.0f\" y1=\"%d\" x2=\"%.0f\" y2=\"%.0f\" stroke=\"#444\" "
			"stroke-width=\"2\"/>\n", x, HEAD_TOP + HEAD_HEIGHT, x, ladder->height);
		fprintf(out, "<rect x=\"%.0f\" y=\"%d\" width=\"230\" height=\"%d\" rx=\"4\" fill=\"#f2f2f2\" "
			"stroke=\"#444\"/>\n", x - 115, HEAD_TOP, HEAD_HEIGHT);
		fprintf(out, "<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\" font-weight=\"bold\" font-size=\"14\">", x,
			HEAD_TOP + 17);
		put_escaped(out, lane->name);
		fprintf(out, "</text>\n<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\" font-size=\"11\" fill=\"#555\">", x,
			HEAD_TOP + 33);
		put_escaped(out, lane->detail);
		fputs("</text>\n", out);
	}
}

static void put_gaps(const struct vb_ladder *ladder, FILE *out)
{
	for (size_t i = 0; i < ladder->gaps; i++) {
		double y = ladder->gap[i].y;

		for (unsigned lane = 0; lane < ladder->lanes; lane++)
			fprintf(out, "<line x1=\"%.0f\" y1=\"%.1f\" x2=\"%.0f\" y2=\"%.1f\" stroke=\"#fff\" "
				"stroke-width=\"4\" stroke-dasharray=\"3 3\"/>\n", lane_x(ladder, lane), y - 10,
				lane_x(ladder, lane), y + 10);
		/* Beside the times: between the lanes it would stand in the way of arrows and their labels. */
		fprintf(out, "<text class=\"gap\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\" font-size=\"10\" "
			"font-style=\"italic\" fill=\"#c25e00\">\xe2\x8b\xae +", TIME_WIDTH - 8, y + 3.5);
		put_duration(out, ladder->gap[i].length);
		fputs("</text>\n", out);
	}
}

static void put_detail(const struct vb_ladder *ladder, const struct vb_ladder_item *item, FILE *out)
{
	fputs("<title>", out);
	put_escaped(out, item->detail);
	fputs(", at ", out);
	put_duration(out, vb_story_elapsed(ladder->start, item->time));
	fputs("</title>", out);
}

static void put_arrow(const struct vb_ladder *ladder, const struct vb_ladder_item *item, FILE *out)
{
	enum vb_ladder_style style = item->lost || item->damaged ? VB_LADDER_NAK : item->style;
	double x1 = lane_x(ladder, item->from), x2 = lane_x(ladder, item->to), y1 = item->y, y2 = item->arrival_y;
	bool right = x2 >= x1;
	double angle, length, text_x, text_y;

	if (item->lost || !item->arrives) {
		/* It gets no further than this. */
		y2 = y1 + (y2 - y1) * 0.72;
		x2 = x1 + (x2 - x1) * 0.72;
	}
	/* Within one lane (a queue pair that talks to itself) a short hook to the right. */
	if (item->from == item->to)
		x2 = x1 + 60;
	length = hypot(x2 - x1, y2 - y1);
	angle = atan2(y2 - y1, x2 - x1) * 180 / M_PI;
	fprintf(out, "<g class=\"packet %s%s\">", styles[item->style].name, item->lost ? " lost" : "");
	put_detail(ladder, item, out);
	fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%s\"%s "
		"marker-end=\"url(#head-%s)\"/>", x1, y1, x2, y2, styles[style].colour, item->times > 1 ? "3" : "1.6",
		item->style == VB_LADDER_AGAIN ? " stroke-dasharray=\"7 4\"" : "", styles[style].name);
	if (item->lost || !item->arrives)
		fprintf(out, "<path d=\"M%.1f %.1f l12 12 m0 -12 l-12 12\" stroke=\"%s\" stroke-width=\"2.5\" "
			"fill=\"none\"/>", x2 - 6 + (right ? 8 : -8), y2 - 6, styles[VB_LADDER_NAK].colour);
	/* The label runs along the arrow, from the sender on; where arrows cross, labels seldom do. */
	text_x = x1 + (x2 - x1) * LABEL_GAP / length;
	text_y = y1 + (y2 - y1) * LABEL_GAP / length;
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" transform=\"rotate(%.2f %.1f %.1f)\" text-anchor=\"%s\" dy=\"-4\" "
		HALO(3) "font-size=\"12\" fill=\"%s\">", text_x, text_y, right ? angle : angle - 180, text_x, text_y,
		right ? "start" : "end", styles[style].colour);
	put_escaped(out, item->label);
	fputs("</text></g>\n", out);
}

/* How wide it will be, about: the font cannot be asked. */
static double text_width(const char *text)
{
	double width = 0;

	for (; *text; text++)
		if (((unsigned char)*text & 0xc0) != 0x80)
			width += *text >= 'A' && *text <= 'Z' ? 8.4 : *text == ' ' || *text == ',' ? 4 : 6.8;
	return width;
}

static void put_box(const struct vb_ladder *ladder, const struct vb_ladder_item *item, FILE *out)
{
	double x = lane_x(ladder, item->from), width = 16 + text_width(item->label), left;

	left = ladder->lane[item->from].boxes_left ? x - 8 - width : x + 8;
	fprintf(out, "<g class=\"event %s\">", styles[item->style].name);
	put_detail(ladder, item, out);
	fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"4\" fill=\"%s\" stroke=\"%s\"/>", left,
		item->y - BOX_HEIGHT / 2.0, width, BOX_HEIGHT, styles[item->style].fill, styles[item->style].colour);
	fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>", x, item->y, styles[item->style].colour);
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"12\" text-anchor=\"middle\" fill=\"%s\">", left + width / 2,
		item->y + 4, styles[item->style].colour);
	put_escaped(out, item->label);
	fputs("</text></g>\n", out);
}

/* At the left edge; not where the last one would touch it. */
static void put_times(const struct vb_ladder *ladder, FILE *out)
{
	double last = -100;

	for (size_t i = 0; i < ladder->items; i++) {
		const struct vb_ladder_item *item = &ladder->item[i];

		if (item->y - last < 16)
			continue;
		last = item->y;
		fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" font-size=\"10\" fill=\"#999\">", TIME_WIDTH - 8,
			item->y + 3.5);
		put_duration(out, vb_story_elapsed(ladder->start, item->time));
		fputs("</text>\n", out);
	}
}

static void put_legend(const struct vb_ladder *ladder, FILE *out)
{
	bool used[STYLES] = {false};
	double x = TIME_WIDTH, y = ladder->height + 20;

	for (size_t i = 0; i < ladder->items; i++) {
		const struct vb_ladder_item *item = &ladder->item[i];

		used[item->lost || item->damaged ? VB_LADDER_NAK : item->style] = true;
	}
	for (unsigned i = 0; i < STYLES; i++) {
		if (!used[i])
			continue;
		if (i < ARROW_STYLES)
			fprintf(out, "<line x1=\"%.0f\" y1=\"%.0f\" x2=\"%.0f\" y2=\"%.0f\" stroke=\"%s\" stroke-width=\"1.6\"%s "
				"marker-end=\"url(#head-%s)\"/>\n", x, y, x + 30, y, styles[i].colour,
				i == VB_LADDER_AGAIN ? " stroke-dasharray=\"7 4\"" : "", styles[i].name);
		else
			fprintf(out, "<rect x=\"%.0f\" y=\"%.0f\" width=\"30\" height=\"12\" rx=\"3\" fill=\"%s\" "
				"stroke=\"%s\"/>\n", x, y - 6, styles[i].fill, styles[i].colour);
		fprintf(out, "<text x=\"%.0f\" y=\"%.0f\" font-size=\"11\" fill=\"#555\">%s</text>\n", x + 36, y + 4,
			styles[i].says);
		x += 60 + 6.2 * (double)strlen(styles[i].says);
	}
	fprintf(out, "<text x=\"%d\" y=\"%.0f\" font-size=\"11\" fill=\"#777\">", TIME_WIDTH, y + 24);
	put_escaped(out, ladder->psn_note);
	fputs("</text>\n", out);
	if (ladder->left_out > 0)
		fprintf(out, "<text x=\"%d\" y=\"%.0f\" font-size=\"11\" fill=\"#777\">%zu packet%s not drawn</text>\n",
			TIME_WIDTH, y + 40, ladder->left_out, ladder->left_out == 1 ? " is" : "s are");
}

void vb_ladder_svg(const struct vb_ladder *ladder, FILE *out)
{
	double width = width_of(ladder), height = ladder->height + LEGEND;

	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
		"font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n", width, height, width, height);
	put_definitions(out);
	fprintf(out, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", width, height);
	if (ladder->title) {
		fprintf(out, "<text x=\"%.0f\" y=\"24\" text-anchor=\"middle\" font-size=\"15\">",
			(lane_x(ladder, 0) + lane_x(ladder, ladder->lanes > 1 ? ladder->lanes - 1 : 1)) / 2);
		put_escaped(out, ladder->title);
		fputs("</text>\n", out);
	}
	put_lanes(ladder, out);
	put_times(ladder, out);
	for (size_t i = 0; i < ladder->items; i++)
		if (ladder->item[i].is_arrow)
			put_arrow(ladder, &ladder->item[i], out);
	put_gaps(ladder, out);
	/* Boxes over arrows: between two lanes they may meet. */
	for (size_t i = 0; i < ladder->items; i++)
		if (!ladder->item[i].is_arrow)
			put_box(ladder, &ladder->item[i], out);
	put_legend(ladder, out);
	fputs("</svg>\n", out);
}

void vb_ladder_html(const struct vb_ladder *ladder, FILE *out)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>", out);
	put_escaped(out, ladder->title ? ladder->title : "Ladder");
	fputs("</title>\n<style>body { font-family: sans-serif } svg { max-width: 100%; height: auto } "
	      "g.packet:hover line { stroke-width: 4 } g.event:hover rect { stroke-width: 3 } "
	      "table { border-collapse: collapse; font-size: 13px } td, th { border-bottom: 1px solid #ddd; padding: 3px 10px; "
	      "text-align: left } tr:hover { background: #f4f4f4 }</style></head>\n<body>\n", out);
	vb_ladder_svg(ladder, out);
	fputs("<table>\n<tr><th>Time</th><th>At</th><th>To</th><th>What</th><th>Details</th></tr>\n", out);
	for (size_t i = 0; i < ladder->items; i++) {
		const struct vb_ladder_item *item = &ladder->item[i];

		fprintf(out, "<tr style=\"color: %s\"><td>", styles[item->style].colour);
		put_duration(out, vb_story_elapsed(ladder->start, item->time));
		fputs("</td><td>", out);
		put_escaped(out, ladder->lane[item->from].name);
		fputs("</td><td>", out);
		put_escaped(out, item->is_arrow ? ladder->lane[item->to].name : "");
		fputs("</td><td>", out);
		put_escaped(out, item->label);
		fputs("</td><td>", out);
		put_escaped(out, item->detail);
		fputs("</td></tr>\n", out);
	}
	fputs("</table>\n</body></html>\n", out);
}
