/* SPDX-License-Identifier: MIT
 *
 * The two processes of pair.h joined by a stream of iWARP, with or without a way past it; what pair.c calls of this.
 */
#ifndef TESTS_UNIT_LOCAL_PAIR_STREAM_H
#define TESTS_UNIT_LOCAL_PAIR_STREAM_H

#include "pair.h"

/* That of iWARP, which tells a bypass of states. */
extern struct vb_transport pair_bypass_transport;

void pair_stream_open(void);
bool pair_is_stream(const struct pair *pair);
void pair_stream_connect(struct pair *pair, const struct connection *c);
bool pair_stream_serve(struct process *p);

#endif
