/* SPDX-License-Identifier: MIT
 *
 * See mpa_settings.h.
 */
#include "connect/mpa_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_MS = 100, LAST_MS = 100, LONGEST_MS = 60000, WORD = 64 };

static bool is(const char *value, const char *name)
{
	return strcmp(value, name) == 0;
}

static bool take_switch(const char *value, bool *to)
{
	if (!is(value, "on") && !is(value, "off"))
		return false;
	*to = is(value, "on");
	return true;
}

static bool take_choice(const char *value, const char *on, const char *off, enum vb_mpa_choice *to)
{
	if (!is(value, "auto") && !is(value, on) && !is(value, off))
		return false;
	*to = is(value, on) ? VB_MPA_ON : is(value, off) ? VB_MPA_OFF : VB_MPA_AUTO;
	return true;
}

static bool take_milliseconds(const char *value, int32_t *to)
{
	char *end;
	long number = strtol(value, &end, 10);

	if (*value < '0' || *value > '9' || *end != '\0' || number > LONGEST_MS)
		return false;
	*to = (int32_t)number;
	return true;
}

static bool take_word(struct vb_mpa_settings *settings, char *word)
{
	char *value = strchr(word, '=');

	if (!value)
		return false;
	*value++ = '\0';
	if (is(word, "crc"))
		return take_choice(value, "on", "off", &settings->crc);
	if (is(word, "fpdu"))
		return take_choice(value, "large", "segment", &settings->large);
	if (is(word, "p2p"))
		return take_switch(value, &settings->peer_to_peer);
	if (is(word, "extensions"))
		return take_switch(value, &settings->extensions);
	if (is(word, "last"))
		return take_milliseconds(value, &settings->last_ms);
	if (!is(word, "first"))
		return false;
	if (!is(value, "strict"))
		return take_milliseconds(value, &settings->first_ms);
	settings->first_ms = -1;
	return true;
}

bool vb_mpa_settings_parse(struct vb_mpa_settings *settings, const char *text, char *why, size_t room)
{
	bool understood = true;

	*settings = (struct vb_mpa_settings){.first_ms = FIRST_MS, .last_ms = LAST_MS};
	while (text && *text) {
		size_t length = strcspn(text, ",");
		char word[WORD];

		snprintf(word, sizeof(word), "%.*s", (int)length, text);
		if (length > 0 && (length >= sizeof(word) || !take_word(settings, word))) {
			snprintf(why, room, "%.*s", (int)length, text);
			understood = false;
		}
		text += length;
		text += *text == ',';
	}
	return understood;
}
