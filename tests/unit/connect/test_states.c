/* SPDX-License-Identifier: MIT
 *
 * THE table of messages and states against a list typed from the specification's figures, message by message. Whatever
 * the list does not name is ignored.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "connect/states.h"
#include "wire/cm_mad.h"

static const struct {
	enum vb_cm_attribute message;
	enum vb_connect_state state;
	enum vb_connect_reaction reaction;
} rules[] = {
	/* A request nobody has seen; the same request again, by what we said to the first. */
	{VB_CM_REQ, VB_CONNECT_UNKNOWN, VB_CONNECT_DO_ADMIT},
	{VB_CM_REQ, VB_CONNECT_REQ_RECEIVED, VB_CONNECT_DO_ASK_PATIENCE},
	{VB_CM_REQ, VB_CONNECT_REP_SENT, VB_CONNECT_DO_REPEAT},
	{VB_CM_REQ, VB_CONNECT_MRA_REP_RECEIVED, VB_CONNECT_DO_REPEAT},
	{VB_CM_REQ, VB_CONNECT_REJECTED, VB_CONNECT_DO_REPEAT},
	{VB_CM_REQ, VB_CONNECT_TIMEWAIT, VB_CONNECT_DO_REFUSE_STALE},
	{VB_CM_REQ, VB_CONNECT_DREQ_SENT, VB_CONNECT_DO_REFUSE_STALE},
	/* The active side. */
	{VB_CM_REP, VB_CONNECT_REQ_SENT, VB_CONNECT_DO_TAKE_REPLY},
	{VB_CM_REP, VB_CONNECT_MRA_REQ_RECEIVED, VB_CONNECT_DO_TAKE_REPLY},
	{VB_CM_REP, VB_CONNECT_REP_RECEIVED, VB_CONNECT_DO_ASK_PATIENCE},
	{VB_CM_REP, VB_CONNECT_ESTABLISHED, VB_CONNECT_DO_REPEAT},
	{VB_CM_REP, VB_CONNECT_REJECTED, VB_CONNECT_DO_REPEAT},
	{VB_CM_REP, VB_CONNECT_UNKNOWN, VB_CONNECT_DO_REFUSE_REPLY},
	{VB_CM_REP, VB_CONNECT_CLOSED, VB_CONNECT_DO_REFUSE_REPLY},
	{VB_CM_MRA, VB_CONNECT_REQ_SENT, VB_CONNECT_DO_BE_PATIENT},
	{VB_CM_MRA, VB_CONNECT_MRA_REQ_RECEIVED, VB_CONNECT_DO_BE_PATIENT},
	/* The passive side. */
	{VB_CM_RTU, VB_CONNECT_REP_SENT, VB_CONNECT_DO_TAKE_READY},
	{VB_CM_RTU, VB_CONNECT_MRA_REP_RECEIVED, VB_CONNECT_DO_TAKE_READY},
	{VB_CM_MRA, VB_CONNECT_REP_SENT, VB_CONNECT_DO_BE_PATIENT},
	{VB_CM_MRA, VB_CONNECT_MRA_REP_RECEIVED, VB_CONNECT_DO_BE_PATIENT},
	/* No is taken until the connection is over, and as an answer to DREQ. */
	{VB_CM_REJ, VB_CONNECT_REQ_SENT, VB_CONNECT_DO_TAKE_REJECT},
	{VB_CM_REJ, VB_CONNECT_MRA_REQ_RECEIVED, VB_CONNECT_DO_TAKE_REJECT},
	{VB_CM_REJ, VB_CONNECT_REP_RECEIVED, VB_CONNECT_DO_TAKE_REJECT},
	{VB_CM_REJ, VB_CONNECT_REQ_RECEIVED, VB_CONNECT_DO_TAKE_REJECT},
	{VB_CM_REJ, VB_CONNECT_REP_SENT, VB_CONNECT_DO_TAKE_REJECT},
	{VB_CM_REJ, VB_CONNECT_MRA_REP_RECEIVED, VB_CONNECT_DO_TAKE_REJECT},
	{VB_CM_REJ, VB_CONNECT_ESTABLISHED, VB_CONNECT_DO_TAKE_REJECT},
	{VB_CM_REJ, VB_CONNECT_DREQ_SENT, VB_CONNECT_DO_END},
	/* The end. */
	{VB_CM_DREQ, VB_CONNECT_ESTABLISHED, VB_CONNECT_DO_TAKE_DISCONNECT},
	{VB_CM_DREQ, VB_CONNECT_REP_SENT, VB_CONNECT_DO_TAKE_DISCONNECT},
	{VB_CM_DREQ, VB_CONNECT_MRA_REP_RECEIVED, VB_CONNECT_DO_TAKE_DISCONNECT},
	{VB_CM_DREQ, VB_CONNECT_REP_RECEIVED, VB_CONNECT_DO_TAKE_DISCONNECT},
	{VB_CM_DREQ, VB_CONNECT_DREQ_SENT, VB_CONNECT_DO_CROSS_DISCONNECT},
	{VB_CM_DREQ, VB_CONNECT_TIMEWAIT, VB_CONNECT_DO_CONFIRM_DISCONNECT},
	{VB_CM_DREQ, VB_CONNECT_REJECTED, VB_CONNECT_DO_CONFIRM_DISCONNECT},
	{VB_CM_DREQ, VB_CONNECT_CLOSED, VB_CONNECT_DO_CONFIRM_DISCONNECT},
	{VB_CM_DREQ, VB_CONNECT_UNKNOWN, VB_CONNECT_DO_CONFIRM_DISCONNECT},
	{VB_CM_DREP, VB_CONNECT_DREQ_SENT, VB_CONNECT_DO_END},
	{VB_CM_DREP, VB_CONNECT_ESTABLISHED, VB_CONNECT_DO_TAKE_FORGOTTEN},
	/* Alternate paths. */
	{VB_CM_LAP, VB_CONNECT_ESTABLISHED, VB_CONNECT_DO_REFUSE_PATH},
	{VB_CM_LAP, VB_CONNECT_UNKNOWN, VB_CONNECT_DO_REFUSE_PATH},
	/* Datagram services. */
	{VB_CM_SIDR_REQ, VB_CONNECT_UNKNOWN, VB_CONNECT_DO_ADMIT_SIDR},
	{VB_CM_SIDR_REQ, VB_CONNECT_SIDR_ANSWERED, VB_CONNECT_DO_REPEAT},
	{VB_CM_SIDR_REP, VB_CONNECT_SIDR_REQ_SENT, VB_CONNECT_DO_TAKE_SIDR_REPLY},
};

static enum vb_connect_reaction expected(unsigned message, unsigned state)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].message == message && rules[i].state == state)
			return rules[i].reaction;
	return VB_CONNECT_DO_IGNORE;
}

static void every_cell_is_as_specified(void **context)
{
	(void)context;
	for (unsigned message = VB_CM_REQ; message < VB_CM_ATTRIBUTE_END; message++) {
		for (unsigned state = 0; state < VB_CONNECT_STATE_COUNT; state++) {
			enum vb_connect_reaction reaction = vb_connect_reaction(message, (enum vb_connect_state)state);

			if (reaction != expected(message, state))
				fail_msg("%s in %s: %s, expected %s", vb_cm_attribute_name(message),
					 vb_connect_state_name((enum vb_connect_state)state),
					 vb_connect_reaction_name(reaction),
					 vb_connect_reaction_name(expected(message, state)));
		}
	}
}

static void nothing_outside_the_table(void **context)
{
	(void)context;
	assert_int_equal(vb_connect_reaction(VB_CM_REQ - 1, VB_CONNECT_UNKNOWN), VB_CONNECT_DO_IGNORE);
	assert_int_equal(vb_connect_reaction(VB_CM_ATTRIBUTE_END, VB_CONNECT_UNKNOWN), VB_CONNECT_DO_IGNORE);
	assert_int_equal(vb_connect_reaction(VB_CM_REQ, VB_CONNECT_STATE_COUNT), VB_CONNECT_DO_IGNORE);
	assert_string_equal(vb_connect_state_name(VB_CONNECT_ESTABLISHED), "ESTABLISHED");
	assert_string_equal(vb_connect_state_name(VB_CONNECT_SIDR_ANSWERED), "SIDR_ANSWERED");
	assert_string_equal(vb_connect_state_name(VB_CONNECT_STATE_COUNT), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cell_is_as_specified),
		cmocka_unit_test(nothing_outside_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
