/* SPDX-License-Identifier: MIT
 *
 * One file per setting, one number in it; what is missing or unreadable leaves the default.
 */
#include "rdmacm/rsocket/settings.h"

#include <stdio.h>

#include "rdmacm/rsocket/stream_wire.h"

enum {
	QUEUE_LEAST = 16,
	QUEUE_MOST = 0x7ff0,             /* credits are compared as signed 16-bit distances */
	BUFFER_LEAST = 4096,
	BUFFER_MOST = 1 << 28,           /* a length must fit the 29 bits of a message, twice over */
};

static struct vb_rsocket_settings settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_number(const char *directory, const char *name, uint32_t *number)
{
	char path[256];
	unsigned value;
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
		return;
	file = fopen(path, "re");
	if (file == NULL)
		return;
	if (fscanf(file, "%u", &value) == 1)
		*number = value;
	fclose(file);
}

static uint32_t within(uint32_t value, uint32_t least, uint32_t most)
{
	return value < least ? least : value > most ? most : value;
}

void vb_rsocket_sizes_round(struct vb_rsocket_sizes *sizes)
{
	sizes->receive_buffer = within(sizes->receive_buffer, BUFFER_LEAST, BUFFER_MOST) & ~1U;
	sizes->send_buffer = within(sizes->send_buffer, BUFFER_LEAST, BUFFER_MOST);
	sizes->send_queue = within(sizes->send_queue, QUEUE_LEAST, QUEUE_MOST);
	sizes->receive_queue = within(sizes->receive_queue, QUEUE_LEAST, QUEUE_MOST);
	sizes->inline_data = within(sizes->inline_data, 0, UINT16_MAX);
	sizes->iomaps = vb_rstream_scale_decode(vb_rstream_scale_encode(sizes->iomaps));
}

void vb_rsocket_settings_read(struct vb_rsocket_settings *to, const char *directory)
{
	/* Both buffers must hold what is under way while the other side sleeps and wakes: iperf3 on one loaded
	 * machine made 2.9 Gb/s with rdma-core's 128 KiB, 7.3 with 512 KiB, 11.6 with 2 MiB. Pages are used only when
	 * data passes. */
	*to = (struct vb_rsocket_settings){
		.sizes = {
			.receive_buffer = 1 << 20, .send_buffer = 1 << 20,
			.send_queue = 384, .receive_queue = 384,
			.inline_data = 64, .iomaps = 0,
		},
		.polling_microseconds = 10,
		.wake_up_milliseconds = VB_RSOCKET_NO_INTERVAL,
	};
	read_number(directory, "mem_default", &to->sizes.receive_buffer);
	read_number(directory, "wmem_default", &to->sizes.send_buffer);
	read_number(directory, "sqsize_default", &to->sizes.send_queue);
	read_number(directory, "rqsize_default", &to->sizes.receive_queue);
	read_number(directory, "inline_default", &to->sizes.inline_data);
	read_number(directory, "iomap_size", &to->sizes.iomaps);
	read_number(directory, "polling_time", &to->polling_microseconds);
	read_number(directory, "wake_up_interval", &to->wake_up_milliseconds);
	if (to->wake_up_milliseconds != VB_RSOCKET_NO_INTERVAL)
		to->wake_up_milliseconds = within(to->wake_up_milliseconds, 1, 3600000);
	vb_rsocket_sizes_round(&to->sizes);
}

static void read_settings(void)
{
	vb_rsocket_settings_read(&settings, "/etc/rdma/rsocket");
}

const struct vb_rsocket_settings *vb_rsocket_settings(void)
{
	pthread_once(&once, read_settings);
	return &settings;
}
