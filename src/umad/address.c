/* SPDX-License-Identifier: MIT
 *
 * Reading and writing the header of a MAD in a program's buffer.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/umad.h>

#include "umad/ports.h"

void *umad_get_mad(void *umad)
{
	return ((struct ib_user_mad *)umad)->data;
}

size_t umad_size(void)
{
	return sizeof(struct ib_user_mad);
}

int umad_status(void *umad)
{
	return (int)((struct ib_user_mad *)umad)->status;
}

ib_mad_addr_t *umad_get_mad_addr(void *umad)
{
	return &((struct ib_user_mad *)umad)->addr;
}

int umad_set_grh(void *umad, void *mad_addr)
{
	struct ib_user_mad *mad = umad;
	const struct ib_mad_addr *address = mad_addr;

	mad->addr.grh_present = mad_addr != NULL;
	if (!mad_addr)
		return 0;
	memcpy(mad->addr.gid, address->gid, sizeof(mad->addr.gid));
	mad->addr.flow_label = htobe32(address->flow_label);
	mad->addr.hop_limit = address->hop_limit;
	mad->addr.traffic_class = address->traffic_class;
	return 0;
}

int umad_set_addr_net(void *umad, __be16 dlid, __be32 dqp, int sl, __be32 qkey)
{
	struct ib_user_mad *mad = umad;

	mad->addr.qpn = dqp;
	mad->addr.lid = dlid;
	mad->addr.qkey = qkey;
	mad->addr.sl = (uint8_t)sl;
	return 0;
}

int umad_set_addr(void *umad, int dlid, int dqp, int sl, int qkey)
{
	return umad_set_addr_net(umad, htobe16((uint16_t)dlid), htobe32((uint32_t)dqp), sl, htobe32((uint32_t)qkey));
}

int umad_set_pkey(void *umad, int pkey_index)
{
	((struct ib_user_mad *)umad)->addr.pkey_index = (uint16_t)pkey_index;
	return 0;
}

int umad_get_pkey(void *umad)
{
	return ((struct ib_user_mad *)umad)->addr.pkey_index;
}

int umad_debug(int level)
{
	if (level >= 0)
		vb_umad_debug_level = level;
	return vb_umad_debug_level;
}

void umad_addr_dump(ib_mad_addr_t *addr)
{
	printf("qpn %u qkey 0x%x lid %u sl %u\n"
	       "grh_present %u gid_index %u hop_limit %u traffic_class %u flow_label 0x%x pkey_index 0x%x\nGID 0x",
	       be32toh(addr->qpn), be32toh(addr->qkey), be16toh(addr->lid), addr->sl, addr->grh_present, addr->gid_index, addr->hop_limit,
	       addr->traffic_class, be32toh(addr->flow_label), addr->pkey_index);
	for (size_t i = 0; i < sizeof(addr->gid); i++)
		printf("%02x", addr->gid[i]);
	printf("\n");
}

void umad_dump(void *umad)
{
	struct ib_user_mad *mad = umad;

	printf("agent id %u status %x timeout %u\n", mad->agent_id, mad->status, mad->timeout_ms);
	umad_addr_dump(&mad->addr);
}
