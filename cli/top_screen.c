/* SPDX-License-Identifier: MIT
 *
 * `verbena top` on a terminal, with ncurses: the lines of top_sample.c, a window of them at a time.
 */
#include "cli/top.h"

#include <stdio.h>
#include <string.h>

#include "cli/command.h"

#ifndef VB_HAVE_NCURSES

int vb_cli_top_screen(vb_time interval, enum vb_cli_sort sort)
{
	(void)interval;
	(void)sort;
	return -1;
}

#else

#include <curses.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/clock.h"

enum { SIDESTEP = 8 };

struct view {
	unsigned first;                    /* of the lines below the title */
	unsigned left;                     /* columns that were scrolled away */
	bool paused, explains;
	enum vb_cli_sort sort;
	struct vb_cli_lines lines;
};

static int attributes(enum vb_cli_line_style style)
{
	switch (style) {
	case VB_CLI_LINE_TITLE:
		return A_BOLD;
	case VB_CLI_LINE_HEADING:
		return A_REVERSE;
	case VB_CLI_LINE_BAD:
		return has_colors() ? COLOR_PAIR(1) : A_BOLD;
	case VB_CLI_LINE_PLAIN:
		break;
	}
	return A_NORMAL;
}

static void draw_line(int y, const struct vb_cli_line *line, unsigned left)
{
	int style = attributes(line->style);
	size_t length = strlen(line->text);
	const char *text = line->text + (left < length ? left : length);

	attrset(style);
	mvaddnstr(y, 0, text, COLS);
	/* A heading is a bar across the screen. */
	for (int x = (int)strlen(text); style == A_REVERSE && x < COLS; x++)
		mvaddch(y, x, ' ');
	attrset(A_NORMAL);
}

static void draw_explanation(void)
{
	static const char *const text[] = {
		"OUT/s, IN/s   packets a second; of a queue pair requests and answers to reads, of one that goes",
		"              through memory work requests done and messages received",
		"WORK B/s      bytes of its own work requests, SEND, WRITE and READ, that are done",
		"RECV B/s      bytes that came into its receives; of WRITEs and READs by the peer it knows nothing",
		"RETRY/s       retransmissions begun: packets are lost, or a timeout is too short",
		"DROP/s        packets out of order, repeated, damaged, or for nobody",
		"WAY           memory: the peer is a process of this host; wire: packets",
		"SEND, RECEIVE work posted of the depth granted",
		"ROUND TRIP    from a request to its acknowledgement, smoothed",
	};
	int count = (int)(sizeof(text) / sizeof(text[0])), first = LINES - 1 - count;

	for (int i = 0; i < count && first > 0; i++) {
		move(first + i, 0);
		clrtoeol();
		mvaddnstr(first + i, 0, text[i], COLS);
	}
}

static void draw(struct view *view)
{
	char keys[128];
	unsigned body = LINES > 2 ? (unsigned)LINES - 2 : 0, rest = view->lines.count ? view->lines.count - 1 : 0;

	if (view->first + body > rest)
		view->first = rest > body ? rest - body : 0;
	erase();
	if (view->lines.count > 0)
		draw_line(0, &view->lines.line[0], 0);
	for (unsigned i = 0; i < body && view->first + i < rest; i++)
		draw_line(1 + (int)i, &view->lines.line[1 + view->first + i], view->left);
	if (view->explains)
		draw_explanation();
	snprintf(keys, sizeof(keys), "q quit  space %s  s sort (%s)  ? columns  arrows scroll", view->paused ? "go on (paused)" : "pause",
		 vb_cli_sort_names[view->sort]);
	attrset(A_DIM);
	mvaddnstr(LINES - 1, 0, keys, COLS);
	attrset(A_NORMAL);
	refresh();
}

/* False: the user has seen enough. */
static bool obey(struct view *view, int key)
{
	unsigned page = LINES > 4 ? (unsigned)LINES - 4 : 1;

	switch (key) {
	case 'q':
	case 'Q':
	case 27:
		return false;
	case ' ':
		view->paused = !view->paused;
		break;
	case '?':
	case 'h':
		view->explains = !view->explains;
		break;
	case 's':
		view->sort = (view->sort + 1) % VB_CLI_SORTS;
		break;
	case '\f':
		/* Ctrl-L: others may have written on the screen. */
		clearok(curscr, TRUE);
		break;
	case KEY_LEFT:
		view->left -= view->left < SIDESTEP ? view->left : SIDESTEP;
		break;
	case KEY_RIGHT:
		view->left += view->left < sizeof(view->lines.line->text) ? SIDESTEP : 0;
		break;
	case KEY_UP:
		view->first -= view->first > 0;
		break;
	case KEY_DOWN:
		view->first++;
		break;
	case KEY_PPAGE:
		view->first = view->first > page ? view->first - page : 0;
		break;
	case KEY_NPAGE:
		view->first += page;
		break;
	case KEY_HOME:
		view->first = 0;
		break;
	}
	return true;
}

/* Keys until it is time for the next sample. False: quit. */
static bool wait_for_keys(struct view *view, vb_time until)
{
	for (;;) {
		vb_time now = vb_clock_now();
		int key;

		if (now >= until)
			return true;
		timeout((int)((until - now) / 1000000) + 1);
		key = getch();
		if (key == ERR)
			continue;
		if (!obey(view, key))
			return false;
		draw(view);
	}
}

static int show(vb_time interval, enum vb_cli_sort sort)
{
	struct vb_cli_sample older = { 0 }, newer;
	struct vb_daemon_client daemon = { .fd = -1 };
	struct view view = { .sort = sort };
	bool more = true;
	int error = 0;

	while (more) {
		vb_time next = vb_clock_now() + interval;

		if (!view.paused) {
			error = vb_cli_sample_take(&daemon, &newer);
			if (error)
				break;
			error = vb_cli_top_describe(older.when ? &older : &newer, &newer, view.sort, &view.lines);
			vb_cli_sample_free(&older);
			older = newer;
			if (error)
				break;
		}
		draw(&view);
		more = wait_for_keys(&view, next);
	}
	vb_cli_sample_free(&older);
	vb_cli_lines_free(&view.lines);
	if (daemon.fd >= 0)
		vb_daemon_client_close(&daemon);
	return error;
}

int vb_cli_top_screen(vb_time interval, enum vb_cli_sort sort)
{
	const char *no_colour = getenv("NO_COLOR");
	SCREEN *screen = newterm(NULL, stdout, stdin);
	int error;

	if (!screen)
		return -1;
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	/* A lone escape quits: do not wait a second for what might follow it. */
	set_escdelay(25);
	curs_set(0);
	if (has_colors() && !(no_colour && *no_colour)) {
		start_color();
		use_default_colors();
		init_pair(1, COLOR_RED, -1);
	}
	error = show(interval, sort);
	endwin();
	delscreen(screen);
	if (error) {
		fprintf(stderr, "verbena top: %s\n", strerror(-error));
		return VB_CLI_FAILED;
	}
	return VB_CLI_DONE;
}

#endif
