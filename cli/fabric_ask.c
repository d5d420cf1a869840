/* SPDX-License-Identifier: MIT
 *
 * `verbena fabric show`, `cut` and `mend`: asked of the process of `fabric up` in this network namespace (fabric_answer.h).
 */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/fabric.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/unix_socket.h"
#include "wire/cable.h"

#define PATIENCE VB_SECONDS(10)

static int ask(uint16_t port, const char *request)
{
	char name[32], answer[32 * 1024];
	int code = VB_CLI_FAILED, fd;
	unsigned count;
	ssize_t length;

	vb_cli_fabric_socket(port, name);
	fd = vb_unix_connect(name);
	if (fd < 0) {
		fprintf(stderr, "verbena fabric: no fabric with UDP port %u runs on this host: `verbena fabric up` starts one\n", port);
		return VB_CLI_FAILED;
	}
	if (vb_unix_send(fd, request, strlen(request), NULL, 0, true) == 0)
		while ((length = vb_unix_receive(fd, answer, sizeof(answer), NULL, 0, &count, vb_clock_now() + PATIENCE)) > 0) {
			code = answer[0] == '+' ? VB_CLI_DONE : VB_CLI_FAILED;
			if (code == VB_CLI_FAILED)
				fprintf(stderr, "verbena fabric: ");
			fwrite(answer + 1, 1, (size_t)length - 1, code == VB_CLI_DONE ? stdout : stderr);
		}
	vb_descriptor_close(fd);
	return code;
}

int vb_cli_fabric_ask(int argc, char **argv)
{
	bool wants_port = argv[0][0] != 's';
	const char *where = NULL;
	uint16_t port = VB_CABLE_PORT;
	char request[256];

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--port")) {
			if (i + 1 == argc || !vb_cli_fabric_parse_port(argv[i + 1], &port))
				return vb_cli_fabric_usage("not a UDP port", i + 1 == argc ? NULL : argv[i + 1]);
			i++;
		} else if (argv[i][0] == '-') {
			return vb_cli_fabric_usage("unknown option", argv[i]);
		} else if (where || !wants_port) {
			return vb_cli_fabric_usage("too many arguments", argv[i]);
		} else {
			where = argv[i];
		}
	}
	if (wants_port && !where)
		return vb_cli_fabric_usage("which port of which node? NAME:PORT", NULL);
	if (snprintf(request, sizeof(request), "%s%s%s", argv[0], where ? " " : "", where ? where : "") >= (int)sizeof(request))
		return vb_cli_fabric_usage("the name is too long", where);
	return ask(port, request);
}
