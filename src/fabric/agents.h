/* SPDX-License-Identifier: MIT
 *
 * Who on an adapter sends and receives MADs: what ib_mad and ib_umad are in Linux.
 *
 * An agent has registered for a class, and for the methods whose requests it wants to have. A request of its own gets
 * the agent's number in the upper half of its transaction id; that is how the answer finds it. A request without
 * answer is sent again `retries` times and then comes back with status ETIMEDOUT. Messages of many segments (rmpp.h)
 * are taken apart and put together here, for agents that want it so.
 */
#ifndef VB_FABRIC_AGENTS_H
#define VB_FABRIC_AGENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "fabric/node.h"

enum {
	VB_AGENTS_PER_OWNER = 32,
	VB_AGENTS_MOST = 1024,
	VB_AGENTS_MOST_REQUESTS = 16384,   /* under way, of an owner */
	VB_AGENT_METHODS = 128,
};

struct vb_agents_host {
	/* `owner` receives it. status: 0 or an errno. The first `length` bytes of a message. */
	void (*deliver)(void *context, void *owner, uint32_t agent, int status, const struct vb_mad_address *address, const void *message,
			size_t length);
};

struct vb_agent_registration {
	uint8_t mgmt_class, class_version, rmpp_version;
	bool user_rmpp;                    /* it does RMPP itself */
	uint32_t oui;
	uint64_t methods[2];               /* requests of these methods are for it */
};

struct vb_agents {
	struct vb_fabric_port *port;       /* by which they send */
	const struct vb_agents_host *host;
	void *host_context;
	struct vb_list agents, requests, senders, receivers;
	unsigned count;
	uint32_t last_number;
};

/* Makes itself the consumer of the port's node. */
void vb_agents_init(struct vb_agents *agents, struct vb_fabric_port *port, const struct vb_agents_host *host, void *context);
void vb_agents_fini(struct vb_agents *agents);

/* An id, 0 .. 31 among those of the owner, or -errno: -EINVAL another agent has that class and method or the registration is not sound,
 * -ENOMEM too many. */
int vb_agents_register(struct vb_agents *agents, vb_time now, void *owner, const struct vb_agent_registration *registration);
int vb_agents_unregister(struct vb_agents *agents, vb_time now, void *owner, uint32_t id);
void vb_agents_owner_gone(struct vb_agents *agents, vb_time now, void *owner);

/* Send a MAD, or more than a MAD of a class with RMPP. timeout 0: no answer is expected. 0 or -errno: -EINVAL no such
 * agent, too short, or a
 * request with that transaction id is under way. */
int vb_agents_send(struct vb_agents *agents, vb_time now, void *owner, uint32_t id, const struct vb_mad_address *address,
		   const void *message, size_t length, vb_time timeout, unsigned retries);

vb_time vb_agents_deadline(const struct vb_agents *agents);
void vb_agents_expire(struct vb_agents *agents, vb_time now);

/* For its node (fabric/node.h). */
void vb_agents_receive(void *context, vb_time now, struct vb_fabric_port *port, const struct vb_mad_address *address,
		       const struct vb_mad *mad);

#endif
