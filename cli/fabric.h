/* SPDX-License-Identifier: MIT
 *
 * `verbena fabric SUBCOMMAND`: the table is in fabric.c, each row's function in a file of its own.
 */
#ifndef VB_CLI_FABRIC_H
#define VB_CLI_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

/* argv[0] is the subcommand. Returns an exit code of command.h. */
int vb_cli_fabric_up(int argc, char **argv);
int vb_cli_fabric_join(int argc, char **argv);
int vb_cli_fabric_leave(int argc, char **argv);
int vb_cli_fabric_ask(int argc, char **argv); /* show, cut, mend */

/* Complain about the arguments of `verbena fabric`. Returns VB_CLI_USAGE. */
int vb_cli_fabric_usage(const char *problem, const char *argument);
/* The value of `--port N`. */
bool vb_cli_fabric_parse_port(const char *text, uint16_t *port);

#endif
