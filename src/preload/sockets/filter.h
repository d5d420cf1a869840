/* SPDX-License-Identifier: MIT
 *
 * VERBENA_SOCKETS: which connections are to go by RDMA, by the port of the side that listens. "all", or a list of
 * ports and ranges ("6379,8000-8999"); behind a "!" all but these ("!22").
 */
#ifndef VB_PRELOAD_SOCKETS_FILTER_H
#define VB_PRELOAD_SOCKETS_FILTER_H

#include <stdbool.h>
#include <stdint.h>

enum { VB_SOCKETS_RANGES = 32 };

struct vb_sockets_filter {
	bool all_but;                    /* the ranges are those that are left alone */
	unsigned count;
	struct {
		uint16_t first, last;
	} ranges[VB_SOCKETS_RANGES];
};

/* False: this is no list of ports. */
bool vb_sockets_filter_parse(struct vb_sockets_filter *filter, const char *text);
bool vb_sockets_filter_admits(const struct vb_sockets_filter *filter, uint16_t port);

#endif
