/* SPDX-License-Identifier: MIT
 *
 * What a device counts. The names are those of rxe's hw_counters (and mlx5's where rxe has none),
 * because that is what operators' scripts look for. Relaxed atomics: each is exact, a set is not a
 * snapshot.
 */
#ifndef VB_BASE_COUNTERS_H
#define VB_BASE_COUNTERS_H

#include <stdint.h>

/* VB_COUNTERS_OF_NO_DEVICE: of these are packets that cannot be made sense of, or are for no queue pair: a process counts them, and for
 * none of its devices. */
#define VB_COUNTERS_OF_NO_DEVICE(X) X(icrc_error) X(malformed_pkts) X(unknown_qp_pkts)

#define VB_COUNTERS(X)                                                              \
	X(sent_pkts)               /* packets handed to the socket, or left in memory for a process of this host (UD) */\
	X(rcvd_pkts)               /* packets that passed decoding, and the ICRC where they came by wire */\
	X(sent_bytes)              /* of those packets, from the BTH to the ICRC; of iWARP, bytes of the stream */\
	X(rcvd_bytes)              /* likewise */                                   \
	X(duplicate_request)       /* request PSN below the expected one */         \
	X(out_of_seq_request)      /* request PSN above the expected one */         \
	X(rcvd_rnr_err)            /* RNR NAKs received */                          \
	X(send_rnr_err)            /* RNR NAKs sent */                              \
	X(rcvd_seq_err)            /* sequence NAKs received */                     \
	X(ack_deferred)            /* acknowledgements coalesced into a later one */\
	X(retry_exceeded_err)      /* retry_cnt used up */                          \
	X(retry_rnr_exceeded_err)  /* rnr_retry used up */                          \
	X(completer_retry_err)     /* retransmissions started by the completer */   \
	X(send_err)                /* sends the kernel refused */                   \
	X(link_downed)             /* port left ACTIVE */                           \
	X(rdma_sends)              /* SEND work requests */                         \
	X(rdma_recvs)              /* messages that consumed a receive */           \
	X(rdma_writes)             /* RDMA WRITE work requests, by wire or through memory; of few bytes, through memory, 16 at a time */\
	X(rdma_reads)              /* RDMA READ work requests */                    \
	X(rdma_atomics)            /* atomic work requests */                       \
	X(local_ack_timeout_err)   /* acknowledgement timer expiries (mlx5) */      \
	X(icrc_error)              /* packets dropped for their ICRC (mlx5: rx_icrc_encapsulated) */ \
	X(malformed_pkts)          /* packets dropped before any QP saw them */     \
	X(unknown_qp_pkts)         /* packets for a QP that is not (any more) here */\
	X(bad_address_pkts)        /* packets from or to an address that is not the QP's */\
	X(bad_pkey_pkts)           /* P_Key mismatch */                             \
	X(bad_qkey_pkts)           /* Q_Key mismatch (UD) */                        \
	X(dropped_pkts)            /* silently dropped as the specification says (UC, UD, wrong state) */\
	X(np_ecn_marked_roce_packets) /* packets that arrived with CE */            \
	X(np_cnp_sent)             /* congestion notifications sent */              \
	X(rp_cnp_handled)          /* congestion notifications obeyed */            \
	X(conflicting_request)     /* two unlike requests with one PSN: neither was taken */ \
	X(disturbed_pkts)          /* packets that VERBENA_FAULTS or a shape lost, damaged, doubled or held back (a shape: lost) */

struct vb_counters {
#define X(name) uint64_t name;
	VB_COUNTERS(X)
#undef X
};

#define VB_COUNT(counters, name) \
	((void)__atomic_fetch_add(&(counters)->name, 1, __ATOMIC_RELAXED))
#define VB_COUNT_MANY(counters, name, n) \
	((void)__atomic_fetch_add(&(counters)->name, (uint64_t)(n), __ATOMIC_RELAXED))

#endif
