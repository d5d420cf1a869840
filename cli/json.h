/* SPDX-License-Identifier: MIT
 *
 * The little JSON we print: strings, escaped as RFC 8259 section 7 wants.
 */
#ifndef VB_CLI_JSON_H
#define VB_CLI_JSON_H

#include <stdio.h>

void vb_cli_json_string(FILE *out, const char *text);

#endif
