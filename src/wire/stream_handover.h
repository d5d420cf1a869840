/* SPDX-License-Identifier: MIT
 *
 * How librdmacm hands a stream over to libibverbs: it has made a TCP connection and exchanged the MPA frames on it, and from then on the
 * socket is the queue pair's. No exported name is added for it: execute_ioctl of libibverbs' private node, by which providers of
 * rdma-core talk to the kernel, takes these calls, and refuses all others with ENOSYS.
 *
 * The end of a stream, and that its first message has come, are told the other way: an event descriptor is raised, and librdmacm asks.
 */
#ifndef VB_WIRE_STREAM_HANDOVER_H
#define VB_WIRE_STREAM_HANDOVER_H

#include <stdint.h>

#include "wire/resource.h"

#define VB_HANDOVER_MAGIC UINT64_C(0x9d56624452656e01) /* no pointer, which is what providers' calls begin with */
#define VB_HANDOVER_IDENTITY "verbena-context"       /* what is to be read from a context's cmd_fd, so that no other library is called */

enum { VB_HANDOVER_VERSION = 3, VB_HANDOVER_REPORTS = 32 };

enum vb_handover_verb {
	VB_HANDOVER_OPEN = 1,            /* show -> event_fd: raised when there is something to report; libibverbs' */
	VB_HANDOVER_ADOPT,               /* qpn, fd, terms, cookie: the queue pair goes to RTS. The descriptor is libibverbs' then */
	VB_HANDOVER_CLOSE,               /* qpn: what was posted is sent, then the stream ends (RTS to SQD) */
	VB_HANDOVER_REPORT,              /* -> reports: what happened since the last time; as many as there is room for */
};

/* The first message of the initiator, of length zero; values of enum vb_mpa_rtr (connect/mpa.h). */
struct vb_handover_terms {
	uint8_t initiator, crc, large, ready;
	uint32_t ird, ord;
	int32_t hold_ms;                 /* responder: how long it waits for the peer's first message; negative: for ever */
	uint8_t attentive, segment_only; /* attentive: the peer misses no first message */
	uint16_t last_ms;                /* how long behind the peer's last bytes the stream is not ended */
	uint32_t sent, received;         /* bytes of the stream that the MPA frames were */
};

/* What happened to a stream. */
enum vb_handover_report_kind {
	VB_HANDOVER_HEARD = 1,           /* its first message has come */
	VB_HANDOVER_ENDED,               /* nothing more will come or go. The last report of a stream */
};

struct vb_handover_report {
	uint64_t cookie;                 /* as given with ADOPT */
	uint32_t kind;
	int32_t status;                  /* ENDED: 0 or -errno */
};

/* For `verbena res`, which asks libibverbs: librdmacm adds what its ids with streams are, of which verbenad knows at
 * most that they have a port. interface_index is the interface's. Called by the engine thread, which holds no lock. */
typedef void vb_handover_add_id(void *list, const struct vb_resource_cm_id *row);
typedef void vb_handover_show_ids(void *list, vb_handover_add_id *add);

struct vb_handover_call {
	uint64_t magic;
	uint32_t version, verb;
	uint64_t cookie;
	uint32_t qpn;
	int32_t fd;
	struct vb_handover_terms terms;
	vb_handover_show_ids *show;
	uint32_t reports;                /* how many follow */
	struct vb_handover_report report[VB_HANDOVER_REPORTS];
};

#endif
