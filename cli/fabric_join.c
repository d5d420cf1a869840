/* SPDX-License-Identifier: MIT
 *
 * `verbena fabric join` and `leave`: verbenad is the adapter, this only asks it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/fabric.h"
#include "cli/shown.h"
#include "io/daemon_client.h"
#include "io/datagram.h"
#include "wire/cable.h"

static bool take_nothing(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	(void)context;
	(void)message;
	(void)fds;
	(void)count;
	return true;
}

static bool take_adapter(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	(void)fds;
	(void)count;
	if (message->header.type == VB_DAEMON_ADAPTER)
		*(struct vb_daemon_adapter *)context = message->adapter;
	return true;
}

static int ask(struct vb_daemon_client *client, struct vb_daemon_message *message, vb_daemon_take *take, void *context)
{
	int error = vb_daemon_client_request(client, message, NULL, 0, take, context);

	return error == 0 ? VB_CLI_DONE : VB_CLI_FAILED; /* why not has been logged */
}

static int join(const uint8_t gid[16], uint16_t port, uint32_t interface_index, const char *wanted)
{
	struct vb_daemon_client client;
	struct vb_daemon_message message;
	struct vb_daemon_adapter adapter = {0};
	char name[VB_CLI_SHOWN_ROOM(sizeof(adapter.name))], where[VB_CLI_SHOWN_ROOM(sizeof(adapter.where))];
	int code;

	if (vb_daemon_client_connect(&client, true) != 0)
		return VB_CLI_FAILED;
	vb_daemon_message_begin(&message, VB_DAEMON_JOIN_FABRIC, 0);
	memcpy(message.join_fabric.gid, gid, 16);
	message.join_fabric.port = port;
	message.join_fabric.interface_index = interface_index;
	memcpy(message.join_fabric.wanted, wanted, strnlen(wanted, sizeof(message.join_fabric.wanted) - 1));
	if (gethostname(message.join_fabric.description, sizeof(message.join_fabric.description) - 6) != 0)
		message.join_fabric.description[0] = '\0';
	message.join_fabric.description[sizeof(message.join_fabric.description) - 6] = '\0';
	strcat(message.join_fabric.description, " vib0");
	code = ask(&client, &message, take_nothing, NULL);
	if (code == VB_CLI_DONE) {
		vb_daemon_message_begin(&message, VB_DAEMON_LIST_ADAPTERS, 0);
		code = ask(&client, &message, take_adapter, &adapter);
	}
	if (code == VB_CLI_DONE)
		printf("%s: port %u, GUID 0x%016llx, at %s\n", vb_cli_shown(adapter.name, name, sizeof(name)), adapter.port,
			(unsigned long long)adapter.port_guid, vb_cli_shown(adapter.where, where, sizeof(where)));
	vb_daemon_client_close(&client);
	return code;
}

int vb_cli_fabric_join(int argc, char **argv)
{
	const char *address = NULL, *wanted = "";
	uint8_t gid[16];
	uint32_t interface_index;
	uint16_t port = VB_CABLE_PORT;
	int error;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--as") || !strcmp(argv[i], "--port")) {
			if (i + 1 == argc)
				return vb_cli_fabric_usage("a value is missing", argv[i]);
			if (argv[i][2] == 'a')
				wanted = argv[i + 1];
			else if (!vb_cli_fabric_parse_port(argv[i + 1], &port))
				return vb_cli_fabric_usage("not a UDP port", argv[i + 1]);
			i++;
		} else if (argv[i][0] == '-') {
			return vb_cli_fabric_usage("unknown option", argv[i]);
		} else if (address) {
			return vb_cli_fabric_usage("one address at a time", argv[i]);
		} else {
			address = argv[i];
		}
	}
	if (strlen(wanted) >= VB_CABLE_NAME)
		return vb_cli_fabric_usage("the name is too long", wanted);
	error = vb_datagram_resolve(address ? address : "127.0.0.1", gid, &port, &interface_index);
	if (error == -EINVAL)
		return vb_cli_fabric_usage("not a UDP port", address);
	if (error != 0) {
		fprintf(stderr, "verbena fabric: there is no host %s\n", address);
		return VB_CLI_FAILED;
	}
	return join(gid, port, interface_index, wanted);
}

int vb_cli_fabric_leave(int argc, char **argv)
{
	struct vb_daemon_client client;
	struct vb_daemon_message message;
	int code;

	if (argc > 1)
		return vb_cli_fabric_usage("leave takes no arguments", argv[1]);
	if (vb_daemon_client_connect(&client, true) != 0)
		return VB_CLI_FAILED;
	vb_daemon_message_begin(&message, VB_DAEMON_LEAVE_FABRIC, 0);
	code = ask(&client, &message, take_nothing, NULL);
	vb_daemon_client_close(&client);
	return code;
}
