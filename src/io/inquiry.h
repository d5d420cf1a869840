/* SPDX-License-Identifier: MIT
 *
 * Asking a peer why (wire/inquiry.h), and finding out what is there when no answer comes.
 */
#ifndef VB_IO_INQUIRY_H
#define VB_IO_INQUIRY_H

#include <stddef.h>
#include <stdint.h>

#include "wire/inquiry.h"
#include "wire/path.h"

/* Ask, from path->source to path->destination; waits for the answer for 1.6 seconds at most. The question's nonce is
 * chosen here. `answer` is filled when ANSWERED is returned. */
enum vb_inquiry_reach vb_inquiry_ask(const struct vb_path *path, const struct vb_inquiry *question,
				     struct vb_inquiry_answer *answer);

/* Send an answer back where the inquiry came `from`, through the socket that received it. */
void vb_inquiry_reply(int fd, const struct vb_path *from, const struct vb_inquiry_answer *answer);

#endif
