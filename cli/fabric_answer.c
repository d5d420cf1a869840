/* SPDX-License-Identifier: MIT */
#include "cli/fabric_answer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "fabric/hosts.h"
#include "fabric/topology.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/unix_socket.h"

/* Who asks has sent its request before it waits; who does not read is hung up on. */
#define PATIENCE VB_MILLISECONDS(500)

enum { REQUEST_ROOM = 256, MESSAGE_ROOM = 32 * 1024 };

static const struct vb_fabric_joined *host_at(const struct vb_fabric_hosts *hosts, const struct vb_fabric_port *port)
{
	VB_LIST_FOR_EACH(node, &hosts->joined) {
		const struct vb_fabric_joined *joined = vb_container_of(node, struct vb_fabric_joined, node);

		if (joined->cable.port == port)
			return joined;
	}
	return NULL;
}

static void show_port(FILE *out, const struct vb_fabric_hosts *hosts, struct vb_fabric_port *port)
{
	const struct vb_fabric_joined *host = host_at(hosts, port);
	const char *rate = vb_topology_rate_name(&port->rate);

	if (!port->peer && !host)
		return;
	fprintf(out, "  [%2u] %-6s %-6s ", port->number, port->cut ? "CUT" :
		vb_fabric_port_state_name(vb_fabric_port_state(port)), rate ? rate : "");
	if (host)
		fprintf(out, "host %s%s%s\n", host->description, host->ghost ? ", in the place of " : "",
			host->ghost ? host->ghost->node->id : "");
	else
		fprintf(out, "%s[%u] lid %u\n", port->peer->node->id, port->peer->number,
			vb_fabric_port_lid(vb_fabric_port_base(port->peer)));
}

static void show(FILE *out, const struct vb_fabric *fabric, const struct vb_fabric_hosts *hosts)
{
	for (struct vb_fabric_node *node = fabric->first; node; node = node->next) {
		if (node->type != VB_NODE_SWITCH)
			continue;
		fprintf(out, "%s \"%.64s\" lid %u, %u ports\n", node->id, node->description,
			vb_fabric_port_lid(&node->port[0]), node->ports);
		for (unsigned i = 1; i <= node->ports; i++)
			show_port(out, hosts, &node->port[i]);
	}
}

/* ---- For programs (fabric_picture.h) ---- */

/* A word of a line: what would end it is a question mark. */
static void put_word(FILE *out, const char *text, size_t room)
{
	fputc('\t', out);
	for (size_t i = 0; i < room && text[i]; i++)
		fputc((unsigned char)text[i] < 0x20 ? '?' : text[i], out);
}

/* The LID of a host is known to its own daemon; here, by where its switch sends it. */
static unsigned lid_behind(const struct vb_fabric_port *port)
{
	for (unsigned lid = 1; lid < VB_FABRIC_LIDS; lid++)
		if (port->node->linear[lid] == port->number)
			return lid;
	return 0;
}

/* A host has the name of the adapter in whose place it is, or its GUID's. */
static void host_name(const struct vb_fabric_joined *host, char name[VB_FABRIC_NAME])
{
	if (host->ghost)
		snprintf(name, VB_FABRIC_NAME, "%s", host->ghost->node->id);
	else
		snprintf(name, VB_FABRIC_NAME, "H-%016llx", (unsigned long long)host->guid);
}

static bool is_replaced(const struct vb_fabric_hosts *hosts, const struct vb_fabric_node *node)
{
	VB_LIST_FOR_EACH(entry, &hosts->joined) {
		const struct vb_fabric_joined *host = vb_container_of(entry, struct vb_fabric_joined, node);

		if (host->ghost && host->ghost->node == node)
			return true;
	}
	return false;
}

static void list_link(FILE *out, const struct vb_fabric_hosts *hosts, struct vb_fabric_port *port)
{
	const struct vb_fabric_joined *host = host_at(hosts, port);
	const char *rate = vb_topology_rate_name(&port->rate);
	char name[VB_FABRIC_NAME];

	/* Between two switches: from one end. */
	if (!host && (!port->peer || (port->peer->node->type == VB_NODE_SWITCH && port->peer < port)))
		return;
	fputs("link", out);
	put_word(out, port->node->id, sizeof(port->node->id));
	fprintf(out, "\t%u\t%s\t%s", port->number, port->cut ? "CUT" : vb_fabric_port_state_name(vb_fabric_port_state(port)),
		rate ? rate : "");
	if (host)
		host_name(host, name);
	put_word(out, host ? name : port->peer->node->id, VB_FABRIC_NAME);
	fprintf(out, "\t%u\n", host ? 1 : port->peer->number);
}

static void list(FILE *out, const struct vb_fabric *fabric, const struct vb_fabric_hosts *hosts)
{
	char name[VB_FABRIC_NAME];

	for (struct vb_fabric_node *node = fabric->first; node; node = node->next) {
		bool is_switch = node->type == VB_NODE_SWITCH;

		if (is_replaced(hosts, node))
			continue;
		fputs("node", out);
		put_word(out, node->id, sizeof(node->id));
		fprintf(out, "\t%s\t%u\t%u", is_switch ? "switch" : "ghost",
			vb_fabric_port_lid(&node->port[is_switch ? 0 : 1]), node->ports);
		put_word(out, node->description, sizeof(node->description));
		fputc('\n', out);
	}
	VB_LIST_FOR_EACH(entry, &hosts->joined) {
		const struct vb_fabric_joined *host = vb_container_of(entry, struct vb_fabric_joined, node);

		host_name(host, name);
		fputs("node", out);
		put_word(out, name, sizeof(name));
		fprintf(out, "\thost\t%u\t1", lid_behind(host->cable.port));
		put_word(out, host->description, sizeof(host->description));
		fputc('\n', out);
	}
	for (struct vb_fabric_node *node = fabric->first; node; node = node->next)
		for (unsigned i = 1; node->type == VB_NODE_SWITCH && i <= node->ports; i++)
			list_link(out, hosts, &node->port[i]);
}

/* "NAME:PORT" */
static bool cut(FILE *out, struct vb_fabric *fabric, char *where, bool cutting)
{
	char *colon = strrchr(where, ':');
	struct vb_fabric_node *node;
	unsigned long port;
	char *end;

	if (!colon || colon[1] < '0' || colon[1] > '9' || (port = strtoul(colon + 1, &end, 10), *end)) {
		fprintf(out, "`%s' is no NAME:PORT\n", where);
		return false;
	}
	*colon = '\0';
	node = vb_fabric_find(fabric, where);
	if (!node) {
		fprintf(out, "there is no node `%s'\n", where);
		return false;
	}
	if (port < 1 || port > node->ports || (!node->port[port].peer && !node->port[port].cable)) {
		fprintf(out, "%s has no cable at port %lu\n", where, port);
		return false;
	}
	vb_fabric_cut(&node->port[port], cutting, vb_clock_now());
	return true;
}

static bool answer(FILE *out, struct vb_fabric *fabric, const struct vb_fabric_hosts *hosts, char *request)
{
	char *argument = strchr(request, ' ');

	if (argument)
		*argument++ = '\0';
	if (!strcmp(request, "show") && !argument) {
		show(out, fabric, hosts);
		return true;
	}
	if (!strcmp(request, "list") && !argument) {
		list(out, fabric, hosts);
		return true;
	}
	if ((!strcmp(request, "cut") || !strcmp(request, "mend")) && argument)
		return cut(out, fabric, argument, request[0] == 'c');
	fprintf(out, "no such request\n");
	return false;
}

/* A long answer is more than the socket holds: who asks may be about to read. */
static bool send_message(int fd, const char *message, size_t length, vb_time limit)
{
	int error;

	while ((error = vb_unix_send(fd, message, length, NULL, 0, false)) == -EAGAIN) {
		struct pollfd wait = {.fd = fd, .events = POLLOUT};
		vb_time left = limit - vb_clock_now();

		if (left <= 0 || poll(&wait, 1, (int)(left / VB_MILLISECONDS(1)) + 1) < 0)
			return false;
	}
	return error == 0;
}

static void send_text(int fd, bool well, const char *text, size_t length)
{
	vb_time limit = vb_clock_now() + PATIENCE;
	char message[MESSAGE_ROOM];

	message[0] = well ? '+' : '-';
	do {
		size_t part = length < sizeof(message) - 1 ? length : sizeof(message) - 1;

		memcpy(message + 1, text, part);
		if (!send_message(fd, message, part + 1, limit))
			return;
		text += part;
		length -= part;
	} while (length > 0);
}

void vb_cli_fabric_answer(struct vb_fabric *fabric, struct vb_fabric_hosts *hosts, int fd)
{
	char request[REQUEST_ROOM], *text = NULL;
	struct vb_unix_peer peer;
	size_t length = 0;
	unsigned count;
	ssize_t got;
	FILE *out;
	bool well;

	if (fd < 0)
		return;
	got = vb_unix_receive(fd, request, sizeof(request) - 1, NULL, 0, &count, vb_clock_now() + PATIENCE);
	out = got > 0 && vb_unix_peer(fd, &peer) == 0 ? open_memstream(&text, &length) : NULL;
	if (out) {
		request[got] = '\0';
		if (peer.uid == 0 || peer.uid == geteuid()) {
			well = answer(out, fabric, hosts, request);
		} else {
			fprintf(out, "the fabric belongs to another user\n");
			well = false;
		}
		if (fclose(out) == 0)
			send_text(fd, well, text, length);
		free(text);
	}
	vb_descriptor_close(fd);
}
