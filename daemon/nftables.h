/* SPDX-License-Identifier: MIT
 *
 * The little of nf_tables that slot_map.c needs, by netlink: nft(8) need not be installed. Messages are collected into a
 * batch, which the kernel carries out wholly or not at all (linux/netfilter/nf_tables.h, nfnetlink.h).
 */
#ifndef VB_DAEMON_NFTABLES_H
#define VB_DAEMON_NFTABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vb_nft_batch {
	uint8_t *bytes;
	size_t length, room;
	size_t message;                    /* where the one begins that is being written */
	uint32_t sequence;
	bool failed;                       /* no memory */
};

/* A socket for batches and dumps; `watch`: one that is told of every change of any table. Descriptor or -errno. */
int vb_nft_open(bool watch);

void vb_nft_begin(struct vb_nft_batch *batch);
/* One message about a table of family inet. `type`: NFT_MSG_*; `flags`: NLM_F_*. */
void vb_nft_message(struct vb_nft_batch *batch, unsigned type, unsigned flags);
/* Attributes of it. Numbers are written big-endian. */
void vb_nft_put(struct vb_nft_batch *batch, unsigned type, const void *bytes, size_t length);
void vb_nft_put_text(struct vb_nft_batch *batch, unsigned type, const char *text);
void vb_nft_put_u32(struct vb_nft_batch *batch, unsigned type, uint32_t number);
/* `bytes` as the kernel's struct nft_data. */
void vb_nft_put_data(struct vb_nft_batch *batch, unsigned type, const void *bytes, size_t length);
size_t vb_nft_nest(struct vb_nft_batch *batch, unsigned type);
void vb_nft_unnest(struct vb_nft_batch *batch, size_t nest);
/* Carry it out, and free it. 0 or -errno. */
int vb_nft_commit(struct vb_nft_batch *batch, int fd);

/* Ask for the elements of a set of a table: `take` is given key and data of each. 0 or -errno: -ENOENT no such set. */
typedef void vb_nft_take(void *context, const void *key, size_t key_length, const void *data, size_t data_length);
int vb_nft_elements(int fd, const char *table, const char *set, vb_nft_take *take, void *context);

#endif
