/* SPDX-License-Identifier: MIT
 *
 * Commands go to the daemon at once. What the daemon tells waits in the process until it runs, as in librdmacm's channel; the id of a
 * request is made when the request comes, not when the program takes it (rdmacm/link.c).
 */
#include "sim/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "queue/qp.h"
#include "sim/world.h"
#include "wire/cm_mad.h"

enum { OPERATIONS = 24, CONSUMER = 28, MORTALITY = 100 };

/* Every message as often as it may be repeated, each time with a request for patience (src/connect/connection.h), and a process that
 * stands still. */
#define LONGEST_WAIT VB_SECONDS(1300)

struct told {
	struct vb_list node;
	struct end *end;
	struct vb_cm_event event;
};

static vb_time now(const struct process *process)
{
	return process->machine->sim->now;
}

static bool chance(const struct process *process, uint32_t of)
{
	return sim_below(process->machine->sim, of) == 0;
}

/* ---- commands ---- */

static void link_to_daemon(struct process *process);

/* As librdmacm does it: a new one is started, and is told of everything before anything else is said. */
static void survive_daemon(struct process *process)
{
	programs_kill_daemon(process->all, process->machine);
	machine_start_daemon(process->machine);
	CHECK(machine_link(process->machine, &process->owner));
	link_to_daemon(process);
}

/* librdmacm does not wait for each reply: one that refuses something says of which id (rdmacm/link.c). */
static bool names_its_id(const struct vb_cm_command *command, const struct vb_cm_reply *reply)
{
	return command->verb == VB_CM_CREATE || command->verb == VB_CM_ADOPT || reply->id == command->id;
}

/* Returns the errno of the reply. -ECONNRESET: the daemon died before it came, and another one knows of all ids by now. */
static int command(struct process *process, struct vb_cm_command *command, struct vb_cm_reply *reply)
{
	int error;

	CHECK(process->alive && process->linked);
	process->said++;
	if (process->all->is_mortal && !process->is_adopting && chance(process, MORTALITY)) {
		machine_command_unanswered(process->machine, &process->owner, command);
		survive_daemon(process);
		return -ECONNRESET;
	}
	error = machine_command(process->machine, &process->owner, command, reply);
	CHECK(names_its_id(command, reply));
	return error;
}

static int say(struct end *end, uint32_t verb)
{
	struct vb_cm_reply reply;
	int error;

	end->calling = verb;
	do {
		struct vb_cm_command order = {.verb = verb, .id = end->id, .reason = CONSUMER};

		error = command(end->process, &order, &reply);
	} while (error == -ECONNRESET && verb != VB_CM_FETCHED && verb != VB_CM_DESTROY);
	end->calling = 0;
	if (error != -ECONNRESET)
		return error;
	end->is_unsaid = verb == VB_CM_DESTROY;
	return 0;
}

static uint32_t create(struct process *process)
{
	struct vb_cm_reply reply;
	int error;

	do {
		struct vb_cm_command order = {.verb = VB_CM_CREATE, .port_space = VB_CM_PS_TCP};

		error = command(process, &order, &reply);
	} while (error == -ECONNRESET);
	CHECK(error == 0 && reply.id != 0);
	return reply.id;
}

/* ---- ends ---- */

static struct end *make_end(struct process *process, enum vb_rdmacm_state state)
{
	struct end *end = calloc(1, sizeof(*end));

	CHECK(end);
	end->process = process;
	end->link = process->links;
	end->state = state;
	end->asked = VB_TIME_NEVER;
	end->psn = sim_random(process->machine->sim) & 0xffffff;
	vb_list_append(&process->ends, &end->node);
	return end;
}

/* As rdma_create_qp leaves it. */
static void make_queue_pair(struct end *end)
{
	struct sim_host *host = end->process->machine->host;

	end->cq = sim_cq(host, FLOW_COMPLETIONS);
	end->qp = sim_qp(host, IBV_QPT_RC, end->cq, end->cq, NULL);
	end->qpn = machine_qpn(end->process->machine, &end->process->owner, end->qp->qpn);
	CHECK(sim_to_init(end->qp, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC) == 0);
}

static void move(struct end *end, struct ibv_qp_attr *attr, int mask, const struct vb_path *path)
{
	CHECK(vb_qp_modify(end->qp, attr, mask, path, IBV_MTU_4096, now(end->process)) == 0);
	sim_touch(end->qp);
}

/* By what was agreed; which attribute comes from whom: rdmacm/qp_attr.c. */
static void bring_up(struct end *end)
{
	struct vb_path path = {.source_port = (uint16_t)(0xc000 | (end->qp->qpn & 0x3fff)), .hop_limit = 64};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)end->peer.path_mtu,
		.dest_qp_num = end->peer.qpn,
		.rq_psn = end->psn,
		.max_dest_rd_atomic = end->peer.responder_resources,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	memcpy(path.source, end->source.gid, 16);
	memcpy(path.destination, end->destination.gid, 16);
	move(end, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		IBV_QP_MIN_RNR_TIMER, &path);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = end->peer.starting_psn,
		.timeout = end->peer.ack_timeout,
		.retry_cnt = end->peer.retry_count,
		.rnr_retry = end->peer.rnr_retry_count,
		.max_rd_atomic = end->peer.initiator_depth,
	};
	move(end, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
	     NULL);
}

static void to_error(struct end *end)
{
	if (end->qp && end->qp->state != IBV_QPS_ERR)
		CHECK(sim_modify_state(end->qp, IBV_QPS_ERR) == 0);
}

static bool is_paired(const struct end *end)
{
	const struct connection *connection = end->connection;

	return connection->is_paired && (connection->active == end || connection->passive == end);
}

static bool is_sender(const struct end *end)
{
	return end->is_active == end->connection->from_active;
}

static void let_go_of_queue_pair(struct end *end)
{
	if (!end->qp)
		return;
	if (is_paired(end)) {
		struct flow *flow = &end->connection->flow;

		flow_vanish(flow, is_sender(end));
		*(is_sender(end) ? &flow->a_cq : &flow->b_cq) = NULL;
	} else {
		sim_qp_free(end->qp);
	}
	sim_cq_free(end->cq);
	end->qp = NULL;
}

/* How its connection ended, the first time that it does. Of those that were not chosen it is the last that counts. */
static void note_ending(const struct end *end)
{
	struct connection *connection = end->connection;
	bool is_chosen = connection->active == end || connection->passive == end;

	if (is_chosen ? connection->ending[end->is_active].is_over : connection->was_paired)
		return;
	connection->ending[end->is_active].is_over = true;
	connection->ending[end->is_active].was_said = end->process->linked && !end->is_unsaid;
	connection->ending[end->is_active].machine = end->process->machine;
	connection->ending[end->is_active].deaths = end->process->machine->deaths;
}

static void free_end(struct end *end)
{
	struct connection *connection = end->connection;

	VB_LIST_FOR_EACH(node, &end->process->told) {
		struct told *told = vb_container_of(node, struct told, node);

		if (told->end != end)
			continue;
		vb_list_remove(node);
		free(told);
	}
	note_ending(end);
	let_go_of_queue_pair(end);
	vb_list_remove(&end->node);
	if (connection->active == end)
		connection->active = NULL;
	if (connection->passive == end)
		connection->passive = NULL;
	if (connection->is_paired && !connection->active && !connection->passive) {
		flow_close(&connection->flow);
		connection->is_paired = false;
	}
	free(end);
}

static void destroy(struct end *end)
{
	if (end->process->linked)
		CHECK(say(end, VB_CM_DESTROY) == 0);
	free_end(end);
}

static void fail(struct end *end)
{
	note_ending(end);
	end->state = VB_RDMACM_FAILED;
	end->asked = VB_TIME_NEVER;
	to_error(end);
}

/* ---- asking ---- */

static void put_number(struct vb_cm_conn *conn, uint32_t number)
{
	conn->private_data_length = sizeof(number);
	memcpy(conn->private_data, &number, sizeof(number));
}

static uint32_t number_in(const struct vb_cm_conn *conn)
{
	uint32_t number;

	CHECK(conn->private_data_length >= sizeof(number));
	memcpy(&number, conn->private_data, sizeof(number));
	return number;
}

static void ask(struct end *end)
{
	struct vb_cm_reply reply;
	int error;

	end->request.id = end->id;
	error = command(end->process, &end->request, &reply);
	if (error == -ECONNRESET)
		return; /* the new one was asked when it was told of the id */
	CHECK(error == 0);
	end->source = reply.source;
	end->asked = now(end->process);
}

bool process_can_speak(const struct process *process)
{
	return process->alive && process->linked && machine_answers(process->machine) && now(process) >= process->asleep_until;
}

void process_connect(struct process *process, const struct machine *to, uint16_t port)
{
	struct programs *all = process->all;
	struct connection *connection = &all->connection[all->connections];
	struct end *end;

	if (!process_can_speak(process) || all->connections == MOST_CONNECTIONS)
		return;
	end = make_end(process, VB_RDMACM_CONNECTING);
	end->is_active = true;
	end->connection = connection;
	connection->active = end;
	make_queue_pair(end);
	end->source = machine_address(process->machine, 0);
	end->destination = machine_address(to, port);
	end->request = (struct vb_cm_command){
		.verb = VB_CM_CONNECT,
		.source = end->source,
		.destination = end->destination,
		.conn = {
			.qpn = end->qpn,
			.starting_psn = end->psn,
			.responder_resources = (uint8_t)(1 + sim_below(all->sim, 4)),
			.initiator_depth = (uint8_t)(1 + sim_below(all->sim, 4)),
			.retry_count = 7,
			.rnr_retry_count = 7,
			.ack_timeout = (uint8_t)(12 + sim_below(all->sim, 4)),
		},
	};
	put_number(&end->request.conn, all->connections++);
	end->id = create(process);
	ask(end);
}

/* ---- what the daemon tells ---- */

static struct end *find_end(const struct process *process, uint32_t id)
{
	VB_LIST_FOR_EACH(node, &process->ends) {
		struct end *end = vb_container_of(node, struct end, node);

		if (end->id == id)
			return end;
	}
	return NULL;
}

static struct end *make_child(struct process *process, const struct vb_cm_event *event)
{
	struct end *end = make_end(process, VB_RDMACM_REQUESTED);
	struct connection *connection = &process->all->connection[number_in(&event->conn)];

	CHECK(event->listen_id == process->listener && number_in(&event->conn) < process->all->connections);
	end->connection = connection;
	end->id = event->id;
	end->source = event->source;
	end->destination = event->destination;
	end->peer = event->conn;
	end->cookie = event->remote_cookie;
	if (connection->active)
		CHECK(event->conn.qpn == connection->active->qpn && event->conn.starting_psn == connection->active->psn);
	return end;
}

void process_tell(struct vb_connect_owner *owner, const struct vb_cm_event *event)
{
	struct process *process = vb_container_of(owner, struct process, owner);
	struct told *told = malloc(sizeof(*told));

	CHECK(told && process->alive && process->linked);
	told->event = *event;
	told->end = event->kind == VB_CM_EVENT_CONNECT_REQUEST ? make_child(process, event) : find_end(process, event->id);
	CHECK(told->end); /* no event of an id follows its end */
	vb_list_append(&process->told, &told->node);
}

/* It will hear of something, other than that its peer has waited without an answer: for that there must be a reason itself. */
static bool has_news(const struct end *end)
{
	VB_LIST_FOR_EACH(node, &end->process->told) {
		const struct told *told = vb_container_of(node, struct told, node);

		if (told->end == end && !(told->event.kind == VB_CM_EVENT_REJECTED && told->event.status == VB_CM_REJECT_TIMEOUT))
			return true;
	}
	return false;
}

/* Its daemon waits for it no more. */
static bool is_late(const struct process *process)
{
	return process->late || (!process->linked && machine_has_daemon(process->machine) &&
				 now(process) > process->machine->started + VB_CONNECT_ADOPTION);
}

/* Whom it is connected with, if that one thinks so as well. */
static const struct end *other_end(const struct end *end)
{
	const struct connection *connection = end->connection;
	const struct end *other = end->is_active ? connection->passive : connection->active;

	if (!other || !other->qp || !end->qp || other->peer.qpn != end->qpn || end->peer.qpn != other->qpn)
		return NULL;
	return other;
}

/* It is told that it is over, and has not asked for it: then the other end knows a reason. */
static void check_cause(const struct end *end)
{
	const struct end *other = other_end(end);

	if ((end->state != VB_RDMACM_CONNECTED && end->state != VB_RDMACM_ACCEPTED) || end->connection->is_excused ||
	    (other && is_late(other->process)))
		return;
	CHECK(!other || other->state != VB_RDMACM_CONNECTED || has_news(other));
}

static void say_accept(struct end *end)
{
	struct vb_cm_reply reply;
	int error;

	end->request.id = end->id;
	end->asked = now(end->process);
	error = command(end->process, &end->request, &reply);
	if (error == -ECONNRESET)
		return; /* as in ask */
	CHECK(error == 0 || error == EINVAL); /* the peer has given up */
	if (error != 0)
		fail(end);
}

static void accept_request(struct end *end)
{
	make_queue_pair(end);
	bring_up(end);
	end->request = (struct vb_cm_command){
		.verb = VB_CM_ACCEPT,
		.conn = {
			.qpn = end->qpn,
			.starting_psn = end->psn,
			.responder_resources = end->peer.responder_resources,
			.initiator_depth = end->peer.initiator_depth,
			.rnr_retry_count = 7,
		},
	};
	put_number(&end->request.conn, number_in(&end->peer));
	end->state = VB_RDMACM_ACCEPTED;
	say_accept(end);
}

static void consider(struct end *end)
{
	int error;

	/* Lost with its daemon: accepting it fails. */
	if (end->state != VB_RDMACM_REQUESTED) {
		CHECK(say(end, VB_CM_ACCEPT) == EINVAL);
		return;
	}
	if (chance(end->process, 2))
		CHECK(say(end, VB_CM_FETCHED) == 0);
	switch (sim_below(end->process->machine->sim, 12)) {
	case 0:
		error = say(end, VB_CM_REJECT);
		CHECK(error == 0 || error == EINVAL);
		fail(end);
		break;
	case 1:
		destroy(end);
		break;
	default:
		accept_request(end);
		break;
	}
}

static struct end *find_queue_pair(struct programs *all, const struct vb_cm_address *address, uint32_t qpn)
{
	for (unsigned i = 0; i < all->processes; i++) {
		VB_LIST_FOR_EACH(node, &all->process[i].ends) {
			struct end *end = vb_container_of(node, struct end, node);

			if (end->qp && end->qpn == qpn && memcmp(end->process->machine->host->address, address->gid, 16) == 0)
				return end;
		}
	}
	return NULL;
}

static void pair(struct end *active, struct end *passive)
{
	struct connection *connection = active->connection;
	struct end *from, *to;

	connection->passive = passive;
	connection->from_active = chance(active->process, 2);
	from = connection->from_active ? active : passive;
	to = connection->from_active ? passive : active;
	flow_open(&connection->flow, from->process->machine->host, to->process->machine->host, OPERATIONS);
	connection->flow.a = from->qp;
	connection->flow.a_cq = from->cq;
	connection->flow.b = to->qp;
	connection->flow.b_cq = to->cq;
	connection->is_paired = connection->was_paired = true;
	world_counts.connections++;
}

/* The peer has accepted. */
static void take_response(struct end *end, const struct vb_cm_event *event)
{
	struct end *passive = find_queue_pair(end->process->all, &end->destination, event->conn.qpn);
	int error;

	if (passive) {
		CHECK(passive->connection == end->connection && !passive->is_active);
		CHECK(passive->peer.qpn == end->qpn && passive->psn == event->conn.starting_psn);
		CHECK(number_in(&event->conn) == number_in(&passive->peer));
	}
	end->peer = event->conn;
	end->cookie = event->remote_cookie;
	end->state = VB_RDMACM_RESPONDED;
	end->asked = VB_TIME_NEVER;
	bring_up(end);
	error = say(end, VB_CM_ESTABLISH);
	/* It is over already, which the next event will say; or another daemon knows nothing of the answer. */
	CHECK(error == 0 || error == EINVAL);
	if (error != 0) {
		fail(end);
		return;
	}
	end->state = VB_RDMACM_CONNECTED;
	if (passive)
		pair(end, passive);
}

static void take_disconnect(struct end *end)
{
	check_cause(end);
	note_ending(end);
	end->asked = VB_TIME_NEVER;
	if (end->state == VB_RDMACM_FAILED || end->state == VB_RDMACM_DISCONNECTED)
		return;
	to_error(end);
	if (end->state != VB_RDMACM_DISCONNECTING)
		CHECK(say(end, VB_CM_DISCONNECT) == 0);
	end->state = VB_RDMACM_DISCONNECTED;
}

static void take(struct end *end, const struct vb_cm_event *event)
{
	switch (event->kind) {
	case VB_CM_EVENT_CONNECT_REQUEST:
		consider(end);
		break;
	case VB_CM_EVENT_CONNECT_RESPONSE:
		CHECK(end->is_active);
		/* Of the daemon that it is known to: another has asked again (rdmacm/event.c). */
		if (end->state == VB_RDMACM_CONNECTING && event->id == end->id)
			take_response(end, event);
		break;
	case VB_CM_EVENT_ESTABLISHED:
		CHECK(!end->is_active);
		if (end->state != VB_RDMACM_ACCEPTED)
			break;
		end->state = VB_RDMACM_CONNECTED;
		end->asked = VB_TIME_NEVER;
		break;
	case VB_CM_EVENT_REJECTED:
	case VB_CM_EVENT_UNREACHABLE:
		check_cause(end);
		fail(end);
		break;
	case VB_CM_EVENT_DISCONNECTED:
		take_disconnect(end);
		break;
	default:
		CHECK(event->kind == VB_CM_EVENT_TIMEWAIT_EXIT);
		break;
	}
}

/* ---- another daemon ---- */

static void listen_at_port(struct process *process)
{
	struct vb_cm_command order = {.verb = VB_CM_BIND, .source = machine_address(process->machine, process->port)};
	struct vb_cm_reply reply;

	if (process->listener != 0) {
		struct vb_rdmacm_adoption adoption = vb_rdmacm_adoption(VB_RDMACM_LISTENING);

		order.verb = adoption.verb;
		order.state = adoption.adopted;
		order.port_space = VB_CM_PS_TCP;
		CHECK(command(process, &order, &reply) == 0 && reply.source.port == process->port);
		process->listener = reply.id;
		return;
	}
	order.id = process->listener = create(process);
	CHECK(command(process, &order, &reply) == 0);
	order = (struct vb_cm_command){.verb = VB_CM_LISTEN, .id = process->listener};
	CHECK(command(process, &order, &reply) == 0);
}

/* rdmacm/adopt.c, state_before_call. */
static enum vb_rdmacm_state state_before_call(const struct end *end)
{
	return end->calling == VB_CM_DISCONNECT ? VB_RDMACM_CONNECTED : end->state;
}

/* It is not created yet, or is being destroyed. */
static bool is_to_be_told(const struct end *end)
{
	return end->id != 0 && end->calling != VB_CM_DESTROY;
}

static void adopt(struct end *end)
{
	struct vb_rdmacm_adoption adoption = vb_rdmacm_adoption(state_before_call(end));
	struct vb_cm_command order = {
		.verb = adoption.verb,
		.state = adoption.adopted,
		.port_space = VB_CM_PS_TCP,
		.source = end->source,
		.destination = end->destination,
		.conn = end->peer,
		.remote_cookie = end->cookie,
	};
	struct vb_cm_reply reply;
	int error = command(end->process, &order, &reply);

	/* Its port may be another's meanwhile. A connection's id is its own. */
	if (error != 0) {
		CHECK(adoption.adopted == VB_CM_ADOPTED_BOUND && error == EADDRINUSE);
		reply.id = create(end->process);
	}
	if (adoption.adopted == VB_CM_ADOPTED_CONNECTED || adoption.adopted == VB_CM_ADOPTED_REQUESTED)
		CHECK(reply.id == end->cookie >> 32);
	end->id = reply.id;
	if (adoption.is_lost)
		end->state = VB_RDMACM_FAILED;
	if (adoption.accepts_again)
		say_accept(end);
	if (adoption.tell == VB_RDMACM_TELL_NOTHING)
		return;
	end->asked = VB_TIME_NEVER;
	end->state = adoption.tell == VB_CM_EVENT_ESTABLISHED ? VB_RDMACM_CONNECTED : VB_RDMACM_DISCONNECTED;
}

static void link_to_daemon(struct process *process)
{
	if (is_late(process))
		VB_LIST_FOR_EACH(node, &process->ends)
			vb_container_of(node, struct end, node)->connection->is_excused = true;
	process->late = false;
	process->linked = true;
	process->is_adopting = true;
	process->links++;
	if (process->port != 0)
		listen_at_port(process);
	VB_LIST_FOR_EACH(node, &process->ends) {
		struct end *end = vb_container_of(node, struct end, node);

		/* Not those that this daemon told of meanwhile. */
		if (end->link != process->links && is_to_be_told(end))
			adopt(end);
		end->link = process->links;
	}
	VB_LIST_FOR_EACH(node, &process->ends) {
		struct end *end = vb_container_of(node, struct end, node);

		if (vb_rdmacm_adoption(end->state).asks_again && is_to_be_told(end))
			ask(end);
	}
	process->is_adopting = false;
}

void programs_kill_daemon(struct programs *all, struct machine *machine)
{
	for (unsigned i = 0; i < all->processes; i++) {
		struct process *process = &all->process[i];

		if (process->machine != machine)
			continue;
		process->late = is_late(process);
		process->linked = false;
	}
	machine->refuses = sim_below(all->sim, 4) == 0;
	machine_kill_daemon(machine);
}

/* ---- life and death ---- */

void process_open(struct process *process, struct programs *all, struct machine *machine, uint16_t port)
{
	memset(process, 0, sizeof(*process));
	process->all = all;
	process->machine = machine;
	process->port = port;
	vb_list_init(&process->ends);
	vb_list_init(&process->told);
	process_start(process);
}

void process_start(struct process *process)
{
	CHECK(!process->alive);
	world_counts.processes++;
	vb_connect_owner_init(&process->owner);
	process->alive = true;
	process->linked = process->late = false;
	process->listener = 0;
}

void process_crash(struct process *process)
{
	VB_LIST_FOR_EACH(node, &process->ends)
		free_end(vb_container_of(node, struct end, node));
	machine_process_ended(process->machine, &process->owner, process->linked);
	CHECK(process->owner.count == 0 && vb_list_is_empty(&process->told));
	process->alive = process->linked = false;
}

void process_leave(struct process *process)
{
	VB_LIST_FOR_EACH(node, &process->ends)
		destroy(vb_container_of(node, struct end, node));
	if (process->linked && process->listener != 0) {
		struct vb_cm_command order = {.verb = VB_CM_DESTROY, .id = process->listener};
		struct vb_cm_reply reply;

		CHECK(command(process, &order, &reply) == 0);
	}
	process_crash(process);
}

/* ---- at work ---- */

static void disconnect(struct end *end)
{
	to_error(end);
	CHECK(say(end, VB_CM_DISCONNECT) == 0);
	note_ending(end);
	end->state = VB_RDMACM_DISCONNECTING;
	end->asked = now(end->process);
}

void process_end_one(struct process *process)
{
	if (!process_can_speak(process))
		return;
	VB_LIST_FOR_EACH(node, &process->ends) {
		struct end *end = vb_container_of(node, struct end, node);

		if (!chance(process, 3))
			continue;
		if (chance(process, 4))
			destroy(end);
		else if (end->state == VB_RDMACM_CONNECTED || end->state == VB_RDMACM_ACCEPTED)
			disconnect(end);
		return;
	}
}

static bool work_is_done(const struct end *end)
{
	return !is_paired(end) || !is_sender(end) || end->connection->flow.completed == end->connection->flow.posted;
}

/* Data has come before the RTU (IBA 12.9.8.5). */
static bool sees_data(const struct end *end)
{
	return end->state == VB_RDMACM_ACCEPTED && is_paired(end) && !is_sender(end) && end->connection->flow.received > 0;
}

static void serve_end(struct end *end)
{
	if (end->asked != VB_TIME_NEVER)
		CHECK(now(end->process) - end->asked < LONGEST_WAIT);
	if (sees_data(end) && chance(end->process, 2)) {
		int error = say(end, VB_CM_NOTIFY);

		CHECK(error == 0 || error == EISCONN || error == EINVAL);
	}
	/* Its work has failed. */
	if (end->state == VB_RDMACM_CONNECTED && end->qp->state == IBV_QPS_ERR && chance(end->process, 4))
		disconnect(end);
	else if ((end->state == VB_RDMACM_DISCONNECTED || end->state == VB_RDMACM_FAILED) && work_is_done(end) && chance(end->process, 4))
		destroy(end);
}

void process_serve(struct process *process, bool all)
{
	if (!process->alive || !machine_answers(process->machine) || now(process) < process->asleep_until)
		return;
	if (!process->linked) {
		if ((!all && !chance(process, 4) && now(process) < process->machine->started + VB_SECONDS(1)))
			return;
		if (!machine_link(process->machine, &process->owner))
			return;
		link_to_daemon(process);
	}
	while (!vb_list_is_empty(&process->told) && (all || !chance(process, 6))) {
		struct told *told = vb_container_of(process->told.next, struct told, node);

		vb_list_remove(&told->node);
		take(told->end, &told->event);
		free(told);
	}
	VB_LIST_FOR_EACH(node, &process->ends)
		serve_end(vb_container_of(node, struct end, node));
}

void connection_post(struct connection *connection)
{
	const struct end *from = connection->from_active ? connection->active : connection->passive;

	if (connection->is_paired && from && from->state == VB_RDMACM_CONNECTED)
		flow_post(&connection->flow);
}

/* ---- judging ---- */

bool process_is_busy(const struct process *process)
{
	if (!process->alive)
		return false;
	if (!process->linked || !vb_list_is_empty(&process->told))
		return true;
	VB_LIST_FOR_EACH(node, &process->ends) {
		const struct end *end = vb_container_of(node, struct end, node);

		if (end->asked != VB_TIME_NEVER || end->state != VB_RDMACM_CONNECTED || end->qp->state == IBV_QPS_ERR || !work_is_done(end))
			return true;
	}
	return false;
}

void process_check(const struct process *process)
{
	VB_LIST_FOR_EACH(node, &process->ends) {
		const struct end *end = vb_container_of(node, struct end, node), *other = other_end(end);
		const struct connection *connection = end->connection;

		if ((other && other->state == VB_RDMACM_CONNECTED) || connection->is_excused)
			continue;
		/* The daemon that was to tell this one died before it had, or was not there to hear it. */
		CHECK(connection->ending[!end->is_active].is_over);
		CHECK(!connection->ending[!end->is_active].was_said ||
		      connection->ending[!end->is_active].machine->deaths != connection->ending[!end->is_active].deaths);
	}
}
