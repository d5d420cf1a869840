/* SPDX-License-Identifier: MIT
 *
 * What verbenad tells of the processes it serves: who they are, what they count, what they hold. Own processes only;
 * root is told of all. For status, stat, res and top.
 */
#ifndef VB_CLI_PROCESSES_H
#define VB_CLI_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "io/daemon_client.h"
#include "wire/resource.h"

/* Connect without starting a daemon: 1 there is one, 0 there is none, -errno with the reason on stderr. */
int vb_cli_daemon_find(const char *command, struct vb_daemon_client *daemon);

/* ---- counters ---- */

struct vb_cli_process {
	struct vb_daemon_process process;  /* its counters: of all devices together */
	char program[17];
	unsigned devices;
	struct vb_daemon_process_device device[VB_DAEMON_PAGE_DEVICES];
};

struct vb_cli_processes {
	unsigned count;
	struct vb_cli_process *row;        /* by pid */
};

int vb_cli_processes_get(struct vb_daemon_client *daemon, struct vb_cli_processes *processes);
void vb_cli_processes_free(struct vb_cli_processes *processes);

/* ---- objects ---- */

struct vb_cli_holder {
	uint32_t pid, uid;
	char program[17];
	int error;                         /* it did not answer: errno */
	uint32_t left_out;
	unsigned count[VB_RESOURCE_KINDS]; /* by enum vb_resource_kind */
	union vb_resource *of[VB_RESOURCE_KINDS];
};

struct vb_cli_holders {
	unsigned count;
	struct vb_cli_holder *row;         /* by pid */
};

/* `pid` 0: all. */
int vb_cli_holders_get(struct vb_daemon_client *daemon, uint32_t pid, struct vb_cli_holders *holders);
void vb_cli_holders_free(struct vb_cli_holders *holders);
/* "roce_eth0", or "-". */
const char *vb_cli_holder_device(const struct vb_cli_holder *holder, uint32_t interface_index);

#endif
