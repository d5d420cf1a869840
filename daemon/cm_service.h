/* SPDX-License-Identifier: MIT
 *
 * QP1 of this host: ties the connection manager (src/connect) to the daemon's sockets and to the processes connected to
 * it.
 *
 * In: datagrams and RoCEv1's frames that came to slot 0, messages of types 0x100 and up, the end of a process, time. Out: MADs from a
 * UDP source port of its own or in frames, replies and events to the process that owns the id.
 */
#ifndef VB_DAEMON_CM_SERVICE_H
#define VB_DAEMON_CM_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

struct vb_adapter_service;
struct vb_client;
struct vb_cm_service;
struct vb_device_table;
struct vb_path;
struct vb_subnet_answer;
struct vb_udp_bundle;

/* `devices` is read whenever an address is looked up. Sockets are added to `poller` with tags for vb_cm_service_serve.
 * NULL: out of memory. */
struct vb_cm_service *vb_cm_service_create(const struct vb_device_table *devices, int poller);
void vb_cm_service_destroy(struct vb_cm_service *service);

/* Connections by InfiniBand go through this adapter, which stays the caller's; without it there are none. */
void vb_cm_service_use_adapter(struct vb_cm_service *service, struct vb_adapter_service *adapter);
/* What its subnet client (daemon/subnet_client.h) tells. */
void vb_cm_service_take_mad(struct vb_cm_service *service, vb_time now, const struct vb_path *from, const void *mad, size_t length);
void vb_cm_service_take_answer(const struct vb_subnet_answer *answer);

/* The poller reports this tag. False: it is not one of ours. */
bool vb_cm_service_serve(struct vb_cm_service *service, const void *tag);

/* What arrived for slot 0. Returns how many of the bundle's datagrams were MADs. */
unsigned vb_cm_service_receive(struct vb_cm_service *service, vb_time now, const struct vb_udp_bundle *bundle);

/* A process has a socket for RoCEv1: from the first connection on messages between GIDs of that version come and go as frames. */
void vb_cm_service_use_frames(struct vb_cm_service *service);

/* The process hears that a device is gone; its library knows which of its ids were bound to it. */
void vb_cm_service_device_gone(struct vb_client *client, uint32_t interface_index);

/* A message of the process. `refusal`: 0, or the errno with which every command must be answered (port 4791 is not to
 * be had). A process that says nonsense fails. */
void vb_cm_service_message(struct vb_cm_service *service, vb_time now, struct vb_client *client, const void *bytes,
			   size_t length, int refusal);
/* Is it about connections by MADs, which come to port 4791? */
bool vb_cm_service_needs_port(const void *bytes, size_t length);
/* The queue pair that such a message speaks for; 0: none. The server knows whose slot that is. */
uint32_t vb_cm_service_claimed_qpn(const void *bytes, size_t length);
/* Before the client is destroyed. */
void vb_cm_service_client_gone(struct vb_cm_service *service, vb_time now, struct vb_client *client);

/* Run expired timers and send what is queued; the server calls it once a turn. Deadline: now, when more is queued. */
void vb_cm_service_run(struct vb_cm_service *service, vb_time now);
vb_time vb_cm_service_deadline(const struct vb_cm_service *service);
/* Nothing is under way: port 4791 may be closed. */
bool vb_cm_service_is_idle(const struct vb_cm_service *service);

#endif
