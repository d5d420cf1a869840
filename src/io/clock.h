/* SPDX-License-Identifier: MIT
 *
 * What time it is, for those who call engines.
 */
#ifndef VB_IO_CLOCK_H
#define VB_IO_CLOCK_H

#include "base/time.h"

vb_time vb_clock_now(void);                /* CLOCK_MONOTONIC */
vb_time vb_clock_coarse(void);             /* the same, some milliseconds late, for a fraction of the price */
vb_time vb_clock_of_thread(void);          /* processor time that the calling thread has had: a system call */
vb_time vb_clock_wall(void);               /* CLOCK_REALTIME: since 1970, and it may be set back */
void vb_clock_sleep(vb_time duration);     /* unless a signal comes */

#endif
