/* SPDX-License-Identifier: MIT
 *
 * A look is at least a fifth of a second long: two pages that ask one after the other see the same, and each its true rates. Processes
 * are asked only while a page is open.
 */
#include "web/state.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli/devices.h"
#include "cli/fabric_picture.h"
#include "cli/fabric_request.h"
#include "cli/json.h"
#include "cli/res.h"
#include "cli/top.h"
#include "io/clock.h"
#include "web/records.h"

#define SHORTEST_LOOK VB_MILLISECONDS(200)
/* A fabric whose process is stopped must not stop the page. */
#define FABRIC_PATIENCE VB_MILLISECONDS(500)

struct vb_web_state {
	struct vb_daemon_client daemon;
	struct vb_cli_sample older, newer;
	bool has_older;
};

int vb_web_state_create(struct vb_web_state **out)
{
	struct vb_web_state *state = calloc(1, sizeof(*state));

	if (!state)
		return -ENOMEM;
	state->daemon.fd = -1;
	*out = state;
	return 0;
}

void vb_web_state_destroy(struct vb_web_state *state)
{
	if (state->daemon.fd >= 0)
		vb_daemon_client_close(&state->daemon);
	vb_cli_sample_free(&state->older);
	vb_cli_sample_free(&state->newer);
	free(state);
}

/* The newer sample becomes the older one, unless it is so new that nothing can have moved. */
static int look(struct vb_web_state *state)
{
	struct vb_cli_sample now;
	int error;

	if (state->newer.when != 0 && vb_clock_now() - state->newer.when < SHORTEST_LOOK)
		return 0;
	error = vb_cli_sample_take(&state->daemon, &now);
	if (error)
		return error;
	vb_cli_sample_free(&state->older);
	state->older = state->newer;
	state->has_older = state->newer.when != 0;
	state->newer = now;
	return 0;
}

static void print_resources(const struct vb_web_state *state, FILE *out)
{
	struct vb_cli_res_options options = { .json = true };

	for (unsigned kind = 0; kind < VB_RESOURCE_KINDS; kind++)
		options.kind[kind] = true;
	vb_cli_res_print_json(out, &options, &state->newer.holders);
}

int vb_web_state_print_resources(struct vb_web_state *state, FILE *out)
{
	int error = look(state);

	if (error == 0)
		print_resources(state, out);
	return error;
}

static int print_devices(FILE *out)
{
	struct vb_device_info *list;
	unsigned count;
	int error = vb_devices_list(&list, &count);

	if (error)
		return error;
	vb_cli_devices_print_json(out, list, count);
	free(list);
	return 0;
}

static void print_about(const struct vb_web_state *state, FILE *out)
{
	char host[256] = "";
	struct timespec now;

	(void)gethostname(host, sizeof(host) - 1);
	clock_gettime(CLOCK_REALTIME, &now);
	fprintf(out, "{\"time\": %.3f, \"version\": \"%s\", \"host\": ", (double)now.tv_sec + (double)now.tv_nsec / 1e9, VERBENA_VERSION);
	vb_cli_json_string(out, host);
	if (state->newer.has_daemon)
		fprintf(out, ", \"daemon\": {\"pid\": %u, \"uid\": %u}", state->newer.daemon.pid, state->newer.daemon.uid);
	else
		fprintf(out, ", \"daemon\": null");
}

/* As `verbena fabric show --json` has it, or null. */
static void print_fabric(FILE *out)
{
	struct vb_cli_fabric_list list;
	uint16_t port;

	if (!vb_cli_fabric_find(&port)) {
		fprintf(out, "null");
		return;
	}
	if (vb_cli_fabric_list_get(port, FABRIC_PATIENCE, &list) == 0)
		vb_cli_fabric_list_json(&list, out);
	else
		fprintf(out, "null");
	vb_cli_fabric_list_free(&list);
}

int vb_web_state_draw_fabric(FILE *out)
{
	struct vb_cli_fabric_list list;
	uint16_t port;
	int error;

	if (!vb_cli_fabric_find(&port))
		return -ENOENT;
	error = vb_cli_fabric_list_get(port, FABRIC_PATIENCE, &list);
	if (error == 0)
		vb_cli_fabric_list_svg(&list, out);
	vb_cli_fabric_list_free(&list);
	return error;
}

int vb_web_state_print(struct vb_web_state *state, struct vb_web_records *records, FILE *out)
{
	int error = look(state);

	if (error)
		return error;
	vb_web_records_find(records, &state->newer.holders);
	print_about(state, out);
	fprintf(out, ",\n\"devices\": ");
	error = print_devices(out);
	fprintf(out, ",\n\"processes\": ");
	print_resources(state, out);
	fprintf(out, ",\n\"rates\": ");
	if (error == 0)
		error = vb_cli_top_print_json(out, state->has_older ? &state->older : &state->newer, &state->newer, VB_CLI_SORT_RATE);
	fprintf(out, ",\n\"fabric\": ");
	print_fabric(out);
	fprintf(out, ",\n\"records\": ");
	vb_web_records_print(records, out);
	fprintf(out, "}\n");
	return error;
}
