/* SPDX-License-Identifier: MIT
 *
 * RoCE has no subnet administrator to ask: the path record is filled from what is known, with the values that the
 * kernel's rdma_cm uses. InfiniBand has one, and verbenad has asked it.
 */
#include "rdmacm/path.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "rdmacm/device.h"
#include "wire/mtu.h"
#include "wire/roce_packet.h"

enum {
	SELECT_EXACTLY = 2,              /* IBA 15.2.5.16: path record selectors */
	PACKET_LIFETIME = 16,            /* 4.096 us * 2^16: rdma_cm's guess for Ethernet */
	HOP_LIMIT = 64,
	LONGEST_TIMEOUT = 31,
};

/* rdma_cm's recipe: both ends derive the same label, and with it the UDP source port, from the ports of the
 * connection. */
static uint32_t flow_label_of(uint16_t source_port, uint16_t destination_port)
{
	return ((uint32_t)source_port * 31 + destination_port) & 0xfffff;
}

void vb_rdmacm_path_fill(struct vb_rdmacm_id *id)
{
	struct ibv_sa_path_rec *path = &id->path;

	memset(path, 0, sizeof(*path));
	memcpy(path->sgid.raw, id->source.gid, 16);
	memcpy(path->dgid.raw, id->destination.gid, 16);
	path->flow_label = htonl(flow_label_of(id->source.port, id->destination.port));
	path->hop_limit = HOP_LIMIT;
	path->traffic_class = id->has_traffic_class ? id->traffic_class : 0;
	path->reversible = 1;
	path->numb_path = 1;
	path->pkey = htons(0xffff);
	path->mtu_selector = SELECT_EXACTLY;
	path->mtu = vb_rdmacm_device_mtu(id->device);
	path->rate_selector = SELECT_EXACTLY;
	path->rate = IBV_RATE_10_GBPS;
	path->packet_life_time_selector = SELECT_EXACTLY;
	path->packet_life_time = PACKET_LIFETIME;
	id->id.route.path_rec = path;
	id->id.route.num_paths = 1;
}

void vb_rdmacm_path_learn(struct vb_rdmacm_id *id, const struct vb_path *path)
{
	id->route = *path;
	memcpy(id->path.sgid.raw, path->source, 16);
	memcpy(id->path.dgid.raw, path->destination, 16);
	id->path.slid = htons(path->slid);
	id->path.dlid = htons(path->dlid);
	id->path.sl = path->sl;
	id->path.hop_limit = path->hop_limit;
	id->path.flow_label = htonl(path->flow_label);
	id->path.traffic_class = path->traffic_class;
	id->path.pkey = htons(path->pkey != 0 ? path->pkey : VB_DEFAULT_PKEY);
	id->id.route.addr.addr.ibaddr.pkey = id->path.pkey;
	memcpy(id->id.route.addr.addr.ibaddr.sgid.raw, path->source, 16);
	memcpy(id->id.route.addr.addr.ibaddr.dgid.raw, path->destination, 16);
}

void vb_rdmacm_path_take(struct vb_rdmacm_id *id, const struct vb_cm_event *event)
{
	vb_rdmacm_path_fill(id);
	vb_rdmacm_path_learn(id, &event->path);
	id->path.mtu = event->conn.path_mtu;
	id->path.packet_life_time = event->conn.ack_timeout;
}

/* As the kernel's rdma_cm: of several, the first that leads there and back and is for messages as well. NULL: there is none. */
static const struct ibv_path_record *find_usable(const struct ibv_path_data *data, size_t count)
{
	const uint32_t wanted = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;

	for (size_t i = 0; i < count; i++)
		if (data[i].flags == wanted)
			return &data[i].path;
	return NULL;
}

/* No GID stands for the one that is known. */
static bool is_same_gid(const union ibv_gid *given, const uint8_t known[16])
{
	static const union ibv_gid none;

	return memcmp(given, &none, sizeof(none)) == 0 || memcmp(given, known, 16) == 0;
}

int vb_rdmacm_path_give(struct vb_rdmacm_id *id, const struct ibv_path_data *data, size_t count)
{
	enum { FIRST_OF_GROUPS = 0xc000, SIX_BITS = 0x3f, SL_BITS = 0x0f, LABEL_BITS = 0xfffff };
	const struct ibv_path_record *record = find_usable(data, count);
	struct vb_path path = id->route;
	uint32_t label_and_hops;

	if (record == NULL || record->dlid == 0 || ntohs(record->dlid) >= FIRST_OF_GROUPS || vb_mtu_bytes(record->mtu & SIX_BITS) == 0 ||
	    !is_same_gid(&record->sgid, path.source) || !is_same_gid(&record->dgid, path.destination))
		return -EINVAL;
	label_and_hops = ntohl(record->flowlabel_hoplimit);
	path.framing = VB_FRAMING_GLOBAL;
	path.slid = ntohs(record->slid);
	path.dlid = ntohs(record->dlid);
	path.sl = ntohs(record->qosclass_sl) & SL_BITS;
	path.hop_limit = (uint8_t)label_and_hops;
	path.flow_label = label_and_hops >> 8 & LABEL_BITS;
	path.traffic_class = record->tclass;
	if (record->pkey != 0)
		path.pkey = ntohs(record->pkey);
	vb_rdmacm_path_fill(id);
	vb_rdmacm_path_learn(id, &path);
	id->path.mtu = record->mtu & SIX_BITS;
	id->path.packet_life_time = record->packetlifetime & SIX_BITS;
	return 0;
}

uint8_t vb_rdmacm_path_ack_timeout(const struct vb_rdmacm_id *id)
{
	bool is_told = id->route.framing == VB_FRAMING_GLOBAL && id->path.packet_life_time != 0; /* by the subnet administration */
	uint8_t lifetime = is_told ? id->path.packet_life_time : PACKET_LIFETIME;

	/* IBA 12.7.34: twice the packet lifetime, and the receiver's delay on top, which is less. Five bits. */
	return id->has_ack_timeout ? id->ack_timeout : lifetime < LONGEST_TIMEOUT ? (uint8_t)(lifetime + 1) : LONGEST_TIMEOUT;
}
