/* SPDX-License-Identifier: MIT
 *
 * A link carries what an engine has to say to the peer: by UDP, by TCP, through memory. This is all that the rest of
 * the house knows of links; how packets or bytes pass between an engine and its link is private to the two.
 *
 * Each published queue pair has a wire, the link of its device, and a carrier, the link that serves it now. They are the same
 * unless another link has taken the queue pair over at RTR (`resolve` and `modified`: memory, where the peer is a process of
 * this host). A carrier may give a queue pair back to its wire (vb_link_carry) as long as nothing was sent.
 *
 * A pass is one over a lane (schedule/lane.h): where "progress" is named, that is the lock of lane 0, to which all queue pairs belong but
 * those of a link that has lanes.
 *
 * Functions that are marked optional may be NULL. "Caller holds" names what is held; what is not named may be taken, in
 * the order progress, qp->lock, srq->lock, cq->lock.
 */
#ifndef VB_LINKS_LINK_H
#define VB_LINKS_LINK_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "io/daemon_client.h"
#include "wire/path.h"

struct vb_counters;
struct iovec;
struct vb_cq;
struct vb_flow_rule;
struct vb_handover_report;
struct vb_handover_terms;
struct vb_link;
struct vb_memory;
struct vb_memory_host;
struct vb_poller;
struct vb_qp;
struct vb_queue_observer;
struct vb_receive_share;
struct vb_schedule;
struct vb_shape;
struct vb_srq;
struct vb_transport;
struct vb_transport_status;

enum { VB_LINK_DESCRIPTORS = 26 };

/* A device's regions where processes of this host can look keys up by themselves. */
struct vb_link_tables {
	/* Before the memory is created: fills in what `host` needs. -1: there is no room. */
	int (*open)(struct vb_link *link, struct vb_memory_host *host);
	void (*show)(struct vb_link *link, int table, const struct vb_memory *memory);
	void (*hide)(struct vb_link *link, int table);
	void (*close)(struct vb_link *link, int table);
	/* XRC SRQs of that device. domain, pd: handles. */
	void (*show_srq)(struct vb_link *link, int table, uint32_t number, uint32_t domain, uint32_t pd);
	void (*hide_srq)(struct vb_link *link, uint32_t number);
};

/* Lanes beyond the first (schedule/lane.h). Caller holds the lane's lock, but for `open`. */
struct vb_link_lanes {
	/* Can there be any? Caller holds nothing. */
	bool (*may_open)(const struct vb_link *link);
	/* From now on it receives by these sockets, one for each IP version, -1: none. They stay the caller's. 0 or -errno. Caller holds
	 * endpoint.lanes_lock. */
	int (*open)(struct vb_link *link, unsigned lane, const int receive_fd[2]);
	/* As of struct vb_link_driver. */
	bool (*drain)(struct vb_link *link, unsigned lane, vb_time now, bool all);
	void (*flush)(struct vb_link *link, unsigned lane);
	void (*finish)(struct vb_link *link, unsigned lane);
	/* Of the first lane as well, by the engine thread: see to sockets of one flow. `connected`: to a verbenad. True: it is to be asked
	 * for one, for that flow. */
	bool (*tend)(struct vb_link *link, unsigned lane, bool connected, struct vb_path *flow);
	/* Its answer. The descriptor is the link's, -1: there is none. */
	void (*dedicate)(struct vb_link *link, unsigned lane, const struct vb_path *flow, int fd);
};

struct vb_link_driver {
	const char *name;
	const struct vb_transport *engine; /* of queue pairs whose wire it is; NULL: it is no wire */
	size_t note_size;                /* of links that are no wire: of its engine's note on each send WQE (queue/transport.h) */
	bool wakes_sleepers;             /* a thread of the application may sleep on its descriptors as well (progress/sleeping.c) */
	const struct vb_link_tables *tables; /* optional */
	const struct vb_link_lanes *lanes;   /* optional; of one link at most */

	void (*close)(struct vb_link *link);
	/* In a forked child: only close() and stores, as other threads of the parent may have held any lock. */
	void (*abandon)(struct vb_link *link);
	/* Optional. What verbenad must know of it, told to each one that comes; `news` takes what else it says
	 * meanwhile. 0 or -errno. */
	int (*introduce)(struct vb_link *link, struct vb_daemon_client *daemon, vb_daemon_take *news, void *context);
	/* Optional. Packets of the device with these counters are given those conditions from now on; one caller at a time. */
	void (*shape)(struct vb_link *link, const struct vb_counters *device, const struct vb_shape *shape);
	/* Optional. Addresses of this host have changed. */
	void (*addresses_changed)(struct vb_link *link);

	/* ---- queue pairs ---- */

	/* Optional, of the queue pair's wire. Before it is published: what it cannot do without. 0 or -errno; then it never is. */
	int (*prepare)(struct vb_link *link, struct vb_qp *qp);
	/* Optional. It is about to be published; it is withdrawn (caller holds progress). */
	void (*publish)(struct vb_link *link, const struct vb_qp *qp);
	void (*withdraw)(struct vb_link *link, struct vb_qp *qp);
	/* Optional, of links that are no wire. Before RTR: who has the peer? May wait for verbenad. `table`: of the
	 * queue pair's device, -1 for none. Caller holds nothing. */
	void (*resolve)(struct vb_link *link, struct vb_qp *qp, const struct vb_path *path, uint32_t destination_qpn, int table);
	/* Optional for wires, whose engine is told by the queue pair's transport. Caller holds qp->lock, and for RESET
	 * progress. */
	void (*modified)(struct vb_link *link, struct vb_qp *qp, enum ibv_qp_state from, int attr_mask, vb_time now);
	/* Optional. XRC_RECV: an SRQ of its domain goes (queue/transport.h). Caller holds qp->lock. */
	void (*srq_gone)(struct vb_link *link, struct vb_qp *qp, const struct vb_srq *srq);
	/* Optional for wires, whose engine answers. How its engine stands. Caller holds qp->lock. */
	void (*query)(struct vb_link *link, const struct vb_qp *qp, struct vb_transport_status *status);
	/* Optional, of links that are no wire. Has it a way past its wire (queue/bypass.h)? Caller holds qp->lock. */
	bool (*bypasses)(struct vb_link *link, const struct vb_qp *qp);
	/* Optional. Between which addresses its connection is, if its path does not say. False: there is none. Caller
	 * holds qp->lock. */
	bool (*addresses)(struct vb_link *link, const struct vb_qp *qp, uint8_t local[16], uint8_t peer[16]);
	/* Optional, of links that are no wire: packets came for it by its wire. True: it is given back. Caller holds qp->lock. */
	bool (*gives_back)(struct vb_link *link, struct vb_qp *qp, vb_time now);

	/* ---- sending; caller holds qp->lock ---- */

	/* Let the engine send what it may, and see to its deadline. */
	void (*transmit)(struct vb_link *link, struct vb_qp *qp, vb_time now);
	/* The same in a pass over its lane, whose lock the caller holds, too: what there is may wait for that of other queue pairs until
	 * flush. */
	void (*transmit_in_pass)(struct vb_link *link, struct vb_qp *qp, vb_time now);
	/* The same after work was posted: many small requests may wait for one another until the next pass. */
	void (*posted)(struct vb_link *link, struct vb_qp *qp, vb_time now);
	/* Optional fast path: post this request and send it. False: nothing was done. Such a link reads the clock
	 * itself, where the time matters. */
	bool (*post_fast)(struct vb_link *link, struct vb_qp *qp, const struct ibv_send_wr *wr);
	/* Optional. Bytes of ours to where the peer's key leads, at once and without a work request. False: nothing was done. */
	bool (*place)(struct vb_link *link, struct vb_qp *qp, uint64_t address, uint32_t key, const struct iovec *spans, unsigned count);
	/* Optional. Receives were posted to the queue pair. */
	void (*received)(struct vb_link *link, struct vb_qp *qp);
	/* Optional. True: what would have waited for longer than the next pass is to leave with that. */
	bool (*hurry)(struct vb_qp *qp);
	/* Optional. Packets of the queue pair are on their way that leave with the end of the pass under way. */
	bool (*is_behind)(struct vb_link *link, const struct vb_qp *qp);

	/* ---- a pass; caller holds progress ---- */

	/* Take in what has come and let the queue pairs answer. `all`: look also where nothing is expected. True:
	 * something was done. */
	bool (*drain)(struct vb_link *link, vb_time now, bool all);
	/* Optional. Send what waits. */
	void (*flush)(struct vb_link *link);
	/* Optional. The pass is over but for queue pairs that have more to send. */
	void (*finish)(struct vb_link *link);
	/* The queue pair's entry in the timers has come up; its deadline may have moved away. Caller also holds qp->lock,
	 * which may be released meanwhile. True: something was done. */
	bool (*expire)(struct vb_link *link, struct vb_qp *qp, vb_time now);

	/* ---- sleeping; caller holds nothing ---- */

	/* Optional. What the engine thread waits for: how many. */
	unsigned (*descriptors)(const struct vb_link *link, int fd[VB_LINK_DESCRIPTORS]);
	/* Optional. Is there something to serve that no descriptor need tell of? */
	bool (*has_work)(struct vb_link *link);
	/* Optional, of links that wake sleepers. A thread of the application is about to sleep on the descriptors: they tell of what comes
	 * from now on, and has_work of what came before. False: they do not. */
	bool (*doze)(struct vb_link *link);
	/* Optional. The thread that was woken by a descriptor makes a pass after this. */
	void (*woken)(struct vb_link *link);
	/* Optional. A thread spins; a CQ was armed, whose user will sleep. */
	void (*spun)(struct vb_link *link);
	void (*watched)(struct vb_link *link);
	/* Optional. The engine thread begins to work; it would sleep until then: until when may it? */
	void (*rise)(struct vb_link *link);
	vb_time (*rest)(struct vb_link *link, vb_time until);
	/* Optional. The process is about to end: would something be lost with it that some time saves? Caller holds progress. */
	bool (*lingers)(struct vb_link *link, vb_time now);
	/* Optional. Receives were posted to a shared queue. */
	void (*replenished)(struct vb_link *link);

	/* ---- connections; of wires whose connections are made by librdmacm (wire/stream_handover.h). Caller holds nothing ---- */

	/* Optional. The queue pair of that number goes on with this socket, which is the link's then. `table`: of its device, as above.
	 * 0 or -errno. */
	int (*adopt)(struct vb_link *link, uint32_t qpn, int table, int fd, const struct vb_handover_terms *terms, uint64_t cookie,
		     vb_time now);
	/* With the former. What happened to such connections; an event descriptor, which stays the link's, is raised
	 * when there is more. */
	unsigned (*report)(struct vb_link *link, struct vb_handover_report *reports, unsigned room);
	int (*report_fd)(const struct vb_link *link);

	/* ---- polling an empty CQ; optional fast path ---- */

	/* Completions of the poller's queue pairs past the CQ, up to `room`. 0: none, and that is all there is to do.
	 * -1: none, and more than this has to be looked at. */
	int (*take)(struct vb_link *link, struct vb_poller *poller, const struct vb_cq *cq, int room, struct ibv_wc *wc);
	/* Look at the poller's queue pairs. False: make a pass as well. */
	bool (*poll)(struct vb_link *link, struct vb_poller *poller, vb_time now, bool *done);

	/* ---- addresses; of wires ---- */

	/* Can packets leave by a path of that framing? 0 or -errno. */
	int (*admits)(struct vb_link *link, const struct vb_path *path);
	/* The UDP source port for a path to a queue pair, all of which is there but this, from one of that lane. */
	uint16_t (*source_port)(struct vb_link *link, const struct vb_path *path, uint32_t destination_qpn, unsigned lane);
	/* Deliver datagrams for that group on that interface to the queue pair, or no more. 0 or -errno. */
	int (*join)(struct vb_link *link, struct vb_qp *qp, const uint8_t gid[16], uint32_t interface_index);
	int (*leave)(struct vb_link *link, struct vb_qp *qp, const uint8_t gid[16], uint32_t interface_index);

	/* ---- flow rules (queue/flow.h); optional. Caller holds nothing ---- */

	/* Frames that the rule matches are the queue pair's from now on. The rule stays where it is until unsteer. 0 or -errno. */
	int (*steer)(struct vb_link *link, struct vb_qp *qp, struct vb_flow_rule *rule);
	void (*unsteer)(struct vb_link *link, struct vb_flow_rule *rule);
};

/* The first member of each link's own structure. */
struct vb_link {
	const struct vb_link_driver *driver;
	struct vb_schedule *schedule;
	struct vb_link *next;
	uint32_t members;                  /* atomic: queue pairs that it carries */
	struct vb_link *next_used;         /* under progress, see vb_schedule.used */
	/* The next one whose driver flushes, finishes, is told of threads that spin. */
	struct vb_link *next_flushed, *next_finished, *next_spun;
	struct vb_receive_share *share;  /* of the buffer that packets come into (queue/host.h); NULL: not known */
	const struct vb_queue_observer *observer; /* records what is posted and completed; NULL: none */
};

/* The queue pair's carrier transmits. Caller holds qp->lock. */
void vb_link_transmit(struct vb_qp *qp, vb_time now);
/* `link` carries it from now on. Caller holds qp->lock, or no other thread knows the queue pair yet; NULL: nothing does. */
void vb_link_carry(struct vb_qp *qp, struct vb_link *link);
/* Does it carry all queue pairs of this process? Little can be expected of the others then. */
bool vb_link_carries_all(const struct vb_link *link);
/* All but those that serve no peer by themselves: what comes for UD or raw packets is for those who look at its CQ. */
bool vb_link_carries_all_peers(const struct vb_link *link);

/* So many packets, with so many bytes in all, were to leave by a device with these counters, and `lost` of them could not. */
void vb_link_count_sent(struct vb_counters *counters, uint32_t packets, size_t bytes, uint32_t lost);

/* Queue pairs of that lane that are enlisted (schedule/schedule.h) transmit, as many as a pass should, and its links are flushed.
 * `only_try`: the caller holds the lock of one already. Caller holds the lane's lock. True: there were some. */
bool vb_links_send_active(struct vb_schedule *schedule, unsigned lane, vb_time now, bool only_try);

#endif
