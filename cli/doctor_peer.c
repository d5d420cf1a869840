/* SPDX-License-Identifier: MIT
 *
 * `verbena doctor --peer ADDRESS`: can this host and that one talk RoCEv2, in both directions?
 *
 *   out      an inquiry (wire/inquiry.h) from any port to the peer's 4791; the answer comes back to that port, which firewalls that
 *            keep state let in
 *   back     a connection request to a port on which no program listens: it goes from 4791 to 4791, and so does the peer's refusal.
 *            Any RDMA connection manager refuses, also rxe's and an adapter's
 *
 * Our own libraries make the request, as a program would; they are loaded from where `verbena run` finds them.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "cli/library.h"
#include "cli/names.h"
#include "io/inquiry.h"
#include "io/netlink.h"
#include "io/route.h"

/* A port of RDMA_PS_TCP that no program is likely to listen on (discard). */
enum { UNUSED_PORT = 9, REFUSAL_MS = 3000 };

struct peer {
	char address[INET6_ADDRSTRLEN];
	uint8_t gid[16];
	union {
		struct sockaddr any;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	} name;
	struct vb_path path;
};

/* ---- where it is ---- */

bool vb_cli_doctor_peer_parse(const char *text)
{
	uint8_t bytes[16];

	return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

static void fill_peer(const char *text, struct peer *peer)
{
	*peer = (struct peer){.path.destination = {0}};
	snprintf(peer->address, sizeof(peer->address), "%s", text);
	if (inet_pton(AF_INET, text, &peer->name.four.sin_addr) == 1) {
		peer->name.four.sin_family = AF_INET;
		peer->name.four.sin_port = htons(UNUSED_PORT);
		memset(peer->gid + 10, 0xff, 2);
		memcpy(peer->gid + 12, &peer->name.four.sin_addr, 4);
	} else {
		inet_pton(AF_INET6, text, peer->gid);
		peer->name.six.sin6_family = AF_INET6;
		peer->name.six.sin6_port = htons(UNUSED_PORT);
		memcpy(&peer->name.six.sin6_addr, peer->gid, 16);
	}
	memcpy(peer->path.destination, peer->gid, 16);
}

static bool find_interface(uint32_t index, struct vb_interface *out)
{
	struct vb_interface *list;
	unsigned count;
	bool found = false;

	if (vb_netlink_interfaces(&list, &count) != 0)
		return false;
	for (unsigned i = 0; i < count && !found; i++)
		if (list[i].index == index) {
			*out = list[i];
			found = true;
		}
	free(list);
	return found;
}

static bool check_route(struct vb_cli_report *report, struct peer *peer, struct vb_interface *interface)
{
	char source[INET6_ADDRSTRLEN], advice[160];
	struct vb_route route;
	int error = vb_route_lookup(peer->gid, NULL, 0, &route);

	snprintf(advice, sizeof(advice), "Check the address; `ip route get %s` says what the routing table knows.", peer->address);
	if (error != 0 || !find_interface(route.interface_index, interface)) {
		vb_cli_report_add(report, "route", VB_CLI_FAIL, advice, "there is none to %s: %s", peer->address, strerror(-error));
		return false;
	}
	memcpy(peer->path.source, route.source, 16);
	if (!interface->is_ethernet && !interface->is_loopback)
		vb_cli_report_add(report, "route", VB_CLI_FAIL,
				  "Devices are made for Ethernet interfaces and the loopback: choose an address behind one of those.",
				  "by %s, which is no Ethernet interface and has no device", interface->name);
	else
		vb_cli_report_add(report, "route", VB_CLI_OK, NULL, "from %s by roce_%s%s", vb_cli_gid_address(route.source, source),
				  interface->name, route.local ? "; the address is this host's own" : "");
	return true;
}

/* ---- out ---- */

static const char *version_text(uint32_t version, char text[32])
{
	if (version == 0)
		snprintf(text, 32, "of an early version");
	else
		snprintf(text, 32, "%u.%u.%u", version >> 16, version >> 8 & 0xff, version & 0xff);
	return text;
}

static enum vb_inquiry_reach check_out(struct vb_cli_report *report, const struct peer *peer)
{
	struct vb_inquiry_answer answer = {0};
	enum vb_inquiry_reach reach = vb_inquiry_ask(&peer->path, &(struct vb_inquiry){.qpn = 1}, &answer);
	char version[32];
	bool same;

	switch (reach) {
	case VB_REACH_ANSWERED:
		vb_cli_report_add(report, "to its port", VB_CLI_OK, NULL, "a verbenad answers on UDP port 4791 of %s", peer->address);
		same = !strcmp(version_text(answer.version, version), VERBENA_VERSION);
		vb_cli_report_add(report, "version", same ? VB_CLI_OK : VB_CLI_WARN,
				  same ? NULL : "The same version on both sides is what is tested.",
				  "verbenad %s there, %s here", version, VERBENA_VERSION);
		break;
	case VB_REACH_REFUSED:
		vb_cli_report_add(report, "to its port", VB_CLI_FAIL,
				  "Start a program that uses RDMA there, or verbenad --system. Or a firewall there rejects.",
				  "%s is there and says that nobody has its UDP port 4791", peer->address);
		break;
	case VB_REACH_UNREACHABLE:
	case VB_REACH_NO_ROUTE:
		vb_cli_report_add(report, "to its port", VB_CLI_FAIL, "Check that the host is up and has this address.",
				  "no host answers for %s", peer->address);
		break;
	case VB_REACH_PINGED:
		vb_cli_report_add(report, "to its port", VB_CLI_WARN,
				  "A firewall there drops UDP port 4791, or what has the port is no Verbena (rxe, an adapter): see the row "
				  "below.",
				  "%s answers ping, its UDP port 4791 does not answer Verbena's question", peer->address);
		break;
	default:
		vb_cli_report_add(report, "to its port", VB_CLI_WARN,
				  "The host may be down, or a firewall on the way or there drops UDP port 4791: see the row below.",
				  "not a word from UDP port 4791 of %s%s", peer->address,
				  reach == VB_REACH_SILENT ? ", nor to a ping" : "; could not ping it");
	}
	return reach;
}

/* ---- and back ---- */

struct library {
	void *verbs, *rdmacm;
	__typeof__(rdma_create_event_channel) *create_event_channel;
	__typeof__(rdma_destroy_event_channel) *destroy_event_channel;
	__typeof__(rdma_create_id) *create_id;
	__typeof__(rdma_destroy_id) *destroy_id;
	__typeof__(rdma_resolve_addr) *resolve_addr;
	__typeof__(rdma_resolve_route) *resolve_route;
	__typeof__(rdma_connect) *connect;
	__typeof__(rdma_get_cm_event) *get_cm_event;
	__typeof__(rdma_ack_cm_event) *ack_cm_event;
};

static void *load(const char *directory, const char *name)
{
	char path[VB_CLI_PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

static bool load_library(struct library *library)
{
	char directory[VB_CLI_PATH_MAX];

	if (vb_cli_library_directory(directory) != 0)
		return false;
	/* This one first: the other asks for it by name, and must not find the distribution's. */
	library->verbs = load(directory, "libibverbs.so.1");
	library->rdmacm = library->verbs ? load(directory, "librdmacm.so.1") : NULL;
	if (!library->rdmacm)
		return false;
#define FIND(name) library->name = (__typeof__(library->name))dlsym(library->rdmacm, "rdma_" #name)
	FIND(create_event_channel);
	FIND(destroy_event_channel);
	FIND(create_id);
	FIND(destroy_id);
	FIND(resolve_addr);
	FIND(resolve_route);
	FIND(connect);
	FIND(get_cm_event);
	FIND(ack_cm_event);
#undef FIND
	return library->create_event_channel && library->destroy_event_channel && library->create_id && library->destroy_id &&
	       library->resolve_addr && library->resolve_route && library->connect && library->get_cm_event && library->ack_cm_event;
}

/* The next event's type and status; -1: none came in time. */
static int await_event(const struct library *library, struct rdma_event_channel *channel, int *status)
{
	struct pollfd wait = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;
	int type;

	if (poll(&wait, 1, REFUSAL_MS) != 1 || library->get_cm_event(channel, &event) != 0)
		return -1;
	type = (int)event->event;
	*status = event->status;
	library->ack_cm_event(event);
	return type;
}

/* The last event on the way to a connection; -1: none in time, -2: the library cannot. */
static int try_connection(const struct library *library, struct peer *peer, int *status)
{
	struct rdma_event_channel *channel = library->create_event_channel();
	struct rdma_conn_param parameters = {.qp_num = 2, .retry_count = 1};
	struct rdma_cm_id *id = NULL;
	int event = -2;

	*status = 0;
	if (channel && library->create_id(channel, &id, NULL, RDMA_PS_TCP) == 0 &&
	    library->resolve_addr(id, NULL, &peer->name.any, 2000) == 0)
		event = await_event(library, channel, status);
	if (event == RDMA_CM_EVENT_ADDR_RESOLVED)
		event = library->resolve_route(id, 2000) == 0 ? await_event(library, channel, status) : -2;
	if (event == RDMA_CM_EVENT_ROUTE_RESOLVED)
		event = library->connect(id, &parameters) == 0 ? await_event(library, channel, status) : -2;
	if (id)
		library->destroy_id(id);
	if (channel)
		library->destroy_event_channel(channel);
	return event;
}

static void check_back(struct vb_cli_report *report, struct peer *peer, enum vb_inquiry_reach reach)
{
	struct library library = {0};
	int status = 0, event;

	if (!load_library(&library)) {
		vb_cli_report_add(report, "and back to ours", VB_CLI_WARN, NULL, "not tried: our libraries cannot be loaded");
		return;
	}
	event = try_connection(&library, peer, &status);
	if (event == RDMA_CM_EVENT_REJECTED || event == RDMA_CM_EVENT_CONNECT_RESPONSE || event == RDMA_CM_EVENT_ESTABLISHED)
		vb_cli_report_add(report, "and back to ours", VB_CLI_OK, NULL,
				  "a connection request came back from its connection manager: UDP port 4791 is open both ways");
	else if (event == -2)
		vb_cli_report_add(report, "and back to ours", VB_CLI_FAIL, "See the other checks: `verbena doctor`.",
				  "no connection request can be made here: %s", strerror(errno));
	else if (reach == VB_REACH_ANSWERED)
		vb_cli_report_add(report, "and back to ours", VB_CLI_FAIL,
				  "A firewall of this host drops what comes to UDP port 4791 (only answers to what it asked come in), or "
				  "one there\nkeeps UDP from port 4791 from going out. Let UDP port 4791 in here and out there.",
				  "its verbenad hears us, but no packet comes from there to UDP port 4791 of this host");
	else
		vb_cli_report_add(report, "and back to ours", VB_CLI_FAIL, "Let UDP port 4791 through, both ways.",
				  "a connection request was not answered");
}

void vb_cli_doctor_peer(struct vb_cli_report *report, const char *address)
{
	struct vb_interface interface;
	enum vb_inquiry_reach reach;
	struct peer peer;

	fill_peer(address, &peer);
	if (!check_route(report, &peer, &interface))
		return;
	vb_cli_doctor_mtu(report, &peer.name.any, peer.address, &interface);
	reach = check_out(report, &peer);
	/* What is not there does not answer. */
	if (reach != VB_REACH_REFUSED && reach != VB_REACH_UNREACHABLE && reach != VB_REACH_NO_ROUTE)
		check_back(report, &peer, reach);
}
