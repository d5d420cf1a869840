/* SPDX-License-Identifier: MIT
 *
 * How a TCP connection gets its rsocket. The side that accepted connects, because only then the process is known that
 * is to have it: workers accept from one listening socket, and servers leave a connection to a child. It finds its
 * peer under the number of the peer's TCP port, in rdma_cm's port space, which is not TCP's.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "io/cancellation.h"
#include "preload/sockets/connection.h"
#include "preload/sockets/settings.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/wait.h"

/* A host that has no verbenad does not refuse: it says nothing. */
#define OPENING_PATIENCE VB_SECONDS(3)
/* Then it is not asked again for a while, nor are rsockets tried that cannot be made. */
#define NO_HURRY VB_SECONDS(30)

enum { SILENT_HOSTS = 64 };

static struct {
	struct vb_mutex lock;
	vb_time no_rsockets_until;
	struct {
		struct in6_addr address;
		vb_time until;
	} silent[SILENT_HOSTS];
} memory = {.lock = VB_MUTEX_INITIALIZER(VB_RANK_SOCKETS_TABLE)};

static void set_phase(struct vb_connection *connection, enum vb_connection_phase phase)
{
	__atomic_store_n(&connection->phase, phase, __ATOMIC_RELEASE);
}

/* ---- addresses ---- */

/* IPv4 as it is mapped into IPv6, so that one kind of address is enough. */
static struct in6_addr host_of(const union vb_rsocket_address *address)
{
	struct in6_addr host = IN6ADDR_ANY_INIT;

	if (address->any.sa_family == AF_INET6)
		return address->v6.sin6_addr;
	host.s6_addr[10] = host.s6_addr[11] = 0xff;
	memcpy(&host.s6_addr[12], &address->v4.sin_addr, sizeof(address->v4.sin_addr));
	return host;
}

static in_port_t *port_of(union vb_rsocket_address *address)
{
	return address->any.sa_family == AF_INET6 ? &address->v6.sin6_port : &address->v4.sin_port;
}

static bool is_internet(const union vb_rsocket_address *address)
{
	return address->any.sa_family == AF_INET || address->any.sa_family == AF_INET6;
}

static bool name_of(int fd, bool peer, union vb_rsocket_address *address)
{
	socklen_t length = sizeof(*address);

	memset(address, 0, sizeof(*address));
	return (peer ? getpeername(fd, &address->any, &length) : getsockname(fd, &address->any, &length)) == 0 &&
	       is_internet(address);
}

/* ---- what is not worth a try ---- */

static bool rsockets_fail(void)
{
	bool fail;

	vb_mutex_lock(&memory.lock);
	fail = memory.no_rsockets_until > vb_rsocket_now();
	vb_mutex_unlock(&memory.lock);
	return fail;
}

static void remember_failure(void)
{
	vb_mutex_lock(&memory.lock);
	memory.no_rsockets_until = vb_rsocket_now() + NO_HURRY;
	vb_mutex_unlock(&memory.lock);
}

static unsigned place_of(const struct in6_addr *host)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < sizeof(host->s6_addr); i++)
		sum = sum * 31 + host->s6_addr[i];
	return sum % SILENT_HOSTS;
}

static bool is_silent(const union vb_rsocket_address *peer)
{
	struct in6_addr host = host_of(peer);
	unsigned place = place_of(&host);
	bool silent;

	vb_mutex_lock(&memory.lock);
	silent = memory.silent[place].until > vb_rsocket_now() &&
		 memcmp(&memory.silent[place].address, &host, sizeof(host)) == 0;
	vb_mutex_unlock(&memory.lock);
	return silent;
}

static void remember_silence(int fd)
{
	union vb_rsocket_address peer;
	struct in6_addr host;
	unsigned place;

	if (!name_of(fd, true, &peer))
		return;
	host = host_of(&peer);
	place = place_of(&host);
	vb_mutex_lock(&memory.lock);
	memory.silent[place].address = host;
	memory.silent[place].until = vb_rsocket_now() + NO_HURRY;
	vb_mutex_unlock(&memory.lock);
}

/* ---- rsockets ---- */

void vb_upgrade_close_rsocket(struct vb_rsocket *rs)
{
	struct vb_rsocket *published;

	vb_mutex_lock(&rs->lock);
	rs->observer.changed = NULL;
	vb_mutex_unlock(&rs->lock);
	vb_rstream_disconnect(rs);
	published = vb_rsocket_withdraw(rs->fd);
	if (published != NULL)
		published->kind->close(published);
	vb_rsocket_put(rs);
}

static void changed(void *connection)
{
	vb_connection_ring(connection, NULL);
}

void vb_upgrade_observe(struct vb_connection *connection, struct vb_rsocket *rs)
{
	vb_mutex_lock(&rs->lock);
	rs->observer.context = connection;
	rs->observer.changed = changed;
	vb_mutex_unlock(&rs->lock);
}

static void stay_plain(struct vb_connection *connection)
{
	struct vb_rsocket *listener = connection->listener, *rs = connection->rs;

	connection->listener = connection->rs = NULL;
	set_phase(connection, VB_CONNECTION_PLAIN);
	if (listener != NULL)
		vb_upgrade_close_rsocket(listener);
	if (rs != NULL)
		vb_upgrade_close_rsocket(rs);
	vb_connection_ring(connection, NULL);
}

/* A connector sends the first token, so it knows whether there is one. An acceptor that has its rsocket does not: a
 * token may be in what TCP has for it. */
static bool may_stay_plain(const struct vb_connection *connection)
{
	return connection->phase <= VB_CONNECTION_OPENING ||
	       (connection->phase == VB_CONNECTION_SWITCHING && connection->is_connector &&
		connection->token_sent == 0);
}

void vb_upgrade_decline(struct vb_connection *connection)
{
	VB_UNCANCELLED;

	if (may_stay_plain(connection))
		stay_plain(connection);
}

/* ---- the connector ---- */

static struct vb_rsocket *listen_on(const union vb_rsocket_address *local, const uint8_t token[VB_TOKEN])
{
	struct vb_rsocket *rs;
	int error;

	rs = vb_rstream_open_hidden(local->any.sa_family, token, &error);
	if (rs == NULL) {
		remember_failure();
		return NULL;
	}
	vb_mutex_lock(&rs->lock);
	error = vb_rstream_bind(rs, &local->any, vb_rsocket_address_length(local->any.sa_family));
	if (error == 0)
		error = vb_rstream_listen(rs, 1);
	vb_mutex_unlock(&rs->lock);
	if (error == 0)
		return rs;
	vb_upgrade_close_rsocket(rs);
	return NULL;
}

struct vb_rsocket *vb_upgrade_listen(int fd, int family, uint8_t token[VB_TOKEN])
{
	VB_UNCANCELLED;
	union vb_rsocket_address local, any = {.storage.ss_family = (sa_family_t)family};

	if (rsockets_fail() || !vb_token_make(token) || !name_of(fd, false, &local))
		return NULL;
	/* The peer must find the rsocket from the moment it has the connection: so the port is chosen before. */
	if (*port_of(&local) == 0) {
		union vb_rsocket_address wildcard = {.storage.ss_family = local.any.sa_family};

		if (bind(fd, &wildcard.any, vb_rsocket_address_length(local.any.sa_family)) != 0 ||
		    !name_of(fd, false, &local))
			return NULL;
	}
	*port_of(&any) = *port_of(&local);
	return listen_on(&any, token);
}

/* Only the host that the TCP connection leads to may offer an rsocket for it. */
static bool is_from_peer(struct vb_connection *connection, struct vb_rsocket *child)
{
	union vb_rsocket_address tcp, rdma;
	struct in6_addr hosts[2];

	memset(&rdma, 0, sizeof(rdma));
	if (!child->stream->peer_has_token || child->closed || !name_of(connection->fd, true, &tcp))
		return false;
	memcpy(&rdma, rdma_get_peer_addr(child->stream->id),
	       vb_rsocket_address_length(rdma_get_peer_addr(child->stream->id)->sa_family));
	hosts[0] = host_of(&tcp);
	hosts[1] = host_of(&rdma);
	return memcmp(&hosts[0], &hosts[1], sizeof(hosts[0])) == 0;
}

static void look_for_peer(struct vb_connection *connection)
{
	struct vb_rsocket *listener = connection->listener, *child;
	bool accepted;

	/* The program does not wait for that, and goes on by TCP. */
	if (vb_rstream_is_making(listener->stream))
		return;
	vb_mutex_lock(&listener->lock);
	child = vb_rstream_take_accepted(listener);
	vb_mutex_unlock(&listener->lock);
	if (child == NULL)
		return;
	vb_mutex_lock(&child->lock);
	accepted = is_from_peer(connection, child);
	vb_mutex_unlock(&child->lock);
	if (!accepted) {
		vb_upgrade_close_rsocket(child);
		return;
	}
	connection->listener = NULL;
	vb_upgrade_close_rsocket(listener);
	connection->rs = child;
	vb_upgrade_observe(connection, child);
	set_phase(connection, VB_CONNECTION_SWITCHING);
	vb_connection_ring(connection, NULL);
}

/* ---- the acceptor ---- */

static struct vb_rsocket *connect_to(union vb_rsocket_address *local, const union vb_rsocket_address *peer,
				     const uint8_t token[VB_TOKEN])
{
	struct vb_rsocket *rs;
	int error;

	rs = vb_rstream_open_hidden(local->any.sa_family, token, &error);
	if (rs == NULL) {
		remember_failure();
		return NULL;
	}
	*port_of(local) = 0;
	vb_mutex_lock(&rs->lock);
	error = vb_rstream_bind(rs, &local->any, vb_rsocket_address_length(local->any.sa_family));
	if (error == 0)
		error = vb_rstream_connect(rs, &peer->any, vb_rsocket_address_length(peer->any.sa_family));
	vb_mutex_unlock(&rs->lock);
	if (error == 0 || error == -EINPROGRESS)
		return rs;
	vb_upgrade_close_rsocket(rs);
	return NULL;
}

static void begin(struct vb_connection *connection)
{
	union vb_rsocket_address local, peer;

	if (connection->give_up || rsockets_fail() || !name_of(connection->fd, false, &local) ||
	    !name_of(connection->fd, true, &peer) || !vb_sockets_port_is_wanted(ntohs(*port_of(&local))) ||
	    is_silent(&peer) || !vb_token_make(connection->token)) {
		stay_plain(connection);
		return;
	}
	connection->opening_until = vb_rsocket_now() + OPENING_PATIENCE;
	connection->rs = connect_to(&local, &peer, connection->token);
	if (connection->rs == NULL) {
		stay_plain(connection);
		return;
	}
	vb_upgrade_observe(connection, connection->rs);
	set_phase(connection, VB_CONNECTION_OPENING);
}

/* Can the peer not have seen our rsocket connected? We say so by an RTU, which leaves under the rsocket's lock together with its
 * state; by iWARP another thread says it, some time after the request. Caller holds rs->lock. */
static bool is_unknown_to_peer(const struct vb_rstream *stream)
{
	return stream->state < (stream->by_send ? VB_RSTREAM_CONNECTING : VB_RSTREAM_CONNECTED);
}

static void look_whether_connected(struct vb_connection *connection)
{
	struct vb_rsocket *rs = connection->rs;
	size_t in_tcp = vb_stream_tcp_has(connection); /* before the rsocket is looked at */
	enum vb_rstream_state state;
	bool has_token;

	if (vb_rstream_is_making(rs->stream))
		return;
	vb_mutex_lock(&rs->lock);
	state = rs->stream->state;
	has_token = rs->stream->peer_has_token;
	if (is_unknown_to_peer(rs->stream))
		vb_token_reader_settle(&connection->token_reader, in_tcp);
	vb_mutex_unlock(&rs->lock);
	if (state == VB_RSTREAM_CONNECTED && has_token)
		set_phase(connection, VB_CONNECTION_SWITCHING);
	else if (state >= VB_RSTREAM_CONNECTED)
		stay_plain(connection);
	else if (vb_rsocket_now() > connection->opening_until) {
		remember_silence(connection->fd);
		stay_plain(connection);
	}
}

/* ---- both ---- */

static void go_on_switching(struct vb_connection *connection)
{
	bool is_over;

	vb_mutex_lock(&connection->rs->lock);
	is_over = connection->rs->closed || connection->rs->stream->state != VB_RSTREAM_CONNECTED;
	vb_mutex_unlock(&connection->rs->lock);
	if (is_over && may_stay_plain(connection)) {
		stay_plain(connection);
		return;
	}
	if (!connection->sends_by_rdma && !connection->sending_is_over && !is_over &&
	    (connection->is_connector || connection->receives_by_rdma))
		vb_stream_switch_sending(connection);
	if (connection->sends_by_rdma && connection->receives_by_rdma)
		set_phase(connection, VB_CONNECTION_UP);
}

void vb_upgrade_advance(struct vb_connection *connection)
{
	if (connection->phase == VB_CONNECTION_UP)
		return;

	VB_UNCANCELLED;

	if (connection->phase == VB_CONNECTION_FRESH)
		begin(connection);
	if (__atomic_load_n(&connection->give_up, __ATOMIC_RELAXED))
		vb_upgrade_decline(connection);
	if (connection->phase == VB_CONNECTION_OPENING) {
		if (connection->is_connector)
			look_for_peer(connection);
		else
			look_whether_connected(connection);
	}
	if (connection->phase == VB_CONNECTION_SWITCHING)
		go_on_switching(connection);
}
