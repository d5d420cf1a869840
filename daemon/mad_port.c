/* SPDX-License-Identifier: MIT */
#include "daemon/mad_port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/rmpp.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/unix_socket.h"

/* A subnet manager reads fast; who lets more than this pile up does not read at all. */
enum { MOST_UNSENT = 96 * 1024 * 1024 };

struct unsent {
	struct vb_list node;
	int fd;                            /* of a long message, -1: none */
	size_t length;
	uint8_t bytes[];
};

struct vb_mad_port *vb_mad_port_create(struct vb_client *client, int poller, int *other, int *error)
{
	struct vb_mad_port *port = calloc(1, sizeof(*port));
	int ends[2];

	*error = port ? vb_unix_pair(ends) : -ENOMEM;
	if (*error != 0) {
		free(port);
		return NULL;
	}
	vb_list_init(&port->node);
	vb_list_init(&port->unsent);
	port->client = client;
	port->fd = ends[0];
	port->poller = poller;
	*error = vb_poller_add(poller, port->fd, port);
	if (*error != 0) {
		vb_descriptor_close(ends[0]);
		vb_descriptor_close(ends[1]);
		free(port);
		return NULL;
	}
	*other = ends[1];
	return port;
}

static void forget(struct vb_mad_port *port, struct unsent *unsent)
{
	if (unsent->fd >= 0)
		vb_descriptor_close(unsent->fd);
	vb_list_remove(&unsent->node);
	port->unsent_bytes -= unsent->length;
	free(unsent);
}

void vb_mad_port_destroy(struct vb_mad_port *port)
{
	VB_LIST_FOR_EACH(node, &port->unsent)
		forget(port, vb_container_of(node, struct unsent, node));
	vb_list_remove(&port->node);
	vb_poller_remove(port->poller, port->fd);
	vb_descriptor_close(port->fd);
	free(port);
}

void vb_mad_port_deliver(struct vb_mad_port *port, const struct vb_umad *header, const void *message, size_t length)
{
	bool is_long = length > VB_UMAD_INLINE;
	size_t inlined = sizeof(*header) + (is_long ? 0 : length);
	struct unsent *unsent = port->unsent_bytes + length <= MOST_UNSENT ? malloc(sizeof(*unsent) + inlined) : NULL;

	if (port->failed || !unsent) {
		port->failed = true;
		free(unsent);
		return;
	}
	*unsent = (struct unsent){.fd = -1, .length = inlined};
	memcpy(unsent->bytes, header, sizeof(*header));
	if (is_long)
		unsent->fd = vb_page_create_filled("verbena-mad", message, length);
	else
		memcpy(unsent->bytes + sizeof(*header), message, length);
	if (is_long && unsent->fd < 0) {
		port->failed = true;
		free(unsent);
		return;
	}
	vb_list_append(&port->unsent, &unsent->node);
	port->unsent_bytes += unsent->length;
	vb_mad_port_flush(port);
}

static void want_write(struct vb_mad_port *port, bool wanted)
{
	if (port->wants_write != wanted)
		vb_poller_want_write(port->poller, port->fd, port, wanted);
	port->wants_write = wanted;
}

void vb_mad_port_flush(struct vb_mad_port *port)
{
	VB_LIST_FOR_EACH(node, &port->unsent) {
		struct unsent *unsent = vb_container_of(node, struct unsent, node);
		int error = vb_unix_send(port->fd, unsent->bytes, unsent->length, &unsent->fd, unsent->fd >= 0, false);

		if (error == -EAGAIN || error == -ENOBUFS) {
			want_write(port, true);
			return;
		}
		if (error != 0)
			port->failed = true;
		forget(port, unsent);
	}
	want_write(port, false);
}

static int read_long(int fd, const struct vb_umad *header, void **message, size_t *length)
{
	int error = vb_page_read(fd, VB_RMPP_MAX_MESSAGE, message, length);

	if (error == 0 && header->length != sizeof(*header) + *length) {
		free(*message);
		error = -EPROTO;
	}
	return error;
}

int vb_mad_port_receive(struct vb_mad_port *port, struct vb_umad *header, void **message, size_t *length)
{
	uint8_t *bytes = malloc(sizeof(*header) + VB_UMAD_INLINE);
	int fd = -1, error = 0;
	unsigned count = 0;
	ssize_t got;

	if (!bytes)
		return -ENOMEM;
	got = vb_unix_receive(port->fd, bytes, sizeof(*header) + VB_UMAD_INLINE, &fd, 1, &count, 0);
	if (got <= 0) {
		free(bytes);
		return got == 0 ? -ECONNRESET : (int)got;
	}
	if ((size_t)got < sizeof(*header)) {
		error = -EPROTO;
	} else {
		memcpy(header, bytes, sizeof(*header));
		*length = (size_t)got - sizeof(*header);
		if (count == 1) {
			error = read_long(fd, header, message, length);
		} else if (header->length != (size_t)got) {
			error = -EPROTO;
		} else {
			memmove(bytes, bytes + sizeof(*header), *length);
			*message = bytes;
			bytes = NULL;
		}
	}
	if (count == 1)
		vb_descriptor_close(fd);
	free(bytes);
	return error;
}
