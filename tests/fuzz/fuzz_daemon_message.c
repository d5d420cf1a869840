/* SPDX-License-Identifier: MIT
 *
 * The check of daemon messages against any bytes, from either side. Half of the inputs get a right header first, or nearly
 * everything would be refused for its magic number. What is accepted has the length it says and strings that end.
 *
 * Input: sender and choices, type, descriptors, then the message.
 */
#include <stdbool.h>
#include <string.h>

#include "target.h"
#include "wire/daemon_message.h"

static bool ends(const char *text, size_t room)
{
	return memchr(text, '\0', room) != NULL;
}

static void check_accepted(const struct vb_daemon_message *message, size_t length, unsigned descriptors)
{
	FUZZ_CHECK(message->header.magic == VB_DAEMON_MAGIC && message->header.length == length);
	FUZZ_CHECK(vb_daemon_message_name(message->header.type));
	switch (message->header.type) {
	case VB_DAEMON_HELLO:
		FUZZ_CHECK(ends(message->hello.program, sizeof(message->hello.program)));
		break;
	case VB_DAEMON_WELCOME:
		FUZZ_CHECK(ends(message->welcome.version, sizeof(message->welcome.version)));
		break;
	case VB_DAEMON_ERROR:
		FUZZ_CHECK(ends(message->error.text, sizeof(message->error.text)) && message->error.error > 0);
		break;
	case VB_DAEMON_DEVICE:
		FUZZ_CHECK(ends(message->device.name, sizeof(message->device.name)));
		FUZZ_CHECK(ends(message->device.interface, sizeof(message->device.interface)));
		FUZZ_CHECK(message->device.gid_count <= VB_DAEMON_GIDS);
		FUZZ_CHECK(offsetof(struct vb_daemon_message, device.gid) + 16 * message->device.gid_count == length);
		break;
	case VB_DAEMON_PROCESS:
		FUZZ_CHECK(ends(message->process.program, sizeof(message->process.program)));
		break;
	case VB_DAEMON_PROCESS_DEVICE:
		FUZZ_CHECK(ends(message->process_device.device, sizeof(message->process_device.device)));
		break;
	case VB_DAEMON_PROCESS_RESOURCES:
		FUZZ_CHECK(ends(message->process_resources.program, sizeof(message->process_resources.program)));
		FUZZ_CHECK(descriptors == (message->process_resources.error == 0));
		break;
	case VB_DAEMON_SLOT:
	case VB_DAEMON_ADOPT_SLOT:
		FUZZ_CHECK(vb_daemon_descriptor_count(message->slot.descriptors) == descriptors);
		FUZZ_CHECK(message->slot.slot >= 1 && message->slot.slot < VB_DAEMON_SLOTS);
		break;
	case VB_DAEMON_OPEN_LANE:
	case VB_DAEMON_ADOPT_LANE:
	case VB_DAEMON_CLOSE_LANE:
	case VB_DAEMON_LANE:
		FUZZ_CHECK(vb_daemon_descriptor_count(message->lane.descriptors) == descriptors);
		FUZZ_CHECK(message->lane.slot >= 1 && message->lane.slot < VB_DAEMON_SLOTS);
		FUZZ_CHECK(message->lane.lane >= 1 && message->lane.lane < VB_DAEMON_LANES);
		break;
	}
}

/* A message of the chosen type with the input's bytes over its body; small numbers and empty strings stay likely. */
static size_t compose(struct vb_daemon_message *message, const uint8_t *input, size_t length)
{
	uint8_t *body = (uint8_t *)message + sizeof(message->header);
	unsigned types = input[0] & 128 ? 16 : 11;
	unsigned type = (input[0] & 4 ? 0x41 : input[0] & 128 ? 5 : 1) + input[1] % types;

	vb_daemon_message_begin(message, (enum vb_daemon_type)type, 1);
	if (type == VB_DAEMON_DEVICE) {
		struct vb_daemon_device device = {.name = "roce_x", .interface = "x", .interface_index = 1,
						  .active_mtu = 3, .guid = 1, .gid_count = input[2] % VB_DAEMON_GIDS};

		vb_daemon_message_set_device(message, &device);
	}
	/* One small change in the body; its place and value are in the input. */
	if (length > 6 && message->header.length > sizeof(message->header) && input[0] & 8)
		body[(input[3] << 8 | input[4]) % (message->header.length - sizeof(message->header))] = input[5];
	if (input[0] & 16)
		message->slot.slot = input[3];
	if (input[0] & 32)
		message->slot.descriptors = input[4] & VB_DAEMON_FD_ALL;
	if (input[0] & 64 && message->header.length == sizeof(message->header) + sizeof(message->lane)) {
		message->lane.lane = input[3] % (VB_DAEMON_LANES + 1);
		message->lane.descriptors = input[4] % 8;
	}
	return message->header.length;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	static struct vb_daemon_message message;
	enum vb_daemon_sender sender;
	unsigned descriptors;
	uint8_t *bytes;
	size_t size;

	if (length < 6)
		return 0;
	sender = input[0] & 1 ? VB_DAEMON_FROM_DAEMON : VB_DAEMON_FROM_PROCESS;
	descriptors = input[2] % 8;
	memset(&message, 0, sizeof(message));
	if (input[0] & 2) {
		size = compose(&message, input, length);
	} else {
		size = length - 3 < sizeof(message) ? length - 3 : sizeof(message);
		memcpy(&message, input + 3, size);
	}
	bytes = malloc(size ? size : 1); /* of exactly that size, for the sanitizer */
	if (!bytes)
		return 0;
	memcpy(bytes, &message, size);
	if (vb_daemon_message_check(bytes, size, descriptors, sender) == 0)
		check_accepted(&message, size, descriptors);
	free(bytes);
	return 0;
}
