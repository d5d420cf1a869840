/* SPDX-License-Identifier: MIT
 *
 * O_APPEND makes each write whole with regard to others (write(2)); the header is written by whoever finds the file
 * empty. The times of all processes are taken from this machine's monotonic clock and moved by
 * the same amount, which stands in the header, so that they compare.
 */
#include "capture/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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

static void append_packet(struct vb_capture *capture, struct vb_capture_record *record, const uint8_t *headers, size_t header_length,
			  const uint8_t *bytes, size_t length, const char *comment)
{
	vb_mutex_lock(&capture->lock);
	record->kind = VB_CAPTURE_PACKET;
	complete(capture, record);
	vb_pcapng_record(&capture->buffer, record);
	vb_pcapng_packet(&capture->buffer, record->flags & VB_CAPTURE_RECEIVED ? record->received : record->time,
			 record->flags, headers, header_length, bytes, length, comment);
	if (capture->buffer.used >= FLUSH_AT)
		write_out(capture);
	vb_mutex_unlock(&capture->lock);
}

void vb_capture_packet(struct vb_capture *capture, struct vb_capture_record *record, const struct vb_path *path,
		       uint16_t ip_id, const uint8_t *datagram, size_t length, const char *comment)
{
	uint8_t headers[VB_FRAME_HEADERS];
	size_t header_length = vb_frame_headers(headers, path, ip_id, datagram, length);

	append_packet(capture, record, headers, header_length, datagram, length, comment);
}

void vb_capture_segment(struct vb_capture *capture, struct vb_capture_record *record, const struct vb_frame_tcp *segment,
			const uint8_t *bytes, size_t length, const char *comment)
{
	uint8_t headers[VB_FRAME_TCP_HEADERS];
	size_t header_length = vb_frame_tcp_headers(headers, segment, bytes, length);

	append_packet(capture, record, headers, header_length, bytes, length, comment);
}
