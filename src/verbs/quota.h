/* SPDX-License-Identifier: MIT
 *
 * How many objects of a kind an open device has, against what ibv_query_device promises. A device that is imported counts with the one
 * it was imported from.
 */
#ifndef VB_VERBS_QUOTA_H
#define VB_VERBS_QUOTA_H

#include "verbs/objects.h"

/* One more. 0; -ENOMEM: there are as many as the profile grants; -EOPNOTSUPP: it grants none. Explained. */
int vb_quota_take(struct ibv_context *context, enum vb_counted kind);
void vb_quota_give(struct ibv_context *context, enum vb_counted kind);

#endif
