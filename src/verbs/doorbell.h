/* SPDX-License-Identifier: MIT
 *
 * The descriptor an application polls for events that are kept in our memory: readable exactly while some wait.
 *
 * A socket pair rather than an eventfd, because a blocking getter must sleep in a call that (a) obeys the O_NONBLOCK
 * the application sets on its end, (b) is restarted after a signal when the application asked for that, and (c) takes
 * nothing away, so that two getters and a destroyer cannot race for the count: recv(MSG_PEEK) does all three.
 */
#ifndef VB_VERBS_DOORBELL_H
#define VB_VERBS_DOORBELL_H

struct vb_doorbell {
	int wait_fd;                     /* the application's end */
	int ring_fd;
};

int vb_doorbell_init(struct vb_doorbell *bell); /* 0 or -errno */
void vb_doorbell_fini(struct vb_doorbell *bell);

/* Both under the lock of the queue they announce. */
void vb_doorbell_ring(struct vb_doorbell *bell);
void vb_doorbell_silence(struct vb_doorbell *bell);

/* Sleep until it rings: 0, or -errno (-EAGAIN: the application's end is non-blocking; -EINTR). Caller holds no lock. */
int vb_doorbell_wait(struct vb_doorbell *bell);

#endif
