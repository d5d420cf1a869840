/* SPDX-License-Identifier: MIT
 *
 * See result.h.
 */
#include "rdmacm/result.h"

#include <errno.h>

int vb_rdmacm_fail(int error)
{
	errno = error;
	return -1;
}

int vb_rdmacm_result(int error)
{
	return error == 0 ? 0 : vb_rdmacm_fail(-error);
}
