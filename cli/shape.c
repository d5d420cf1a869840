/* SPDX-License-Identifier: MIT
 *
 * `verbena shape`: a worse network for packets of a device. verbenad keeps it and tells the processes; they do it.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/names.h"
#include "cli/processes.h"
#include "cli/shown.h"
#include "profiles/profile.h"
#include "progress/devices.h"

/* ---- numbers as people write them ---- */

struct unit {
	const char *name;
	double factor;
};

/* Bits a second, as tc(8) has them: 10g, 10gbit. */
static const struct unit rates[] = {
	{ "", 1 }, { "bit", 1 }, { "k", 1e3 }, { "kbit", 1e3 }, { "m", 1e6 }, { "mbit", 1e6 }, { "g", 1e9 }, { "gbit", 1e9 }, { "t", 1e12 },
	{ "tbit", 1e12 }, { 0 },
};
static const struct unit times[] = { { "ns", 1 }, { "us", 1e3 }, { "µs", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { 0 } };
static const struct unit sizes[] = { { "", 1 }, { "b", 1 }, { "k", 1024 }, { "kb", 1024 }, { "m", 1048576 }, { "mb", 1048576 },
				     { "g", 1073741824.0 }, { 0 } };
static const struct unit parts[] = { { "", VB_SHAPE_BILLION }, { "%", VB_SHAPE_BILLION / 100.0 }, { 0 } };

static bool parse(const char *text, const struct unit *units, double most, uint64_t *out)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || !(value >= 0) || (*text != '.' && (*text < '0' || *text > '9')))
		return false;
	for (; units->name; units++)
		if (!strcasecmp(end, units->name))
			break;
	if (!units->name || value * units->factor > most)
		return false;
	*out = (uint64_t)llround(value * units->factor);
	return true;
}

static void print_rate(uint64_t rate)
{
	if (rate >= 1000000000)
		printf("%g Gb/s", (double)rate / 1e9);
	else if (rate >= 1000000)
		printf("%g Mb/s", (double)rate / 1e6);
	else
		printf("%g kb/s", (double)rate / 1e3);
}

static void print_time(uint64_t nanoseconds)
{
	if (nanoseconds >= 1000000)
		printf("%g ms", (double)nanoseconds / 1e6);
	else if (nanoseconds >= 1000)
		printf("%g us", (double)nanoseconds / 1e3);
	else
		printf("%g ns", (double)nanoseconds);
}

/* ---- asking ---- */

struct listing {
	unsigned count;
	struct vb_daemon_shape row[1024];
};

static bool take(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	struct listing *listing = context;

	(void)fds;
	(void)count;
	if (message->header.type == VB_DAEMON_SHAPE && listing->count < sizeof(listing->row) / sizeof(listing->row[0]))
		listing->row[listing->count++] = message->shape;
	return true;
}

static int fail(int error)
{
	fprintf(stderr, "verbena shape: %s\n", strerror(-error));
	return VB_CLI_FAILED;
}

static const struct vb_device_info *find_device(const struct vb_device_info *list, unsigned count, const char *name, uint32_t index)
{
	for (unsigned i = 0; i < count; i++)
		if (name ? !strcmp(list[i].name, name) : list[i].index == index)
			return &list[i];
	return NULL;
}

static void print_shape(const struct vb_daemon_shape *row, const struct vb_device_info *device)
{
	const struct vb_shape *shape = &row->shape;
	char user[VB_CLI_USER_ROOM], name[VB_CLI_SHOWN_ROOM(sizeof(device->name))];

	printf("%s  ", device ? vb_cli_shown(device->name, name, sizeof(name)) : "?");
	if (shape->rate) {
		printf(" rate ");
		print_rate(shape->rate);
		printf(" (queue of %llu KiB)", (unsigned long long)((shape->queue ? shape->queue : VB_SHAPE_QUEUE) / 1024));
	}
	if (shape->delay || shape->jitter) {
		printf(" delay ");
		print_time(shape->delay);
	}
	if (shape->jitter) {
		printf(" to ");
		print_time(shape->delay + shape->jitter);
	}
	if (shape->loss)
		printf(" loss %g %%", shape->loss * 100.0 / VB_SHAPE_BILLION);
	printf("   for processes of %s\n", row->uid == 0 ? "root and all who set nothing themselves" : vb_cli_user_name(row->uid, user));
}

static void print_json(const struct vb_daemon_shape *row, const struct vb_device_info *device)
{
	printf("{\"device\": ");
	vb_cli_json_string(stdout, device ? device->name : "?");
	printf(", \"uid\": %u, \"rate\": %llu, \"queue\": %llu, \"delay_ns\": %llu, \"jitter_ns\": %llu, \"loss\": %.9g}", row->uid,
	       (unsigned long long)row->shape.rate, (unsigned long long)(row->shape.queue ? row->shape.queue : VB_SHAPE_QUEUE),
	       (unsigned long long)row->shape.delay, (unsigned long long)row->shape.jitter, row->shape.loss / (double)VB_SHAPE_BILLION);
}

static int list_shapes(const struct vb_device_info *devices, unsigned count, bool json)
{
	struct listing listing = { 0 };
	struct vb_daemon_message request;
	struct vb_daemon_client daemon;
	int found = vb_cli_daemon_find("shape", &daemon), error = 0;

	if (found < 0)
		return VB_CLI_FAILED;
	if (found > 0) {
		vb_daemon_message_begin(&request, VB_DAEMON_LIST_SHAPES, 0);
		error = vb_daemon_client_request(&daemon, &request, NULL, 0, take, &listing);
		vb_daemon_client_close(&daemon);
	}
	if (error)
		return fail(error);
	printf("%s", json ? "[" : listing.count ? "" : "No device is shaped.\n");
	for (unsigned i = 0; i < listing.count; i++) {
		const struct vb_device_info *device = find_device(devices, count, NULL, listing.row[i].interface_index);

		if (json) {
			printf("%s\n  ", i ? "," : "");
			print_json(&listing.row[i], device);
		} else {
			print_shape(&listing.row[i], device);
		}
	}
	printf("%s", json ? listing.count ? "\n]\n" : "]\n" : "");
	return VB_CLI_DONE;
}

static int set_shape(uint32_t interface_index, const struct vb_shape *shape)
{
	struct vb_daemon_message request;
	struct vb_daemon_client daemon;
	int error = vb_daemon_client_connect(&daemon, true);

	if (error)
		return fail(error);
	vb_daemon_message_begin(&request, VB_DAEMON_SET_SHAPE, 0);
	request.shape.interface_index = interface_index;
	request.shape.shape = *shape;
	error = vb_daemon_client_request(&daemon, &request, NULL, 0, take, &(struct listing){ 0 });
	vb_daemon_client_close(&daemon);
	return error ? fail(error) : VB_CLI_DONE;
}

/* ---- the command ---- */

/* Only packets that our processes make themselves can be kept back or lost. false: said why. */
static bool can_be_shaped(const struct vb_device_info *device)
{
	const struct vb_profile *profile = vb_profile_of(device->kind);
	char name[VB_CLI_SHOWN_ROOM(sizeof(device->name))];

	if (profile->connection == VB_CONNECT_CM && profile->addressing == VB_ADDRESS_GID)
		return true;
	fprintf(stderr, "verbena shape: %s %s.\n", vb_cli_shown(device->name, name, sizeof(name)),
		profile->connection == VB_CONNECT_MPA ?
			"goes by TCP, whose segments are the kernel's: shape its interface with tc(8) (netem), or disturb streams by "
			"VERBENA_FAULTS (docs/faults.md)" :
			"has no packets that could be shaped");
	return false;
}

struct options {
	const char *device;
	bool off, json, any;
	struct vb_shape shape;
};

static int parse_value(const char *option, const char *value, struct vb_shape *shape)
{
	uint64_t loss = 0;
	bool good = !strcmp(option, "--rate")   ? parse(value, rates, (double)VB_SHAPE_FASTEST, &shape->rate) &&
							  shape->rate >= VB_SHAPE_SLOWEST :
		    !strcmp(option, "--delay")  ? parse(value, times, (double)VB_SHAPE_LONGEST, &shape->delay) :
		    !strcmp(option, "--jitter") ? parse(value, times, (double)VB_SHAPE_LONGEST, &shape->jitter) :
		    !strcmp(option, "--queue")  ? parse(value, sizes, 1e12, &shape->queue) && shape->queue > 0 :
						  parse(value, parts, VB_SHAPE_BILLION, &loss);
	static const char *const wanted[][2] = {
		{ "--rate", "a rate is bits a second, 1k to 10t: 10g, 2.5g, 100m" }, { "--delay", "a time is 0 to 60 s: 50us, 1.5ms" },
		{ "--jitter", "a time is 0 to 60 s: 50us, 1.5ms" }, { "--queue", "a size is bytes: 64k, 1m" },
		{ "--loss", "a loss is a part or a percentage: 0.1%, 0.001" },
	};

	if (!strcmp(option, "--loss"))
		shape->loss = (uint32_t)loss;
	for (size_t i = 0; !good && i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (!strcmp(option, wanted[i][0]))
			return vb_cli_usage_error(&vb_cli_shape, wanted[i][1], value);
	return VB_CLI_DONE;
}

static int parse_arguments(int argc, char **argv, struct options *options)
{
	static const char *const with_value[] = { "--rate", "--delay", "--jitter", "--queue", "--loss" };

	for (int i = 1; i < argc; i++) {
		bool has_value = false;
		int error;

		for (size_t j = 0; j < sizeof(with_value) / sizeof(with_value[0]); j++)
			has_value = has_value || !strcmp(argv[i], with_value[j]);
		if (has_value) {
			if (i + 1 == argc)
				return vb_cli_usage_error(&vb_cli_shape, "a value is missing", argv[i]);
			error = parse_value(argv[i], argv[i + 1], &options->shape);
			if (error)
				return error;
			options->any = true;
			i++;
		} else if (!strcmp(argv[i], "--json")) {
			options->json = true;
		} else if (argv[i][0] == '-') {
			return vb_cli_usage_error(&vb_cli_shape, "unknown option", argv[i]);
		} else if (options->device && !strcmp(argv[i], "off")) {
			options->off = true;
		} else if (options->device) {
			return vb_cli_usage_error(&vb_cli_shape, "one device at a time", argv[i]);
		} else {
			options->device = argv[i];
		}
	}
	if (options->any && !options->device)
		return vb_cli_usage_error(&vb_cli_shape, "which device?", NULL);
	if (options->device && options->any == options->off)
		return vb_cli_usage_error(&vb_cli_shape, options->off ? "off, or how?" : "how? Or off", options->device);
	return VB_CLI_DONE;
}

static int shape(int argc, char **argv)
{
	struct options options = { 0 };
	struct vb_device_info *devices;
	const struct vb_device_info *device;
	unsigned count;
	int code = parse_arguments(argc, argv, &options), error;

	if (code)
		return code;
	error = vb_devices_list(&devices, &count);
	if (error)
		return fail(error);
	device = options.device ? find_device(devices, count, options.device, 0) : NULL;
	if (options.device && !device)
		fprintf(stderr, "verbena shape: there is no device `%s'. `verbena devices` lists them.\n", options.device);
	code = !options.device ? list_shapes(devices, count, options.json) :
	       device && can_be_shaped(device) ? set_shape(device->interface_index, &options.shape) : VB_CLI_FAILED;
	free(devices);
	return code;
}

const struct vb_cli_command vb_cli_shape = {
	.name = "shape",
	.summary = "give a device a slower, longer or worse network",
	.usage = "Usage: verbena shape [--json]\n"
		 "       verbena shape DEVICE [--rate R] [--delay T] [--jitter T] [--loss P] [--queue SIZE]\n"
		 "       verbena shape DEVICE off\n\n"
		 "Packets that your processes send on the device are given a rate, a delay and losses, from this moment on,\n"
		 "also those of programs that run already; no rights are needed, and nobody else's packets are touched (what\n"
		 "root sets is for all who set nothing themselves). Without a device: lists what is set. It holds until `off',\n"
		 "or until verbenad ends; what is not named is not shaped.\n\n"
		 "  --rate R       bits a second, with all headers: 10g, 2.5g, 100m\n"
		 "  --delay T      one way: 50us, 1ms\n"
		 "  --jitter T     up to this is added, packet by packet; none overtakes another\n"
		 "  --loss P       of packets: 0.1%, 0.001\n"
		 "  --queue SIZE   what may wait for the rate, the rest is lost: 64k, 1m (1m)\n"
		 "  --json         the list for programs\n\n"
		 "Devices of RoCE only: those of iWARP go by TCP, and their interface can be shaped with tc(8).\n\n"
		 "Connections that are made while a device is shaped go by wire, even on one host; those through memory that\n"
		 "are there already stay as they are.\n\n"
		 "Examples:\n"
		 "  verbena shape roce_eth0 --rate 10g --delay 50us --loss 0.1%\n"
		 "  verbena shape\n"
		 "  verbena shape roce_eth0 off\n",
	.main = shape,
};
