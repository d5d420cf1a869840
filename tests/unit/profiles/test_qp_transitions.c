/* SPDX-License-Identifier: MIT
 *
 * THE modify-QP table against a second one (expected_transitions.h): every type × from × to × single
 * deviation, and for the small masks every combination.
 */
#include "../queue/expected_transitions.h"
#include "profiles/qp_transitions.h"

static void try_mask(unsigned t, unsigned from, unsigned to, const struct answer *answer, int attributes)
{
	int missing = answer->required & ~attributes;
	int extra = attributes & ~(answer->required | answer->optional);
	int mask = attributes | IBV_QP_STATE;

	assert_int_equal(vb_qp_transition_allows(&vb_transitions_iba, types[t].type, from, to, mask), answer->valid && !missing && !extra);
	if (answer->valid)
		assert_int_equal(vb_qp_transition_missing(&vb_transitions_iba, types[t].type, from, to, mask), missing | extra);
}

/* All 2^22 masks would be too many for each of 245 transitions; what is decided bit by bit is tested by all pairs
 * of bits flipped away from nothing and from the smallest and the largest legal mask. */
static void try_transition(unsigned t, unsigned from, unsigned to, const struct answer *answer)
{
	int bases[3] = {0, answer->required, answer->required | answer->optional};

	for (unsigned b = 0; b < 3; b++)
		for (unsigned i = 1; i < BITS; i++)
			for (unsigned j = 1; j < BITS; j++)
				try_mask(t, from, to, answer, bases[b] ^ words[i].bit ^ words[j].bit);
}

static void every_transition_and_every_deviation(void **state)
{
	unsigned valid = 0;

	(void)state;
	for (unsigned t = 0; t < 5; t++)
		for (unsigned from = 0; from <= 6; from++)
			for (unsigned to = 0; to <= 6; to++) {
				struct answer answer = look_up(types[t].word, from, to);
				const struct vb_qp_transition *row = vb_qp_transition(&vb_transitions_iba, types[t].type, from, to);

				valid += answer.valid;
				assert_int_equal(row->valid, answer.valid);
				assert_int_equal(row->required, answer.required & ~IBV_QP_CUR_STATE);
				assert_int_equal(row->optional, answer.optional & ~IBV_QP_CUR_STATE);
				try_transition(t, from, to, &answer);
			}
	assert_int_equal(valid, 45 + 5 * 7 * 2);
}

/* UD has few attributes: there every mask of its own bits is tried. */
static void every_mask_of_datagrams(void **state)
{
	static const char *const bits[] = {"cur", "notify", "access", "pkey", "port", "qkey", "sq_psn", "av"};

	(void)state;
	for (unsigned from = 0; from <= 6; from++)
		for (unsigned to = 0; to <= 6; to++)
			for (unsigned chosen = 0; chosen < 256; chosen++) {
				struct answer answer = look_up("ud", from, to);
				int mask = 0;

				for (unsigned i = 0; i < 8; i++)
					if (chosen & 1u << i)
						mask |= mask_of(bits[i]);
				assert_int_equal(vb_qp_transition_allows(&vb_transitions_iba, IBV_QPT_UD, from, to, mask | IBV_QP_STATE),
						 answer.valid && (mask & answer.required) == answer.required &&
							 (mask & ~(answer.required | answer.optional)) == 0);
			}
}

static void strangers_are_refused(void **state)
{
	(void)state;
	assert_false(vb_qp_transition(&vb_transitions_iba, (enum ibv_qp_type)7, IBV_QPS_RESET, IBV_QPS_INIT)->valid);
	assert_false(vb_qp_transition(&vb_transitions_iba, IBV_QPT_DRIVER, IBV_QPS_RESET, IBV_QPS_RESET)->valid);
	assert_false(vb_qp_transition(&vb_transitions_iba, IBV_QPT_RC, IBV_QPS_UNKNOWN, IBV_QPS_RESET)->valid);
	assert_false(vb_qp_transition(&vb_transitions_iba, IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_UNKNOWN)->valid);
	assert_false(vb_qp_transition(&vb_transitions_iba, IBV_QPT_RC, (enum ibv_qp_state)-1, IBV_QPS_ERR)->valid);
	assert_false(vb_qp_transition_allows(&vb_transitions_iba, IBV_QPT_RC, IBV_QPS_RESET, (enum ibv_qp_state)1000, IBV_QP_STATE));
	assert_false(vb_qp_transition_allows(&vb_transitions_iba, IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT, 1 << 30));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_transition_and_every_deviation),
		cmocka_unit_test(every_mask_of_datagrams),
		cmocka_unit_test(strangers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
