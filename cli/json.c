/* SPDX-License-Identifier: MIT
 *
 * JSON strings. Names of interfaces and processes are chosen by others: anything may be in them.
 */
#include "cli/json.h"

#include "base/utf8.h"

void vb_cli_json_string(FILE *out, const char *text)
{
	size_t length;

	fputc('"', out);
	for (const char *at = text; *at; at += length ? length : 1) {
		length = vb_utf8_length(at);
		if (*at == '"' || *at == '\\')
			fprintf(out, "\\%c", *at);
		else if (length > 0)
			fwrite(at, 1, length, out);
		else if ((unsigned char)*at < 0x80)
			fprintf(out, "\\u%04x", (unsigned)*at);
		else
			fputs("\\ufffd", out); /* of no character */
	}
	fputc('"', out);
}
