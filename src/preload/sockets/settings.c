/* SPDX-License-Identifier: MIT */
#include "preload/sockets/settings.h"

#include <stdlib.h>
#include <string.h>

#include "preload/sockets/filter.h"

static struct vb_sockets_filter chosen;

/* Once, before the program's own main: it may change its environment. */
__attribute__((constructor)) static void read_environment(void)
{
	const char *text = secure_getenv("VERBENA_SOCKETS");

	if (text == NULL || !vb_sockets_filter_parse(&chosen, text))
		memset(&chosen, 0, sizeof(chosen));
}

bool vb_sockets_port_is_wanted(uint16_t port)
{
	return vb_sockets_filter_admits(&chosen, port);
}
