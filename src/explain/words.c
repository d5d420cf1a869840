/* SPDX-License-Identifier: MIT
 *
 * Tables of names, and the few things that must be put together.
 */
#include "explain/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "wire/path.h"

#define NAME_OF(table, index) \
	((unsigned)(index) < sizeof(table) / sizeof((table)[0]) && (table)[index] ? (table)[index] : "UNKNOWN")

#define X(name) [IBV_WC_##name] = #name,
static const char *const statuses[] = {
	X(SUCCESS) X(LOC_LEN_ERR) X(LOC_QP_OP_ERR) X(LOC_EEC_OP_ERR) X(LOC_PROT_ERR) X(WR_FLUSH_ERR) X(MW_BIND_ERR)
	X(BAD_RESP_ERR) X(LOC_ACCESS_ERR) X(REM_INV_REQ_ERR) X(REM_ACCESS_ERR) X(REM_OP_ERR) X(RETRY_EXC_ERR)
	X(RNR_RETRY_EXC_ERR) X(LOC_RDD_VIOL_ERR) X(REM_INV_RD_REQ_ERR) X(REM_ABORT_ERR) X(INV_EECN_ERR)
	X(INV_EEC_STATE_ERR) X(FATAL_ERR) X(RESP_TIMEOUT_ERR) X(GENERAL_ERR)
};
#undef X

#define X(name) [IBV_WR_##name] = #name,
static const char *const opcodes[] = {
	X(RDMA_WRITE) X(RDMA_WRITE_WITH_IMM) X(SEND) X(SEND_WITH_IMM) X(RDMA_READ) X(ATOMIC_CMP_AND_SWP)
	X(ATOMIC_FETCH_AND_ADD) X(LOCAL_INV) X(BIND_MW) X(SEND_WITH_INV) X(ATOMIC_WRITE)
};
#undef X

#define X(name) [IBV_QPS_##name] = #name,
static const char *const states[] = {X(RESET) X(INIT) X(RTR) X(RTS) X(SQD) X(SQE) X(ERR)};
#undef X

#define X(name) [IBV_EVENT_##name] = "IBV_EVENT_" #name,
static const char *const events[] = {
	X(CQ_ERR) X(QP_FATAL) X(QP_REQ_ERR) X(QP_ACCESS_ERR) X(COMM_EST) X(SQ_DRAINED) X(PATH_MIG) X(PATH_MIG_ERR)
	X(DEVICE_FATAL) X(PORT_ACTIVE) X(PORT_ERR) X(LID_CHANGE) X(PKEY_CHANGE) X(SM_CHANGE) X(SRQ_ERR)
	X(SRQ_LIMIT_REACHED) X(QP_LAST_WQE_REACHED) X(CLIENT_REREGISTER) X(GID_CHANGE)
};
#undef X

struct flag {
	uint32_t bit;
	const char *name;
};

static const struct flag rights_flags[] = {
	{IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE"}, {IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE"},
	{IBV_ACCESS_REMOTE_READ, "REMOTE_READ"}, {IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC"},
	{IBV_ACCESS_MW_BIND, "MW_BIND"},         {IBV_ACCESS_ZERO_BASED, "ZERO_BASED"},
	{IBV_ACCESS_ON_DEMAND, "ON_DEMAND"},     {IBV_ACCESS_HUGETLB, "HUGETLB"},
	{IBV_ACCESS_RELAXED_ORDERING, "RELAXED_ORDERING"},
};

static const struct flag attribute_flags[] = {
	{IBV_QP_STATE, "qp_state"},
	{IBV_QP_CUR_STATE, "cur_qp_state"},
	{IBV_QP_EN_SQD_ASYNC_NOTIFY, "en_sqd_async_notify"},
	{IBV_QP_ACCESS_FLAGS, "qp_access_flags"},
	{IBV_QP_PKEY_INDEX, "pkey_index"},
	{IBV_QP_PORT, "port_num"},
	{IBV_QP_QKEY, "qkey"},
	{IBV_QP_AV, "ah_attr"},
	{IBV_QP_PATH_MTU, "path_mtu"},
	{IBV_QP_TIMEOUT, "timeout"},
	{IBV_QP_RETRY_CNT, "retry_cnt"},
	{IBV_QP_RNR_RETRY, "rnr_retry"},
	{IBV_QP_RQ_PSN, "rq_psn"},
	{IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic"},
	{IBV_QP_ALT_PATH, "alt_ah_attr"},
	{IBV_QP_MIN_RNR_TIMER, "min_rnr_timer"},
	{IBV_QP_SQ_PSN, "sq_psn"},
	{IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic"},
	{IBV_QP_PATH_MIG_STATE, "path_mig_state"},
	{IBV_QP_CAP, "cap"},
	{IBV_QP_DEST_QPN, "dest_qp_num"},
	{IBV_QP_RATE_LIMIT, "rate_limit"},
};

const char *vb_words_status(enum ibv_wc_status status) { return NAME_OF(statuses, status); }
const char *vb_words_opcode(enum ibv_wr_opcode opcode) { return NAME_OF(opcodes, opcode); }
const char *vb_words_state(enum ibv_qp_state state) { return NAME_OF(states, state); }
const char *vb_words_event(enum ibv_event_type event) { return NAME_OF(events, event); }

const char *vb_words_type(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : type == IBV_QPT_UD ? "UD" :
	       type == IBV_QPT_RAW_PACKET ? "RAW_PACKET" :
	       type == IBV_QPT_XRC_SEND ? "XRC_SEND" : type == IBV_QPT_XRC_RECV ? "XRC_RECV" : "UNKNOWN";
}

const char *vb_words_a_type(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC ? "an RC" : type == IBV_QPT_UC ? "a UC" : type == IBV_QPT_UD ? "a UD" :
	       type == IBV_QPT_RAW_PACKET ? "a RAW_PACKET" :
	       type == IBV_QPT_XRC_SEND ? "an XRC_SEND" : type == IBV_QPT_XRC_RECV ? "an XRC_RECV" : "an UNKNOWN";
}

static const char *join(char out[VB_WORDS_ROOM], const struct flag *flags, size_t count, uint32_t value,
			const char *between)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < count && used < VB_WORDS_ROOM; i++) {
		if (!(value & flags[i].bit))
			continue;
		used += (size_t)snprintf(out + used, VB_WORDS_ROOM - used, "%s%s", used ? between : "",
					 flags[i].name);
		value &= ~flags[i].bit;
	}
	if (value != 0 && used < VB_WORDS_ROOM)
		snprintf(out + used, VB_WORDS_ROOM - used, "%s0x%x", used ? between : "", value);
	return out;
}

const char *vb_words_rights(char out[VB_WORDS_ROOM], uint32_t rights)
{
	if (rights == 0)
		return strcpy(out, "none");
	return join(out, rights_flags, sizeof(rights_flags) / sizeof(rights_flags[0]), rights, "|");
}

const char *vb_words_attributes(char out[VB_WORDS_ROOM], int attr_mask)
{
	return join(out, attribute_flags, sizeof(attribute_flags) / sizeof(attribute_flags[0]), (uint32_t)attr_mask,
		    ", ");
}

/* RFC 5952: the longest run of two or more zero groups is left out. */
static void write_ipv6(char out[VB_WORDS_ADDRESS], const uint8_t gid[16])
{
	unsigned group[8], best = 8, best_length = 1;
	size_t used = 0;

	for (unsigned i = 0; i < 8; i++)
		group[i] = (unsigned)gid[2 * i] << 8 | gid[2 * i + 1];
	for (unsigned i = 0; i < 8; i++) {
		unsigned length = 0;

		while (i + length < 8 && group[i + length] == 0)
			length++;
		if (length > best_length) {
			best = i;
			best_length = length;
		}
	}
	for (unsigned i = 0; i < 8; i++) {
		if (i == best) {
			used += (size_t)snprintf(out + used, VB_WORDS_ADDRESS - used, "::");
			i += best_length - 1;
			continue;
		}
		used += (size_t)snprintf(out + used, VB_WORDS_ADDRESS - used, "%s%x",
					 i > 0 && i != best + best_length ? ":" : "", group[i]);
	}
}

const char *vb_words_address(char out[VB_WORDS_ADDRESS], const uint8_t gid[16])
{
	if (vb_gid_is_ipv4(gid) || vb_gid_is_ipv4_group_alias(gid))
		snprintf(out, VB_WORDS_ADDRESS, "%u.%u.%u.%u", gid[12], gid[13], gid[14], gid[15]);
	else
		write_ipv6(out, gid);
	return out;
}

const char *vb_words_reach(enum vb_inquiry_reach reach)
{
	static const char *const names[] = {
		[VB_REACH_UNASKED] = "unasked",
		[VB_REACH_ANSWERED] = "answered",
		[VB_REACH_REFUSED] = "port_refused",
		[VB_REACH_NO_ROUTE] = "no_route",
		[VB_REACH_UNREACHABLE] = "host_unreachable",
		[VB_REACH_PINGED] = "ping_only",
		[VB_REACH_SILENT] = "silent",
		[VB_REACH_SILENT_UNPINGED] = "silent_unpinged",
	};

	return NAME_OF(names, reach);
}

const char *vb_words_errno(int error)
{
#define X(name) {name, #name},
	static const struct {
		int number;
		const char *name;
	} errors[] = {
		X(EPERM) X(ENOENT) X(EINTR) X(EIO) X(EBADF) X(EAGAIN) X(ENOMEM) X(EACCES) X(EFAULT) X(EBUSY) X(EEXIST)
		X(ENODEV) X(EINVAL) X(EMFILE) X(ENOSYS) X(EOPNOTSUPP) X(EADDRINUSE) X(EADDRNOTAVAIL) X(ENETUNREACH)
		X(ECONNRESET) X(EISCONN) X(ENOTCONN) X(ETIMEDOUT) X(ECONNREFUSED) X(EHOSTUNREACH) X(EALREADY) X(EPROTO)
	};
#undef X

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].number == error)
			return errors[i].name;
	return "UNKNOWN";
}
