/* SPDX-License-Identifier: MIT
 *
 * iser_check INITIATOR URL: writes a disk of 16 MiB and reads it back, in requests of 128 KiB, 32 of them at a time, and compares.
 */
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, CHUNK = 128 * 1024, CHUNKS = 128, AT_ONCE = 32 };

static int in_flight, done;

static void fail(struct iscsi_context *iscsi, const char *what)
{
	fprintf(stderr, "%s: %s\n", what, iscsi_get_error(iscsi));
	exit(1);
}

static void fill(unsigned char *data, unsigned chunk)
{
	for (unsigned i = 0; i < CHUNK; i++)
		data[i] = (unsigned char)(chunk * 13 + i % 253);
}

static void finish(struct iscsi_context *iscsi, int status, void *command, void *private)
{
	unsigned char expected[CHUNK];
	struct scsi_task *task = command;

	if (status != SCSI_STATUS_GOOD)
		fail(iscsi, "a command");
	if (task->xfer_dir == SCSI_XFER_READ) {
		fill(expected, (unsigned)(uintptr_t)private);
		if (task->datain.size != CHUNK || memcmp(task->datain.data, expected, CHUNK) != 0) {
			fprintf(stderr, "chunk %u is not what was written\n", (unsigned)(uintptr_t)private);
			exit(1);
		}
	}
	scsi_free_scsi_task(task);
	in_flight--;
	done++;
}

static void move(struct iscsi_context *iscsi, int lun, int writes)
{
	static unsigned char data[CHUNKS][CHUNK];
	unsigned next = 0;

	for (done = 0; done < CHUNKS;) {
		struct pollfd ready;

		for (; in_flight < AT_ONCE && next < CHUNKS; next++, in_flight++) {
			uint64_t block = (uint64_t)next * (CHUNK / BLOCK);
			void *private = (void *)(uintptr_t)next;

			fill(data[next], next);
			if (!(writes ? iscsi_write16_task(iscsi, lun, block, data[next], CHUNK, BLOCK, 0, 0, 0, 0, 0, finish, private)
				     : iscsi_read16_task(iscsi, lun, block, CHUNK, BLOCK, 0, 0, 0, 0, 0, finish, private)))
				fail(iscsi, "a request");
		}
		ready = (struct pollfd){.fd = iscsi_get_fd(iscsi), .events = (short)iscsi_which_events(iscsi)};
		if (poll(&ready, 1, -1) < 0 || iscsi_service(iscsi, ready.revents) < 0)
			fail(iscsi, "waiting");
	}
}

int main(int argc, char **argv)
{
	struct iscsi_context *iscsi = argc == 3 ? iscsi_create_context(argv[1]) : NULL;
	struct iscsi_url *url = iscsi ? iscsi_parse_full_url(iscsi, argv[2]) : NULL;

	if (!url)
		return 2;
	iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
	if (iscsi_init_transport(iscsi, url->transport) != 0 || iscsi_full_connect_sync(iscsi, url->portal, url->lun) != 0)
		fail(iscsi, "connecting");
	move(iscsi, url->lun, 1);
	move(iscsi, url->lun, 0);
	printf("%d requests written, read and compared\n", done);
	iscsi_logout_sync(iscsi);
	iscsi_destroy_url(url);
	iscsi_destroy_context(iscsi);
	return 0;
}
