/* SPDX-License-Identifier: MIT
 *
 * One process connected to verbenad: who it is, what it holds, and what still has to be sent to it.
 */
#ifndef VB_DAEMON_CLIENT_H
#define VB_DAEMON_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "connect/connect.h"
#include "io/unix_socket.h"
#include "wire/daemon_message.h"

struct vb_slot_group;
struct vb_user;

struct vb_client {
	struct vb_list node;
	int fd, poller;
	struct vb_unix_peer peer;
	struct vb_user *user;              /* what its user has of us (users.h) */
	vb_time hello_deadline;            /* it must have said HELLO */
	bool greeted, watching;
	bool connects;                     /* has given commands about connections */
	bool told_packets;                 /* captures: wants to hear of its MADs */
	bool failed;                       /* to be dropped: it broke the protocol or does not read */
	struct vb_slot_group *group;       /* whose port its slot is on, or will be (slots.h) */
	uint32_t slot;                     /* 0: none */
	unsigned lanes;                    /* so many its slot has (lanes.h) */
	int dedicated_fd[VB_DAEMON_LANES]; /* sockets of flows of its (dedicated.h), -1: none */
	bool port_unwanted;                /* its slot comes without sockets */
	uint32_t waiting_open;             /* sequence of an OPEN_SLOT that waits for survivors; 0: none */
	bool resources_asked;              /* SHOW_RESOURCES is under way */
	char program[16];
	const struct vb_daemon_page *page; /* its own account of itself, or NULL */
	int page_fd;
	int segment_fd, wake_fd;           /* what it shows to others of its user (segments.h), -1: nothing */
	uint64_t segment_id;               /* 0: nothing */
	struct vb_connect_owner cm_ids;    /* its communication ids (cm_service.c) */
	struct vb_list unsent;
	size_t unsent_bytes;
	bool blocked;                      /* it does not read: what is unsent waits until it does */
};

/* Takes the descriptor. NULL: out of memory. */
struct vb_client *vb_client_create(int fd, int poller);
/* Also takes it off its list. */
void vb_client_destroy(struct vb_client *client);

/* Send, or keep for later. A client that lets too much pile up fails. */
void vb_client_send(struct vb_client *client, const struct vb_daemon_message *message);
/* The same for a message of wire/cm_command.h. It leaves with those that follow it, when vb_client_flush is called. */
void vb_client_send_bytes(struct vb_client *client, const void *bytes, size_t length);
/* With descriptors; these are not kept for later. */
void vb_client_send_descriptors(struct vb_client *client, const struct vb_daemon_message *message, const int *fds,
				unsigned count);
/* With one descriptor, if the socket takes it now. */
bool vb_client_try_send_descriptor(struct vb_client *client, const struct vb_daemon_message *message, int fd);
/* Send what is there, as far as the socket takes it. */
void vb_client_flush(struct vb_client *client);

void vb_client_refuse(struct vb_client *client, uint32_t sequence, int error, const char *text);
/* Map the page behind fd (or none when it is no such page); takes the descriptor. */
void vb_client_set_page(struct vb_client *client, int fd);
/* It loses its slot, or shows another segment. */
void vb_client_forget_segment(struct vb_client *client);

#endif
