/* SPDX-License-Identifier: MIT */
#include "fabric/agents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/rmpp.h"
#include "fabric/traps.h"

/* How long a message that stays incomplete is kept, and one that was delivered for the sake of segments that come again. */
#define RECEIVER_PATIENCE VB_SECONDS(5)
/* An RMPP message whose sender expects no answer: ib_mad has the same. */
#define SEGMENT_TIMEOUT VB_SECONDS(2)

enum { SEGMENT_RETRIES = 7, MOST_RECEIVERS = 4096 };

struct agent {
	struct vb_list node;
	void *owner;
	uint32_t id;                       /* among those of its owner */
	uint32_t number;                   /* of all: upper half of transaction ids */
	struct vb_agent_registration registration;
};

struct request {
	struct vb_list node;
	struct agent *agent;
	struct vb_mad_address address;
	struct vb_mad mad;                 /* as it was sent; of an RMPP message its first 256 bytes */
	vb_time deadline, timeout;
	unsigned retries_left;
	bool is_long;                      /* a sender repeats it */
};

struct sender {
	struct vb_list node;
	struct agent *agent;
	struct vb_mad_address address;
	uint64_t transaction;
	uint8_t mgmt_class, method;
	struct vb_rmpp_sender rmpp;
};

struct receiver {
	struct vb_list node;
	struct agent *agent;
	struct vb_mad_address address;
	uint64_t transaction;
	uint8_t mgmt_class, method;
	bool delivered;
	vb_time deadline;
	struct vb_rmpp_receiver rmpp;
};

void vb_agents_init(struct vb_agents *agents, struct vb_fabric_port *port, const struct vb_agents_host *host, void *context)
{
	*agents = (struct vb_agents){.port = port, .host = host, .host_context = context};
	vb_list_init(&agents->agents);
	vb_list_init(&agents->requests);
	vb_list_init(&agents->senders);
	vb_list_init(&agents->receivers);
}

/* ---- forgetting ---- */

static void forget_request(struct request *request)
{
	vb_list_remove(&request->node);
	free(request);
}

static void forget_sender(struct sender *sender)
{
	vb_list_remove(&sender->node);
	vb_rmpp_sender_fini(&sender->rmpp);
	free(sender);
}

static void forget_receiver(struct receiver *receiver)
{
	vb_list_remove(&receiver->node);
	vb_rmpp_receiver_fini(&receiver->rmpp);
	free(receiver);
}

static void forget_agent(struct vb_agents *agents, struct agent *agent)
{
	VB_LIST_FOR_EACH(node, &agents->requests) {
		struct request *request = vb_container_of(node, struct request, node);

		if (request->agent == agent)
			forget_request(request);
	}
	VB_LIST_FOR_EACH(node, &agents->senders) {
		struct sender *sender = vb_container_of(node, struct sender, node);

		if (sender->agent == agent)
			forget_sender(sender);
	}
	VB_LIST_FOR_EACH(node, &agents->receivers) {
		struct receiver *receiver = vb_container_of(node, struct receiver, node);

		if (receiver->agent == agent)
			forget_receiver(receiver);
	}
	vb_list_remove(&agent->node);
	free(agent);
	agents->count--;
}

void vb_agents_fini(struct vb_agents *agents)
{
	VB_LIST_FOR_EACH(node, &agents->agents)
		forget_agent(agents, vb_container_of(node, struct agent, node));
}

/* ---- registration ---- */

static bool wants_method(const struct vb_agent_registration *registration, uint8_t method)
{
	return method < VB_AGENT_METHODS && (registration->methods[method / 64] >> method % 64 & 1) != 0;
}

/* Only a subnet manager wants Get of directed SMPs: the port is one's while it does (IBA 14.4.2). */
static void update_is_sm(struct vb_agents *agents, vb_time now)
{
	struct vb_port_info *info = &agents->port->info;
	uint32_t before = be32_get(info->capabilities), after = before & ~(uint32_t)VB_PORT_CAP_SM;

	VB_LIST_FOR_EACH(node, &agents->agents) {
		const struct vb_agent_registration *registration = &vb_container_of(node, struct agent, node)->registration;

		if (registration->mgmt_class == VB_MAD_SMP_DIRECTED && wants_method(registration, VB_MAD_GET))
			after |= VB_PORT_CAP_SM;
	}
	info->capabilities = be32_of(after);
	if (after != before)
		vb_fabric_trap_begin(agents->port->node, VB_TRAP_CAPABILITIES, now);
}

static bool same_class(const struct vb_agent_registration *a, const struct vb_agent_registration *b)
{
	return a->mgmt_class == b->mgmt_class && a->class_version == b->class_version &&
	       (!vb_mad_class_has_oui(a->mgmt_class) || a->oui == b->oui);
}

static bool is_taken(const struct vb_agents *agents, const struct vb_agent_registration *wanted)
{
	VB_LIST_FOR_EACH(node, &agents->agents) {
		const struct vb_agent_registration *other = &vb_container_of(node, struct agent, node)->registration;

		if (same_class(other, wanted) && ((other->methods[0] & wanted->methods[0]) || (other->methods[1] & wanted->methods[1])))
			return true;
	}
	return false;
}

static bool registration_is_sound(const struct vb_agent_registration *registration)
{
	return registration->mgmt_class != 0 && registration->rmpp_version <= VB_RMPP_VERSION && registration->oui <= 0xffffff &&
	       (registration->rmpp_version == 0 || vb_mad_class_has_rmpp(registration->mgmt_class));
}

int vb_agents_register(struct vb_agents *agents, vb_time now, void *owner, const struct vb_agent_registration *registration)
{
	uint32_t used = 0;
	struct agent *agent;

	if (!registration_is_sound(registration) || is_taken(agents, registration))
		return -EINVAL;
	VB_LIST_FOR_EACH(node, &agents->agents) {
		const struct agent *other = vb_container_of(node, struct agent, node);

		if (other->owner == owner)
			used |= 1u << other->id;
	}
	agent = used != UINT32_MAX && agents->count < VB_AGENTS_MOST ? calloc(1, sizeof(*agent)) : NULL;
	if (!agent)
		return -ENOMEM;
	agent->owner = owner;
	while (used >> agent->id & 1)
		agent->id++;
	agent->number = ++agents->last_number;
	agent->registration = *registration;
	vb_list_append(&agents->agents, &agent->node);
	agents->count++;
	update_is_sm(agents, now);
	return (int)agent->id;
}

static struct agent *find_agent(const struct vb_agents *agents, const void *owner, uint32_t id)
{
	VB_LIST_FOR_EACH(node, &agents->agents) {
		struct agent *agent = vb_container_of(node, struct agent, node);

		if (agent->owner == owner && agent->id == id)
			return agent;
	}
	return NULL;
}

int vb_agents_unregister(struct vb_agents *agents, vb_time now, void *owner, uint32_t id)
{
	struct agent *agent = find_agent(agents, owner, id);

	if (!agent)
		return -EINVAL;
	forget_agent(agents, agent);
	update_is_sm(agents, now);
	return 0;
}

void vb_agents_owner_gone(struct vb_agents *agents, vb_time now, void *owner)
{
	VB_LIST_FOR_EACH(node, &agents->agents) {
		struct agent *agent = vb_container_of(node, struct agent, node);

		if (agent->owner == owner)
			forget_agent(agents, agent);
	}
	update_is_sm(agents, now);
}

/* ---- sending ---- */

static struct request *find_request(const struct vb_agents *agents, uint64_t transaction, uint8_t mgmt_class)
{
	VB_LIST_FOR_EACH(node, &agents->requests) {
		struct request *request = vb_container_of(node, struct request, node);

		if (be64_get(request->mad.transaction) == transaction && request->mad.mgmt_class == mgmt_class)
			return request;
	}
	return NULL;
}

/* The message that an ACK, STOP or ABORT is about. Its sender's peer has sent it; of question and answer, which have the transaction in
 * common, it is the one of the other direction. Transaction ids are each host's own: two may ask with the same. */
static struct sender *find_sender(const struct vb_agents *agents, const struct vb_mad_address *from, const struct vb_mad *mad)
{
	VB_LIST_FOR_EACH(node, &agents->senders) {
		struct sender *sender = vb_container_of(node, struct sender, node);

		if (sender->transaction == be64_get(mad->transaction) && sender->mgmt_class == mad->mgmt_class &&
		    (sender->method ^ VB_MAD_RESPONSE) == mad->method && sender->address.route.dlid == from->route.slid &&
		    sender->address.qpn == from->source_qpn)
			return sender;
	}
	return NULL;
}

static void send_segments(struct vb_agents *agents, vb_time now, struct sender *sender)
{
	struct vb_mad mad;

	while (vb_rmpp_sender_next(&sender->rmpp, &mad))
		(void)vb_fabric_send_mad(agents->port, now, &sender->address, &mad);
}

static int send_long(struct vb_agents *agents, vb_time now, struct agent *agent, const struct vb_mad_address *address,
		     const struct vb_mad *head, const void *message, size_t length)
{
	struct sender *sender = calloc(1, sizeof(*sender));
	int error = sender ? vb_rmpp_sender_init(&sender->rmpp, message, length, now, SEGMENT_TIMEOUT, SEGMENT_RETRIES) : -ENOMEM;

	if (error != 0) {
		free(sender);
		return error;
	}
	memcpy(sender->rmpp.message, head, VB_MAD_HEADER_LENGTH); /* with our transaction id */
	sender->agent = agent;
	sender->address = *address;
	sender->transaction = be64_get(head->transaction);
	sender->mgmt_class = head->mgmt_class;
	sender->method = head->method;
	vb_list_append(&agents->senders, &sender->node);
	send_segments(agents, now, sender);
	return 0;
}

static int note_request(struct vb_agents *agents, vb_time now, struct agent *agent, const struct vb_mad_address *address,
			const struct vb_mad *mad, vb_time timeout, unsigned retries, bool is_long)
{
	struct request *request = calloc(1, sizeof(*request));

	if (!request)
		return -ENOMEM;
	request->agent = agent;
	request->address = *address;
	request->mad = *mad;
	request->timeout = timeout;
	request->deadline = now + timeout;
	request->retries_left = retries;
	request->is_long = is_long;
	vb_list_append(&agents->requests, &request->node);
	return 0;
}

int vb_agents_send(struct vb_agents *agents, vb_time now, void *owner, uint32_t id, const struct vb_mad_address *wanted,
		   const void *message, size_t length, vb_time timeout, unsigned retries)
{
	struct agent *agent = find_agent(agents, owner, id);
	struct vb_mad_address address = *wanted;
	struct vb_mad mad = {0};
	bool is_long;
	int error = 0;

	if (!agent || length < VB_MAD_HEADER_LENGTH)
		return -EINVAL;
	memcpy(&mad, message, length < sizeof(mad) ? length : sizeof(mad));
	/* The flag alone says so, as with ib_umad: opensm sets no type. */
	is_long = agent->registration.rmpp_version != 0 && !agent->registration.user_rmpp && vb_rmpp_is_active(&mad);
	if ((length > sizeof(mad) && !is_long) || mad.base_version != VB_MAD_BASE_VERSION)
		return -EINVAL;
	address.source_qpn = vb_mad_is_smp(&mad) ? 0 : 1;
	address.qpn = vb_mad_is_smp(&mad) ? 0 : address.qpn;
	if (!vb_mad_is_response(&mad))
		mad.transaction = be64_of((uint64_t)agent->number << 32 | (be64_get(mad.transaction) & UINT32_MAX));
	if (timeout > 0 && !vb_mad_is_response(&mad)) {
		if (find_request(agents, be64_get(mad.transaction), mad.mgmt_class))
			return -EINVAL;
		error = note_request(agents, now, agent, &address, &mad, timeout, retries, is_long);
		if (error != 0)
			return error;
	}
	if (is_long)
		error = send_long(agents, now, agent, &address, &mad, message, length);
	else /* What cannot be sent now is as good as lost on the way. */
		(void)vb_fabric_send_mad(agents->port, now, &address, &mad);
	vb_fabric_run(agents->port->node->fabric, now);
	return error;
}

/* ---- receiving ---- */

/* The agent that a MAD is for, and the request that it answers. */
static struct agent *addressee(const struct vb_agents *agents, const struct vb_mad *mad, struct request **request)
{
	*request = NULL;
	if (vb_mad_is_response(mad)) {
		uint64_t transaction = be64_get(mad->transaction);

		*request = find_request(agents, transaction, mad->mgmt_class);
		if (*request)
			return (*request)->agent;
		/* Answers of a second kind, as RMPP segments that come again, still have their agent. */
		VB_LIST_FOR_EACH(node, &agents->agents) {
			struct agent *agent = vb_container_of(node, struct agent, node);

			if (agent->number == transaction >> 32)
				return agent;
		}
		return NULL;
	}
	VB_LIST_FOR_EACH(node, &agents->agents) {
		struct agent *agent = vb_container_of(node, struct agent, node);
		const struct vb_agent_registration *registration = &agent->registration;
		const uint8_t *oui = (const uint8_t *)mad + VB_RMPP_DATA + 1;

		if (registration->mgmt_class == mad->mgmt_class && registration->class_version == mad->class_version &&
		    wants_method(registration, mad->method) &&
		    (!vb_mad_class_has_oui(mad->mgmt_class) ||
		     registration->oui == ((uint32_t)oui[0] << 16 | (uint32_t)oui[1] << 8 | oui[2])))
			return agent;
	}
	return NULL;
}

static void deliver(struct vb_agents *agents, const struct agent *agent, int status, const struct vb_mad_address *address,
		    const void *message, size_t length)
{
	agents->host->deliver(agents->host_context, agent->owner, agent->id, status, address, message, length);
}

static struct receiver *find_receiver(struct vb_agents *agents, vb_time now, struct agent *agent, const struct vb_mad_address *address,
				      const struct vb_mad *mad)
{
	uint64_t transaction = be64_get(mad->transaction);
	struct receiver *receiver;
	unsigned count = 0;

	VB_LIST_FOR_EACH(node, &agents->receivers) {
		receiver = vb_container_of(node, struct receiver, node);
		count++;
		if (receiver->agent == agent && receiver->transaction == transaction && receiver->mgmt_class == mad->mgmt_class &&
		    receiver->method == mad->method && receiver->address.route.slid == address->route.slid &&
		    receiver->address.source_qpn == address->source_qpn)
			return receiver;
	}
	receiver = count < MOST_RECEIVERS ? calloc(1, sizeof(*receiver)) : NULL;
	if (!receiver)
		return NULL;
	receiver->agent = agent;
	receiver->address = *address;
	receiver->transaction = transaction;
	receiver->mgmt_class = mad->mgmt_class;
	receiver->method = mad->method;
	receiver->deadline = now + RECEIVER_PATIENCE;
	vb_rmpp_receiver_init(&receiver->rmpp, mad->mgmt_class);
	vb_list_append(&agents->receivers, &receiver->node);
	return receiver;
}

/* A segment of a message for `agent`. */
static void receive_segment(struct vb_agents *agents, vb_time now, struct agent *agent, struct request *request,
			    const struct vb_mad_address *address, const struct vb_mad *mad)
{
	struct receiver *receiver = find_receiver(agents, now, agent, address, mad);
	enum vb_rmpp_result result;
	struct vb_mad reply;
	bool has_reply;

	/* No agent begins an answer that no agent waits for: its request has ended already. */
	if (!receiver)
		return;
	if (vb_mad_is_response(mad) && !request && !receiver->delivered) {
		forget_receiver(receiver);
		return;
	}
	result = vb_rmpp_receiver_receive(&receiver->rmpp, mad, &reply, &has_reply);
	receiver->deadline = now + RECEIVER_PATIENCE;
	/* While segments come, the answer is under way. */
	if (request)
		request->deadline = now + request->timeout;
	if (has_reply)
		vb_fabric_answer(agents->port, now, address, &reply);
	if (result == VB_RMPP_FAILED) {
		forget_receiver(receiver);
	} else if (result == VB_RMPP_DONE && !receiver->delivered) {
		receiver->delivered = true;
		if (request)
			forget_request(request);
		deliver(agents, agent, 0, address, receiver->rmpp.message, receiver->rmpp.length);
		vb_rmpp_receiver_fini(&receiver->rmpp);
	}
}

/* An ACK, STOP or ABORT of a message that we send. */
static void receive_reply(struct vb_agents *agents, vb_time now, struct sender *sender, const struct vb_mad_address *address,
			  const struct vb_mad *mad)
{
	struct request *request = find_request(agents, sender->transaction, sender->mgmt_class);
	enum vb_rmpp_result result = vb_rmpp_sender_receive(&sender->rmpp, now, mad);
	struct vb_mad turn;

	/* The answer is waited for from the end of the question on. */
	if (request && !(sender->method & VB_MAD_RESPONSE))
		request->deadline = now + request->timeout;
	if (result == VB_RMPP_GOES_ON) {
		send_segments(agents, now, sender);
		return;
	}
	if (result == VB_RMPP_DONE && request && !(sender->method & VB_MAD_RESPONSE)) {
		vb_rmpp_turn_round(mad, &turn);
		vb_fabric_answer(agents->port, now, address, &turn);
	}
	forget_sender(sender);
}

/* The answer has begun: all of the question has come, though we may not have heard so. */
static void end_question(struct vb_agents *agents, const struct request *request)
{
	VB_LIST_FOR_EACH(node, &agents->senders) {
		struct sender *sender = vb_container_of(node, struct sender, node);

		if (sender->agent == request->agent && sender->transaction == be64_get(request->mad.transaction) &&
		    sender->mgmt_class == request->mad.mgmt_class && !(sender->method & VB_MAD_RESPONSE))
			forget_sender(sender);
	}
}

void vb_agents_receive(void *context, vb_time now, struct vb_fabric_port *port, const struct vb_mad_address *address,
		       const struct vb_mad *mad)
{
	struct vb_agents *agents = context;
	const struct vb_rmpp *rmpp = (const struct vb_rmpp *)(const void *)mad;
	struct request *request;
	struct agent *agent;
	bool active = vb_rmpp_is_active(mad);

	(void)port;
	if (active && rmpp->type != VB_RMPP_DATA_SEGMENT) {
		struct sender *sender = find_sender(agents, address, mad);

		if (sender && !sender->agent->registration.user_rmpp) {
			receive_reply(agents, now, sender, address, mad);
			return;
		}
	}
	agent = addressee(agents, mad, &request);
	if (!agent)
		return;
	if (request && request->is_long)
		end_question(agents, request);
	if (active && agent->registration.rmpp_version != 0 && !agent->registration.user_rmpp) {
		if (rmpp->type == VB_RMPP_DATA_SEGMENT)
			receive_segment(agents, now, agent, request, address, mad);
		return;
	}
	if (request)
		forget_request(request);
	else if (vb_mad_is_response(mad))
		return; /* it comes again, or too late */
	deliver(agents, agent, 0, address, mad, sizeof(*mad));
}

/* ---- time ---- */

vb_time vb_agents_deadline(const struct vb_agents *agents)
{
	vb_time deadline = VB_TIME_NEVER;

	VB_LIST_FOR_EACH(node, &agents->requests)
		deadline = vb_time_earlier(deadline, vb_container_of(node, struct request, node)->deadline);
	VB_LIST_FOR_EACH(node, &agents->senders)
		deadline = vb_time_earlier(deadline, vb_container_of(node, struct sender, node)->rmpp.deadline);
	VB_LIST_FOR_EACH(node, &agents->receivers)
		deadline = vb_time_earlier(deadline, vb_container_of(node, struct receiver, node)->deadline);
	return deadline;
}

static void expire_request(struct vb_agents *agents, vb_time now, struct request *request)
{
	if (request->retries_left > 0) {
		request->retries_left--;
		request->deadline = now + request->timeout;
		if (!request->is_long)
			(void)vb_fabric_send_mad(agents->port, now, &request->address, &request->mad);
		return;
	}
	vb_list_remove(&request->node);
	/* As ib_umad has it: of a request without an answer the header comes back. */
	deliver(agents, request->agent, ETIMEDOUT, &request->address, &request->mad, VB_MAD_HEADER_LENGTH);
	free(request);
}

void vb_agents_expire(struct vb_agents *agents, vb_time now)
{
	VB_LIST_FOR_EACH(node, &agents->senders) {
		struct sender *sender = vb_container_of(node, struct sender, node);

		if (vb_rmpp_sender_expire(&sender->rmpp, now) == VB_RMPP_FAILED)
			forget_sender(sender);
		else
			send_segments(agents, now, sender);
	}
	VB_LIST_FOR_EACH(node, &agents->receivers) {
		struct receiver *receiver = vb_container_of(node, struct receiver, node);

		if (now >= receiver->deadline)
			forget_receiver(receiver);
	}
	VB_LIST_FOR_EACH(node, &agents->requests) {
		struct request *request = vb_container_of(node, struct request, node);

		if (now >= request->deadline)
			expire_request(agents, now, request);
	}
	vb_fabric_run(agents->port->node->fabric, now);
}
