/* SPDX-License-Identifier: MIT
 *
 * `verbena doctor`: one check is one row of the report. doctor_machine.c asks what the kernel and the network offer,
 * doctor_setup.c whether Verbena itself is in order, doctor_port.c about UDP port 4791,
 * doctor_peer.c whether another host can be talked to.
 */
#ifndef VB_CLI_DOCTOR_H
#define VB_CLI_DOCTOR_H

#include <stdbool.h>

enum vb_cli_verdict { VB_CLI_OK, VB_CLI_WARN, VB_CLI_FAIL };

struct vb_cli_report;

/* Add a row: what was found, and (may be NULL) what to do about it. */
__attribute__((format(printf, 5, 6)))
void vb_cli_report_add(struct vb_cli_report *report, const char *check, enum vb_cli_verdict verdict, const char *advice,
		       const char *found, ...);

void vb_cli_doctor_machine(struct vb_cli_report *report);
void vb_cli_doctor_setup(struct vb_cli_report *report);
/* `serves_us`: the daemon that runs here, if one does. */
void vb_cli_doctor_port(struct vb_cli_report *report, bool serves_us);

/* Is it an address at all? */
bool vb_cli_doctor_peer_parse(const char *text);
void vb_cli_doctor_peer(struct vb_cli_report *report, const char *address);
/* One row about the size of packets to that address, by that interface of ours. */
struct sockaddr;
struct vb_interface;
void vb_cli_doctor_mtu(struct vb_cli_report *report, const struct sockaddr *name, const char *address,
		       const struct vb_interface *interface);

#endif
