/* SPDX-License-Identifier: MIT
 *
 * See roce_versions.h.
 */
#include "profiles/roce_versions.h"

#include <string.h>

#include "profiles/adapter.h"

static bool has_both(const char *name)
{
	const struct vb_adapter *adapter = name ? vb_adapter_find(name) : NULL;

	return adapter && adapter->speaks_rocev1;
}

unsigned vb_roce_versions(const char *asked, const char *adapter)
{
	if (!asked || !*asked)
		return has_both(adapter) ? VB_ROCE_V1 | VB_ROCE_V2 : VB_ROCE_V2;
	if (strcmp(asked, "v2") == 0)
		return VB_ROCE_V2;
	if (strcmp(asked, "v1") == 0)
		return VB_ROCE_V1;
	return strcmp(asked, "v1,v2") == 0 || strcmp(asked, "v2,v1") == 0 ? VB_ROCE_V1 | VB_ROCE_V2 : 0;
}
