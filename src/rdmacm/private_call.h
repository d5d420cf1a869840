/* SPDX-License-Identifier: MIT
 *
 * The call of libibverbs' private node by which librdmacm says what the verbs have no words for (wire/stream_handover.h,
 * wire/placing_call.h).
 */
#ifndef VB_RDMACM_PRIVATE_CALL_H
#define VB_RDMACM_PRIVATE_CALL_H

#include <infiniband/verbs.h>

typedef int vb_private_call(struct ibv_context *context, void *command);

/* NULL: this context is another library's. */
vb_private_call *vb_rdmacm_private_call(struct ibv_context *context);

#endif
