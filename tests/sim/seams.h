/* SPDX-License-Identifier: MIT
 *
 * Where verbenad's code meets the clock, chance and the network, in worlds that have these of their own: in place of io/clock.c and
 * io/random.c, and around the waits of io/event.c and the sender of io/udp.h (--wrap). All other system calls are real.
 */
#ifndef VB_TESTS_SIM_SEAMS_H
#define VB_TESTS_SIM_SEAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

struct vb_path;

struct seam {
	vb_time now;
	uint32_t (*draw)(uint32_t bound);
	/* Optional: takes the datagrams that verbenad sends to other hosts. Without it they go to the socket. */
	void (*send)(const struct vb_path *path, const uint8_t *bytes, size_t length);
	/* Optional: waits until what was sent over loopback is there. Without it a wait takes a moment. */
	void (*arrive)(void);
	/* Is time the world's alone? Then verbenad's loop does not wait: what it would have waited for is here. */
	bool is_patient;
	vb_time deadline;                /* until when it would have */
	unsigned ready;                  /* of its descriptors */
};

extern struct seam seam;

#endif
