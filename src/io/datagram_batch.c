/* SPDX-License-Identifier: MIT
 *
 * recvmmsg(2), sendmmsg(2), udp(7).
 *
 * A queue is a list of runs, each one sendmsg: datagrams to one address, of one length but for the last, which may be shorter. A datagram
 * joins the last run if it fits there, so order between two ends is kept. Each datagram has two parts: the head, which is copied, and the
 * body, which is not if it lies where it was received. Datagrams that lie there one behind the other are one part together.
 */
#include "io/datagram_batch.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "io/datagram.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
	BUFFER = 65536,
	CONTROL = CMSG_SPACE(sizeof(int)),
	RUNS = 16,
	PARTS = 1024,
	PARTS_OF_ONE = 2,
	OF_A_RUN = 64,                     /* the kernel's limit, UDP_MAX_SEGMENTS, was that */
	LONGEST_RUN = 65507,               /* of UDP, before it is cut */
	COPIES = 128 * 1024,
	LONG = 32 * 1024,                  /* a bundle; the next may be, too */
};

/* ---- receiving ---- */

struct vb_datagram_batch {
	struct vb_datagram_bundle bundle[VB_DATAGRAM_BATCH];
	struct mmsghdr message[VB_DATAGRAM_BATCH];
	struct iovec span[VB_DATAGRAM_BATCH];
	union vb_datagram_address address[VB_DATAGRAM_BATCH];
	union {
		struct cmsghdr align;
		char room[CONTROL];
	} control[VB_DATAGRAM_BATCH];
	uint8_t *buffers;
	unsigned wanted;                   /* by the next call */
	bool was_all;
};

struct vb_datagram_batch *vb_datagram_batch_create(void)
{
	struct vb_datagram_batch *batch = calloc(1, sizeof(*batch));

	if (!batch)
		return NULL;
	/* Touched as far as datagrams are long: pages that none has reached cost nothing. */
	batch->buffers = mmap(NULL, (size_t)VB_DATAGRAM_BATCH * BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (batch->buffers == MAP_FAILED) {
		free(batch);
		return NULL;
	}
	batch->wanted = VB_DATAGRAM_BATCH;
	for (unsigned i = 0; i < VB_DATAGRAM_BATCH; i++) {
		batch->span[i] = (struct iovec){batch->buffers + (size_t)i * BUFFER, BUFFER};
		batch->bundle[i].bytes = batch->span[i].iov_base;
	}
	return batch;
}

void vb_datagram_batch_destroy(struct vb_datagram_batch *batch)
{
	if (!batch)
		return;
	munmap(batch->buffers, (size_t)VB_DATAGRAM_BATCH * BUFFER);
	free(batch);
}

static void describe(struct vb_datagram_batch *batch, unsigned i)
{
	struct vb_datagram_bundle *bundle = &batch->bundle[i];
	struct msghdr *message = &batch->message[i].msg_hdr;

	bundle->length = bundle->segment = batch->message[i].msg_len;
	vb_datagram_read_address(&batch->address[i], bundle->gid, &bundle->port, &bundle->interface_index);
	for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h; h = CMSG_NXTHDR(message, h)) {
		int segment;

		if (h->cmsg_level != IPPROTO_UDP || h->cmsg_type != UDP_GRO)
			continue;
		memcpy(&segment, CMSG_DATA(h), sizeof(segment));
		if (segment > 0 && (size_t)segment < bundle->length)
			bundle->segment = (size_t)segment;
	}
}

unsigned vb_datagram_batch_receive(struct vb_datagram_batch *batch, int fd)
{
	size_t bytes = 0;
	int count;

	for (unsigned i = 0; i < batch->wanted; i++)
		batch->message[i].msg_hdr = (struct msghdr){
			.msg_name = &batch->address[i],
			.msg_namelen = sizeof(batch->address[i]),
			.msg_iov = &batch->span[i],
			.msg_iovlen = 1,
			.msg_control = &batch->control[i],
			.msg_controllen = CONTROL,
		};
	do
		count = recvmmsg(fd, batch->message, batch->wanted, MSG_DONTWAIT, NULL);
	while (count < 0 && errno == EINTR);
	for (int i = 0; i < count; i++) {
		describe(batch, (unsigned)i);
		bytes += batch->bundle[i].length;
	}
	batch->was_all = count < (int)batch->wanted;
	batch->wanted = bytes >= LONG ? 1 : VB_DATAGRAM_BATCH;
	return count < 0 ? 0 : (unsigned)count;
}

bool vb_datagram_batch_was_all(const struct vb_datagram_batch *batch)
{
	return batch->was_all;
}

struct vb_datagram_bundle *vb_datagram_batch_at(struct vb_datagram_batch *batch, unsigned index)
{
	return &batch->bundle[index];
}

/* ---- sending ---- */

struct run {
	union vb_datagram_address to;
	socklen_t to_length;
	uint8_t gid[16];
	uint16_t port;
	uint32_t interface_index;
	size_t segment, bytes;
	unsigned first, parts;             /* where they are, and how many */
	unsigned count;                    /* datagrams */
	bool is_closed;                    /* the last is shorter */
};

struct vb_datagram_queue {
	int fd, family;
	const uint8_t *stable;             /* bodies there are sent from there */
	unsigned runs, parts;
	size_t copied;
	struct run run[RUNS];
	struct iovec part[PARTS];
	uint8_t copies[COPIES];
};

struct vb_datagram_queue *vb_datagram_queue_create(int fd, const struct vb_datagram_batch *batch)
{
	struct vb_datagram_queue *queue = malloc(sizeof(*queue));

	if (!queue)
		return NULL;
	queue->fd = fd;
	queue->family = vb_datagram_family(fd);
	queue->stable = batch->buffers;
	queue->runs = queue->parts = 0;
	queue->copied = 0;
	return queue;
}

void vb_datagram_queue_destroy(struct vb_datagram_queue *queue)
{
	free(queue);
}

static void add_segment(struct msghdr *message, void *control, uint16_t segment)
{
	struct cmsghdr *header = control;

	header->cmsg_level = IPPROTO_UDP;
	header->cmsg_type = UDP_SEGMENT;
	header->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(header), &segment, sizeof(segment));
	message->msg_control = control;
	message->msg_controllen = CMSG_SPACE(sizeof(segment));
}

/* A route that refuses segmentation (an interface without checksum offload, a path MTU below the segment) takes them one by one. No
 * datagram is of more than PARTS_OF_ONE parts. 0 or the last -errno. */
static int send_singly(int fd, const struct msghdr *run, size_t segment)
{
	struct iovec own[PARTS_OF_ONE];
	size_t in_part = 0, at = 0;
	int error = 0;

	while (at < run->msg_iovlen) {
		struct msghdr message = {.msg_name = run->msg_name, .msg_namelen = run->msg_namelen, .msg_iov = own};

		for (size_t room = segment; at < run->msg_iovlen && room > 0 && message.msg_iovlen < PARTS_OF_ONE;) {
			const struct iovec *part = &run->msg_iov[at];
			size_t taken = part->iov_len - in_part < room ? part->iov_len - in_part : room;

			own[message.msg_iovlen++] = (struct iovec){(uint8_t *)part->iov_base + in_part, taken};
			room -= taken;
			in_part += taken;
			if (in_part == part->iov_len) {
				in_part = 0;
				at++;
			}
		}
		if (sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			error = -errno;
	}
	return error;
}

void vb_datagram_queue_flush(struct vb_datagram_queue *queue)
{
	struct mmsghdr messages[RUNS];
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(uint16_t))];
	} control[RUNS];
	unsigned sent = 0;

	for (unsigned i = 0; i < queue->runs; i++) {
		struct run *run = &queue->run[i];
		struct msghdr *message = &messages[i].msg_hdr;

		*message = (struct msghdr){.msg_name = &run->to, .msg_namelen = run->to_length, .msg_iov = &queue->part[run->first],
					   .msg_iovlen = run->parts};
		if (run->count > 1)
			add_segment(message, &control[i], (uint16_t)run->segment);
	}
	while (sent < queue->runs) {
		int done = queue->runs - sent > 1 ? sendmmsg(queue->fd, messages + sent, queue->runs - sent, MSG_DONTWAIT | MSG_NOSIGNAL) :
			   sendmsg(queue->fd, &messages[sent].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ? 1 : -1;

		if (done > 0) {
			sent += (unsigned)done;
		} else if (errno != EINTR) {
			/* A full socket loses packets: a sender that needs them sends them again. */
			if (errno != EAGAIN && errno != ENOBUFS && queue->run[sent].count > 1)
				(void)send_singly(queue->fd, &messages[sent].msg_hdr, queue->run[sent].segment);
			sent++;
		}
	}
	queue->runs = queue->parts = 0;
	queue->copied = 0;
}

static bool joins(const struct run *run, const uint8_t gid[16], uint16_t port, uint32_t interface_index, size_t length)
{
	return !run->is_closed && run->count < OF_A_RUN && length <= run->segment && run->bytes + length <= LONGEST_RUN &&
	       run->port == port && run->interface_index == interface_index && memcmp(run->gid, gid, 16) == 0;
}

static void *keep(struct vb_datagram_queue *queue, const void *bytes, size_t length)
{
	uint8_t *copy = queue->copies + queue->copied;

	memcpy(copy, bytes, length);
	queue->copied += length;
	return copy;
}

static bool is_stable(const struct vb_datagram_queue *queue, const void *body)
{
	uintptr_t at = (uintptr_t)body, from = (uintptr_t)queue->stable;

	return at - from < (size_t)VB_DATAGRAM_BATCH * BUFFER;
}

static struct run *begin_run(struct vb_datagram_queue *queue, const uint8_t gid[16], uint16_t port, uint32_t interface_index,
			     size_t segment)
{
	struct run *run = &queue->run[queue->runs++];

	*run = (struct run){.port = port, .interface_index = interface_index, .segment = segment, .first = queue->parts};
	memcpy(run->gid, gid, 16);
	run->to_length = vb_datagram_write_address(queue->family, &run->to, gid, port, interface_index);
	return run;
}

static void add_part(struct vb_datagram_queue *queue, struct run *run, const void *bytes, size_t length)
{
	queue->part[queue->parts++] = (struct iovec){(void *)(uintptr_t)bytes, length};
	run->parts++;
}

void vb_datagram_queue_add(struct vb_datagram_queue *queue, const uint8_t gid[16], uint16_t port, uint32_t interface_index,
			   const void *head, size_t head_length, const void *body, size_t body_length)
{
	struct run *run = queue->runs > 0 ? &queue->run[queue->runs - 1] : NULL;
	size_t length = head_length + body_length;

	if (head_length > VB_DATAGRAM_HEAD || body_length > BUFFER || length == 0)
		return;
	if (queue->parts + PARTS_OF_ONE > PARTS || queue->copied + length > COPIES ||
	    (queue->runs == RUNS && !joins(run, gid, port, interface_index, length))) {
		vb_datagram_queue_flush(queue);
		run = NULL;
	}
	if (!run || !joins(run, gid, port, interface_index, length))
		run = begin_run(queue, gid, port, interface_index, length);
	if (head_length > 0)
		add_part(queue, run, keep(queue, head, head_length), head_length);
	if (body_length > 0)
		add_part(queue, run, is_stable(queue, body) ? body : keep(queue, body, body_length), body_length);
	run->count++;
	run->bytes += length;
	run->is_closed = length < run->segment;
}

void vb_datagram_queue_add_run(struct vb_datagram_queue *queue, const uint8_t gid[16], uint16_t port, uint32_t interface_index,
			       const uint8_t *bytes, size_t segment, unsigned count)
{
	unsigned most = LONGEST_RUN / segment < OF_A_RUN ? (unsigned)(LONGEST_RUN / segment) : OF_A_RUN;

	for (unsigned at = 0; most > 0 && at < count; at += most) {
		struct run *run;

		if (queue->parts == PARTS || queue->runs == RUNS)
			vb_datagram_queue_flush(queue);
		run = begin_run(queue, gid, port, interface_index, segment);
		run->count = count - at < most ? count - at : most;
		run->bytes = run->count * segment;
		add_part(queue, run, bytes + at * segment, run->bytes);
	}
}

int vb_datagram_send_run(int fd, struct iovec *parts, unsigned count, unsigned parts_of_one, uint16_t segment)
{
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(uint16_t))];
	} control;
	bool was_refused = false;

	if (count > parts_of_one)
		add_segment(&message, &control, segment);
	while (sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno == EINTR)
			continue;
		/* An earlier datagram was: this run has not been tried. */
		if (errno == ECONNREFUSED && !was_refused) {
			was_refused = true;
			continue;
		}
		if (count == parts_of_one || errno == EAGAIN || errno == ENOBUFS || errno == ECONNREFUSED)
			return -errno;
		message.msg_controllen = 0;
		return send_singly(fd, &message, segment);
	}
	return 0;
}
