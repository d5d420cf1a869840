/* SPDX-License-Identifier: MIT
 *
 * The steps every example needs and none but one is about.
 *
 * 02_first_send.c writes all of them out, from opening a device to connecting two queue pairs; read that one first.
 * From 03 on they are functions, so that each program can keep to its one idea:
 *
 *   open_device()        choose a device, a port and a GID
 *   side_open()          one side of a conversation: protection domain, completion queue, queue pair
 *   sides_connect()      INIT, RTR, RTS on both sides
 *   buffer_register()    memory, and the keys that let an adapter touch it
 *   wait_completion()    poll a completion queue until something is done, or fail loudly
 *
 * Both sides live in one process here, so that one command shows everything. Nothing depends on that: each side has
 * a protection domain of its own and learns of the other only what `struct address` and `struct window` hold. In two
 * processes, those would travel over a TCP connection, or by rdma_cm (12_cm_server.c, 13_cm_client.c).
 */
#ifndef EXAMPLES_COURSE_H
#define EXAMPLES_COURSE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Prints the complaint, with the reason in errno when there is one, and ends the program. Verbs that return a pointer
 * set errno; those that return an int return it, so callers write: if ((errno = ibv_post_send(...)))
 * die("ibv_post_send"); */
__attribute__((format(printf, 1, 2), noreturn)) static inline void die(const char *format, ...)
{
	int reason = errno;
	va_list arguments;

	fflush(stdout);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, reason ? ": %s\n" : "\n", strerror(reason));
	exit(1);
}

/* ---- A device, a port, and the GID that names us on the network ---- */

struct device {
	struct ibv_context *context;
	struct ibv_port_attr port_attributes;
	uint8_t port;
	int gid_index;
	union ibv_gid gid;
};

/* RoCE has several GIDs a port: one for each IP address, and on most adapters each of them for RoCE v1 and for v2.
 * Take one of v2; an IPv4 address (::ffff:a.b.c.d) is worth more than a link-local one, which does not leave its
 * network. */
static inline int gid_worth(const struct ibv_gid_entry *entry)
{
	static const uint8_t mapped_ipv4[12] = { [10] = 0xff, [11] = 0xff };

	if (entry->gid_type == IBV_GID_TYPE_ROCE_V1)
		return 0;
	if (entry->gid_type == IBV_GID_TYPE_IB)
		return 1;
	if (!memcmp(entry->gid.raw, mapped_ipv4, sizeof(mapped_ipv4)))
		return 4;
	return entry->gid.raw[0] == 0xfe ? 2 : 3;
}

static inline void choose_gid(struct device *device)
{
	int best = -1;

	for (int i = 0; i < device->port_attributes.gid_tbl_len; i++) {
		struct ibv_gid_entry entry;

		/* Tables have holes: ENODATA. */
		if (ibv_query_gid_ex(device->context, device->port, i, &entry, 0) || gid_worth(&entry) <= best)
			continue;
		best = gid_worth(&entry);
		device->gid_index = i;
		device->gid = entry.gid;
	}
	if (best < 0)
		die("no GID on port %d", device->port);
}

/* The device of that name; with NULL, the first that has an active port. */
static inline struct device open_device(const char *name)
{
	struct device device = { .port = 1 };
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (!list)
		die("ibv_get_device_list");
	for (int i = 0; i < count && !device.context; i++) {
		if (name && strcmp(name, ibv_get_device_name(list[i])))
			continue;
		device.context = ibv_open_device(list[i]);
		if (!device.context)
			die("ibv_open_device %s", ibv_get_device_name(list[i]));
		errno = ibv_query_port(device.context, device.port, &device.port_attributes);
		if (errno)
			die("ibv_query_port");
		if (!name && device.port_attributes.state != IBV_PORT_ACTIVE) {
			ibv_close_device(device.context);
			device.context = NULL;
		}
	}
	ibv_free_device_list(list);
	errno = 0;
	if (!device.context)
		die("no RDMA device%s%s (run 01_devices to see what there is)",
		    name ? " named " : " with an active port", name ? name : "");
	choose_gid(&device);
	return device;
}

static inline void close_device(struct device *device)
{
	if ((errno = ibv_close_device(device->context)))
		die("ibv_close_device");
}

/* ---- One side of a conversation ---- */

struct side {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/* A reliable connected queue pair. srq may be NULL. */
static inline struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attributes = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attributes);

	if (!qp)
		die("ibv_create_qp");
	return qp;
}

static inline struct side side_open(const struct device *device)
{
	struct side side;

	if (!(side.pd = ibv_alloc_pd(device->context)))
		die("ibv_alloc_pd");
	if (!(side.cq = ibv_create_cq(device->context, 32, NULL, NULL, 0)))
		die("ibv_create_cq");
	side.qp = create_qp(side.pd, side.cq, NULL);
	return side;
}

/* In the reverse order of creation: a PD that still holds an MR or a QP is not given back (EBUSY). */
static inline void side_close(struct side *side)
{
	if (side->qp && (errno = ibv_destroy_qp(side->qp)))
		die("ibv_destroy_qp");
	if ((errno = ibv_destroy_cq(side->cq)))
		die("ibv_destroy_cq");
	if ((errno = ibv_dealloc_pd(side->pd)))
		die("ibv_dealloc_pd (is a buffer still registered?)");
}

/* ---- RESET, INIT, RTR, RTS ---- */

/* What one queue pair has to know of the other, whichever way it learns it. */
struct address {
	uint32_t qp_number;
	uint32_t first_psn;
	uint16_t lid;              /* InfiniBand only */
	union ibv_gid gid;
};

static inline struct address address_of(const struct device *device, const struct ibv_qp *qp)
{
	return (struct address){ .qp_number = qp->qp_num, .first_psn = qp->qp_num & 0xffffff,
				 .lid = device->port_attributes.lid, .gid = device->gid };
}

/* rnr_retry: how often to try again when the peer has no receive posted. 7 stands for "for ever". */
static inline void connect_qp_with(const struct device *device, struct ibv_qp *qp, struct address peer,
				   uint8_t rnr_retry)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = device->port,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
	struct ibv_qp_attr ready_to_receive = { .qp_state = IBV_QPS_RTR, .path_mtu = device->port_attributes.active_mtu,
		.dest_qp_num = peer.qp_number, .rq_psn = peer.first_psn, .max_dest_rd_atomic = 4, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .dlid = peer.lid, .port_num = device->port,
			     .grh = { .dgid = peer.gid, .sgid_index = device->gid_index, .hop_limit = 64 } } };
	struct ibv_qp_attr ready_to_send = { .qp_state = IBV_QPS_RTS, .sq_psn = address_of(device, qp).first_psn,
		.timeout = 14, .retry_cnt = 7, .rnr_retry = rnr_retry, .max_rd_atomic = 4 };

	if ((errno = ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)))
		die("ibv_modify_qp to INIT");
	if ((errno = ibv_modify_qp(qp, &ready_to_receive, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)))
		die("ibv_modify_qp to RTR");
	if ((errno = ibv_modify_qp(qp, &ready_to_send,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC)))
		die("ibv_modify_qp to RTS");
}

static inline void connect_qp(const struct device *device, struct ibv_qp *qp, struct address peer)
{
	connect_qp_with(device, qp, peer, 7);
}

static inline void sides_connect(const struct device *device, struct side *left, struct side *right)
{
	connect_qp(device, left->qp, address_of(device, right->qp));
	connect_qp(device, right->qp, address_of(device, left->qp));
}

/* ---- Memory ---- */

struct buffer {
	char *bytes;
	size_t length;
	struct ibv_mr *mr;
};

static inline struct buffer buffer_register(struct ibv_pd *pd, size_t length, int access)
{
	struct buffer buffer = { .bytes = calloc(1, length), .length = length };

	if (!buffer.bytes)
		die("no memory for %zu bytes", length);
	if (!(buffer.mr = ibv_reg_mr(pd, buffer.bytes, length, access)))
		die("ibv_reg_mr");
	return buffer;
}

static inline void buffer_release(struct buffer *buffer)
{
	if ((errno = ibv_dereg_mr(buffer->mr)))
		die("ibv_dereg_mr");
	free(buffer->bytes);
}

/* What one has to know to read or write the other's memory. */
struct window {
	uint64_t address;
	uint32_t rkey;
	uint32_t length;
};

static inline struct window window_of(const struct buffer *buffer)
{
	return (struct window){ (uintptr_t)buffer->bytes, buffer->mr->rkey, (uint32_t)buffer->length };
}

/* ---- Posting and polling ---- */

static inline struct ibv_sge piece_of(const struct buffer *buffer, size_t offset, size_t length)
{
	return (struct ibv_sge){ (uintptr_t)(buffer->bytes + offset), (uint32_t)length, buffer->mr->lkey };
}

static inline void post_send(struct ibv_qp *qp, struct ibv_send_wr *request)
{
	struct ibv_send_wr *refused;

	if ((errno = ibv_post_send(qp, request, &refused)))
		die("ibv_post_send");
}

static inline void post_receive(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge *pieces, int count)
{
	struct ibv_recv_wr request = { .wr_id = wr_id, .sg_list = pieces, .num_sge = count }, *refused;

	if ((errno = ibv_post_recv(qp, &request, &refused)))
		die("ibv_post_recv");
}

/* Waits for any completion, good or bad, for 10 seconds at most. */
static inline struct ibv_wc wait_any_completion(struct ibv_cq *cq, const char *what)
{
	time_t limit = time(NULL) + 10;
	struct ibv_wc completion;
	int count;

	while ((count = ibv_poll_cq(cq, 1, &completion)) == 0)
		if (time(NULL) > limit) {
			errno = 0;
			die("%s: no completion within 10 seconds", what);
		}
	if (count < 0)
		die("ibv_poll_cq");
	return completion;
}

/* Waits for a completion that has to be good. */
static inline struct ibv_wc wait_completion(struct ibv_cq *cq, const char *what)
{
	struct ibv_wc completion = wait_any_completion(cq, what);

	errno = 0;
	if (completion.status != IBV_WC_SUCCESS)
		die("%s: %s", what, ibv_wc_status_str(completion.status));
	return completion;
}

#endif
