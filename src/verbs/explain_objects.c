/* SPDX-License-Identifier: MIT
 *
 * See explain_objects.h. The rules are those of the verbs beside this file and of queue/srq.c and
 * queue/completion_queue.c.
 */
#include "verbs/explain_objects.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "explain/refusal.h"
#include "explain/words.h"
#include "io/daemon_silence.h"
#include "io/descriptor.h"
#include "io/explain_output.h"
#include "profiles/profile.h"
#include "verbs/context.h"
#include "verbs/explain.h"
#include "verbs/explainer.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void write_out(const struct vb_report *report)
{
	int saved_errno = errno;

	vb_explainer_write(report);
	errno = saved_errno;
}

/* The first argument outside its bounds, or `otherwise`. */
static void tell(const char *verb, int error, const struct vb_explain_bounds *bounds, size_t count,
		 const char *otherwise, const char *fix)
{
	struct vb_report report;

	vb_explain_arguments(verb, error, bounds, count, otherwise, fix, &report);
	write_out(&report);
}

static void tell_sentence(const char *verb, int error, const char *cause, const char *fix)
{
	tell(verb, error, NULL, 0, cause, fix);
}

/* ---- devices ---- */

static const char *daemon_fix(int error)
{
	switch (error) {
	case EACCES:
		return "Another user's verbenad runs here: let root start one for all (verbenad --system).";
	case ETIMEDOUT:
		return "If it is stopped, kill -CONT lets it go on. If it hangs, end it: the next program starts another.";
	case ENOENT:
		return "Install verbenad beside the library, or name it with VERBENA_DAEMON.";
	default:
		return "Run 'verbena doctor': it looks for what is in the way.";
	}
}

/* Before the first session the settings have not been read. */
void vb_explain_no_device(const char *verb, const char *device, int error)
{
	struct vb_report report;
	char cause[128];

	if (!vb_explain_output_is_on())
		return;
	if (error == ETIMEDOUT) {
		pid_t daemon = vb_daemon_silent_pid();

		snprintf(cause, sizeof(cause), "verbenad (pid %d), which knows the devices of this network namespace, %s.", (int)daemon,
			 vb_daemon_silence_in_words(daemon));
		vb_explain_verb(verb, NULL, 0, error, cause, daemon_fix(error), &report);
		vb_report_word(&report, "missing", "verbenad");
		vb_report_number(&report, "pid", (uint64_t)daemon);
	} else if (error == ENODEV) {
		vb_explain_verb(verb, NULL, 0, error, "the device is gone: its interface has been removed or renamed.",
				"Take a new list of devices.", &report);
	} else if (error == ENOMEM || error == EMFILE || error == ENFILE) {
		vb_explain_verb(verb, NULL, 0, error, "the process has no memory or no file descriptors left.", NULL,
				&report);
	} else {
		vb_explain_verb(verb, NULL, 0, error,
				"verbenad, which knows the devices of this network namespace, cannot be asked or "
				"started.", daemon_fix(error), &report);
		vb_report_word(&report, "missing", "verbenad");
	}
	if (device)
		vb_report_word(&report, "device", device);
	write_out(&report);
}

void vb_explain_no_more(const struct vb_profile *profile, const char *verb, const char *limit, uint32_t most, int error)
{
	const struct vb_explain_bounds bounds[] = {{limit, (uint64_t)most + 1, 0, most, profile}};

	if (vb_explains)
		tell(verb, error, bounds, COUNT_OF(bounds), "",
		     most > 0 ? "Destroy what is not needed any more; see ibv_query_device for what the device grants."
			      : "See ibv_query_device: the device has no such objects.");
}

void vb_explain_no_entry(const char *verb, uint64_t port_num, int64_t index, uint32_t table_length)
{
	const struct vb_explain_bounds bounds[] = {
		{"port_num", port_num, 1, 1},
		{"index", index < 0 ? UINT64_MAX : (uint64_t)index, 0, table_length - 1},
	};

	if (vb_explains)
		tell(verb, EINVAL, bounds, COUNT_OF(bounds), "a pointer is NULL.", "Ports are counted from 1, entries from 0.");
}

/* ---- addresses ---- */

void vb_explain_no_ah(struct ibv_context *context, const struct ibv_ah_attr *attr, int error)
{
	static const uint8_t none[16];
	struct vb_device_info info;
	struct vb_report report;

	if (!vb_explains)
		return;
	vb_context_info(context, &info);
	vb_explain_create_ah("ibv_create_ah", attr,
			     attr->grh.sgid_index < info.gid_count ? info.gid[attr->grh.sgid_index].gid : none, error,
			     &report);
	write_out(&report);
}

void vb_explain_no_answer_address(uint8_t port_num, const struct ibv_wc *wc, const struct ibv_grh *grh)
{
	const struct vb_explain_bounds bounds[] = {
		{"port_num", port_num, 1, 1},
		{"IBV_WC_GRH in wc_flags", wc && (wc->wc_flags & IBV_WC_GRH) ? 1 : 0, 1, 1},
		{"grh", grh != NULL, 1, 1},
	};

	if (!vb_explains)
		return;
	tell("ibv_init_ah_from_wc", EINVAL, bounds, COUNT_OF(bounds),
	     "the 40 bytes before the datagram hold no IP header, or one with a destination that is none of ours.",
	     "Give the completion of a UD receive, and the first 40 bytes of its buffer.");
}

/* ---- shared receive queues ---- */

void vb_explain_no_srq(struct ibv_context *context, const char *verb, const struct ibv_srq_attr *attr, int error)
{
	const struct vb_explain_bounds bounds[] = {
		{"max_wr", attr->max_wr, 1, vb_profile_of_context(context)->limits.srq_wr, vb_profile_of_context(context)},
		{"max_sge", attr->max_sge, 0, vb_profile_of_context(context)->limits.srq_sge, vb_profile_of_context(context)},
	};

	if (vb_explains)
		tell(verb, error, bounds, COUNT_OF(bounds), "there is no memory for it.",
		     "See ibv_query_device for what the device grants.");
}

void vb_explain_no_srq_ex(const struct ibv_srq_init_attr_ex *attr, int error)
{
	if (!vb_explains)
		return;
	if (error == EOPNOTSUPP)
		tell_sentence("ibv_create_srq_ex", error, "shared receive queues of this type are not supported.",
			      "Tag matching is not; XRC is where the device's profile has it.");
	else if (attr && (attr->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_RESERVED - 1)) != 0)
		tell_sentence("ibv_create_srq_ex", error, "comp_mask has a bit that is not known.", NULL);
	else if (attr && (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type == IBV_SRQT_XRC)
		tell_sentence("ibv_create_srq_ex", error, "an XRC SRQ needs an XRC domain, a CQ and a PD of this open device.",
			      "Set them, and IBV_SRQ_INIT_ATTR_XRCD, _CQ and _PD in comp_mask.");
	else
		tell_sentence("ibv_create_srq_ex", error, "it needs a PD of this device.",
			      "Set pd, and IBV_SRQ_INIT_ATTR_PD in comp_mask.");
}

void vb_explain_srq_unchanged(struct vb_srq *srq, const struct ibv_srq_attr *attr, int attr_mask, int error)
{
	struct vb_explain_bounds bounds[] = {
		{"attr_mask", (unsigned)attr_mask, 0, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT},
		{"max_wr", attr->max_wr, 1, srq->host->profile->limits.srq_wr, srq->host->profile},
		{"srq_limit", attr->srq_limit, 0, 0},
	};

	if (!vb_explains)
		return;
	vb_lock_take(&srq->lock);
	/* Those that are not asked for stay as they are, and within bounds. */
	if (!(attr_mask & IBV_SRQ_MAX_WR))
		bounds[1].value = srq->queue.max_wr;
	else if (vb_receive_queue_count(&srq->queue) > 0)
		bounds[1].least = vb_receive_queue_count(&srq->queue);
	if (!(attr_mask & IBV_SRQ_LIMIT))
		bounds[2].value = srq->limit;
	vb_lock_release(&srq->lock);
	bounds[2].most = bounds[1].value;
	tell("ibv_modify_srq", error, bounds, COUNT_OF(bounds), "there is no memory for it.",
	     "srq_limit may not exceed max_wr, and max_wr not fall below the receives that are posted.");
}

void vb_explain_srq_not_posted(struct vb_srq *srq, const struct ibv_recv_wr *wr, int error)
{
	struct vb_report report;

	if (!vb_explains)
		return;
	vb_lock_take(&srq->lock);
	vb_explain_post_shared(srq->queue.max_wr, srq->queue.max_sge, wr, error, &report);
	vb_lock_release(&srq->lock);
	write_out(&report);
}

/* ---- completion queues ---- */

void vb_explain_no_cq(struct ibv_context *context, uint64_t cqe, uint64_t comp_vector, int error)
{
	const struct vb_explain_bounds bounds[] = {
		{"cqe", cqe, 1, vb_profile_of_context(context)->limits.cqe, vb_profile_of_context(context)},
		{"comp_vector", comp_vector, 0, vb_profile_of_context(context)->limits.completion_vectors - 1},
	};

	if (vb_explains)
		tell("ibv_create_cq", error, bounds, COUNT_OF(bounds),
		     error == ENOMEM ? "there is no memory for it."
				     : "the completion channel belongs to another open device.",
		     "See ibv_query_device, and num_comp_vectors of the context.");
}

void vb_explain_no_cq_ex(const struct ibv_cq_init_attr_ex *attr, uint64_t supported_fields, int error)
{
	struct vb_report report;

	if (!vb_explains || !attr)
		return;
	if (error == EOPNOTSUPP && (attr->wc_flags & ~supported_fields) != 0) {
		vb_explain_verb("ibv_create_cq_ex", NULL, 0, error,
				"wc_flags asks for fields that completions do not have here.",
				"Take VLAN and tag matching out of wc_flags, and flow tags where there are no raw packets.", &report);
		vb_report_word(&report, "attribute", "wc_flags");
		vb_report_hex(&report, "extra", attr->wc_flags & ~supported_fields, 1);
		write_out(&report);
	} else if (error == EOPNOTSUPP) {
		tell_sentence("ibv_create_cq_ex", error, "of flags only IBV_CREATE_CQ_ATTR_SINGLE_THREADED is known.",
			      NULL);
	} else {
		tell_sentence("ibv_create_cq_ex", error,
			      "comp_mask has a bit that is not known, or parent_domain is no parent domain of this "
			      "device.", NULL);
	}
}

void vb_explain_cq_unchanged(const struct vb_cq *cq, int cqe, int error)
{
	uint32_t waiting =
		__atomic_load_n(&cq->head, __ATOMIC_ACQUIRE) - __atomic_load_n(&cq->tail, __ATOMIC_ACQUIRE);
	const struct vb_explain_bounds bounds[] = {
		{"cqe", cqe < 0 ? 0 : (uint64_t)cqe, waiting > 1 ? waiting : 1, cq->host->profile->limits.cqe, cq->host->profile},
	};

	if (vb_explains)
		tell("ibv_resize_cq", error, bounds, COUNT_OF(bounds), "there is no memory for it.",
		     "Completions that wait must still fit: poll them first.");
}

/* ---- regions ---- */

void vb_explain_mr_unchanged(const struct vb_memory_region *region, int flags, const struct ibv_pd *pd, void *address,
			     size_t length, int access, int error)
{
	const char *verb = "ibv_rereg_mr";
	bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0, rights = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
	struct vb_report report;

	if (!vb_explains)
		return;
	if ((flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0)
		tell_sentence(verb, error, "flags has a bit that is not known.", NULL);
	else if (moves && length == 0)
		tell_sentence(verb, error, "the length is 0.", "CHANGE_TRANSLATION needs address and length.");
	else if ((flags & IBV_REREG_MR_CHANGE_PD) && (!pd || !vb_same_session(region->base.context, pd->context)))
		tell_sentence(verb, error, "CHANGE_PD needs a PD of this device.", NULL);
	else if (access != 0 && !rights)
		tell_sentence(verb, error, "access flags are given, but not IBV_REREG_MR_CHANGE_ACCESS in flags.",
			      "Set the flag, or pass 0.");
	else if (error == EOPNOTSUPP)
		tell_sentence(verb, error, "regions of device memory, dmabufs, the null region and imports are what "
					   "they are.", "Register another one.");
	else if (error == EBUSY)
		tell_sentence(verb, error, "memory windows are bound to it.",
			      "Invalidate or deallocate the windows first.");
	else {
		vb_explain_register(region->session->host.profile, verb, moves ? (uintptr_t)address : (uintptr_t)region->base.addr,
				    moves ? length : region->base.length, (unsigned)access, error, &report);
		write_out(&report);
	}
}

void vb_explain_no_dmabuf_mr(const struct vb_profile *profile, uint64_t offset, size_t length, uint64_t iova, int64_t size,
			     unsigned access, unsigned allowed, int error)
{
	const struct vb_explain_bounds bounds[] = {
		{"length", length, 1, profile->limits.mr_size, profile},
		{"length", length, 1, size >= 0 && (uint64_t)size >= offset ? (uint64_t)size - offset : UINT64_MAX},
		{"offset", offset, 0, size >= 0 ? (uint64_t)size : UINT64_MAX - length},
		{"iova", iova, 0, UINT64_MAX - length},
		{"access flags that are not possible here", access & ~allowed, 0, 0},
	};

	if (vb_explains)
		tell("ibv_reg_dmabuf_mr", error, bounds, COUNT_OF(bounds),
		     error == EINVAL ? "REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE too."
				     : "the descriptor is none of memory that the processor can map, nor iova a GPU's address.",
		     "fd must be a dmabuf (or memfd) that mmap takes, offset and length inside it; of a GPU's memory iova must "
		     "be the address that was exported.");
}

void vb_explain_no_dm(const struct ibv_alloc_dm_attr *attr, size_t free_bytes, int error)
{
	const uint64_t page = vb_page_size();
	const struct vb_explain_bounds bounds[] = {
		{"comp_mask", attr ? attr->comp_mask : 0, 0, 0},
		{"length", attr ? attr->length : 0, 1, free_bytes},
		{"log_align_req", attr ? attr->log_align_req : 0, 0, (uint64_t)__builtin_ctzll(page)},
	};

	if (vb_explains)
		tell("ibv_alloc_dm", error, bounds, COUNT_OF(bounds), "there is no memory for it.",
		     "max_dm_size of ibv_query_device_ex is what all of a device's memory together may be.");
}

void vb_explain_no_dm_mr(const struct ibv_dm *dm, size_t dm_length, uint64_t offset, size_t length, unsigned access,
			 unsigned allowed, int error)
{
	const struct vb_explain_bounds bounds[] = {
		{"dm", dm != NULL, 1, 1},
		{"IBV_ACCESS_ZERO_BASED", access & IBV_ACCESS_ZERO_BASED ? 1 : 0, 1, 1},
		{"access flags that are not possible here", access & ~allowed, 0, 0},
		{"offset", offset, 0, dm_length},
		{"length", length, 1, dm_length - (offset < dm_length ? offset : 0)},
	};

	if (vb_explains)
		tell("ibv_reg_dm_mr", error, bounds, COUNT_OF(bounds),
		     "the PD belongs to another open device, or REMOTE_WRITE lacks LOCAL_WRITE.",
		     "Regions of device memory are zero based (ibv_alloc_dm(3)), and inside what was allocated.");
}

/* ---- multicast ---- */

void vb_explain_no_group(const char *verb, const struct ibv_qp *qp, const union ibv_gid *gid, int error)
{
	char address[VB_WORDS_ADDRESS];
	struct vb_report report;
	const char *cause, *fix = NULL;

	if (!vb_explains || !qp || !gid)
		return;
	if (qp->qp_type != IBV_QPT_UD) {
		cause = "only UD queue pairs can be in multicast groups.";
	} else if (!vb_gid_is_multicast(gid->raw) && !vb_gid_is_ipv4_group_alias(gid->raw)) {
		cause = "the GID is no multicast address.";
		fix = "A group is ff00::/8, or ::ffff:224.0.0.0/100 for IPv4 groups.";
	} else if (strcmp(verb, "ibv_detach_mcast") == 0) {
		cause = "the queue pair is not in this group.";
	} else if (error == ENETUNREACH) {
		cause = "the kernel carries no IPv6 groups on the loopback.";
		fix = "Use an IPv4 group there, or another interface.";
	} else if (error == ENOMEM) {
		cause = "the group has as many queue pairs as the device grants, or the device or the kernel no more groups.";
		fix = "See max_mcast_qp_attach and max_mcast_grp of ibv_query_device, and net.ipv4.igmp_max_memberships.";
	} else {
		cause = "the kernel does not let this process join the group on the device's interface.";
		fix = "net.ipv4.igmp_max_memberships and net.core.optmem_max limit memberships; the interface must be up.";
	}
	vb_explain_verb(verb, "QP", qp->qp_num, error, cause, fix, &report);
	vb_report_word(&report, "group", vb_words_address(address, gid->raw));
	vb_report_word(&report, "qp_type", vb_words_type(qp->qp_type));
	write_out(&report);
}

/* ---- what there is not ---- */

#define NOT_HERE(verb, what) tell_sentence(verb, EOPNOTSUPP, what " are not supported.", NULL)

static struct ibv_flow_action *create_flow_action_esp(struct ibv_context *context,
						      struct ibv_flow_action_esp_attr *attr)
{
	(void)context, (void)attr;
	NOT_HERE("ibv_create_flow_action_esp", "flow actions");
	return vb_fail_null(-EOPNOTSUPP);
}

static int post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
{
	(void)srq;
	NOT_HERE("ibv_post_srq_ops", "tag matching operations");
	*bad_op = op;
	return vb_fail_number(EOPNOTSUPP);
}

void vb_explain_fill_unsupported(struct verbs_context *table)
{
	if (!vb_explains)
		return;
	table->create_flow_action_esp = create_flow_action_esp;
	table->post_srq_ops = post_srq_ops;
}
