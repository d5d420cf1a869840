/* SPDX-License-Identifier: MIT
 *
 * Socket options. What has a meaning for RDMA is obeyed; what only tunes TCP is accepted and forgotten, so that
 * programs written for TCP run; the rest is refused (man 7 rsocket lists both).
 */
#include "rdmacm/rsocket/options.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/rsocket/datagram.h"
#include "rdmacm/rsocket/service.h"
#include "rdmacm/rsocket/settings.h"
#include "rdmacm/rsocket/stream.h"

enum { KEEP_ALIVE_SECONDS = 7200, SEGMENT_DEFAULT = 2048 };

/* Once its queue pair exists, an rsocket's sizes stand. */
static bool sizes_are_fixed(const struct vb_rsocket *rs)
{
	return rs->stream != NULL ? rs->stream->state > VB_RSTREAM_LISTENING : vb_rdatagram_is_started(rs);
}

static unsigned system_keep_alive(void)
{
	FILE *file = fopen("/proc/sys/net/ipv4/tcp_keepalive_time", "re");
	unsigned seconds = KEEP_ALIVE_SECONDS;

	if (file == NULL)
		return seconds;
	if (fscanf(file, "%u", &seconds) != 1 || seconds == 0)
		seconds = KEEP_ALIVE_SECONDS;
	fclose(file);
	return seconds;
}

static int set_keep_alive(struct vb_rsocket *rs, bool on)
{
	int error = 0;

	if (rs->options.keep_alive_seconds == 0)
		rs->options.keep_alive_seconds = system_keep_alive();
	if (rs->stream != NULL && on != rs->options.keep_alive)
		error = vb_rsocket_service_keep_alive(rs->fd, on ? rs->options.keep_alive_seconds : 0);
	if (error == 0)
		rs->options.keep_alive = on;
	return error;
}

/* The kernel doubles what programs ask for, and they know it (man 7 socket). */
static int set_buffer_size(struct vb_rsocket *rs, uint32_t *size, int value)
{
	if (value < 0)
		return -EINVAL;
	if (sizes_are_fixed(rs))
		return 0;
	*size = (uint32_t)value > INT32_MAX / 2 ? INT32_MAX : (uint32_t)value * 2;
	vb_rsocket_sizes_round(&rs->sizes);
	return 0;
}

static int set_id_option(struct vb_rsocket *rs, int option, const void *value, size_t length)
{
	if (rs->stream == NULL)
		return 0;
	if (rdma_set_option(rs->stream->id, RDMA_OPTION_ID, option, (void *)(uintptr_t)value, length) != 0)
		return -errno;
	return 0;
}

static int set_reuse_address(struct vb_rsocket *rs, int value)
{
	int error = set_id_option(rs, RDMA_OPTION_ID_REUSEADDR, &value, sizeof(value));

	/* Too late for rdma_cm, but not an error for a socket. */
	if (error != 0 && rs->stream->state == VB_RSTREAM_IDLE)
		return error;
	rs->options.reuse_address = value != 0;
	return 0;
}

static int set_timeout(vb_time *timeout, const void *value, socklen_t length)
{
	struct timeval limit;

	if (length < sizeof(limit))
		return -EINVAL;
	memcpy(&limit, value, sizeof(limit));
	if (limit.tv_usec < 0 || limit.tv_usec >= 1000000)
		return -EDOM;
	*timeout = 0;
	if (limit.tv_sec >= 0 && limit.tv_sec <= 1000000000)
		*timeout = VB_SECONDS(limit.tv_sec) + VB_MICROSECONDS(limit.tv_usec);
	return 0;
}

static int set_linger(struct vb_rsocket *rs, const void *value, socklen_t length)
{
	if (length < sizeof(rs->options.linger))
		return -EINVAL;
	memcpy(&rs->options.linger, value, sizeof(rs->options.linger));
	return 0;
}

static int set_socket_number(struct vb_rsocket *rs, int name, const void *value, socklen_t length)
{
	int number = 0;

	if (length < sizeof(number))
		return -EINVAL;
	memcpy(&number, value, sizeof(number));
	switch (name) {
	case SO_REUSEADDR:
		return set_reuse_address(rs, number);
	case SO_RCVBUF:
		return set_buffer_size(rs, &rs->sizes.receive_buffer, number);
	case SO_SNDBUF:
		return set_buffer_size(rs, &rs->sizes.send_buffer, number);
	case SO_KEEPALIVE:
		return set_keep_alive(rs, number != 0);
	case SO_OOBINLINE:
		rs->options.out_of_band_inline = number != 0;
		return 0;
	case SO_REUSEPORT:                       /* nothing to share with: rdma_cm has no group of listeners */
		rs->options.reuse_port = number != 0;
		return 0;
	default:
		return -ENOTSUP;
	}
}

static int set_socket_option(struct vb_rsocket *rs, int name, const void *value, socklen_t length)
{
	switch (name) {
	case SO_LINGER:
		return set_linger(rs, value, length);
	case SO_RCVTIMEO:
		return set_timeout(&rs->options.receive_timeout, value, length);
	case SO_SNDTIMEO:
		return set_timeout(&rs->options.send_timeout, value, length);
	case SO_REUSEADDR:
	case SO_REUSEPORT:
	case SO_RCVBUF:
	case SO_SNDBUF:
	case SO_KEEPALIVE:
	case SO_OOBINLINE:
		return set_socket_number(rs, name, value, length);
	default:
		return -ENOTSUP;
	}
}

static int set_tcp_option(struct vb_rsocket *rs, int name, const void *value, socklen_t length)
{
	int number = 0;

	switch (name) {
	case TCP_KEEPCNT:                        /* the transport retries as it retries data */
	case TCP_KEEPINTVL:
	case TCP_MAXSEG:
	case TCP_CONGESTION:
		return 0;
	default:
		break;
	}
	if (length < sizeof(number))
		return -EINVAL;
	memcpy(&number, value, sizeof(number));
	switch (name) {
	case TCP_NODELAY:                        /* nothing is ever held back */
		rs->options.no_delay = number != 0;
		return 0;
	case TCP_KEEPIDLE:
		if (number <= 0)
			return -EINVAL;
		rs->options.keep_alive_seconds = (unsigned)number;
		return rs->options.keep_alive ? vb_rsocket_service_keep_alive(rs->fd, (unsigned)number) : 0;
	default:
		return -ENOTSUP;
	}
}

static int set_ip_option(struct vb_rsocket *rs, int level, int name, const void *value, socklen_t length)
{
	uint8_t traffic_class;
	int number, error;

	if (length < sizeof(number))
		return -EINVAL;
	memcpy(&number, value, sizeof(number));
	if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY) {
		error = set_id_option(rs, RDMA_OPTION_ID_AFONLY, &number, sizeof(number));
		if (error == 0)
			rs->options.v6_only = number != 0;
		return error;
	}
	if ((level == IPPROTO_IP && name == IP_TOS) || (level == IPPROTO_IPV6 && name == IPV6_TCLASS)) {
		traffic_class = (uint8_t)number;
		error = set_id_option(rs, RDMA_OPTION_ID_TOS, &traffic_class, sizeof(traffic_class));
		if (error == 0)
			rs->options.type_of_service = traffic_class;
		return error;
	}
	return -ENOTSUP;
}

static int set_route(struct vb_rsocket *rs, const void *value, socklen_t length)
{
	void *route;

	if (rs->stream == NULL)
		return -ENOTSUP;
	route = malloc(length);
	if (route == NULL)
		return -ENOMEM;
	memcpy(route, value, length);
	free(rs->stream->route);
	rs->stream->route = route;
	rs->stream->route_length = length;
	return 0;
}

static int set_rdma_option(struct vb_rsocket *rs, int name, const void *value, socklen_t length)
{
	uint32_t number;

	if (sizes_are_fixed(rs))
		return -EINVAL;
	if (name == RDMA_ROUTE)
		return set_route(rs, value, length);
	if (length < sizeof(number))
		return -EINVAL;
	memcpy(&number, value, sizeof(number));
	switch (name) {
	case RDMA_SQSIZE:
		rs->sizes.send_queue = number;
		break;
	case RDMA_RQSIZE:
		rs->sizes.receive_queue = number;
		break;
	case RDMA_INLINE:
		rs->sizes.inline_data = number;
		break;
	case RDMA_IOMAPSIZE:
		rs->sizes.iomaps = number;
		break;
	default:
		return -ENOTSUP;
	}
	vb_rsocket_sizes_round(&rs->sizes);
	return 0;
}

int vb_rsocket_option_set(struct vb_rsocket *rs, int level, int name, const void *value, socklen_t length)
{
	if (value == NULL)
		return -EFAULT;
	if (rs->datagram != NULL && level != SOL_RDMA) {
		/* The UDP socket is asked too: it is the one that is bound. What only it knows is its own matter. */
		if (setsockopt(rs->fd, level, name, value, length) != 0)
			return -errno;
		if (level == SOL_SOCKET && (name == SO_RCVBUF || name == SO_SNDBUF || name == SO_RCVTIMEO ||
					    name == SO_SNDTIMEO))
			return set_socket_option(rs, name, value, length);
		return 0;
	}
	switch (level) {
	case SOL_SOCKET:
		return set_socket_option(rs, name, value, length);
	case IPPROTO_TCP:
		return set_tcp_option(rs, name, value, length);
	case IPPROTO_IP:
	case IPPROTO_IPV6:
		return set_ip_option(rs, level, name, value, length);
	case SOL_RDMA:
		return set_rdma_option(rs, name, value, length);
	default:
		return -ENOTSUP;
	}
}

/* As the kernel gives values: cut to the room there is. */
static int give(void *value, socklen_t *length, const void *bytes, size_t size)
{
	if (*length > size)
		*length = (socklen_t)size;
	memcpy(value, bytes, *length);
	return 0;
}

static int give_number(void *value, socklen_t *length, int number)
{
	return give(value, length, &number, sizeof(number));
}

static int give_timeout(void *value, socklen_t *length, vb_time timeout)
{
	struct timeval limit = {.tv_sec = timeout / VB_SECONDS(1), .tv_usec = timeout % VB_SECONDS(1) / 1000};

	return give(value, length, &limit, sizeof(limit));
}

static int get_error(struct vb_rsocket *rs, void *value, socklen_t *length)
{
	int error = rs->error;

	rs->error = 0;
	return give_number(value, length, error);
}

static int get_socket_option(struct vb_rsocket *rs, int name, void *value, socklen_t *length)
{
	switch (name) {
	case SO_ERROR:
		return get_error(rs, value, length);
	case SO_REUSEADDR:
		return give_number(value, length, rs->options.reuse_address);
	case SO_REUSEPORT:
		return give_number(value, length, rs->options.reuse_port);
	case SO_KEEPALIVE:
		return give_number(value, length, rs->options.keep_alive);
	case SO_OOBINLINE:
		return give_number(value, length, rs->options.out_of_band_inline);
	case SO_RCVBUF:
		return give_number(value, length, (int)rs->sizes.receive_buffer);
	case SO_SNDBUF:
		return give_number(value, length, (int)rs->sizes.send_buffer);
	case SO_RCVTIMEO:
		return give_timeout(value, length, rs->options.receive_timeout);
	case SO_SNDTIMEO:
		return give_timeout(value, length, rs->options.send_timeout);
	case SO_LINGER:
		return give(value, length, &rs->options.linger, sizeof(rs->options.linger));
	case SO_TYPE:
		return give_number(value, length, rs->type);
	case SO_DOMAIN:
		return give_number(value, length, rs->domain);
	case SO_PROTOCOL:
		return give_number(value, length, rs->type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP);
	case SO_ACCEPTCONN:
		return give_number(value, length, rs->stream != NULL && rs->stream->state == VB_RSTREAM_LISTENING);
	case SO_BROADCAST:
		return give_number(value, length, 0);
	default:
		return -ENOTSUP;
	}
}

/* The path's MTU: what one packet carries. */
static int segment_size(const struct vb_rstream *stream)
{
	if (stream == NULL || stream->id == NULL || stream->id->route.num_paths == 0)
		return SEGMENT_DEFAULT;
	return 128 << stream->id->route.path_rec->mtu;
}

static int get_tcp_info(struct vb_rsocket *rs, void *value, socklen_t *length)
{
	bool is_connected = rs->stream != NULL && rs->stream->state == VB_RSTREAM_CONNECTED;
	struct tcp_info info = {
		.tcpi_state = is_connected ? TCP_ESTABLISHED : TCP_CLOSE,
		.tcpi_snd_cwnd = rs->sizes.send_queue,
		.tcpi_snd_mss = (uint32_t)segment_size(rs->stream),
		.tcpi_rcv_mss = (uint32_t)segment_size(rs->stream),
	};

	return give(value, length, &info, sizeof(info));
}

static int get_tcp_option(struct vb_rsocket *rs, int name, void *value, socklen_t *length)
{
	static const char congestion_control[16] = "rdma";
	unsigned idle = rs->options.keep_alive_seconds;

	switch (name) {
	case TCP_NODELAY:
		return give_number(value, length, rs->options.no_delay);
	case TCP_MAXSEG:
		return give_number(value, length, segment_size(rs->stream));
	case TCP_KEEPIDLE:
		return give_number(value, length, (int)(idle != 0 ? idle : system_keep_alive()));
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL:
		return give_number(value, length, 1);
	case TCP_CONGESTION:
		return give(value, length, congestion_control, sizeof(congestion_control));
	case TCP_INFO:
		return get_tcp_info(rs, value, length);
	default:
		return -ENOTSUP;
	}
}

static struct ibv_path_data describe_path(const struct ibv_sa_path_rec *path)
{
	const uint8_t exactly = 2 << 6;          /* selector of a path record's mtu, rate and lifetime */

	return (struct ibv_path_data){
		.flags = (uint32_t)path->preference,
		.path = {
			.dgid = path->dgid,
			.sgid = path->sgid,
			.dlid = path->dlid,
			.slid = path->slid,
			.flowlabel_hoplimit = htonl(ntohl(path->flow_label) << 8 | path->hop_limit),
			.tclass = path->traffic_class,
			.reversible_numpath = (uint8_t)(path->reversible << 7 | 1),
			.pkey = path->pkey,
			.qosclass_sl = htons(path->sl),
			.mtu = path->mtu | exactly,
			.rate = path->rate | exactly,
			.packetlifetime = path->packet_life_time | exactly,
		},
	};
}

static int get_route(struct vb_rsocket *rs, void *value, socklen_t *length)
{
	struct ibv_path_data path;

	if (rs->stream == NULL)
		return -ENOTSUP;
	if (rs->stream->route != NULL && *length < rs->stream->route_length)
		return -EINVAL;
	if (rs->stream->route != NULL)
		return give(value, length, rs->stream->route, rs->stream->route_length);
	if (*length < sizeof(path))
		return -EINVAL;
	if (rs->stream->id->route.num_paths == 0) {
		*length = 0;
		return 0;
	}
	path = describe_path(rs->stream->id->route.path_rec);
	return give(value, length, &path, sizeof(path));
}

static int get_rdma_option(struct vb_rsocket *rs, int name, void *value, socklen_t *length)
{
	switch (name) {
	case RDMA_SQSIZE:
		return give_number(value, length, (int)rs->sizes.send_queue);
	case RDMA_RQSIZE:
		return give_number(value, length, (int)rs->sizes.receive_queue);
	case RDMA_INLINE:
		return give_number(value, length, (int)rs->sizes.inline_data);
	case RDMA_IOMAPSIZE:
		return give_number(value, length, (int)rs->sizes.iomaps);
	case RDMA_ROUTE:
		return get_route(rs, value, length);
	default:
		return -ENOTSUP;
	}
}

int vb_rsocket_option_get(struct vb_rsocket *rs, int level, int name, void *value, socklen_t *length)
{
	if (value == NULL || length == NULL)
		return -EFAULT;
	switch (level) {
	case SOL_SOCKET:
		return get_socket_option(rs, name, value, length);
	case IPPROTO_TCP:
		return rs->stream != NULL ? get_tcp_option(rs, name, value, length) : -ENOTSUP;
	case IPPROTO_IP:
		return name == IP_TOS ? give_number(value, length, rs->options.type_of_service) : -ENOTSUP;
	case IPPROTO_IPV6:
		if (name == IPV6_V6ONLY)
			return give_number(value, length, rs->options.v6_only);
		return name == IPV6_TCLASS ? give_number(value, length, rs->options.type_of_service) : -ENOTSUP;
	case SOL_RDMA:
		return get_rdma_option(rs, name, value, length);
	default:
		return -ENOTSUP;
	}
}

int vb_rsocket_control(struct vb_rsocket *rs, int command, int argument)
{
	switch (command) {
	case F_GETFL:
		return O_RDWR | rs->status_flags;
	case F_SETFL:
		rs->status_flags = argument & ~O_ACCMODE;
		return 0;
	case F_GETFD:
		return rs->descriptor_flags;
	case F_SETFD:
		rs->descriptor_flags = argument;
		return 0;
	default:
		return -ENOTSUP;
	}
}
