/* SPDX-License-Identifier: MIT
 *
 * Profiles of adapters (docs/profiles.md), as people name and see them.
 */
#ifndef VB_CLI_PROFILE_H
#define VB_CLI_PROFILE_H

#include <stdlib.h>

#include "profiles/adapter.h"

/* For the command and all that it starts. VB_CLI_*; an unknown name is complained of, with what may have been meant. */
int vb_cli_profile_choose(const char *command, const char *name);

/* What VERBENA_PROFILE asks for; NULL: nothing, or a name that is none. */
static inline const struct vb_adapter *vb_cli_profile_chosen(void)
{
	const char *name = getenv("VERBENA_PROFILE");

	return name ? vb_adapter_find(name) : NULL;
}

/* All that there are, with what they grant. */
void vb_cli_profiles_print(void);

#endif
