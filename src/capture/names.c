/* SPDX-License-Identifier: MIT
 *
 * One table a vocabulary; the names are verbs.h's and rdma_cma.h's without their prefixes.
 */
#include "capture/names.h"

#include <infiniband/verbs.h>
#include <stddef.h>

#define NAME(prefix, name) [prefix##name] = #name

static const char *const works[] = {
	NAME(IBV_WR_, RDMA_WRITE), NAME(IBV_WR_, RDMA_WRITE_WITH_IMM), NAME(IBV_WR_, SEND), NAME(IBV_WR_, SEND_WITH_IMM),
	NAME(IBV_WR_, RDMA_READ), NAME(IBV_WR_, ATOMIC_CMP_AND_SWP), NAME(IBV_WR_, ATOMIC_FETCH_AND_ADD),
	NAME(IBV_WR_, LOCAL_INV), NAME(IBV_WR_, BIND_MW), NAME(IBV_WR_, SEND_WITH_INV),
	NAME(IBV_WR_, ATOMIC_WRITE),
};

static const char *const statuses[] = {
	NAME(IBV_WC_, SUCCESS), NAME(IBV_WC_, LOC_LEN_ERR), NAME(IBV_WC_, LOC_QP_OP_ERR), NAME(IBV_WC_, LOC_EEC_OP_ERR),
	NAME(IBV_WC_, LOC_PROT_ERR), NAME(IBV_WC_, WR_FLUSH_ERR), NAME(IBV_WC_, MW_BIND_ERR), NAME(IBV_WC_, BAD_RESP_ERR),
	NAME(IBV_WC_, LOC_ACCESS_ERR), NAME(IBV_WC_, REM_INV_REQ_ERR), NAME(IBV_WC_, REM_ACCESS_ERR),
	NAME(IBV_WC_, REM_OP_ERR), NAME(IBV_WC_, RETRY_EXC_ERR), NAME(IBV_WC_, RNR_RETRY_EXC_ERR),
	NAME(IBV_WC_, LOC_RDD_VIOL_ERR), NAME(IBV_WC_, REM_INV_RD_REQ_ERR), NAME(IBV_WC_, REM_ABORT_ERR),
	NAME(IBV_WC_, INV_EECN_ERR), NAME(IBV_WC_, INV_EEC_STATE_ERR), NAME(IBV_WC_, FATAL_ERR),
	NAME(IBV_WC_, RESP_TIMEOUT_ERR), NAME(IBV_WC_, GENERAL_ERR),
};

static const char *const events[] = {
	NAME(IBV_EVENT_, CQ_ERR), NAME(IBV_EVENT_, QP_FATAL), NAME(IBV_EVENT_, QP_REQ_ERR),
	NAME(IBV_EVENT_, QP_ACCESS_ERR), NAME(IBV_EVENT_, COMM_EST), NAME(IBV_EVENT_, SQ_DRAINED),
	NAME(IBV_EVENT_, PATH_MIG), NAME(IBV_EVENT_, PATH_MIG_ERR), NAME(IBV_EVENT_, DEVICE_FATAL),
	NAME(IBV_EVENT_, PORT_ACTIVE), NAME(IBV_EVENT_, PORT_ERR), NAME(IBV_EVENT_, LID_CHANGE),
	NAME(IBV_EVENT_, PKEY_CHANGE), NAME(IBV_EVENT_, SM_CHANGE), NAME(IBV_EVENT_, SRQ_ERR),
	NAME(IBV_EVENT_, SRQ_LIMIT_REACHED), NAME(IBV_EVENT_, QP_LAST_WQE_REACHED), NAME(IBV_EVENT_, GID_CHANGE),
};

/* In the order of enum rdma_cm_event_type (rdma_get_cm_event(3)). */
static const char *const cm_events[] = {
	"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE",
	"CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED", "DEVICE_REMOVAL", "MULTICAST_JOIN",
	"MULTICAST_ERROR", "ADDR_CHANGE", "TIMEWAIT_EXIT",
};

#define LOOK_UP(table, index) \
	((index) < sizeof(table) / sizeof((table)[0]) && (table)[index] ? (table)[index] : "?")

const char *vb_name_of_work(uint32_t wr_opcode)
{
	return LOOK_UP(works, wr_opcode);
}

/* Sends and receives are numbered far apart. */
const char *vb_name_of_completion(uint32_t wc_opcode)
{
	switch (wc_opcode) {
	case IBV_WC_SEND: return "SEND";
	case IBV_WC_RDMA_WRITE: return "RDMA_WRITE";
	case IBV_WC_RDMA_READ: return "RDMA_READ";
	case IBV_WC_COMP_SWAP: return "COMP_SWAP";
	case IBV_WC_FETCH_ADD: return "FETCH_ADD";
	case IBV_WC_BIND_MW: return "BIND_MW";
	case IBV_WC_LOCAL_INV: return "LOCAL_INV";
	case IBV_WC_RECV: return "RECV";
	case IBV_WC_RECV_RDMA_WITH_IMM: return "RECV_RDMA_WITH_IMM";
	default: return "?";
	}
}

const char *vb_name_of_status(uint32_t wc_status)
{
	return LOOK_UP(statuses, wc_status);
}

const char *vb_name_of_event(uint32_t event_type)
{
	return LOOK_UP(events, event_type);
}

const char *vb_name_of_cm_event(uint32_t cm_event)
{
	return LOOK_UP(cm_events, cm_event);
}
