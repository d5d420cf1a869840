/* SPDX-License-Identifier: MIT
 *
 * "Did you mean ...?"
 */
#ifndef VB_CLI_SUGGEST_H
#define VB_CLI_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

struct vb_cli_command;

enum { VB_CLI_WORD_ROOM = 32 };

/* How many letters must be added, dropped, changed or swapped with their neighbour to make one word the other. */
unsigned vb_cli_word_distance(const char *a, const char *b);

/* The command, the profile, or the option or word (subcommand, kind) of the command, that is nearest to a word that is none; false:
 * nothing is near. */
bool vb_cli_suggest_command(const char *word, char suggestion[VB_CLI_WORD_ROOM]);
bool vb_cli_suggest_profile(const char *word, char suggestion[VB_CLI_WORD_ROOM]);
bool vb_cli_suggest_option(const struct vb_cli_command *command, const char *word, char suggestion[VB_CLI_WORD_ROOM]);
bool vb_cli_suggest_word(const struct vb_cli_command *command, const char *word, char suggestion[VB_CLI_WORD_ROOM]);

#endif
