/* SPDX-License-Identifier: MIT */
#include "daemon/subnet_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/log.h"
#include "fabric/adapter.h"
#include "wire/device_kind.h"
#include "wire/mad.h"
#include "wire/mtu.h"
#include "wire/roce_packet.h"
#include "wire/sa_records.h"

#define RENEW_EVERY VB_SECONDS(40)
#define REGISTER_PATIENCE VB_SECONDS(1)
/* Of service ids those that begin with these bytes are "locally administered" (IBA A3.2.3.3). */
#define SERVICE_ID_PREFIX 0x0256420000000000ull

enum { LEASE_SECONDS = 120, TRIES = 4, SEND = 1 << VB_MAD_SEND, CM_CLASS_VERSION = 2, MOST_QUESTIONS = 4096, MOST_MEMBERS = 4096 };

struct question {
	struct vb_list node;
	uint32_t serial;
	struct vb_subnet_answer answer;    /* as far as it is known; no owner: the group was left, and none is to be told */
};

/* An id that has joined a group. */
struct member {
	struct vb_list node;
	const void *owner;
	uint32_t id, qkey;
	uint16_t pkey;
	uint8_t mgid[16];
	bool renews;                       /* for all that are in the group: one of them does */
};

void vb_subnet_client_init(struct vb_subnet_client *client, struct vb_adapter *adapter, const struct vb_subnet_host *host)
{
	*client = (struct vb_subnet_client){
		.adapter = adapter, .host = host, .sa_agent = -1, .cm_agent = -1, .renew = VB_TIME_NEVER};
	vb_list_init(&client->questions);
	vb_list_init(&client->members);
}

static void forget_member(struct vb_subnet_client *client, struct member *member)
{
	vb_list_remove(&member->node);
	client->joined--;
	free(member);
}

static void forget(struct vb_subnet_client *client, struct question *question)
{
	vb_list_remove(&question->node);
	client->asked--;
	free(question);
}

void vb_subnet_client_fini(struct vb_subnet_client *client)
{
	VB_LIST_FOR_EACH(node, &client->questions)
		forget(client, vb_container_of(node, struct question, node));
	VB_LIST_FOR_EACH(node, &client->members)
		forget_member(client, vb_container_of(node, struct member, node));
}

static void finish(struct vb_subnet_client *client, struct question *question, int error)
{
	struct vb_subnet_answer answer = question->answer;

	forget(client, question);
	answer.error = error;
	if (answer.owner)
		client->host->answered(client->host->context, &answer);
}

void vb_subnet_client_node_changed(struct vb_subnet_client *client, vb_time now)
{
	struct vb_agent_registration administration = {.mgmt_class = VB_MAD_SA, .class_version = VB_SA_CLASS_VERSION};
	struct vb_agent_registration connections = {.mgmt_class = VB_MAD_CM, .class_version = CM_CLASS_VERSION, .methods = {SEND}};

	VB_LIST_FOR_EACH(node, &client->questions)
		finish(client, vb_container_of(node, struct question, node), -ENETUNREACH);
	client->sa_agent = client->cm_agent = -1;
	if (!client->adapter->has_node)
		return;
	client->sa_agent = vb_agents_register(&client->adapter->agents, now, client, &administration);
	client->cm_agent = vb_agents_register(&client->adapter->agents, now, client, &connections);
	vb_subnet_client_register(client);
}

void vb_subnet_client_register(struct vb_subnet_client *client)
{
	client->renew = 0;
}

/* ---- requests ---- */

static bool has_manager(const struct vb_subnet_client *client)
{
	const struct vb_fabric_port *port = client->adapter->has_node ? client->adapter->port : NULL;

	return port && client->sa_agent >= 0 && vb_fabric_port_state(port) == VB_PORT_ACTIVE && be16_get(port->info.sm_lid) != 0;
}

static void own_gid(const struct vb_subnet_client *client, uint8_t gid[16])
{
	vb_fabric_port_gid(client->adapter->port, gid);
}

static int send_request(struct vb_subnet_client *client, vb_time now, uint32_t serial, uint8_t method, enum vb_sa_attribute attribute,
			uint64_t mask, const void *record, size_t length, vb_time patience)
{
	const struct vb_fabric_port *port = client->adapter->port;
	struct vb_mad_address address = {
		.route = {.dlid = be16_get(port->info.sm_lid), .sl = port->info.mtu_sm_sl & 0x0f},
		.qpn = 1,
		.qkey = VB_GSI_QKEY,
		.pkey = be16_get(port->pkeys[0]),
	};
	struct vb_sa_mad mad = {
		.header = {
			.base_version = VB_MAD_BASE_VERSION,
			.mgmt_class = VB_MAD_SA,
			.class_version = VB_SA_CLASS_VERSION,
			.method = method,
			.transaction = be64_of(serial),
			.attribute = be16_of(attribute),
		},
		.component_mask = be64_of(mask),
	};

	memcpy(mad.data, record, length);
	return vb_agents_send(&client->adapter->agents, now, client, (uint32_t)client->sa_agent, &address, &mad, sizeof(mad),
			      patience / TRIES, TRIES - 1);
}

/* One that is to be sent, with what is known of its answer. -ENETUNREACH: there is no subnet administration to ask. */
static int new_question(struct vb_subnet_client *client, const struct vb_subnet_request *request, struct question **made)
{
	struct question *question;

	if (!has_manager(client))
		return -ENETUNREACH;
	if (client->asked >= MOST_QUESTIONS || (request->question == VB_SUBNET_GROUP && client->joined >= MOST_MEMBERS))
		return -EBUSY;
	question = calloc(1, sizeof(*question));
	if (!question)
		return -ENOMEM;
	question->serial = ++client->serial;
	question->answer = (struct vb_subnet_answer){
		.owner = request->owner,
		.id = request->id,
		.question = request->question,
		.cookie = request->cookie,
		.qkey = request->qkey,
		.path = {
			.framing = VB_FRAMING_GLOBAL,
			.interface_index = VB_FABRIC_INTERFACE,
			.pkey = request->pkey != 0 ? request->pkey : VB_DEFAULT_PKEY,
		},
	};
	own_gid(client, question->answer.path.source);
	if (request->question != VB_SUBNET_ADDRESS)
		memcpy(question->answer.path.destination, request->to, 16);
	vb_list_append(&client->questions, &question->node);
	client->asked++;
	*made = question;
	return 0;
}

static void name_address(const uint8_t address[16], char name[64])
{
	memset(name, 0, 64);
	if (vb_gid_is_ipv4(address))
		inet_ntop(AF_INET, address + 12, name, 64);
	else
		inet_ntop(AF_INET6, address, name, 64);
}

/* A record is known by its id and its GID: each address has an id of its own. */
static void register_address(struct vb_subnet_client *client, vb_time now, const uint8_t address[16])
{
	struct vb_service_record record = {
		.id = be64_of(SERVICE_ID_PREFIX | vb_crc32(0, address, 16)),
		.pkey = be16_of(0xffff),
		.lease = be32_of(LEASE_SECONDS),
	};

	own_gid(client, record.gid);
	name_address(address, record.name);
	(void)send_request(client, now, ++client->serial, VB_MAD_SET, VB_SA_SERVICE_RECORD,
			   VB_SERVICE_HAS_ID | VB_SERVICE_HAS_GID | VB_SERVICE_HAS_PKEY | VB_SERVICE_HAS_LEASE | VB_SERVICE_HAS_NAME,
			   &record, sizeof(record), REGISTER_PATIENCE);
}

/* ---- groups ---- */

static int send_member(struct vb_subnet_client *client, vb_time now, uint32_t serial, uint8_t method, const struct member *member,
		       vb_time patience)
{
	const uint64_t who = VB_MEMBER_HAS_MGID | VB_MEMBER_HAS_PORT_GID | VB_MEMBER_HAS_JOIN_STATE;
	/* What it takes to make the group (IBA 15.2.5.17.2). */
	const uint64_t made = VB_MEMBER_HAS_QKEY | VB_MEMBER_HAS_PKEY | VB_MEMBER_HAS_SL | VB_MEMBER_HAS_FLOW_LABEL |
			      VB_MEMBER_HAS_TRAFFIC_CLASS;
	struct vb_member_record record = {
		.qkey = be32_of(member->qkey), .pkey = be16_of(member->pkey), .scope_state = VB_MEMBER_FULL};

	memcpy(record.mgid, member->mgid, 16);
	own_gid(client, record.port_gid);
	return send_request(client, now, serial, method, VB_SA_MEMBER_RECORD, method == VB_MAD_SET ? who | made : who, &record,
			    sizeof(record), patience);
}

static bool asks_for(const struct question *question, const uint8_t mgid[16])
{
	return question->answer.question == VB_SUBNET_GROUP && memcmp(question->answer.path.destination, mgid, 16) == 0;
}

static struct member *find_member(const struct vb_subnet_client *client, const uint8_t mgid[16])
{
	VB_LIST_FOR_EACH(node, &client->members) {
		struct member *member = vb_container_of(node, struct member, node);

		if (memcmp(member->mgid, mgid, 16) == 0)
			return member;
	}
	return NULL;
}

/* An id is a member, or will be: to leave after its JOIN was sent would end that, too. */
static bool is_wanted(const struct vb_subnet_client *client, const uint8_t mgid[16])
{
	VB_LIST_FOR_EACH(node, &client->questions) {
		const struct question *question = vb_container_of(node, struct question, node);

		if (question->answer.owner && asks_for(question, mgid))
			return true;
	}
	return find_member(client, mgid) != NULL;
}

static void leave_unless_wanted(struct vb_subnet_client *client, vb_time now, const struct member *left)
{
	if (!is_wanted(client, left->mgid) && has_manager(client))
		(void)send_member(client, now, ++client->serial, VB_SA_DELETE, left, REGISTER_PATIENCE);
}

static void leave(struct vb_subnet_client *client, vb_time now, struct member *member)
{
	struct member left = *member, *other;

	forget_member(client, member);
	other = find_member(client, left.mgid);
	if (other)
		other->renews |= left.renews;
	leave_unless_wanted(client, now, &left);
}

void vb_subnet_client_leave(struct vb_subnet_client *client, vb_time now, const void *owner, uint32_t id, const uint8_t *mgid)
{
	VB_LIST_FOR_EACH(node, &client->questions) {
		struct question *question = vb_container_of(node, struct question, node);

		if (question->answer.owner == owner && question->answer.id == id && question->answer.question == VB_SUBNET_GROUP &&
		    (!mgid || asks_for(question, mgid)))
			question->answer.owner = NULL;
	}
	VB_LIST_FOR_EACH(node, &client->members) {
		struct member *member = vb_container_of(node, struct member, node);

		if (member->owner == owner && member->id == id && (!mgid || memcmp(member->mgid, mgid, 16) == 0))
			leave(client, now, member);
	}
}

void vb_subnet_client_owner_gone(struct vb_subnet_client *client, vb_time now, const void *owner)
{
	VB_LIST_FOR_EACH(node, &client->questions) {
		struct question *question = vb_container_of(node, struct question, node);

		if (question->answer.owner != owner)
			continue;
		/* Once the subnet administration has made the host a member, it has to leave. */
		if (question->answer.question == VB_SUBNET_GROUP)
			question->answer.owner = NULL;
		else
			forget(client, question);
	}
	VB_LIST_FOR_EACH(node, &client->members) {
		struct member *member = vb_container_of(node, struct member, node);

		if (member->owner == owner)
			leave(client, now, member);
	}
}

/* A subnet manager that begins anew knows of no member. */
static void join_again(struct vb_subnet_client *client, vb_time now)
{
	VB_LIST_FOR_EACH(node, &client->members) {
		const struct member *member = vb_container_of(node, struct member, node);

		if (member->renews)
			(void)send_member(client, now, ++client->serial, VB_MAD_SET, member, REGISTER_PATIENCE);
	}
}

void vb_subnet_client_run(struct vb_subnet_client *client, vb_time now)
{
	uint8_t address[VB_SUBNET_ADDRESSES][16];
	unsigned count;

	if (now < client->renew)
		return;
	/* Who becomes active is told of it, and comes back here. */
	client->renew = has_manager(client) ? now + RENEW_EVERY : VB_TIME_NEVER;
	if (client->renew == VB_TIME_NEVER)
		return;
	count = client->host->addresses(client->host->context, address);
	for (unsigned i = 0; i < count; i++)
		register_address(client, now, address[i]);
	join_again(client, now);
}

vb_time vb_subnet_client_deadline(const struct vb_subnet_client *client)
{
	return client->renew;
}

static int ask_address(struct vb_subnet_client *client, vb_time now, uint32_t serial, const uint8_t address[16], vb_time patience)
{
	struct vb_service_record record = {0};

	name_address(address, record.name);
	return send_request(client, now, serial, VB_MAD_GET, VB_SA_SERVICE_RECORD, VB_SERVICE_HAS_NAME, &record, sizeof(record), patience);
}

static int ask_path(struct vb_subnet_client *client, vb_time now, const struct question *question, vb_time patience)
{
	struct vb_path_record record = {.numb_path = 0x80 | 1, .pkey = be16_of(question->answer.path.pkey)};

	own_gid(client, record.sgid);
	memcpy(record.dgid, question->answer.path.destination, 16);
	return send_request(client, now, question->serial, VB_MAD_GET, VB_SA_PATH_RECORD,
			    VB_PATH_HAS_DGID | VB_PATH_HAS_SGID | VB_PATH_HAS_REVERSIBLE | VB_PATH_HAS_NUMB_PATH | VB_PATH_HAS_PKEY,
			    &record, sizeof(record), patience);
}

static int ask_membership(struct vb_subnet_client *client, vb_time now, struct question *question, const struct vb_subnet_request *request)
{
	struct member member = {.qkey = request->qkey, .pkey = question->answer.path.pkey};

	memcpy(member.mgid, request->to, 16);
	return send_member(client, now, question->serial, VB_MAD_SET, &member, request->patience);
}

static bool is_own(const struct vb_subnet_client *client, const uint8_t wanted[16])
{
	uint8_t address[VB_SUBNET_ADDRESSES][16];
	unsigned count = client->host->addresses(client->host->context, address);

	for (unsigned i = 0; i < count; i++)
		if (memcmp(address[i], wanted, 16) == 0)
			return true;
	return vb_gid_is_loopback(wanted);
}

static int send_question(struct vb_subnet_client *client, vb_time now, struct question *question, const struct vb_subnet_request *request)
{
	switch (request->question) {
	case VB_SUBNET_PATH:
		return ask_path(client, now, question, request->patience);
	case VB_SUBNET_GROUP:
		return ask_membership(client, now, question, request);
	default:
		return ask_address(client, now, question->serial, request->to, request->patience);
	}
}

int vb_subnet_client_ask(struct vb_subnet_client *client, vb_time now, const struct vb_subnet_request *request)
{
	struct question *question;
	int error = new_question(client, request, &question);

	if (error != 0)
		return error;
	if (request->question == VB_SUBNET_ADDRESS && is_own(client, request->to)) {
		own_gid(client, question->answer.path.destination);
		finish(client, question, 0);
		return 0;
	}
	error = send_question(client, now, question, request);
	if (error != 0)
		forget(client, question);
	return error;
}

/* ---- answers ---- */

static int take_path(const struct vb_path_record *record, struct vb_subnet_answer *answer)
{
	answer->path.dlid = be16_get(record->dlid);
	answer->path.slid = be16_get(record->slid);
	answer->path.sl = be16_get(record->qos_sl) & 0x0f;
	answer->path.hop_limit = be32_get(record->flow_hops) & 0xff;
	answer->path.traffic_class = record->traffic_class;
	answer->path.flow_label = be32_get(record->flow_hops) >> 8 & 0xfffff;
	answer->mtu = record->mtu & 0x3f;
	answer->lifetime = record->lifetime & 0x3f;
	/* It is of another path than was asked for, or no port has such an MTU. */
	if (memcmp(answer->path.destination, record->dgid, 16) != 0 || vb_mtu_bytes(answer->mtu) == 0)
		return -EPROTO;
	return answer->path.dlid != 0 && answer->path.dlid < VB_MULTICAST_LID ? 0 : -EHOSTUNREACH;
}

/* Who joins again is a member already. */
static int add_member(struct vb_subnet_client *client, const struct vb_subnet_answer *answer)
{
	const uint8_t *mgid = answer->path.destination;
	struct member *member;

	VB_LIST_FOR_EACH(node, &client->members) {
		member = vb_container_of(node, struct member, node);
		if (member->owner == answer->owner && member->id == answer->id && memcmp(member->mgid, mgid, 16) == 0)
			return 0;
	}
	member = calloc(1, sizeof(*member));
	if (!member)
		return -ENOMEM;
	member->owner = answer->owner;
	member->id = answer->id;
	member->qkey = answer->qkey;
	member->pkey = answer->path.pkey;
	member->renews = !find_member(client, mgid);
	memcpy(member->mgid, mgid, 16);
	vb_list_append(&client->members, &member->node);
	client->joined++;
	return 0;
}

static int take_member(struct vb_subnet_client *client, const struct vb_sa_mad *mad, struct vb_subnet_answer *answer)
{
	struct vb_member_record record;

	memcpy(&record, mad->data, sizeof(record));
	if (be16_get(mad->header.status) != 0)
		return -EADDRNOTAVAIL;
	if (be16_get(record.mlid) < VB_MULTICAST_LID || be16_get(record.mlid) == VB_PERMISSIVE_LID ||
	    memcmp(record.mgid, answer->path.destination, 16) != 0)
		return -EPROTO;
	if (answer->owner && add_member(client, answer) != 0)
		return -ENOMEM;
	answer->path.dlid = be16_get(record.mlid);
	answer->path.sl = (uint8_t)(be32_get(record.sl_flow_hops) >> 28);
	answer->path.hop_limit = be32_get(record.sl_flow_hops) & 0xff;
	answer->qkey = be32_get(record.qkey);
	return 0;
}

static const uint16_t asked[] = {
	[VB_SUBNET_ADDRESS] = VB_SA_SERVICE_RECORD,
	[VB_SUBNET_PATH] = VB_SA_PATH_RECORD,
	[VB_SUBNET_GROUP] = VB_SA_MEMBER_RECORD,
};

static int take_record(struct vb_subnet_client *client, const struct vb_sa_mad *mad, struct vb_subnet_answer *answer)
{
	uint16_t status = be16_get(mad->header.status);
	static const uint8_t no_gid[16];
	struct vb_service_record service;
	struct vb_path_record path;

	if (mad->header.method != VB_MAD_GET_RESPONSE || be16_get(mad->header.attribute) != asked[answer->question])
		return -EPROTO;
	if (answer->question == VB_SUBNET_GROUP)
		return take_member(client, mad, answer);
	if (answer->question == VB_SUBNET_PATH) {
		memcpy(&path, mad->data, sizeof(path));
		return status != 0 ? -EHOSTUNREACH : take_path(&path, answer);
	}
	if (status != 0)
		return status == VB_SA_TOO_MANY_RECORDS ? -ENOTUNIQ : -EADDRNOTAVAIL;
	memcpy(&service, mad->data, sizeof(service));
	memcpy(answer->path.destination, service.gid, 16);
	return vb_gid_is_multicast(service.gid) || memcmp(service.gid, no_gid, 16) == 0 ? -EPROTO : 0;
}

/* The group was left before there was an answer. */
static void leave_asked(struct vb_subnet_client *client, vb_time now, const struct vb_subnet_answer *answer)
{
	struct member left = {.qkey = answer->qkey, .pkey = answer->path.pkey};

	memcpy(left.mgid, answer->path.destination, 16);
	leave_unless_wanted(client, now, &left);
}

static void take_answer(struct vb_subnet_client *client, vb_time now, int status, const struct vb_sa_mad *mad)
{
	uint32_t serial = (uint32_t)be64_get(mad->header.transaction);

	VB_LIST_FOR_EACH(node, &client->questions) {
		struct question *question = vb_container_of(node, struct question, node);
		int error;

		if (question->serial != serial)
			continue;
		error = status != 0 ? -status : take_record(client, mad, &question->answer);
		if (error == 0 && !question->answer.owner)
			leave_asked(client, now, &question->answer);
		finish(client, question, error);
		return;
	}
	if (mad->header.method != VB_SA_DELETE && (status != 0 || be16_get(mad->header.status) != 0))
		vb_log(VB_LOG_INFO, "the subnet administration does not know this host's addresses or groups: %s",
		       status != 0 ? strerror(status) : "it refused a record");
}

void vb_subnet_client_deliver(struct vb_subnet_client *client, vb_time now, uint32_t agent, int status,
			      const struct vb_mad_address *address, const void *message, size_t length)
{
	struct vb_path from = vb_ib_route_to_path(&address->route);
	struct vb_sa_mad mad = {0};

	/* Of a request that was not answered its header comes back. */
	if (length < (status != 0 ? sizeof(mad.header) : sizeof(mad)))
		return;
	if ((int)agent == client->sa_agent) {
		memcpy(&mad, message, length < sizeof(mad) ? length : sizeof(mad));
		take_answer(client, now, status, &mad);
	} else if (status == 0 && from.framing == VB_FRAMING_GLOBAL) {
		/* Peers are known by their GIDs, which a GRH tells. */
		from.interface_index = VB_FABRIC_INTERFACE;
		from.pkey = address->pkey;
		client->host->connection_mad(client->host->context, now, &from, message, length);
	}
}

/* The port's own entry of the partition, full or limited as it is; the first where it has none. */
static uint16_t own_pkey(const struct vb_fabric_port *port, uint16_t pkey)
{
	int index = vb_fabric_port_find_pkey(port, pkey);

	return be16_get(port->pkeys[index < 0 ? 0 : index]);
}

void vb_subnet_client_send(struct vb_subnet_client *client, vb_time now, const struct vb_path *path, const void *bytes)
{
	struct vb_mad_address address = {.route = vb_ib_route_of_path(path), .qpn = 1, .source_qpn = 1, .qkey = VB_GSI_QKEY};
	struct vb_mad mad;

	if (!client->adapter->has_node)
		return;
	address.pkey = own_pkey(client->adapter->port, path->pkey);
	memcpy(&mad, bytes, sizeof(mad));
	(void)vb_fabric_send_mad(client->adapter->port, now, &address, &mad);
	vb_fabric_run(&client->adapter->fabric, now);
}
