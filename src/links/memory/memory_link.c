/* SPDX-License-Identifier: MIT
 *
 * Our shared segment: what this process shows to others of its host, and the region tables in it. See memory_link.h.
 */
#include "links/memory/memory_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "io/descriptor.h"
#include "io/event.h"
#include "io/process.h"
#include "io/random.h"
#include "io/shared_memory.h"
#include "links/memory/datagrams.h"
#include "memory/foreign.h"
#include "memory/region.h"

/* Packets must be there to be seen, and lost, on purpose. */
static bool wire_is_wanted(const struct vb_schedule *schedule)
{
	const char *chosen = secure_getenv("VERBENA_WIRE");

	if (schedule->is_observed || sizeof(void *) < 8)
		return true;
	if (!chosen || !*chosen || strcmp(chosen, "auto") == 0)
		return false;
	if (strcmp(chosen, "rocev2") != 0)
		vb_log(VB_LOG_WARN, "VERBENA_WIRE=%s: known are auto and rocev2; taken for rocev2", chosen);
	return true;
}

/* Yama's rule 1 would let only our ancestors copy to and from our memory. */
static void admit_peers(void)
{
	const char *wish = secure_getenv("VERBENA_PTRACER");

	if (wish && strcmp(wish, "off") == 0)
		return;
	if (vb_process_ptrace_rule() == VB_PTRACE_DESCENDANTS)
		(void)vb_process_admit_peers();
}

static void fill_header(struct vb_same_host *same_host)
{
	struct vb_segment_header *header = &same_host->segment->header;

	header->id = same_host->cookie;
	header->pid = (uint32_t)getpid();
	header->slot = same_host->schedule->slot;
	header->cookie_address = (uintptr_t)&same_host->cookie;
	vb_attention_open(same_host);
	__atomic_store_n(&header->magic, VB_SEGMENT_MAGIC, __ATOMIC_RELEASE);
}

static void destroy(struct vb_same_host *same_host)
{
	/* First: their threads ask for host peers. */
	same_host->schedule->shortcut = NULL;
	same_host->schedule->meetings = NULL;
	vb_meetings_close(&same_host->meetings);
	vb_datagrams_close(same_host->datagrams);
	vb_host_peers_close(same_host);
	if (same_host->segment) {
		/* For those who keep it: it is a segment no more, though the process goes on. */
		__atomic_store_n(&same_host->segment->header.magic, 0, __ATOMIC_SEQ_CST);
		vb_shared_memory_unmap(same_host->segment, sizeof(*same_host->segment));
		vb_descriptor_close(same_host->segment_fd);
	}
	if (same_host->wake_fd >= 0)
		vb_descriptor_close(same_host->wake_fd);
	vb_mutex_fini(&same_host->lock);
	vb_mutex_fini(&same_host->asking);
	free(same_host);
}

static void close_link(struct vb_link *link)
{
	destroy(vb_same_host_of(link));
}

static void abandon(struct vb_link *link)
{
	struct vb_same_host *same_host = vb_same_host_of(link);

	vb_shared_memory_abandon(same_host->segment, sizeof(*same_host->segment), same_host->segment_fd);
	vb_descriptor_close(same_host->segment_fd);
	vb_descriptor_close(same_host->wake_fd);
	vb_host_peers_abandon(same_host);
	vb_datagrams_abandon(same_host->datagrams);
	vb_meetings_abandon(&same_host->meetings);
}

static int introduce(struct vb_link *link, struct vb_daemon_client *daemon, vb_daemon_take *news, void *context)
{
	const struct vb_same_host *same_host = vb_same_host_of(link);
	const int fds[] = {same_host->segment_fd, same_host->wake_fd};
	struct vb_daemon_message request;

	vb_daemon_message_begin(&request, VB_DAEMON_SHOW_SEGMENT, 0);
	request.segment.id = same_host->cookie;
	request.segment.slot = link->schedule->slot;
	return vb_daemon_client_request(daemon, &request, fds, 2, news, context);
}

static unsigned descriptors(const struct vb_link *link, int fd[VB_LINK_DESCRIPTORS])
{
	fd[0] = ((const struct vb_same_host *)link)->wake_fd;
	return 1;
}

static void addresses_changed(struct vb_link *link)
{
	vb_host_peers_invalidate(vb_same_host_of(link));
}

/* ---- region tables ---- */

static void *give_chunk(void *context, uint32_t index, size_t bytes)
{
	struct vb_shared_table *table = context;

	return vb_foreign_chunk(table->owner->segment->table[table->index], VB_SEGMENT_TABLE_BYTES, index, bytes);
}

static bool is_copying(void *context, uint32_t key)
{
	struct vb_shared_table *table = context;

	return !table->owner->schedule->abandoned && vb_host_peers_are_copying(table->owner, table->index, key);
}

static void pause_for(void *context, unsigned looks)
{
	(void)context;
	vb_host_peers_pause(looks);
}

static int open_table(struct vb_link *link, struct vb_memory_host *host)
{
	struct vb_same_host *same_host = vb_same_host_of(link);
	int index = -1;

	vb_mutex_lock(&same_host->lock);
	for (int i = 0; i < VB_SEGMENT_TABLES && index < 0; i++)
		if (!same_host->table[i].taken)
			index = i;
	if (index >= 0)
		same_host->table[index].taken = true;
	vb_mutex_unlock(&same_host->lock);
	if (index < 0)
		return -1;
	host->context = &same_host->table[index];
	host->chunk = give_chunk;
	host->is_copying = is_copying;
	host->pause = pause_for;
	return index;
}

static void show_table(struct vb_link *link, int table, const struct vb_memory *memory)
{
	vb_foreign_publish(memory, vb_same_host_of(link)->segment->table[table]);
}

static void hide_table(struct vb_link *link, int table)
{
	vb_foreign_withdraw(vb_same_host_of(link)->segment->table[table]);
}

static void close_table(struct vb_link *link, int table)
{
	struct vb_same_host *same_host = vb_same_host_of(link);

	vb_mutex_lock(&same_host->lock);
	same_host->table[table].taken = false;
	vb_mutex_unlock(&same_host->lock);
}

static void show_srq(struct vb_link *link, int table, uint32_t number, uint32_t domain, uint32_t pd)
{
	vb_local_show_srq(vb_same_host_of(link)->segment, number, (uint32_t)table, domain, pd);
}

static void hide_srq(struct vb_link *link, uint32_t number)
{
	vb_local_hide_srq(vb_same_host_of(link)->segment, number);
}

static const struct vb_link_tables tables = {
	.open = open_table,
	.show = show_table,
	.hide = hide_table,
	.close = close_table,
	.show_srq = show_srq,
	.hide_srq = hide_srq,
};

/* ---- the link ---- */

static const struct vb_link_driver driver = {
	.name = "memory",
	.note_size = VB_LOCAL_NOTE_SIZE,
	.tables = &tables,
	.close = close_link,
	.abandon = abandon,
	.introduce = introduce,
	.addresses_changed = addresses_changed,
	.publish = vb_pairs_publish,
	.withdraw = vb_pairs_withdraw,
	.resolve = vb_pairs_resolve,
	.modified = vb_pairs_modified,
	.srq_gone = vb_pairs_srq_gone,
	.query = vb_pairs_query,
	.bypasses = vb_pairs_bypasses,
	.gives_back = vb_pairs_gives_back,
	.transmit = vb_pairs_transmit,
	.transmit_in_pass = vb_pairs_transmit,
	.posted = vb_pairs_transmit,
	.post_fast = vb_pairs_post_fast,
	.place = vb_pairs_place,
	.received = vb_pairs_received,
	.drain = vb_pairs_drain,
	.expire = vb_pairs_expire,
	.wakes_sleepers = true,
	.descriptors = descriptors,
	.has_work = vb_pairs_have_work,
	.spun = vb_attention_spun,
	.watched = vb_attention_watched,
	.doze = vb_attention_doze,
	.woken = vb_attention_woken,
	.rise = vb_attention_rise,
	.rest = vb_attention_rest,
	.replenished = vb_pairs_replenished,
	.take = vb_pollers_take,
	.poll = vb_pollers_poll,
};

struct vb_link *vb_memory_link_open(struct vb_schedule *schedule)
{
	struct vb_same_host *same_host;
	int error;

	if (wire_is_wanted(schedule))
		return NULL;
	same_host = calloc(1, sizeof(*same_host));
	if (!same_host)
		return NULL;
	same_host->link = (struct vb_link){.driver = &driver, .schedule = schedule};
	same_host->schedule = schedule;
	same_host->broker.fd = -1;
	same_host->wake_fd = vb_event_open();
	vb_mutex_init(&same_host->lock, VB_RANK_HOST_PEERS);
	vb_mutex_init(&same_host->asking, VB_RANK_ASKING);
	for (unsigned i = 0; i < VB_SEGMENT_TABLES; i++)
		same_host->table[i] = (struct vb_shared_table){.owner = same_host, .index = i};
	while (same_host->cookie == 0)
		same_host->cookie = vb_random_u64();
	error = same_host->wake_fd < 0 ? same_host->wake_fd :
		vb_shared_memory_create("verbena-segment", sizeof(*same_host->segment), &same_host->segment_fd,
					(void **)&same_host->segment);
	if (error == 0) {
		fill_header(same_host);
		admit_peers();
		error = vb_host_peers_open(same_host);
	}
	if (error != 0) {
		vb_log(VB_LOG_INFO, "no way through memory for this process (%s): all by wire", strerror(-error));
		destroy(same_host);
		return NULL;
	}
	vb_meetings_open(&same_host->meetings, same_host);
	schedule->meetings = &same_host->meetings.meetings;
	same_host->datagrams = vb_datagrams_open(same_host);
	schedule->shortcut = same_host->datagrams ? &same_host->datagrams->shortcut : NULL;
	return &same_host->link;
}
