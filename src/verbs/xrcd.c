/* SPDX-License-Identifier: MIT
 *
 * XRC domains (ibv_open_xrcd(3)). Those opened with descriptors of one file are one domain, within one open device; which errno stands for
 * what is as Linux's uverbs has it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "io/cancellation.h"
#include "verbs/context.h"
#include "verbs/explain.h"
#include "verbs/operations.h"

/* Caller holds session->lock. */
static struct vb_shared_xrcd *find(struct vb_session *session, const struct vb_file_identity *file)
{
	VB_LIST_FOR_EACH(node, &session->xrc_domains) {
		struct vb_shared_xrcd *shared = vb_container_of(node, struct vb_shared_xrcd, node);

		if (shared->has_file && shared->file.device == file->device && shared->file.inode == file->inode)
			return shared;
	}
	return NULL;
}

/* Caller holds session->lock. */
static struct vb_shared_xrcd *add(struct vb_session *session, const struct vb_file_identity *file)
{
	struct vb_shared_xrcd *shared = calloc(1, sizeof(*shared));

	if (shared == NULL)
		return NULL;
	vb_xrc_domain_init(&shared->domain);
	shared->domain.handle = vb_session_handle(session);
	shared->has_file = file != NULL;
	if (file != NULL)
		shared->file = *file;
	vb_list_append(&session->xrc_domains, &shared->node);
	return shared;
}

/* 0 or -errno. `file`: NULL, of none. */
static int join(struct vb_session *session, const struct vb_file_identity *file, int oflags, struct vb_shared_xrcd **out)
{
	struct vb_shared_xrcd *shared;
	int error = 0;

	vb_lock_take(&session->lock);
	shared = file != NULL ? find(session, file) : NULL;
	if (shared != NULL && (oflags & O_EXCL))
		error = -EINVAL;
	else if (shared == NULL && !(oflags & O_CREAT))
		error = file != NULL ? -EAGAIN : -EINVAL;
	else if (shared == NULL && (shared = add(session, file)) == NULL)
		error = -ENOMEM;
	if (error == 0)
		shared->references++;
	vb_lock_release(&session->lock);
	*out = shared;
	return error;
}

static void leave(struct vb_session *session, struct vb_shared_xrcd *shared)
{
	bool last;

	vb_lock_take(&session->lock);
	last = --shared->references == 0;
	if (last)
		vb_list_remove(&shared->node);
	vb_lock_release(&session->lock);
	if (!last)
		return;
	vb_xrc_domain_fini(&shared->domain);
	free(shared);
}

static struct ibv_xrcd *refuse(int error, const char *cause, const char *fix)
{
	vb_explain_refused("ibv_open_xrcd", NULL, 0, -error, cause, fix);
	return vb_fail_null(error);
}

struct ibv_xrcd *vb_verbs_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	VB_UNCANCELLED;
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct vb_session *session = vb_context_of(context)->session;
	struct vb_file_identity file;
	struct vb_xrcd *xrcd;
	int error = 0;

	if (vb_profile_type(vb_profile_of_context(context), IBV_QPT_XRC_RECV) == NULL)
		return refuse(-EOPNOTSUPP, "the device has no extended reliable connections (XRC).", NULL);
	if (attr == NULL || attr->comp_mask != needed)
		return refuse(-EINVAL, "fd and oflags must be given.", "Set IBV_XRCD_INIT_ATTR_FD and _OFLAGS in comp_mask.");
	if (attr->fd != -1)
		error = vb_descriptor_identity(attr->fd, &file);
	if (error != 0)
		return refuse(error, "fd is no open descriptor.", "-1 stands for a domain of no file.");
	xrcd = calloc(1, sizeof(*xrcd));
	if (xrcd == NULL)
		return vb_fail_null(-ENOMEM);
	error = join(session, attr->fd != -1 ? &file : NULL, attr->oflags, &xrcd->shared);
	if (error != 0) {
		free(xrcd);
		return refuse(error, error == -EAGAIN  ? "there is no domain of this file yet, in this open device."
				     : error == -ENOMEM ? "there is no memory for it."
				     : attr->fd == -1   ? "a domain of no file can only be created."
						       : "there is a domain of this file, and O_EXCL asks for a new one.",
			      error == -ENOMEM ? NULL : "Set O_CREAT in oflags, without O_EXCL.");
	}
	xrcd->base.context = context;
	vb_context_hold(context);
	return &xrcd->base;
}

int vb_verbs_close_xrcd(struct ibv_xrcd *xrcd)
{
	VB_UNCANCELLED;
	struct vb_xrcd *own = vb_xrcd_of(xrcd);
	struct ibv_context *context;

	if (xrcd == NULL)
		return vb_fail_number(EINVAL);
	if (vb_count_read(&own->users) > 0) {
		vb_explain_refused("ibv_close_xrcd", NULL, 0, EBUSY, "shared receive queues or queue pairs still use it.",
				   "Destroy them first.");
		return vb_fail_number(EBUSY);
	}
	context = xrcd->context;
	leave(vb_context_of(context)->session, own->shared);
	free(own);
	vb_context_put(context);
	return 0;
}

/* ibv_get_srq_num(3): of XRC SRQs. */
int vb_verbs_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	const struct vb_shared_receive_queue *own = vb_shared_receive_queue_of(srq);

	if (own->xrcd == NULL)
		return vb_fail_number(EOPNOTSUPP);
	*number = own->srq.number;
	return 0;
}
