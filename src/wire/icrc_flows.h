/* SPDX-License-Identifier: MIT
 *
 * Which senders' IPv4 identifications can be foretold. The ICRC covers the identification, which a UDP socket does not show: any of
 * 65,536 may explain a difference (wire/icrc.h), so damage passes for a good packet once in 2^16. But most senders number as
 * Linux does for datagrams that may not be fragmented: 0, and 0, 1, 2, ... within one segmented send (VB_ICRC_TRAIN at most). Those of
 * connected sockets count: each send begins one beyond where the one before it began, and 1, 2, ... follow within it. Of a
 * flow that did either for a while it is demanded from then on, and damage passes once in 2^26, or in 2^23 where the sender counts and
 * is busy.
 *
 * One that counts may have sent elsewhere meanwhile, to another of our lanes as well, and of what it sent some may be lost. It cannot have
 * come further than the time since its last bundle came allows. Where that is milliseconds anything is believed again. That bundle may have
 * lain in the socket before it was read: of one that came when the socket was full nothing more is known than that the socket had been
 * empty before, and a thousand sends may be lost between two bundles that are read one right after the other. Those that counted may
 * go back to 0 at any time: our senders do, when a send fails (links/udp/counted.h).
 *
 * A flow is a sender's address and port. Its place may be taken by another one: then it is learned again. A sender that changes its
 * habits loses one bundle: the second strange one within a short time shows that it is not damage.
 */
#ifndef VB_WIRE_ICRC_FLOWS_H
#define VB_WIRE_ICRC_FLOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "wire/icrc.h"
#include "wire/path.h"

enum {
	VB_ICRC_FLOWS = 256,
	/* Bundles without a strange one. Longer than it takes a counter to pass through the small numbers. */
	VB_ICRC_LEARNED = 256,
};

struct vb_icrc_flow {
	uint32_t address;                /* IPv4, as its bytes stand */
	uint16_t port;
	uint16_t good;                   /* bundles in a row */
	bool strict;
	bool struck;                     /* strict, and a strange one was refused not long ago */
	bool has_crc;                    /* of what stands before the BTH, for packets to `destination`: */
	uint32_t destination;
	uint32_t crc_of_none;            /* vb_icrc_prefix's */
	bool counts;                     /* vb_icrc_prefix's, */
	uint16_t next;                   /* and what the next bundle begins with */
	vb_time seen;                    /* the last one did not come before that */
};

struct vb_icrc_flows {
	struct vb_icrc_flow flow[VB_ICRC_FLOWS];
};

/* NULL: not IPv4, there is nothing to foretell. */
struct vb_icrc_flow *vb_icrc_flows_find(struct vb_icrc_flows *flows, const struct vb_path *from);
/* Before a bundle of the flow, and after it: it did not come before `since`. */
void vb_icrc_flow_begin(const struct vb_icrc_flow *flow, const struct vb_path *from, vb_time now, struct vb_icrc_prefix *prefix);
void vb_icrc_flow_end(struct vb_icrc_flow *flow, const struct vb_path *from, vb_time since, const struct vb_icrc_prefix *prefix);

#endif
