/* SPDX-License-Identifier: MIT
 *
 * Many datagrams of a cable's socket (io/datagram.h) at a time: what waits in one call, what leaves in one call, and
 * datagrams of one length between the same two ends as one (UDP_GRO, UDP_SEGMENT), so that what came in as one goes on as one.
 */
#ifndef VB_IO_DATAGRAM_BATCH_H
#define VB_IO_DATAGRAM_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { VB_DATAGRAM_BATCH = 8 };

/* `length` bytes, datagrams of `segment` bytes each but perhaps the last. */
struct vb_datagram_bundle {
	uint8_t *bytes;
	size_t length, segment;
	uint8_t gid[16];                   /* who sent it */
	uint16_t port;
	uint32_t interface_index;
};

struct vb_datagram_batch;

/* NULL: no memory. */
struct vb_datagram_batch *vb_datagram_batch_create(void);
void vb_datagram_batch_destroy(struct vb_datagram_batch *batch);
/* Take what waits, without waiting: how many bundles, few of them where they are long, so that the first goes on before the last has come.
 * What was taken before is gone. */
unsigned vb_datagram_batch_receive(struct vb_datagram_batch *batch, int fd);
/* Was that all? */
bool vb_datagram_batch_was_all(const struct vb_datagram_batch *batch);
struct vb_datagram_bundle *vb_datagram_batch_at(struct vb_datagram_batch *batch, unsigned index);

struct vb_datagram_queue;

/* What leaves by `fd`. Bodies that lie in the batch's memory are sent from there, and must stay until the next flush; others are copied.
 * NULL: no memory. */
struct vb_datagram_queue *vb_datagram_queue_create(int fd, const struct vb_datagram_batch *batch);
void vb_datagram_queue_destroy(struct vb_datagram_queue *queue);
/* One datagram of two parts, of which the first has at most VB_DATAGRAM_HEAD bytes. What is full is flushed first. */
enum { VB_DATAGRAM_HEAD = 192 };
void vb_datagram_queue_add(struct vb_datagram_queue *queue, const uint8_t gid[16], uint16_t port, uint32_t interface_index,
			   const void *head, size_t head_length, const void *body, size_t body_length);
/* Datagrams of `segment` bytes that lie in the batch's memory, one behind the other. */
void vb_datagram_queue_add_run(struct vb_datagram_queue *queue, const uint8_t gid[16], uint16_t port, uint32_t interface_index,
			       const uint8_t *bytes, size_t segment, unsigned count);
/* What a full socket does not take is lost. */
void vb_datagram_queue_flush(struct vb_datagram_queue *queue);

/* Datagrams of `segment` bytes each but perhaps the last, each of as many parts as `parts_of_one` says, by a connected socket. What can be
 * sent as one is. 0 or -errno: some, or all, were not sent. */
int vb_datagram_send_run(int fd, struct iovec *parts, unsigned count, unsigned parts_of_one, uint16_t segment);

#endif
