/* SPDX-License-Identifier: MIT
 *
 * Other processes of this host. verbenad says which process has a slot and hands its segment and eventfd over, to
 * processes of the same user only. That is not enough to copy: ptrace(2)'s rules decide that, and they differ from
 * machine to machine (Yama, containers, programs that are not dumpable). So it is tried: the segment says where in its
 * owner's memory the segment's random id stands again. Who reads it there has the right process and may copy.
 *
 * A process is known by its number, which another may get after its death. A pidfd tells; it is looked at whenever it
 * was not for a few milliseconds, and numbers are given out in turn, so that thirty thousand processes would have to be
 * born in between.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "io/clock.h"
#include "io/daemon_silence.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/process.h"
#include "io/process_memory.h"
#include "io/shared_memory.h"
#include "links/memory/memory_link.h"
#include "memory/foreign.h"
#include "profiles/limits.h"
#include "queue/bypass.h"

#define WHILE_IT_COPIES VB_MICROSECONDS(100)
#define PATIENCE VB_SECONDS(2)
#define STILL_ALIVE VB_MILLISECONDS(8)

enum { QUIESCE_YIELDS = 256 };

static struct vb_host_peer *host_peer_of(struct vb_local_peer *peer)
{
	return (struct vb_host_peer *)peer;
}

bool vb_host_peer_has_ended(struct vb_host_peer *host_peer)
{
	if (host_peer->is_self)
		return false;
	if (__atomic_load_n(&host_peer->peer.gone, __ATOMIC_RELAXED))
		return true;
	if (!vb_process_has_ended(host_peer->watch_fd))
		return false;
	__atomic_store_n(&host_peer->peer.gone, true, __ATOMIC_RELAXED);
	return true;
}

/* ---- struct vb_local_host ---- */

bool vb_host_peer_is_there(struct vb_host_peer *host_peer)
{
	vb_time now;

	if (host_peer->is_self)
		return true;
	now = vb_clock_coarse();
	if (now - __atomic_load_n(&host_peer->checked, __ATOMIC_RELAXED) >= STILL_ALIVE) {
		if (vb_host_peer_has_ended(host_peer))
			return false;
		__atomic_store_n(&host_peer->checked, now, __ATOMIC_RELAXED);
	}
	return !__atomic_load_n(&host_peer->peer.gone, __ATOMIC_RELAXED);
}

static int note_end(struct vb_host_peer *host_peer, int error)
{
	if (error == -ESRCH && !host_peer->is_self)
		__atomic_store_n(&host_peer->peer.gone, true, __ATOMIC_RELAXED);
	return error;
}

enum { PIECES = 64 };
_Static_assert((int)PIECES >= VB_MAX_SGE && (int)PIECES >= VB_BYPASS_ROW, "as many as are moved at once");

static int transfer(struct vb_local_peer *peer, const struct iovec *ours, unsigned count, const struct vb_record_piece *theirs,
		    unsigned pieces, int (*copy)(pid_t, const struct iovec *, unsigned, const struct iovec *, unsigned))
{
	struct vb_host_peer *host_peer = host_peer_of(peer);
	struct iovec remote[PIECES];

	if (pieces > PIECES)
		return -EINVAL;
	if (!vb_host_peer_is_there(host_peer))
		return -ESRCH;
	for (unsigned i = 0; i < pieces; i++)
		remote[i] = (struct iovec){(void *)(uintptr_t)theirs[i].address, theirs[i].length};
	return note_end(host_peer, copy(host_peer->pid, ours, count, remote, pieces));
}

static int write_there(struct vb_local_peer *peer, const struct iovec *ours, unsigned count, const struct vb_record_piece *theirs,
		       unsigned pieces)
{
	return transfer(peer, ours, count, theirs, pieces, vb_process_memory_write_to);
}

static int read_there(struct vb_local_peer *peer, const struct iovec *ours, unsigned count, const struct vb_record_piece *theirs,
		      unsigned pieces)
{
	return transfer(peer, ours, count, theirs, pieces, vb_process_memory_read_from);
}

static void *share(struct vb_local_peer *peer, uint32_t table, uint32_t key, uint64_t generation, uint64_t region_start,
		   uint64_t region_length, uint64_t address, uint64_t length)
{
	struct vb_host_peer *host_peer = host_peer_of(peer);

	return vb_local_share_find(&host_peer->share, table, key, generation, region_start, region_length, address, length);
}

static bool lives(void *context, uint32_t table, uint32_t key, uint64_t generation)
{
	const struct vb_host_peer *host_peer = context;

	return vb_foreign_lives(host_peer->peer.segment->table[table % VB_SEGMENT_TABLES], VB_SEGMENT_TABLE_BYTES, key, generation);
}

/* Memory that a host peer has given up must not be kept by our mapping of it. Caller holds progress. */
void vb_host_peers_sweep(struct vb_same_host *same_host)
{
	for (struct vb_host_peer *n = __atomic_load_n(&same_host->host_peers, __ATOMIC_ACQUIRE); n;
	     n = __atomic_load_n(&n->next, __ATOMIC_ACQUIRE))
		vb_local_share_sweep(&n->share);
}

static void wake(struct vb_local_peer *peer)
{
	vb_event_raise(host_peer_of(peer)->wake_fd);
}

static void pause_for(struct vb_local_peer *peer)
{
	vb_wait(NULL, 0, vb_clock_now() + WHILE_IT_COPIES);
	(void)vb_host_peer_has_ended(host_peer_of(peer));
}

static const struct vb_local_host local_host = {
	.pause = pause_for,
	.write = write_there,
	.read = read_there,
	.shared = share,
	.wake = wake,
};

/* ---- the list ---- */

/* Newest first. Caller holds the lock. */
static void append(struct vb_same_host *same_host, struct vb_host_peer *host_peer)
{
	host_peer->next = same_host->host_peers;
	__atomic_store_n(&same_host->host_peers, host_peer, __ATOMIC_RELEASE);
}

static void destroy(struct vb_host_peer *host_peer)
{
	vb_local_share_fini(&host_peer->share);
	if (!host_peer->is_self) {
		vb_shared_memory_unmap(host_peer->peer.segment, sizeof(*host_peer->peer.segment));
		if (host_peer->watch_fd >= 0)
			vb_descriptor_close(host_peer->watch_fd);
		if (host_peer->wake_fd >= 0)
			vb_descriptor_close(host_peer->wake_fd);
	}
	free(host_peer);
}

int vb_host_peers_open(struct vb_same_host *same_host)
{
	struct vb_host_peer *self = calloc(1, sizeof(*self));

	if (!self)
		return -ENOMEM;
	self->peer = (struct vb_local_peer){.segment = same_host->segment, .host = &local_host, .slot = same_host->schedule->slot};
	self->id = same_host->cookie;
	self->pid = getpid();
	self->watch_fd = -1;
	self->wake_fd = same_host->wake_fd;
	self->is_self = true;
	vb_doorbells_attend(same_host->segment, self->peer.slot, &self->doorbells);
	vb_local_share_init(&self->share, self->pid, self->peer.slot, same_host->segment->header.copying);
	self->peer.mappings = &self->share.given_up;
	append(same_host, self);
	same_host->broker.fd = -1;
	return 0;
}

void vb_host_peers_close(struct vb_same_host *same_host)
{
	struct vb_host_peer *next;

	for (struct vb_host_peer *n = same_host->host_peers; n; n = next) {
		next = n->next;
		destroy(n);
	}
	vb_daemon_client_close(&same_host->broker);
}

void vb_host_peers_abandon(struct vb_same_host *same_host)
{
	for (struct vb_host_peer *n = same_host->host_peers; n; n = n->next) {
		if (n->is_self)
			continue;
		vb_descriptor_close(n->watch_fd);
		vb_descriptor_close(n->wake_fd);
	}
	vb_daemon_client_close(&same_host->broker);
}

/* Those that are dead and not used. Copies by a dead process are over. */
static void reap(struct vb_same_host *same_host)
{
	struct vb_host_peer *dead = NULL, *next;

	/* A pass may be looking at any of them. */
	vb_lock_take(&same_host->schedule->progress);
	vb_mutex_lock(&same_host->lock);
	for (struct vb_host_peer **at = &same_host->host_peers; *at;) {
		struct vb_host_peer *n = *at;

		if (n->users > 0 || !vb_host_peer_has_ended(n) ||
		    (same_host->forget && !same_host->forget(same_host, n))) {
			at = &n->next;
			continue;
		}
		__atomic_store_n(at, n->next, __ATOMIC_RELEASE);
		n->next = dead;
		dead = n;
	}
	vb_mutex_unlock(&same_host->lock);
	vb_lock_release(&same_host->schedule->progress);
	for (; dead; dead = next) {
		next = dead->next;
		destroy(dead);
	}
}

static bool is_current(struct vb_host_peer *host_peer, uint32_t slot)
{
	/* A process that closed its endpoint, and opened another perhaps, takes the magic away. */
	return host_peer->peer.slot == slot && !vb_host_peer_has_ended(host_peer) &&
	       __atomic_load_n(&host_peer->peer.segment->header.magic, __ATOMIC_ACQUIRE) == VB_SEGMENT_MAGIC;
}

static bool is_known_under(const struct vb_host_peer *host_peer, const uint8_t gid[16])
{
	for (unsigned i = 0; i < host_peer->gids; i++)
		if (memcmp(host_peer->gid[i], gid, 16) == 0)
			return true;
	return false;
}

static void remember_gid(struct vb_host_peer *host_peer, const uint8_t gid[16])
{
	if (!is_known_under(host_peer, gid) && host_peer->gids < VB_HOST_PEER_GIDS)
		memcpy(host_peer->gid[host_peer->gids++], gid, 16);
}

/* ---- GIDs of other hosts ---- */

static uint8_t *negative_entry(struct vb_same_host *same_host, const uint8_t gid[16])
{
	uint64_t half[2];

	memcpy(half, gid, sizeof(half));
	return same_host->negative[(half[0] ^ half[1]) * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (VB_NEGATIVE_CACHE - 1)];
}

static bool is_in_negative_cache(struct vb_same_host *same_host, const uint8_t gid[16], uint32_t *news)
{
	bool known;

	vb_mutex_lock(&same_host->lock);
	known = memcmp(negative_entry(same_host, gid), gid, 16) == 0;
	*news = same_host->news;
	vb_mutex_unlock(&same_host->lock);
	return known;
}

/* Unless there were news since it was asked. */
static void add_to_negative_cache(struct vb_same_host *same_host, const uint8_t gid[16], uint32_t news)
{
	vb_mutex_lock(&same_host->lock);
	if (news == same_host->news)
		memcpy(negative_entry(same_host, gid), gid, 16);
	vb_mutex_unlock(&same_host->lock);
}

void vb_host_peers_invalidate(struct vb_same_host *same_host)
{
	vb_mutex_lock(&same_host->lock);
	__atomic_store_n(&same_host->news, same_host->news + 1, __ATOMIC_RELAXED);
	memset(same_host->negative, 0, sizeof(same_host->negative));
	for (struct vb_host_peer *n = same_host->host_peers; n; n = n->next)
		n->gids = 0;
	vb_mutex_unlock(&same_host->lock);
}

/* With a user more, or NULL. */
static struct vb_host_peer *find(struct vb_same_host *same_host, uint32_t slot)
{
	struct vb_host_peer *found = NULL;

	vb_mutex_lock(&same_host->lock);
	for (struct vb_host_peer *n = same_host->host_peers; n && !found; n = n->next)
		if (is_current(n, slot))
			found = n;
	if (found)
		found->users++;
	vb_mutex_unlock(&same_host->lock);
	return found;
}

void vb_host_peers_put(struct vb_same_host *same_host, struct vb_host_peer *host_peer)
{
	vb_mutex_lock(&same_host->lock);
	host_peer->users--;
	vb_mutex_unlock(&same_host->lock);
}

/* ---- resolution ---- */

static bool prove(struct vb_host_peer *host_peer)
{
	uint64_t cookie = 0, address = __atomic_load_n(&host_peer->peer.segment->header.cookie_address, __ATOMIC_RELAXED);
	const struct iovec ours = {&cookie, sizeof(cookie)}, theirs = {(void *)(uintptr_t)address, sizeof(cookie)};
	int error = vb_process_memory_read_from(host_peer->pid, &ours, 1, &theirs, 1);

	/* Its number was that process's then if the process is still there now. */
	if (error == 0 && (cookie != host_peer->id || vb_host_peer_has_ended(host_peer)))
		error = -ESRCH;
	if (error != 0)
		vb_log(VB_LOG_INFO, "process %d is on this host but cannot be reached through memory (%s): by wire",
		       (int)host_peer->pid, strerror(-error));
	return error == 0;
}

/* Takes both descriptors. NULL: it cannot be made, or is not what it says. */
static struct vb_host_peer *create(const struct vb_same_host *same_host, const struct vb_daemon_segment *told, const int fds[2])
{
	struct vb_host_peer *host_peer = calloc(1, sizeof(*host_peer));
	const struct vb_segment *segment = vb_shared_memory_map(fds[0], sizeof(*segment));

	vb_descriptor_close(fds[0]);
	if (!host_peer || !segment) {
		vb_shared_memory_unmap(segment, sizeof(*segment));
		vb_descriptor_close(fds[1]);
		free(host_peer);
		return NULL;
	}
	host_peer->peer = (struct vb_local_peer){.segment = segment, .host = &local_host, .slot = told->slot};
	host_peer->id = told->id;
	host_peer->pid = (pid_t)told->pid;
	host_peer->wake_fd = vb_descriptor_lift(fds[1]);
	host_peer->watch_fd = vb_process_watch(host_peer->pid);
	vb_local_share_init(&host_peer->share, host_peer->pid, told->slot, same_host->segment->header.copying);
	host_peer->share.lives = lives;
	host_peer->share.context = host_peer;
	host_peer->peer.mappings = &host_peer->share.given_up;
	vb_doorbells_attend(segment, same_host->schedule->slot, &host_peer->doorbells);
	if (host_peer->watch_fd < 0 || __atomic_load_n(&segment->header.magic, __ATOMIC_ACQUIRE) != VB_SEGMENT_MAGIC ||
	    segment->header.id != told->id || segment->header.slot != told->slot) {
		destroy(host_peer);
		return NULL;
	}
	return host_peer;
}

/* One question, one answer. 0 or -errno; the answer's descriptors are in fds. Caller holds `asking`. */
static int exchange(struct vb_daemon_client *broker, struct vb_daemon_message *message, int fds[VB_DAEMON_MAX_FDS], unsigned *count)
{
	int error = vb_daemon_client_send(broker, message, NULL, 0);
	uint32_t sequence = message->header.sequence;

	*count = 0;
	if (error == 0)
		error = vb_daemon_client_receive(broker, message, fds, count, vb_clock_now() + PATIENCE);
	if (error == 0 && message->header.sequence != sequence)
		error = -EPROTO;
	return error;
}

/* 0: message->segment and the descriptors. -EHOSTUNREACH: not on this host. Anything else: no segment. */
static int ask(struct vb_same_host *same_host, uint32_t slot, const uint8_t gid[16], uint64_t known,
	       struct vb_daemon_message *message, int fds[VB_DAEMON_MAX_FDS], unsigned *count)
{
	struct vb_daemon_client *broker = &same_host->broker;
	int error = -ECONNRESET;
	bool silent;

	vb_mutex_lock(&same_host->asking);
	silent = vb_daemon_is_silent();
	/* A connection that was kept may be to a daemon that is gone. While one does not answer, connections go by wire. */
	for (unsigned tries = 0; tries < 2 && error != 0 && !silent; tries++) {
		error = broker->fd >= 0 ? 0 : vb_daemon_client_reach(broker, PATIENCE);
		if (error != 0)
			break;
		vb_daemon_message_begin(message, VB_DAEMON_ASK_SEGMENT, 0);
		message->ask_segment.slot = slot;
		message->ask_segment.known = known;
		memcpy(message->ask_segment.gid, gid, 16);
		error = exchange(broker, message, fds, count);
		if (error != 0)
			vb_daemon_client_close(broker);
		if (error == -EAGAIN || error == -EPROTO)
			break;
	}
	if (!silent)
		vb_daemon_note(error == -EAGAIN ? -ETIMEDOUT : error, (pid_t)broker->pid);
	vb_mutex_unlock(&same_host->asking);
	if (error != 0)
		return error;
	if (message->header.type == VB_DAEMON_ERROR)
		return -message->error.error;
	return message->header.type == VB_DAEMON_SEGMENT && message->segment.slot == slot ? 0 : -EPROTO;
}

enum vb_resolution vb_host_peers_resolve(struct vb_same_host *same_host, const uint8_t gid[16], uint32_t qpn,
				   struct vb_host_peer **out)
{
	uint32_t slot = qpn >> VB_DAEMON_INDEX_BITS;
	struct vb_host_peer *host_peer;
	struct vb_daemon_message message;
	int fds[VB_DAEMON_MAX_FDS], error = 0;
	unsigned count = 0;
	uint32_t news;
	bool known;

	if (slot == 0)
		return VB_RESOLVED_ELSEWHERE;
	/* The address may have become one of this host, and the peer may know it before we do: it must see that we go by wire. */
	if (is_in_negative_cache(same_host, gid, &news))
		return VB_RESOLVED_WIRE;
	host_peer = find(same_host, slot);
	vb_mutex_lock(&same_host->lock);
	known = host_peer && is_known_under(host_peer, gid);
	vb_mutex_unlock(&same_host->lock);
	if (!known)
		error = ask(same_host, slot, gid, host_peer ? host_peer->id : 0, &message, fds, &count);
	if (error == 0 && count == 2) {
		/* What we had of this slot is not what is there now. */
		if (host_peer)
			vb_host_peers_put(same_host, host_peer);
		reap(same_host);
		host_peer = create(same_host, &message.segment, fds);
		if (host_peer) {
			host_peer->users = 1;
			host_peer->consents = prove(host_peer);
			vb_mutex_lock(&same_host->lock);
			append(same_host, host_peer);
			vb_mutex_unlock(&same_host->lock);
		}
	} else {
		for (unsigned i = 0; i < count; i++)
			vb_descriptor_close(fds[i]);
	}
	if (error == 0 && host_peer) {
		/* A sandbox may keep us even from ourselves. */
		bool proved = !known && host_peer->is_self && prove(host_peer), consents;

		vb_mutex_lock(&same_host->lock);
		remember_gid(host_peer, gid);
		host_peer->consents |= proved;
		consents = host_peer->consents;
		vb_mutex_unlock(&same_host->lock);
		if (consents) {
			*out = host_peer;
			return VB_RESOLVED_HOST_PEER;
		}
	}
	if (host_peer)
		vb_host_peers_put(same_host, host_peer);
	if (error != -EHOSTUNREACH)
		return VB_RESOLVED_WIRE;
	add_to_negative_cache(same_host, gid, news);
	return VB_RESOLVED_ELSEWHERE;
}

struct vb_host_peer *vb_host_peers_known(struct vb_same_host *same_host, const uint8_t gid[16], uint32_t qpn)
{
	struct vb_host_peer *host_peer = find(same_host, qpn >> VB_DAEMON_INDEX_BITS);
	bool known;

	if (!host_peer)
		return NULL;
	vb_mutex_lock(&same_host->lock);
	known = host_peer->consents && is_known_under(host_peer, gid);
	if (!known)
		host_peer->users--;
	vb_mutex_unlock(&same_host->lock);
	return known ? host_peer : NULL;
}

/* ---- deregistration ---- */

bool vb_host_peers_are_copying(struct vb_same_host *same_host, uint32_t table, uint32_t key)
{
	bool copying = false;

	vb_mutex_lock(&same_host->lock);
	for (struct vb_host_peer *n = same_host->host_peers; n && !copying; n = n->next)
		copying = vb_local_is_copying(&n->peer, same_host->schedule->slot, table, key) && !vb_host_peer_has_ended(n);
	vb_mutex_unlock(&same_host->lock);
	return copying;
}

void vb_host_peers_pause(unsigned looks)
{
	if (looks < QUIESCE_YIELDS)
		vb_thread_yield();
	else
		vb_wait(NULL, 0, vb_clock_now() + VB_MICROSECONDS(100));
}
