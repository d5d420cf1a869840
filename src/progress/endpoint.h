/* SPDX-License-Identifier: MIT
 *
 * This process on the network: its slot of port 4791 (handed over by verbenad), its source ports, its queue pairs, its
 * timers, and who runs when. One per process, shared by all its open devices.
 *
 * A forked child does not share it: there every call does nothing or fails with -ENODEV; a child opens devices of its
 * own.
 *
 * The polling thread is the adapter: posting transmits inline, polling an empty CQ runs one pass of
 * vb_endpoint_progress. One engine thread sleeps in epoll and takes over only when no thread polls.
 */
#ifndef VB_PROGRESS_ENDPOINT_H
#define VB_PROGRESS_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/time.h"
#include "progress/devices.h"
#include "queue/transport.h"
#include "schedule/poller.h"
#include "wire/path.h"
#include "wire/stream_handover.h"

struct iovec;
struct vb_cq;
struct vb_endpoint;
struct vb_flow_rule;
struct vb_memory;
struct vb_memory_host;
struct vb_qp;
struct vb_resource_list;
struct vb_queue_observer;
struct vb_receive_share;

/* The process's endpoint, opened by the first caller, closed by the last. 0 or -errno (message logged: no daemon,
 * foreign daemon, port taken). */
int vb_endpoint_get(struct vb_endpoint **endpoint);
void vb_endpoint_put(struct vb_endpoint *endpoint);
/* The same of one that is open, for put; NULL: none is, or it is being opened or closed, which may take seconds. */
struct vb_endpoint *vb_endpoint_visit(void);

/* Do packets with queue pair numbers come for such devices, by a slot's port? Has this process one? An endpoint goes
 * without where the port is not to be had, or the process sees no device that needs it (VERBENA_TRANSPORT). */
bool vb_endpoint_needs_port(enum vb_device_kind kind);
bool vb_endpoint_has_port(const struct vb_endpoint *endpoint);

/* The observer that records what is posted and completed; NULL: none. */
const struct vb_queue_observer *vb_endpoint_observer(const struct vb_endpoint *endpoint);
/* The receive buffer of port 4791 (queue/host.h). */
struct vb_receive_share *vb_endpoint_share(const struct vb_endpoint *endpoint);

vb_time vb_endpoint_now(void);           /* monotonic */
uint32_t vb_endpoint_random(void *unused); /* unpredictable; fits vb_queue_host.random */

/* Before that: the lane (schedule/lane.h) of a queue pair whose completions these pollers look for; either may be NULL. May wait for
 * verbenad. Caller holds no lock. Of one that is published: vb_endpoint_lane. */
unsigned vb_endpoint_choose_lane(struct vb_endpoint *endpoint, enum vb_device_kind kind, enum ibv_qp_type type, struct vb_poller *sends,
				 struct vb_poller *receives);
unsigned vb_endpoint_lane(const struct vb_qp *qp);

/* Queue pairs. reserve: an unpredictable free QPN of this process's slot. publish: packets may reach it from now on.
 * withdraw: on return no thread uses the QP any more, and the QPN is free. Caller holds no lock. */
int vb_endpoint_reserve_qpn(struct vb_endpoint *endpoint, unsigned lane, uint32_t *qpn);
void vb_endpoint_release_qpn(struct vb_endpoint *endpoint, uint32_t qpn);
void vb_endpoint_publish(struct vb_endpoint *endpoint, struct vb_qp *qp, unsigned lane, struct vb_counters *counters);
void vb_endpoint_withdraw(struct vb_endpoint *endpoint, struct vb_qp *qp);

/* What carries queue pairs of that type of that kind of device: packets, a stream, frames as they are, or memory where the peer is on this
 * host. Lives as long as the endpoint. */
const struct vb_transport *vb_endpoint_transport(const struct vb_endpoint *endpoint, enum vb_device_kind kind, enum ibv_qp_type type);
/* Before publish: what it cannot do without. 0 or -errno; -EPERM: raw packets without CAP_NET_RAW. */
int vb_endpoint_prepare(struct vb_endpoint *endpoint, struct vb_qp *qp);

/* Frames that the rule matches are the queue pair's from now on, or no more. 0 or -errno. Caller holds no lock. */
int vb_endpoint_steer(struct vb_endpoint *endpoint, struct vb_qp *qp, struct vb_flow_rule *rule);
void vb_endpoint_unsteer(struct vb_endpoint *endpoint, struct vb_flow_rule *rule);

/* Around vb_qp_modify, for RC: at RTR it is found out who has the peer, which may take verbenad's answer. `to`: the new
 * state. `path` and `destination_qpn`: to the peer. `table`: see below. Caller holds no lock; what begin returned goes
 * to end. */
bool vb_endpoint_begin_modify(struct vb_endpoint *endpoint, struct vb_qp *qp, enum ibv_qp_state to, const struct vb_path *path,
			      uint32_t destination_qpn, int table);
void vb_endpoint_end_modify(struct vb_endpoint *endpoint, const struct vb_qp *qp, bool begun);
/* Does it go through memory, as far as is known by now? Of UD: does the way to where it sent last? Caller holds qp->lock. */
bool vb_endpoint_goes_through_memory(const struct vb_qp *qp);
/* Do its WRITEs and READs go past its wire (queue/bypass.h)? Caller holds qp->lock. */
bool vb_endpoint_goes_past_wire(const struct vb_qp *qp);
/* The addresses of its connection, where its path has none. False: nor has it such. Caller holds qp->lock. */
bool vb_endpoint_addresses(const struct vb_qp *qp, uint8_t local[16], uint8_t peer[16]);
/* How the engine stands that carries it. Caller holds qp->lock. */
void vb_endpoint_query_qp(const struct vb_qp *qp, struct vb_transport_status *status);

/* A device's regions where processes of this host can look keys up by themselves. open: before the memory is created,
 * fills in what `host` needs. -1: by wire only. show: once it is there. hide before it goes, close afterwards. */
int vb_endpoint_open_table(struct vb_endpoint *endpoint, struct vb_memory_host *host);
void vb_endpoint_show_table(struct vb_endpoint *endpoint, int table, const struct vb_memory *memory);
void vb_endpoint_hide_table(struct vb_endpoint *endpoint, int table);
void vb_endpoint_close_table(struct vb_endpoint *endpoint, int table);
/* An XRC SRQ of that device, for processes of this host: shown once packets find it, hidden before they do not any more. domain,
 * pd: handles. */
void vb_endpoint_show_srq(struct vb_endpoint *endpoint, int table, uint32_t number, uint32_t domain, uint32_t pd);
void vb_endpoint_hide_srq(struct vb_endpoint *endpoint, int table, uint32_t number);

/* Receives were posted to the queue pair (caller holds qp->lock), or to a shared queue: a message may have waited for them. */
void vb_endpoint_received(struct vb_endpoint *endpoint, struct vb_qp *qp);
void vb_endpoint_replenished(struct vb_endpoint *endpoint);
/* A pass that is under way is over: what it had taken from a queue is complete. Caller holds nothing. */
void vb_endpoint_wait_for_pass(struct vb_endpoint *endpoint);

/* Can packets leave by it? 0, or -EPERM: RoCEv1 without the privilege that it takes. */
int vb_endpoint_admits(struct vb_endpoint *endpoint, const struct vb_path *path);
/* The UDP source port for a path to a QP, all of which is there but this, from one of that lane: packets for two processes never share
 * one. */
uint16_t vb_endpoint_source_port(struct vb_endpoint *endpoint, const struct vb_path *path, uint32_t destination_qpn, unsigned lane);

/* Let the QP's engine send what it may, and arm its timer. Caller holds qp->lock. */
void vb_endpoint_transmit(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now);

/* A request that can be sent in short (local/fast_path.c): post it and send it. False: nothing was done. Caller holds qp->lock. */
bool vb_endpoint_post_fast(struct vb_endpoint *endpoint, struct vb_qp *qp, const struct ibv_send_wr *wr);
/* Bytes of ours to where the peer's key leads, at once and without a work request. False: nothing was done. */
bool vb_endpoint_place(struct vb_endpoint *endpoint, struct vb_qp *qp, uint64_t address, uint32_t key, const struct iovec *spans,
		       unsigned count);

/* The same after work was posted; if a thread polls, many small requests may wait for one another until the next pass. Caller
 * holds qp->lock. */
void vb_endpoint_posted(struct vb_endpoint *endpoint, struct vb_qp *qp, vb_time now);

/* Before the queue pair changes its state: what was put off until the next pass, an acknowledgement above all, leaves
 * now. Caller holds no lock. */
void vb_endpoint_send_deferred(struct vb_endpoint *endpoint, struct vb_qp *qp);

/* `cq`, that of `poller`, is empty: completions of its queue pairs past it, in short (local/fast_path.c), up to `room`.
 * 0: none, and that is all there is to do. -1: none, and more than this has to be looked at, as below. */
int vb_endpoint_take(struct vb_endpoint *endpoint, struct vb_poller *poller, const struct vb_cq *cq, int room, struct ibv_wc *wc);
/* The CQ of `poller` is empty: look at its queue pairs, and if that may not be all there is, make a pass as below. */
bool vb_endpoint_poll(struct vb_endpoint *endpoint, struct vb_poller *poller);

/* One non-blocking pass: sockets, then timers. Called on an empty CQ. Returns whether anything was done. Caller
 * holds no lock. */
bool vb_endpoint_progress(struct vb_endpoint *endpoint);
/* A poll returned completions: its caller is not spinning. `after_pass`: it called vb_endpoint_progress first. Cheap. */
void vb_endpoint_polled(struct vb_endpoint *endpoint, bool after_pass);
/* A CQ was armed: its user will sleep, so the engine thread must serve at once. */
void vb_endpoint_watch(struct vb_endpoint *endpoint);
/* The calling thread is about to sleep (wire/sleeping_call.h). A descriptor that is readable when something has come: the thread makes
 * passes until it says that it has ended. It stays the endpoint's. -1: it is not to wait for packets itself. */
enum vb_sleeper {
	VB_SLEEPER_ARMS,                 /* it arms its CQs after this, and looks at them once more */
	VB_SLEEPER_HAS_ARMED,            /* it, or another thread, did all that before */
};
int vb_endpoint_sleep_begin(struct vb_endpoint *endpoint, enum vb_sleeper sleeper);
void vb_endpoint_sleep_end(struct vb_endpoint *endpoint);
/* The calling thread has begun, and not ended. */
bool vb_endpoint_sleep_is_begun(void);
/* The same of a thread that ends. It may have left that sleep long ago, by longjmp, and the endpoint may be closed. */
void vb_endpoint_sleep_give_up(struct vb_endpoint *endpoint);
/* Before it sleeps, as the last thing: a pass if something waits for one, or has come already and wakes no thread. */
enum vb_sleep_look {
	VB_SLEEP_ON,                     /* there is nothing to do */
	VB_SLEEP_DONE,                   /* something was done */
	VB_SLEEP_ELSEWHERE,              /* another thread is in the way: the engine thread goes on, and that descriptor tells of nothing */
};
enum vb_sleep_look vb_endpoint_sleep_look(struct vb_endpoint *endpoint, vb_time since);
/* That descriptor has woken it, and it looks after this: it is not readable any more if nothing more comes. */
void vb_endpoint_sleep_woken(struct vb_endpoint *endpoint);
/* A pass of a thread that has slept on the sockets, since then. True: something was done. Caller holds no lock. */
bool vb_endpoint_sleep_pass(struct vb_endpoint *endpoint, vb_time since);
/* Call vb_cq_expire(cq, ...) at `when`; NEVER: no more. Caller may hold cq->lock. */
void vb_endpoint_cq_deadline(struct vb_endpoint *endpoint, struct vb_cq *cq, vb_time when);
/* No call any more, and none is under way on return. Caller holds no lock. */
void vb_endpoint_cq_forget(struct vb_endpoint *endpoint, struct vb_cq *cq);

/* Connections that librdmacm has made (wire/stream_handover.h), of the devices that have such. The descriptor is raised
 * when there are reports; -ENOSYS: no such device. `show`: for `verbena res`. adopt: the descriptor is the endpoint's then. */
int vb_endpoint_stream_events(struct vb_endpoint *endpoint, enum vb_device_kind kind, vb_handover_show_ids *show);
int vb_endpoint_adopt_stream(struct vb_endpoint *endpoint, enum vb_device_kind kind, uint32_t qpn, int table, int fd,
			     const struct vb_handover_terms *terms, uint64_t cookie);
unsigned vb_endpoint_stream_reports(struct vb_endpoint *endpoint, enum vb_device_kind kind, struct vb_handover_report *reports,
				    unsigned room);

/* Multicast: deliver datagrams for `gid` on that interface to the QP. 0 or -errno (ENOMEM, EINVAL, EADDRNOTAVAIL). */
int vb_endpoint_attach_multicast(struct vb_endpoint *endpoint, struct vb_qp *qp, const uint8_t gid[16],
				 uint32_t interface_index);
int vb_endpoint_detach_multicast(struct vb_endpoint *endpoint, struct vb_qp *qp, const uint8_t gid[16],
				 uint32_t interface_index);

/* Counters of this process for a device (its index), on the page that verbenad sees; they live as long as the endpoint. */
struct vb_counters *vb_endpoint_counters(struct vb_endpoint *endpoint, uint32_t index);

/* Device changes, told from the engine thread (a watcher may not add or remove watchers). `device` is the new
 * description (its index says which); gone: the interface vanished. `show` (may be NULL): verbenad asks what there
 * is; also from the engine thread. */
struct vb_endpoint_watcher {
	void (*device_changed)(struct vb_endpoint_watcher *watcher, const struct vb_device_info *device, bool gone);
	void (*show)(struct vb_endpoint_watcher *watcher, struct vb_resource_list *list);
	struct vb_endpoint_watcher *next;
};
void vb_endpoint_add_watcher(struct vb_endpoint *endpoint, struct vb_endpoint_watcher *watcher);
void vb_endpoint_remove_watcher(struct vb_endpoint *endpoint, struct vb_endpoint_watcher *watcher);

#endif
