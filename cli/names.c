/* SPDX-License-Identifier: MIT
 *
 * See names.h.
 */
#include "cli/names.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "roce/control.h"
#include "wire/cm_command.h"
#include "wire/device_kind.h"
#include "wire/resource.h"

const char *vb_cli_way_name(const struct vb_resource_qp *qp)
{
	static const char *const names[] = {
		[VB_DEVICE_ROCE] = "roce", [VB_DEVICE_IWARP] = "iwarp", [VB_DEVICE_INFINIBAND] = "infiniband",
	};

	if (qp->through_memory)
		return "memory";
	return qp->kind < VB_DEVICE_KINDS ? names[qp->kind] : "?";
}

bool vb_cli_has_records(const struct vb_resource_qp *qp)
{
	return qp->through_memory == VB_THROUGH_MEMORY && qp->type != IBV_QPT_UD;
}

const char *vb_cli_control_name(uint32_t control)
{
	return control < VB_CONTROLS ? vb_roce_algorithms[control].name : "unknown";
}

const char *vb_cli_qp_type_name(uint32_t type)
{
	switch (type) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	case IBV_QPT_RAW_PACKET:
		return "RAW_PACKET";
	case IBV_QPT_XRC_SEND:
		return "XRC_SEND";
	case IBV_QPT_XRC_RECV:
		return "XRC_RECV";
	}
	return "unknown";
}

const char *vb_cli_qp_state_name(uint32_t state)
{
	static const char *const names[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR", [IBV_QPS_RTS] = "RTS",
		[IBV_QPS_SQD] = "SQD", [IBV_QPS_SQE] = "SQE", [IBV_QPS_ERR] = "ERR",
	};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

const char *vb_cli_wq_state_name(uint32_t state)
{
	static const char *const names[] = { [IBV_WQS_RESET] = "RESET", [IBV_WQS_RDY] = "RDY", [IBV_WQS_ERR] = "ERR" };

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

const char *vb_cli_port_space_name(uint32_t port_space)
{
	switch (port_space) {
	case VB_CM_PS_IPOIB:
		return "IPOIB";
	case VB_CM_PS_TCP:
		return "TCP";
	case VB_CM_PS_UDP:
		return "UDP";
	case VB_CM_PS_IB:
		return "IB";
	}
	return "unknown";
}

const char *vb_cli_user_name(uint32_t uid, char text[VB_CLI_USER_ROOM])
{
	const struct passwd *entry = getpwuid(uid);

	if (entry)
		snprintf(text, VB_CLI_USER_ROOM, "%s", entry->pw_name);
	else
		snprintf(text, VB_CLI_USER_ROOM, "uid %u", uid);
	return text;
}

const char *vb_cli_access_text(uint32_t access, char text[VB_CLI_ACCESS_ROOM])
{
	static const struct {
		uint32_t bit;
		const char *name;
	} rights[] = {
		{ IBV_ACCESS_LOCAL_WRITE, "local write" },     { IBV_ACCESS_REMOTE_WRITE, "remote write" },
		{ IBV_ACCESS_REMOTE_READ, "remote read" },     { IBV_ACCESS_REMOTE_ATOMIC, "remote atomic" },
		{ IBV_ACCESS_MW_BIND, "window bind" },         { IBV_ACCESS_ZERO_BASED, "zero based" },
		{ IBV_ACCESS_ON_DEMAND, "on demand" },
	};
	size_t at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
		if (access & rights[i].bit)
			at += (size_t)snprintf(text + at, VB_CLI_ACCESS_ROOM - at, "%s%s", at ? ", " : "",
					       rights[i].name);
	return at ? text : "read only";
}

bool vb_cli_gid_is_zero(const uint8_t gid[16])
{
	static const uint8_t zero[16];

	return !memcmp(gid, zero, sizeof(zero));
}

const char *vb_cli_gid_address(const uint8_t gid[16], char text[INET6_ADDRSTRLEN])
{
	if (vb_gid_is_ipv4(gid))
		return inet_ntop(AF_INET, gid + 12, text, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, gid, text, INET6_ADDRSTRLEN);
}

const char *vb_cli_endpoint_text(const struct vb_cm_address *address, char text[VB_CLI_ENDPOINT_ROOM])
{
	static const uint8_t any_ipv4[4];
	char plain[INET6_ADDRSTRLEN];
	bool ipv4 = vb_gid_is_ipv4(address->gid);

	if (vb_cli_gid_is_zero(address->gid) || (ipv4 && !memcmp(address->gid + 12, any_ipv4, sizeof(any_ipv4)))) {
		if (address->port == 0)
			return "-";
		snprintf(text, VB_CLI_ENDPOINT_ROOM, "*:%u", address->port);
		return text;
	}
	snprintf(text, VB_CLI_ENDPOINT_ROOM, ipv4 ? "%s:%u" : "[%s]:%u", vb_cli_gid_address(address->gid, plain),
		 address->port);
	return text;
}

const char *vb_cli_port_state_name(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_ACTIVE:
		return "active";
	case IBV_PORT_DOWN:
		return "down";
	case IBV_PORT_INIT:
		return "init";
	case IBV_PORT_ARMED:
		return "armed";
	default:
		return "unknown";
	}
}

unsigned vb_cli_mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

const char *vb_cli_gid_text(const uint8_t gid[16], char text[40])
{
	char *at = text;

	for (int i = 0; i < 16; i += 2)
		at += sprintf(at, "%s%02x%02x", i ? ":" : "", gid[i], gid[i + 1]);
	return text;
}
