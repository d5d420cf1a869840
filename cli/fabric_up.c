/* SPDX-License-Identifier: MIT
 *
 * `verbena fabric up`: the process that has the switches. One loop over the UDP socket of all cables, the socket by
 * which it is asked, and time; everything else is src/fabric.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/fabric.h"
#include "cli/fabric_answer.h"
#include "cli/fabric_cables.h"
#include "cli/fabric_request.h"
#include "cli/shown.h"
#include "fabric/fabric.h"
#include "fabric/hosts.h"
#include "fabric/topology.h"
#include "io/clock.h"
#include "io/datagram.h"
#include "io/datagram_batch.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/random.h"
#include "io/unix_socket.h"

/* Everybody gets his turn. */
enum { BATCHES_PER_TURN = 64, MOST_FILE = 64 * 1024 * 1024, MAX_TAGS = 8 };

static const char one_switch[] = "Switch 36 \"S1\" # \"Verbena switch\"\n";

struct process {
	struct vb_fabric fabric;
	struct vb_fabric_hosts hosts;
	int fd, listener, poller;
	struct vb_datagram_batch *batch;
	struct vb_datagram_queue *queue;
	struct vb_fabric_cables *cables;   /* NULL: none */
};

static volatile sig_atomic_t is_over;

static void end(int number)
{
	(void)number;
	is_over = 1;
}

static void send_datagram(void *context, const struct vb_cable_address *to, const void *head, size_t head_length, const void *body,
			  size_t body_length)
{
	struct process *process = context;

	if (to->memory != 0)
		vb_fabric_cables_send(process->cables, to->memory, head, head_length, body, body_length);
	else
		vb_datagram_queue_add(process->queue, to->gid, to->port, to->interface_index, head, head_length, body, body_length);
}

static void send_run(void *context, const struct vb_cable_address *to, const uint8_t *bytes, size_t segment, unsigned count)
{
	struct process *process = context;

	if (to->memory != 0)
		vb_fabric_cables_send_run(process->cables, to->memory, bytes, segment, count);
	else
		vb_datagram_queue_add_run(process->queue, to->gid, to->port, to->interface_index, bytes, segment, count);
}

static void flush(void *context)
{
	struct process *process = context;

	vb_datagram_queue_flush(process->queue);
}

static uint32_t random_key(void *context)
{
	(void)context;
	return vb_random_u32();
}

static void print_news(void *context, const char *text)
{
	char shown[VB_CLI_SHOWN_ROOM(256)];

	(void)context;
	printf("%s\n", vb_cli_shown(text, shown, sizeof(shown)));
	fflush(stdout);
}

static const struct vb_fabric_hosts_owner owner = {.send = send_datagram, .send_run = send_run, .random = random_key, .news = print_news};

static int complain(const char *what, const char *why)
{
	fprintf(stderr, "verbena fabric: %s: %s\n", what, why);
	return VB_CLI_FAILED;
}

/* The whole file; NULL with errno. */
static char *read_file(const char *path, size_t *length)
{
	FILE *file = strcmp(path, "-") ? fopen(path, "r") : stdin;
	size_t room = 65536;
	char *text = file ? malloc(room) : NULL, *more;

	*length = 0;
	while (text) {
		*length += fread(text + *length, 1, room - *length, file);
		if (*length < room)
			break;
		room *= 2;
		more = room <= MOST_FILE ? realloc(text, room) : NULL;
		if (!more) {
			free(text);
			errno = EFBIG;
		}
		text = more;
	}
	if (text && ferror(file)) {
		free(text);
		text = NULL;
	}
	if (file && file != stdin)
		fclose(file);
	return text;
}

static int load(struct process *process, const char *path)
{
	char word[VB_CLI_SHOWN_ROOM(sizeof(((struct vb_topology_error *)NULL)->word))];
	struct vb_topology_error error;
	size_t length = strlen(one_switch);
	char *text = path ? read_file(path, &length) : strdup(one_switch);
	int result;

	if (!text)
		return complain(path ? path : "topology", strerror(errno));
	result = vb_topology_read(&process->fabric, text, length, vb_clock_now(), &error);
	free(text);
	if (result == 0)
		return VB_CLI_DONE;
	if (result != -EINVAL)
		return complain(path ? path : "topology", strerror(-result));
	fprintf(stderr, "verbena fabric: %s:%u: %s%s%s\n", path ? path : "topology", error.line,
		vb_cli_shown(error.word, word, sizeof(word)), error.word[0] ? ": " : "", error.what);
	return VB_CLI_FAILED;
}

static int open_sockets(struct process *process, uint16_t port)
{
	char name[32], text[64];

	vb_cli_fabric_socket(port, name);
	snprintf(text, sizeof(text), "UDP port %u", port);
	process->fd = vb_datagram_open(port);
	if (process->fd < 0)
		return complain(text, process->fd == -EADDRINUSE ?
			"another fabric, or another program, has it (--port)" : strerror(-process->fd));
	process->batch = vb_datagram_batch_create();
	process->queue = process->batch ? vb_datagram_queue_create(process->fd, process->batch) : NULL;
	if (!process->queue)
		return complain(text, strerror(ENOMEM));
	process->listener = vb_unix_listen(name);
	if (process->listener < 0)
		return complain(name, strerror(-process->listener));
	process->poller = vb_poller_open();
	if (process->poller < 0 || vb_poller_add(process->poller, process->fd, &process->fd) != 0 ||
	    vb_poller_add(process->poller, process->listener, &process->listener) != 0)
		return complain("epoll", strerror(errno));
	process->cables = vb_fabric_cables_open(process->poller, &process->hosts, port, flush, process);
	return VB_CLI_DONE;
}

/* A bundle that one host has sent to another goes on as a bundle: from where it lies, in one call. */
static void drain_cables(struct process *process)
{
	vb_time now = vb_clock_now();

	for (unsigned i = 0; i < BATCHES_PER_TURN; i++) {
		unsigned count = vb_datagram_batch_receive(process->batch, process->fd);

		for (unsigned j = 0; j < count; j++) {
			struct vb_datagram_bundle *bundle = vb_datagram_batch_at(process->batch, j);
			struct vb_cable_address from = {.port = bundle->port, .interface_index = bundle->interface_index};

			memcpy(from.gid, bundle->gid, sizeof(from.gid));
			vb_fabric_hosts_receive_bundle(&process->hosts, now, &from, bundle->bytes, bundle->length, bundle->segment);
		}
		vb_datagram_queue_flush(process->queue);
		if (vb_datagram_batch_was_all(process->batch))
			return;
	}
}

static void run(struct process *process)
{
	bool more = false;

	while (!is_over) {
		vb_time deadline = vb_time_earlier(vb_fabric_deadline(&process->fabric), vb_fabric_hosts_deadline(&process->hosts));
		void *tags[MAX_TAGS];
		unsigned count = vb_poller_wait(process->poller, tags, MAX_TAGS, more ? 0 : deadline);

		for (unsigned i = 0; i < count; i++) {
			if (tags[i] == &process->fd)
				drain_cables(process);
			else if (tags[i] != &process->listener)
				vb_fabric_cables_serve(process->cables, vb_clock_now(), tags[i]);
			else
				vb_cli_fabric_answer(&process->fabric, &process->hosts, vb_unix_accept(process->listener));
		}
		more = process->cables && vb_fabric_cables_drain(process->cables, vb_clock_now());
		vb_fabric_hosts_expire(&process->hosts, vb_clock_now());
		vb_fabric_expire(&process->fabric, vb_clock_now());
		vb_datagram_queue_flush(process->queue);
	}
}

static void print_summary(const struct process *process, uint16_t port)
{
	unsigned switches = 0;

	for (const struct vb_fabric_node *node = process->fabric.first; node; node = node->next)
		switches += node->type == VB_NODE_SWITCH;
	printf("fabric: %u switch%s, %u adapter%s, UDP port %u\n", switches, switches == 1 ? "" : "es", process->fabric.nodes - switches,
	       process->fabric.nodes - switches == 1 ? "" : "s", port);
	fflush(stdout);
}

int vb_cli_fabric_up(int argc, char **argv)
{
	struct process process = {.fd = -1, .listener = -1, .poller = -1};
	struct sigaction action = {.sa_handler = end};
	const char *path = NULL;
	uint16_t port = VB_CABLE_PORT;
	int code;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--port")) {
			if (i + 1 == argc || !vb_cli_fabric_parse_port(argv[i + 1], &port))
				return vb_cli_fabric_usage("not a UDP port", i + 1 == argc ? NULL : argv[i + 1]);
			i++;
		} else if (argv[i][0] == '-' && argv[i][1]) {
			return vb_cli_fabric_usage("unknown option", argv[i]);
		} else if (path) {
			return vb_cli_fabric_usage("one topology file at a time", argv[i]);
		} else {
			path = argv[i];
		}
	}
	vb_fabric_init(&process.fabric, &vb_fabric_hosts_carrier, &process.hosts);
	vb_fabric_hosts_init(&process.hosts, &process.fabric, &owner, &process);
	code = load(&process, path);
	if (code == VB_CLI_DONE)
		code = open_sockets(&process, port);
	if (code == VB_CLI_DONE) {
		sigaction(SIGINT, &action, NULL);
		sigaction(SIGTERM, &action, NULL);
		vb_thread_prefer_soon();
		print_summary(&process, port);
		run(&process);
	}
	vb_fabric_cables_close(process.cables);
	vb_fabric_hosts_fini(&process.hosts);
	if (process.queue)
		vb_datagram_queue_flush(process.queue);
	vb_datagram_queue_destroy(process.queue);
	vb_datagram_batch_destroy(process.batch);
	vb_fabric_fini(&process.fabric);
	for (unsigned i = 0; i < 3; i++) {
		int fd = (int[]){process.fd, process.listener, process.poller}[i];

		if (fd >= 0)
			vb_descriptor_close(fd);
	}
	return code;
}
