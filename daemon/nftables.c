/* SPDX-License-Identifier: MIT
 *
 * See nftables.h. Netlink answers what it is asked in the very call that asks: when sendmsg returns, errors and
 * acknowledgements of a batch are in the socket. A dump comes in as many parts as it has.
 */
#include "daemon/nftables.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REPLY_ROOM = 65536 };

int vb_nft_open(bool watch)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = watch ? 1u << (NFNLGRP_NFTABLES - 1) : 0};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER), error;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/* ---- writing ---- */

/* Room for `length` more bytes, zeroed, of which the next begins at a multiple of four. NULL: there is no memory. */
static void *extend(struct vb_nft_batch *batch, size_t length)
{
	size_t padded = NLMSG_ALIGN(length);
	void *at;

	if (batch->failed)
		return NULL;
	if (batch->length + padded > batch->room) {
		size_t room = (batch->length + padded) * 2;
		uint8_t *larger = realloc(batch->bytes, room);

		if (!larger) {
			batch->failed = true;
			return NULL;
		}
		batch->bytes = larger;
		batch->room = room;
	}
	at = batch->bytes + batch->length;
	memset(at, 0, padded);
	batch->length += padded;
	return at;
}

static void begin_message(struct vb_nft_batch *batch, unsigned type, unsigned flags, uint8_t family, uint16_t resource)
{
	struct nlmsghdr *header;
	struct nfgenmsg *general;

	batch->message = batch->length;
	header = extend(batch, sizeof(*header) + sizeof(*general));
	if (!header)
		return;
	header->nlmsg_len = sizeof(*header) + sizeof(*general);
	header->nlmsg_type = (uint16_t)type;
	header->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	header->nlmsg_seq = batch->sequence++;
	general = NLMSG_DATA(header);
	general->nfgen_family = family;
	general->version = NFNETLINK_V0;
	general->res_id = htons(resource);
}

void vb_nft_begin(struct vb_nft_batch *batch)
{
	*batch = (struct vb_nft_batch){.sequence = 1};
	begin_message(batch, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
}

void vb_nft_message(struct vb_nft_batch *batch, unsigned type, unsigned flags)
{
	begin_message(batch, NFNL_SUBSYS_NFTABLES << 8 | type, flags, NFPROTO_INET, 0);
}

/* A message is as long as what has been put into it. */
static void grow_message(struct vb_nft_batch *batch)
{
	if (!batch->failed)
		((struct nlmsghdr *)(void *)(batch->bytes + batch->message))->nlmsg_len =
			(uint32_t)(batch->length - batch->message);
}

void vb_nft_put(struct vb_nft_batch *batch, unsigned type, const void *bytes, size_t length)
{
	struct nlattr *attribute = extend(batch, NLA_HDRLEN + length);

	if (!attribute)
		return;
	attribute->nla_type = (uint16_t)type;
	attribute->nla_len = (uint16_t)(NLA_HDRLEN + length);
	memcpy((uint8_t *)attribute + NLA_HDRLEN, bytes, length);
	grow_message(batch);
}

void vb_nft_put_text(struct vb_nft_batch *batch, unsigned type, const char *text)
{
	vb_nft_put(batch, type, text, strlen(text) + 1);
}

void vb_nft_put_u32(struct vb_nft_batch *batch, unsigned type, uint32_t number)
{
	uint32_t big_endian = htonl(number);

	vb_nft_put(batch, type, &big_endian, sizeof(big_endian));
}

size_t vb_nft_nest(struct vb_nft_batch *batch, unsigned type)
{
	size_t nest = batch->length;

	vb_nft_put(batch, type | NLA_F_NESTED, "", 0);
	return nest;
}

void vb_nft_unnest(struct vb_nft_batch *batch, size_t nest)
{
	if (!batch->failed)
		((struct nlattr *)(void *)(batch->bytes + nest))->nla_len = (uint16_t)(batch->length - nest);
}

void vb_nft_put_data(struct vb_nft_batch *batch, unsigned type, const void *bytes, size_t length)
{
	size_t nest = vb_nft_nest(batch, type);

	vb_nft_put(batch, NFTA_DATA_VALUE, bytes, length);
	vb_nft_unnest(batch, nest);
}

/* ---- asking ---- */

static int send_all(int fd, const void *bytes, size_t length)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	ssize_t sent;

	do
		sent = sendto(fd, bytes, length, 0, (struct sockaddr *)&kernel, sizeof(kernel));
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : (size_t)sent == length ? 0 : -EMSGSIZE;
}

/* The errno that a message brings, 0 for everything else. */
static int error_of(const struct nlmsghdr *header)
{
	const struct nlmsgerr *error = NLMSG_DATA(header);

	if (header->nlmsg_type != NLMSG_ERROR || header->nlmsg_len < NLMSG_LENGTH(sizeof(*error)))
		return 0;
	return error->error;
}

int vb_nft_commit(struct vb_nft_batch *batch, int fd)
{
	uint8_t reply[8192] __attribute__((aligned(NLMSG_ALIGNTO)));
	int error;

	begin_message(batch, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	error = batch->failed ? -ENOMEM : send_all(fd, batch->bytes, batch->length);
	free(batch->bytes);
	*batch = (struct vb_nft_batch){0};
	while (error == 0) {
		ssize_t got = recv(fd, reply, sizeof(reply), MSG_DONTWAIT);
		unsigned left = got > 0 ? (unsigned)got : 0;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == EAGAIN ? 0 : -errno;
		for (struct nlmsghdr *header = (void *)reply; NLMSG_OK(header, left) && error == 0;
		     header = NLMSG_NEXT(header, left))
			error = error_of(header);
	}
	/* What else it says of the same batch. */
	while (recv(fd, reply, sizeof(reply), MSG_DONTWAIT) >= 0)
		;
	return error;
}

/* ---- what is there ---- */

/* The attribute of that type among `length` bytes of them, or NULL. */
static const struct nlattr *find_attribute(const void *bytes, size_t length, unsigned type)
{
	const uint8_t *at = bytes;

	while (length >= NLA_HDRLEN) {
		const struct nlattr *attribute = (const void *)at;
		size_t step = NLA_ALIGN(attribute->nla_len);

		if (attribute->nla_len < NLA_HDRLEN || attribute->nla_len > length)
			return NULL;
		if ((attribute->nla_type & NLA_TYPE_MASK) == type)
			return attribute;
		if (step >= length)
			return NULL;
		at += step;
		length -= step;
	}
	return NULL;
}

static const void *content(const struct nlattr *attribute)
{
	return (const uint8_t *)attribute + NLA_HDRLEN;
}

static size_t content_length(const struct nlattr *attribute)
{
	return attribute->nla_len - NLA_HDRLEN;
}

static const struct nlattr *find_value(const struct nlattr *element, unsigned type)
{
	const struct nlattr *data = find_attribute(content(element), content_length(element), type);

	return data ? find_attribute(content(data), content_length(data), NFTA_DATA_VALUE) : NULL;
}

static void take_elements(const struct nlmsghdr *header, vb_nft_take *take, void *context)
{
	size_t before = NLMSG_LENGTH(sizeof(struct nfgenmsg)), left;
	const struct nlattr *list = NULL, *element;
	const uint8_t *at;

	if (header->nlmsg_len > before)
		list = find_attribute((const uint8_t *)header + before, header->nlmsg_len - before,
				      NFTA_SET_ELEM_LIST_ELEMENTS);
	if (!list)
		return;
	at = content(list);
	left = content_length(list);
	while ((element = find_attribute(at, left, NFTA_LIST_ELEM))) {
		const struct nlattr *key = find_value(element, NFTA_SET_ELEM_KEY), *data = find_value(element, NFTA_SET_ELEM_DATA);
		size_t step = (size_t)((const uint8_t *)element - at) + NLA_ALIGN(element->nla_len);

		if (key && data)
			take(context, content(key), content_length(key), content(data), content_length(data));
		if (step >= left)
			break;
		at += step;
		left -= step;
	}
}

int vb_nft_elements(int fd, const char *table, const char *set, vb_nft_take *take, void *context)
{
	struct vb_nft_batch request = {.sequence = 1};
	uint8_t *reply = malloc(REPLY_ROOM);
	bool more = true;
	int error;

	vb_nft_message(&request, NFT_MSG_GETSETELEM, NLM_F_DUMP);
	vb_nft_put_text(&request, NFTA_SET_ELEM_LIST_TABLE, table);
	vb_nft_put_text(&request, NFTA_SET_ELEM_LIST_SET, set);
	error = !reply || request.failed ? -ENOMEM : send_all(fd, request.bytes, request.length);
	free(request.bytes);
	while (error == 0 && more) {
		ssize_t got = recv(fd, reply, REPLY_ROOM, MSG_DONTWAIT);
		unsigned left = got > 0 ? (unsigned)got : 0;

		if (got < 0) {
			error = errno == EINTR ? 0 : -errno;
			continue;
		}
		for (struct nlmsghdr *header = (void *)reply; NLMSG_OK(header, left) && more;
		     header = NLMSG_NEXT(header, left)) {
			error = error_of(header);
			more = error == 0 && header->nlmsg_type != NLMSG_DONE;
			if (more)
				take_elements(header, take, context);
		}
	}
	free(reply);
	return error;
}
