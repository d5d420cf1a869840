/* SPDX-License-Identifier: MIT
 *
 * The devices ids are bound to. Each is opened once, when first needed, and stays open: its context and its default
 * protection domain are shared by all ids.
 */
#ifndef VB_RDMACM_DEVICE_H
#define VB_RDMACM_DEVICE_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct vb_rdmacm_id;

struct vb_rdmacm_device {
	struct vb_rdmacm_device *next;
	uint32_t interface_index;
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint8_t max_responder_resources, max_initiator_depth;
	uint32_t max_qp_wr;
};

/* The device of a network interface. 0 or -ENODEV, ... */
int vb_rdmacm_device_get(uint32_t interface_index, struct vb_rdmacm_device **device);

/* Among the devices already open, the one whose table holds this GID; that of `preferred` wins. NULL: none.
 * Cheaper than asking the system for all addresses. */
struct vb_rdmacm_device *vb_rdmacm_device_with_gid(const uint8_t gid[16], uint32_t preferred);

/* Tie an id to the device of an interface: verbs, pd, port_num. 0 or -errno. */
int vb_rdmacm_device_bind(struct vb_rdmacm_id *id, uint32_t interface_index);

/* As if it had never been. */
void vb_rdmacm_device_unbind(struct vb_rdmacm_id *id);

/* Index of a GID in the device's table now, or -EADDRNOTAVAIL. */
int vb_rdmacm_device_gid_index(const struct vb_rdmacm_device *device, const uint8_t gid[16]);

/* Of the port, as it is now. */
enum ibv_mtu vb_rdmacm_device_mtu(const struct vb_rdmacm_device *device);

/* The smallest queue any device grants: for rsockets not bound to one yet. */
uint32_t vb_rdmacm_device_smallest_queue(void);

#endif
