/* SPDX-License-Identifier: MIT
 *
 * Congestion control: which algorithm a queue pair obeys, and with which parameters. An algorithm is a row of a table. It is told
 * what happens (sent, acknowledged, lost, timed out, notified by a CNP, a round trip measured, time has passed) and sets two
 * numbers: how much may be in flight, and how fast it may leave.
 *
 *   window   what is in flight is bounded, and nothing else: the receiver's socket buffer is what overflows (congestion.h)
 *   dcqcn    a rate, cut by CNPs and raised by time and by bytes (dcqcn.c); the window stays as it is, as a bound
 *   timely   a rate, by how round trips change (timely.c)
 */
#ifndef VB_ROCE_CONTROL_H
#define VB_ROCE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "wire/psn.h"

struct vb_roce_congestion;

/* Alpha and gain, which are below 1, are counted in these. */
#define VB_DCQCN_ONE (1u << 20)

struct vb_dcqcn_parameters {
	const char *name;
	uint32_t gain;                   /* g, in 1/1024 */
	vb_time alpha_period;            /* without a CNP, alpha falls once in it */
	bool alpha_by_period;            /* a CNP raises alpha at the end of its period, not at once */
	vb_time cut_interval;            /* CNPs in between do not cut again; 0: each does */
	vb_time timer;                   /* the rate rises once in it */
	uint64_t byte_counter;           /* and once in so many bytes; 0: not by bytes */
	uint32_t recovery_steps;         /* F: so many go halfway to the target, then the target rises */
	uint64_t additive, hyper;        /* bits a second */
	bool hyper_grows;                /* in the i-th hyper stage the target rises by i times `hyper` */
	uint64_t minimum;
	bool target_stays;               /* a cut that follows another without a rise between leaves the target alone */
};

extern const struct vb_dcqcn_parameters vb_dcqcn_paper, vb_dcqcn_adapter;

struct vb_dcqcn {
	const struct vb_dcqcn_parameters *parameters;
	bool began;                      /* there was a CNP: until then the rate is the line's, and no clock runs */
	bool alpha_pending;              /* a CNP came in this alpha period */
	uint32_t alpha;
	uint64_t target;
	uint64_t bytes;                  /* since the byte counter last raised the rate */
	uint32_t timer_stage, byte_stage;
	vb_time alpha_at, timer_at, cut_at;
};

struct vb_timely_parameters {
	vb_time low, high;               /* below: always faster; above: always slower */
	vb_time minimum_trip;            /* gradients are measured against it */
	uint32_t smoothing;              /* of the difference, in 1/1024 */
	uint32_t decrease;               /* beta, in 1/1024 */
	uint64_t additive, minimum;      /* bits a second */
};

extern const struct vb_timely_parameters vb_timely_default;

struct vb_timely {
	vb_time previous, difference;    /* round trip, and its smoothed change */
	uint32_t rising;                 /* steps in a row that were faster */
};

enum vb_roce_recovery {
	VB_RECOVERY_SELECTIVE,           /* what came ahead is kept, one missing packet is sent each round trip */
	VB_RECOVERY_GO_BACK_N,           /* what came ahead is dropped, all from the missing one on is sent again */
	/* To be compared with, nothing else. */
	VB_RECOVERY_GO_BACK_0,           /* the whole message is begun anew, as the first adapters did */
	VB_RECOVERY_ALL_AT_ONCE,         /* what came ahead is kept and told, all missing packets are sent at once (missing.c) */
};

/* What holds for the queue pairs of a process, or of a simulated host. */
struct vb_roce_policy {
	const struct vb_roce_algorithm *algorithm;
	const struct vb_dcqcn_parameters *dcqcn;
	const struct vb_timely_parameters *timely;
	uint64_t line_rate;              /* bits a second: where a rate begins, and its most */
	uint32_t window;                 /* bytes in flight; 0: as loss and acknowledgements find it */
	vb_time burst;                   /* at a rate, this much time's worth may leave at once */
	vb_time cnp_interval;            /* between two CNPs to a peer; 0: VB_CNP_INTERVAL */
	enum vb_roce_recovery recovery;
	vb_time least_timeout;           /* of a retransmission; 0: VB_PATIENCE_FLOOR */
};

struct vb_roce_algorithm {
	const char *name;
	bool has_rate;                   /* packets are sent as ECN-capable, and paced */
	/* The rate is what policy and line say. */
	void (*start)(struct vb_roce_congestion *congestion, const struct vb_roce_policy *policy);
	void (*acknowledged)(struct vb_roce_congestion *congestion, uint32_t charge, uint32_t in_flight, struct psn psn);
	void (*lost)(struct vb_roce_congestion *congestion, struct psn high);
	void (*timed_out)(struct vb_roce_congestion *congestion);
	/* Returns whether the CNP was obeyed or came too soon after another. */
	bool (*notified)(struct vb_roce_congestion *congestion, vb_time now);
	/* Optional. */
	void (*round_trip)(struct vb_roce_congestion *congestion, vb_time sample);
	/* Optional: `bytes` on the line, and time has passed. Before every packet or run at a rate. */
	void (*passed)(struct vb_roce_congestion *congestion, vb_time now, uint64_t bytes);
};

enum vb_roce_control { VB_CONTROL_WINDOW, VB_CONTROL_DCQCN, VB_CONTROL_TIMELY, VB_CONTROLS };
extern const struct vb_roce_algorithm vb_roce_algorithms[VB_CONTROLS];

/* "window", "dcqcn[:paper|:adapter][@RATE]", "timely[@RATE]", RATE in bits a second with k, M or G. False: it is none of them, and
 * policy is as it was. */
bool vb_roce_policy_parse(struct vb_roce_policy *policy, const char *text);

/* Policies by device, as a user writes them: "dcqcn@25G", "roce_eth0=dcqcn,roce_eth1=timely", "roce_eth0=dcqcn,window". */
enum { VB_ROCE_MOST_POLICIES = 16, VB_ROCE_DEVICE_NAME = 64 };
struct vb_roce_policies {
	unsigned count;
	struct {
		char device[VB_ROCE_DEVICE_NAME]; /* "": all that are not named */
		struct vb_roce_policy policy;
	} of[VB_ROCE_MOST_POLICIES];
};

/* False: it is none; what is wrong is in `word`. */
bool vb_roce_policies_parse(struct vb_roce_policies *policies, const char *text, char word[VB_ROCE_DEVICE_NAME]);
/* Of queue pairs that are opened from now on and whose host has no policy of its own; NULL: the window. Process-wide; it must stay. */
void vb_roce_policies_set(const struct vb_roce_policies *policies);
/* NULL: a device that has no name. */
const struct vb_roce_policy *vb_roce_policy_for(const char *device);

#endif
