/* SPDX-License-Identifier: MIT
 *
 * See suggest.h. A command's options are those that its --help names before the examples, but for commands in `quotes`; its words
 * (subcommands, kinds) those of small letters in the lines of "Usage:".
 */
#include "cli/suggest.h"

#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "profiles/adapter.h"

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned vb_cli_word_distance(const char *a, const char *b)
{
	unsigned row[3][VB_CLI_WORD_ROOM + 1];
	size_t width = strlen(b);

	if (width > VB_CLI_WORD_ROOM || strlen(a) > VB_CLI_WORD_ROOM)
		return VB_CLI_WORD_ROOM;
	for (size_t j = 0; j <= width; j++)
		row[0][j] = (unsigned)j;
	for (size_t i = 1; a[i - 1]; i++) {
		unsigned *now = row[i % 3], *before = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= width; j++) {
			now[j] = least(least(before[j], now[j - 1]) + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = least(now[j], earlier[j - 2] + 1);
		}
	}
	return row[strlen(a) % 3][width];
}

/* Keeps the better of two suggestions. A third of the letters may be wrong; a word of which this one is the beginning is near too. */
static void consider(const char *word, const char *candidate, unsigned *best, char suggestion[VB_CLI_WORD_ROOM])
{
	size_t length = strlen(word);
	unsigned distance = vb_cli_word_distance(word, candidate);

	if (length >= 3 && !strncmp(word, candidate, length))
		distance = least(distance, 1);
	if (distance >= *best || distance > (length + 2) / 3 || strlen(candidate) >= VB_CLI_WORD_ROOM)
		return;
	*best = distance;
	strcpy(suggestion, candidate);
}

bool vb_cli_suggest_command(const char *word, char suggestion[VB_CLI_WORD_ROOM])
{
	const struct vb_cli_command *command;
	unsigned best = VB_CLI_WORD_ROOM;

	for (size_t i = 0; (command = vb_cli_command_at(i)); i++)
		consider(word, command->name, &best, suggestion);
	return best < VB_CLI_WORD_ROOM;
}

bool vb_cli_suggest_profile(const char *word, char suggestion[VB_CLI_WORD_ROOM])
{
	const struct vb_adapter *adapter;
	unsigned best = VB_CLI_WORD_ROOM;

	for (unsigned i = 0; (adapter = vb_adapter_at(i)) != NULL; i++)
		consider(word, adapter->name, &best, suggestion);
	return best < VB_CLI_WORD_ROOM;
}

bool vb_cli_suggest_option(const struct vb_cli_command *command, const char *word, char suggestion[VB_CLI_WORD_ROOM])
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz-";
	const char *end = strstr(command->usage, "\nExample"), *at = command->usage;
	char plain[VB_CLI_WORD_ROOM], option[VB_CLI_WORD_ROOM];
	unsigned best = VB_CLI_WORD_ROOM;
	bool quoted = false;

	/* The value of --option=VALUE is not part of its name. */
	snprintf(plain, sizeof(plain), "%.*s", (int)strcspn(word, "="), word);
	for (const char *from = at; (at = strstr(at, "--")) != NULL && (!end || at < end);) {
		size_t length = strspn(at, letters);

		for (; from < at; from++)
			quoted ^= *from == '`';
		if (!quoted && length > 2 && length < sizeof(option)) {
			snprintf(option, sizeof(option), "%.*s", (int)length, at);
			consider(plain, option, &best, suggestion);
		}
		at += length;
	}
	consider(plain, "--help", &best, suggestion);
	return best < VB_CLI_WORD_ROOM;
}

bool vb_cli_suggest_word(const struct vb_cli_command *command, const char *word, char suggestion[VB_CLI_WORD_ROOM])
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
	const char *end = strstr(command->usage, "\n\n"), *at = command->usage;
	char candidate[VB_CLI_WORD_ROOM];
	unsigned best = VB_CLI_WORD_ROOM;

	while (at < end) {
		size_t length = strcspn(at, " []|\n");

		snprintf(candidate, sizeof(candidate), "%.*s", (int)length, at);
		if (length > 0 && length < sizeof(candidate) && strspn(candidate, letters) == length && strcmp(candidate, "verbena") != 0 &&
		    strcmp(candidate, command->name) != 0)
			consider(word, candidate, &best, suggestion);
		at += length + 1;
	}
	return best < VB_CLI_WORD_ROOM;
}
