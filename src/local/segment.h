/* SPDX-License-Identifier: MIT
 *
 * A process's shared segment: the memory in which it shows the other processes of its host what they need for reaching
 * it. One per process, written by its owner alone, mapped read-only by all others (verbenad hands the descriptors out).
 * Since no process writes into another's memory, none can disturb another's words; what a peer shows may still be
 * nonsense, so every number read from a foreign segment is copied out and checked before it is used.
 *
 *   owner writes                                      peer reads
 *   ----------------------------------------------------------------------------------------------------
 *   header: who I am, am I asleep                     wake me, prove that I am who I say (cookie)
 *   copies: which keys of others I am copying by      deregistration waits for those
 *   doorbells: for whom of many I left something      look there (local/doorbells.h)
 *   tables: my regions and windows (memory/foreign.h) WRITE, READ and atomics, executed by the peer alone
 *   qp_index: which of my queue pairs stands where    find it
 *   queue pairs: state, rights, how far I am          is it connected to me? is my work done?
 *   rings: records for the peer of each queue pair    SENDs and whatever else the peer must execute itself
 *   srqs: XRC domain and PD of my XRC SRQs            by whose rights a request goes that names one of them
 *   datagrams: rings for processes that I send to     UD (local/datagrams.h)
 *
 * The memory is a sparse file: what no queue pair or region uses costs nothing. QPNs are drawn at random, but queue
 * pairs stand here in the order in which their numbers were first used, and with each what a short message needs: a
 * process that uses a thousand of them by turns needs 250 pages for that and not some thousands, whose addresses the
 * processor would find in none of its caches.
 */
#ifndef VB_LOCAL_SEGMENT_H
#define VB_LOCAL_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VB_SEGMENT_MAGIC UINT64_C(0x5642424f4152443c)     /* changes with the layout */

enum {
	VB_SEGMENT_QPS = 1 << 14,          /* as many as QPNs have indices */
	VB_SEGMENT_TABLES = 8,             /* region tables: one per open device */
	VB_SEGMENT_TABLE_BYTES = (128 << 20) + 4096, /* room for VB_MAX_MR slots and what stands before them */
	VB_SEGMENT_COPIES = 64,
	VB_SEGMENT_DOORBELL_RINGS = 32,    /* by the slot of whom they are for */
	VB_SEGMENT_LANES = 4,              /* of each ring: by who rings */
	VB_SEGMENT_DOORBELLS = 504,        /* of each lane: a page, with what goes with them */
	VB_SEGMENT_ANSWERS = 128,          /* VB_MAX_RD_ATOMIC */
	VB_RING_BYTES = 64 << 10,
	VB_RING_NEAR = 768,                /* of those, the first stand with the queue pair */
	VB_RECORD_ALIGN = 64,
	VB_RECORD_INLINE = 4096,           /* longer messages are left by reference */
	VB_SEGMENT_SLOTS = 1 << 10,        /* of processes */
	VB_DATAGRAM_RINGS = 128,           /* as many processes are sent datagrams to this way at a time */
	VB_DATAGRAM_RING = 512 << 10,      /* more than a sender may have under way: VB_WINDOW_MAX of roce/congestion.h */
	VB_DATAGRAM_RUN = 65000,           /* packets that were made together: VB_BURST_RUN_BYTES */
};

struct vb_segment_header {
	uint64_t magic;
	uint64_t id;                       /* drawn at random: this process, since it opened its segment */
	uint32_t pid, slot;
	uint64_t generation;               /* atomic: the last that began; the owner's */
	uint64_t cookie_address;           /* where in the owner's memory `id` stands again: a process that can read it there can copy */
	/* Atomic, on a line of its own: 1 when no thread looks at rings, so that a peer that leaves something there has
	 * to wake the owner (base/sleep_flag.h). */
	uint32_t asleep __attribute__((aligned(64)));
	uint32_t fenced;                   /* the owner takes part in no barriers: a fence belongs before a look at `asleep` */
	uint32_t crowded;                  /* atomic: the owner has too many queue pairs to look at all of them: ring for it */
	/* What the owner is copying by, and on behalf of which queue pair of the other process, which waits for it
	 * before it counts as reset or failed: vb_segment_copy_word(), 0: nothing. Atomic. */
	uint64_t copying[VB_SEGMENT_COPIES] __attribute__((aligned(64)));
};

/* For whom something was left, in the order it was (local/doorbells.h). */
struct vb_segment_doorbells {
	uint64_t rung;                     /* atomic: how often; on a line that others hardly look at */
	uint64_t doorbell[VB_SEGMENT_DOORBELLS] __attribute__((aligned(64))); /* atomic: number and QPN; at number % DOORBELLS */
};

/* The path of a queue pair at RTR. It changes once at most, from LOCAL to WIRE: when the peer offers the wire. */
enum vb_segment_offer { VB_OFFER_NOTHING, VB_OFFER_LOCAL, VB_OFFER_WIRE };

/* Of XRC, one of each kind goes with one of the other. */
enum vb_segment_service { VB_SEGMENT_RC, VB_SEGMENT_UC, VB_SEGMENT_XRC_SEND, VB_SEGMENT_XRC_RECV, VB_SEGMENT_BYPASS };

/* Flags of struct vb_segment_qp.word (base/generation.h). The generation grows with each RTR of the process, from a
 * number that follows from the segment's id: no two generations of a segment are the same. */
enum {
	VB_WORD_RECEIVES = 1,              /* RTR, RTS, SQD, SQE: executes what comes */
	VB_WORD_SENDS = 2,                 /* what it left in its ring still stands */
};

enum vb_segment_nak {
	VB_SEGMENT_NAK_NONE,
	VB_SEGMENT_NAK_RNR_EXCEEDED,
	VB_SEGMENT_NAK_INVALID_REQUEST,
	VB_SEGMENT_NAK_ACCESS,
	VB_SEGMENT_NAK_OPERATION,
	VB_SEGMENT_NAK_UNREADABLE,         /* the initiator's own memory could not be read: the target goes on */
};

/* How a generation of a queue pair ended, for a peer that looks when the next has begun. */
struct vb_segment_outcome {
	uint64_t generation;               /* atomic, stored last; 0: nothing here */
	uint64_t taken, consumed;
	uint32_t nak, nak_fault;
};

struct vb_segment_qp {
	/* The connection. `word` is atomic and stored last, so that a reader that finds a generation finds what belongs
	 * to it. The other fields of this line do not change within a generation, but those that say so (atomic). */
	uint64_t word;
	uint32_t offer;                    /* enum vb_segment_offer; changes */
	uint32_t peer_qpn;
	uint32_t path_mtu;
	uint32_t receive_psn;
	uint32_t send_psn;                 /* with VB_WORD_SENDS: both sides must agree on PSNs, as on the wire */
	uint32_t pd;                       /* handle; XRC_RECV: of its XRC domain */
	uint32_t table;                    /* index of the region table */
	uint32_t receive_access;           /* qp_access_flags; changes */
	uint32_t max_reads;                /* max_dest_rd_atomic; changes */
	uint8_t rnr_timer, rnr_retry;      /* codes of IBA: what its peer shall wait, how often it tries; change */
	uint16_t service;                  /* enum vb_segment_service: as on the wire, only two of one kind understand each other */
	uint64_t taken;                    /* generation of the peer that this queue pair goes together with, 0: none yet; changes */
	uint64_t connection;               /* BYPASS: drawn by both sides together; else 0 */

	/* As initiator. Atomic. */
	uint64_t produced __attribute__((aligned(64))); /* records left since the generation began; BYPASS: how often units were sent */

	/* As target. Atomic; all about records of `taken`. `nak` is stored after the last `consumed`. */
	uint64_t consumed __attribute__((aligned(64))); /* records executed; BYPASS: what has come by the other way */
	uint64_t released;                 /* bytes of the peer's ring that are free again, free running */
	uint64_t pulled;                   /* bytes read by reference, free running: a long message is under way */
	uint64_t stalled;                  /* number of the record that waits for a receive, 0: none */
	uint32_t nak;                      /* of record consumed + 1: enum vb_segment_nak */
	uint32_t nak_fault;                /* enum vb_fault, for explanations */

	struct vb_segment_outcome previous __attribute__((aligned(64))); /* of the generation before */

	/* Where the ring begins. */
	uint8_t near[VB_RING_NEAR] __attribute__((aligned(64)));
};

/* Of datagrams to and from the process with that slot (local/datagrams.h). Atomic. */
struct vb_segment_datagrams {
	uint64_t reader;                   /* id of the segment of the process that we have a ring for, 0: none */
	uint32_t ring;                     /* which one that is */
	uint32_t detour;                   /* 1: that was full, and what follows goes by wire */
	uint64_t attends;                  /* id of the segment in which we look for what that process sends, 0: none */
	/* Bytes of its ring that are free again, free running. On a line of its own: it is written for each datagram. */
	uint64_t released __attribute__((aligned(64)));
};

struct vb_segment {
	struct vb_segment_header header;
	struct vb_segment_doorbells doorbells[VB_SEGMENT_DOORBELL_RINGS][VB_SEGMENT_LANES] __attribute__((aligned(4096)));
	/* By index of the QPN: 1 + the queue pair's index in the arrays below, 0: there is none. Set before a peer can
	 * hear of the queue pair, and cleared when it is gone; its index goes to another one, long after (local.h).
	 * Atomic. */
	uint16_t qp_index[VB_SEGMENT_QPS] __attribute__((aligned(4096)));
	struct vb_segment_qp qp[VB_SEGMENT_QPS] __attribute__((aligned(4096)));
	/* What follows after `near`; its first VB_RING_NEAR bytes are never used. */
	uint8_t ring[VB_SEGMENT_QPS][VB_RING_BYTES] __attribute__((aligned(4096)));
	/* What stood where the peer's atomic number i (counted within the generation) was executed: answer[index][i %
	 * ANSWERS]. */
	uint64_t answer[VB_SEGMENT_QPS][VB_SEGMENT_ANSWERS] __attribute__((aligned(4096)));
	uint8_t table[VB_SEGMENT_TABLES][VB_SEGMENT_TABLE_BYTES] __attribute__((aligned(4096)));
	/* By index of its number, which is drawn as QPNs are: vb_segment_srq_word() of an XRC SRQ, 0: there is none. Atomic. */
	uint64_t srq[VB_SEGMENT_QPS] __attribute__((aligned(4096)));
	/* By slot of the other process. */
	struct vb_segment_datagrams datagrams[VB_SEGMENT_SLOTS] __attribute__((aligned(4096)));
	uint8_t datagram_ring[VB_DATAGRAM_RINGS][VB_DATAGRAM_RING] __attribute__((aligned(4096)));
};

/* ---- records ---- */

enum vb_record_kind {
	VB_RECORD_WRAP = 1,                /* the next record is in the other part of the ring: vb_ring_wrap() */
	VB_RECORD_SEND,
	VB_RECORD_WRITE_IMMEDIATE,         /* the bytes were written already: takes a receive */
	VB_RECORD_COMPARE_SWAP,
	VB_RECORD_FETCH_ADD,
	VB_RECORD_ATOMIC_WRITE,
	VB_RECORD_HELLO,                   /* something was written or read: COMM_EST */
	VB_RECORD_FAULT,                   /* a direct access was refused by what the target shows: the target fails as on the wire */
	VB_RECORD_SRQ,                     /* XRC: what follows is for the SRQ whose number stands in `immediate` */
};

enum {
	VB_RECORD_SOLICITED = 1,
	VB_RECORD_HAS_IMMEDIATE = 2,
	VB_RECORD_INVALIDATES = 4,
	VB_RECORD_BY_REFERENCE = 8,        /* the body is a list of struct vb_record_piece in the initiator's memory */
	VB_RECORD_TAKES_RECEIVE = 16,      /* FAULT: on the wire the request would have taken a receive before it was refused */
	VB_RECORD_TURNS = 32,              /* the next record is where records of this size begin: vb_ring_turn() */
	VB_RECORD_WITHDRAWN = 64,          /* UC, BY_REFERENCE: its sender waits no more, and its bytes are no message: to be dropped */
};

/* In the ring, aligned to VB_RECORD_ALIGN, never across the end of one of its two parts. `stamp` is atomic and stored
 * last: vb_record_stamp() of the record's number, which begins with 1 in each generation; a WRAP has the number of the
 * record that follows it. Before a record is stamped the stamp of the place where the next will be is cleared: what
 * lies there from the lap before might look like a stamp. So the ring is never quite full. */
struct vb_record {
	uint32_t stamp;
	uint8_t kind, flags;
	uint16_t pieces;
	uint32_t length;                   /* of the message */
	uint32_t immediate;                /* as it stands on the wire, or the rkey to invalidate, or the number of an SRQ */
	uint8_t body[];                    /* bytes, pieces, or one of the structs below */
};

/* Positions in a ring are counted in bytes, free running; position % VB_RING_BYTES is a place in it. Behind a WRAP there: */
static inline uint64_t vb_ring_wrap(uint64_t position)
{
	uint32_t at = (uint32_t)(position % VB_RING_BYTES);

	return position + (at < VB_RING_NEAR ? VB_RING_NEAR : VB_RING_BYTES) - at;
}

/* Records of that size need no more than the part of the ring that is near. */
static inline bool vb_ring_is_short(uint32_t size)
{
	return size * 4 <= VB_RING_NEAR;
}

/* Behind a record there that TURNS: where records of its size begin, in the next round. */
static inline uint64_t vb_ring_turn(uint64_t position, uint32_t size)
{
	return (position / VB_RING_BYTES + 1) * VB_RING_BYTES + (vb_ring_is_short(size) ? 0 : VB_RING_NEAR);
}

/* Never 0, which is what a place that nothing was left in holds. */
static inline uint32_t vb_record_stamp(uint64_t number)
{
	return UINT32_C(1) << 31 | (uint32_t)number;
}

struct vb_record_piece {
	uint64_t address;                  /* 0: so many zeros (a null region) */
	uint64_t length;
};

struct vb_record_atomic {
	uint64_t address, compare, swap_or_add;
	uint32_t rkey, reserved;
};

struct vb_record_fault {
	uint32_t fault;                    /* enum vb_fault */
	uint32_t key, rights;
	uint32_t reserved;
	uint64_t address, length;
};

_Static_assert(sizeof(struct vb_record) == 16, "record");
_Static_assert(sizeof(struct vb_segment_doorbells) == 4096, "doorbells");
_Static_assert(sizeof(struct vb_segment_qp) == 1024, "segment qp");

/* What a process that copies by a key of another process shows: the key, and the queue pair of that process (whose slot
 * stands in its QPN) on whose behalf. One word, so that one store shows both. Never 0. */
static inline uint64_t vb_segment_copy_word(uint32_t qpn, uint32_t table, uint32_t key)
{
	return UINT64_C(1) << 63 | (uint64_t)(table % VB_SEGMENT_TABLES) << 56 | (uint64_t)(qpn & 0xffffff) << 32 | key;
}

/* Of which XRC domain it is, by which PD it is used, and in which of the tables these handles mean something. Never 0. */
static inline uint64_t vb_segment_srq_word(uint32_t table, uint32_t domain, uint32_t pd)
{
	return UINT64_C(1) << 63 | (uint64_t)(table % VB_SEGMENT_TABLES) << 60 | (uint64_t)(domain & 0xfffffff) << 32 | pd;
}

static inline uint32_t vb_segment_srq_pd(uint64_t word)
{
	return (uint32_t)word;
}

/* Is it one of that domain? */
static inline bool vb_segment_srq_is_of(uint64_t word, uint32_t table, uint32_t domain)
{
	return word == vb_segment_srq_word(table, domain, vb_segment_srq_pd(word));
}

/* Does it say that a key of the process with that slot is copied by? */
static inline bool vb_segment_copies_by(uint64_t word, uint32_t slot, uint32_t table, uint32_t key)
{
	const uint64_t index = (uint64_t)(VB_SEGMENT_QPS - 1) << 32;

	return (word & ~index) == vb_segment_copy_word(slot * VB_SEGMENT_QPS, table, key);
}

/* Does it say that something is copied on behalf of that queue pair? */
static inline bool vb_segment_copies_for(uint64_t word, uint32_t qpn)
{
	return word != 0 && (word >> 32 & 0xffffff) == qpn;
}

#endif
