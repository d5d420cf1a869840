/* SPDX-License-Identifier: MIT
 *
 * Interfaces come and go while a program runs, so the list of devices is asked for again whenever an interface has no
 * device yet.
 */
#include "rdmacm/device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutex.h"
#include "io/cancellation.h"
#include "profiles/roce_versions.h"
#include "progress/devices.h"
#include "rdmacm/export.h"
#include "rdmacm/id.h"

enum { GIDS_AT_ONCE = 256, PARTITION = 0x7fff, FULL_MEMBER = 0x8000 };

static struct vb_mutex devices_lock = VB_MUTEX_INITIALIZER(VB_RANK_CM_DEVICES);
static struct vb_rdmacm_device *devices VB_GUARDED_BY(devices_lock);

/* Its vb_device_index, which stands in the name of its character device. */
static uint32_t index_of(const struct ibv_device *device)
{
	static const char prefix[] = "uverbs";

	return (uint32_t)strtoul(device->dev_name + sizeof(prefix) - 1, NULL, 10);
}

static uint8_t at_most_a_byte(int value)
{
	/* 0xff is RDMA_MAX_RESP_RES: "as much as there is". */
	return (uint8_t)(value < 0 ? 0 : value > 254 ? 254 : value);
}

/* Caller holds devices_lock. */
static int open_device(struct ibv_device *found, enum vb_device_kind kind, struct vb_rdmacm_device **result)
	VB_NEEDS(devices_lock)
{
	struct vb_rdmacm_device *device = calloc(1, sizeof(*device));
	struct ibv_device_attr attr;
	int error;

	if (device == NULL)
		return -ENOMEM;
	device->index = index_of(found);
	device->interface_index = device->index - vb_device_index(0, kind);
	device->connection = vb_profile_of(kind)->connection;
	device->context = ibv_open_device(found);
	if (device->context == NULL) {
		error = errno != 0 ? -errno : -ENODEV;
		goto not_opened;
	}
	error = -ibv_query_device(device->context, &attr);
	if (error != 0)
		goto not_usable;
	device->pd = ibv_alloc_pd(device->context);
	if (device->pd == NULL) {
		error = -errno;
		goto not_usable;
	}
	device->max_responder_resources = at_most_a_byte(attr.max_qp_rd_atom);
	device->max_initiator_depth = at_most_a_byte(attr.max_qp_init_rd_atom);
	device->max_qp_wr = (uint32_t)attr.max_qp_wr;
	device->next = devices;
	devices = device;
	*result = device;
	return 0;

not_usable:
	ibv_close_device(device->context);
not_opened:
	free(device);
	return error;
}

/* By what every RDMA device says of itself. */
static enum vb_device_kind kind_of(const struct ibv_device *device)
{
	enum vb_device_kind kind = VB_DEVICE_ROCE;

	for (unsigned i = 0; i < VB_DEVICE_KINDS; i++)
		if (strncmp(device->name, vb_profile_of((enum vb_device_kind)i)->device_prefix,
			    strlen(vb_profile_of((enum vb_device_kind)i)->device_prefix)) == 0)
			kind = (enum vb_device_kind)i;
	return kind;
}

/* Caller holds devices_lock. */
static struct vb_rdmacm_device *known_device(uint32_t index) VB_NEEDS(devices_lock)
{
	struct vb_rdmacm_device *device = devices;

	while (device != NULL && device->index != index)
		device = device->next;
	return device;
}

/* Caller holds devices_lock. */
static int get_device(struct ibv_device *found, struct vb_rdmacm_device **device) VB_NEEDS(devices_lock)
{
	*device = known_device(index_of(found));
	return *device != NULL ? 0 : open_device(found, kind_of(found), device);
}

/* Which kinds of devices would do for an id. */
struct need {
	bool any;
	enum vb_connection_protocol connection;
};

static bool is_met(const struct need *need, enum vb_connection_protocol connection)
{
	return need->any || need->connection == connection;
}

static struct need need_of(const struct vb_rdmacm_id *id)
{
	struct need need = {.connection = VB_CONNECT_CM};

	if (id->stream != NULL)
		need.connection = VB_CONNECT_MPA;
	else
		need.any = !vb_rdmacm_id_is_datagram(id) && vb_rdmacm_id_state(id) != VB_RDMACM_REQUESTED;
	return need;
}

/* The first that the program sees. */
static int find_device(uint32_t interface_index, const struct need *need, struct vb_rdmacm_device **device)
	VB_NEEDS(devices_lock)
{
	struct ibv_device **list;
	int count, error = -ENODEV;

	list = ibv_get_device_list(&count);
	for (int i = 0; list != NULL && i < count; i++) {
		enum vb_device_kind kind = kind_of(list[i]);

		if (is_met(need, vb_profile_of(kind)->connection) &&
		    index_of(list[i]) == vb_device_index(interface_index, kind)) {
			error = get_device(list[i], device);
			break;
		}
	}
	if (list != NULL)
		ibv_free_device_list(list);
	return error;
}

/* One that is open, if it is the one: asking for the list is dear. Where several kinds may be seen, their order is in the list. */
static struct vb_rdmacm_device *open_already(uint32_t interface_index, const struct need *need) VB_NEEDS(devices_lock)
{
	if (need->any && vb_rdmacm_device_may_be(VB_CONNECT_CM) && vb_rdmacm_device_may_be(VB_CONNECT_MPA))
		return NULL;
	for (struct vb_rdmacm_device *device = devices; device != NULL; device = device->next)
		if (device->interface_index == interface_index && is_met(need, device->connection))
			return device;
	return NULL;
}

static int device_for(const struct vb_rdmacm_id *id, uint32_t interface_index, struct vb_rdmacm_device **device)
{
	struct need need = need_of(id);
	int error = 0;

	vb_mutex_lock(&devices_lock);
	*device = open_already(interface_index, &need);
	if (*device == NULL)
		error = find_device(interface_index, &need, device);
	vb_mutex_unlock(&devices_lock);
	return error;
}

bool vb_rdmacm_device_may_be(enum vb_connection_protocol connection)
{
	const char *transports = secure_getenv("VERBENA_TRANSPORT"), *wanted = secure_getenv("VERBENA_DEVICES");

	for (unsigned kind = 0; kind < VB_DEVICE_KINDS; kind++)
		if (vb_profile_of((enum vb_device_kind)kind)->connection == connection &&
		    vb_devices_may_show((enum vb_device_kind)kind, transports, wanted))
			return true;
	return false;
}

bool vb_rdmacm_device_is_fabric_alone(void)
{
	const char *transports = secure_getenv("VERBENA_TRANSPORT"), *wanted = secure_getenv("VERBENA_DEVICES");

	return vb_devices_may_show(VB_DEVICE_INFINIBAND, transports, wanted) && !vb_devices_may_show(VB_DEVICE_ROCE, transports, wanted) &&
	       !vb_devices_may_show(VB_DEVICE_IWARP, transports, wanted);
}

int vb_rdmacm_device_bind(struct vb_rdmacm_id *id, uint32_t interface_index)
{
	struct vb_rdmacm_device *device;
	int error = device_for(id, interface_index, &device);

	if (error != 0)
		return error;
	id->device = device;
	__atomic_store_n(&id->interface_index, interface_index, __ATOMIC_RELEASE);
	id->id.verbs = device->context;
	id->id.port_num = 1;
	if (id->id.pd == NULL)
		id->id.pd = device->pd;
	return 0;
}

void vb_rdmacm_device_unbind(struct vb_rdmacm_id *id)
{
	if (id->device != NULL && id->id.pd == id->device->pd)
		id->id.pd = NULL;
	id->device = NULL;
	__atomic_store_n(&id->interface_index, 0, __ATOMIC_RELEASE);
	id->id.verbs = NULL;
	id->id.port_num = 0;
}

int vb_rdmacm_device_gid_index(const struct vb_rdmacm_device *device, const uint8_t gid[16], enum vb_framing framing)
{
	struct ibv_gid_entry entries[GIDS_AT_ONCE];
	ssize_t count = ibv_query_gid_table(device->context, entries, GIDS_AT_ONCE, 0);
	uint32_t preferred = framing == VB_FRAMING_ETHERNET ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
	int found = -EADDRNOTAVAIL;

	for (ssize_t i = 0; i < count; i++)
		if (memcmp(entries[i].gid.raw, gid, 16) == 0 && (found < 0 || entries[i].gid_type == preferred))
			found = (int)entries[i].gid_index;
	return found;
}

enum vb_framing vb_rdmacm_device_framing(const struct vb_rdmacm_device *device, const uint8_t gid[16])
{
	int index = vb_rdmacm_device_gid_index(device, gid, VB_FRAMING_UDP);
	struct ibv_gid_entry entry;

	return index >= 0 && ibv_query_gid_ex(device->context, 1, (uint32_t)index, &entry, 0) == 0 &&
			       entry.gid_type == IBV_GID_TYPE_ROCE_V1 ?
		       VB_FRAMING_ETHERNET : VB_FRAMING_UDP;
}

/* Where a profile brings it along, RoCEv2 is there, too, and is preferred. */
bool vb_rdmacm_speaks_frames(void)
{
	const char *asked = secure_getenv("VERBENA_ROCE");

	return asked && *asked && (vb_roce_versions(asked, NULL) & VB_ROCE_V1);
}

int vb_rdmacm_device_pkey_index(const struct vb_rdmacm_device *device, uint16_t pkey)
{
	struct ibv_port_attr attr;
	int found = -ENOENT;
	__be16 entry;

	if (ibv_query_port(device->context, 1, &attr) != 0)
		return -ENOENT;
	for (int i = 0; i < attr.pkey_tbl_len; i++) {
		if (ibv_query_pkey(device->context, 1, i, &entry) != 0 || ((ntohs(entry) ^ pkey) & PARTITION) != 0)
			continue;
		if (found < 0 || ntohs(entry) & FULL_MEMBER)
			found = i;
		if (ntohs(entry) & FULL_MEMBER)
			break;
	}
	return found;
}

uint8_t vb_rdmacm_device_path_bits(const struct vb_rdmacm_device *device, uint16_t lid)
{
	struct ibv_port_attr attr;

	return ibv_query_port(device->context, 1, &attr) == 0 ? (uint8_t)(lid & ((1u << attr.lmc) - 1)) : 0;
}

struct vb_rdmacm_device *vb_rdmacm_device_with_gid(const uint8_t gid[16], uint32_t preferred)
{
	struct vb_rdmacm_device *found = NULL;

	vb_mutex_lock(&devices_lock);
	for (struct vb_rdmacm_device *device = devices; device != NULL; device = device->next)
		if ((found == NULL || device->interface_index == preferred) && vb_rdmacm_device_gid_index(device, gid, VB_FRAMING_UDP) >= 0)
			found = device;
	vb_mutex_unlock(&devices_lock);
	return found;
}

struct ibv_xrcd *vb_rdmacm_device_xrcd(struct vb_rdmacm_device *device)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_xrcd *xrcd;

	vb_mutex_lock(&devices_lock);
	if (device->xrcd == NULL)
		device->xrcd = ibv_open_xrcd(device->context, &attr);
	xrcd = device->xrcd;
	vb_mutex_unlock(&devices_lock);
	return xrcd;
}

enum ibv_mtu vb_rdmacm_device_mtu(const struct vb_rdmacm_device *device)
{
	struct ibv_port_attr attr;

	return ibv_query_port(device->context, 1, &attr) == 0 ? attr.active_mtu : IBV_MTU_1024;
}

uint32_t vb_rdmacm_device_smallest_queue(void)
{
	int count = 0;
	struct ibv_context **list = rdma_get_devices(&count);
	uint32_t smallest = 0;

	if (list != NULL)
		rdma_free_devices(list);
	vb_mutex_lock(&devices_lock);
	for (struct vb_rdmacm_device *device = devices; device != NULL; device = device->next)
		if (smallest == 0 || device->max_qp_wr < smallest)
			smallest = device->max_qp_wr;
	vb_mutex_unlock(&devices_lock);
	return smallest;
}

VB_EXPORT struct ibv_context **rdma_get_devices(int *num_devices)
{
	VB_UNCANCELLED;
	struct ibv_context **contexts = NULL;
	struct ibv_device **list;
	int count = 0, opened = 0;

	list = ibv_get_device_list(&count);
	if (list == NULL)
		goto out;
	contexts = calloc((size_t)count + 1, sizeof(*contexts));
	for (int i = 0; contexts != NULL && i < count; i++) {
		struct vb_rdmacm_device *device;

		vb_mutex_lock(&devices_lock);
		if (get_device(list[i], &device) == 0)
			contexts[opened++] = device->context;
		vb_mutex_unlock(&devices_lock);
	}
	ibv_free_device_list(list);
	if (opened == 0) {
		free(contexts);
		contexts = NULL;
		errno = ENODEV;
	}
out:
	if (num_devices != NULL)
		*num_devices = opened;
	return contexts;
}

VB_EXPORT void rdma_free_devices(struct ibv_context **list)
{
	VB_UNCANCELLED;
	free(list);
}
