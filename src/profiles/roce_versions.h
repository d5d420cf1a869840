/* SPDX-License-Identifier: MIT
 *
 * Which versions of RoCE a process speaks: VERBENA_ROCE=v2 (the default), v1, or v1,v2. With both, each address has two GID indices, as
 * Linux enters them: v1, then v2. Where nothing is asked for, the profile of an adapter that has both gives such a table.
 */
#ifndef VB_PROFILES_ROCE_VERSIONS_H
#define VB_PROFILES_ROCE_VERSIONS_H

enum { VB_ROCE_V1 = 1, VB_ROCE_V2 = 2 };

/* Of what VERBENA_ROCE and VERBENA_PROFILE say; NULL or "": nothing. 0: VERBENA_ROCE is none of them. */
unsigned vb_roce_versions(const char *asked, const char *adapter);

#endif
