/* SPDX-License-Identifier: MIT
 *
 * See door.h. The function is looked up when it is first needed, so that this library loads with every libibverbs; and it is called only
 * for contexts that show by their cmd_fd that they are Verbena's, as any other would make a call to the kernel of it.
 */
#include "rdmacm/door.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef int door(struct ibv_context *context, void *command);

static door *find_door(struct ibv_context *context)
{
	char identity[sizeof(VB_DOOR_IDENTITY)];

	if (pread(context->cmd_fd, identity, sizeof(identity), 0) != (ssize_t)sizeof(identity) ||
	    memcmp(identity, VB_DOOR_IDENTITY, sizeof(identity)) != 0)
		return NULL;
	return (door *)dlsym(RTLD_DEFAULT, "execute_ioctl");
}

static int call_door(struct ibv_context *context, struct vb_door_call *call, enum vb_door_verb verb)
{
	door *function = find_door(context);

	if (function == NULL)
		return -ENOSYS;
	call->magic = VB_DOOR_MAGIC;
	call->version = VB_DOOR_VERSION;
	call->verb = verb;
	return -function(context, call);
}

int vb_rdmacm_door_open(struct ibv_context *context, vb_door_show_ids *show)
{
	struct vb_door_call call = {.show = show};
	int error = call_door(context, &call, VB_DOOR_OPEN);

	return error != 0 ? error : call.fd;
}

int vb_rdmacm_door_adopt(struct ibv_context *context, uint32_t qpn, int fd, const struct vb_door_terms *terms, uint64_t cookie)
{
	struct vb_door_call call = {.qpn = qpn, .fd = fd, .terms = *terms, .cookie = cookie};

	return call_door(context, &call, VB_DOOR_ADOPT);
}

int vb_rdmacm_door_close(struct ibv_context *context, uint32_t qpn)
{
	struct vb_door_call call = {.qpn = qpn};

	return call_door(context, &call, VB_DOOR_CLOSE);
}

unsigned vb_rdmacm_door_report(struct ibv_context *context, struct vb_door_report *reports)
{
	struct vb_door_call call = {0};

	if (call_door(context, &call, VB_DOOR_REPORT) != 0)
		return 0;
	memcpy(reports, call.report, call.reports * sizeof(call.report[0]));
	return call.reports;
}
