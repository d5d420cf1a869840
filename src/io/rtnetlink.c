/* SPDX-License-Identifier: MIT
 *
 * See rtnetlink.h. A list comes in several datagrams, each made when the one before it was read; NLM_F_DUMP_INTR marks
 * those made from a list that is no longer the one the first was made from.
 */
#include "io/rtnetlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/descriptor.h"

union answer {
	struct nlmsghdr align;
	char room[65536];
};

/* How far an exchange has come. */
struct progress {
	bool done, interrupted;
	int error;
};

static int open_and_send(const struct nlmsghdr *question)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	int fd = vb_descriptor_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), error;

	if (fd < 0)
		return -errno;
	if (sendto(fd, question, question->nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof(kernel)) >= 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

static int error_of(const struct nlmsghdr *message)
{
	const struct nlmsgerr *error = NLMSG_DATA(message);

	return message->nlmsg_len < NLMSG_LENGTH(sizeof(*error)) || error->error >= 0 ? -EBADMSG : error->error;
}

static void take_datagram(const union answer *answer, unsigned left, const struct nlmsghdr *question,
			  vb_rtnetlink_take take, void *context, struct progress *progress)
{
	const struct nlmsghdr *message = &answer->align;
	bool is_list = question->nlmsg_flags & NLM_F_DUMP;

	for (; NLMSG_OK(message, left) && !progress->done; message = NLMSG_NEXT(message, left)) {
		if (message->nlmsg_seq != question->nlmsg_seq)
			continue;
		progress->interrupted |= (message->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
		if (message->nlmsg_type == NLMSG_ERROR)
			progress->error = error_of(message);
		else if (message->nlmsg_type != NLMSG_DONE)
			progress->error = take(context, message);
		progress->done = !is_list || message->nlmsg_type == NLMSG_DONE || progress->error != 0;
	}
	/* The answer to a question is one datagram. */
	if (!is_list && !progress->done)
		progress->error = -EBADMSG;
}

static int exchange(const struct nlmsghdr *question, vb_rtnetlink_take take, void *context)
{
	union answer *answer = malloc(sizeof(*answer));
	struct progress progress = {.done = false};
	int fd;

	if (!answer)
		return -ENOMEM;
	fd = open_and_send(question);
	if (fd < 0)
		progress.error = fd;
	while (!progress.done && progress.error == 0) {
		ssize_t got = recv(fd, answer, sizeof(*answer), 0);

		if (got > 0)
			take_datagram(answer, (unsigned)got, question, take, context, &progress);
		else if (got == 0 || errno != EINTR)
			progress.error = got == 0 ? -EBADMSG : -errno;
	}
	if (fd >= 0)
		close(fd);
	free(answer);
	return progress.error == 0 && progress.interrupted ? -EAGAIN : progress.error;
}

int vb_rtnetlink_ask(const struct nlmsghdr *question, vb_rtnetlink_take take, void *context)
{
	return exchange(question, take, context);
}

int vb_rtnetlink_dump(uint16_t type, void (*begin)(void *context), vb_rtnetlink_take take, void *context)
{
	const struct {
		struct nlmsghdr header;
		struct rtgenmsg body;
	} question = {
		.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtgenmsg)), .nlmsg_type = type,
			   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP, .nlmsg_seq = type},
		.body = {.rtgen_family = AF_UNSPEC},
	};
	int error = -EAGAIN;

	for (unsigned i = 0; i < VB_RTNETLINK_DUMPS && error == -EAGAIN; i++) {
		begin(context);
		error = exchange(&question.header, take, context);
	}
	return error;
}
