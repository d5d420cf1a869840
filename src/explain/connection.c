/* SPDX-License-Identifier: MIT
 *
 * See connection.h.
 */
#include "explain/connection.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "explain/words.h"

/* IBA table 108 (REJ reasons), those a RoCE peer may use, and what they mean to a program. */
static const struct {
	unsigned reason;
	const char *cause, *fix;
} reasons[] = {
	{1, "the peer has no queue pair left", "Free queue pairs on the peer."},
	{2, "the peer has no end-to-end context left", NULL},
	{3, "the peer is out of resources: most often the backlog of its listener is full",
	 "Raise the backlog of rdma_listen and take RDMA_CM_EVENT_CONNECT_REQUEST events faster."},
	{4, "the peer gave up waiting for us (timeout)", "Answer sooner: take events, call rdma_establish."},
	{5, "the peer does not support this request", NULL},
	{6, "the communication id is not valid at the peer", NULL},
	{8, "nobody listens: no rdma_listen for this port at the peer",
	 "Start the server first; check port number, port space (RDMA_PS_TCP or UDP), transport (one of iWARP is reached by iWARP) and the "
	 "address it is bound to."},
	{9, "the peer does not offer this transport service (queue pair type)", "Use the same qp_type on both sides."},
	{10, "a stale connection: the peer still holds one with the same queue pair",
	 "Wait for TIMEWAIT_EXIT, or use a new queue pair."},
	{12, "the peer does not accept the GID the request names as its own", "Check the address that was resolved."},
	{25, "the peer wants the request at another of its ports", NULL},
	{26, "the peer does not accept the path MTU", NULL},
	{27, "the peer offers too few responder resources", "Ask for a smaller initiator_depth."},
	{28, "the peer's program refused it (rdma_reject, or it destroyed the request)",
	 "Look at the peer's program; private data of the event may hold its reason."},
	{29, "the peer does not accept the RNR retry count", NULL},
	{30, "the peer knows our communication id already", NULL},
};

static int find_reason(unsigned reason)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].reason == reason)
			return (int)i;
	return -1;
}

const char *vb_explain_reject_reason(unsigned reason)
{
	int i = find_reason(reason);

	return i < 0 ? NULL : reasons[i].cause;
}

/* iWARP: what TCP said, or an MPA reply with its reject flag, which librdmacm cannot tell apart by the status either. */
static void say_stream_refused(const struct vb_explain_connection *c, struct vb_report *report)
{
	char address[VB_WORDS_ADDRESS];

	vb_words_address(address, c->destination);
	if (c->status == -ECONNREFUSED) {
		vb_report_say(report, VB_REPORT_CAUSE,
			      "nobody listens on TCP port %u of %s for iWARP, or the peer's program refused it (rdma_reject).",
			      c->destination_port, address);
		vb_report_say(report, VB_REPORT_FIX,
			      "Start the server first, also over iWARP; check port number and the address it is bound to. "
			      "Private data of the event may hold the program's reason.");
	} else if (c->status == -EPROTO) {
		vb_report_say(report, VB_REPORT_CAUSE,
			      "what answers at TCP port %u of %s is no reply of MPA, or one of a revision or with markers "
			      "that are not spoken here.",
			      c->destination_port, address);
		vb_report_say(report, VB_REPORT_FIX,
			      "Is that port one of an iWARP server? MPA of revision 1 or 2 is spoken here, without markers.");
	} else {
		vb_report_say(report, VB_REPORT_CAUSE, "%s closed the TCP connection to port %u without a reply of MPA (errno %d).",
			      address, c->destination_port, -c->status);
		vb_report_say(report, VB_REPORT_FIX, "Is that port one of an iWARP server? Its program may have ended.");
	}
}

static void say_rejected(const struct vb_explain_connection *c, struct vb_report *report)
{
	int i = find_reason((unsigned)c->status);

	vb_report_word(report, "side", "peer");
	if (c->status < 0) {
		say_stream_refused(c, report);
		return;
	}
	vb_report_number(report, "reason", (unsigned)c->status);
	if (i < 0) {
		vb_report_say(report, VB_REPORT_CAUSE, "the peer rejected it with reason %d.", c->status);
		return;
	}
	vb_report_say(report, VB_REPORT_CAUSE, "%s (reason %d).", reasons[i].cause, c->status);
	if (reasons[i].fix)
		vb_report_say(report, VB_REPORT_FIX, "%s", reasons[i].fix);
}

static void say_unreachable(const struct vb_explain_connection *c, struct vb_report *report)
{
	char address[VB_WORDS_ADDRESS];

	vb_words_address(address, c->destination);
	vb_report_word(report, "side",
		       c->reach == VB_REACH_NO_ROUTE   ? "local"
		       : c->reach == VB_REACH_ANSWERED ? "peer"
						       : "network");
	if (c->datagram && c->status == 1) {
		vb_report_say(report, VB_REPORT_CAUSE, "nobody listens for datagrams on port %u of %s.",
			      c->destination_port, address);
		vb_report_say(report, VB_REPORT_FIX, "Start the server first; check port number and port space.");
		return;
	}
	vb_report_say(report, VB_REPORT_CAUSE, "%s did not answer the connection request. ", address);
	switch (c->reach) {
	case VB_REACH_ANSWERED:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "Its verbenad is there and answers: the peer's program was told and did not answer in "
			      "time, or too many messages were lost.");
		vb_report_say(report, VB_REPORT_FIX, "The server must take CONNECT_REQUEST events and accept.");
		break;
	case VB_REACH_REFUSED:
		vb_report_say(report, VB_REPORT_CAUSE, "The host is there, but nothing listens on its UDP port 4791.");
		vb_report_say(report, VB_REPORT_FIX,
			      "Start the server; it must use an RDMA library (Verbena, rxe or an adapter) on that "
			      "address.");
		break;
	case VB_REACH_NO_ROUTE:
		vb_report_say(report, VB_REPORT_CAUSE, "This host has no route to it.");
		vb_report_say(report, VB_REPORT_FIX, "Check addresses and routes (ip route get %s).", address);
		break;
	case VB_REACH_UNREACHABLE:
		vb_report_say(report, VB_REPORT_CAUSE, "The network says that it is unreachable.");
		vb_report_say(report, VB_REPORT_FIX, "Check that the host is up and has this address.");
		break;
	case VB_REACH_PINGED:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "The host answers ping, but not a word comes from its UDP port 4791.");
		vb_report_say(report, VB_REPORT_FIX, "Check firewalls for UDP port 4791.");
		break;
	case VB_REACH_SILENT_UNPINGED:
		vb_report_say(report, VB_REPORT_CAUSE, "Not a word from its UDP port 4791; could not ping it.");
		vb_report_say(report, VB_REPORT_FIX,
			      "Check that the host is up, its address, and firewalls for UDP port 4791. (This user may not "
			      "ping: sysctl net.ipv4.ping_group_range.)");
		break;
	default:
		vb_report_say(report, VB_REPORT_CAUSE, "Not a word from the host at all.");
		vb_report_say(report, VB_REPORT_FIX,
			      "Check that the host is up, its address, and firewalls for UDP port 4791.");
	}
}

/* InfiniBand: what the subnet administration was asked for. */
static void say_subnet(const struct vb_explain_connection *c, struct vb_report *report)
{
	char address[VB_WORDS_ADDRESS] = "the destination";

	if (c->has_addresses)
		vb_words_address(address, c->destination);
	vb_report_word(report, "side", c->status == -EADDRNOTAVAIL ? "peer" : "network");
	switch (-c->status) {
	case ENETUNREACH:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "the InfiniBand port has no subnet manager, and without one there are no LIDs and no paths.");
		vb_report_say(report, VB_REPORT_FIX,
			      "Start one on any host of the fabric: 'verbena run opensm -B -f opensm.log'. "
			      "'verbena run ibstat' shows State: Active "
			      "when it has set up the port.");
		break;
	case EADDRNOTAVAIL:
		vb_report_say(report, VB_REPORT_CAUSE, "no host of the InfiniBand fabric has registered the address %s.", address);
		vb_report_say(report, VB_REPORT_FIX,
			      "Let that host join the fabric ('verbena fabric join'), or correct the address: 'verbena run saquery -S' "
			      "lists those that are registered.");
		break;
	case ENOTUNIQ:
		vb_report_say(report, VB_REPORT_CAUSE, "several hosts of the InfiniBand fabric have registered the address %s.", address);
		vb_report_say(report, VB_REPORT_FIX,
			      "'verbena run saquery -S' lists them; what a host has left behind ends within two minutes.");
		break;
	case ETIMEDOUT:
		vb_report_say(report, VB_REPORT_CAUSE, "the subnet manager does not answer.");
		vb_report_say(report, VB_REPORT_FIX, "Is opensm running ('verbena run sminfo')? Start it again.");
		break;
	default:
		vb_report_say(report, VB_REPORT_CAUSE, "the subnet manager knows no path to %s (%s).", address, vb_words_errno(-c->status));
		vb_report_say(report, VB_REPORT_FIX, "Look at the fabric: 'verbena fabric show', 'verbena run ibtracert'.");
	}
}

/* RDMA_CM_EVENT_ADDR_ERROR, mostly. */
static void say_failed_step(const struct vb_explain_connection *c, struct vb_report *report)
{
	char address[VB_WORDS_ADDRESS] = "the destination";

	if (c->has_addresses)
		vb_words_address(address, c->destination);
	vb_report_word(report, "side", c->status == -ETIMEDOUT ? "network" : "local");
	switch (-c->status) {
	case ETIMEDOUT:
		vb_report_say(report, VB_REPORT_CAUSE,
			      "nobody answers for it on the network (ARP, neighbour discovery), nor for the router on the "
			      "way to it: the host is down, or nobody has the address %s.",
			      address);
		vb_report_say(report, VB_REPORT_FIX,
			      "Start the host or correct the address; 'ip route get %s' and 'ip neigh' show who was asked "
			      "for.",
			      address);
		break;
	case EADDRNOTAVAIL:
	case ENODEV:
		vb_report_say(report, VB_REPORT_CAUSE, "no RDMA device has an address from which %s can be reached (%s).",
			      address, vb_words_errno(-c->status));
		vb_report_say(report, VB_REPORT_FIX,
			      "'ip route get %s' names the interface that leads there, 'verbena devices' those with a "
			      "device.",
			      address);
		break;
	case EHOSTUNREACH:
	case ENETUNREACH:
		vb_report_say(report, VB_REPORT_CAUSE, "there is no route to %s (%s).", address,
			      vb_words_errno(-c->status));
		vb_report_say(report, VB_REPORT_FIX,
			      "Correct the address, or add a route or an address of its network (ip route get %s).",
			      address);
		break;
	default:
		vb_report_say(report, VB_REPORT_CAUSE, "the step failed on this side (%s).",
			      c->status < 0 ? vb_words_errno(-c->status) : "no errno");
	}
}

void vb_explain_connection(const struct vb_explain_connection *c, struct vb_report *report)
{
	char address[VB_WORDS_ADDRESS];

	vb_report_begin(report, "connection");
	vb_report_word(report, "event", c->event);
	if (c->status < 0)
		vb_report_word(report, "error", vb_words_errno(-c->status));
	else
		vb_report_number(report, "status", (unsigned)c->status);
	vb_report_say(report, VB_REPORT_WHAT, "%s", c->event);
	if (c->has_addresses) {
		vb_report_say(report, VB_REPORT_WHAT, ": connection");
		if (c->source_port != 0)
			vb_report_say(report, VB_REPORT_WHAT, " from %s port %u", vb_words_address(address, c->source),
				      c->source_port);
		vb_report_say(report, VB_REPORT_WHAT, " to %s port %u", vb_words_address(address, c->destination),
			      c->destination_port);
		vb_report_word(report, "peer", vb_words_address(address, c->destination));
		vb_report_number(report, "port", c->destination_port);
	}
	if (c->reach != VB_REACH_UNASKED)
		vb_report_word(report, "reach", vb_words_reach(c->reach));
	if (c->rejected)
		say_rejected(c, report);
	else if (strcmp(c->event, "RDMA_CM_EVENT_UNREACHABLE") == 0)
		say_unreachable(c, report);
	else if (c->fabric)
		say_subnet(c, report);
	else
		say_failed_step(c, report);
}

/* What an errno means where no argument and no state is to blame. */
static const struct {
	int error;
	const char *cause, *fix;
} errors[] = {
	{EADDRINUSE, "another id has this port.",
	 "Choose another, port 0 for any, or set RDMA_OPTION_ID_REUSEADDR before binding."},
	{EADDRNOTAVAIL, "no RDMA device of this host has this address.",
	 "'verbena devices' lists addresses; 0.0.0.0 and :: stand for all."},
	{ENODEV, "no RDMA device of this host has this address.",
	 "'verbena devices' lists addresses; 0.0.0.0 and :: stand for all."},
	{EAFNOSUPPORT, "addresses are of AF_INET, AF_INET6 or AF_IB.", NULL},
	{EACCES, "the verbenad that runs here belongs to another user.",
	 "Let root start one for all: verbenad --system."},
	{ENOENT, "no verbenad runs, and there is none to start.",
	 "Install verbenad beside the library, or name it with VERBENA_DAEMON."},
	{ENOMEM, "there is no memory, or verbenad has no room for more ids.", NULL},
	{EMFILE, "the process has no file descriptors left.", "Raise the limit (ulimit -n)."},
	{ENOSYS, "there is no such option.", NULL},
};

void vb_explain_call(const struct vb_explain_call *call, struct vb_report *report)
{
	char address[VB_WORDS_ADDRESS];
	const char *cause = call->why, *fix = call->fix;

	vb_report_begin(report, "verb");
	vb_report_word(report, "verb", call->call);
	vb_report_word(report, "error", vb_words_errno(call->error));
	vb_report_say(report, VB_REPORT_WHAT, "%s failed: %s", call->call, vb_words_errno(call->error));
	if (call->has_address) {
		vb_report_word(report, "address", vb_words_address(address, call->address));
		vb_report_number(report, "port", call->port);
		vb_report_say(report, VB_REPORT_WHAT, " (%s port %u)", address, call->port);
	}
	if (call->state)
		vb_report_word(report, "state", call->state);
	if (call->state && call->needed) {
		vb_report_word(report, "needed", call->needed);
		vb_report_say(report, VB_REPORT_CAUSE, "the id is %s; this call needs one that is %s.", call->state,
			      call->needed);
		if (fix)
			vb_report_say(report, VB_REPORT_FIX, "%s", fix);
		return;
	}
	for (size_t i = 0; !cause && i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].error != call->error)
			continue;
		cause = errors[i].cause;
		fix = errors[i].fix;
	}
	vb_report_say(report, VB_REPORT_CAUSE, "%s", cause ? cause : "an argument is not what the manual page asks for.");
	if (fix && cause)
		vb_report_say(report, VB_REPORT_FIX, "%s", fix);
}
