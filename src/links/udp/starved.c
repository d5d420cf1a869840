/* SPDX-License-Identifier: MIT
 *
 * A connection is about to end because its peer is silent. The peer may be a process that waits for a processor: an adapter would have
 * acknowledged for it. So it is asked, and so is the verbenad of its host (wire/inquiry.h). A process that answers runs, and the silence
 * has another reason. One that does not, and of which verbenad says that it lives, is waited for once more as long as the application
 * asked for, and again, for LONGEST_EXTENSION at most. All others end the connection: one that a signal or a debugger has stopped, one
 * that is gone, a host that does not answer within a short while (an adapter, say).
 *
 * So it is with a receiver of UC and UD that reports what it has taken (roce/flow.c) and has fallen silent, of which the sender would go on
 * by time and fill its socket: as long as it lives and does not run it is waited for.
 *
 * Under progress; where a queue pair is named, its lock is held.
 */
#include <stdlib.h>

#include "io/inquiry.h"
#include "links/udp/udp_link.h"
#include "queue/patience.h"
#include "queue/qp.h"
#include "roce/roce.h"

#define LONGEST_EXTENSION VB_SECONDS(10)
#define LONGEST_ASKING VB_MILLISECONDS(500)
#define SHORTEST_ASKING VB_MILLISECONDS(50)

#define ASK_RECEIVER_AGAIN VB_MILLISECONDS(20)

enum { QUESTIONS = 16 /* at once; queue pairs beyond them are not asked for */ };

struct vb_udp_questions {
	struct question {
		uint32_t qpn;            /* of the queue pair that would end, or go on by time; 0: unused */
		vb_time until;           /* it ends then; of a receiver: it is asked again */
		struct vb_inquiry_exchange exchange;
	} question[QUESTIONS];
};

static void end(struct question *question)
{
	vb_inquiry_end(&question->exchange);
	question->qpn = 0;
}

/* The queue pair's, or an unused one for qpn 0; NULL: there is none. */
static struct question *find(struct vb_udp_questions *questions, uint32_t qpn)
{
	for (unsigned i = 0; questions && i < QUESTIONS; i++)
		if (questions->question[i].qpn == qpn)
			return &questions->question[i];
	return NULL;
}

/* Of queue pairs that went on and have been idle since: nothing tells of them here. */
static void sweep(struct vb_udp_questions *questions, vb_time now)
{
	for (unsigned i = 0; i < QUESTIONS; i++)
		if (questions->question[i].qpn != 0 && now - questions->question[i].until > LONGEST_ASKING)
			end(&questions->question[i]);
}

/* NULL: there is no room, no memory, or no way there. */
static struct question *begin(struct vb_udp_link *udp, const struct vb_qp *qp, const struct vb_path *path, const struct vb_inquiry *inquiry,
			      vb_time now)
{
	struct question *question;

	if (path->framing != VB_FRAMING_UDP)
		return NULL;
	if (!udp->questions)
		udp->questions = calloc(1, sizeof(*udp->questions));
	if (!udp->questions)
		return NULL;
	sweep(udp->questions, now);
	question = find(udp->questions, 0);
	if (!question || !vb_inquiry_begin(&question->exchange, path, inquiry))
		return NULL;
	question->qpn = qp->qpn;
	vb_inquiry_send(&question->exchange);
	return question;
}

static void ask(struct vb_udp_link *udp, struct vb_qp *qp, vb_time now)
{
	const struct vb_inquiry inquiry = {
		.qpn = qp->attr.dest_qp_num,
		.asker_qpn = qp->qpn,
		.send_psn = qp->attr.sq_psn,
		.receive_psn = qp->attr.rq_psn,
	};
	vb_time asking = vb_patience_in_all(qp) / 4;
	struct question *question = begin(udp, qp, &qp->path, &inquiry, now);

	if (!question)
		return;
	asking = asking > LONGEST_ASKING ? LONGEST_ASKING : asking < SHORTEST_ASKING ? SHORTEST_ASKING : asking;
	question->until = now + asking;
	(void)vb_roce_extend_wait(qp, asking);
}

static bool lives_and_does_not_run(const struct vb_inquiry_exchange *exchange)
{
	return exchange->reach == VB_REACH_SILENT && exchange->daemon_answered &&
	       exchange->daemon_answer.status == VB_INQUIRY_LIVES;
}

/* Whatever comes yet, is it known that the connection ends? */
static bool is_settled(struct vb_inquiry_exchange *exchange)
{
	return vb_inquiry_look(exchange) || (exchange->daemon_answered && exchange->daemon_answer.status != VB_INQUIRY_LIVES);
}

void vb_udp_ask_before_the_end(struct vb_udp_link *udp, struct vb_qp *qp, vb_time now)
{
	struct question *question = find(udp->questions, qp->qpn);
	bool ends = vb_roce_gives_up(qp, now), lives;

	/* The peer went on while it was asked. */
	if (question && !vb_roce_wait_is_extended(qp)) {
		end(question);
		question = NULL;
	}
	if (!question) {
		if (ends)
			ask(udp, qp, now);
		return;
	}
	if (!is_settled(&question->exchange) && !ends) {
		vb_inquiry_send(&question->exchange);
		return;
	}
	lives = lives_and_does_not_run(&question->exchange);
	end(question);
	if (vb_roce_extend_wait(qp, lives ? vb_patience_in_all(qp) : 0) > LONGEST_EXTENSION)
		(void)vb_roce_extend_wait(qp, 0);
}

void vb_udp_ask_for_receiver(struct vb_udp_link *udp, struct vb_qp *qp, vb_time now)
{
	struct question *question = find(udp->questions, qp->qpn);
	struct vb_inquiry inquiry = {.asker_qpn = qp->qpn};
	struct vb_path path;
	bool misses = vb_roce_misses_receiver(qp, &path, &inquiry.qpn);

	if (question && (!misses || question->exchange.process.qpn != inquiry.qpn)) {
		end(question);
		question = NULL;
	}
	if (!misses)
		return;
	if (!question) {
		question = begin(udp, qp, &path, &inquiry, now);
		if (question)
			question->until = now + ASK_RECEIVER_AGAIN;
		return;
	}
	if (!is_settled(&question->exchange) && now >= question->until) {
		vb_inquiry_send(&question->exchange);
		question->until = now + ASK_RECEIVER_AGAIN;
	}
	vb_roce_receiver_lives(qp, lives_and_does_not_run(&question->exchange));
}

void vb_udp_drop_question(struct vb_udp_link *udp, uint32_t qpn)
{
	struct question *question = find(udp->questions, qpn);

	if (question)
		end(question);
}

void vb_udp_close_questions(struct vb_udp_link *udp)
{
	for (unsigned i = 0; udp->questions && i < QUESTIONS; i++)
		if (udp->questions->question[i].qpn != 0)
			end(&udp->questions->question[i]);
}
