/* SPDX-License-Identifier: MIT
 *
 * `verbena fabric show`, `cut` and `mend`: asked of the process of `fabric up` in this network namespace (fabric_answer.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/fabric.h"
#include "cli/fabric_picture.h"
#include "cli/fabric_request.h"
#include "cli/shown.h"
#include "wire/cable.h"

#define PATIENCE VB_SECONDS(10)

static int complain(uint16_t port, int error)
{
	if (error == -ENOENT)
		fprintf(stderr, "verbena fabric: no fabric with UDP port %u runs on this host: `verbena fabric up` starts one\n", port);
	else
		fprintf(stderr, "verbena fabric: the fabric's answer is not understood: %s\n", strerror(-error));
	return VB_CLI_FAILED;
}

/* The answer goes to stdout; what is wrong, to stderr. */
static int ask(uint16_t port, const char *request)
{
	size_t length = 0;
	char *said = NULL;
	FILE *answer = open_memstream(&said, &length);
	int error = answer ? vb_cli_fabric_request(port, request, PATIENCE, answer, answer) : -ENOMEM;

	if (answer && fclose(answer) != 0 && error == 0)
		error = -ENOMEM;
	if (error == -EINVAL && length > 0)
		fputs("verbena fabric: ", stderr);
	if (error == 0 || (error == -EINVAL && length > 0))
		vb_cli_show_lines(error ? stderr : stdout, said);
	else
		complain(port, error);
	free(said);
	return error ? VB_CLI_FAILED : VB_CLI_DONE;
}

/* ---- Pictures ---- */

/* A file that a reader opens is never half written. */
static int write_picture(struct vb_cli_fabric_list *list, const char *path)
{
	char fresh[4096];
	bool failed;
	FILE *out;

	if (snprintf(fresh, sizeof(fresh), "%s.new", path) >= (int)sizeof(fresh) || !(out = fopen(fresh, "w"))) {
		fprintf(stderr, "verbena fabric: %s: %s\n", path, strerror(errno));
		return VB_CLI_FAILED;
	}
	vb_cli_fabric_list_svg(list, out);
	failed = ferror(out) != 0;
	if (fclose(out) || failed || rename(fresh, path)) {
		fprintf(stderr, "verbena fabric: %s: %s\n", path, strerror(errno));
		unlink(fresh);
		return VB_CLI_FAILED;
	}
	return VB_CLI_DONE;
}

/* As JSON to stdout (no path), or as a picture. */
static int show(uint16_t port, const char *path)
{
	struct vb_cli_fabric_list list;
	int error = vb_cli_fabric_list_get(port, PATIENCE, &list), code = VB_CLI_DONE;

	if (error)
		code = complain(port, error);
	else if (path)
		code = write_picture(&list, path);
	else
		vb_cli_fabric_list_json(&list, stdout);
	vb_cli_fabric_list_free(&list);
	return code;
}

/* Again and again until interrupted, or the fabric is gone. */
static int show_again(uint16_t port, const char *path, unsigned seconds)
{
	int code;

	while ((code = show(port, path)) == VB_CLI_DONE && seconds > 0)
		sleep(seconds);
	return code;
}

int vb_cli_fabric_ask(int argc, char **argv)
{
	bool wants_port = argv[0][0] != 's', json = false;
	const char *where = NULL, *picture = NULL;
	unsigned long every = 0;
	char *end;
	uint16_t port = VB_CABLE_PORT;
	char request[256];

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--port")) {
			if (i + 1 == argc || !vb_cli_fabric_parse_port(argv[i + 1], &port))
				return vb_cli_fabric_usage("not a UDP port", i + 1 == argc ? NULL : argv[i + 1]);
			i++;
		} else if (!wants_port && !strcmp(argv[i], "--json")) {
			json = true;
		} else if (!wants_port && !strcmp(argv[i], "--svg")) {
			if (++i == argc)
				return vb_cli_fabric_usage("--svg: into which file?", NULL);
			picture = argv[i];
		} else if (!wants_port && !strcmp(argv[i], "--every")) {
			if (++i == argc || (every = strtoul(argv[i], &end, 10), *end) || every < 1 || every > 3600)
				return vb_cli_fabric_usage("--every takes seconds, 1 to 3600, not", i == argc ? NULL : argv[i]);
		} else if (argv[i][0] == '-') {
			return vb_cli_fabric_usage("unknown option", argv[i]);
		} else if (where || !wants_port) {
			return vb_cli_fabric_usage("too many arguments", argv[i]);
		} else {
			where = argv[i];
		}
	}
	if ((every && !picture) || (json && picture))
		return vb_cli_fabric_usage(every ? "--every goes with --svg" : "--json or --svg, not both", NULL);
	if (json || picture)
		return show_again(port, picture, (unsigned)every);
	if (wants_port && !where)
		return vb_cli_fabric_usage("which port of which node? NAME:PORT", NULL);
	if (snprintf(request, sizeof(request), "%s%s%s", argv[0], where ? " " : "", where ? where : "") >= (int)sizeof(request))
		return vb_cli_fabric_usage("the name is too long", where);
	return ask(port, request);
}
