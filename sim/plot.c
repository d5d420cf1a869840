/* SPDX-License-Identifier: MIT
 *
 * Drawing experiments: see plot.h. No library: a plot is some rectangles, lines and words.
 */
#include "sim/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT = 64, TOP = 74, PANEL_WIDTH = 300, PANEL_HEIGHT = 170, GAP_X = 30, GAP_Y = 46, BOTTOM = 46, RIGHT = 24, BAR_LABELS = 200 };
enum { POINTS = 300 };                   /* of a line */

/* Told apart by those who do not see all colours, too (Okabe and Ito). */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f", "#000000"};
enum { COLOURS = sizeof(colours) / sizeof(colours[0]) };

struct row {
	const char *kind, *title;
	const struct sim_series *(*of)(const struct sim_record *record, unsigned *count);
};

static const struct sim_series *goodput_of(const struct sim_record *record, unsigned *count)
{
	*count = record->flows;
	return record->goodput;
}

static const struct sim_series *rate_of(const struct sim_record *record, unsigned *count)
{
	*count = record->flows;
	return record->rate;
}

static const struct sim_series *queue_of(const struct sim_record *record, unsigned *count)
{
	*count = record->queues;
	return record->queue;
}

static const struct sim_series *paused_of(const struct sim_record *record, unsigned *count)
{
	*count = record->queues;
	return record->paused;
}

static const struct row rows[] = {
	{"goodput", "goodput of each flow, Gb/s", goodput_of},
	{"rate", "rate that DCQCN allows each flow, Gb/s", rate_of},
	{"queue", "queue at the switch, KB", queue_of},
	{"paused", "share of time paused by PFC", paused_of},
};

static const struct row *find_row(const char *kind)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(rows[i].kind, kind) == 0)
			return &rows[i];
	return NULL;
}

/* A round number at or above. */
static double round_up(double value)
{
	double unit = value > 0 ? pow(10, floor(log10(value))) : 1;
	static const double steps[] = {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10};

	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (value <= steps[i] * unit * 1.0001)
			return steps[i] * unit;
	return 10 * unit;
}

static void text(FILE *out, double x, double y, const char *anchor, const char *style, const char *words)
{
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" style=\"%s\">", x, y, anchor, style);
	for (; *words; words++) {
		if (*words == '<' || *words == '&' || *words == '>')
			fprintf(out, "&#%d;", *words);
		else
			fputc(*words, out);
	}
	fprintf(out, "</text>\n");
}

static void number_text(FILE *out, double x, double y, const char *anchor, double value)
{
	char words[32];

	snprintf(words, sizeof(words), fabs(value) >= 10000 ? "%.0f" : "%.4g", value);
	text(out, x, y, anchor, "font-size:11px;fill:#555", words);
}

/* The greatest value of a row in all variants: they share one scale. */
static double most_in_row(const struct row *row, struct sim_record *const *records, unsigned count)
{
	double most = 0;
	bool names = false;

	for (unsigned r = 0; r < count; r++) {
		unsigned lines;
		const struct sim_series *series = row->of(records[r], &lines);

		names |= lines > 1;
		for (unsigned i = 0; i < lines; i++)
			for (unsigned k = 0; k < records[r]->samples; k++)
				most = series[i].value[k] > most ? series[i].value[k] : most;
	}
	/* Room above the lines for their names. */
	return round_up(most > 0 ? most * (names ? 1.2 : 1) : 1);
}

/* At most so many points: each the mean of its neighbours. */
static void draw_line(FILE *out, double x, double y, const struct sim_series *series, unsigned samples, double most, const char *colour)
{
	unsigned step = (samples + POINTS - 1) / POINTS;

	fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"", colour);
	for (unsigned k = 0; k < samples; k += step) {
		double sum = 0;
		unsigned count = 0;

		for (unsigned i = k; i < k + step && i < samples; i++, count++)
			sum += series->value[i];
		fprintf(out, "%.1f,%.1f ", x + PANEL_WIDTH * (k + count / 2.0) / samples, y + PANEL_HEIGHT * (1 - sum / count / most));
	}
	fprintf(out, "\"/>\n");
}

static void draw_axes(FILE *out, double x, double y, double most, bool with_numbers)
{
	for (unsigned i = 0; i <= 4; i++) {
		double at = y + PANEL_HEIGHT * (1 - i / 4.0);

		fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x, at, x + PANEL_WIDTH, at,
			i ? "#e4e4e4" : "#888");
		if (with_numbers)
			number_text(out, x - 6, at + 4, "end", most * i / 4);
	}
}

static void draw_time(FILE *out, double x, double y, const struct sim_record *record)
{
	double end = (double)record->duration / 1e6;

	for (unsigned i = 0; i <= 4; i++) {
		char words[32];

		snprintf(words, sizeof(words), i == 4 ? "%.4g ms" : "%.4g", end * i / 4);
		text(out, x + PANEL_WIDTH * i / 4.0, y + 16, i == 4 ? "end" : "middle", "font-size:11px;fill:#555", words);
	}
}

static void draw_names(FILE *out, double x, double y, const struct sim_series *series, unsigned lines)
{
	for (unsigned i = 0; i < lines && i < COLOURS; i++) {
		double at = x + 8 + (i % 2) * 145.0, down = y + 14 + i / 2 * 14;

		fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"3\"/>\n", at,
			down - 4, at + 14, down - 4, colours[i]);
		text(out, at + 19, down, "start", "font-size:11px;fill:#333;paint-order:stroke;stroke:#fff;stroke-width:3px",
		     series[i].name);
	}
}

static bool are_alike(const struct sim_record *a, const struct sim_record *b, const struct row *row)
{
	unsigned lines, others;
	const struct sim_series *x = row->of(a, &lines), *y = row->of(b, &others);

	if (lines != others)
		return false;
	for (unsigned i = 0; i < lines; i++)
		if (strcmp(x[i].name, y[i].name) != 0)
			return false;
	return true;
}

static void draw_panels(FILE *out, const struct sim_experiment *experiment, struct sim_record *const *records, double top)
{
	for (unsigned r = 0; r < experiment->row_count; r++) {
		const struct row *row = find_row(experiment->row[r]);
		double y = top + r * (PANEL_HEIGHT + GAP_Y), most;

		if (!row)
			continue;
		most = most_in_row(row, records, experiment->variant_count);
		text(out, LEFT, y - 8, "start", "font-size:12px;fill:#333;font-weight:bold", row->title);
		for (unsigned v = 0; v < experiment->variant_count; v++) {
			double x = LEFT + v * (PANEL_WIDTH + GAP_X);
			unsigned lines;
			const struct sim_series *series = row->of(records[v], &lines);

			draw_axes(out, x, y, most, v == 0);
			/* The first on top: it is what the others are compared with. */
			for (unsigned i = lines; i > 0; i--)
				draw_line(out, x, y, &series[i - 1], records[v]->samples, most, colours[(i - 1) % COLOURS]);
			if (lines > 1 && (v == 0 || !are_alike(records[v], records[v - 1], row)))
				draw_names(out, x, y, series, lines);
			draw_time(out, x, y + PANEL_HEIGHT, records[v]);
		}
	}
}

static void draw_bars(FILE *out, const struct sim_experiment *experiment, struct sim_record *const *records, double top)
{
	enum { BAR = 20, STEP = 28, WIDTH = 460 };

	for (unsigned b = 0; b < experiment->bar_count; b++) {
		char metric[96];
		const char *title = strchr(experiment->bar[b], ':');
		double values[SIM_MOST_VARIANTS] = {0}, most = 0, y = top;

		/* "flow:NAME: title" has two of them. */
		if (title && strncmp(experiment->bar[b], "flow:", 5) == 0)
			title = strchr(title + 1, ':');
		snprintf(metric, sizeof(metric), "%.*s", (int)(title ? title - experiment->bar[b] : 95), experiment->bar[b]);
		text(out, LEFT, y - 8, "start", "font-size:12px;fill:#333;font-weight:bold", title ? title + 2 : metric);
		for (unsigned v = 0; v < experiment->variant_count; v++) {
			sim_record_metric(records[v], metric, &values[v]);
			most = values[v] > most ? values[v] : most;
		}
		for (unsigned v = 0; v < experiment->variant_count; v++, y += STEP) {
			double width = most > 0 ? WIDTH * values[v] / most : 0;

			text(out, LEFT + BAR_LABELS - 8, y + BAR - 5, "end", "font-size:12px;fill:#333", records[v]->name);
			fprintf(out, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", LEFT + BAR_LABELS, y,
				width > 1 ? width : 1, BAR, colours[v % COLOURS]);
			number_text(out, LEFT + BAR_LABELS + width + 6, y + BAR - 5, "start", values[v]);
		}
		top = y + GAP_Y;
	}
}

void sim_plot(FILE *out, const struct sim_experiment *experiment, struct sim_record *const *records)
{
	unsigned columns = experiment->row_count ? experiment->variant_count : 0;
	double wide = LEFT + columns * (double)(PANEL_WIDTH + GAP_X) - GAP_X + RIGHT, least = experiment->bar_count ? 800 : 420;
	double panels = experiment->row_count * (double)(PANEL_HEIGHT + GAP_Y);
	double bars = experiment->bar_count * (experiment->variant_count * 28.0 + GAP_Y);
	double width = wide > least ? wide : least, height = TOP + panels + bars + BOTTOM - GAP_Y;

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
		"font-family=\"system-ui, sans-serif\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		width, height, width, height);
	text(out, LEFT, 24, "start", "font-size:15px;font-weight:bold;fill:#111", experiment->title);
	for (unsigned v = 0; v < columns; v++)
		text(out, LEFT + v * (PANEL_WIDTH + GAP_X) + PANEL_WIDTH / 2, 46, "middle", "font-size:13px;fill:#111", records[v]->name);
	draw_panels(out, experiment, records, TOP);
	draw_bars(out, experiment, records, TOP + panels);
	fprintf(out, "</svg>\n");
}
