/* SPDX-License-Identifier: MIT
 *
 * O_APPEND makes each write whole with regard to others (write(2)); the header is written by the process that finds the file
 * empty. The times of all processes are taken from this machine's monotonic clock and moved by
 * the same amount, which stands in the header, so that they compare.
 *
 * The file begins with an interface for IP packets. One for frames of RoCEv1 or InfiniBand is appended by the first
 * process that has such a frame: who looks whether there is one, and appends it, holds the header's lock, so that its
 * number is known.
 */
#include "capture/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mutex.h"
#include "capture/buffer.h"
#include "capture/frame.h"
#include "capture/pcapng.h"
#include "io/clock.h"
#include "io/descriptor.h"

enum { FLUSH_AT = 256 * 1024 };

struct vb_capture {
	struct vb_mutex lock;
	int fd;                            /* -1: writing failed, no more is written */
	int64_t clock;
	off_t limit;                       /* of the file's length, 0: none */
	uint32_t pid;
	uint64_t host;
	struct {
		bool known;
		uint32_t number;
	} ethernet, erf;                   /* interfaces of the file */
	struct vb_capture_buffer buffer;
};

static int64_t clock_difference(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - vb_clock_now();
}

static uint64_t this_host(void)
{
	struct stat status;

	return stat("/proc/self/ns/net", &status) == 0 ? (uint64_t)status.st_ino : 0;
}

static int write_all(int fd, const uint8_t *bytes, size_t length)
{
	while (length > 0) {
		ssize_t written = write(fd, bytes, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		bytes += written;
		length -= (size_t)written;
	}
	return 0;
}

/* For as long as the file is open, shared. Waits for a reader that puts a finished capture in order. */
static int lock_file(int fd)
{
	while (flock(fd, LOCK_SH) != 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* Who comes first writes the header: a record lock (fcntl(2)), which is another kind than flock's, decides. */
static int lock_header(int fd, short type)
{
	struct flock region = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

	while (fcntl(fd, F_OFD_SETLKW, &region) != 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static int begin_or_join(struct vb_capture *capture)
{
	uint8_t head[VB_PCAPNG_HEAD];
	int error = lock_header(capture->fd, F_WRLCK);
	ssize_t length;

	if (error != 0)
		return error;
	length = pread(capture->fd, head, sizeof(head), 0);
	if (length < 0) {
		error = -errno;
	} else if (length > 0) {
		error = vb_pcapng_is_ours(head, (size_t)length, &capture->clock) ? 0 : -EEXIST;
	} else {
		capture->clock = clock_difference();
		vb_pcapng_begin(&capture->buffer, capture->clock);
		error = capture->buffer.failed ? -ENOMEM :
			write_all(capture->fd, capture->buffer.bytes, capture->buffer.used);
		capture->buffer.used = 0;
	}
	(void)lock_header(capture->fd, F_UNLCK);
	return error;
}

/* VERBENA_CAPTURE_LIMIT, in bytes: of the file, by whichever processes. */
static off_t read_limit(void)
{
	const char *text = secure_getenv("VERBENA_CAPTURE_LIMIT");
	long long limit = text ? atoll(text) : 0;

	return limit > 0 ? (off_t)limit : 0;
}

int vb_capture_open(struct vb_capture **out, const char *path)
{
	struct vb_capture *capture = calloc(1, sizeof(*capture));
	int error = 0;

	if (!capture)
		return -ENOMEM;
	/* Readable by its owner alone: it holds whatever was sent. */
	capture->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
	if (capture->fd < 0)
		error = -errno;
	if (error == 0) {
		capture->fd = vb_descriptor_lift(capture->fd);
		error = lock_file(capture->fd);
	}
	if (error == 0)
		error = begin_or_join(capture);
	if (error != 0) {
		if (capture->fd >= 0)
			vb_descriptor_close(capture->fd);
		vb_capture_buffer_free(&capture->buffer);
		free(capture);
		return error;
	}
	capture->pid = (uint32_t)getpid();
	capture->host = this_host();
	capture->limit = read_limit();
	vb_mutex_init(&capture->lock, VB_RANK_CAPTURE);
	*out = capture;
	return 0;
}

/* Caller holds capture->lock. */
static bool is_full(const struct vb_capture *capture)
{
	struct stat status;

	return capture->limit > 0 && fstat(capture->fd, &status) == 0 && status.st_size >= capture->limit;
}

/* Caller holds capture->lock. */
static void write_out(struct vb_capture *capture)
{
	int error = 0;

	if (capture->fd >= 0 && capture->buffer.used > 0)
		error = capture->buffer.failed ? -ENOMEM :
			write_all(capture->fd, capture->buffer.bytes, capture->buffer.used);
	capture->buffer.used = 0;
	if (error == 0 && (capture->fd < 0 || !is_full(capture)))
		return;
	if (error)
		vb_log(VB_LOG_ERROR, "the capture ends here: %s", strerror(-error));
	else
		vb_log(VB_LOG_INFO, "the capture ends here: it has its %lld bytes", (long long)capture->limit);
	vb_descriptor_close(capture->fd);
	capture->fd = -1;
}

void vb_capture_flush(struct vb_capture *capture)
{
	vb_mutex_lock(&capture->lock);
	write_out(capture);
	vb_mutex_unlock(&capture->lock);
}

void vb_capture_close(struct vb_capture *capture)
{
	if (!capture)
		return;
	vb_capture_flush(capture);
	if (capture->fd >= 0)
		vb_descriptor_close(capture->fd);
	vb_mutex_fini(&capture->lock);
	vb_capture_buffer_free(&capture->buffer);
	free(capture);
}

void vb_capture_abandon(struct vb_capture *capture)
{
	if (capture->fd >= 0)
		vb_descriptor_close(capture->fd);
	capture->fd = -1;
}

static void complete(const struct vb_capture *capture, struct vb_capture_record *record)
{
	if (record->flags & VB_CAPTURE_RECEIVED) {
		record->receiver = capture->pid;
		record->receiver_host = capture->host;
		record->received = (record->received ? record->received : vb_clock_now()) + capture->clock;
		return;
	}
	record->pid = capture->pid;
	record->host = capture->host;
	record->time = (record->time ? record->time : vb_clock_now()) + capture->clock;
}

void vb_capture_note(struct vb_capture *capture, struct vb_capture_record *record)
{
	vb_mutex_lock(&capture->lock);
	complete(capture, record);
	vb_pcapng_record(&capture->buffer, record);
	write_out(capture);
	vb_mutex_unlock(&capture->lock);
}

/* ---- interfaces ---- */

/* How many interfaces the file has, and the number of that link type's, or the same. Caller holds the header's lock. */
static int count_interfaces(int fd, uint32_t link_type, uint32_t *number)
{
	struct vb_pcapng_reader reader;
	struct vb_pcapng_item item;
	enum vb_pcapng_item_kind kind;
	struct stat status;
	void *bytes;

	if (fstat(fd, &status) != 0)
		return -errno;
	bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	vb_pcapng_read(&reader, bytes, (size_t)status.st_size);
	do
		kind = vb_pcapng_next(&reader, &item);
	while (kind == VB_PCAPNG_PACKET || kind == VB_PCAPNG_RECORD);
	for (*number = 0; *number < reader.interfaces && reader.interface[*number].link_type != link_type; ++*number)
		;
	munmap(bytes, (size_t)status.st_size);
	return (int)reader.interfaces;
}

/* Caller holds capture->lock. 0 or -errno. */
static int add_interface(struct vb_capture *capture, uint16_t link_type, uint32_t *number)
{
	struct vb_capture_buffer block = {0};
	int count, error = lock_header(capture->fd, F_WRLCK);

	if (error != 0)
		return error;
	count = count_interfaces(capture->fd, link_type, number);
	if (count >= 0 && *number == (uint32_t)count) {
		vb_pcapng_interface(&block, link_type);
		error = block.failed ? -ENOMEM : write_all(capture->fd, block.bytes, block.used);
	}
	(void)lock_header(capture->fd, F_UNLCK);
	vb_capture_buffer_free(&block);
	return count < 0 ? count : error;
}

/* The interface for frames of that link type. Caller holds capture->lock. False: there is none, and the capture has ended. */
static bool find_interface(struct vb_capture *capture, uint16_t link_type, uint32_t *number)
{
	int error = 0;

	*number = 0;
	if (capture->fd < 0)
		return false;
	if (link_type == VB_FRAME_ETHERNET || link_type == VB_FRAME_ERF) {
		bool *known = link_type == VB_FRAME_ERF ? &capture->erf.known : &capture->ethernet.known;
		uint32_t *kept = link_type == VB_FRAME_ERF ? &capture->erf.number : &capture->ethernet.number;

		if (!*known)
			error = add_interface(capture, link_type, kept);
		*known = error == 0;
		*number = *kept;
	}
	if (error != 0) {
		vb_log(VB_LOG_ERROR, "the capture ends here: %s", strerror(-error));
		vb_descriptor_close(capture->fd);
		capture->fd = -1;
	}
	return error == 0;
}

/* ---- packets ---- */

/* Caller holds capture->lock. The record is complete. */
static void append(struct vb_capture *capture, struct vb_capture_record *record, uint16_t link_type, const uint8_t *headers,
		   size_t header_length, const uint8_t *bytes, size_t length, const char *comment)
{
	uint32_t interface;

	if (!find_interface(capture, link_type, &interface))
		return;
	vb_pcapng_record(&capture->buffer, record);
	vb_pcapng_packet(&capture->buffer, interface, record->flags & VB_CAPTURE_RECEIVED ? record->received : record->time,
			 record->flags, headers, header_length, bytes, length, comment);
	if (capture->buffer.used >= FLUSH_AT)
		write_out(capture);
}

static void append_packet(struct vb_capture *capture, struct vb_capture_record *record, uint16_t link_type, const uint8_t *headers,
			  size_t header_length, const uint8_t *bytes, size_t length, const char *comment)
{
	vb_mutex_lock(&capture->lock);
	record->kind = VB_CAPTURE_PACKET;
	complete(capture, record);
	append(capture, record, link_type, headers, header_length, bytes, length, comment);
	vb_mutex_unlock(&capture->lock);
}

void vb_capture_packet(struct vb_capture *capture, struct vb_capture_record *record, const struct vb_path *path,
		       uint16_t ip_id, const uint8_t *datagram, size_t length, const char *comment)
{
	uint8_t headers[VB_FRAME_HEADERS];
	size_t header_length = vb_frame_headers(headers, path, ip_id, datagram, length);

	append_packet(capture, record, VB_FRAME_RAW, headers, header_length, datagram, length, comment);
}

void vb_capture_ethernet(struct vb_capture *capture, struct vb_capture_record *record, const struct vb_path *path,
			 const uint8_t destination[6], const uint8_t source[6], const uint8_t *packet, size_t length, const char *comment)
{
	uint8_t headers[VB_FRAME_ETHERNET_HEADERS];

	vb_frame_ethernet_headers(headers, destination, source, path, length);
	append_packet(capture, record, VB_FRAME_ETHERNET, headers, sizeof(headers), packet, length, comment);
}

void vb_capture_infiniband(struct vb_capture *capture, struct vb_capture_record *record, const uint8_t *frame, size_t length,
			   const char *comment)
{
	uint8_t erf[VB_FRAME_ERF_MOST];
	size_t erf_length;

	vb_mutex_lock(&capture->lock);
	record->kind = VB_CAPTURE_PACKET;
	complete(capture, record);
	erf_length = vb_frame_erf(erf, record->flags & VB_CAPTURE_RECEIVED ? record->received : record->time, frame, length);
	if (erf_length > 0)
		append(capture, record, VB_FRAME_ERF, erf, erf_length, NULL, 0, comment);
	vb_mutex_unlock(&capture->lock);
}

void vb_capture_segment(struct vb_capture *capture, struct vb_capture_record *record, const struct vb_frame_tcp *segment,
			const uint8_t *bytes, size_t length, const char *comment)
{
	uint8_t headers[VB_FRAME_TCP_HEADERS];
	size_t header_length = vb_frame_tcp_headers(headers, segment, bytes, length);

	append_packet(capture, record, VB_FRAME_RAW, headers, header_length, bytes, length, comment);
}
