/* SPDX-License-Identifier: MIT
 *
 * For how long the engine thread goes on looking when there is nothing more to do. To fall asleep costs the peer that
 * sends the next packet the waking, to look costs a processor.
 *
 * No fixed time is right: a peer that answers sooner finds the thread awake, and is answered soon itself; one that once
 * found it asleep is answered later than that each time, and so finds it asleep again. `ib_write_lat` took 4 us, or 38,
 * from run to run. So a sleep that was short makes the time longer, and a long one makes it short again.
 *
 * That is for peers that wait for each other. A stream has gaps, too, in which no peer waits: a thread that mostly works while it is
 * awake sleeps after the shortest time. (Target of 64 KiB WRITEs over veth that are waited for asleep: 0.23 CPU seconds a GB, 0.21 so.)
 *
 * A thread of the application may wait for the very processor on which the engine thread looks: one that spins on its
 * memory, which to the system is one that works. It cannot answer before the engine thread sleeps, so that sleeps at
 * once.
 *
 * Nor does it look for long where the application's threads sleep on completions: the thread that it has woken is to run, and where
 * there are few processors the engine thread that looks has the one that it would run on. (redis-benchmark with one client, two hosts
 * on two processors, three runs each, thousand requests a second: 9, 7 and 29; so 54, 60 and 34. `ib_send_lat -e`: not told apart.)
 *
 * Pure: tests/unit/schedule/test_linger.c runs it in virtual time.
 */
#ifndef VB_SCHEDULE_LINGER_H
#define VB_SCHEDULE_LINGER_H

#include <stdbool.h>

#include "base/time.h"

/* Longer than a peer takes to answer that is awake, shorter than two wake-ups cost. */
#define VB_SHORTEST_LINGER VB_MICROSECONDS(20)
/* Longer than two that both were asleep take to wake each other. */
#define VB_LONGEST_LINGER VB_MICROSECONDS(100)
/* Where threads of the application sleep on completions. */
#define VB_LINGER_BESIDE_SLEEPERS VB_MICROSECONDS(8)
/* A sleep as long as that was none too early. */
#define VB_LONG_SLEEP VB_MICROSECONDS(200)

/* Over as much time awake it is told whether the thread mostly works. */
#define VB_LINGER_SPAN VB_MICROSECONDS(500)

struct vb_linger {
	vb_time length;
	vb_time awake, worked;             /* in this span */
	bool streams;                      /* in the last one it worked for more than half of the time */
};

void vb_linger_init(struct vb_linger *linger);
/* It looked, which took so long, and did something or did not. */
void vb_linger_looked(struct vb_linger *linger, vb_time how_long, bool worked);
/* It slept for so long, and then something came. */
void vb_linger_slept(struct vb_linger *linger, vb_time how_long);
/* Nothing has come for so long: go on looking? `cpu`: where the engine thread runs; `application_cpu`: where a thread
 * of the application was last seen, -1: nowhere; `sleeps`: threads of the application sleep on completions. */
bool vb_linger_goes_on(const struct vb_linger *linger, vb_time idle, int cpu, int application_cpu, bool sleeps);

#endif
