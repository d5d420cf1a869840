/* SPDX-License-Identifier: MIT
 *
 * Our board: what this process shows to others of its host, and the region tables on it. See same_host.h.
 */
#include "progress/same_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "io/descriptor.h"
#include "io/process.h"
#include "io/random.h"
#include "io/shared_memory.h"
#include "memory/foreign.h"
#include "memory/region.h"
#include "progress/endpoint_parts.h"

/* Packets must be there to be seen, and lost, on purpose. */
static bool wire_is_wanted(const struct vb_endpoint *endpoint)
{
	const char *chosen = secure_getenv("VERBENA_WIRE");

	if (endpoint->tap || sizeof(void *) < 8)
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
	struct vb_board_header *header = &same_host->board->header;

	header->id = same_host->cookie;
	header->pid = (uint32_t)getpid();
	header->slot = same_host->endpoint->slot;
	header->cookie_address = (uintptr_t)&same_host->cookie;
	header->asleep = 1;
	__atomic_store_n(&header->magic, VB_BOARD_MAGIC, __ATOMIC_RELEASE);
}

static void destroy(struct vb_same_host *same_host)
{
	vb_neighbours_close(same_host);
	if (same_host->board) {
		/* For those who keep it: this life is over, though the process goes on. */
		__atomic_store_n(&same_host->board->header.magic, 0, __ATOMIC_SEQ_CST);
		vb_shared_memory_unmap(same_host->board, sizeof(*same_host->board));
		vb_descriptor_close(same_host->board_fd);
	}
	pthread_mutex_destroy(&same_host->lock);
	pthread_mutex_destroy(&same_host->asking);
	free(same_host);
}

void vb_same_host_open(struct vb_endpoint *endpoint)
{
	struct vb_same_host *same_host;
	int error;

	if (wire_is_wanted(endpoint))
		return;
	same_host = calloc(1, sizeof(*same_host));
	if (!same_host)
		return;
	same_host->endpoint = endpoint;
	same_host->broker.fd = -1;
	pthread_mutex_init(&same_host->lock, NULL);
	pthread_mutex_init(&same_host->asking, NULL);
	for (unsigned i = 0; i < VB_BOARD_TABLES; i++)
		same_host->table[i] = (struct vb_shared_table){.owner = same_host, .index = i};
	while (same_host->cookie == 0)
		same_host->cookie = vb_random_u64();
	error = vb_shared_memory_create("verbena-board", sizeof(*same_host->board), &same_host->board_fd,
					(void **)&same_host->board);
	if (error == 0) {
		fill_header(same_host);
		admit_peers();
		error = vb_neighbours_open(same_host);
	}
	if (error == 0)
		error = vb_daemon_link_show_board(endpoint, &endpoint->daemon, same_host);
	if (error != 0) {
		vb_log(VB_LOG_INFO, "no way through memory for this process (%s): all by wire", strerror(-error));
		destroy(same_host);
		return;
	}
	endpoint->same_host = same_host;
}

void vb_same_host_close(struct vb_endpoint *endpoint)
{
	if (endpoint->same_host)
		destroy(endpoint->same_host);
	endpoint->same_host = NULL;
}

void vb_same_host_abandon(struct vb_same_host *same_host)
{
	if (!same_host)
		return;
	vb_shared_memory_abandon(same_host->board, sizeof(*same_host->board), same_host->board_fd);
	vb_descriptor_close(same_host->board_fd);
	vb_neighbours_abandon(same_host);
}

/* ---- region tables ---- */

static void *give_chunk(void *context, uint32_t index, size_t bytes)
{
	struct vb_shared_table *table = context;

	return vb_foreign_chunk(table->owner->board->table[table->index], VB_BOARD_TABLE_BYTES, index, bytes);
}

static bool is_copying(void *context, uint32_t key)
{
	struct vb_shared_table *table = context;

	return !table->owner->endpoint->abandoned && vb_neighbours_are_copying(table->owner, table->index, key);
}

static void pause_for(void *context, unsigned looks)
{
	(void)context;
	vb_neighbours_pause(looks);
}

int vb_endpoint_open_table(struct vb_endpoint *endpoint, struct vb_memory_host *host)
{
	struct vb_same_host *same_host = endpoint->same_host;
	int index = -1;

	if (!same_host || endpoint->abandoned)
		return -1;
	pthread_mutex_lock(&same_host->lock);
	for (int i = 0; i < VB_BOARD_TABLES && index < 0; i++)
		if (!same_host->table[i].taken)
			index = i;
	if (index >= 0)
		same_host->table[index].taken = true;
	pthread_mutex_unlock(&same_host->lock);
	if (index < 0)
		return -1;
	host->context = &same_host->table[index];
	host->chunk = give_chunk;
	host->is_copying = is_copying;
	host->pause = pause_for;
	return index;
}

void vb_endpoint_show_table(struct vb_endpoint *endpoint, int table, const struct vb_memory *memory)
{
	if (table >= 0)
		vb_foreign_publish(memory, endpoint->same_host->board->table[table]);
}

void vb_endpoint_hide_table(struct vb_endpoint *endpoint, int table)
{
	if (table >= 0)
		vb_foreign_withdraw(endpoint->same_host->board->table[table]);
}

void vb_endpoint_close_table(struct vb_endpoint *endpoint, int table)
{
	if (table < 0 || endpoint->abandoned)
		return;
	pthread_mutex_lock(&endpoint->same_host->lock);
	endpoint->same_host->table[table].taken = false;
	pthread_mutex_unlock(&endpoint->same_host->lock);
}
