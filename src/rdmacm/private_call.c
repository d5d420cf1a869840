/* SPDX-License-Identifier: MIT
 *
 * See private_call.h. The function is looked up when it is first needed, so that this library loads with every libibverbs;
 * and it is called only for contexts that show by their cmd_fd that they are Verbena's, as any other would make a call
 * to the kernel of it.
 */
#include "rdmacm/private_call.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "wire/stream_handover.h"

vb_private_call *vb_rdmacm_private_call(struct ibv_context *context)
{
	char identity[sizeof(VB_HANDOVER_IDENTITY)];

	if (pread(context->cmd_fd, identity, sizeof(identity), 0) != (ssize_t)sizeof(identity) ||
	    memcmp(identity, VB_HANDOVER_IDENTITY, sizeof(identity)) != 0)
		return NULL;
	return (vb_private_call *)dlsym(RTLD_DEFAULT, "execute_ioctl");
}
