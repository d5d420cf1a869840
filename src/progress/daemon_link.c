/* SPDX-License-Identifier: MIT
 *
 * This endpoint's connection to verbenad: a slot at the beginning, news of devices afterwards. When the connection
 * breaks, data goes on, since it never passes through the daemon; a thread of its own looks for a new daemon (starting
 * one unless the old was the system's) and shows it the slot and the sockets. The engine thread, which meanwhile serves
 * packets, then takes the connection over and tells the daemon which probes it saw, so that it learns the order of the
 * sockets.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/thread.h"
#include "progress/device_message.h"
#include "progress/devices.h"
#include "progress/endpoint_parts.h"

#define FIRST_PAUSE VB_MILLISECONDS(20)
/* A new one waits two seconds for us (daemon/slots.c). Then packets for those who have not come are lost. */
#define LONGEST_PAUSE VB_SECONDS(1)

/* After so many vain attempts no daemon is started any more, only looked for. */
enum { STARTING_TRIES = 8 };

/* ---- devices ---- */

static struct vb_device_info *find_device(struct vb_endpoint *endpoint, uint32_t index)
{
	for (unsigned i = 0; i < endpoint->devices; i++)
		if (endpoint->device[i].index == index)
			return &endpoint->device[i];
	return NULL;
}

static void tell_watchers(struct vb_endpoint *endpoint, const struct vb_device_info *device, bool gone)
{
	struct vb_endpoint_watcher *next;

	vb_mutex_lock(&endpoint->watcher_lock);
	for (struct vb_endpoint_watcher *w = endpoint->watchers; w; w = next) {
		next = w->next;
		w->device_changed(w, device, gone);
	}
	vb_mutex_unlock(&endpoint->watcher_lock);
}

/* Before a program is told, which may then connect to an address that is new. */
static void tell_links(struct vb_endpoint *endpoint)
{
	for (struct vb_link *link = endpoint->schedule.links; link; link = link->next)
		if (link->driver->addresses_changed)
			link->driver->addresses_changed(link);
}

static void take_device(struct vb_endpoint *endpoint, const struct vb_daemon_device *described)
{
	struct vb_device_info now, *known;

	vb_device_from_message(&now, described);
	known = find_device(endpoint, now.index);
	/* What was said again is no news. */
	if (known)
		known->told = now.told;
	if (known && memcmp(known, &now, sizeof(now)) == 0)
		return;
	if (!known) {
		struct vb_device_info *larger = realloc(endpoint->device, (endpoint->devices + 1) * sizeof(*larger));

		if (!larger)
			return;
		endpoint->device = larger;
		known = &larger[endpoint->devices++];
	}
	*known = now;
	tell_links(endpoint);
	tell_watchers(endpoint, &now, false);
}

static void drop_device(struct vb_endpoint *endpoint, uint32_t index)
{
	struct vb_device_info *known = find_device(endpoint, index), gone;

	if (!known)
		return;
	gone = *known;
	*known = endpoint->device[--endpoint->devices];
	gone.state = IBV_PORT_DOWN;
	tell_links(endpoint);
	tell_watchers(endpoint, &gone, true);
}

static void drop_interface(struct vb_endpoint *endpoint, uint32_t interface_index)
{
	for (unsigned kind = 0; kind < VB_DEVICE_KINDS; kind++)
		drop_device(endpoint, vb_device_index(interface_index, (enum vb_device_kind)kind));
}

static void take_news(struct vb_endpoint *endpoint, const struct vb_daemon_message *message)
{
	if (message->header.type == VB_DAEMON_DEVICE)
		take_device(endpoint, &message->device);
	else if (message->header.type == VB_DAEMON_DEVICE_GONE)
		drop_interface(endpoint, message->device_gone.interface_index);
	else if (message->header.type == VB_DAEMON_SHAPE)
		vb_endpoint_take_shape(endpoint, &message->shape);
	else if (message->header.type == VB_DAEMON_SHOW_RESOURCES)
		vb_endpoint_show_resources(endpoint);
}

struct listing {
	struct vb_endpoint *endpoint;
	unsigned count;
	uint32_t index[VB_MAX_DEVICES];
};

static bool take_listed(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	struct listing *listing = context;

	(void)fds;
	(void)count;
	take_news(listing->endpoint, message);
	if (message->header.type == VB_DAEMON_DEVICE && listing->count < VB_MAX_DEVICES)
		listing->index[listing->count++] = vb_device_index(message->device.interface_index, message->device.kind);
	return true;
}

/* Ask for the list and for news. What is not in the list any more vanished while no daemon told us. */
static int watch_devices(struct vb_endpoint *endpoint)
{
	struct vb_daemon_message request;
	struct listing listing = {.endpoint = endpoint};
	int error;

	vb_daemon_message_begin(&request, VB_DAEMON_WATCH_DEVICES, 0);
	error = vb_daemon_client_request(&endpoint->daemon, &request, NULL, 0, take_listed, &listing);
	for (unsigned i = endpoint->devices; error == 0 && i-- > 0;) {
		bool listed = false;

		for (unsigned j = 0; j < listing.count; j++)
			listed = listed || listing.index[j] == endpoint->device[i].index;
		if (!listed)
			drop_device(endpoint, endpoint->device[i].index);
	}
	return error;
}

/* ---- the slot ---- */

static int replace(int *kept, int fd)
{
	int copy = vb_descriptor_duplicate(fd);

	if (copy < 0)
		return copy;
	if (*kept >= 0)
		vb_descriptor_close(*kept);
	*kept = copy;
	return 0;
}

struct slot_offer {
	struct vb_endpoint *endpoint;
	int error;                         /* of what could not be taken */
};

static bool take_slot(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	struct slot_offer *offer = context;
	struct vb_endpoint *endpoint = offer->endpoint;
	int *places[VB_DAEMON_MAX_FDS] = {
		&endpoint->receive_fd[VB_ENDPOINT_IPV4], &endpoint->receive_fd[VB_ENDPOINT_IPV6], &endpoint->page_fd,
		&endpoint->daemon_own_fd[VB_ENDPOINT_IPV4], &endpoint->daemon_own_fd[VB_ENDPOINT_IPV6], &endpoint->claim_fd,
	};
	/* Once we have a slot, its sockets are ours and are not replaced. */
	unsigned first = endpoint->schedule.slot == 0 ? 0 : 3;

	(void)count;
	if (message->header.type != VB_DAEMON_SLOT) {
		take_news(endpoint, message);
		return true;
	}
	for (unsigned bit = 0, next = 0; bit < VB_DAEMON_MAX_FDS; bit++) {
		if (!(message->slot.descriptors & 1u << bit))
			continue;
		if (bit >= first && offer->error == 0)
			offer->error = replace(places[bit], fds[next]);
		next++;
	}
	if (endpoint->schedule.slot == 0)
		endpoint->schedule.slot = message->slot.slot;
	return true;
}

static int adopt_slot(struct vb_endpoint *endpoint, struct vb_daemon_client *daemon)
{
	const int candidates[VB_DAEMON_MAX_FDS] = {
		endpoint->receive_fd[VB_ENDPOINT_IPV4], endpoint->receive_fd[VB_ENDPOINT_IPV6], endpoint->page_fd,
		endpoint->daemon_own_fd[VB_ENDPOINT_IPV4], endpoint->daemon_own_fd[VB_ENDPOINT_IPV6], -1, /* the claim is ours alone */
	};
	struct slot_offer offer = {.endpoint = endpoint};
	struct vb_daemon_message request;
	int fds[VB_DAEMON_MAX_FDS];
	unsigned count = 0;

	vb_daemon_message_begin(&request, VB_DAEMON_ADOPT_SLOT, 0);
	request.slot.slot = endpoint->schedule.slot;
	for (unsigned bit = 0; bit < VB_DAEMON_MAX_FDS; bit++) {
		if (candidates[bit] < 0)
			continue;
		fds[count++] = candidates[bit];
		request.slot.descriptors |= 1u << bit;
	}
	/* Its own sockets are not replaced, and the daemon's it has from the one before. */
	return vb_daemon_client_request(daemon, &request, fds, count, take_slot, &offer);
}

static bool take_shown(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	(void)fds;
	(void)count;
	if (message->header.sequence == 0)
		take_news(context, message);
	return true;
}

int vb_daemon_link_introduce(struct vb_endpoint *endpoint, struct vb_daemon_client *daemon, struct vb_link *link)
{
	return link->driver->introduce ? link->driver->introduce(link, daemon, take_shown, endpoint) : 0;
}

/* A process that sees no device that packets reach needs no port for them; one that sees others as well can do without. */
static enum vb_daemon_port_wish wish_for_port(void)
{
	const char *transports = secure_getenv("VERBENA_TRANSPORT"), *wanted = secure_getenv("VERBENA_DEVICES");
	bool needed = false, dispensable = false;

	for (unsigned kind = 0; kind < VB_DEVICE_KINDS; kind++) {
		if (!vb_devices_may_show((enum vb_device_kind)kind, transports, wanted))
			continue;
		needed = needed || vb_endpoint_needs_port((enum vb_device_kind)kind);
		dispensable = dispensable || !vb_endpoint_needs_port((enum vb_device_kind)kind);
	}
	return !dispensable ? VB_DAEMON_PORT_NEEDED : needed ? VB_DAEMON_PORT_WELCOME : VB_DAEMON_PORT_UNWANTED;
}

int vb_daemon_link_open(struct vb_endpoint *endpoint)
{
	enum vb_daemon_port_wish wish = wish_for_port();
	struct slot_offer offer = {.endpoint = endpoint};
	struct vb_daemon_message request;
	int error = vb_daemon_client_connect(&endpoint->daemon, true);

	if (error != 0)
		return error;
	vb_daemon_message_begin(&request, VB_DAEMON_OPEN_SLOT, 0);
	request.open_slot.port = wish;
	error = vb_daemon_client_request(&endpoint->daemon, &request, NULL, 0, take_slot, &offer);
	if (error == 0)
		error = offer.error;
	if (error == 0 && (endpoint->schedule.slot == 0 || (wish == VB_DAEMON_PORT_NEEDED && !vb_endpoint_has_port(endpoint))))
		error = -EPROTO;
	if (error == 0)
		error = watch_devices(endpoint);
	if (error != 0)
		vb_log(VB_LOG_ERROR, "verbenad gives this process no slot of UDP port %d: %s", VB_ROCE_PORT,
		       strerror(-error));
	endpoint->next_try = VB_TIME_NEVER;
	return error;
}

static void take_dedicated(struct vb_endpoint *endpoint, const struct vb_daemon_dedicated *told, int fd)
{
	struct vb_link *link = endpoint->schedule.laned;
	struct vb_path flow = {.source_port = (uint16_t)told->port};

	memcpy(flow.source, told->peer, sizeof(flow.source));
	memcpy(flow.destination, told->own, sizeof(flow.destination));
	if (!link || told->lane >= __atomic_load_n(&endpoint->schedule.lanes, __ATOMIC_ACQUIRE)) {
		if (fd >= 0)
			vb_descriptor_close(fd);
		return;
	}
	vb_lock_take(endpoint->schedule.lane[told->lane].lock);
	link->driver->lanes->dedicate(link, told->lane, &flow, fd);
	vb_lock_release(endpoint->schedule.lane[told->lane].lock);
	/* There may be as many as before. */
	endpoint->sockets_kept = 0;
}

void vb_daemon_link_serve(struct vb_endpoint *endpoint)
{
	for (;;) {
		struct vb_daemon_message message;
		int fds[VB_DAEMON_MAX_FDS];
		unsigned count = 0;
		int error = vb_daemon_client_receive(&endpoint->daemon, &message, fds, &count, 0);

		/* It is there still when there is memory for it. */
		if (error == -EAGAIN || error == -ENOMEM || error == -ENOBUFS)
			return;
		if (error != 0) {
			vb_log(VB_LOG_INFO, "verbenad is gone (%s): looking for another", strerror(-error));
			vb_daemon_client_close(&endpoint->daemon);
			endpoint->tries = 0;
			endpoint->next_try = 0;
			return;
		}
		if (message.header.type == VB_DAEMON_DEDICATED) {
			take_dedicated(endpoint, &message.dedicated, count > 0 ? fds[0] : -1);
			continue;
		}
		for (unsigned i = 0; i < count; i++)
			vb_descriptor_close(fds[i]);
		take_news(endpoint, &message);
	}
}

static void *seek_daemon(void *argument)
{
	struct vb_endpoint *endpoint = argument;
	/* The engine thread leaves these alone until it has joined us. */
	bool may_start = !endpoint->daemon.is_system && endpoint->tries < STARTING_TRIES;
	int error = vb_daemon_client_connect(&endpoint->found, may_start);

	if (error == 0) {
		error = adopt_slot(endpoint, &endpoint->found);
		endpoint->slot_refused = error == -ESTALE;
		if (error == 0)
			vb_lanes_adopt(endpoint, &endpoint->found, take_shown);
		for (struct vb_link *link = endpoint->schedule.links; error == 0 && link; link = link->next)
			error = vb_daemon_link_introduce(endpoint, &endpoint->found, link);
		if (error != 0)
			vb_daemon_client_close(&endpoint->found);
	}
	endpoint->found_error = error;
	__atomic_store_n(&endpoint->seeker_done, true, __ATOMIC_RELEASE);
	vb_schedule_kick(&endpoint->schedule);
	return NULL;
}

static int join_seeker(struct vb_endpoint *endpoint)
{
	pthread_join(endpoint->seeker, NULL);
	endpoint->seeker_runs = false;
	__atomic_store_n(&endpoint->seeker_done, false, __ATOMIC_RELAXED);
	return endpoint->found_error;
}

/* Ever longer. */
static void try_later(struct vb_endpoint *endpoint)
{
	vb_time pause = FIRST_PAUSE << (endpoint->tries < 12 ? endpoint->tries : 12);

	endpoint->tries++;
	endpoint->next_try = vb_clock_now() + (pause < LONGEST_PAUSE ? pause : LONGEST_PAUSE);
}

/* Queue pair numbers are those of the slot: no queue pair of ours can be reached any more, and none can be given another number. To the
 * program that is an adapter that was pulled out. What it opens from now on is another endpoint's. */
static void lose_slot(struct vb_endpoint *endpoint)
{
	vb_log(VB_LOG_ERROR, "slot %u is not this process's any more: its open devices are gone, open them again",
	       endpoint->schedule.slot);
	__atomic_store_n(&endpoint->lost, true, __ATOMIC_RELEASE);
	while (endpoint->devices > 0)
		drop_device(endpoint, endpoint->device[0].index);
}

static void take_over(struct vb_endpoint *endpoint)
{
	bool was_system = endpoint->daemon.is_system;
	int error = join_seeker(endpoint);

	if (error != 0 && endpoint->slot_refused) {
		lose_slot(endpoint);
		return;
	}
	if (error == 0) {
		endpoint->daemon = endpoint->found;
		error = watch_devices(endpoint);
	}
	if (error != 0) {
		vb_daemon_client_close(&endpoint->daemon);
		endpoint->daemon.is_system = was_system;
		try_later(endpoint);
		return;
	}
	vb_log(VB_LOG_INFO, "verbenad (pid %u) took slot %u over", endpoint->daemon.pid, endpoint->schedule.slot);
	endpoint->tries = 0;
}

void vb_daemon_link_retry(struct vb_endpoint *endpoint)
{
	endpoint->next_try = VB_TIME_NEVER;
	if (endpoint->seeker_runs) {
		if (__atomic_load_n(&endpoint->seeker_done, __ATOMIC_ACQUIRE))
			take_over(endpoint);
		return;
	}
	if (endpoint->daemon.fd >= 0 || __atomic_load_n(&endpoint->lost, __ATOMIC_RELAXED))
		return;
	endpoint->slot_refused = false;
	endpoint->found = (struct vb_daemon_client){.fd = -1};
	if (vb_thread_start(&endpoint->seeker, seek_daemon, endpoint) == 0)
		endpoint->seeker_runs = true;
	else
		try_later(endpoint);
}

static void report_probes_of(struct vb_endpoint *endpoint, unsigned number)
{
	struct vb_lane *lane = &endpoint->schedule.lane[number];
	uint64_t nonce[VB_KEPT_PROBES];
	unsigned count;

	vb_lock_take(lane->lock);
	count = lane->probes;
	memcpy(nonce, lane->probe, count * sizeof(nonce[0]));
	lane->probes = 0;
	vb_lock_release(lane->lock);
	for (unsigned i = 0; i < count; i++) {
		struct vb_daemon_message message;

		vb_daemon_message_begin(&message, VB_DAEMON_PROBE_SEEN, 0);
		message.probe_seen.nonce = nonce[i];
		message.probe_seen.lane = number;
		(void)vb_daemon_client_send(&endpoint->daemon, &message, NULL, 0);
	}
}

void vb_daemon_link_report_probes(struct vb_endpoint *endpoint)
{
	/* A daemon that has just adopted us probes before its connection is ours: keep them until then. */
	if (endpoint->daemon.fd < 0)
		return;
	for (uint32_t i = 0, lanes = __atomic_load_n(&endpoint->schedule.lanes, __ATOMIC_ACQUIRE); i < lanes; i++)
		report_probes_of(endpoint, i);
}

static void tend_lane(struct vb_endpoint *endpoint, struct vb_link *link, unsigned number)
{
	struct vb_daemon_message message;
	struct vb_path flow;
	bool wanted;

	vb_lock_take(endpoint->schedule.lane[number].lock);
	wanted = link->driver->lanes->tend(link, number, endpoint->daemon.fd >= 0, &flow);
	vb_lock_release(endpoint->schedule.lane[number].lock);
	if (!wanted)
		return;
	vb_daemon_message_begin(&message, VB_DAEMON_OPEN_DEDICATED, 0);
	message.dedicated.lane = number;
	message.dedicated.port = flow.source_port;
	memcpy(message.dedicated.peer, flow.source, sizeof(message.dedicated.peer));
	memcpy(message.dedicated.own, flow.destination, sizeof(message.dedicated.own));
	(void)vb_daemon_client_send(&endpoint->daemon, &message, NULL, 0);
}

void vb_daemon_link_tend_lanes(struct vb_endpoint *endpoint)
{
	struct vb_link *link = endpoint->schedule.laned;

	for (uint32_t i = 0, lanes = __atomic_load_n(&endpoint->schedule.lanes, __ATOMIC_ACQUIRE); link && i < lanes; i++)
		tend_lane(endpoint, link, i);
}

void vb_daemon_link_close(struct vb_endpoint *endpoint)
{
	if (endpoint->seeker_runs && join_seeker(endpoint) == 0)
		vb_daemon_client_close(&endpoint->found);
	vb_daemon_client_close(&endpoint->daemon);
	free(endpoint->device);
	endpoint->device = NULL;
	endpoint->devices = 0;
}

void vb_endpoint_add_watcher(struct vb_endpoint *endpoint, struct vb_endpoint_watcher *watcher)
{
	vb_mutex_lock(&endpoint->watcher_lock);
	watcher->next = endpoint->watchers;
	endpoint->watchers = watcher;
	vb_mutex_unlock(&endpoint->watcher_lock);
}

void vb_endpoint_remove_watcher(struct vb_endpoint *endpoint, struct vb_endpoint_watcher *watcher)
{
	if (endpoint->schedule.abandoned)
		return;
	vb_mutex_lock(&endpoint->watcher_lock);
	for (struct vb_endpoint_watcher **at = &endpoint->watchers; *at; at = &(*at)->next) {
		if (*at == watcher) {
			*at = watcher->next;
			break;
		}
	}
	vb_mutex_unlock(&endpoint->watcher_lock);
}
