/* SPDX-License-Identifier: MIT
 *
 * JSON strings. Names of interfaces and processes are chosen by others: anything may be in them.
 */
#include "cli/json.h"

void vb_cli_json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (*c == '"' || *c == '\\')
			fprintf(out, "\\%c", *c);
		else if (*c < 0x20 || *c == 0x7f)
			fprintf(out, "\\u%04x", *c);
		else
			fputc(*c, out);
	}
	fputc('"', out);
}
