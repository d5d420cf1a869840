/* SPDX-License-Identifier: MIT
 *
 * This host as a client of the subnet administration, for rdma_cm: which GID has an IP address, by which path is a GID
 * reached, and membership in multicast groups.
 *
 * The kernel finds GIDs by ARP over IPoIB, and there is none here. Each host registers a ServiceRecord for each of its
 * addresses, whose name is the address as text and whose GID is that of its port (`saquery -S` shows them), and asks
 * for the name. The same was done before IPoIB was everywhere (OpenIB's address translation service). Records have a
 * lease and are renewed; a subnet manager that begins anew asks for them (client reregistration).
 */
#ifndef VB_DAEMON_SUBNET_CLIENT_H
#define VB_DAEMON_SUBNET_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "wire/path.h"

struct vb_adapter;
struct vb_mad_address;

enum vb_subnet_question { VB_SUBNET_ADDRESS, VB_SUBNET_PATH, VB_SUBNET_GROUP };
enum { VB_SUBNET_ADDRESSES = 64 };

struct vb_subnet_request {
	enum vb_subnet_question question;
	void *owner;
	uint32_t id;
	uint8_t to[16];                    /* ADDRESS: an IP address, PATH: a GID, GROUP: this host becomes a member of it, which is made if
					      there is none */
	uint16_t pkey;                     /* PATH, GROUP: partition; 0: the default one */
	uint32_t qkey;                     /* GROUP, as the next */
	uint64_t cookie;
	vb_time patience;
};

struct vb_subnet_answer {
	void *owner;                       /* who asked */
	uint32_t id;                       /* for which of his ids */
	enum vb_subnet_question question;
	int error;                         /* 0 or -errno: -ETIMEDOUT, -EADDRNOTAVAIL no port has the address, -ENOTUNIQ several have,
					      -EHOSTUNREACH there is no path, -EPROTO the answer is none */
	struct vb_path path;               /* source and destination are GIDs; LIDs and SL are PATH's answer */
	uint8_t mtu, lifetime;             /* PATH: code of wire/mtu.h, exponent */
	uint64_t cookie;                   /* GROUP: the asker's; path.dlid is the group's LID */
	uint32_t qkey;
};

struct vb_subnet_host {
	void *context;
	void (*answered)(void *context, const struct vb_subnet_answer *answer);
	/* A MAD of connection management has come. */
	void (*connection_mad)(void *context, vb_time now, const struct vb_path *from, const void *mad, size_t length);
	/* This host's addresses that others may reach it by: how many, at most VB_SUBNET_ADDRESSES. */
	unsigned (*addresses)(void *context, uint8_t address[VB_SUBNET_ADDRESSES][16]);
};

struct vb_subnet_client {
	struct vb_adapter *adapter;
	const struct vb_subnet_host *host;
	int sa_agent, cm_agent;            /* -1: none */
	struct vb_list questions, members;
	unsigned asked;                    /* questions that wait */
	unsigned joined;                   /* members */
	uint32_t serial;
	vb_time renew;                     /* when the addresses are to be registered */
};

void vb_subnet_client_init(struct vb_subnet_client *client, struct vb_adapter *adapter, const struct vb_subnet_host *host);
void vb_subnet_client_fini(struct vb_subnet_client *client);
/* The adapter has another node than before, or none: what was asked there is not answered. */
void vb_subnet_client_node_changed(struct vb_subnet_client *client, vb_time now);
/* The port is active, has another LID or subnet manager, or was asked to register: do so. */
void vb_subnet_client_register(struct vb_subnet_client *client);

/* Answered later, once. 0 or -errno: -ENETUNREACH there is no subnet manager, -EBUSY too much is asked already, or too many are
 * in groups. */
int vb_subnet_client_ask(struct vb_subnet_client *client, vb_time now, const struct vb_subnet_request *request);
/* The id leaves the group, or all of its groups (NULL). The host does with the last that leaves. */
void vb_subnet_client_leave(struct vb_subnet_client *client, vb_time now, const void *owner, uint32_t id, const uint8_t *mgid);
/* Nothing will be answered to it any more, and its groups are left. */
void vb_subnet_client_owner_gone(struct vb_subnet_client *client, vb_time now, const void *owner);

/* A MAD of connection management leaves. */
void vb_subnet_client_send(struct vb_subnet_client *client, vb_time now, const struct vb_path *path, const void *mad);

/* A MAD for one of its agents (fabric/agents.h); status: 0 or an errno. */
void vb_subnet_client_deliver(struct vb_subnet_client *client, vb_time now, uint32_t agent, int status,
			      const struct vb_mad_address *address, const void *message, size_t length);

vb_time vb_subnet_client_deadline(const struct vb_subnet_client *client);
void vb_subnet_client_run(struct vb_subnet_client *client, vb_time now);

#endif
