/* SPDX-License-Identifier: MIT
 *
 * Asking a peer why (wire/inquiry.h), and finding out what is there when no answer comes.
 */
#ifndef VB_IO_INQUIRY_H
#define VB_IO_INQUIRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/inquiry.h"
#include "wire/path.h"

/* Ask, from path->source to path->destination; waits for the answer for 1.6 seconds at most. The question's nonce is
 * chosen here. `answer` is filled when ANSWERED is returned. */
enum vb_inquiry_reach vb_inquiry_ask(const struct vb_path *path, const struct vb_inquiry *question,
				     struct vb_inquiry_answer *answer);

/* ---- without waiting ---- */

/* A question that is under way, the one of the host's verbenad whether that process lives, and what came back. */
struct vb_inquiry_exchange {
	int fd;
	struct vb_inquiry process, daemon;
	struct vb_inquiry_answer answer, daemon_answer;
	bool daemon_answered;
	enum vb_inquiry_reach reach;
};

/* False: there is no socket for it, or no route. */
bool vb_inquiry_begin(struct vb_inquiry_exchange *exchange, const struct vb_path *path, const struct vb_inquiry *question);
/* Ask both (again). */
void vb_inquiry_send(struct vb_inquiry_exchange *exchange);
/* What has come since? True: the process has answered, or its host says that there is nothing to ask. */
bool vb_inquiry_look(struct vb_inquiry_exchange *exchange);
void vb_inquiry_end(struct vb_inquiry_exchange *exchange);

/* ---- the other side ---- */

/* Send an answer back where the inquiry came `from`, through the socket that received it. */
void vb_inquiry_reply(int fd, const struct vb_path *from, const struct vb_inquiry_answer *answer);

#endif
