/* SPDX-License-Identifier: MIT
 *
 * What a process and verbenad say to each other: one message per datagram of a SOCK_SEQPACKET Unix socket whose
 * abstract name belongs to the network namespace, so that one name serves every "host". Fixed layouts, host byte order
 * (both ends are on this machine), the same for 32- and 64-bit programs.
 *
 * A message begins with its type: those below 0x100 are described here, those from 0x100 on are about connections
 * (wire/cm_command.h). Each side takes the other for hostile: a message is copied out and checked wholly
 * (vb_daemon_message_check) before any field of it is used.
 *
 *   process -> verbenad   HELLO first, then requests; each is answered by messages that repeat its `sequence`
 *   verbenad -> process   answers; DEVICE and DEVICE_GONE with sequence 0 after WATCH_DEVICES; SHOW_RESOURCES; DEDICATED
 *
 * Who lists processes or resources is shown those of its own user; root is shown all.
 *
 * LIST_RESOURCES goes round: verbenad sends SHOW_RESOURCES to the processes concerned, each answers RESOURCES with a
 * descriptor (wire/resource.h; none: it could not), and verbenad hands that on as PROCESS_RESOURCES; a process that does not
 * answer in time is named with an error instead. One SHOW_RESOURCES at a time is under way to a process.
 *
 * ASK_COUNTERS asks what a device has counted since verbenad runs, for the files of `counters` and `hw_counters` that programs under
 * `verbena run` read. Processes that have ended count too.
 *
 * SHOW_SEGMENT gives verbenad a process's shared segment (local/segment.h) and the eventfd that wakes the process; ASK_SEGMENT
 * is how another process of the same user gets them, to reach a queue pair of that slot through memory. Descriptors:
 * the segment, the eventfd; none when the asker knows that very segment already.
 *
 * JOIN_GROUP is for a process whose slot is on another port than 4791, where multicast datagrams do not go: GROUP is a
 * socket that receives those of the group on that interface, and no others whatever is done to it.
 *
 * OPEN_FRAMES asks for a socket of RoCEv1 (io/ethernet.h) for the process's slot, which comes as FRAMES: for processes
 * of the user that runs verbenad, and only where that has CAP_NET_RAW.
 *
 * OPEN_LANE asks for sockets of a lane of the slot that the asking process has, by whatever connection: threads of a process that each
 * have a lane receive without meeting. LANE brings them, and from then on packets for queue pairs with such numbers go there; without
 * them they go to the slot's own. CLOSE_LANE gives a lane back. A process whose slot a new verbenad has taken over shows it its lanes by
 * ADOPT_LANE, on the same connection. Both are answered by LANE without descriptors.
 *
 * OPEN_DEDICATED asks for a socket to which one flow comes, past the port's group, by the connection that has the slot. DEDICATED says so
 * again some time later, as news, and brings it, or does not. It goes with the slot, or with the next one of that lane.
 *
 * SET_SHAPE gives packets of a device a worse network (`verbena shape`): those of the asker's user, or of everybody
 * whose user has set nothing if that is root. SHAPE tells it to processes, with sequence 0, and answers LIST_SHAPES.
 *
 * JOIN_FABRIC makes the host's InfiniBand adapter a node of a software fabric (wire/cable.h); END when it is one.
 * ADAPTER tells what it is. A connection that sent OPEN_MAD_PORT has got a socket for MADs (wire/umad.h), which lives
 * as long as the connection; REGISTER_AGENT says which MADs are received there. OPEN_FRAME_PORT, of a process with a slot, gets a socket
 * for frames of its queue pairs (wire/frame_port.h), which lives until it is closed, and, where that can be had, one by which it
 * reaches the fabric without verbenad, and the page that goes with it; OPEN_MAD_TAP one that tells of every MAD that passes
 * the adapter's cable (wire/mad_tap.h), for captures.
 *
 * The UDP datagrams by which a new verbenad learns the order of the sockets (struct vb_daemon_probe) are here too.
 */
#ifndef VB_WIRE_DAEMON_MESSAGE_H
#define VB_WIRE_DAEMON_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/counters.h"
#include "base/port_figures.h"
#include "wire/shape.h"

#define VB_DAEMON_SOCKET "verbena/1"       /* abstract: a zero byte stands before it */
#define VB_DAEMON_DIRECTORY "/run/verbena"  /* root's: the system's verbenad also listens here, and is looked for here first */
#define VB_DAEMON_MAGIC 0x5642000au        /* "VB" and the version of this protocol */

enum {
	VB_DAEMON_SLOT_BITS = 10,
	VB_DAEMON_SLOTS = 1 << VB_DAEMON_SLOT_BITS,
	VB_DAEMON_INDEX_BITS = 14,         /* of a QPN: the rest is the process's own */
	VB_DAEMON_INDICES = 1 << VB_DAEMON_INDEX_BITS,
	VB_DAEMON_LANE_BITS = 3,           /* of a QPN, the lowest: to which of the slot's sockets its packets go */
	VB_DAEMON_LANES = 1 << VB_DAEMON_LANE_BITS,
	VB_DAEMON_GIDS = 64,
	VB_DAEMON_MAX_FDS = 6,
	VB_DAEMON_MAX_MESSAGE = 4096,
	VB_DAEMON_CM_TYPES = 0x100,        /* and up: wire/cm_command.h */
};

/* X(name, value, sender, body, required fds, allowed fds) */
#define VB_DAEMON_MESSAGES(X)                                                     \
	X(HELLO, 0x01, PROCESS, struct vb_daemon_hello, 0, 0)                     \
	X(LIST_DEVICES, 0x02, PROCESS, struct vb_daemon_empty, 0, 0)              \
	X(WATCH_DEVICES, 0x03, PROCESS, struct vb_daemon_empty, 0, 0)             \
	X(OPEN_SLOT, 0x04, PROCESS, struct vb_daemon_open_slot, 0, 0)             \
	X(ADOPT_SLOT, 0x05, PROCESS, struct vb_daemon_slot, 0, 6)                 \
	X(CLOSE_SLOT, 0x06, PROCESS, struct vb_daemon_empty, 0, 0)                \
	X(PROBE_SEEN, 0x07, PROCESS, struct vb_daemon_probe_seen, 0, 0)           \
	X(LIST_PROCESSES, 0x08, PROCESS, struct vb_daemon_empty, 0, 0)            \
	X(LIST_RESOURCES, 0x09, PROCESS, struct vb_daemon_list_resources, 0, 0)   \
	X(RESOURCES, 0x0a, PROCESS, struct vb_daemon_empty, 0, 1)                 \
	X(SHOW_SEGMENT, 0x0b, PROCESS, struct vb_daemon_segment, 2, 2)            \
	X(ASK_SEGMENT, 0x0c, PROCESS, struct vb_daemon_ask_segment, 0, 0)         \
	X(JOIN_GROUP, 0x0d, PROCESS, struct vb_daemon_join_group, 0, 0)           \
	X(SET_SHAPE, 0x0e, PROCESS, struct vb_daemon_shape, 0, 0)                 \
	X(LIST_SHAPES, 0x0f, PROCESS, struct vb_daemon_empty, 0, 0)               \
	X(OPEN_FRAMES, 0x10, PROCESS, struct vb_daemon_empty, 0, 0)               \
	X(ASK_COUNTERS, 0x11, PROCESS, struct vb_daemon_ask_counters, 0, 0)       \
	X(OPEN_LANE, 0x12, PROCESS, struct vb_daemon_lane, 0, 0)                  \
	X(ADOPT_LANE, 0x13, PROCESS, struct vb_daemon_lane, 1, 2)                 \
	X(CLOSE_LANE, 0x14, PROCESS, struct vb_daemon_lane, 0, 0)                 \
	X(OPEN_DEDICATED, 0x15, PROCESS, struct vb_daemon_dedicated, 0, 0)        \
	X(JOIN_FABRIC, 0x20, PROCESS, struct vb_daemon_join_fabric, 0, 0)         \
	X(LEAVE_FABRIC, 0x21, PROCESS, struct vb_daemon_empty, 0, 0)              \
	X(LIST_ADAPTERS, 0x22, PROCESS, struct vb_daemon_empty, 0, 0)             \
	X(OPEN_MAD_PORT, 0x23, PROCESS, struct vb_daemon_empty, 0, 0)             \
	X(REGISTER_AGENT, 0x24, PROCESS, struct vb_daemon_register_agent, 0, 0)   \
	X(UNREGISTER_AGENT, 0x25, PROCESS, struct vb_daemon_agent, 0, 0)          \
	X(OPEN_FRAME_PORT, 0x26, PROCESS, struct vb_daemon_frame_port, 0, 0)      \
	X(OPEN_MAD_TAP, 0x27, PROCESS, struct vb_daemon_empty, 0, 0)              \
	X(WELCOME, 0x41, DAEMON, struct vb_daemon_welcome, 0, 0)                  \
	X(ERROR, 0x42, DAEMON, struct vb_daemon_error, 0, 0)                      \
	X(END, 0x43, DAEMON, struct vb_daemon_end, 0, 0)                          \
	X(DEVICE, 0x44, DAEMON, struct vb_daemon_device, 0, 0)                    \
	X(DEVICE_GONE, 0x45, DAEMON, struct vb_daemon_device_gone, 0, 0)          \
	X(SLOT, 0x46, DAEMON, struct vb_daemon_slot, 0, 6)                        \
	X(PROCESS, 0x47, DAEMON, struct vb_daemon_process, 0, 0)                  \
	X(PROCESS_DEVICE, 0x48, DAEMON, struct vb_daemon_process_device, 0, 0)    \
	X(SHOW_RESOURCES, 0x49, DAEMON, struct vb_daemon_empty, 0, 0)             \
	X(PROCESS_RESOURCES, 0x4a, DAEMON, struct vb_daemon_process_resources, 0, 1) \
	X(SEGMENT, 0x4b, DAEMON, struct vb_daemon_segment, 0, 2)                  \
	X(GROUP, 0x4c, DAEMON, struct vb_daemon_empty, 1, 1)                      \
	X(SHAPE, 0x4d, DAEMON, struct vb_daemon_shape, 0, 0)                      \
	X(FRAMES, 0x4e, DAEMON, struct vb_daemon_empty, 1, 1)                     \
	X(COUNTERS, 0x4f, DAEMON, struct vb_daemon_counters, 0, 0)                \
	X(LANE, 0x50, DAEMON, struct vb_daemon_lane, 0, 2)                        \
	X(DEDICATED, 0x51, DAEMON, struct vb_daemon_dedicated, 0, 1)              \
	X(ADAPTER, 0x60, DAEMON, struct vb_daemon_adapter, 0, 0)                  \
	X(MAD_PORT, 0x61, DAEMON, struct vb_daemon_empty, 1, 1)                   \
	X(AGENT, 0x62, DAEMON, struct vb_daemon_agent, 0, 0)                      \
	X(FRAME_PORT, 0x63, DAEMON, struct vb_daemon_empty, 1, 3)                 \
	X(MAD_TAP, 0x64, DAEMON, struct vb_daemon_empty, 1, 1)

enum vb_daemon_type {
#define X(name, value, sender, body, required, allowed) VB_DAEMON_##name = value,
	VB_DAEMON_MESSAGES(X)
#undef X
};

enum vb_daemon_sender { VB_DAEMON_FROM_PROCESS, VB_DAEMON_FROM_DAEMON };

struct vb_daemon_header {
	uint32_t type;
	uint32_t magic;
	uint32_t length;                   /* of the whole message */
	uint32_t sequence;                 /* chosen by the asker, never 0 */
};

struct vb_daemon_empty {
	uint32_t reserved[2];
};

struct vb_daemon_hello {
	char program[16];                  /* for lists only */
	uint32_t reserved[2];
};

enum { VB_DAEMON_IS_SYSTEM = 1 };

struct vb_daemon_welcome {
	uint32_t pid, uid;
	uint32_t flags;                    /* VB_DAEMON_IS_SYSTEM */
	uint32_t reserved;
	char version[32];
};

struct vb_daemon_error {
	int32_t error;                     /* errno, positive */
	uint32_t reserved;
	char text[248];                    /* a sentence for the user */
};

struct vb_daemon_end {
	uint32_t count;                    /* of messages before it in the same answer */
	uint32_t reserved;
};

enum { VB_DAEMON_ADAPTER_PKEYS = 32 };

/* Of a port whose addresses a subnet manager gives out. */
struct vb_daemon_subnet {
	uint16_t lid, sm_lid;
	uint8_t lmc, sm_sl;
	uint8_t state, physical;           /* of wire/mad_attributes.h; 0: there is no subnet */
	uint8_t width, speed;              /* codes of ibv_port_attr */
	uint8_t reregister;                /* how often it was asked to register anew, modulo 256 */
	uint8_t reserved;
	uint32_t capabilities;
	uint16_t pkeys[VB_DAEMON_ADAPTER_PKEYS];
};

struct vb_daemon_device {
	char name[64];
	char interface[16];
	uint32_t interface_index;
	uint8_t mac[6];
	uint8_t kind;                      /* enum vb_device_kind */
	uint8_t reserved;
	uint32_t interface_mtu;
	uint32_t active_mtu;               /* code of wire/mtu.h */
	uint32_t reserved1;                /* i386 aligns 64-bit fields to 4 bytes: no padding may be implicit */
	uint64_t guid;
	uint64_t told;                     /* when the daemon said so, in ns: of two messages the later counts */
	uint32_t active;                   /* 1: up, running, has an address */
	uint32_t speed_mbps;
	uint32_t gid_count;                /* entries in use, holes (all zero) included */
	uint32_t reserved2;
	struct vb_daemon_subnet subnet;
	uint8_t gid[VB_DAEMON_GIDS][16];   /* the message ends behind the last one in use */
};

/* The interface vanished, and with it its devices of all kinds. */
struct vb_daemon_device_gone {
	uint32_t interface_index;
	uint32_t reserved;
};

/* Descriptors travel in the order of their bits. */
enum {
	VB_DAEMON_FD_IPV4 = 1,             /* the slot's receive sockets */
	VB_DAEMON_FD_IPV6 = 2,
	VB_DAEMON_FD_PAGE = 4,             /* struct vb_daemon_page in a sealed memfd */
	VB_DAEMON_FD_DAEMON_IPV4 = 8,      /* the daemon's own sockets, kept alive by processes of its user */
	VB_DAEMON_FD_DAEMON_IPV6 = 16,
	VB_DAEMON_FD_CLAIM = 32,           /* while it is open no other process is given the slot (daemon/slot_claim.h) */
	VB_DAEMON_FD_ALL = 63,
};

/* Whether a slot comes with sockets of a UDP port. Devices that are reached by TCP need none. */
enum vb_daemon_port_wish {
	VB_DAEMON_PORT_NEEDED,
	VB_DAEMON_PORT_WELCOME,            /* without, if the port is not to be had */
	VB_DAEMON_PORT_UNWANTED,
	VB_DAEMON_PORT_WISHES,
};

struct vb_daemon_open_slot {
	uint32_t port;                     /* enum vb_daemon_port_wish */
	uint32_t reserved;
};

struct vb_daemon_slot {
	uint32_t slot;                     /* 1 .. 1023: bits 23..14 of the process's QPNs */
	uint32_t descriptors;              /* VB_DAEMON_FD_* */
};

struct vb_daemon_lane {
	uint32_t slot;
	uint32_t lane;                     /* 1 .. 7 */
	uint32_t descriptors;              /* VB_DAEMON_FD_IPV4, VB_DAEMON_FD_IPV6 */
	uint32_t reserved;
};

/* A flow: packets from that address and UDP port. */
struct vb_daemon_dedicated {
	uint32_t lane;                     /* that wants it; 0: the slot's own */
	uint32_t port;
	uint8_t peer[16], own[16];         /* IPv4: mapped */
};

struct vb_daemon_probe_seen {
	uint64_t nonce;
	uint32_t lane;                     /* whose socket brought it; 0: the slot's own */
	uint32_t reserved;
};

struct vb_daemon_process {
	uint32_t pid, uid;
	uint32_t slot;                     /* 0: has opened no device */
	uint32_t queue_pairs;
	char program[16];
	struct vb_counters counters;
};

/* Follows its PROCESS. */
struct vb_daemon_process_device {
	uint32_t pid;
	uint32_t interface_index;
	char device[64];
	struct vb_counters counters;
};

struct vb_daemon_ask_counters {
	char device[64];
};

/* `counters` of the asker's user, root: of all; `port` likewise, but of InfiniBand's port, which is the host's. */
struct vb_daemon_counters {
	struct vb_counters counters;
	struct vb_port_figures port;
};

struct vb_daemon_list_resources {
	uint32_t pid;                      /* 0: of all processes */
	uint32_t reserved;
};

struct vb_daemon_process_resources {
	uint32_t pid, uid;
	int32_t error;                     /* 0, and a descriptor comes along; or errno */
	uint32_t reserved;
	char program[16];
};

/* SHOW_SEGMENT (pid 0) and SEGMENT. */
struct vb_daemon_segment {
	uint64_t id;                       /* of this segment: a new one has another, never 0 */
	uint32_t pid;                      /* of its owner, as the kernel told verbenad */
	uint32_t slot;
};

struct vb_daemon_ask_segment {
	uint64_t known;                    /* id of the segment that the asker has of this slot, 0: none */
	uint32_t slot;
	uint32_t reserved;
	uint8_t gid[16];                   /* where the queue pair is said to be: this host? */
};

struct vb_daemon_join_group {
	uint32_t interface_index;
	uint32_t reserved;
	uint8_t gid[16];                   /* of a multicast group */
};

struct vb_daemon_shape {
	uint32_t interface_index;
	uint32_t uid;                      /* SHAPE: who has set it; SET_SHAPE: 0 */
	struct vb_shape shape;             /* none: as without */
};

struct vb_daemon_join_fabric {
	uint8_t gid[16];                   /* of the host where the fabric is; IPv4 mapped */
	uint32_t port;                     /* UDP */
	uint32_t interface_index;          /* of a link-local address */
	char description[64];              /* of the node, where it stands in for none */
	char wanted[64];                   /* the node to stand in for; empty: any */
};

/* The InfiniBand adapter of this host. */
struct vb_daemon_adapter {
	char name[16];
	char where[64];                    /* the port of the switch */
	char description[64];
	uint64_t system_guid, node_guid, port_guid, gid_prefix;
	uint32_t vendor, device, revision;
	uint32_t ports, port;              /* how many it has, and the one that has a cable */
	uint32_t lid, lmc, sm_lid, sm_sl;
	uint32_t state, physical;          /* of wire/mad_attributes.h */
	uint32_t width, speed, extended;   /* bits of PortInfo */
	uint32_t mtu;                      /* code of wire/mtu.h */
	uint32_t capabilities;
	uint16_t pkeys[VB_DAEMON_ADAPTER_PKEYS];
};

struct vb_daemon_register_agent {
	uint8_t mgmt_class, class_version, rmpp_version, user_rmpp;
	uint32_t oui;
	uint64_t methods[2];
};

struct vb_daemon_agent {
	uint32_t id;
	uint32_t reserved;
};

struct vb_daemon_frame_port {
	uint32_t slot;                     /* of the asker's process */
	uint32_t reserved;
};

/* What a process shows of itself, written by it alone. `counters` are those that belong to no device; a process with
 * more devices than there is room for counts the rest there too. */
enum { VB_DAEMON_PAGE_DEVICES = 16 };

struct vb_daemon_page_device {
	uint32_t interface_index;          /* vb_device_index. 0: not in use, nor is any behind it */
	uint32_t reserved;
	struct vb_counters counters;
};

struct vb_daemon_page {
	uint32_t magic;
	uint32_t queue_pairs;
	struct vb_counters counters;
	struct vb_daemon_page_device device[VB_DAEMON_PAGE_DEVICES];
};

/* A datagram to port 4791 that no RoCE decoder takes: the transport version in its second byte is 15. The program in
 * the kernel hands it to the socket whose index it names; the process that receives it reports the nonce. */
#define VB_DAEMON_PROBE_MAGIC 0xff0f5601u
struct vb_daemon_probe {
	struct be32 magic;
	struct be32 index;
	struct be64 nonce;
};

_Static_assert(sizeof(struct vb_daemon_header) == 16, "header");
_Static_assert(sizeof(struct vb_daemon_hello) == 24, "hello");
_Static_assert(sizeof(struct vb_daemon_welcome) == 48, "welcome");
_Static_assert(sizeof(struct vb_daemon_error) == 256, "error");
_Static_assert(offsetof(struct vb_daemon_device, guid) == 104, "device.guid");
_Static_assert(sizeof(struct vb_daemon_device) == 216 + 16 * VB_DAEMON_GIDS, "device");
_Static_assert(sizeof(struct vb_daemon_process) == 32 + sizeof(struct vb_counters), "process");
_Static_assert(sizeof(struct vb_daemon_process_device) == 72 + sizeof(struct vb_counters), "process_device");
_Static_assert(sizeof(struct vb_daemon_counters) == sizeof(struct vb_counters) + sizeof(struct vb_port_figures), "counters");
_Static_assert(sizeof(struct vb_daemon_process_resources) == 32, "process_resources");
_Static_assert(sizeof(struct vb_daemon_segment) == 16, "segment");
_Static_assert(sizeof(struct vb_daemon_ask_segment) == 32, "ask_segment");
_Static_assert(sizeof(struct vb_daemon_dedicated) == 40, "dedicated");
_Static_assert(sizeof(struct vb_daemon_join_group) == 24, "join_group");
_Static_assert(sizeof(struct vb_daemon_join_fabric) == 152, "join_fabric");
_Static_assert(offsetof(struct vb_daemon_adapter, vendor) == 176 && sizeof(struct vb_daemon_adapter) == 304, "adapter");
_Static_assert(sizeof(struct vb_daemon_register_agent) == 24, "register_agent");
_Static_assert(sizeof(struct vb_daemon_page) ==
	       8 + sizeof(struct vb_counters) + VB_DAEMON_PAGE_DEVICES * (8 + sizeof(struct vb_counters)), "page");
_Static_assert(sizeof(struct vb_daemon_probe) == 16, "probe");

struct vb_daemon_message {
	struct vb_daemon_header header;
	union {
		struct vb_daemon_empty empty;
		struct vb_daemon_open_slot open_slot;
		struct vb_daemon_hello hello;
		struct vb_daemon_welcome welcome;
		struct vb_daemon_error error;
		struct vb_daemon_end end;
		struct vb_daemon_device device;
		struct vb_daemon_device_gone device_gone;
		struct vb_daemon_slot slot;
		struct vb_daemon_lane lane;
		struct vb_daemon_dedicated dedicated;
		struct vb_daemon_probe_seen probe_seen;
		struct vb_daemon_process process;
		struct vb_daemon_process_device process_device;
		struct vb_daemon_ask_counters ask_counters;
		struct vb_daemon_counters counters;
		struct vb_daemon_list_resources list_resources;
		struct vb_daemon_process_resources process_resources;
		struct vb_daemon_segment segment;
		struct vb_daemon_ask_segment ask_segment;
		struct vb_daemon_shape shape;
		struct vb_daemon_join_group join_group;
		struct vb_daemon_join_fabric join_fabric;
		struct vb_daemon_adapter adapter;
		struct vb_daemon_register_agent register_agent;
		struct vb_daemon_agent agent;
		struct vb_daemon_frame_port frame_port;
	};
};

/* Start a message: everything zero but the header. */
void vb_daemon_message_begin(struct vb_daemon_message *message, enum vb_daemon_type type, uint32_t sequence);
/* Set a DEVICE message's body, and its length with it. */
void vb_daemon_message_set_device(struct vb_daemon_message *message, const struct vb_daemon_device *device);

/* Is this a message that `sender` may send, with that many descriptors? 0, -EPROTONOSUPPORT (another version of the
 * protocol) or
 * -EPROTO. After 0 every field is in its range and every string ends. Types of wire/cm_command.h are not for this. */
int vb_daemon_message_check(const void *bytes, size_t length, unsigned descriptors, enum vb_daemon_sender sender);

/* NULL: no such type. */
const char *vb_daemon_message_name(uint32_t type);

static inline unsigned vb_daemon_descriptor_count(uint32_t descriptors)
{
	return (unsigned)__builtin_popcount(descriptors);
}

#endif
