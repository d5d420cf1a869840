/* SPDX-License-Identifier: MIT
 *
 * Reading captures for the simulator's tests.
 */
#include "sim/golden.h"

#include <dirent.h>

#include "vectors/capture.h"

static void load(struct golden_file *file, const char *path)
{
	struct captured_packet captured;
	struct capture capture;

	file->count = file->end_count = 0;
	assert_true(capture_open(&capture, path));
	while (capture_next(&capture, &captured)) {
		struct vb_roce_packet *packet = &file->packets[file->count];

		assert_true(file->count < GOLDEN_PACKETS && captured.length <= GOLDEN_DATAGRAM);
		memcpy(file->bytes[file->count], captured.datagram, captured.length);
		assert_int_equal(vb_roce_packet_decode(packet, file->bytes[file->count], captured.length,
						       &captured.path, true, captured.ip_id),
				 VB_PACKET_OK);
		file->count++;
	}
	capture_close(&capture);
}

static struct golden_end *end_of(struct golden_file *file, const struct vb_roce_packet *packet)
{
	struct golden_end *end;

	for (unsigned i = 0; i < file->end_count; i++) {
		end = &file->ends[i];
		if (end->qpn == packet->destination_qpn && memcmp(end->address, packet->from.destination, 16) == 0)
			return end;
	}
	assert_true(file->end_count < GOLDEN_ENDS);
	end = &file->ends[file->end_count++];
	memset(end, 0, sizeof(*end));
	memcpy(end->address, packet->from.destination, 16);
	memcpy(end->peer, packet->from.source, 16);
	end->qpn = packet->destination_qpn;
	end->type = packet->op->service == VB_SERVICE_RC ? IBV_QPT_RC :
		    packet->op->service == VB_SERVICE_UC ? IBV_QPT_UC :
							   IBV_QPT_UD;
	end->first_psn = packet->psn.v;
	end->qkey = packet->deth.qkey;
	end->mtu = 1024;
	return end;
}

/* What was captured of requests, and at which MTU. MADs are the connection manager's. */
static void find_ends(struct golden_file *file)
{
	for (unsigned i = 0; i < file->count; i++) {
		struct vb_roce_packet *packet = &file->packets[i];
		struct golden_end *end;

		if (!packet->op->is_request || packet->destination_qpn <= 1)
			continue;
		end = end_of(file, packet);
		end->requests++;
		if (packet->op->position == VB_POSITION_FIRST || packet->op->position == VB_POSITION_MIDDLE)
			end->mtu = packet->payload_length;
		else if (packet->payload_length > end->mtu)
			end->mtu = 4096;
	}
	/* Read responses tell the MTU of those who only read. */
	for (unsigned i = 0; i < file->count; i++)
		if (file->packets[i].op->kind == VB_KIND_READ_RESPONSE &&
		    file->packets[i].op->position == VB_POSITION_MIDDLE)
			for (unsigned k = 0; k < file->end_count; k++)
				if (file->ends[k].type == IBV_QPT_RC)
					file->ends[k].mtu = file->packets[i].payload_length;
}

enum ibv_mtu golden_mtu(const struct golden_end *end)
{
	enum ibv_mtu code = IBV_MTU_256;

	while (128u << code < end->mtu)
		code++;
	return code;
}

void golden_open(struct golden_file *file, const char *folder, const char *name)
{
	char path[4096];

	memset(file, 0, sizeof(*file));
	file->packets = calloc(GOLDEN_PACKETS, sizeof(*file->packets));
	file->bytes = calloc(GOLDEN_PACKETS, GOLDEN_DATAGRAM);
	assert_non_null(file->packets);
	assert_non_null(file->bytes);
	snprintf(file->name, sizeof(file->name), "%s", name);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	load(file, path);
	find_ends(file);
}

void golden_close(struct golden_file *file)
{
	free(file->packets);
	free(file->bytes);
}

bool golden_name_has(const struct golden_file *file, const char *part)
{
	return strstr(file->name, part) != NULL;
}

bool golden_is_for(const struct vb_roce_packet *packet, const struct golden_end *end)
{
	return packet->op->is_request && packet->destination_qpn == end->qpn &&
	       memcmp(packet->from.destination, end->address, 16) == 0;
}

static void play_folder(const char *folder, void (*play)(struct golden_file *file))
{
	DIR *directory = opendir(folder);
	struct golden_file file;
	struct dirent *entry;

	assert_non_null(directory);
	while ((entry = readdir(directory)) != NULL) {
		if (strncmp(entry->d_name, "rxe-", 4) != 0)
			continue;
		golden_open(&file, folder, entry->d_name);
		play(&file);
		golden_close(&file);
	}
	closedir(directory);
}

void golden_each(const char *folder, void (*play)(struct golden_file *file))
{
	char older[4096];

	snprintf(older, sizeof(older), "%s/linux-6.1", folder);
	play_folder(folder, play);
	play_folder(older, play);
}
