/* SPDX-License-Identifier: MIT
 *
 * Regions and windows: which keys name which bytes, with which rights. One table per device context.
 *
 * Entries never move and are never freed while the table lives, so a packet may look a key up without a lock: it counts
 * itself into the entry, looks again whether the entry still holds that key, and counts itself out when the
 * bytes are copied (memory/place.c). Taking a key away waits for those inside.
 *
 * Key: 24 bits of index, scrambled by a keyed permutation so that keys cannot be guessed from one another (key.h), and 8 bits
 * of tag: random for regions, chosen by the consumer for type 2 windows (IBA 10.6.7.2.1).
 */
#ifndef VB_MEMORY_REGION_H
#define VB_MEMORY_REGION_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/fault.h"

struct vb_memory;

/* A protection domain is only an identity, and a count of what hangs on it. */
struct vb_pd {
	uint32_t handle;
	uint32_t users;                /* atomic: MRs, QPs, SRQs, AHs, MWs */
};

enum vb_region_kind {
	VB_REGION_MR,
	VB_REGION_NULL_MR,             /* reads give zeros, writes vanish; any address */
	VB_REGION_MW_TYPE_1,
	VB_REGION_MW_TYPE_2,
};

/* Copies that must survive memory that is not mapped (on-demand regions). Returns 0 or -EFAULT. */
struct vb_memory_host {
	uint32_t (*random)(void *context);
	int (*checked_read)(void *context, void *to, uint64_t from, size_t length);
	int (*checked_write)(void *context, uint64_t to, const void *from, size_t length);
	void *context;
	/* For a table that other processes read (memory/foreign.h); NULL: none does. `chunk` gives memory for a chunk
	 * of entries, zeroed, consecutive by index, that lives as long as the table, or NULL. `is_copying`: does another
	 * process copy by that key still? It was taken away before. Asked with the table's mutex held, so it does not
	 * wait. `pause` lets some time pass between two such questions, of which there were `looks` before. */
	void *(*chunk)(void *context, uint32_t index, size_t bytes);
	bool (*is_copying)(void *context, uint32_t key);
	void (*pause)(void *context, unsigned looks);
	/* Around each access to a region that has a `sync` descriptor. 0 or -errno. NULL where no region has one. */
	int (*sync)(void *context, int fd, bool begin, bool write);
	/* Copies from and to regions of GPU memory, of which `gpu` is what the region was registered with. Of a write
	 * the last bytes become visible last. 0 or -EFAULT. NULL where no region is of such memory. */
	int (*gpu_read)(void *context, void *gpu, void *to, uint64_t from, size_t length);
	int (*gpu_write)(void *context, void *gpu, uint64_t to, const void *from, size_t length);
	/* A full fence on every thread of this process (io/barrier.h), for memory/table.h. It does not wait for any of them. False: it
	 * could not be had. NULL: never. */
	bool (*barrier)(void);
	/* Nanoseconds; NULL: when a region was deregistered is not recorded. */
	int64_t (*now)(void *context);
};

struct vb_memory *vb_memory_create(const struct vb_memory_host *host, uint32_t max_regions);
void vb_memory_destroy(struct vb_memory *memory);

struct vb_region_info {
	enum vb_region_kind kind;
	struct vb_pd *pd;
	uint64_t start;                /* address in this process; 0 and length UINT64_MAX: everything (implicit) */
	uint64_t length;
	uint64_t iova;                 /* address that keys' users name; differs from start for ibv_reg_mr_iova */
	uint32_t access;               /* IBV_ACCESS_* */
	bool checked;                  /* on-demand: copy through checked_read / checked_write */
	int sync;                      /* dmabuf: its descriptor + 1, for host.sync around each access; 0: none */
	void *gpu;                     /* memory that no processor reaches, for host.gpu_read and gpu_write; NULL: it is none */
};

/* Register. Returns 0 and the key (lkey and rkey alike), -ENOMEM, or -EBUSY: GPU memory, and peers copy for
 * themselves. The caller has validated the info with
 * vb_region_check_access. Regions and windows count themselves on their PD. IBV_ACCESS_ZERO_BASED: iova is taken as
 * 0. */
int vb_region_register(struct vb_memory *memory, const struct vb_region_info *info, uint32_t *key);
/* -EINVAL: no such region. -EBUSY: windows are bound to it. Waits for copies under way, a peer's too however long it
 * takes: it is not known that a process that is stopped in the middle of one will not write any more. Nothing else
 * waits for that. */
int vb_region_deregister(struct vb_memory *memory, uint32_t key);
/* All or nothing; the key stays. -EBUSY as above. */
int vb_region_reregister(struct vb_memory *memory, uint32_t key, const struct vb_region_info *info);
int vb_region_query(struct vb_memory *memory, uint32_t key, struct vb_region_info *info);

/* 0, -EINVAL for combinations the specification forbids (remote write or atomic without local write) and for unknown
 * bits. Optional bits (IBV_ACCESS_OPTIONAL_RANGE) are never an error. */
int vb_region_check_access(unsigned access);

/* Windows. Allocation gives a key that names nothing until bound. */
int vb_window_allocate(struct vb_memory *memory, enum vb_region_kind kind, struct vb_pd *pd, uint32_t *key);
/* Any key the window has had: its tag does not matter. Unbinds, and waits as vb_region_deregister does. -EINVAL: no
 * such window. */
int vb_window_deallocate(struct vb_memory *memory, uint32_t key);

struct vb_window_bind {
	uint32_t window_key;           /* any key the window has had: its tag does not matter */
	uint32_t new_key;              /* same index, tag chosen by the consumer; type 1: 0 asks for one, out */
	uint32_t region_lkey;
	uint64_t address, length;      /* length 0: unbind (type 1) */
	uint32_t access;               /* IBV_ACCESS_REMOTE_*, IBV_ACCESS_ZERO_BASED */
	uint32_t qpn;                  /* of the queue pair the bind is posted to */
	struct vb_pd *pd;              /* of that queue pair */
};

/* Of work requests, which are executed with locks held that others need: those do not wait for a peer. LATER: from now
 * on the old binding names nothing, but a peer is in the middle of a copy through it; ask again. */
enum vb_window_result { VB_WINDOW_REFUSED, VB_WINDOW_DONE, VB_WINDOW_LATER };

/* Refused: `why` is filled (KEY_UNKNOWN, PD_MISMATCH, RANGE, RIGHTS, BIND). IBA 10.6.7.2. */
enum vb_window_result vb_window_bind(struct vb_memory *memory, struct vb_window_bind *bind, struct vb_fault_record *why);

/* LOCAL_INV and SEND_WITH_INV: only type 2 windows (bound to this QP's PD and QP) and nothing else. `remote`: the peer
 * asks for it, which has ended its own copies before; and no other access can come in through such a window. So it is
 * never LATER. */
enum vb_window_result vb_memory_invalidate(struct vb_memory *memory, uint32_t key, struct vb_pd *pd, uint32_t qpn, bool remote,
					   struct vb_fault_record *why);

/* When a QP goes, type 2 windows bound through it go with it. Waits as vb_region_deregister does. */
void vb_memory_unbind_qp(struct vb_memory *memory, uint32_t qpn);

/* A queue pair's peer is about to copy for itself into and out of regions of this table (memory/foreign.h). It cannot
 * with GPU memory: the table has either such peers or such regions. False: it has such regions. */
bool vb_memory_admit_peer(struct vb_memory *memory);
/* Has it such regions? Each access to one is a call of a driver, so that an engine moves many packets at once. A hint; no lock
 * needed. */
bool vb_memory_has_gpu(const struct vb_memory *memory);
void vb_memory_dismiss_peer(struct vb_memory *memory);

uint32_t vb_memory_count(const struct vb_memory *memory, enum vb_region_kind kind);

#endif
