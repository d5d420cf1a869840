/* SPDX-License-Identifier: MIT
 *
 * Management datagrams (IBA 13.4): 256 bytes, a common header of 24 and what the class makes of the rest.
 *
 *   SMP   (IBA 14.2.1)  class 0x01 by LID, 0x81 by a directed route; 64 bytes of data at 64, paths at 128 and 192
 *   GMP   (IBA 13.4.2)  all other classes
 *   RMPP  (IBA 13.6)    12 bytes behind the header in the classes that have messages of many segments
 *   SA    (IBA 15.2.1)  RMPP, 20 bytes of its own, 200 bytes of data at 56
 *
 * All fields are bytes: the structs lie over a received buffer at any alignment.
 */
#ifndef VB_WIRE_MAD_H
#define VB_WIRE_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum {
	VB_MAD_LENGTH = 256,
	VB_MAD_HEADER_LENGTH = 24,
	VB_MAD_BASE_VERSION = 1,
	VB_SMP_DATA = 64,                  /* where its data begin */
	VB_SMP_DATA_LENGTH = 64,
	VB_SMP_PATH = 64,                  /* entries of a path; entry 0 is not used: 63 hops */
	VB_GMP_DATA = 64,                  /* of performance management */
	VB_SA_DATA = 56,
	VB_VENDOR_DATA = 40,               /* of vendor classes with an OUI */
	VB_RMPP_DATA = 36,
	VB_RMPP_DATA_LENGTH = 220,
	VB_RMPP_VERSION = 1,
};

#define VB_GSI_QKEY 0x80010000u
#define VB_PERMISSIVE_LID 0xffff
#define VB_MULTICAST_LID 0xc000            /* and up, without the permissive one */
#define VB_GID_PREFIX 0xfe80000000000000ull

enum vb_mad_class {
	VB_MAD_SMP_LID = 0x01,
	VB_MAD_SA = 0x03,
	VB_MAD_PERFORMANCE = 0x04,
	VB_MAD_DEVICE_MANAGEMENT = 0x06,
	VB_MAD_CM = 0x07,
	VB_MAD_BIS = 0x12,
	VB_MAD_VENDOR_OUI_FIRST = 0x30,
	VB_MAD_VENDOR_OUI_LAST = 0x4f,
	VB_MAD_SMP_DIRECTED = 0x81,
};

enum vb_mad_method {
	VB_MAD_GET = 0x01,
	VB_MAD_SET = 0x02,
	VB_MAD_SEND = 0x03,
	VB_MAD_TRAP = 0x05,
	VB_MAD_REPORT = 0x06,
	VB_MAD_TRAP_REPRESS = 0x07,
	VB_MAD_RESPONSE = 0x80,            /* bit */
	VB_MAD_GET_RESPONSE = 0x81,
};

/* Status, IBA 13.4.7. */
enum vb_mad_status {
	VB_MAD_OK = 0x00,
	VB_MAD_BUSY = 0x01,
	VB_MAD_BAD_VERSION = 0x04,
	VB_MAD_BAD_METHOD = 0x08,
	VB_MAD_BAD_ATTRIBUTE = 0x0c,       /* method and attribute do not go together */
	VB_MAD_BAD_VALUE = 0x1c,           /* of a field or of the modifier */
	VB_SMP_RETURNING = 0x8000,         /* directed routes: the D bit */
};

struct vb_mad {
	uint8_t base_version, mgmt_class, class_version, method;
	struct be16 status;
	uint8_t hop_pointer, hop_count;    /* of directed routes; else the class's own */
	struct be64 transaction;
	struct be16 attribute, reserved;
	struct be32 modifier;
	uint8_t data[VB_MAD_LENGTH - VB_MAD_HEADER_LENGTH];
};

struct vb_smp {
	uint8_t header[VB_MAD_HEADER_LENGTH];
	struct be64 m_key;
	struct be16 dr_slid, dr_dlid;
	uint8_t reserved[28];
	uint8_t data[VB_SMP_DATA_LENGTH];
	uint8_t initial_path[VB_SMP_PATH], return_path[VB_SMP_PATH];
};

enum vb_rmpp_type { VB_RMPP_NONE = 0, VB_RMPP_DATA_SEGMENT = 1, VB_RMPP_ACK = 2, VB_RMPP_STOP = 3, VB_RMPP_ABORT = 4 };
enum { VB_RMPP_ACTIVE = 1, VB_RMPP_FIRST = 2, VB_RMPP_LAST = 4, VB_RMPP_FLAGS = 7, VB_RMPP_NO_RESPONSE_TIME = 0x1f << 3 };

/* IBA table 33. */
enum vb_rmpp_status {
	VB_RMPP_OK = 0,
	VB_RMPP_RESOURCES = 1,
	VB_RMPP_TIME_TOO_LONG = 118,
	VB_RMPP_INCONSISTENT_LAST = 119,   /* Last and PayloadLength contradict each other */
	VB_RMPP_INCONSISTENT_FIRST = 120,
	VB_RMPP_BAD_TYPE = 121,
	VB_RMPP_WINDOW_TOO_SMALL = 122,
	VB_RMPP_SEGMENT_TOO_BIG = 123,
	VB_RMPP_BAD_STATUS = 124,
	VB_RMPP_BAD_VERSION = 125,
	VB_RMPP_TOO_MANY_RETRIES = 126,
	VB_RMPP_UNSPECIFIED = 127,
};

struct vb_rmpp {
	uint8_t header[VB_MAD_HEADER_LENGTH];
	uint8_t version, type, time_flags, status;
	struct be32 segment;
	struct be32 length_or_window;      /* DATA: PayloadLength; ACK: NewWindowLast */
	uint8_t data[VB_RMPP_DATA_LENGTH];
};

_Static_assert(sizeof(struct vb_mad) == VB_MAD_LENGTH, "mad");
_Static_assert(sizeof(struct vb_smp) == VB_MAD_LENGTH && offsetof(struct vb_smp, data) == VB_SMP_DATA, "smp");
_Static_assert(offsetof(struct vb_smp, initial_path) == 128 && offsetof(struct vb_smp, return_path) == 192, "paths");
_Static_assert(sizeof(struct vb_rmpp) == VB_MAD_LENGTH && offsetof(struct vb_rmpp, data) == VB_RMPP_DATA, "rmpp");

static inline bool vb_mad_is_smp(const struct vb_mad *mad)
{
	return mad->mgmt_class == VB_MAD_SMP_LID || mad->mgmt_class == VB_MAD_SMP_DIRECTED;
}

/* Responses, and TrapRepress, which answers a Trap (IBA 13.4.5). BM and CM use other conventions that are none of ours. */
static inline bool vb_mad_is_response(const struct vb_mad *mad)
{
	return (mad->method & VB_MAD_RESPONSE) != 0 || mad->method == VB_MAD_TRAP_REPRESS;
}

/* Where the data of the class begin: all that stands before is repeated in each segment of an RMPP message. */
size_t vb_mad_data_offset(uint8_t mgmt_class);
/* May messages of the class have many segments (IBA 13.6.1)? */
bool vb_mad_class_has_rmpp(uint8_t mgmt_class);
/* Vendor classes whose messages say whose they are: the OUI stands at VB_RMPP_DATA + 1. */
static inline bool vb_mad_class_has_oui(uint8_t mgmt_class)
{
	return mgmt_class >= VB_MAD_VENDOR_OUI_FIRST && mgmt_class <= VB_MAD_VENDOR_OUI_LAST;
}

/* A request becomes its answer: method, D bit, status. */
void vb_mad_make_response(struct vb_mad *mad, uint16_t status);

#endif
