/* SPDX-License-Identifier: MIT
 *
 * Sending without ever waiting: what a slow process has not read yet is kept, up to a limit.
 */
#include "daemon/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/users.h"
#include "io/descriptor.h"
#include "io/event.h"

/* Ten thousand connections may end at once, with an event of half a kilobyte each. */
enum { MOST_UNSENT = 16 * 1024 * 1024, MUCH_AT_ONCE = 16 * 1024, SEND_TRIES = 4 };

struct unsent {
	struct vb_list node;
	size_t length;
	uint8_t bytes[];
};

static void count_unsent(struct vb_client *client, ptrdiff_t more)
{
	client->unsent_bytes += (size_t)more;
	if (client->user)
		client->user->unsent += (size_t)more;
}

struct vb_client *vb_client_create(int fd, int poller)
{
	struct vb_client *client = calloc(1, sizeof(*client));

	if (!client || vb_unix_peer(fd, &client->peer) != 0 || vb_poller_add(poller, fd, client) != 0) {
		free(client);
		vb_descriptor_close(fd);
		return NULL;
	}
	client->fd = fd;
	client->poller = poller;
	client->page_fd = client->segment_fd = client->wake_fd = -1;
	for (unsigned lane = 0; lane < VB_DAEMON_LANES; lane++)
		client->dedicated_fd[lane] = -1;
	vb_list_init(&client->node);
	vb_list_init(&client->unsent);
	vb_connect_owner_init(&client->cm_ids);
	return client;
}

void vb_client_destroy(struct vb_client *client)
{
	vb_list_remove(&client->node);
	VB_LIST_FOR_EACH(node, &client->unsent)
		free(vb_container_of(node, struct unsent, node));
	count_unsent(client, -(ptrdiff_t)client->unsent_bytes);
	vb_client_set_page(client, -1);
	vb_client_forget_segment(client);
	vb_poller_remove(client->poller, client->fd);
	vb_descriptor_close(client->fd);
	free(client);
}

/* The kernel is short of memory for a moment, or the socket of room: neither is the client's fault. */
static bool is_for_later(int error)
{
	return error == -EAGAIN || error == -ENOBUFS || error == -ENOMEM;
}

static bool keep(struct vb_client *client, const void *bytes, size_t length)
{
	struct unsent *unsent;

	if (client->unsent_bytes + length > MOST_UNSENT || (client->user && !vb_user_may_wait_for(client->user, length)) ||
	    !(unsent = malloc(sizeof(*unsent) + length)))
		return false;
	unsent->length = length;
	memcpy(unsent->bytes, bytes, length);
	vb_list_append(&client->unsent, &unsent->node);
	count_unsent(client, (ptrdiff_t)length);
	return true;
}

/* Who does not read is told of when he does. */
static void block(struct vb_client *client, bool blocked)
{
	if (client->blocked != blocked)
		vb_poller_want_write(client->poller, client->fd, client, blocked);
	client->blocked = blocked;
}

static void send_or_keep(struct vb_client *client, const void *bytes, size_t length, const int *fds, unsigned count)
{
	unsigned tries = count > 0 ? SEND_TRIES : 1;
	int error = -EAGAIN;

	if (client->failed)
		return;
	/* Those before it go first. */
	if (!client->blocked)
		vb_client_flush(client);
	/* Descriptors cannot be kept, and a client that is dropped loses its slot: a moment's want of memory must not end in that. */
	if (vb_list_is_empty(&client->unsent))
		do
			error = vb_unix_send(client->fd, bytes, length, fds, count, false);
		while (--tries > 0 && (error == -ENOBUFS || error == -ENOMEM));
	if (!is_for_later(error) || count > 0) {
		client->failed |= error != 0;
		return;
	}
	client->failed = !keep(client, bytes, length);
	block(client, true);
}

void vb_client_send_descriptors(struct vb_client *client, const struct vb_daemon_message *message, const int *fds,
				unsigned count)
{
	send_or_keep(client, message, message->header.length, fds, count);
}

bool vb_client_try_send_descriptor(struct vb_client *client, const struct vb_daemon_message *message, int fd)
{
	if (!client->blocked)
		vb_client_flush(client);
	return !client->failed && vb_list_is_empty(&client->unsent) &&
	       vb_unix_send(client->fd, message, message->header.length, &fd, 1, false) == 0;
}

void vb_client_send_bytes(struct vb_client *client, const void *bytes, size_t length)
{
	if (client->failed)
		return;
	if (!client->blocked && client->unsent_bytes >= MUCH_AT_ONCE)
		vb_client_flush(client);
	/* What there is no memory for may have room in the socket. */
	if (!keep(client, bytes, length))
		send_or_keep(client, bytes, length, NULL, 0);
}

void vb_client_send(struct vb_client *client, const struct vb_daemon_message *message)
{
	vb_client_send_descriptors(client, message, NULL, 0);
}

/* As many of the oldest as one system call sends. */
static unsigned list_oldest(const struct vb_client *client, struct iovec messages[VB_UNIX_BATCH])
{
	unsigned count = 0;

	VB_LIST_FOR_EACH(node, &client->unsent) {
		struct unsent *unsent = vb_container_of(node, struct unsent, node);

		messages[count++] = (struct iovec){unsent->bytes, unsent->length};
		if (count == VB_UNIX_BATCH)
			break;
	}
	return count;
}

void vb_client_flush(struct vb_client *client)
{
	struct iovec messages[VB_UNIX_BATCH];
	int sent = 0;

	while (!client->failed && !vb_list_is_empty(&client->unsent)) {
		sent = vb_unix_send_several(client->fd, messages, list_oldest(client, messages));
		if (sent < 0)
			break;
		for (; sent > 0; sent--) {
			struct unsent *unsent = vb_container_of(client->unsent.next, struct unsent, node);

			count_unsent(client, -(ptrdiff_t)unsent->length);
			vb_list_remove(&unsent->node);
			free(unsent);
		}
	}
	client->failed |= sent < 0 && !is_for_later(sent);
	block(client, sent < 0);
}

void vb_client_refuse(struct vb_client *client, uint32_t sequence, int error, const char *text)
{
	struct vb_daemon_message message;

	vb_daemon_message_begin(&message, VB_DAEMON_ERROR, sequence);
	message.error.error = error < 0 ? -error : error;
	memcpy(message.error.text, text, strnlen(text, sizeof(message.error.text) - 1));
	vb_client_send(client, &message);
}

void vb_client_set_page(struct vb_client *client, int fd)
{
	vb_page_unmap((void *)(uintptr_t)client->page, sizeof(*client->page));
	if (client->page_fd >= 0)
		vb_descriptor_close(client->page_fd);
	client->page = fd >= 0 ? vb_page_map(fd, sizeof(*client->page), false) : NULL;
	client->page_fd = fd;
}

void vb_client_forget_segment(struct vb_client *client)
{
	if (client->segment_fd >= 0)
		vb_descriptor_close(client->segment_fd);
	if (client->wake_fd >= 0)
		vb_descriptor_close(client->wake_fd);
	client->segment_fd = client->wake_fd = -1;
	client->segment_id = 0;
}
