/* SPDX-License-Identifier: MIT
 *
 * The modify-QP rules, typed a second time and in words, for the tests to compare with.
 */
#ifndef TESTS_UNIT_QUEUE_EXPECTED_TRANSITIONS_H
#define TESTS_UNIT_QUEUE_EXPECTED_TRANSITIONS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <infiniband/verbs.h>

/* Words for attributes, and their bits as <infiniband/verbs.h> numbers them. */
static const struct {
	const char *word;
	int bit;
} words[] = {
	{"state", 1 << 0}, {"cur", 1 << 1}, {"notify", 1 << 2}, {"access", 1 << 3}, {"pkey", 1 << 4}, {"port", 1 << 5},
	{"qkey", 1 << 6}, {"av", 1 << 7}, {"mtu", 1 << 8}, {"timeout", 1 << 9}, {"retry", 1 << 10},
	{"rnr_retry", 1 << 11},
	{"rq_psn", 1 << 12}, {"rd", 1 << 13}, {"alt", 1 << 14}, {"rnr_timer", 1 << 15}, {"sq_psn", 1 << 16},
	{"dest_rd", 1 << 17}, {"mig", 1 << 18}, {"cap", 1 << 19}, {"dest_qpn", 1 << 20}, {"rate", 1 << 25},
};

enum { BITS = sizeof(words) / sizeof(words[0]) };

static const char *const states[] = {"reset", "init", "rtr", "rts", "sqd", "sqe", "err"};

/* "type from to" -> required ; optional. From IBA table 91 and the requirement lists of ibv_modify_qp(3). Not listed:
 * refused. To reset and to err: always, with nothing else. */
static const struct {
	const char *transition, *required, *optional;
} expected[] = {
	{"rc reset init", "pkey port access", ""},
	{"uc reset init", "pkey port access", ""},
	{"ud reset init", "pkey port qkey", ""},
	{"rc init init", "", "pkey port access"},
	{"uc init init", "", "pkey port access"},
	{"ud init init", "", "pkey port qkey"},
	{"rc init rtr", "av mtu dest_qpn rq_psn dest_rd rnr_timer", "alt access pkey"},
	{"uc init rtr", "av mtu dest_qpn rq_psn", "alt access pkey"},
	{"ud init rtr", "", "pkey qkey"},
	{"rc rtr rts", "sq_psn timeout retry rnr_retry rd", "cur access alt mig rnr_timer"},
	{"uc rtr rts", "sq_psn", "cur access alt mig"},
	{"ud rtr rts", "sq_psn", "cur qkey"},
	{"rc rts rts", "", "cur access alt mig rnr_timer"},
	{"uc rts rts", "", "cur access alt mig"},
	{"ud rts rts", "", "cur qkey"},
	{"rc rts sqd", "", "notify"},
	{"uc rts sqd", "", "notify"},
	{"ud rts sqd", "", "notify"},
	{"rc sqd rts", "", "cur access alt mig rnr_timer"},
	{"uc sqd rts", "", "cur access alt mig"},
	{"ud sqd rts", "", "cur qkey"},
	{"rc sqd sqd", "", "port av timeout retry rnr_retry rd dest_rd alt access pkey rnr_timer mig"},
	{"uc sqd sqd", "", "av alt access pkey mig"},
	{"ud sqd sqd", "", "pkey qkey"},
	{"rc sqe rts", "", ""},
	{"uc sqe rts", "", "cur access"},
	{"ud sqe rts", "", "cur qkey"},
	/* Frames have neither keys nor a path: the port is all there is to say. */
	{"rp reset init", "port", ""},
	{"rp init init", "", ""},
	{"rp init rtr", "", ""},
	{"rp rtr rts", "", "rate"},
	{"rp rts rts", "", "rate"},
	{"rp rts sqd", "", ""},
	{"rp sqd rts", "", ""},
	{"rp sqd sqd", "", ""},
	{"rp sqe rts", "", ""},
	/* A14: the sender as RC without what a responder needs, the receiver as RC without what a requester needs. */
	{"xs reset init", "pkey port access", ""},
	{"xr reset init", "pkey port access", ""},
	{"xs init init", "", "pkey port access"},
	{"xr init init", "", "pkey port access"},
	{"xs init rtr", "av mtu dest_qpn rq_psn", "alt access pkey"},
	{"xr init rtr", "av mtu dest_qpn rq_psn dest_rd rnr_timer", "alt access pkey"},
	{"xs rtr rts", "sq_psn timeout retry rnr_retry rd", "cur access alt mig"},
	{"xr rtr rts", "sq_psn timeout", "cur access alt mig rnr_timer"},
	{"xs rts rts", "", "cur access alt mig"},
	{"xr rts rts", "", "cur access alt mig rnr_timer"},
	{"xs rts sqd", "", "notify"},
	{"xr rts sqd", "", "notify"},
	{"xs sqd rts", "", "cur access alt mig"},
	{"xr sqd rts", "", "cur access alt mig rnr_timer"},
	{"xs sqd sqd", "", "port av timeout retry rnr_retry rd alt access pkey mig"},
	{"xr sqd sqd", "", "port av timeout dest_rd alt access pkey rnr_timer mig"},
	{"xs sqe rts", "", ""},
	{"xr sqe rts", "", ""},
};

static inline int mask_of(const char *list)
{
	char copy[128], *word, *save = NULL;
	int mask = 0;

	assert_true(strlen(list) < sizeof(copy));
	strcpy(copy, list);
	for (word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		int bit = 0;

		for (unsigned i = 0; i < BITS; i++)
			if (strcmp(words[i].word, word) == 0)
				bit = words[i].bit;
		assert_int_not_equal(bit, 0);
		mask |= bit;
	}
	return mask;
}

struct answer {
	bool valid;
	int required, optional;
};

static inline struct answer look_up(const char *type, unsigned from, unsigned to)
{
	char transition[32];

	if (to == 0 || to == 6)
		return (struct answer){true, 0, 0};
	snprintf(transition, sizeof(transition), "%s %s %s", type, states[from], states[to]);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		if (strcmp(expected[i].transition, transition) == 0)
			return (struct answer){true, mask_of(expected[i].required), mask_of(expected[i].optional)};
	return (struct answer){false, 0, 0};
}

static const struct {
	const char *word;
	enum ibv_qp_type type;
} types[] = {{"rc", IBV_QPT_RC}, {"uc", IBV_QPT_UC}, {"ud", IBV_QPT_UD}, {"rp", IBV_QPT_RAW_PACKET},
	     {"xs", IBV_QPT_XRC_SEND}, {"xr", IBV_QPT_XRC_RECV}};

#endif
