/* SPDX-License-Identifier: MIT
 *
 * Multicast attachment of UD queue pairs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/cancellation.h"
#include "verbs/address.h"
#include "verbs/context.h"
#include "verbs/explain_objects.h"
#include "verbs/export.h"
#include "verbs/public_mutex.h"

/* Caller holds qp->base.mutex. */
static struct vb_multicast_membership *find(struct vb_queue_pair *qp, const uint8_t gid[16])
{
	VB_LIST_FOR_EACH(node, &qp->multicast) {
		struct vb_multicast_membership *member = vb_container_of(node, struct vb_multicast_membership, node);

		if (memcmp(member->gid, gid, sizeof(member->gid)) == 0)
			return member;
	}
	return NULL;
}

static int attach(struct vb_queue_pair *qp, struct vb_multicast_membership *member)
{
	struct vb_context *context = vb_context_of(qp->base.context);
	int error;

	/* ibv_attach_mcast(3) attaches to the same group twice without complaint, and once detached it is gone. */
	if (find(qp, member->gid) != NULL) {
		free(member);
		return 0;
	}
	error = vb_endpoint_attach_multicast(context->session->endpoint, qp->qp, member->gid, context->device->info.interface_index);
	if (error == 0)
		vb_list_append(&qp->multicast, &member->node);
	else
		free(member);
	return vb_fail_number(-error);
}

VB_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	VB_UNCANCELLED;
	struct vb_multicast_membership *member;
	int error;

	(void)lid;       /* there are no LIDs on Ethernet */
	if (qp == NULL || gid == NULL || qp->qp_type != IBV_QPT_UD) {
		vb_explain_no_group("ibv_attach_mcast", qp, gid, EINVAL);
		return vb_fail_number(EINVAL);
	}
	member = calloc(1, sizeof(*member));
	if (member == NULL)
		return vb_fail_number(ENOMEM);
	memcpy(member->gid, gid->raw, sizeof(member->gid));
	vb_multicast_normalize(member->gid);
	if (!vb_gid_is_multicast(member->gid)) {
		free(member);
		vb_explain_no_group("ibv_attach_mcast", qp, gid, EINVAL);
		return vb_fail_number(EINVAL);
	}
	error = -vb_address_check_group(qp->context, member->gid);
	if (error == 0) {
		vb_public_lock(&qp->mutex);
		error = attach(vb_queue_pair_of(qp), member);
		vb_public_unlock(&qp->mutex);
	} else {
		free(member);
	}
	if (error != 0)
		vb_explain_no_group("ibv_attach_mcast", qp, gid, error);
	return vb_fail_number(error);
}
VB_EXPORT_COMPAT(ibv_attach_mcast);

VB_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	VB_UNCANCELLED;
	struct vb_multicast_membership *member;
	struct vb_context *context;
	uint8_t group[16];
	int error = EINVAL;

	(void)lid;
	if (qp == NULL || gid == NULL)
		return vb_fail_number(EINVAL);
	memcpy(group, gid->raw, sizeof(group));
	vb_multicast_normalize(group);
	context = vb_context_of(qp->context);
	vb_public_lock(&qp->mutex);
	member = find(vb_queue_pair_of(qp), group);
	if (member != NULL) {
		error = -vb_endpoint_detach_multicast(context->session->endpoint, vb_queue_pair_of(qp)->qp, group,
						      context->device->info.interface_index);
		vb_list_remove(&member->node);
		free(member);
	}
	vb_public_unlock(&qp->mutex);
	if (error != 0)
		vb_explain_no_group("ibv_detach_mcast", qp, gid, error);
	return vb_fail_number(error);
}
VB_EXPORT_COMPAT(ibv_detach_mcast);
