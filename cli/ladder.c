/* SPDX-License-Identifier: MIT
 *
 * `verbena ladder`: a capture as a sequence diagram.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/capture.h"
#include "cli/command.h"

static bool read_count(const char *text, unsigned long *out)
{
	char *end;

	*out = strtoul(text, &end, 0);
	return *text >= '0' && *text <= '9' && *end == '\0';
}

static int ladder(int argc, char **argv)
{
	struct vb_cli_pictures pictures = {.options = {.most = VB_CLI_LADDER_ARROWS}};
	const char *file = NULL, *first = NULL, *most = NULL, *qp = NULL;
	unsigned long number;

	for (int i = 1; i < argc; i++) {
		const char **value = !strcmp(argv[i], "-o") || !strcmp(argv[i], "--output") ? &pictures.svg :
				     !strcmp(argv[i], "--html") ? &pictures.html :
				     !strcmp(argv[i], "--text") ? &pictures.text :
				     !strcmp(argv[i], "--title") ? &pictures.options.title :
				     !strcmp(argv[i], "--skip") ? &first :
				     !strcmp(argv[i], "--packets") ? &most :
				     !strcmp(argv[i], "--qp") ? &qp : NULL;

		if (!strcmp(argv[i], "--absolute")) {
			pictures.options.absolute = true;
		} else if (value) {
			if (i + 1 == argc)
				return vb_cli_usage_error(&vb_cli_ladder, "a value is missing", argv[i]);
			*value = argv[++i];
		} else if (argv[i][0] == '-' && argv[i][1]) {
			return vb_cli_usage_error(&vb_cli_ladder, "unknown option", argv[i]);
		} else if (file) {
			return vb_cli_usage_error(&vb_cli_ladder, "one capture at a time", argv[i]);
		} else {
			file = argv[i];
		}
	}
	if (!file)
		return vb_cli_usage_error(&vb_cli_ladder, "which capture?", NULL);
	if (first && !read_count(first, &number))
		return vb_cli_usage_error(&vb_cli_ladder, "not a number", first);
	if (first)
		pictures.options.first = number;
	if (most && (!read_count(most, &number) || number == 0))
		return vb_cli_usage_error(&vb_cli_ladder, "not a number of packets", most);
	if (most)
		pictures.options.most = number;
	if (qp && (!read_count(qp, &number) || number > 0xffffff))
		return vb_cli_usage_error(&vb_cli_ladder, "not a queue pair number", qp);
	if (qp)
		pictures.options.qpn = (uint32_t)number;
	if (!pictures.svg && !pictures.html && !pictures.text)
		pictures.svg = "-";
	return vb_cli_draw("ladder", file, &pictures);
}

const struct vb_cli_command vb_cli_ladder = {
	.name = "ladder",
	.summary = "draw a capture as a sequence diagram",
	.usage = "Usage: verbena ladder FILE [-o FILE.svg] [OPTIONS]\n\n"
		 "Draws what a teacher would: the parties as vertical lines, time flowing down (not to scale), packets as\n"
		 "arrows, work posted and completed beside them; what was lost, sent again or refused is marked. Rest the\n"
		 "mouse on anything for its details.\n\n"
		 "  -o, --output FILE   the picture, an SVG; without it or with - to standard output\n"
		 "  --text FILE         the same as plain text, one line for each arrow; - is standard output\n"
		 "  --html FILE         a page with the picture and a table of all that is in it\n"
		 "  --title TEXT        above the picture\n"
		 "  --skip N            leave out the first N packets\n"
		 "  --packets N         draw at most N packets (200)\n"
		 "  --qp QPN            only this queue pair and its peer\n"
		 "  --absolute          PSNs as they travel, not counted from each queue pair's first\n\n"
		 "Captures of tcpdump or Wireshark (pcap or pcapng) can be drawn too; they know no work requests.\n\n"
		 "Examples:\n"
		 "  verbena ladder x.pcapng -o x.svg\n"
		 "  verbena ladder x.pcapng --text - | less -S\n"
		 "  verbena ladder x.pcapng --skip 100 --packets 20 --html x.html\n",
	.main = ladder,
};
