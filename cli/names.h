/* SPDX-License-Identifier: MIT
 *
 * Numbers of the verbs interface as the words people know: those of ibv_devinfo(1), rdma(8) and the manual pages.
 */
#ifndef VB_CLI_NAMES_H
#define VB_CLI_NAMES_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct vb_cm_address;

/* "unknown" for numbers that mean nothing. */
const char *vb_cli_qp_type_name(uint32_t type);
const char *vb_cli_qp_state_name(uint32_t state);
const char *vb_cli_wq_state_name(uint32_t state);
const char *vb_cli_port_space_name(uint32_t port_space);
/* By what a queue pair's messages travel: "memory", "roce", "iwarp", "infiniband". */
struct vb_resource_qp;
const char *vb_cli_way_name(const struct vb_resource_qp *qp);
/* Does it leave records for its peer, instead of packets? UD makes packets whatever way they take. */
bool vb_cli_has_records(const struct vb_resource_qp *qp);
/* Of congestion control. */
const char *vb_cli_control_name(uint32_t control);

/* The user's name, or "uid N". */
enum { VB_CLI_USER_ROOM = 40 };
const char *vb_cli_user_name(uint32_t uid, char text[VB_CLI_USER_ROOM]);

/* Of IBV_ACCESS_*: "local write, remote read", or "read only". */
enum { VB_CLI_ACCESS_ROOM = 160 };
const char *vb_cli_access_text(uint32_t access, char text[VB_CLI_ACCESS_ROOM]);

bool vb_cli_gid_is_zero(const uint8_t gid[16]);
/* A GID of RoCEv2 is an IP address; IPv4 in its mapped form (IBTA annex 17). */
const char *vb_cli_gid_address(const uint8_t gid[16], char text[INET6_ADDRSTRLEN]);

/* "192.0.2.1:7174", "[2001:db8::1]:7174", "*:7174", or "-" when there is neither address nor port. */
enum { VB_CLI_ENDPOINT_ROOM = INET6_ADDRSTRLEN + 16 };
const char *vb_cli_endpoint_text(const struct vb_cm_address *address, char text[VB_CLI_ENDPOINT_ROOM]);

const char *vb_cli_port_state_name(enum ibv_port_state state);
unsigned vb_cli_mtu_bytes(enum ibv_mtu mtu);
/* All eight groups of four digits. */
const char *vb_cli_gid_text(const uint8_t gid[16], char text[40]);

#endif
