/* SPDX-License-Identifier: MIT
 *
 * Help texts name documents as docs/NAME.md, which is where they are in the source tree. An installed program says where they were
 * installed, PREFIX/share/doc/verbena/docs, or, without them, only their names.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/library.h"

static const char source_tree[] = "docs/";

static bool is_in(const char *root, const char *directory, const char *name, size_t length)
{
	char path[VB_CLI_PATH_MAX + 256];

	snprintf(path, sizeof(path), "%s/%s/%.*s", root, directory, (int)length, name);
	return access(path, R_OK) == 0;
}

static void print_directory(const char *root, const char *name)
{
	static const char installed[] = "share/doc/verbena/docs";
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz-");

	if (!strncmp(name + length, ".md", 3))
		length += 3;
	if (is_in(root, installed, name, length))
		printf("%s/%s/", root, installed);
	else if (is_in(root, "../docs", name, length))
		fputs(source_tree, stdout);
}

void vb_cli_usage_print(const struct vb_cli_command *command)
{
	char root[VB_CLI_PATH_MAX] = "";
	const char *at = command->usage, *found;

	(void)vb_cli_root_directory(root);
	while ((found = strstr(at, source_tree)) != NULL) {
		printf("%.*s", (int)(found - at), at);
		at = found + strlen(source_tree);
		print_directory(root, at);
	}
	fputs(at, stdout);
}
