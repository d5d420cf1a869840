/* SPDX-License-Identifier: MIT
 *
 * See refusal.h. The rules are those of queue/qp_modify.c, queue/qp_post.c, queue/qp.c and verbs/mr.c.
 */
#include "explain/refusal.h"

#include <errno.h>
#include <string.h>

#include "explain/words.h"
#include "memory/region.h"
#include "profiles/profile.h"
#include "profiles/qp_transitions.h"
#include "queue/qp.h"

enum { PORT = 1 };

static void begin(struct vb_report *report, const char *verb, int error)
{
	vb_report_begin(report, "verb");
	vb_report_word(report, "verb", verb);
	vb_report_word(report, "error", vb_words_errno(error));
}

void vb_explain_verb(const char *verb, const char *object, uint64_t number, int error, const char *cause,
		     const char *fix, struct vb_report *report)
{
	begin(report, verb, error);
	if (object) {
		vb_report_word(report, "object", object);
		vb_report_hex(report, "number", number, 6);
		vb_report_say(report, VB_REPORT_WHAT, "%s of %s 0x%06llx refused: %s", verb, object,
			      (unsigned long long)number, vb_words_errno(error));
	} else {
		vb_report_say(report, VB_REPORT_WHAT, "%s refused: %s", verb, vb_words_errno(error));
	}
	vb_report_say(report, VB_REPORT_CAUSE, "%s", cause);
	if (fix)
		vb_report_say(report, VB_REPORT_FIX, "%s", fix);
}

/* ---- arguments ---- */

static void say(struct vb_report *report, const char *attribute, const char *format, uint64_t value, uint64_t limit)
{
	vb_report_word(report, "attribute", attribute);
	vb_report_number(report, "value", value);
	vb_report_number(report, "limit", limit);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	vb_report_say(report, VB_REPORT_CAUSE, format, attribute, (unsigned long long)value, (unsigned long long)limit);
#pragma GCC diagnostic pop
}

#define TOO_LARGE "%s is %llu, at most %llu is possible."
#define TOO_SMALL "%s is %llu, at least %llu is needed."
#define MUST_BE "%s is %llu, it must be %llu."

void vb_explain_profile(const struct vb_profile *profile, struct vb_report *report)
{
	if (!profile || !vb_profile_is_lowered(profile))
		return;
	vb_report_word(report, "profile", profile->name);
	vb_report_say(report, VB_REPORT_CAUSE, " So says the profile %s (VERBENA_PROFILE).", profile->name);
}

void vb_explain_arguments(const char *verb, int error, const struct vb_explain_bounds *bounds, size_t count,
			  const char *otherwise, const char *fix, struct vb_report *report)
{
	size_t wrong = 0;

	while (wrong < count && bounds[wrong].value >= bounds[wrong].least && bounds[wrong].value <= bounds[wrong].most)
		wrong++;
	vb_explain_verb(verb, NULL, 0, error, wrong < count ? "" : otherwise, fix, report);
	if (wrong == count)
		return;
	bounds += wrong;
	if (bounds->least == bounds->most && !bounds->profile)
		say(report, bounds->name, MUST_BE, bounds->value, bounds->least);
	else if (bounds->value < bounds->least)
		say(report, bounds->name, TOO_SMALL, bounds->value, bounds->least);
	else
		say(report, bounds->name, TOO_LARGE, bounds->value, bounds->most);
	if (bounds->value > bounds->most)
		vb_explain_profile(bounds->profile, report);
}

/* ---- addresses ---- */

static bool is_zero(const uint8_t gid[16])
{
	static const uint8_t zero[16];

	return memcmp(gid, zero, sizeof(zero)) == 0;
}

/* Of an address that cannot be used; the sentence begins with nothing said before. */
static void say_address(const struct ibv_ah_attr *attr, const uint8_t source[16], struct vb_report *report)
{
	char destination[VB_WORDS_ADDRESS], ours[VB_WORDS_ADDRESS];

	if (!attr->is_global) {
		say(report, "ah_attr.is_global", MUST_BE, 0, 1);
		vb_report_say(report, VB_REPORT_FIX,
			      "RoCE has no LIDs: set is_global and grh (dgid of the peer, sgid_index of ours).");
		return;
	}
	if (attr->port_num != PORT) {
		say(report, "ah_attr.port_num", MUST_BE, attr->port_num, PORT);
		return;
	}
	vb_report_word(report, "attribute", "ah_attr.grh");
	vb_report_word(report, "dgid", vb_words_address(destination, attr->grh.dgid.raw));
	vb_report_word(report, "sgid", is_zero(source) ? "none" : vb_words_address(ours, source));
	vb_report_number(report, "sgid_index", attr->grh.sgid_index);
	if (is_zero(source)) {
		vb_report_say(report, VB_REPORT_CAUSE, "there is no GID with index %u.", attr->grh.sgid_index);
		vb_report_say(report, VB_REPORT_FIX, "ibv_devinfo -v and 'verbena devices' list the GIDs of a device.");
	} else if (is_zero(attr->grh.dgid.raw)) {
		vb_report_say(report, VB_REPORT_CAUSE, "dgid is empty.");
		vb_report_say(report, VB_REPORT_FIX, "Set it to the peer's GID; for RoCEv2 that is its IP address.");
	} else if (vb_gid_is_ipv4(source) != vb_gid_is_ipv4(attr->grh.dgid.raw)) {
		vb_report_say(report, VB_REPORT_CAUSE,
			      "the peer %s and our GID %s (index %u) are addresses of different IP versions.",
			      destination, ours, attr->grh.sgid_index);
		vb_report_say(report, VB_REPORT_FIX,
			      "Choose the sgid_index of a GID of the same version; 'verbena devices' lists them.");
	} else {
		vb_report_say(report, VB_REPORT_CAUSE, "the address %s cannot be used from GID index %u.", destination,
			      attr->grh.sgid_index);
	}
}

static void say_no_frames(struct vb_report *report)
{
	vb_report_say(report, VB_REPORT_CAUSE,
		      "sgid_index names a GID of RoCEv1, whose frames need a socket that verbenad may not make.");
	vb_report_say(report, VB_REPORT_FIX,
		      "Give verbenad CAP_NET_RAW (setcap cap_net_raw+ep, then start it anew), run where you have it (unshare -Urn), "
		      "or take a GID of RoCEv2: the next index.");
}

static void say_unreachable_group(struct vb_report *report)
{
	vb_report_say(report, VB_REPORT_CAUSE, "the kernel carries no IPv6 groups on the loopback.");
	vb_report_say(report, VB_REPORT_FIX, "Use an IPv4 group there, or another interface.");
}

void vb_explain_create_ah(const char *verb, const struct ibv_ah_attr *attr, const uint8_t source[16], int error,
			  struct vb_report *report)
{
	begin(report, verb, error);
	vb_report_say(report, VB_REPORT_WHAT, "%s refused: %s", verb, vb_words_errno(error));
	if (error == ENOMEM)
		vb_report_say(report, VB_REPORT_CAUSE, "there is no memory for it.");
	else if (error == ENETUNREACH)
		say_unreachable_group(report);
	else if (error == EPERM)
		say_no_frames(report);
	else
		say_address(attr, source, report);
}

/* ---- ibv_modify_qp ---- */

static void say_no_transition(const struct vb_explain_modify *m, enum ibv_qp_state to, struct vb_report *report)
{
	if (m->profile->connection == VB_CONNECT_MPA && (to == IBV_QPS_RTS || to == IBV_QPS_RTR)) {
		vb_report_word(report, "missing", "connection");
		vb_report_say(report, VB_REPORT_CAUSE,
			      "only a connection leads a queue pair of this device to RTS, ibv_modify_qp does not.");
		vb_report_say(report, VB_REPORT_FIX,
			      "Connect with rdma_connect and rdma_accept of librdmacm (perftest: -R). A program that exchanges QPNs itself "
			      "needs a RoCE or InfiniBand device.");
		return;
	}
	vb_report_word(report, "missing", "transition");
	vb_report_say(report, VB_REPORT_CAUSE, "there is no transition of %s queue pair from %s to %s.",
		      vb_words_a_type(m->type), vb_words_state(m->from), vb_words_state(to));
	vb_report_say(report, VB_REPORT_FIX, "%s",
		      m->from == IBV_QPS_ERR ? "From ERR the way leads through RESET; look for what brought it there."
					     : "The way is RESET, INIT, RTR, RTS, each step once.");
}

static bool say_transition(const struct vb_explain_modify *m, enum ibv_qp_state to, struct vb_report *report)
{
	const struct vb_qp_transition *row = vb_qp_transition(m->profile->transitions, m->type, m->from, to);
	int wrong = vb_qp_transition_missing(m->profile->transitions, m->type, m->from, to, m->mask);
	int missing = wrong & ~m->mask, extra = wrong & m->mask;
	char words[VB_WORDS_ROOM];

	if ((m->mask & IBV_QP_CUR_STATE) && m->attr->cur_qp_state != m->from) {
		vb_report_say(report, VB_REPORT_CAUSE, "cur_qp_state says %s, the queue pair is in %s.",
			      vb_words_state(m->attr->cur_qp_state), vb_words_state(m->from));
		return true;
	}
	if (!row->valid) {
		say_no_transition(m, to, report);
		return true;
	}
	if (missing != 0) {
		vb_report_word(report, "missing", vb_words_attributes(words, missing));
		vb_report_say(report, VB_REPORT_CAUSE, "%s needs %s, missing from attr_mask. ", vb_words_state(to),
			      vb_words_attributes(words, missing));
	}
	if (extra != 0) {
		vb_report_word(report, "extra", vb_words_attributes(words, extra));
		vb_report_say(report, VB_REPORT_CAUSE, "the step from %s to %s of %s queue pair does not take %s.",
			      vb_words_state(m->from), vb_words_state(to), vb_words_a_type(m->type),
			      vb_words_attributes(words, extra));
	}
	if (missing != 0)
		vb_report_say(report, VB_REPORT_FIX,
			      "Set the field in ibv_qp_attr and its bit in attr_mask (table in ibv_modify_qp(3)).");
	else if (extra != 0)
		vb_report_say(report, VB_REPORT_FIX,
			      "Take the bit out of attr_mask, or set the attribute at the step that takes it.");
	return missing != 0 || extra != 0;
}

static unsigned mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

static bool say_path(const struct vb_explain_modify *m, struct vb_report *report)
{
	const struct ibv_qp_attr *attr = m->attr;

	if ((m->mask & IBV_QP_PORT) && attr->port_num != PORT) {
		say(report, "port_num", MUST_BE, attr->port_num, PORT);
		return true;
	}
	if ((m->mask & IBV_QP_PKEY_INDEX) && attr->pkey_index != 0) {
		say(report, "pkey_index", MUST_BE, attr->pkey_index, 0);
		return true;
	}
	if ((m->mask & IBV_QP_AV) && m->path_error != 0 && m->error == EPERM) {
		say_no_frames(report);
		return true;
	}
	if ((m->mask & IBV_QP_AV) && m->path_error != 0) {
		say_address(&attr->ah_attr, m->source, report);
		return true;
	}
	if ((m->mask & IBV_QP_PATH_MTU) && (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096)) {
		say(report, "path_mtu", "%s is %llu, which is no value of enum ibv_mtu (1 to %llu).", attr->path_mtu,
		    IBV_MTU_4096);
		vb_report_say(report, VB_REPORT_FIX, "path_mtu is IBV_MTU_1024 and the like, not a number of bytes.");
		return true;
	}
	if ((m->mask & IBV_QP_PATH_MTU) && attr->path_mtu > m->active_mtu) {
		say(report, "path_mtu", "%s is %llu bytes, the port's active_mtu is %llu.", mtu_bytes(attr->path_mtu),
		    mtu_bytes(m->active_mtu));
		vb_report_say(report, VB_REPORT_FIX,
			      "Use active_mtu of ibv_query_port, the smaller one of both ends; or raise the "
			      "interface's MTU.");
		return true;
	}
	if ((m->mask & IBV_QP_DEST_QPN) && attr->dest_qp_num > 0xffffff) {
		say(report, "dest_qp_num", TOO_LARGE, attr->dest_qp_num, 0xffffff);
		vb_report_say(report, VB_REPORT_FIX,
			      "A QPN has 24 bits: has it come over the network in the other byte order?");
		return true;
	}
	return false;
}

static bool say_numbers(const struct vb_explain_modify *m, struct vb_report *report)
{
	const struct ibv_qp_attr *attr = m->attr;
	const struct {
		int bit;
		const char *name;
		unsigned value, limit;
	} checks[] = {
		{IBV_QP_TIMEOUT, "timeout", attr->timeout, 31},
		{IBV_QP_RETRY_CNT, "retry_cnt", attr->retry_cnt, 7},
		{IBV_QP_RNR_RETRY, "rnr_retry", attr->rnr_retry, 7},
		{IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", attr->min_rnr_timer, 31},
		{IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", attr->max_rd_atomic, m->profile->limits.init_rd_atomic},
		{IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", attr->max_dest_rd_atomic, m->profile->limits.rd_atomic},
	};

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (!(m->mask & checks[i].bit) || checks[i].value <= checks[i].limit)
			continue;
		say(report, checks[i].name, TOO_LARGE, checks[i].value, checks[i].limit);
		if (checks[i].bit & (IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC))
			vb_explain_profile(m->profile, report);
		return true;
	}
	return false;
}

void vb_explain_modify_qp(const struct vb_explain_modify *m, struct vb_report *report)
{
	enum ibv_qp_state to = m->mask & IBV_QP_STATE ? m->attr->qp_state : m->from;

	begin(report, "ibv_modify_qp", m->error);
	vb_report_hex(report, "qpn", m->qpn, 6);
	vb_report_word(report, "qp_type", vb_words_type(m->type));
	vb_report_word(report, "from", vb_words_state(m->from));
	vb_report_word(report, "to", vb_words_state(to));
	vb_report_say(report, VB_REPORT_WHAT, "ibv_modify_qp of QP 0x%06x (%s) from %s to %s refused: %s", m->qpn,
		      vb_words_type(m->type), vb_words_state(m->from), vb_words_state(to), vb_words_errno(m->error));
	/* The path is looked at first of all, since the verb resolves it before it takes the lock. */
	if (m->path_error != 0 ? say_path(m, report) : false)
		return;
	if (say_transition(m, to, report) || say_path(m, report) || say_numbers(m, report))
		return;
	if (m->error == EOPNOTSUPP)
		vb_report_say(report, VB_REPORT_CAUSE,
			      "automatic path migration (alt_ah_attr, path_mig_state) is not supported.");
	else
		vb_report_say(report, VB_REPORT_CAUSE,
			      "an attribute has a value that is not allowed (qp_access_flags?).");
}

/* ---- posting ---- */

static void begin_post(struct vb_report *report, const char *verb, const struct vb_qp *qp, uint64_t wr_id, int error)
{
	begin(report, verb, error);
	vb_report_number(report, "wr_id", wr_id);
	vb_report_hex(report, "qpn", qp->qpn, 6);
	vb_report_word(report, "qp_type", vb_words_type(qp->type));
	vb_report_word(report, "state", vb_words_state(qp->state));
}

static uint64_t total_length(const struct ibv_sge *list, int count)
{
	uint64_t length = 0;

	for (int i = 0; i < count; i++)
		length += list[i].length;
	return length;
}

static bool say_list(const struct vb_qp *qp, const struct ibv_send_wr *wr, struct vb_report *report)
{
	uint64_t length = 0;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->send.max_sge) {
		say(report, "num_sge", TOO_LARGE, (uint64_t)(unsigned)wr->num_sge, qp->send.max_sge);
		vb_report_say(report, VB_REPORT_FIX, "Ask for more max_send_sge in ibv_create_qp.");
		return true;
	}
	length = total_length(wr->sg_list, wr->num_sge);
	if ((wr->send_flags & IBV_SEND_INLINE) && length > qp->send.max_inline) {
		say(report, "inline length", TOO_LARGE, length, qp->send.max_inline);
		vb_report_say(report, VB_REPORT_FIX,
			      "Ask for more max_inline_data in ibv_create_qp, or send without IBV_SEND_INLINE.");
		return true;
	}
	if ((wr->send_flags & IBV_SEND_INLINE) &&
	    (wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	     wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)) {
		vb_report_say(report, VB_REPORT_CAUSE, "IBV_SEND_INLINE goes with SEND and RDMA_WRITE only.");
		return true;
	}
	if (length > qp->max_message) {
		say(report, "length", TOO_LARGE, length, qp->max_message);
		vb_explain_profile(qp->host->profile, report);
		return true;
	}
	if (wr->opcode == IBV_WR_RDMA_READ && (uint32_t)wr->num_sge > qp->max_read_sge) {
		say(report, "num_sge of a READ", TOO_LARGE, (uint64_t)(unsigned)wr->num_sge, qp->max_read_sge);
		vb_explain_profile(qp->host->profile, report);
		vb_report_say(report, VB_REPORT_FIX, "See max_sge_rd of ibv_query_device.");
		return true;
	}
	if ((wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) && qp->opcodes & 1u << wr->opcode) {
		if (length != 8) {
			say(report, "length", MUST_BE, length, 8);
			return true;
		}
		if (wr->wr.atomic.remote_addr % 8 != 0) {
			vb_report_hex(report, "address", wr->wr.atomic.remote_addr, 1);
			vb_report_say(report, VB_REPORT_CAUSE,
				      "the remote address 0x%llx of the atomic is not a multiple of 8.",
				      (unsigned long long)wr->wr.atomic.remote_addr);
			return true;
		}
	}
	return false;
}

/* An unsignalled send leaves the queue with the next signalled one that completes (IBA 10.8.2.1 on reusing entries): where there is
 * none, the queue stays full for ever. Caller holds qp->lock. */
static void say_full_send_queue(const struct vb_qp *qp, struct vb_report *report)
{
	uint32_t count = vb_send_queue_occupied(&qp->send), unfinished = qp->send.reserved - qp->send.tail, signalled = 0;

	/* Also those that are finished: they keep their places, and what stands there. */
	for (uint32_t i = qp->send.reserved - count; i != qp->send.reserved; i++)
		signalled += (vb_send_queue_at(&qp->send, i)->send_flags & IBV_SEND_SIGNALED) != 0;
	vb_report_number(report, "max_send_wr", qp->send.max_wr);
	vb_report_number(report, "outstanding", count);
	vb_report_number(report, "signalled", signalled);
	vb_report_number(report, "finished", count > unfinished ? count - unfinished : 0);
	vb_report_say(report, VB_REPORT_CAUSE, "the send queue is full: %u of %u work requests are outstanding", count,
		      qp->send.max_wr);
	if (signalled == 0) {
		vb_report_say(report, VB_REPORT_CAUSE,
			      ", and not one of them is signalled. An unsignalled one leaves the queue with the next signalled: "
			      "this queue stays full.");
		vb_report_say(report, VB_REPORT_FIX,
			      "Set IBV_SEND_SIGNALED on at least one of each %u sends (or sq_sig_all), and poll the CQ for it.",
			      qp->send.max_wr);
		return;
	}
	vb_report_say(report, VB_REPORT_CAUSE, ".");
	vb_report_say(report, VB_REPORT_FIX, "Poll the CQ before posting more, or ask for more max_send_wr.");
}

/* RFC 5040 has neither immediate data nor atomics. */
static bool is_missing_from_iwarp(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

void vb_explain_post_send(const struct vb_qp *qp, const struct ibv_send_wr *wr, int error, struct vb_report *report)
{
	begin_post(report, "ibv_post_send", qp, wr->wr_id, error);
	vb_report_word(report, "opcode", vb_words_opcode(wr->opcode));
	vb_report_say(report, VB_REPORT_WHAT, "ibv_post_send of %s wr_id %llu to QP 0x%06x (%s, %s) refused: %s",
		      vb_words_opcode(wr->opcode), (unsigned long long)wr->wr_id, qp->qpn, vb_words_type(qp->type),
		      vb_words_state(qp->state), vb_words_errno(error));
	if (qp->state < IBV_QPS_RTS) {
		vb_report_say(report, VB_REPORT_CAUSE, "the queue pair is in %s; sends are taken from RTS on.",
			      vb_words_state(qp->state));
		vb_report_say(report, VB_REPORT_FIX,
			      "Move the queue pair to RTS first (rdma_cm: wait for RDMA_CM_EVENT_ESTABLISHED).");
	} else if (error == ENOMEM) {
		say_full_send_queue(qp, report);
	} else if (say_list(qp, wr, report)) {
		return;
	} else if (qp->type == IBV_QPT_UD && (wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM)) {
		vb_report_say(report, VB_REPORT_CAUSE, "%s",
			      wr->wr.ud.remote_qpn > 0xffffff ? "remote_qpn has more than 24 bits."
			      : !wr->wr.ud.ah                 ? "wr.ud.ah is missing."
					      : "the address handle belongs to another protection domain.");
	} else if (wr->opcode == IBV_WR_BIND_MW && qp->type != IBV_QPT_UD) {
		vb_report_word(report, "attribute", wr->bind_mw.mw ? "bind_info.mr" : "bind_mw.mw");
		vb_report_say(report, VB_REPORT_CAUSE, "%s is missing.",
			      wr->bind_mw.mw ? "bind_info.mr" : "bind_mw.mw");
		vb_report_say(report, VB_REPORT_FIX, "A bind names the window and, unless its length is 0, a region.");
	} else if (qp->host->profile->kind == VB_DEVICE_IWARP && is_missing_from_iwarp(wr->opcode)) {
		vb_report_say(report, VB_REPORT_CAUSE, "iWARP has no %s.", wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			      wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? "atomics" : "immediate data");
		vb_report_say(report, VB_REPORT_FIX, "Use a RoCE device%s.", wr->opcode == IBV_WR_SEND_WITH_IMM ? "" :
			      ", or, between two of Verbena, VERBENA_IWARP=extensions=on (RFC 7306)");
	} else {
		vb_report_say(report, VB_REPORT_CAUSE,
			      "%s queue pair does not do %s (opcode %u), or a field that goes with it is missing.",
			      vb_words_a_type(qp->type), vb_words_opcode(wr->opcode), (unsigned)wr->opcode);
		if ((unsigned)wr->opcode < 32 && vb_profile_type(vb_profile_of(qp->host->profile->kind), qp->type) &&
		    vb_profile_type(vb_profile_of(qp->host->profile->kind), qp->type)->opcodes & ~qp->opcodes & 1u << wr->opcode)
			vb_explain_profile(qp->host->profile, report);
	}
}

void vb_explain_post_receive(const struct vb_qp *qp, const struct ibv_recv_wr *wr, int error, struct vb_report *report)
{
	begin_post(report, "ibv_post_recv", qp, wr->wr_id, error);
	vb_report_say(report, VB_REPORT_WHAT, "ibv_post_recv of wr_id %llu to QP 0x%06x (%s, %s) refused: %s",
		      (unsigned long long)wr->wr_id, qp->qpn, vb_words_type(qp->type), vb_words_state(qp->state),
		      vb_words_errno(error));
	if (qp->rss) {
		vb_report_say(report, VB_REPORT_CAUSE, "the queue pair takes its receives from the work queues of its indirection table.");
		vb_report_say(report, VB_REPORT_FIX, "Use ibv_post_wq_recv.");
	} else if (qp->srq) {
		vb_report_say(report, VB_REPORT_CAUSE,
			      "the queue pair takes its receives from a shared receive queue.");
		vb_report_say(report, VB_REPORT_FIX, "Use ibv_post_srq_recv.");
	} else if (qp->state == IBV_QPS_RESET) {
		vb_report_say(report, VB_REPORT_CAUSE, "the queue pair is in RESET; receives are taken from INIT on.");
		vb_report_say(report, VB_REPORT_FIX, "Move the queue pair to INIT first.");
	} else if (error == ENOMEM) {
		vb_report_number(report, "max_recv_wr", qp->receive.max_wr);
		vb_report_say(report, VB_REPORT_CAUSE, "the receive queue is full: all %u receives are posted.",
			      qp->receive.max_wr);
		vb_report_say(report, VB_REPORT_FIX,
			      "Post again only what has completed, or ask for more max_recv_wr.");
	} else {
		say(report, "num_sge", TOO_LARGE, (uint64_t)(unsigned)wr->num_sge, qp->receive.max_sge);
		vb_report_say(report, VB_REPORT_FIX, "Ask for more max_recv_sge in ibv_create_qp.");
	}
}

void vb_explain_post_shared(uint32_t max_wr, uint32_t max_sge, const struct ibv_recv_wr *wr, int error,
			    struct vb_report *report)
{
	begin(report, "ibv_post_srq_recv", error);
	vb_report_number(report, "wr_id", wr->wr_id);
	vb_report_say(report, VB_REPORT_WHAT, "ibv_post_srq_recv of wr_id %llu refused: %s",
		      (unsigned long long)wr->wr_id, vb_words_errno(error));
	if (error == ENOMEM) {
		vb_report_number(report, "max_wr", max_wr);
		vb_report_say(report, VB_REPORT_CAUSE, "the shared receive queue is full: all %u receives are posted.",
			      max_wr);
		vb_report_say(report, VB_REPORT_FIX,
			      "Post again only what has completed, ask for more max_wr, or ibv_modify_srq.");
	} else {
		say(report, "num_sge", TOO_LARGE, (uint64_t)(unsigned)wr->num_sge, max_sge);
		vb_report_say(report, VB_REPORT_FIX, "Ask for more max_sge in ibv_create_srq.");
	}
}

/* ---- creating ---- */

/* Not of this type: which are there? */
static void say_types(const struct vb_profile *profile, enum ibv_qp_type asked, struct vb_report *report)
{
	const char *before = "";
	unsigned count = 0, left;

	for (unsigned i = 0; i < VB_PROFILE_TYPES; i++)
		count += profile->types[i].opcodes != 0;
	left = count;
	vb_report_number(report, "value", asked);
	vb_report_say(report, VB_REPORT_CAUSE, "%s queue pairs are not supported: ", vb_words_type(asked));
	for (unsigned i = 0; i < VB_PROFILE_TYPES; i++) {
		if (profile->types[i].opcodes == 0)
			continue;
		vb_report_say(report, VB_REPORT_CAUSE, "%s%s", before, vb_words_type(i));
		before = --left == 1 ? " and " : ", ";
	}
	vb_report_say(report, VB_REPORT_CAUSE, " %s.", count == 1 ? "is" : "are");
	vb_explain_profile(profile, report);
}

/* Receive side scaling. */
static void say_scaled(const struct ibv_qp_init_attr_ex *attr, int error, struct vb_report *report)
{
	const struct ibv_rx_hash_conf *conf = &attr->rx_hash_conf;

	if (attr->qp_type != IBV_QPT_RAW_PACKET) {
		vb_report_say(report, VB_REPORT_CAUSE, "indirection tables spread the frames of raw packet queue pairs only.");
	} else if (error == EOPNOTSUPP) {
		vb_report_word(report, "attribute", "rx_hash_conf");
		vb_report_say(report, VB_REPORT_CAUSE, "the hash is none, or has fields, that the device does not know.");
		vb_report_say(report, VB_REPORT_FIX, "See rss_caps of ibv_query_device_ex.");
	} else if (attr->send_cq || attr->recv_cq || attr->srq || attr->cap.max_send_wr || attr->cap.max_recv_wr ||
		   attr->cap.max_recv_sge) {
		vb_report_word(report, "attribute", "cap");
		vb_report_say(report, VB_REPORT_CAUSE, "a queue pair with an indirection table has no queues of its own.");
		vb_report_say(report, VB_REPORT_FIX, "Leave out CQs, SRQ and capabilities; a second queue pair may send.");
	} else if ((attr->comp_mask & IBV_QP_INIT_ATTR_RX_HASH) && conf->rx_hash_key_len != VB_TOEPLITZ_KEY) {
		say(report, "rx_hash_key_len", MUST_BE, conf->rx_hash_key_len, VB_TOEPLITZ_KEY);
	} else {
		vb_report_say(report, VB_REPORT_CAUSE, "it needs a PD, an indirection table and a hash, all of this open device.");
		vb_report_say(report, VB_REPORT_FIX, "Set IBV_QP_INIT_ATTR_PD, _IND_TABLE and _RX_HASH in comp_mask; a hash without fields "
						     "goes with a table of one entry.");
	}
}

void vb_explain_create_qp(const struct vb_profile *profile, const struct ibv_qp_init_attr_ex *attr, int error, struct vb_report *report)
{
	const struct vb_profile_type *type = vb_profile_type(profile, attr->qp_type);
	const struct vb_profile_limits *most = &profile->limits;
	bool is_xrc = attr->qp_type == IBV_QPT_XRC_SEND || attr->qp_type == IBV_QPT_XRC_RECV;
	bool is_scaled = (attr->comp_mask & (IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH)) != 0;
	bool sends = attr->qp_type != IBV_QPT_XRC_RECV && !is_scaled, receives = !is_xrc && !attr->srq && !is_scaled;
	const struct {
		const char *name;
		uint32_t value, limit;
	} checks[] = {
		{"max_send_wr", sends ? attr->cap.max_send_wr : 0, most->qp_wr},
		{"max_send_sge", sends ? attr->cap.max_send_sge : 0, most->send_sge},
		{"max_inline_data", profile->grants_less_inline || !sends ? 0 : attr->cap.max_inline_data, type ? type->max_inline : 0},
		{"max_recv_wr", receives ? attr->cap.max_recv_wr : 0, most->qp_wr},
		{"max_recv_sge", receives ? attr->cap.max_recv_sge : 0, most->recv_sge},
	};

	begin(report, "ibv_create_qp", error);
	vb_report_word(report, "qp_type", vb_words_type(attr->qp_type));
	vb_report_say(report, VB_REPORT_WHAT, "ibv_create_qp (%s) refused: %s", vb_words_type(attr->qp_type),
		      vb_words_errno(error));
	if (!type) {
		say_types(profile, attr->qp_type, report);
		return;
	}
	if (is_scaled && error != EPERM && error != ENOMEM) {
		say_scaled(attr, error, report);
		return;
	}
	if (attr->qp_type == IBV_QPT_XRC_RECV && (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd)) {
		vb_report_word(report, "attribute", "xrcd");
		vb_report_say(report, VB_REPORT_CAUSE, "there is no XRC domain.");
		vb_report_say(report, VB_REPORT_FIX, "Use ibv_create_qp_ex with xrcd, and IBV_QP_INIT_ATTR_XRCD in comp_mask.");
		return;
	}
	if (sends && (!attr->send_cq || (!attr->recv_cq && !is_xrc))) {
		vb_report_word(report, "attribute", attr->send_cq ? "recv_cq" : "send_cq");
		vb_report_say(report, VB_REPORT_CAUSE, "%s is NULL.", attr->send_cq ? "recv_cq" : "send_cq");
		vb_report_say(report, VB_REPORT_FIX, "Both CQs must be given; they may be the same.");
		return;
	}
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (checks[i].value <= checks[i].limit)
			continue;
		say(report, checks[i].name, TOO_LARGE, checks[i].value, checks[i].limit);
		vb_explain_profile(profile, report);
		vb_report_say(report, VB_REPORT_FIX, "See ibv_query_device for what the device grants.");
		return;
	}
	if (profile->needs_both_queues && !is_xrc && !is_scaled &&
	    (attr->cap.max_send_wr == 0 || (!attr->srq && attr->cap.max_recv_wr == 0))) {
		say(report, attr->cap.max_send_wr == 0 ? "max_send_wr" : "max_recv_wr", TOO_SMALL, 0, 1);
		vb_explain_profile(profile, report);
		return;
	}
	if (error == EPERM && attr->qp_type == IBV_QPT_RAW_PACKET) {
		vb_report_word(report, "missing", "CAP_NET_RAW");
		vb_report_say(report, VB_REPORT_CAUSE,
			      "whole Ethernet frames go through a packet socket, and the process lacks CAP_NET_RAW.");
		vb_report_say(report, VB_REPORT_FIX, "Run it as root, give the program the capability, or run it in a user and network "
						     "namespace of your own (unshare -Urn), with an interface there.");
	} else if (error == ENOMEM)
		vb_report_say(report, VB_REPORT_CAUSE,
			      "no memory, or all %u queue pair numbers of this process are in use.", most->qp);
	else if (error == EOPNOTSUPP)
		vb_report_say(report, VB_REPORT_CAUSE,
			      "create_flags, comp_mask or send_ops_flags ask for something that is not supported.");
	else
		vb_report_say(report, VB_REPORT_CAUSE, "PD, CQs and SRQ must belong to the same open device.");
}

void vb_explain_register(const struct vb_profile *profile, const char *verb, uint64_t address, uint64_t length, unsigned access, int error,
			 struct vb_report *report)
{
	char rights[VB_WORDS_ROOM];

	begin(report, verb, error);
	vb_report_hex(report, "address", address, 1);
	vb_report_number(report, "length", length);
	vb_report_word(report, "access", vb_words_rights(rights, access));
	vb_report_say(report, VB_REPORT_WHAT, "%s of %llu bytes at 0x%llx with %s refused: %s", verb,
		      (unsigned long long)length, (unsigned long long)address, rights, vb_words_errno(error));
	if (vb_region_check_access(access) != 0) {
		bool no_local_write = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
				      !(access & IBV_ACCESS_LOCAL_WRITE);

		vb_report_word(report, "missing", no_local_write ? "LOCAL_WRITE" : "none");
		vb_report_say(report, VB_REPORT_CAUSE, "%s",
			      no_local_write ? "REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE too."
					     : "the access flags hold a bit that is not known.");
		if (no_local_write)
			vb_report_say(report, VB_REPORT_FIX, "Add IBV_ACCESS_LOCAL_WRITE.");
	} else if (error == EFAULT) {
		vb_report_say(report, VB_REPORT_CAUSE, "not all of the range is mapped%s.",
			      access & IBV_ACCESS_LOCAL_WRITE ? " and writable" : "");
		vb_report_say(report, VB_REPORT_FIX,
			      "Check pointer and length; constants and mapped files may be read-only.");
	} else if (length == 0) {
		vb_report_say(report, VB_REPORT_CAUSE, "the length is 0.");
	} else if (length > profile->limits.mr_size) {
		say(report, "length", TOO_LARGE, length, profile->limits.mr_size);
		vb_explain_profile(profile, report);
	} else if (error == ENOMEM) {
		vb_report_say(report, VB_REPORT_CAUSE, "no memory, or the device's %u regions are all in use.",
			      profile->limits.mr);
	} else {
		vb_report_say(report, VB_REPORT_CAUSE,
			      "the range wraps around the end of the address space, or the access flags do not fit "
			      "it.");
	}
}
