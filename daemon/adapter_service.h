/* SPDX-License-Identifier: MIT
 *
 * The InfiniBand adapter of this host: ties fabric/adapter.h to a UDP socket, the cable, and to the processes that send and receive MADs.
 */
#ifndef VB_DAEMON_ADAPTER_SERVICE_H
#define VB_DAEMON_ADAPTER_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

struct vb_adapter_service;
struct vb_client;
struct vb_daemon_device;
struct vb_daemon_message;
struct vb_path;
struct vb_port_figures;
struct vb_subnet_host;

/* Who is told, once a turn, of what has become of the device. */
struct vb_adapter_watcher {
	void (*changed)(void *context, const struct vb_daemon_device *device, bool gone);
	void *context;
};

/* NULL: out of memory. `host_seed`: what its GUID is made from. `watcher` and `subnet` (daemon/subnet_client.h) stay the caller's. */
struct vb_adapter_service *vb_adapter_service_create(int poller, uint64_t host_seed, const struct vb_adapter_watcher *watcher,
						     const struct vb_subnet_host *subnet);
/* The client through which this host asks the subnet administration. */
struct vb_subnet_client *vb_adapter_service_subnet(struct vb_adapter_service *service);
void vb_adapter_service_destroy(struct vb_adapter_service *service);

/* JOIN_FABRIC, LEAVE_FABRIC, LIST_ADAPTERS, OPEN_MAD_PORT, REGISTER_AGENT, UNREGISTER_AGENT. */
void vb_adapter_service_message(struct vb_adapter_service *service, vb_time now, struct vb_client *client,
	const struct vb_daemon_message *message);
/* OPEN_FRAME_PORT of a client whose process has the slot. */
void vb_adapter_service_open_frames(struct vb_adapter_service *service, struct vb_client *client, const struct vb_daemon_message *message);
/* The device that it is; false: the host has not joined a fabric. */
bool vb_adapter_service_device(const struct vb_adapter_service *service, struct vb_daemon_device *device);
/* What its port has counted: the figures that a performance management agent tells. */
void vb_adapter_service_figures(struct vb_adapter_service *service, struct vb_port_figures *figures);
/* The poller reports this tag. False: it is not one of ours. */
bool vb_adapter_service_serve(struct vb_adapter_service *service, vb_time now, const void *tag);
/* Before the client is destroyed. */
void vb_adapter_service_client_gone(struct vb_adapter_service *service, vb_time now, struct vb_client *client);

vb_time vb_adapter_service_deadline(const struct vb_adapter_service *service);
/* Once a turn. */
void vb_adapter_service_run(struct vb_adapter_service *service, vb_time now);
/* It has not joined a fabric: verbenad may end. */
bool vb_adapter_service_is_idle(const struct vb_adapter_service *service);

#endif
