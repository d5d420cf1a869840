/* SPDX-License-Identifier: MIT
 *
 * Which versions of RoCE a process speaks: VERBENA_ROCE=v2 (the default), v1, or v1,v2. With both, each address has two GID indices, as
 * Linux enters them: v1, then v2.
 */
#ifndef VB_PROFILES_ROCE_VERSIONS_H
#define VB_PROFILES_ROCE_VERSIONS_H

#include <string.h>

enum { VB_ROCE_V1 = 1, VB_ROCE_V2 = 2 };

/* 0: that is none of them. NULL or "": the default. */
static inline unsigned vb_roce_versions_parse(const char *text)
{
	if (!text || !*text || strcmp(text, "v2") == 0)
		return VB_ROCE_V2;
	if (strcmp(text, "v1") == 0)
		return VB_ROCE_V1;
	return strcmp(text, "v1,v2") == 0 || strcmp(text, "v2,v1") == 0 ? VB_ROCE_V1 | VB_ROCE_V2 : 0;
}

#endif
