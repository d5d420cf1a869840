/* SPDX-License-Identifier: MIT */
#include "preload/sockets/filter.h"

#include <stdlib.h>
#include <string.h>

static bool take_port(const char **at, uint16_t *port)
{
	char *end;
	unsigned long value;

	if (**at < '0' || **at > '9')
		return false;
	value = strtoul(*at, &end, 10);
	if (value > UINT16_MAX)
		return false;
	*at = end;
	*port = (uint16_t)value;
	return true;
}

bool vb_sockets_filter_parse(struct vb_sockets_filter *filter, const char *text)
{
	memset(filter, 0, sizeof(*filter));
	if (strcmp(text, "all") == 0 || strcmp(text, "1") == 0) {
		filter->all_but = true;
		return true;
	}
	if (*text == '!') {
		filter->all_but = true;
		text++;
	}
	do {
		if (filter->count == VB_SOCKETS_RANGES || !take_port(&text, &filter->ranges[filter->count].first))
			return false;
		filter->ranges[filter->count].last = filter->ranges[filter->count].first;
		if (*text == '-') {
			text++;
			if (!take_port(&text, &filter->ranges[filter->count].last))
				return false;
		}
		filter->count++;
	} while (*text++ == ',');
	return text[-1] == '\0';
}

bool vb_sockets_filter_admits(const struct vb_sockets_filter *filter, uint16_t port)
{
	for (unsigned i = 0; i < filter->count; i++)
		if (port >= filter->ranges[i].first && port <= filter->ranges[i].last)
			return !filter->all_but;
	return filter->all_but;
}
