/* SPDX-License-Identifier: MIT
 *
 * A subnet, or the part of it that is in this process: nodes, what joins them, and the frames on their way. Does no
 * input or output: frames that leave by a cable are handed to the host, time is a parameter.
 *
 *   vb_fabric_receive          a frame has come by a cable
 *   vb_fabric_send_mad, _run   a node sends a MAD of its own
 *   vb_fabric_deadline, _expire  traps that are repeated
 *
 * A frame passes all switches of the process in one call. It takes VB_FABRIC_MAX_HOPS of them at most: forwarding
 * tables may have loops, and an LRH has no hop limit. What nodes send waits in a queue until vb_fabric_run, so that
 * no caller is called back by what it has just called; vb_fabric_receive and vb_fabric_expire run it themselves.
 */
#ifndef VB_FABRIC_FABRIC_H
#define VB_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "fabric/node.h"

enum { VB_FABRIC_MAX_HOPS = 64 };

/* Frames of one length that agree in LRH, GRH and queue pair, `stride` bytes from one to the next: what is true of the first, but for what
 * its transport says, is true of all. The bytes between two frames, and as many before the first, may be written to. */
struct vb_fabric_train {
	uint8_t *bytes;                    /* of the first frame */
	size_t length, stride;
	unsigned count;
};

struct vb_fabric_host {
	/* A frame leaves by port->cable. False: it cannot, and is counted as discarded. */
	bool (*transmit)(void *context, struct vb_fabric_port *port, const uint8_t *bytes, size_t length);
	/* The same of a train, all of it or nothing; may be NULL: its frames leave one by one. */
	bool (*transmit_train)(void *context, struct vb_fabric_port *port, const struct vb_fabric_train *train);
	/* The other end of port->cable is to restart the link too; may be NULL. */
	void (*restarted)(void *context, struct vb_fabric_port *port, vb_time now);
	/* A port changed its state; may be NULL. */
	void (*port_changed)(void *context, struct vb_fabric_port *port);
};

struct vb_fabric {
	struct vb_fabric_node *first, *last;
	unsigned nodes;
	const struct vb_fabric_host *host;
	void *host_context;
	struct vb_list waiting;            /* frames that nodes have made while another was on its way */
	unsigned waiting_count;
	uint64_t transactions;             /* of traps */
	unsigned traps;                    /* nodes that have one to repeat */
	uint64_t dropped;                  /* frames that no port counts */
};

void vb_fabric_init(struct vb_fabric *fabric, const struct vb_fabric_host *host, void *context);
/* With all its nodes. */
void vb_fabric_fini(struct vb_fabric *fabric);

/* The fabric owns the node from now on. */
void vb_fabric_add(struct vb_fabric *fabric, struct vb_fabric_node *node);
struct vb_fabric_node *vb_fabric_find(const struct vb_fabric *fabric, const char *id);

/* Join two ports of this process, or a port and a cable; both come up at INIT. */
void vb_fabric_join(struct vb_fabric_port *a, struct vb_fabric_port *b, vb_time now);
void vb_fabric_attach(struct vb_fabric_port *port, void *cable, vb_time now);
void vb_fabric_detach(struct vb_fabric_port *port, vb_time now);
/* The cable is heard, or no more. */
void vb_fabric_cable_is(struct vb_fabric_port *port, bool alive, vb_time now);
/* Cut a cable, or mend it: one end suffices. */
void vb_fabric_cut(struct vb_fabric_port *port, bool cut, vb_time now);

/* A frame that came by port->cable. It may be changed on its way. */
void vb_fabric_receive(struct vb_fabric *fabric, vb_time now, struct vb_fabric_port *port, uint8_t *bytes, size_t length);
/* The same of a train, with one look at the tables of each switch. Counters count its frames. */
void vb_fabric_receive_train(struct vb_fabric *fabric, vb_time now, struct vb_fabric_port *port, const struct vb_fabric_train *train);
/* The node of `port` sends it: directed by its path, else by its LID. Only `address` and the MAD decide; VL and SLID
 * are filled in. 0 or -errno: -ENETUNREACH there is no way, -ENOBUFS. */
int vb_fabric_send_mad(struct vb_fabric_port *port, vb_time now, const struct vb_mad_address *address, const struct vb_mad *mad);
/* The same to who has sent `request`: from the LID and by the partition that he used. */
void vb_fabric_answer(struct vb_fabric_port *port, vb_time now, const struct vb_mad_address *request, const struct vb_mad *mad);
/* A queue pair of the adapter that `port` belongs to sends it. It must be for no VL but data's, from a LID of the port,
 * and the port active: else false, and it is counted as discarded. For a LID of the port itself, or a group, it is
 * handed to the consumer at once. */
bool vb_fabric_send_frame(struct vb_fabric_port *port, vb_time now, uint8_t *bytes, size_t length);
/* Carry all that waits. */
void vb_fabric_run(struct vb_fabric *fabric, vb_time now);

vb_time vb_fabric_deadline(const struct vb_fabric *fabric);
void vb_fabric_expire(struct vb_fabric *fabric, vb_time now);

#endif
