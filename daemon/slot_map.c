/* SPDX-License-Identifier: MIT
 *
 * See slot_map.h. The arrays are what we want to be in the kernel; every change of them is one batch.
 */
#include "daemon/slot_map.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>

#include "base/log.h"
#include "daemon/nftables.h"
#include "io/descriptor.h"
#include "wire/path.h"

#define TABLE "verbena"
#define SLOTS "slots"
#define PORTS "ports"
#define OWNERS "owners"

enum {
	SLOTS_ID = 1, PORTS_ID, OWNERS_ID, /* within a batch */
	/* nft(8)'s numbers for these types: how it prints them. */
	TYPE_INTEGER = 4, TYPE_INET_SERVICE = 13, TYPE_UID = 24,
	PRIORITY_LAST = 400,               /* behind "security", 50, and "srcnat" and helpers, 300 */
	PRIORITY_RAW = -300,
	UDP_SOURCE = 0, UDP_DESTINATION = 2, UDP_CHECKSUM = 6,
	QPN_OFFSET = 13,                   /* behind the UDP header's beginning: BTH bytes 5 and 6 */
	SLOT_SHIFT = 16 - VB_DAEMON_SLOT_BITS,
};

void vb_slot_map_init(struct vb_slot_map *map)
{
	memset(map, 0, sizeof(*map));
	map->fd = map->watch_fd = -1;
}

/* ---- expressions of rules: each works on register 1 ---- */

struct expression {
	size_t element, data;
};

static struct expression begin_expression(struct vb_nft_batch *batch, const char *name)
{
	struct expression expression = {.element = vb_nft_nest(batch, NFTA_LIST_ELEM)};

	vb_nft_put_text(batch, NFTA_EXPR_NAME, name);
	expression.data = vb_nft_nest(batch, NFTA_EXPR_DATA);
	return expression;
}

static void end_expression(struct vb_nft_batch *batch, struct expression expression)
{
	vb_nft_unnest(batch, expression.data);
	vb_nft_unnest(batch, expression.element);
}

static void put_compare(struct vb_nft_batch *batch, enum nft_cmp_ops how, const void *bytes, size_t length)
{
	struct expression compare = begin_expression(batch, "cmp");

	vb_nft_put_u32(batch, NFTA_CMP_SREG, NFT_REG_1);
	vb_nft_put_u32(batch, NFTA_CMP_OP, how);
	vb_nft_put_data(batch, NFTA_CMP_DATA, bytes, length);
	end_expression(batch, compare);
}

static void put_is_udp(struct vb_nft_batch *batch)
{
	static const uint8_t udp = IPPROTO_UDP;
	struct expression meta = begin_expression(batch, "meta");

	vb_nft_put_u32(batch, NFTA_META_KEY, NFT_META_L4PROTO);
	vb_nft_put_u32(batch, NFTA_META_DREG, NFT_REG_1);
	end_expression(batch, meta);
	put_compare(batch, NFT_CMP_EQ, &udp, sizeof(udp));
}

/* Two bytes of the UDP header, or of what follows it. */
static void put_load(struct vb_nft_batch *batch, uint32_t offset)
{
	struct expression payload = begin_expression(batch, "payload");

	vb_nft_put_u32(batch, NFTA_PAYLOAD_DREG, NFT_REG_1);
	vb_nft_put_u32(batch, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_TRANSPORT_HEADER);
	vb_nft_put_u32(batch, NFTA_PAYLOAD_OFFSET, offset);
	vb_nft_put_u32(batch, NFTA_PAYLOAD_LEN, 2);
	end_expression(batch, payload);
}

static void put_store(struct vb_nft_batch *batch, uint32_t offset, bool has_checksum)
{
	struct expression payload = begin_expression(batch, "payload");

	vb_nft_put_u32(batch, NFTA_PAYLOAD_SREG, NFT_REG_1);
	vb_nft_put_u32(batch, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_TRANSPORT_HEADER);
	vb_nft_put_u32(batch, NFTA_PAYLOAD_OFFSET, offset);
	vb_nft_put_u32(batch, NFTA_PAYLOAD_LEN, 2);
	vb_nft_put_u32(batch, NFTA_PAYLOAD_CSUM_TYPE, has_checksum ? NFT_PAYLOAD_CSUM_INET : NFT_PAYLOAD_CSUM_NONE);
	if (has_checksum)
		vb_nft_put_u32(batch, NFTA_PAYLOAD_CSUM_OFFSET, UDP_CHECKSUM);
	end_expression(batch, payload);
}

static void put_mask(struct vb_nft_batch *batch, uint16_t mask)
{
	struct expression bitwise = begin_expression(batch, "bitwise");
	uint16_t big_endian = htons(mask), nothing = 0;

	vb_nft_put_u32(batch, NFTA_BITWISE_SREG, NFT_REG_1);
	vb_nft_put_u32(batch, NFTA_BITWISE_DREG, NFT_REG_1);
	vb_nft_put_u32(batch, NFTA_BITWISE_LEN, sizeof(big_endian));
	vb_nft_put_data(batch, NFTA_BITWISE_MASK, &big_endian, sizeof(big_endian));
	vb_nft_put_data(batch, NFTA_BITWISE_XOR, &nothing, sizeof(nothing));
	end_expression(batch, bitwise);
}

/* Of a set, or of a map, whose data replace the key. */
static void put_lookup(struct vb_nft_batch *batch, const char *set, uint32_t id, bool is_map)
{
	struct expression lookup = begin_expression(batch, "lookup");

	vb_nft_put_text(batch, NFTA_LOOKUP_SET, set);
	vb_nft_put_u32(batch, NFTA_LOOKUP_SET_ID, id);
	vb_nft_put_u32(batch, NFTA_LOOKUP_SREG, NFT_REG_1);
	if (is_map)
		vb_nft_put_u32(batch, NFTA_LOOKUP_DREG, NFT_REG_1);
	end_expression(batch, lookup);
}

static void put_number(struct vb_nft_batch *batch, uint16_t big_endian)
{
	struct expression immediate = begin_expression(batch, "immediate");

	vb_nft_put_u32(batch, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	vb_nft_put_data(batch, NFTA_IMMEDIATE_DATA, &big_endian, sizeof(big_endian));
	end_expression(batch, immediate);
}

/* ---- the table ---- */

static void put_table(struct vb_nft_batch *batch, unsigned type)
{
	vb_nft_message(batch, type, type == NFT_MSG_NEWTABLE ? NLM_F_CREATE : 0);
	vb_nft_put_text(batch, NFTA_TABLE_NAME, TABLE);
}

/* What nft(8) notes for itself with a set: it prints the table by it, in words that it reads again. Many keep their firewall
 * by saving what it prints, ours included, and a table that it does not read would keep theirs from being loaded. Type,
 * length and value, numbers in the host's byte order (libnftnl: udata.h, its enum nftnl_udata_set_types; nft: udata.c of
 * each expression). */
struct note {
	uint8_t bytes[96];
	uint8_t length;
};

enum {
	NOTE_KEY_ORDER = 0, NOTE_DATA_ORDER = 1, NOTE_KEY_TYPEOF = 3, NOTE_DATA_TYPEOF = 4,
	ORDER_HOST = 1, ORDER_BIG_ENDIAN = 2,
	EXPRESSION_KIND = 0, EXPRESSION_DATA = 1, EXPRESSION_PAYLOAD = 7,
	PAYLOAD_PROTOCOL = 0, PAYLOAD_FIELD = 1, PAYLOAD_BASE = 2, PAYLOAD_OFFSET = 3, PAYLOAD_BITS = 4,
	BASE_TRANSPORT = 3, PROTOCOL_UNKNOWN = 0, PROTOCOL_UDP = 6, FIELD_UNKNOWN = 0, FIELD_DESTINATION = 2,
};

static void note_number(struct note *note, uint8_t type, uint32_t number)
{
	note->bytes[note->length] = type;
	note->bytes[note->length + 1] = sizeof(number);
	memcpy(&note->bytes[note->length + 2], &number, sizeof(number));
	note->length += 2 + sizeof(number);
}

static void note_within(struct note *note, uint8_t type, const struct note *inner)
{
	note->bytes[note->length] = type;
	note->bytes[note->length + 1] = inner->length;
	memcpy(&note->bytes[note->length + 2], inner->bytes, inner->length);
	note->length = (uint8_t)(note->length + 2 + inner->length);
}

static void note_payload(struct note *note, uint8_t type, const struct note *field)
{
	struct note expression = {.length = 0};

	note_number(&expression, EXPRESSION_KIND, EXPRESSION_PAYLOAD);
	note_within(&expression, EXPRESSION_DATA, field);
	note_within(note, type, &expression);
}

/* typeof @th,104,16 : udp dport */
static void note_slots(struct note *note)
{
	struct note key = {.length = 0}, data = {.length = 0};

	note_number(note, NOTE_KEY_ORDER, ORDER_BIG_ENDIAN);
	note_number(note, NOTE_DATA_ORDER, ORDER_BIG_ENDIAN);
	note_number(&key, PAYLOAD_PROTOCOL, PROTOCOL_UNKNOWN);
	note_number(&key, PAYLOAD_FIELD, FIELD_UNKNOWN);
	note_number(&key, PAYLOAD_BASE, BASE_TRANSPORT);
	note_number(&key, PAYLOAD_OFFSET, 8 * QPN_OFFSET);
	note_number(&key, PAYLOAD_BITS, 16);
	note_payload(note, NOTE_KEY_TYPEOF, &key);
	note_number(&data, PAYLOAD_PROTOCOL, PROTOCOL_UDP);
	note_number(&data, PAYLOAD_FIELD, FIELD_DESTINATION);
	note_payload(note, NOTE_DATA_TYPEOF, &data);
}

/* `data_length` 0: a set. */
static void put_set(struct vb_nft_batch *batch, const char *name, uint32_t id, uint32_t key_type, uint32_t data_type,
		    uint32_t data_length, const struct note *note)
{
	vb_nft_message(batch, NFT_MSG_NEWSET, NLM_F_CREATE);
	vb_nft_put_text(batch, NFTA_SET_TABLE, TABLE);
	vb_nft_put_text(batch, NFTA_SET_NAME, name);
	vb_nft_put_u32(batch, NFTA_SET_FLAGS, data_length > 0 ? NFT_SET_MAP : 0);
	vb_nft_put_u32(batch, NFTA_SET_KEY_TYPE, key_type);
	vb_nft_put_u32(batch, NFTA_SET_KEY_LEN, sizeof(uint16_t));
	if (data_length > 0) {
		vb_nft_put_u32(batch, NFTA_SET_DATA_TYPE, data_type);
		vb_nft_put_u32(batch, NFTA_SET_DATA_LEN, data_length);
	}
	vb_nft_put_u32(batch, NFTA_SET_ID, id);
	vb_nft_put(batch, NFTA_SET_USERDATA, note->bytes, note->length);
}

static void put_sets(struct vb_nft_batch *batch)
{
	struct note slots = {.length = 0}, ports = {.length = 0}, owners = {.length = 0};

	note_slots(&slots);
	put_set(batch, SLOTS, SLOTS_ID, TYPE_INTEGER, TYPE_INET_SERVICE, sizeof(uint16_t), &slots);
	note_number(&ports, NOTE_KEY_ORDER, ORDER_BIG_ENDIAN);
	put_set(batch, PORTS, PORTS_ID, TYPE_INET_SERVICE, 0, 0, &ports);
	note_number(&owners, NOTE_KEY_ORDER, ORDER_BIG_ENDIAN);
	note_number(&owners, NOTE_DATA_ORDER, ORDER_HOST);
	put_set(batch, OWNERS, OWNERS_ID, TYPE_INET_SERVICE, TYPE_UID, sizeof(uint32_t), &owners);
}

static void put_chain(struct vb_nft_batch *batch, const char *name, uint32_t hook_number, int32_t priority)
{
	size_t hook;

	vb_nft_message(batch, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	vb_nft_put_text(batch, NFTA_CHAIN_TABLE, TABLE);
	vb_nft_put_text(batch, NFTA_CHAIN_NAME, name);
	vb_nft_put_text(batch, NFTA_CHAIN_TYPE, "filter");
	vb_nft_put_u32(batch, NFTA_CHAIN_POLICY, NF_ACCEPT);
	hook = vb_nft_nest(batch, NFTA_CHAIN_HOOK);
	vb_nft_put_u32(batch, NFTA_HOOK_HOOKNUM, hook_number);
	vb_nft_put_u32(batch, NFTA_HOOK_PRIORITY, (uint32_t)priority);
	vb_nft_unnest(batch, hook);
}

static size_t begin_rule(struct vb_nft_batch *batch, const char *chain)
{
	vb_nft_message(batch, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	vb_nft_put_text(batch, NFTA_RULE_TABLE, TABLE);
	vb_nft_put_text(batch, NFTA_RULE_CHAIN, chain);
	return vb_nft_nest(batch, NFTA_RULE_EXPRESSIONS);
}

/* The kernel would make a wrong checksum of none, and rxe sends none: such packets have a rule of their own. */
static void put_input_rule(struct vb_nft_batch *batch, bool has_checksum)
{
	uint16_t roce_port = htons(VB_ROCE_PORT), none = 0;
	size_t rule = begin_rule(batch, "input");

	put_is_udp(batch);
	put_load(batch, UDP_DESTINATION);
	put_compare(batch, NFT_CMP_EQ, &roce_port, sizeof(roce_port));
	put_load(batch, UDP_CHECKSUM);
	put_compare(batch, has_checksum ? NFT_CMP_NEQ : NFT_CMP_EQ, &none, sizeof(none));
	put_load(batch, QPN_OFFSET);
	put_mask(batch, (uint16_t)(0xffffu << SLOT_SHIFT));
	put_lookup(batch, SLOTS, SLOTS_ID, true);
	put_store(batch, UDP_DESTINATION, has_checksum);
	vb_nft_unnest(batch, rule);
}

static void put_output_rule(struct vb_nft_batch *batch)
{
	size_t rule = begin_rule(batch, "output");

	put_is_udp(batch);
	put_load(batch, UDP_SOURCE);
	put_lookup(batch, PORTS, PORTS_ID, false);
	put_number(batch, htons(VB_ROCE_PORT));
	put_store(batch, UDP_SOURCE, true);
	vb_nft_unnest(batch, rule);
}

/* ---- elements ---- */

static void put_element(struct vb_nft_batch *batch, unsigned type, const char *set, uint16_t key, const void *data,
			size_t length)
{
	uint16_t big_endian = htons(key);
	size_t list, element;

	vb_nft_message(batch, type, type == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0);
	vb_nft_put_text(batch, NFTA_SET_ELEM_LIST_TABLE, TABLE);
	vb_nft_put_text(batch, NFTA_SET_ELEM_LIST_SET, set);
	list = vb_nft_nest(batch, NFTA_SET_ELEM_LIST_ELEMENTS);
	element = vb_nft_nest(batch, NFTA_LIST_ELEM);
	vb_nft_put_data(batch, NFTA_SET_ELEM_KEY, &big_endian, sizeof(big_endian));
	if (data)
		vb_nft_put_data(batch, NFTA_SET_ELEM_DATA, data, length);
	vb_nft_unnest(batch, element);
	vb_nft_unnest(batch, list);
}

static void put_slot(struct vb_nft_batch *batch, unsigned type, uint32_t slot, uint16_t port)
{
	uint16_t big_endian = htons(port);

	put_element(batch, type, SLOTS, (uint16_t)(slot << SLOT_SHIFT), type == NFT_MSG_NEWSETELEM ? &big_endian : NULL,
		    sizeof(big_endian));
}

static void put_owner(struct vb_nft_batch *batch, const struct vb_slot_map_port *entry)
{
	uint32_t uid = entry->uid;

	put_element(batch, NFT_MSG_NEWSETELEM, PORTS, entry->port, NULL, 0);
	put_element(batch, NFT_MSG_NEWSETELEM, OWNERS, entry->port, &uid, sizeof(uid));
}

static int write_table(struct vb_slot_map *map)
{
	struct vb_nft_batch batch;

	vb_nft_begin(&batch);
	/* Deleting what is not there would be an error. */
	put_table(&batch, NFT_MSG_NEWTABLE);
	put_table(&batch, NFT_MSG_DELTABLE);
	put_table(&batch, NFT_MSG_NEWTABLE);
	put_sets(&batch);
	put_chain(&batch, "input", NF_INET_LOCAL_IN, PRIORITY_LAST);
	put_chain(&batch, "output", NF_INET_LOCAL_OUT, PRIORITY_RAW);
	put_input_rule(&batch, true);
	put_input_rule(&batch, false);
	put_output_rule(&batch);
	for (unsigned i = 0; i < VB_SLOT_MAP_PORTS; i++)
		if (map->port[i].port != 0)
			put_owner(&batch, &map->port[i]);
	for (unsigned slot = 1; slot < VB_DAEMON_SLOTS; slot++)
		if (map->slot[slot] != 0)
			put_slot(&batch, NFT_MSG_NEWSETELEM, slot, map->slot[slot]);
	return vb_nft_commit(&batch, map->fd);
}

static void take_slot(void *context, const void *key, size_t key_length, const void *data, size_t data_length)
{
	struct vb_slot_map *map = context;
	uint16_t slot, port;

	if (key_length != sizeof(slot) || data_length != sizeof(port))
		return;
	memcpy(&slot, key, sizeof(slot));
	memcpy(&port, data, sizeof(port));
	map->slot[ntohs(slot) >> SLOT_SHIFT] = ntohs(port);
}

static struct vb_slot_map_port *find_port(struct vb_slot_map *map, uint16_t port)
{
	for (unsigned i = 0; i < VB_SLOT_MAP_PORTS; i++)
		if (map->port[i].port == port)
			return &map->port[i];
	return NULL;
}

static void take_owner(void *context, const void *key, size_t key_length, const void *data, size_t data_length)
{
	struct vb_slot_map_port *entry = find_port(context, 0);
	uint32_t uid;

	if (!entry || key_length != sizeof(entry->port) || data_length != sizeof(uid))
		return;
	memcpy(&entry->port, key, sizeof(entry->port));
	memcpy(&uid, data, sizeof(uid));
	entry->port = ntohs(entry->port);
	entry->uid = uid;
}

/* What the kernel has. 0 or -errno: -ENOENT there is no table. */
static int read_table(int fd, struct vb_slot_map *into)
{
	int error;

	vb_slot_map_init(into);
	error = vb_nft_elements(fd, TABLE, OWNERS, take_owner, into);
	return error == 0 ? vb_nft_elements(fd, TABLE, SLOTS, take_slot, into) : error;
}

int vb_slot_map_open(struct vb_slot_map *map)
{
	int fd = vb_nft_open(false), watch_fd = fd < 0 ? fd : vb_nft_open(true), error;

	if (watch_fd < 0) {
		if (fd >= 0)
			vb_descriptor_close(fd);
		return watch_fd;
	}
	error = read_table(fd, map);
	if (error != 0 && error != -ENOENT) {
		vb_descriptor_close(fd);
		vb_descriptor_close(watch_fd);
		vb_slot_map_init(map);
		return error;
	}
	map->fd = fd;
	map->watch_fd = watch_fd;
	map->published = error == 0;
	return 0;
}

void vb_slot_map_close(struct vb_slot_map *map)
{
	if (map->fd >= 0) {
		vb_descriptor_close(map->fd);
		vb_descriptor_close(map->watch_fd);
	}
	vb_slot_map_init(map);
}

int vb_slot_map_publish(struct vb_slot_map *map)
{
	int error;

	if (map->published)
		return 0;
	if (map->fd < 0)
		return -EOPNOTSUPP;
	error = write_table(map);
	map->published = error == 0;
	return error;
}

int vb_slot_map_set(struct vb_slot_map *map, uint32_t slot, uint16_t port)
{
	uint16_t before = map->slot[slot];
	struct vb_nft_batch batch;
	int error = 0;

	if (before == port)
		return 0;
	if (map->published) {
		vb_nft_begin(&batch);
		if (before != 0)
			put_slot(&batch, NFT_MSG_DELSETELEM, slot, before);
		if (port != 0)
			put_slot(&batch, NFT_MSG_NEWSETELEM, slot, port);
		error = vb_nft_commit(&batch, map->fd);
		/* Another program was at it: all of it again, below. */
		if (error == -ENOENT || error == -EEXIST) {
			map->slot[slot] = port;
			error = write_table(map);
		}
	}
	map->slot[slot] = error == 0 ? port : before;
	return error;
}

int vb_slot_map_own(struct vb_slot_map *map, uint16_t port, uid_t uid)
{
	struct vb_slot_map_port *entry = find_port(map, port);
	struct vb_slot_map_port added = {.port = port, .uid = uid};
	struct vb_nft_batch batch;
	int error = 0;

	if (entry)
		return entry->uid == uid ? 0 : -EEXIST;
	entry = find_port(map, 0);
	if (!entry)
		return -EUSERS;
	if (map->published) {
		vb_nft_begin(&batch);
		put_owner(&batch, &added);
		error = vb_nft_commit(&batch, map->fd);
	}
	if (error == 0)
		*entry = added;
	return error;
}

uint16_t vb_slot_map_port_of(const struct vb_slot_map *map, uid_t uid)
{
	for (unsigned i = 0; i < VB_SLOT_MAP_PORTS; i++)
		if (map->port[i].port != 0 && map->port[i].uid == uid)
			return map->port[i].port;
	return 0;
}

bool vb_slot_map_is_owned(const struct vb_slot_map *map, uint16_t port)
{
	for (unsigned i = 0; i < VB_SLOT_MAP_PORTS; i++)
		if (map->port[i].port == port)
			return true;
	return false;
}

static bool has_same_ports(const struct vb_slot_map *one, struct vb_slot_map *other)
{
	for (unsigned i = 0; i < VB_SLOT_MAP_PORTS; i++) {
		struct vb_slot_map_port *entry = one->port[i].port != 0 ? find_port(other, one->port[i].port) : NULL;

		if (one->port[i].port != 0 && (!entry || entry->uid != one->port[i].uid))
			return false;
	}
	return true;
}

void vb_slot_map_check(struct vb_slot_map *map)
{
	uint8_t bytes[4096];
	struct vb_slot_map there;
	int error;

	for (unsigned i = 0; i < 4096; i++)
		if (vb_descriptor_receive(map->watch_fd, bytes, sizeof(bytes)) == -EAGAIN)
			break;
	map->damaged = false;
	if (!map->published)
		return;
	error = read_table(map->fd, &there);
	if (error == 0 && memcmp(there.slot, map->slot, sizeof(map->slot)) == 0 && has_same_ports(map, &there))
		return;
	error = write_table(map);
	map->damaged = error != 0;
	vb_log_limited(error == 0 ? VB_LOG_WARN : VB_LOG_ERROR, "somebody changed the table inet " TABLE " of nftables: %s",
		       error == 0 ? "put back" : strerror(-error));
}
