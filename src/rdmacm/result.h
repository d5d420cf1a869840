/* SPDX-License-Identifier: MIT
 *
 * From 0 or -errno, as functions inside return it, to what the calls of the API return.
 */
#ifndef VB_RDMACM_RESULT_H
#define VB_RDMACM_RESULT_H

/* -1 with errno; for `return vb_rdmacm_fail(EINVAL)`. */
int vb_rdmacm_fail(int error);
/* 0 or -errno from inside -> 0 or -1 with errno. */
int vb_rdmacm_result(int error);

#endif
