/* SPDX-License-Identifier: MIT
 *
 * The file lab: messages over a reliable connection, for both sides. Nothing here knows about files.
 *
 * Everything waits in one place, lab_wait: it sleeps on two descriptors, that of the completion channel and that of
 * the connection manager, because a peer that vanishes shows itself as an event, as a failed request, or by silence,
 * and each has to end the wait.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* program_invocation_short_name */
#endif
#include "lab.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(struct lab_message) == 256, "both sides must agree");

/* ---- Saying that something is wrong ---- */

static void complain(const char *format, va_list arguments)
{
	fflush(stdout);
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
}

void lab_fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	complain(format, arguments);
	va_end(arguments);
	exit(EXIT_FAILURE);
}

void lab_part_missing(int part)
{
	lab_fail("part %d is not written yet", part);
}

void lab_give_up(struct lab_connection *connection, const char *format, ...)
{
	struct lab_message message = { .kind = LAB_ABORT };
	va_list arguments;

	va_start(arguments, format);
	complain(format, arguments);
	va_end(arguments);
	va_start(arguments, format);
	vsnprintf(message.text, sizeof(message.text), format, arguments);
	va_end(arguments);
	lab_send(connection, &message);
	lab_linger(connection);
	rdma_disconnect(connection->id);
	exit(EXIT_FAILURE);
}

/* ---- Connection ---- */

static const char *why_not_connected(const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
		return "no RDMA device leads to that address";
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return "there is no route to that address";
	case RDMA_CM_EVENT_UNREACHABLE:
		return "no answer from that address";
	case RDMA_CM_EVENT_REJECTED:
		/* IBA 12.6.7.2: 8 is "invalid service id". */
		return event->status == 8 ? "nobody listens there (is the receiver running?)"
					  : "the other side said no";
	default:
		return rdma_event_str(event->event);
	}
}

struct rdma_cm_event *lab_event(struct rdma_event_channel *events, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(events, &event))
		lab_fail("rdma_get_cm_event: %s", strerror(errno));
	if (event->event != wanted)
		lab_fail("not connected: %s", why_not_connected(event));
	return event;
}

void lab_post_receive(struct lab_connection *connection, unsigned slot)
{
	struct ibv_sge piece = { (uintptr_t)&connection->messages[slot], sizeof(struct lab_message),
				 connection->messages_mr->lkey };
	struct ibv_recv_wr request = { .wr_id = LAB_ID_RECEIVE + slot, .sg_list = &piece, .num_sge = 1 }, *refused;
	int error = ibv_post_recv(connection->id->qp, &request, &refused);

	if (error)
		lab_fail("ibv_post_recv: %s", strerror(error));
	connection->receives_posted++;
}

/* ---- Waiting ---- */

/* Takes account of what is completed. Returns how many; the first bad status goes into *failure. */
static int poll_completions(struct lab_connection *connection, enum ibv_wc_status *failure)
{
	struct ibv_wc completion;
	int count, total = 0;

	while ((count = ibv_poll_cq(connection->cq, 1, &completion)) > 0) {
		total++;
		if (completion.status == IBV_WC_SUCCESS && completion.wr_id == LAB_ID_PROBE) {
			connection->probing = false;
			continue;
		}
		connection->silence = 0;
		if (completion.status != IBV_WC_SUCCESS) {
			if (*failure == IBV_WC_SUCCESS)
				*failure = completion.status;
		} else if (completion.wr_id >= LAB_ID_WRITE) {
			connection->writes_under_way--;
		} else if (completion.wr_id == LAB_ID_SEND) {
			connection->sending = false;
		} else if (completion.byte_len != sizeof(struct lab_message)) {
			lab_fail("a message of %u bytes arrived; ours have %zu", completion.byte_len,
				 sizeof(struct lab_message));
		} else {
			connection->arrived[connection->arrived_count++] =
				(unsigned)(completion.wr_id - LAB_ID_RECEIVE);
		}
	}
	if (count < 0)
		lab_fail("ibv_poll_cq failed");
	return total;
}

__attribute__((noreturn)) static void fail_by_status(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		lab_fail("the peer has vanished: it acknowledges nothing any more (%s)", ibv_wc_status_str(status));
	case IBV_WC_REM_ACCESS_ERR:
		lab_fail("the peer does not allow that access to its memory: wrong address, length or rkey (%s)",
			 ibv_wc_status_str(status));
	case IBV_WC_LOC_PROT_ERR:
		lab_fail("a request names memory of ours that is not registered: wrong address, length or lkey (%s)",
			 ibv_wc_status_str(status));
	case IBV_WC_WR_FLUSH_ERR:
		lab_fail("the peer has vanished: the connection is broken (%s)", ibv_wc_status_str(status));
	default:
		lab_fail("a request failed: %s", ibv_wc_status_str(status));
	}
}

static void take_event(struct lab_connection *connection)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(connection->events, &event))
		lab_fail("rdma_get_cm_event: %s", strerror(errno));
	if (event->event == RDMA_CM_EVENT_DISCONNECTED)
		connection->closed = true;
	rdma_ack_cm_event(event);
}

/* While we wait for the peer to speak, nothing of ours is under way, so nothing can fail: a peer whose cable was pulled would
 * never be missed. A WRITE of no bytes touches no memory and needs no key, but it has to be acknowledged. */
static void probe(struct lab_connection *connection)
{
	struct ibv_send_wr request = { .wr_id = LAB_ID_PROBE, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *refused;

	if (!connection->probing && ibv_post_send(connection->id->qp, &request, &refused) == 0)
		connection->probing = true;
}

/* Sleeps until one of the two descriptors has something. */
static void sleep_for_news(struct lab_connection *connection)
{
	struct pollfd wait[2] = { { .fd = connection->completions->fd, .events = POLLIN },
				  { .fd = connection->events->fd, .events = POLLIN } };
	int ready = poll(wait, 2, LAB_PROBE * 1000);
	struct ibv_cq *cq;
	void *context;

	if (ready < 0 && errno != EINTR)
		lab_fail("poll: %s", strerror(errno));
	if (ready == 0) {
		connection->silence += LAB_PROBE;
		if (connection->silence >= LAB_PATIENCE)
			lab_fail("the peer is there, but has said nothing for %d seconds", LAB_PATIENCE);
		probe(connection);
	}
	if (ready > 0 && wait[0].revents) {
		if (ibv_get_cq_event(connection->completions, &cq, &context))
			lab_fail("ibv_get_cq_event: %s", strerror(errno));
		ibv_ack_cq_events(cq, 1);
	}
	if (ready > 0 && wait[1].revents)
		take_event(connection);
}

void lab_wait(struct lab_connection *connection)
{
	enum ibv_wc_status failure = IBV_WC_SUCCESS;

	while (poll_completions(connection, &failure) == 0) {
		if (connection->closed)
			lab_fail("the peer has vanished: it closed the connection in the middle of the conversation");
		/* Ask for an event, then look again: what came in between makes none. */
		if (ibv_req_notify_cq(connection->cq, 0))
			lab_fail("ibv_req_notify_cq failed");
		if (poll_completions(connection, &failure) > 0)
			break;
		sleep_for_news(connection);
	}
	/* An ABORT that arrived before the end explains it better than the end does. */
	if (failure != IBV_WC_SUCCESS && connection->arrived_count == 0)
		fail_by_status(failure);
}

void lab_wait_for_end(struct lab_connection *connection)
{
	enum ibv_wc_status failure = IBV_WC_SUCCESS;

	/* Looking first, and again after asking for an event, as in lab_wait; a peer that is gone has ended it, too. */
	while (!connection->closed && failure == IBV_WC_SUCCESS) {
		if (ibv_req_notify_cq(connection->cq, 0))
			lab_fail("ibv_req_notify_cq failed");
		if (poll_completions(connection, &failure) == 0)
			sleep_for_news(connection);
	}
}

/* ---- Messages ---- */

void lab_send(struct lab_connection *connection, const struct lab_message *message)
{
	struct lab_message *slot = &connection->messages[LAB_RECEIVES];
	struct ibv_sge piece = { (uintptr_t)slot, sizeof(*slot), connection->messages_mr->lkey };
	struct ibv_send_wr request = { .wr_id = LAB_ID_SEND, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED }, *refused;
	int error;

	/* There is one buffer to send from; until its request is completed, it belongs to the adapter. */
	while (connection->sending)
		lab_wait(connection);
	*slot = *message;
	slot->kind = htobe32(message->kind);
	slot->rkey = htobe32(message->rkey);
	slot->address = htobe64(message->address);
	slot->length = htobe64(message->length);
	connection->sending = true;
	error = ibv_post_send(connection->id->qp, &request, &refused);
	if (error)
		lab_fail("ibv_post_send: %s", strerror(error));
}

void lab_linger(struct lab_connection *connection)
{
	struct pollfd wait = { .fd = connection->events->fd, .events = POLLIN };
	enum ibv_wc_status failure = IBV_WC_SUCCESS;
	time_t limit = time(NULL) + 2;

	/* Whoever has the last word may be alone before he knows that it was heard: that is no failure. */
	while (connection->sending && failure == IBV_WC_SUCCESS && !connection->closed && time(NULL) < limit) {
		poll_completions(connection, &failure);
		if (poll(&wait, 1, 1) > 0)
			take_event(connection);
	}
}

struct lab_message lab_receive(struct lab_connection *connection)
{
	struct lab_message message;
	unsigned slot;

	while (connection->arrived_count == 0)
		lab_wait(connection);
	slot = connection->arrived[0];
	memmove(connection->arrived, connection->arrived + 1,
		--connection->arrived_count * sizeof(connection->arrived[0]));
	message = connection->messages[slot];
	message.kind = be32toh(message.kind);
	message.rkey = be32toh(message.rkey);
	message.address = be64toh(message.address);
	message.length = be64toh(message.length);
	message.text[LAB_TEXT - 1] = '\0';
	if (message.kind == LAB_ABORT)
		lab_fail("the peer gave up: %s", message.text);
	lab_post_receive(connection, slot);
	return message;
}

struct lab_message lab_expect(struct lab_connection *connection, enum lab_kind kind)
{
	static const char *const name[] = { "nothing", "OFFER", "REGION", "WINDOW", "NEXT", "DONE", "GOOD", "BAD",
					    "IDENTITY", "KEY", "ABORT" };
	struct lab_message message = lab_receive(connection);

	if (message.kind != kind)
		lab_give_up(connection, "%s arrived where %s was expected",
			    message.kind <= LAB_ABORT ? name[message.kind] : "rubbish", name[kind]);
	return message;
}

/* ---- Showing ---- */

void lab_progress(const char *what, uint64_t done, uint64_t total)
{
	static struct timespec began, drawn;
	struct timespec now;
	double seconds, since;
	int width = total ? (int)(30 * done / total) : 30;

	if (!isatty(STDERR_FILENO))
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (done == 0)
		began = now;
	seconds = (double)(now.tv_sec - began.tv_sec) + (double)(now.tv_nsec - began.tv_nsec) / 1e9;
	since = (double)(now.tv_sec - drawn.tv_sec) + (double)(now.tv_nsec - drawn.tv_nsec) / 1e9;
	/* Twenty pictures a second are enough. */
	if (done != 0 && done != total && since < 0.05)
		return;
	drawn = now;
	fprintf(stderr, "\r%-10s [%.*s%*s] %3d%%  %.1f MB, %.0f MB/s \033[K", what, width,
		"##############################", 30 - width, "", total ? (int)(100 * done / total) : 100,
		(double)done / 1e6, seconds > 0 ? (double)done / 1e6 / seconds : 0);
	if (done == total)
		fputc('\n', stderr);
}

void lab_hex(char *text, const uint8_t *bytes, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		sprintf(text + 2 * i, "%02x", bytes[i]);
}
