/* SPDX-License-Identifier: MIT
 *
 * An adapter that joins a fabric elsewhere: its node, its agents, and its end of the cable. Sans-I/O.
 *
 *   idle ── join ─▶ asking ── ACCEPT ─▶ joined ── cable lost ─▶ asking again (the node stays, its port is down)
 *                     └── REFUSE, or no answer for a while ─▶ idle
 */
#ifndef VB_FABRIC_ADAPTER_H
#define VB_FABRIC_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "fabric/agents.h"
#include "fabric/cable.h"
#include "fabric/fabric.h"

struct vb_adapter_host {
	void (*send)(void *context, const struct vb_cable_address *to, const void *head, size_t head_length, const void *body,
		     size_t body_length);
	/* Joining has ended: 0, or -errno and a sentence. */
	void (*joined)(void *context, int error, const char *text);
	/* A frame for a queue pair of a process. */
	void (*frame)(void *context, const uint8_t *bytes, size_t length);
	/* A frame has come by the cable, or is about to leave by it; may be NULL. */
	void (*passed)(void *context, bool sent, const uint8_t *bytes, size_t length);
	/* VB_FABRIC_*_CHANGED of node.h. */
	void (*changed)(void *context, unsigned what);
	struct vb_agents_host agents;
};

enum vb_adapter_state { VB_ADAPTER_IDLE, VB_ADAPTER_ASKING, VB_ADAPTER_JOINED };

struct vb_adapter {
	enum vb_adapter_state state;
	const struct vb_adapter_host *host;
	void *context;
	struct vb_cable_address address;   /* of the fabric */
	struct vb_cable_join join;         /* what is asked for */
	uint64_t nonce;
	vb_time next_ask, give_up;
	uint8_t mtu;                       /* code of what its cable carries whole; the port's own may be more */
	bool has_node;
	struct vb_fabric fabric;           /* of one node */
	struct vb_fabric_port *port;
	struct vb_agents agents;
	struct vb_cable_end cable;
	char where[VB_CABLE_NAME];
};

void vb_adapter_init(struct vb_adapter *adapter, const struct vb_adapter_host *host, void *context);
void vb_adapter_fini(struct vb_adapter *adapter);

/* `nonce` is unpredictable, `mtu` the code of the greatest that the cable can carry. -EALREADY: it has joined, or is about to. */
int vb_adapter_join(struct vb_adapter *adapter, vb_time now, const struct vb_cable_address *fabric, uint64_t guid, uint64_t nonce,
		    uint8_t mtu, const char *description, const char *wanted);
void vb_adapter_leave(struct vb_adapter *adapter, vb_time now);
void vb_adapter_receive(struct vb_adapter *adapter, vb_time now, const struct vb_cable_address *from, uint8_t *bytes, size_t length);
vb_time vb_adapter_deadline(const struct vb_adapter *adapter);
void vb_adapter_expire(struct vb_adapter *adapter, vb_time now);

#endif
