/* SPDX-License-Identifier: MIT
 *
 * Processes and what they do with connections, as programs of rdma_cm do: listen, connect, accept or reject, bring their queue pair up by
 * what the messages agreed, work, disconnect, and tell a new daemon what they had. Each looks at what it is told:
 *
 *   an answer            names a queue pair that was made for this request, and its PSN
 *   a connection         does not end while its other end holds it, unless a daemon was not told of it in time
 *   who waits            is told how it ended, within what all repetitions of the protocol take
 *   an id of a dead daemon  is lost or kept as rdmacm/adoption.c says
 *   a command            whose daemon dies before it replies is said again to the next, unless it was the id's last (rdmacm/link.c)
 */
#ifndef VB_TESTS_SIM_PROGRAM_H
#define VB_TESTS_SIM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "rdmacm/adoption.h"
#include "sim/machine.h"
#include "sim/model.h"

enum { MOST_MACHINES = 4, MOST_PROCESSES = 3 * MOST_MACHINES, MOST_CONNECTIONS = 512 };

struct programs;

struct process {
	struct vb_connect_owner owner;
	struct programs *all;
	struct machine *machine;
	bool alive;
	bool linked;                     /* the daemon that lives knows it */
	unsigned links;                  /* to how many daemons it has been */
	bool late;                       /* it stood still for longer than a daemon waits for it */
	bool is_adopting;                /* it tells a new daemon what it had */
	vb_time asleep_until;
	unsigned said;                   /* commands; the world sets it back */
	uint16_t port;                   /* where it listens; 0: nowhere */
	uint32_t listener;               /* 0: not yet */
	struct vb_list ends, told;
};

/* One side of a connection, from its request on. */
struct end {
	struct vb_list node;
	struct process *process;
	struct connection *connection;
	unsigned link;                   /* the last of the process's that knows it */
	enum vb_rdmacm_state state;
	bool is_active;
	uint32_t id, psn;                /* id 0: not created yet */
	uint32_t calling;                /* what is said of it to the daemon now; 0: nothing */
	bool is_unsaid;                  /* that it ended was said to a daemon that died of it */
	uint32_t qpn;                    /* as others call it */
	struct vb_qp *qp;                /* NULL: none yet */
	struct vb_cq *cq;
	struct vb_cm_address source, destination;
	struct vb_cm_conn peer;
	uint64_t cookie;
	struct vb_cm_command request;    /* CONNECT or ACCEPT: to be said again to a new daemon */
	vb_time asked;                   /* since when it waits; VB_TIME_NEVER: it does not */
};

/* What one request led to. */
struct connection {
	struct end *active;              /* NULL: gone */
	struct end *passive;             /* whom the answer named; NULL: gone, or no answer */
	bool is_paired, was_paired, from_active;
	bool is_excused;                 /* an end told a new daemon of it too late, which may have said that it knows nothing of it */
	struct flow flow;                /* while paired */
	struct {
		bool is_over, was_said;  /* to a daemon */
		const struct machine *machine;
		unsigned deaths;         /* of its daemons, until then */
	} ending[2];                     /* of the passive end, of the active */
};

struct programs {
	struct sim *sim;
	unsigned machines, processes, connections;
	bool is_mortal;                  /* verbenad may die between a command and its reply */
	struct machine machine[MOST_MACHINES];
	struct process process[MOST_PROCESSES];
	struct connection connection[MOST_CONNECTIONS];
};

/* A machine's daemon tells. */
void process_tell(struct vb_connect_owner *owner, const struct vb_cm_event *event);

void process_open(struct process *process, struct programs *all, struct machine *machine, uint16_t port);
/* Again, after a crash. */
void process_start(struct process *process);
void process_crash(struct process *process);
/* Gives everything back, then ends. */
void process_leave(struct process *process);

/* A daemon dies, and its processes see that. */
void programs_kill_daemon(struct programs *all, struct machine *machine);

bool process_can_speak(const struct process *process);
void process_connect(struct process *process, const struct machine *to, uint16_t port);
/* Ends one of its connections, this way or that. */
void process_end_one(struct process *process);
/* Takes events, some or all, and acts on them. */
void process_serve(struct process *process, bool all);
/* Does it wait for anything, or has it something to do? */
bool process_is_busy(const struct process *process);
/* Everything has had its time: none of its connections has lost its other end unless the daemon that knew of it is dead. */
void process_check(const struct process *process);

void connection_post(struct connection *connection);

#endif
