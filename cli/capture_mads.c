/* SPDX-License-Identifier: MIT
 *
 * A thread reads what verbenad tells. verbenad does one thing after the other: when it has answered a question that was asked at the end,
 * everything before is in the socket.
 */
#include "cli/capture_mads.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "capture/writer.h"
#include "io/daemon_client.h"
#include "io/descriptor.h"
#include "wire/mad_tap.h"
#include "wire/roce_packet.h"

#define PATIENCE VB_SECONDS(1)

struct vb_cli_mads {
	struct vb_daemon_client daemon;
	int fd, stop;
	struct vb_capture *capture;
	pthread_t thread;
};

static void write_one(const struct vb_cli_mads *mads, const struct vb_mad_tapped *head, const uint8_t *bytes)
{
	struct vb_capture_record record = {
		.flags = head->sent ? VB_CAPTURE_SENT : VB_CAPTURE_RECEIVED,
		.time = head->time,
		.received = head->time,
	};
	struct vb_ib_frame frame;

	if (!vb_ib_frame_decode(&frame, bytes, head->length))
		return;
	record.qpn = record.peer_qpn = vb_bth_destination_qpn(frame.bth);
	vb_capture_infiniband(mads->capture, &record, bytes, head->length,
			      head->sent ? "sent by this host's adapter" : "for this host's adapter");
}

/* False: there is nothing more now. */
static bool read_one(const struct vb_cli_mads *mads)
{
	struct {
		struct vb_mad_tapped head;
		uint8_t frame[VB_IB_MAD_FRAME];
	} message;
	ssize_t length = vb_descriptor_receive(mads->fd, &message, sizeof(message));

	if (length <= 0)
		return false;
	if ((size_t)length >= sizeof(message.head) && message.head.length == (size_t)length - sizeof(message.head))
		write_one(mads, &message.head, message.frame);
	return true;
}

static void *run_thread(void *context)
{
	struct vb_cli_mads *mads = context;
	struct pollfd wait[2] = {{.fd = mads->fd, .events = POLLIN}, {.fd = mads->stop, .events = POLLIN}};

	while (!(wait[1].revents & POLLIN) && !(wait[0].revents & POLLHUP)) {
		if (poll(wait, 2, -1) < 0)
			continue;
		while (read_one(mads))
			;
		vb_capture_flush(mads->capture);
	}
	return NULL;
}

static bool take_socket(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	int *fd = context;

	if (message->header.type == VB_DAEMON_MAD_TAP && count == 1)
		*fd = vb_descriptor_duplicate(fds[0]);
	return true;
}

static bool take_adapter(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	(void)fds;
	(void)count;
	*(bool *)context |= message->header.type == VB_DAEMON_ADAPTER;
	return true;
}

static bool open_tap(struct vb_cli_mads *mads)
{
	struct vb_daemon_message request;
	bool is_there = false;

	/* Whether there is one is asked first: a refusal would be logged. */
	vb_daemon_message_begin(&request, VB_DAEMON_LIST_ADAPTERS, 0);
	if (vb_daemon_client_request(&mads->daemon, &request, NULL, 0, take_adapter, &is_there) != 0 || !is_there)
		return false;
	vb_daemon_message_begin(&request, VB_DAEMON_OPEN_MAD_TAP, 0);
	return vb_daemon_client_request(&mads->daemon, &request, NULL, 0, take_socket, &mads->fd) == 0 && mads->fd >= 0;
}

static bool begin(struct vb_cli_mads *mads, const char *path)
{
	struct vb_capture_record record = {.kind = VB_CAPTURE_PROCESS, .text = "vib0"};
	sigset_t all, before;
	bool started;

	if (!open_tap(mads) || vb_capture_open(&mads->capture, path) != 0)
		return false;
	vb_capture_note(mads->capture, &record);
	mads->stop = eventfd(0, EFD_CLOEXEC);
	if (mads->stop < 0)
		return false;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&mads->thread, NULL, run_thread, mads) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

static void release(struct vb_cli_mads *mads)
{
	vb_capture_close(mads->capture);
	if (mads->fd >= 0)
		vb_descriptor_close(mads->fd);
	if (mads->stop >= 0)
		vb_descriptor_close(mads->stop);
	vb_daemon_client_close(&mads->daemon);
	free(mads);
}

struct vb_cli_mads *vb_cli_mads_start(const char *path)
{
	struct vb_cli_mads *mads = calloc(1, sizeof(*mads));

	if (!mads)
		return NULL;
	mads->fd = mads->stop = -1;
	if (vb_daemon_client_reach(&mads->daemon, PATIENCE) != 0) {
		free(mads);
		return NULL;
	}
	if (!begin(mads, path)) {
		release(mads);
		return NULL;
	}
	return mads;
}

void vb_cli_mads_stop(struct vb_cli_mads *mads)
{
	const uint64_t one = 1;
	struct vb_daemon_message request;
	bool ignored = false;

	if (!mads)
		return;
	vb_daemon_message_begin(&request, VB_DAEMON_LIST_ADAPTERS, 0);
	(void)vb_daemon_client_request(&mads->daemon, &request, NULL, 0, take_adapter, &ignored);
	if (write(mads->stop, &one, sizeof(one)) == sizeof(one))
		pthread_join(mads->thread, NULL);
	while (read_one(mads))
		;
	release(mads);
}
