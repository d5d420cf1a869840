/* SPDX-License-Identifier: MIT
 *
 * Why a connection did not come about: events of the connection manager in words.
 */
#ifndef VB_EXPLAIN_CONNECTION_H
#define VB_EXPLAIN_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "explain/report.h"
#include "wire/inquiry.h"

struct vb_explain_connection {
	const char *event;               /* RDMA_CM_EVENT_REJECTED, ... */
	int status;                      /* as the event has it: REJ reason, SIDR status or -errno */
	bool rejected, datagram;
	bool fabric;                     /* InfiniBand: addresses and routes are the subnet administration's */
	bool has_addresses;
	uint8_t source[16], destination[16];
	uint16_t source_port, destination_port;
	enum vb_inquiry_reach reach;     /* of the peer's port 4791 */
};

void vb_explain_connection(const struct vb_explain_connection *connection, struct vb_report *report);

/* A call of librdmacm that failed at once. */
struct vb_explain_call {
	const char *call;                /* rdma_connect, ... */
	int error;                       /* errno */
	const char *state;               /* of the id; NULL: there is none */
	const char *needed;              /* the state or states in which the call is possible; NULL: it is in one */
	const char *why, *fix;           /* NULL: by the error */
	bool has_address;
	uint8_t address[16];             /* that the call was about */
	uint16_t port;
};
void vb_explain_call(const struct vb_explain_call *call, struct vb_report *report);

/* REJ reason of IBA 12.6.7.2 in words; NULL: none that is known. */
const char *vb_explain_reject_reason(unsigned reason);

#endif
