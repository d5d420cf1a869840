/* SPDX-License-Identifier: MIT
 *
 * The id table: every communication id of the host, found by its own number, by its peer's number, and by its peer's
 * QP. Numbers are drawn at random: neither another process nor a host off the path can guess one. Peers choose what the
 * second and third tables hash, so a secret goes into the hash.
 */
#include <assert.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "connect/connection.h"

enum { FIRST_BUCKETS = 256 };

static uint32_t mix(uint32_t a, uint32_t b)
{
	uint64_t x = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15ull;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ull;
	return (uint32_t)(x >> 32);
}

static uint32_t bucket_of(const struct vb_connect *connect, uint32_t key)
{
	return mix(key, connect->secret) & (connect->buckets - 1);
}

bool vb_connection_is_sidr(const struct vb_connection *connection)
{
	return connection->qp_type == IBV_QPT_UD;
}

static void chain(struct vb_connection **head, struct vb_connection *connection, size_t link)
{
	memcpy((char *)connection + link, head, sizeof(*head));
	*head = connection;
}

static void unchain(struct vb_connection **head, struct vb_connection *connection, size_t link)
{
	while (*head != connection) {
		assert(*head);
		head = (struct vb_connection **)(void *)((char *)*head + link);
	}
	memcpy(head, (char *)connection + link, sizeof(*head));
}

#define LINK(member) offsetof(struct vb_connection, member)

/* Tables are as long as there are ids. Three arrays in one block, each entry a chain. */
static int grow(struct vb_connect *connect)
{
	uint32_t old = connect->buckets, buckets = old ? old * 2 : FIRST_BUCKETS;
	struct vb_connection **before = connect->by_id, **tables;

	tables = calloc(3 * (size_t)buckets, sizeof(struct vb_connection *));
	if (!tables)
		return -ENOMEM;
	connect->by_id = tables;
	connect->by_remote = tables + buckets;
	connect->by_qpn = tables + 2 * (size_t)buckets;
	connect->buckets = buckets;
	for (uint32_t i = 0; i < old; i++) {
		struct vb_connection *next;

		for (struct vb_connection *c = before[i]; c; c = next) {
			next = c->id_next;
			chain(&connect->by_id[bucket_of(connect, c->id)], c, LINK(id_next));
			if (c->has_remote_key)
				chain(&connect->by_remote[bucket_of(connect, c->remote_id)], c, LINK(remote_next));
			if (c->has_qpn_key)
				chain(&connect->by_qpn[bucket_of(connect, c->remote_qpn)], c, LINK(qpn_next));
		}
	}
	free(before);
	return 0;
}

static uint32_t choose_id(struct vb_connect *connect)
{
	uint32_t id;

	do {
		id = connect->host.random(connect->host.context);
	} while (id == 0 || vb_connection_find(connect, id));
	return id;
}

int vb_connection_create(struct vb_connect *connect, struct vb_connect_owner *owner, uint32_t wanted_id,
			 struct vb_connection **connection)
{
	struct vb_connection *c;

	if (owner->count >= VB_CONNECT_OWNER_IDS || (owner->quota && owner->quota->count >= owner->quota->most))
		return -ENOMEM;
	if (connect->count >= connect->buckets && grow(connect) != 0)
		return -ENOMEM;
	if (wanted_id != 0 && vb_connection_find(connect, wanted_id))
		return -EADDRINUSE;
	if (vb_connect_timers_reserve(&connect->timers, connect->count + 1) != 0)
		return -ENOMEM;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->id = wanted_id ? wanted_id : choose_id(connect);
	c->state = VB_CONNECT_IDLE;
	c->owner = owner;
	vb_list_append(&owner->ids, &c->owner_node);
	owner->count++;
	c->quota = owner->quota;
	if (c->quota)
		c->quota->count++;
	vb_list_init(&c->binding.node);
	chain(&connect->by_id[bucket_of(connect, c->id)], c, LINK(id_next));
	connect->count++;
	*connection = c;
	return 0;
}

void vb_connection_free(struct vb_connect *connect, struct vb_connection *connection)
{
	vb_connect_timer_cancel(&connect->timers, &connection->timer);
	vb_connect_ports_release(&connect->ports, &connection->binding);
	vb_connection_unkey(connect, connection);
	unchain(&connect->by_id[bucket_of(connect, connection->id)], connection, LINK(id_next));
	if (connection->owner) {
		vb_list_remove(&connection->owner_node);
		connection->owner->count--;
	}
	if (connection->quota)
		connection->quota->count--;
	connect->count--;
	free(connection);
}

struct vb_connection *vb_connection_find(struct vb_connect *connect, uint32_t id)
{
	struct vb_connection *c = connect->buckets ? connect->by_id[bucket_of(connect, id)] : NULL;

	while (c && c->id != id)
		c = c->id_next;
	return c;
}

struct vb_connection *vb_connection_find_remote(struct vb_connect *connect, bool is_sidr, uint32_t remote_id,
						uint64_t remote_guid, const uint8_t remote_gid[16])
{
	struct vb_connection *c = connect->buckets ? connect->by_remote[bucket_of(connect, remote_id)] : NULL;

	while (c && !(c->remote_id == remote_id && (c->remote_guid == remote_guid || c->remote_guid == 0) &&
		      vb_connection_is_sidr(c) == is_sidr && memcmp(c->path.destination, remote_gid, 16) == 0))
		c = c->remote_next;
	return c;
}

struct vb_connection *vb_connection_find_qpn(struct vb_connect *connect, uint32_t remote_qpn, uint64_t remote_guid,
					     const uint8_t remote_gid[16])
{
	struct vb_connection *c = connect->buckets ? connect->by_qpn[bucket_of(connect, remote_qpn)] : NULL;

	while (c && !(c->remote_qpn == remote_qpn && c->remote_guid == remote_guid &&
		      memcmp(c->path.destination, remote_gid, 16) == 0))
		c = c->qpn_next;
	return c;
}

void vb_connection_key_remote(struct vb_connect *connect, struct vb_connection *connection)
{
	assert(!connection->has_remote_key);
	chain(&connect->by_remote[bucket_of(connect, connection->remote_id)], connection, LINK(remote_next));
	connection->has_remote_key = true;
}

void vb_connection_key_qpn(struct vb_connect *connect, struct vb_connection *connection)
{
	assert(!connection->has_qpn_key);
	chain(&connect->by_qpn[bucket_of(connect, connection->remote_qpn)], connection, LINK(qpn_next));
	connection->has_qpn_key = true;
}

void vb_connection_unkey(struct vb_connect *connect, struct vb_connection *connection)
{
	if (connection->has_remote_key)
		unchain(&connect->by_remote[bucket_of(connect, connection->remote_id)], connection, LINK(remote_next));
	if (connection->has_qpn_key)
		unchain(&connect->by_qpn[bucket_of(connect, connection->remote_qpn)], connection, LINK(qpn_next));
	connection->has_remote_key = connection->has_qpn_key = false;
}
