/* SPDX-License-Identifier: MIT
 *
 * See datagrams.h. What lies in rings is looked at in every pass, by the link of RoCE before its sockets.
 */
#include "links/memory/datagrams.h"

#include <stdlib.h>
#include <string.h>

#include "base/sleep_flag.h"
#include "links/memory/memory_link.h"
#include "wire/burst.h"

_Static_assert((int)VB_DATAGRAM_RUN >= (int)VB_BURST_RUN_BYTES, "a run fits");
_Static_assert((int)VB_SEGMENT_SLOTS == (int)VB_DAEMON_SLOTS, "a ring for each process");

static struct vb_datagrams *datagrams_of(struct vb_shortcut *shortcut)
{
	return (struct vb_datagrams *)shortcut;
}

/* These need an interface, which a path through memory has not. */
static bool is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

static bool is_plain(const struct vb_path *path)
{
	return path->framing == VB_FRAMING_UDP && !vb_gid_is_multicast(path->destination) && !is_link_local(path->destination) &&
	       !is_link_local(path->source);
}

static uint32_t news_of(const struct vb_datagrams *datagrams)
{
	return __atomic_load_n(&datagrams->same_host->news, __ATOMIC_RELAXED);
}

/* ---- sending ---- */

static struct vb_datagram_exit *exit_of(struct vb_datagrams *datagrams, uint32_t slot)
{
	return slot < VB_DAEMON_SLOTS ? __atomic_load_n(&datagrams->exit[slot], __ATOMIC_ACQUIRE) : NULL;
}

/* A process that goes on without its endpoint takes the magic away. Caller holds the exit's lock. */
static bool leads_somewhere(struct vb_datagram_exit *exit)
{
	if (exit->host_peer && (!vb_host_peer_is_there(exit->host_peer) ||
				__atomic_load_n(&exit->host_peer->peer.segment->header.magic, __ATOMIC_RELAXED) != VB_SEGMENT_MAGIC))
		exit->host_peer = NULL;
	return exit->host_peer != NULL;
}

/* Is it that process, as far as is known? Caller holds the exit's lock. */
static bool is_known(const struct vb_datagrams *datagrams, struct vb_datagram_exit *exit, const uint8_t gid[16])
{
	if (!leads_somewhere(exit) || exit->news != news_of(datagrams))
		return false;
	for (unsigned i = 0; i < exit->gids; i++)
		if (memcmp(exit->gid[i], gid, 16) == 0)
			return true;
	return false;
}

/* Of slot 0 there are the well-known numbers alone. */
static bool may_lead_to(const struct vb_path *path, uint32_t slot)
{
	return slot != 0 && slot < VB_DAEMON_SLOTS && is_plain(path);
}

static bool is_attended(struct vb_datagrams *datagrams, const struct vb_path *path, uint32_t slot, bool *known)
{
	struct vb_datagram_exit *exit = exit_of(datagrams, slot);
	bool leads = false;

	*known = false;
	if (exit) {
		vb_lock_take(&exit->lock);
		*known = is_known(datagrams, exit, path->destination);
		leads = *known && vb_datagram_writer_is_attended(&exit->writer);
		vb_lock_release(&exit->lock);
	}
	return leads;
}

static bool is_open(struct vb_shortcut *shortcut, const struct vb_path *path, uint32_t slot)
{
	bool known;

	return may_lead_to(path, slot) && is_attended(datagrams_of(shortcut), path, slot, &known);
}

/* What comes by the ring later is behind what goes by wire now. */
static void note_wire(struct vb_datagrams *datagrams, uint32_t slot)
{
	struct vb_datagram_exit *exit = exit_of(datagrams, slot);

	if (!exit)
		return;
	vb_lock_take(&exit->lock);
	vb_datagram_goes_by_wire(&exit->writer);
	vb_lock_release(&exit->lock);
}

static bool leads_to(struct vb_shortcut *shortcut, const struct vb_path *path, uint32_t slot)
{
	struct vb_datagrams *datagrams = datagrams_of(shortcut);
	bool known, leads;

	if (!may_lead_to(path, slot))
		return false;
	leads = is_attended(datagrams, path, slot, &known);
	if (!leads)
		note_wire(datagrams, slot);
	if (!known)
		vb_introductions_wish(datagrams, path->destination, slot);
	return leads;
}

static bool put(struct vb_shortcut *shortcut, const struct vb_burst_run *run)
{
	struct vb_datagram_exit *exit = exit_of(datagrams_of(shortcut), run->slot);
	bool done;

	if (!exit)
		return false;
	vb_lock_take(&exit->lock);
	done = exit->host_peer && vb_datagram_put(&exit->writer, &run->path, run->data, run->bytes, run->segment_size);
	/* Partner: an owner that falls asleep (attention.c). */
	if (done && vb_sleep_must_wake(&exit->host_peer->peer.segment->header.asleep, exit->fenced))
		exit->host_peer->peer.host->wake(&exit->host_peer->peer);
	vb_lock_release(&exit->lock);
	return done;
}

static void sent(struct vb_shortcut *shortcut, const struct vb_burst_run *run)
{
	struct vb_datagram_exit *exit = exit_of(datagrams_of(shortcut), run->slot);

	if (!exit)
		return;
	vb_lock_take(&exit->lock);
	vb_datagram_sent_by_wire(&exit->writer);
	vb_lock_release(&exit->lock);
}

static struct vb_datagram_exit *provide_exit(struct vb_datagrams *datagrams, uint32_t slot)
{
	struct vb_datagram_exit *exit = exit_of(datagrams, slot);

	if (exit)
		return exit;
	exit = calloc(1, sizeof(*exit));
	if (!exit)
		return NULL;
	vb_lock_init(&exit->lock, VB_RANK_DATAGRAMS);
	__atomic_store_n(&datagrams->exit[slot], exit, __ATOMIC_RELEASE);
	return exit;
}

/* Its process is dead: another may have the ring. */
static bool give_up_ring(struct vb_datagram_exit *exit)
{
	bool dead;

	vb_lock_take(&exit->lock);
	dead = !leads_somewhere(exit);
	if (dead)
		vb_datagram_writer_close(&exit->writer);
	vb_lock_release(&exit->lock);
	return dead;
}

/* The one it has, or that of a dead process, before any that was not used yet: what was written to once takes memory for as long as there
 * is a segment. VB_DATAGRAM_RINGS: there is none. */
static unsigned find_ring(struct vb_datagrams *datagrams, const struct vb_datagram_exit *exit)
{
	unsigned ring = 0;

	while (ring < VB_DATAGRAM_RINGS && datagrams->ring[ring] != exit)
		ring++;
	if (ring < VB_DATAGRAM_RINGS)
		return ring;
	for (ring = 0; ring < VB_DATAGRAM_RINGS; ring++)
		if (!datagrams->ring[ring] || give_up_ring(datagrams->ring[ring]))
			return ring;
	return VB_DATAGRAM_RINGS;
}

static void open_exit(struct vb_datagrams *datagrams, struct vb_host_peer *host_peer, const uint8_t gid[16], uint32_t news)
{
	struct vb_same_host *same_host = datagrams->same_host;
	uint32_t slot = host_peer->peer.slot;
	struct vb_datagram_exit *exit = provide_exit(datagrams, slot);
	unsigned ring = exit ? find_ring(datagrams, exit) : VB_DATAGRAM_RINGS;

	if (ring == VB_DATAGRAM_RINGS)
		return;
	datagrams->ring[ring] = exit;
	vb_lock_take(&exit->lock);
	if (exit->host_peer != host_peer || exit->news != news)
		exit->gids = 0;
	exit->host_peer = host_peer;
	exit->news = news;
	exit->fenced = same_host->segment->header.fenced || __atomic_load_n(&host_peer->peer.segment->header.fenced, __ATOMIC_RELAXED);
	if (!is_known(datagrams, exit, gid) && exit->gids < VB_EXIT_GIDS)
		memcpy(exit->gid[exit->gids++], gid, 16);
	vb_datagram_writer_open(&exit->writer, same_host->segment, same_host->schedule->slot, ring, host_peer->peer.segment,
				host_peer->id, slot);
	vb_lock_release(&exit->lock);
}

/* ---- receiving; caller holds progress ---- */

static void met(struct vb_shortcut *shortcut, const struct vb_path *from, uint32_t qpn)
{
	struct vb_datagrams *datagrams = datagrams_of(shortcut);
	uint32_t slot = qpn >> VB_DAEMON_INDEX_BITS;

	/* One that is attended to, and sends by wire still, will see that. */
	if (may_lead_to(from, slot))
		vb_introductions_wish(datagrams, from->source, slot);
}

static bool is_behind(struct vb_shortcut *shortcut)
{
	struct vb_datagrams *datagrams = datagrams_of(shortcut);
	bool any = false;

	for (unsigned i = 0; i < datagrams->entries; i++)
		any |= vb_datagram_reader_clears(&datagrams->entry[i]->reader);
	return any;
}

static bool has_work(struct vb_shortcut *shortcut)
{
	return vb_datagrams_have_work(datagrams_of(shortcut));
}

static bool take_from(struct vb_datagrams *datagrams, struct vb_datagram_entry *entry, struct vb_shortcut_run *run)
{
	struct vb_datagram_run *taken = &datagrams->run;

	if (!vb_datagram_take(&entry->reader, taken) || !is_plain(&taken->path))
		return false;
	taken->path.interface_index = 0;
	*run = (struct vb_shortcut_run){&taken->path, taken->bytes, taken->length, taken->segment};
	return true;
}

/* From each in turn. */
static bool take(struct vb_shortcut *shortcut, struct vb_shortcut_run *run)
{
	struct vb_datagrams *datagrams = datagrams_of(shortcut);

	for (unsigned i = 0; i < datagrams->entries; i++)
		if (take_from(datagrams, datagrams->entry[datagrams->next++ % datagrams->entries], run))
			return true;
	return false;
}

static bool is_bypassed(struct vb_shortcut *shortcut)
{
	const struct vb_datagrams *datagrams = datagrams_of(shortcut);

	for (unsigned i = 0; i < datagrams->entries; i++)
		if (vb_datagram_reader_is_bypassed(&datagrams->entry[i]->reader))
			return true;
	return false;
}

static bool take_bypassed(struct vb_shortcut *shortcut, struct vb_shortcut_run *run)
{
	struct vb_datagrams *datagrams = datagrams_of(shortcut);

	for (unsigned i = 0; i < datagrams->entries; i++)
		if (vb_datagram_reader_is_bypassed(&datagrams->entry[i]->reader) && take_from(datagrams, datagrams->entry[i], run))
			return true;
	return false;
}

bool vb_datagrams_have_work(const struct vb_datagrams *datagrams)
{
	for (unsigned i = 0; datagrams && i < datagrams->entries; i++)
		if (vb_datagram_reader_has_work(&datagrams->entry[i]->reader))
			return true;
	return false;
}

bool vb_datagrams_attend(const struct vb_datagrams *datagrams)
{
	return datagrams && __atomic_load_n(&datagrams->entries, __ATOMIC_RELAXED) != 0;
}

/* ---- whom we know ---- */

/* Caller holds progress. */
static void attend(struct vb_datagrams *datagrams, struct vb_host_peer *host_peer)
{
	const struct vb_same_host *same_host = datagrams->same_host;
	struct vb_datagram_entry *entry = NULL;

	for (unsigned i = 0; i < datagrams->entries && !entry; i++)
		if (datagrams->entry[i]->reader.mine == &same_host->segment->datagrams[host_peer->peer.slot])
			entry = datagrams->entry[i];
	if (entry && entry->id == host_peer->id)
		return;
	if (!entry) {
		entry = calloc(1, sizeof(*entry));
		if (!entry)
			return;
		datagrams->entry[datagrams->entries] = entry;
		__atomic_store_n(&datagrams->entries, datagrams->entries + 1, __ATOMIC_RELAXED);
		datagrams->shortcut.sources = datagrams->entries;
	}
	entry->host_peer = host_peer;
	entry->id = host_peer->id;
	vb_datagram_reader_open(&entry->reader, same_host->segment, same_host->schedule->slot, host_peer->peer.segment, host_peer->id,
				host_peer->peer.slot);
}

static void introduce(struct vb_datagrams *datagrams, struct vb_host_peer *host_peer, const uint8_t gid[16])
{
	uint32_t news = news_of(datagrams);

	vb_lock_take(&datagrams->same_host->schedule->progress);
	attend(datagrams, host_peer);
	vb_lock_release(&datagrams->same_host->schedule->progress);
	open_exit(datagrams, host_peer, gid, news);
}

/* See memory_link.h. */
static bool forget(struct vb_same_host *same_host, struct vb_host_peer *host_peer)
{
	struct vb_datagrams *datagrams = same_host->datagrams;
	struct vb_datagram_exit *exit = exit_of(datagrams, host_peer->peer.slot);

	for (unsigned i = 0; i < datagrams->entries; i++) {
		struct vb_datagram_entry *entry = datagrams->entry[i];

		if (entry->host_peer != host_peer)
			continue;
		if (vb_datagram_reader_has_work(&entry->reader))
			return false;
		__atomic_store_n(&datagrams->entries, datagrams->entries - 1, __ATOMIC_RELAXED);
		datagrams->shortcut.sources = datagrams->entries;
		datagrams->entry[i] = datagrams->entry[datagrams->entries];
		free(entry);
		break;
	}
	if (exit) {
		vb_lock_take(&exit->lock);
		if (exit->host_peer == host_peer)
			exit->host_peer = NULL;
		vb_lock_release(&exit->lock);
	}
	return true;
}

/* ---- opening and closing ---- */

struct vb_datagrams *vb_datagrams_open(struct vb_same_host *same_host)
{
	struct vb_datagrams *datagrams = calloc(1, sizeof(*datagrams));

	if (!datagrams)
		return NULL;
	datagrams->shortcut = (struct vb_shortcut){.leads_to = leads_to, .is_open = is_open, .put = put, .sent = sent, .met = met,
						     .has_work = has_work, .is_behind = is_behind, .take = take,
						     .is_bypassed = is_bypassed, .take_bypassed = take_bypassed};
	datagrams->same_host = same_host;
	datagrams->introduce = introduce;
	same_host->forget = forget;
	vb_lock_init(&datagrams->wishes_lock, VB_RANK_WISHES);
	vb_introductions_open(datagrams);
	return datagrams;
}

void vb_datagrams_abandon(struct vb_datagrams *datagrams)
{
	if (datagrams)
		vb_asking_thread_abandon(&datagrams->asking);
}

void vb_datagrams_close(struct vb_datagrams *datagrams)
{
	if (!datagrams)
		return;
	vb_asking_thread_stop(&datagrams->asking, &datagrams->wishes_lock);
	datagrams->same_host->forget = NULL;
	for (unsigned i = 0; i < datagrams->entries; i++)
		free(datagrams->entry[i]);
	for (unsigned slot = 0; slot < VB_DAEMON_SLOTS; slot++)
		free(datagrams->exit[slot]);
	free(datagrams);
}
