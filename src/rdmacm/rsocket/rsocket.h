/* SPDX-License-Identifier: MIT
 *
 * rsockets: the socket calls of rdma/rsocket.h over rdma_cm and verbs (man 7 rsocket).
 *
 * A stream rsocket is an RC connection on which each side writes its bytes straight into the
 * other's receive buffer (RDMA WRITE with immediate); a datagram rsocket is a set of UD queue
 * pairs with a UDP socket that tells which queue pair answers for an address. This folder uses
 * only the public rdma_* and ibv_* calls; the ids and events underneath are not its business.
 */
#ifndef VB_RDMACM_RSOCKET_RSOCKET_H
#define VB_RDMACM_RSOCKET_RSOCKET_H

#endif
