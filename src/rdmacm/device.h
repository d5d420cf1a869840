/* SPDX-License-Identifier: MIT
 *
 * The devices ids are bound to. Each is opened once, when first needed, and stays open: its context and its default
 * protection domain are shared by all ids.
 */
#ifndef VB_RDMACM_DEVICE_H
#define VB_RDMACM_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "profiles/profile.h"
#include "wire/path.h"

struct vb_rdmacm_id;

struct vb_rdmacm_device {
	struct vb_rdmacm_device *next;
	uint32_t interface_index;
	uint32_t index;                  /* vb_device_index */
	enum vb_connection_protocol connection;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;           /* NULL until it is asked for */
	uint8_t max_responder_resources, max_initiator_depth;
	uint32_t max_qp_wr;
};

/* Could a program see devices whose connections are made that way? */
bool vb_rdmacm_device_may_be(enum vb_connection_protocol connection);

/* Does it see InfiniBand and nothing else? */
bool vb_rdmacm_device_is_fabric_alone(void);

/* Among the devices already open, the one whose table holds this GID; that of `preferred` wins. NULL: none.
 * Cheaper than asking the system for all addresses. */
struct vb_rdmacm_device *vb_rdmacm_device_with_gid(const uint8_t gid[16], uint32_t preferred);

/* Tie an id to the device of an interface: verbs, pd, port_num. Of several kinds to the one that its connection needs, else to the first
 * that the program sees. 0 or -errno. */
int vb_rdmacm_device_bind(struct vb_rdmacm_id *id, uint32_t interface_index);

/* As if it had never been. */
void vb_rdmacm_device_unbind(struct vb_rdmacm_id *id);

/* Index of a GID in the device's table now, or -EADDRNOTAVAIL. Where both versions of RoCE have it: that of the framing. */
int vb_rdmacm_device_gid_index(const struct vb_rdmacm_device *device, const uint8_t gid[16], enum vb_framing framing);
/* That connections from this GID begin with: rather RoCEv2 than RoCEv1, as in Linux. */
enum vb_framing vb_rdmacm_device_framing(const struct vb_rdmacm_device *device, const uint8_t gid[16]);
/* Has this process been told to speak RoCEv1? */
bool vb_rdmacm_speaks_frames(void);

/* Index of the partition in the port's table, by which it is rather a full than a limited member, or -ENOENT. */
int vb_rdmacm_device_pkey_index(const struct vb_rdmacm_device *device, uint16_t pkey);
/* Which of the LIDs of an InfiniBand port this is: the bits that its LMC leaves to the sender. */
uint8_t vb_rdmacm_device_path_bits(const struct vb_rdmacm_device *device, uint16_t lid);

/* The XRC domain of those that name none: one for each device, of no file. NULL and errno. */
struct ibv_xrcd *vb_rdmacm_device_xrcd(struct vb_rdmacm_device *device);

/* Of the port, as it is now. */
enum ibv_mtu vb_rdmacm_device_mtu(const struct vb_rdmacm_device *device);

/* The smallest queue any device grants: for rsockets not bound to one yet. */
uint32_t vb_rdmacm_device_smallest_queue(void);

#endif
