/* SPDX-License-Identifier: MIT
 *
 * Enhanced connection establishment: vendors' options, of which there are none here.
 */
#include <errno.h>
#include <string.h>

#include "io/cancellation.h"
#include "verbs/export.h"
#include "verbs/objects.h"

VB_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	VB_UNCANCELLED;
	if (qp == NULL || ece == NULL)
		return vb_fail_number(EINVAL);
	memset(ece, 0, sizeof(*ece));
	return vb_fail_number(EOPNOTSUPP);
}

VB_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	VB_UNCANCELLED;
	return vb_fail_number(qp == NULL || ece == NULL ? EINVAL : EOPNOTSUPP);
}
