/* SPDX-License-Identifier: MIT
 *
 * GID and P_Key tables, laid out as the profile says. An index keeps its GID while the address lives, so the table may have holes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "io/cancellation.h"
#include "verbs/context.h"
#include "verbs/explain_objects.h"
#include "verbs/export.h"
#include "verbs/private.h"
#include "wire/roce_packet.h"

static enum ibv_gid_type type_of(uint8_t framing)
{
	if (framing == VB_FRAMING_GLOBAL)
		return IBV_GID_TYPE_IB;
	return framing == VB_FRAMING_ETHERNET ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
}

/* 0; EINVAL: no such port or index; ENODATA: the index holds nothing now. */
static int read_entry(struct ibv_context *context, uint32_t port_num, uint32_t index, struct ibv_gid_entry *entry)
{
	static const uint8_t nothing[16];
	const struct vb_profile *profile;
	struct vb_device_info info;

	if (context == NULL || port_num != 1 || index >= vb_profile_of_context(context)->port.gid_table_length)
		return EINVAL;
	profile = vb_profile_of_context(context);
	vb_context_info(context, &info);
	if (profile->gid_layout == VB_GIDS_MAC) {
		*entry = (struct ibv_gid_entry){.port_num = port_num, .gid_type = IBV_GID_TYPE_IB};
		memcpy(entry->gid.raw, info.mac, sizeof(info.mac));
		return 0;
	}
	if (index >= info.gid_count || memcmp(info.gid[index].gid, nothing, sizeof(nothing)) == 0)
		return ENODATA;
	*entry = (struct ibv_gid_entry){
		.gid_index = index,
		.port_num = port_num,
		.gid_type = type_of(info.gid[index].framing),
		.ndev_ifindex = info.gid[index].framing == VB_FRAMING_GLOBAL ? 0 : info.interface_index,
	};
	memcpy(entry->gid.raw, info.gid[index].gid, sizeof(entry->gid.raw));
	return 0;
}

/* ibv_query_gid(3) is older than holes: there an empty entry reads as zeros. */
VB_EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	VB_UNCANCELLED;
	struct ibv_gid_entry entry;
	int error = index < 0 || gid == NULL ? EINVAL : read_entry(context, port_num, (uint32_t)index, &entry);

	if (error == ENODATA) {
		memset(gid, 0, sizeof(*gid));
		return 0;
	}
	if (error != 0) {
		vb_explain_no_entry("ibv_query_gid", port_num, index,
				    context == NULL ? 0 : vb_profile_of_context(context)->port.gid_table_length);
		errno = error;
		return -1;
	}
	*gid = entry.gid;
	return 0;
}
VB_EXPORT_COMPAT(ibv_query_gid);

VB_EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
				struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	VB_UNCANCELLED;
	struct ibv_gid_entry found;
	int error;

	if (flags != 0)
		return vb_fail_number(EOPNOTSUPP);
	if (entry == NULL)
		return vb_fail_number(EINVAL);
	error = read_entry(context, port_num, gid_index, &found);
	if (error != 0)
		return vb_fail_number(error);
	memset(entry, 0, entry_size);
	memcpy(entry, &found, entry_size < sizeof(found) ? entry_size : sizeof(found));
	return 0;
}

/* The number of entries, or a negative errno (ibv_query_gid_table(3)). */
VB_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries,
				       uint32_t flags, size_t entry_size)
{
	VB_UNCANCELLED;
	size_t count = 0;

	if (flags != 0)
		return -EOPNOTSUPP;
	if (context == NULL || entries == NULL)
		return -EINVAL;
	for (uint32_t index = 0; index < vb_profile_of_context(context)->port.gid_table_length; index++) {
		char *to = (char *)entries + count * entry_size;
		struct ibv_gid_entry found;

		if (read_entry(context, 1, index, &found) != 0)
			continue;
		if (count == max_entries)
			return -EINVAL;
		memset(to, 0, entry_size);
		memcpy(to, &found, entry_size < sizeof(found) ? entry_size : sizeof(found));
		count++;
	}
	return (ssize_t)count;
}

/* The private name ibv_devinfo uses, with the two-valued type of sysfs. */
VB_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, uint32_t *type)
{
	VB_UNCANCELLED;
	struct ibv_gid_entry entry;
	int error = read_entry(context, port_num, index, &entry);

	if (error != 0 && error != ENODATA) {
		errno = error;
		return -1;
	}
	*type = error == 0 && entry.gid_type != IBV_GID_TYPE_ROCE_V2 ? VB_SYSFS_GID_TYPE_IB_ROCE_V1 : VB_SYSFS_GID_TYPE_ROCE_V2;
	return 0;
}

static uint16_t pkey_at(struct ibv_context *context, uint32_t index)
{
	const uint16_t *pkeys = vb_context_of(context)->session->host.pkeys;

	/* RoCE annex A16.4.1: the default P_Key, full membership. */
	return pkeys == NULL ? VB_DEFAULT_PKEY : __atomic_load_n(&pkeys[index], __ATOMIC_RELAXED);
}

VB_EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	VB_UNCANCELLED;
	uint32_t length = context == NULL ? 0 : vb_profile_of_context(context)->port.pkey_table_length;

	if (pkey == NULL || port_num != 1 || index < 0 || (uint32_t)index >= length) {
		vb_explain_no_entry("ibv_query_pkey", port_num, index, length);
		errno = EINVAL;
		return -1;
	}
	*pkey = htons(pkey_at(context, (uint32_t)index));
	return 0;
}
VB_EXPORT_COMPAT(ibv_query_pkey);

VB_EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	VB_UNCANCELLED;
	uint32_t length = context == NULL || port_num != 1 ? 0 : vb_profile_of_context(context)->port.pkey_table_length;

	for (uint32_t index = 0; index < length; index++)
		if (pkey_at(context, index) == ntohs(pkey))
			return (int)index;
	errno = EINVAL;
	return -1;
}
