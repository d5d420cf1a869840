/* SPDX-License-Identifier: MIT
 *
 * The link of raw packet queue pairs: packet sockets, and frames as they are. Shared by the files that make it up:
 *
 *   ethernet_link.c  opening and closing, and the table of what it does
 *   ports.c          the socket of each queue pair
 *   rules.c          flow rules, and which frames have to come in for them
 *   transmit.c       from the engine's batch to the socket
 *   receive.c        from the sockets to the engine
 *
 * Each queue pair has a socket of its own, its port: what the program has no receive for waits there as in an adapter's
 * buffer, and keeps no other queue pair waiting. The socket is made with the queue pair, by the program's own right
 * (CAP_NET_RAW): verbenad, which may have more, makes none for it. A port takes nothing in until its queue pair is in
 * RTR and has a rule.
 */
#ifndef VB_LINKS_ETHERNET_ETHERNET_LINK_H
#define VB_LINKS_ETHERNET_ETHERNET_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "io/packet_socket.h"
#include "links/link.h"
#include "queue/flow.h"
#include "raw/raw.h"
#include "schedule/schedule.h"

struct vb_packet_batch;

struct vb_ethernet_port {
	struct vb_list node;               /* of the link */
	struct vb_qp *qp;
	int fd;
	uint32_t interface_index;
	uint32_t rules;                    /* under progress: of its queue pair */
	/* Under qp->lock. */
	enum vb_packet_socket_reach wanted; /* by its rules */
	enum vb_packet_socket_reach reach;
	bool starved;                      /* frames may wait for which there is no receive: its descriptor is not looked at */
	bool blocked;                      /* the system takes no more frames: told when it does */
	vb_time full_since;                /* the interface's queue has taken none since then; 0: it takes them */
	struct vb_raw_batch out;
};

/* The rules of an interface. */
struct vb_ethernet_rules {
	struct vb_list node;
	uint32_t interface_index;
	struct vb_flow_table table;
};

struct vb_ethernet_link {
	struct vb_link link;
	struct vb_schedule *schedule;
	int poller;                        /* of all ports. Atomic: -1 until the first */
	uint32_t starved;                  /* atomic: ports that are, of queue pairs with a shared queue */
	bool replenished;                  /* atomic */
	/* Under progress. */
	struct vb_list ports;
	struct vb_list rules;              /* of struct vb_ethernet_rules */
	struct vb_packet_batch *incoming;  /* made with the first port */
	struct vb_ethernet_port *port[VB_DAEMON_INDICES]; /* by queue pair; changes under progress, before and after it is published */
};

static inline struct vb_ethernet_link *vb_ethernet_link_of(struct vb_link *link)
{
	return (struct vb_ethernet_link *)link;
}

static inline struct vb_ethernet_port *vb_ethernet_port_of(struct vb_ethernet_link *ethernet, const struct vb_qp *qp)
{
	return ethernet->port[vb_schedule_index(qp->qpn)];
}

/* ---- ethernet_link.c ---- */

/* 0 or -errno. */
int vb_ethernet_link_open(struct vb_link **link, struct vb_schedule *schedule);

/* ---- ports.c ---- */

int vb_ethernet_prepare(struct vb_link *link, struct vb_qp *qp);
void vb_ethernet_withdraw(struct vb_link *link, struct vb_qp *qp);
void vb_ethernet_port_close(struct vb_ethernet_link *ethernet, struct vb_ethernet_port *port);
/* Look at its descriptor for what is possible now. Caller holds qp->lock. */
void vb_ethernet_port_watch(struct vb_ethernet_link *ethernet, struct vb_ethernet_port *port);
/* Its state or its rules have changed: frames come in, or no more. Caller holds qp->lock. */
void vb_ethernet_port_listen(struct vb_ethernet_link *ethernet, struct vb_ethernet_port *port);

/* ---- rules.c ---- */

int vb_ethernet_steer(struct vb_link *link, struct vb_qp *qp, struct vb_flow_rule *rule);
void vb_ethernet_unsteer(struct vb_link *link, struct vb_flow_rule *rule);
/* The table of an interface; NULL: there are no rules. Caller holds progress. */
const struct vb_flow_table *vb_ethernet_table(const struct vb_ethernet_link *ethernet, uint32_t interface_index);
/* Caller holds progress. */
void vb_ethernet_forget_rules(struct vb_ethernet_link *ethernet);

/* ---- transmit.c: struct vb_link_driver has the words ---- */

void vb_ethernet_transmit(struct vb_link *link, struct vb_qp *qp, vb_time now);
void vb_ethernet_transmit_in_pass(struct vb_link *link, struct vb_qp *qp, vb_time now);
bool vb_ethernet_expire(struct vb_link *link, struct vb_qp *qp, vb_time now);

/* ---- receive.c ---- */

bool vb_ethernet_drain(struct vb_link *link, vb_time now, bool all);
/* Frames may wait for which there is no receive, or there are some again. Caller holds qp->lock. */
void vb_ethernet_port_starve(struct vb_ethernet_link *ethernet, struct vb_ethernet_port *port, bool starved);
void vb_ethernet_received(struct vb_link *link, struct vb_qp *qp);
void vb_ethernet_replenished(struct vb_link *link);
bool vb_ethernet_has_work(struct vb_link *link);
vb_time vb_ethernet_rest(struct vb_link *link, vb_time until);

#endif
