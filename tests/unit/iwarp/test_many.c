/* SPDX-License-Identifier: MIT
 *
 * A hundred and forty-four pairs of engines at once, in one virtual time, each with a stream of its own temper: pieces of every
 * size, delays, little room, with CRC and without, short FPDUs and long ones; and with what befalls streams: damaged, cut, closed,
 * aborted, given up.
 *
 * Whatever befalls it, of each pair:
 *   - each request and each receive completes once, in order: with success, then at most one with an error, then flushed;
 *   - what completed with success has its bytes in their place (not after damage that no CRC could find);
 *   - the pair ends, in a bounded time;
 * and a pair that nothing befalls has nothing but success, whatever befalls the others.
 */
#include "streams.h"

enum {
	PAIRS = 144,
	WORK = 14,                       /* requests of each end */
	SLOT = 5000,                     /* bytes of one request at most */
	OUT = 0, IN = WORK * SLOT, LANDING = 2 * WORK * SLOT, SIZE = 3 * WORK * SLOT,
	RECEIVE_AT = 1000,               /* wr_ids of receives */
};

enum fate { NOTHING, DAMAGED, DAMAGED_UNSEEN, CUT, CLOSED, ABORTED, GIVEN_UP, FATES };

static const char *const fate_names[FATES] = {"nothing", "damage", "damage without CRC", "cut", "close", "abort", "time"};

struct work {
	enum ibv_wr_opcode opcode;
	uint32_t length;
};

struct doer {
	struct work work[WORK];
	unsigned posted, receives;       /* so far */
	unsigned sends_done, receives_done;
	bool failed, receive_failed;
	unsigned landing[WORK];          /* of the other's requests, which the n-th receive takes */
	unsigned landings;
};

struct pair {
	struct streams streams;
	struct doer doer[2];
	enum fate fate;
	unsigned victim;
	uint64_t seed;
	vb_time next_post, fate_at;
	size_t fate_byte;                /* of the victim's stream */
	bool fated, fell_early;          /* before its work was done */
};

static struct pair *pairs;

static uint8_t pattern(unsigned side, unsigned index)
{
	return (uint8_t)(side * 101 + index * 17 + 3);
}

static bool takes_receive(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static void plan(struct pair *pair, unsigned side)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM};
	struct end *end = &pair->streams.end[side];
	struct doer *doer = &pair->doer[side];

	for (unsigned i = 0; i < WORK; i++) {
		struct work *work = &doer->work[i];

		work->opcode = opcodes[streams_random(&pair->streams) % 4];
		work->length = streams_random(&pair->streams) % 8 == 0 ? 0 : 1 + streams_random(&pair->streams) % SLOT;
		if (work->opcode == IBV_WR_RDMA_READ)
			fill(end->other, IN + i * SLOT, SLOT, pattern(side, i));
		else
			fill(end, OUT + i * SLOT, SLOT, pattern(side, i));
		if (takes_receive(work->opcode))
			doer->landing[doer->landings++] = i;
	}
}

static void make_pair(struct pair *pair, unsigned index, uint64_t seed)
{
	struct options options = {
		.seed = seed, .random_cuts = true, .arena = SIZE, .pipe = 64 << 10, .max_wr = 2 * WORK, .signal_all = true,
		.crc = index % 2, .direct = index % 3 == 0, .mulpdu = index % 4 == 0 ? 32768 : index % 4 == 1 ? 200 : 0,
		.delay = index % 5 == 0 ? 0 : VB_MICROSECONDS(200), .room = index % 7 == 0 ? 300 : 0, .most_read = index % 11 == 0 ? 13 : 0,
	};

	pair->fate = (enum fate)(index % FATES);
	if (pair->fate == DAMAGED || pair->fate == DAMAGED_UNSEEN)
		options.crc = pair->fate == DAMAGED;
	pair->seed = seed;
	streams_open(&pair->streams, &options);
	for (unsigned side = 0; side < 2; side++)
		plan(pair, side);
	pair->victim = streams_random(&pair->streams) % 2;
	/* Without CRC it is headers that show it. */
	pair->fate_byte = pair->fate == DAMAGED_UNSEEN ? 20 + streams_random(&pair->streams) % 400 :
							 100 + streams_random(&pair->streams) % 8000;
	pair->next_post = pair->streams.now;
	pair->fate_at = pair->fate < CLOSED ? VB_TIME_NEVER :
					      pair->streams.now + (vb_time)(streams_random(&pair->streams) % (unsigned)VB_MILLISECONDS(8));
	/* A length that was damaged may be waited for in vain: then a program gives up some time. */
	if (pair->fate == DAMAGED || pair->fate == DAMAGED_UNSEEN) {
		pair->streams.end[pair->victim].damage_at = pair->fate_byte;
		pair->fate_at = pair->streams.now + VB_SECONDS(20);
	}
}

/* A request here, a receive there; at a queue pair that has failed both are flushed. */
static void post_some(struct pair *pair)
{
	unsigned side = streams_random(&pair->streams) % 2;
	struct end *end = &pair->streams.end[side];
	struct doer *doer = &pair->doer[side], *other = &pair->doer[1 - side];

	/* Late receives make streams stand still; but they come. */
	if (doer->receives < other->landings && (streams_random(&pair->streams) % 2 == 0 || doer->posted == WORK)) {
		assert_int_equal(post_receive(end, LANDING + doer->receives * SLOT, SLOT, RECEIVE_AT + doer->receives), 0);
		doer->receives++;
	} else if (doer->posted < WORK) {
		struct work *work = &doer->work[doer->posted];

		assert_int_equal(post_send(end, work->opcode, OUT + doer->posted * SLOT, work->length, IN + doer->posted * SLOT,
					   doer->posted, 0), 0);
		doer->posted++;
	}
	pair->next_post = pair->streams.now + (vb_time)(streams_random(&pair->streams) % (unsigned)VB_MICROSECONDS(400));
}

static bool has_posted_all(const struct pair *pair)
{
	for (unsigned side = 0; side < 2; side++)
		if (pair->doer[side].posted < WORK || pair->doer[side].receives < pair->doer[1 - side].landings)
			return false;
	return true;
}

static void let_it_befall(struct pair *pair)
{
	struct end *end = &pair->streams.end[pair->victim];

	pair->fated = true;
	pair->fate_at = VB_TIME_NEVER;
	switch (pair->fate) {
	case CLOSED:
		(void)modify(end, IBV_QPS_SQD); /* EINVAL where it has failed already, or is closed by the peer */
		break;
	case DAMAGED:
	case DAMAGED_UNSEEN:
	case ABORTED:
		(void)modify(end, IBV_QPS_ERR);
		break;
	case GIVEN_UP:
		for (unsigned side = 0; side < 2; side++) {
			struct end *each = &pair->streams.end[side];

			vb_lock_take(&each->qp->lock);
			if (!each->over)
				vb_iwarp_ended(each->qp, pair->streams.now, VB_IWARP_END_TIMEOUT);
			each->over = true;
			vb_lock_release(&each->qp->lock);
		}
		break;
	default:
		break;
	}
}

/* ---- what was promised ---- */

static void check_status(struct pair *pair, const struct ibv_wc *wc, bool *failed)
{
	if (wc->status == IBV_WC_SUCCESS && !*failed)
		return;
	if (pair->fate == NOTHING || (wc->status != IBV_WC_WR_FLUSH_ERR && *failed) || wc->status == IBV_WC_SUCCESS)
		fail_msg("%s, seed %llu: wr_id %llu has status %d%s", fate_names[pair->fate], (unsigned long long)pair->seed,
			 (unsigned long long)wc->wr_id, wc->status, *failed ? " behind a failure" : "");
	*failed = true;
}

static void look(struct pair *pair, unsigned side)
{
	struct end *end = &pair->streams.end[side];
	struct doer *doer = &pair->doer[side], *other = &pair->doer[1 - side];
	bool trusted = pair->fate != DAMAGED_UNSEEN;
	struct ibv_wc wc;

	while (poll_cq(&end->send_cq, &wc)) {
		const struct work *work = &doer->work[doer->sends_done];

		assert_int_equal(wc.wr_id, doer->sends_done);
		check_status(pair, &wc, &doer->failed);
		if (wc.status == IBV_WC_SUCCESS && work->opcode == IBV_WR_RDMA_READ && trusted)
			verify(end, OUT + doer->sends_done * SLOT, work->length, pattern(side, doer->sends_done));
		doer->sends_done++;
	}
	while (poll_cq(&end->recv_cq, &wc)) {
		unsigned index = other->landing[doer->receives_done];
		const struct work *work = &other->work[index];

		assert_int_equal(wc.wr_id, RECEIVE_AT + doer->receives_done);
		check_status(pair, &wc, &doer->receive_failed);
		if (wc.status == IBV_WC_SUCCESS && trusted) {
			assert_int_equal(wc.byte_len, work->length);
			verify(end, (work->opcode == IBV_WR_SEND ? LANDING + doer->receives_done * SLOT : IN + index * SLOT), work->length,
			       pattern(1 - side, index));
		}
		doer->receives_done++;
	}
}

static void step(struct pair *pair, vb_time when)
{
	streams_step(&pair->streams, when);
	if (when >= pair->next_post)
		post_some(pair);
	if (has_posted_all(pair))
		pair->next_post = VB_TIME_NEVER;
	if (when >= pair->fate_at)
		let_it_befall(pair);
	streams_settle(&pair->streams);
	if (pair->fate == CUT && !pair->fated && pair->streams.end[pair->victim].written > pair->fate_byte) {
		pair->fated = pair->streams.cut = true;
		streams_settle(&pair->streams);
	}
	for (unsigned side = 0; side < 2; side++) {
		look(pair, side);
		pair->fell_early |= pair->doer[side].failed || pair->doer[side].receive_failed;
	}
}

static vb_time next_of(const struct pair *pair)
{
	return vb_time_earlier(streams_next(&pair->streams), vb_time_earlier(pair->next_post, pair->fate_at));
}

/* The earliest event of all, again and again. */
static void play(unsigned count)
{
	vb_time began = pairs[0].streams.now;

	for (;;) {
		struct pair *first = NULL;
		vb_time when = VB_TIME_NEVER;

		for (unsigned i = 0; i < count; i++) {
			vb_time next = next_of(&pairs[i]);

			if (next < when) {
				when = next;
				first = &pairs[i];
			}
		}
		if (!first)
			return;
		if (when > began + VB_SECONDS(60))
			fail_msg("%s, seed %llu: it never ends", fate_names[first->fate], (unsigned long long)first->seed);
		step(first, when);
	}
}

static void check_end(struct pair *pair)
{
	for (unsigned side = 0; side < 2; side++) {
		const struct doer *doer = &pair->doer[side];
		const struct end *end = &pair->streams.end[side];
		bool over = end->qp->state == IBV_QPS_ERR;

		if (over != doer->failed && pair->fate == NOTHING)
			fail_msg("seed %llu: a pair that nothing befell has failed", (unsigned long long)pair->seed);
		if (!over && pair->fated && pair->fate != CLOSED)
			fail_msg("%s, seed %llu: side %u goes on", fate_names[pair->fate], (unsigned long long)pair->seed, side);
		if (doer->sends_done != doer->posted || doer->receives_done != doer->receives)
			fail_msg("%s, seed %llu, side %u: %u of %u requests and %u of %u receives have completed", fate_names[pair->fate],
				 (unsigned long long)pair->seed, side, doer->sends_done, doer->posted, doer->receives_done, doer->receives);
	}
}

static void test_many(void **state)
{
	const char *wanted = getenv("VERBENA_SEED");
	uint64_t seed = wanted ? strtoull(wanted, NULL, 0) : 20261116;
	unsigned befell[FATES] = {0};

	(void)state;
	print_message("VERBENA_SEED=%llu\n", (unsigned long long)seed);
	pairs = calloc(PAIRS, sizeof(*pairs));
	assert_non_null(pairs);
	for (unsigned i = 0; i < PAIRS; i++)
		make_pair(&pairs[i], i, seed * 1000 + i);
	play(PAIRS);
	for (unsigned i = 0; i < PAIRS; i++) {
		check_end(&pairs[i]);
		befell[pairs[i].fate] += pairs[i].fate == NOTHING || pairs[i].fell_early;
		streams_close(&pairs[i].streams);
	}
	free(pairs);
	/* The test is worth something: most of what was to befall a pair did so in the middle of its work. */
	for (unsigned fate = 0; fate < FATES; fate++) {
		print_message("%s: %u of %u pairs\n", fate_names[fate], befell[fate], PAIRS / FATES + (fate < PAIRS % FATES));
		assert_true(fate == DAMAGED_UNSEEN || befell[fate] >= PAIRS / FATES / 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_many)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
