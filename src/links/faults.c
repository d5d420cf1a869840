/* SPDX-License-Identifier: MIT
 *
 * A specification is words separated by commas:
 *
 *   seed=N                    of the random numbers; 1 unless told
 *   loss= dup= corrupt= reorder= delayed=      how many packets: 1% or 0.01
 *   delay=TIME or TIME..TIME                   how long (ns us ms s); alone: every packet
 *   ACTION-psn=[+]N[xK]       drop, dup, corrupt, reorder, delay: the packet with PSN N (+N: counted from the queue
 *                             pair's first) the first time (the first K times) it is sent
 *   ACTION-packet=N           the Nth packet that a queue pair sends, beginning with 1
 *   cut= cut-packet=N         iWARP, whose packets are FPDUs: the stream ends in the middle of it
 *   short=                    iWARP: so many reads and writes of the socket take only a part
 *   drop-cm=NAME[xK]          the first message (K messages) of connection management of this name: REQ, REP, RTU, ...
 *   qp=N or #N                only this queue pair: its number, or the Nth that sends
 *   only=requests, only=responses
 *
 * Each packet takes the same number of random numbers whatever is asked for, so that adding one fault does not move the
 * others.
 */
#include "links/faults.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/psn.h"

enum action { DROP, DUP, CORRUPT, REORDER, DELAY, PACKET_ACTIONS, CUT = PACKET_ACTIONS, ACTIONS };
enum { MOST_RULES = 64, MOST_BEHIND = 3, PSN_MASK = 0xffffff };
enum { LENGTH = 1, BEHIND, NOISE, NUMBERS = NOISE }; /* of a packet, behind one for each action */

static const char *const action_names[ACTIONS] = {"drop", "dup", "corrupt", "reorder", "delay", "cut"};
static const char *const share_names[ACTIONS] = {"loss", "dup", "corrupt", "reorder", "delayed", "cut"};

/* One packet singled out. */
struct rule {
	enum action action;
	bool by_psn, relative;
	uint32_t number, times;
};

struct queue_pair {
	struct queue_pair *next;
	uint32_t qpn, ordinal;
	uint32_t first_psn[2];             /* of its requests, of its responses: these count in the peer's numbers */
	bool seen[2];
	uint32_t packets;
	uint32_t used[MOST_RULES];         /* how often each rule has fired here */
};

struct vb_faults {
	uint64_t state;
	double share[ACTIONS], shorter;
	vb_time delay_least, delay_most;
	unsigned rules;
	struct rule rule[MOST_RULES];
	bool one_qp, by_ordinal, only_requests, only_responses;
	uint32_t qp;
	uint32_t queue_pairs;
	struct queue_pair *queue_pair;
	struct vb_faults_messages messages;
};

/* splitmix64: small, seedable, good enough to lose packets by. The state only counts: a number that is not needed costs nothing. */
#define DRAW UINT64_C(0x9e3779b97f4a7c15)

/* The number that was, or would have been, drawn when the state became `z`. */
static uint64_t number_at(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t draw(struct vb_faults *faults)
{
	return number_at(faults->state += DRAW);
}

/* ---- the specification ---- */

static bool read_number(const char *text, const char **end, uint32_t *out)
{
	unsigned long value;
	char *stop;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoul(text, &stop, 0);
	if (errno != 0 || value > UINT32_MAX)
		return false;
	*out = (uint32_t)value;
	*end = stop;
	return true;
}

static bool read_share(const char *text, double *out)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text)
		return false;
	if (*end == '%') {
		value /= 100;
		end++;
	}
	*out = value;
	return *end == '\0' && value >= 0 && value <= 1;
}

static bool read_time(const char *text, const char **end, vb_time *out)
{
	static const struct {
		const char *unit;
		double factor;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	char *number_end;
	double value = strtod(text, &number_end);

	if (number_end == text || value < 0 || value > 3600)
		return false;
	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t length = strlen(units[i].unit);

		if (strncmp(number_end, units[i].unit, length) == 0) {
			*out = (vb_time)(value * units[i].factor);
			*end = number_end + length;
			return true;
		}
	}
	return false;
}

static bool read_delay(struct vb_faults *faults, const char *text)
{
	const char *end;

	/* strtod would take "1..5ms" for 1. and .5: the first number may not end in a point. */
	if (!read_time(text, &end, &faults->delay_least))
		return false;
	faults->delay_most = faults->delay_least;
	if (strncmp(end, "..", 2) == 0 && !read_time(end + 2, &end, &faults->delay_most))
		return false;
	return *end == '\0' && faults->delay_most >= faults->delay_least && faults->delay_most > 0;
}

static bool read_rule(struct vb_faults *faults, const char *name, const char *text, bool *known)
{
	const char *dash = strrchr(name, '-');
	struct rule rule = {.times = 1};
	const char *end;

	*known = false;
	if (!dash || (strcmp(dash, "-psn") != 0 && strcmp(dash, "-packet") != 0))
		return false;
	while (rule.action < ACTIONS && (strlen(action_names[rule.action]) != (size_t)(dash - name) ||
					 strncmp(name, action_names[rule.action], (size_t)(dash - name)) != 0))
		rule.action++;
	if (rule.action == ACTIONS || (rule.action == CUT && dash[2] == 's'))
		return false;
	*known = true;
	rule.by_psn = dash[2] == 's';
	if (rule.by_psn && *text == '+') {
		rule.relative = true;
		text++;
	}
	if (faults->rules == MOST_RULES || !read_number(text, &end, &rule.number) || rule.number > PSN_MASK)
		return false;
	if (rule.by_psn && *end == 'x' && !read_number(end + 1, &end, &rule.times))
		return false;
	faults->rule[faults->rules++] = rule;
	return *end == '\0' && (rule.by_psn || rule.number > 0);
}

static bool read_message(struct vb_faults *faults, const char *text)
{
	const char *times = strrchr(text, 'x'), *end = "";
	size_t length = times ? (size_t)(times - text) : strlen(text);
	uint32_t count = 1;

	if (times && (!read_number(times + 1, &end, &count) || count > UINT8_MAX))
		return false;
	for (unsigned i = VB_CM_REQ; *end == '\0' && i < VB_CM_ATTRIBUTE_END; i++) {
		const char *name = vb_cm_attribute_name(i);

		if (strlen(name) != length || strncmp(name, text, length) != 0)
			continue;
		faults->messages.lost[i - VB_CM_REQ] = (uint8_t)count;
		return true;
	}
	return false;
}

static bool read_only(struct vb_faults *faults, const char *text)
{
	faults->only_requests = strcmp(text, "requests") == 0;
	faults->only_responses = strcmp(text, "responses") == 0;
	return faults->only_requests || faults->only_responses;
}

static bool read_seed(struct vb_faults *faults, const char *text)
{
	char *end;

	faults->state = strtoull(text, &end, 0);
	return end != text && *end == '\0' && *text != '-';
}

static bool read_qp(struct vb_faults *faults, const char *text)
{
	const char *end;

	faults->one_qp = true;
	faults->by_ordinal = *text == '#';
	return read_number(text + faults->by_ordinal, &end, &faults->qp) && *end == '\0' && faults->qp > 0;
}

static bool read_word(struct vb_faults *faults, const char *name, const char *value, bool *known)
{
	*known = true;
	for (unsigned i = 0; i < ACTIONS; i++)
		if (strcmp(name, share_names[i]) == 0)
			return read_share(value, &faults->share[i]);
	if (strcmp(name, "short") == 0)
		return read_share(value, &faults->shorter);
	if (strcmp(name, "seed") == 0)
		return read_seed(faults, value);
	if (strcmp(name, "delay") == 0)
		return read_delay(faults, value);
	if (strcmp(name, "qp") == 0)
		return read_qp(faults, value);
	if (strcmp(name, "drop-cm") == 0)
		return read_message(faults, value);
	if (strcmp(name, "only") == 0)
		return read_only(faults, value);
	return read_rule(faults, name, value, known);
}

static int read_words(struct vb_faults *faults, char *words, char *why, size_t room)
{
	char *rest = words, *word;

	while ((word = strtok_r(rest, ", ", &rest)) != NULL) {
		char *value = strchr(word, '=');
		bool known;

		if (!value) {
			snprintf(why, room, "`%s` is not of the form NAME=VALUE", word);
			return -EINVAL;
		}
		*value++ = '\0';
		if (read_word(faults, word, value, &known))
			continue;
		snprintf(why, room, known ? "`%2$s` is no value for `%1$s`" : "there is no fault `%1$s`", word, value);
		return -EINVAL;
	}
	return 0;
}

static int check_whole(struct vb_faults *faults, char *why, size_t room)
{
	bool delays = faults->share[DELAY] > 0;

	for (unsigned i = 0; i < faults->rules; i++)
		delays |= faults->rule[i].action == DELAY;
	if (delays && faults->delay_most == 0) {
		snprintf(why, room, "how long? `delay=TIME` is missing");
		return -EINVAL;
	}
	if (!delays && faults->delay_most > 0)
		faults->share[DELAY] = 1;
	return 0;
}

int vb_faults_create(struct vb_faults **out, const char *specification, char *why, size_t room)
{
	struct vb_faults *faults = calloc(1, sizeof(*faults));
	char *words = strdup(specification);
	int error = -ENOMEM;

	snprintf(why, room, "out of memory");
	if (faults && words) {
		faults->state = 1;
		error = read_words(faults, words, why, room);
		if (error == 0)
			error = check_whole(faults, why, room);
	}
	free(words);
	if (error != 0)
		free(faults);
	else
		*out = faults;
	return error;
}

bool vb_faults_connection_messages(const struct vb_faults *faults, struct vb_faults_messages *messages)
{
	bool any = false;

	*messages = faults->messages;
	for (unsigned i = 0; i < sizeof(messages->lost); i++)
		any |= messages->lost[i] > 0;
	return any;
}

bool vb_faults_keep_runs(const struct vb_faults *faults)
{
	for (unsigned i = 0; i < PACKET_ACTIONS; i++)
		if (i != DROP && i != CORRUPT && faults->share[i] > 0)
			return false;
	for (unsigned i = 0; i < faults->rules; i++)
		if (faults->rule[i].action != DROP && faults->rule[i].action != CORRUPT && faults->rule[i].action != CUT)
			return false;
	return true;
}

void vb_faults_destroy(struct vb_faults *faults)
{
	if (!faults)
		return;
	while (faults->queue_pair) {
		struct queue_pair *next = faults->queue_pair->next;

		free(faults->queue_pair);
		faults->queue_pair = next;
	}
	free(faults);
}

/* ---- decisions ---- */

static struct queue_pair *find_queue_pair(struct vb_faults *faults, uint32_t qpn)
{
	struct queue_pair *qp = faults->queue_pair;

	while (qp && qp->qpn != qpn)
		qp = qp->next;
	if (qp)
		return qp;
	qp = calloc(1, sizeof(*qp));
	if (qp) {
		qp->qpn = qpn;
		qp->ordinal = ++faults->queue_pairs;
		qp->next = faults->queue_pair;
		faults->queue_pair = qp;
	}
	return qp;
}

static bool rule_applies(const struct rule *rule, struct queue_pair *qp, unsigned index,
			 const struct vb_faults_packet *packet)
{
	uint32_t psn = packet->psn;

	if (!rule->by_psn)
		return qp->packets == rule->number;
	if (packet->is_fpdu)
		return false;
	if (rule->relative)
		psn = (psn - qp->first_psn[!packet->is_request]) & PSN_MASK;
	return psn == rule->number && qp->used[index]++ < rule->times;
}

static bool is_in_share(uint64_t number, double share)
{
	return (double)(number >> 11) * 0x1p-53 < share;
}

void vb_faults_decide(struct vb_faults *faults, const struct vb_faults_packet *packet,
		      struct vb_faults_action *action)
{
	struct queue_pair *qp = find_queue_pair(faults, packet->qpn);
	unsigned actions = packet->is_fpdu ? ACTIONS : PACKET_ACTIONS;
	bool act[ACTIONS] = {false};
	uint64_t at = faults->state;

	memset(action, 0, sizeof(*action));
	for (unsigned i = 0; i < actions; i++)
		act[i] = faults->share[i] > 0 && is_in_share(number_at(at + (i + 1) * DRAW), faults->share[i]);
	at += actions * DRAW;
	faults->state = at + NUMBERS * DRAW;
	if (!qp)
		return;
	qp->packets++;
	if (!qp->seen[!packet->is_request]) {
		qp->seen[!packet->is_request] = true;
		qp->first_psn[!packet->is_request] = packet->psn;
	}
	if ((faults->one_qp && faults->qp != (faults->by_ordinal ? qp->ordinal : qp->qpn)) ||
	    (faults->only_requests && !packet->is_request) || (faults->only_responses && packet->is_request))
		return;
	for (unsigned i = 0; i < faults->rules; i++)
		if (rule_applies(&faults->rule[i], qp, i, packet))
			act[faults->rule[i].action] = true;
	action->drop = act[DROP];
	action->duplicate = act[DUP];
	action->corrupt = act[CORRUPT];
	action->cut = act[CUT];
	action->behind = act[REORDER] ? 1 + (unsigned)(number_at(at + BEHIND * DRAW) % MOST_BEHIND) : 0;
	if (act[CORRUPT] || act[CUT])
		action->noise = (uint32_t)number_at(at + NOISE * DRAW);
	if (act[DELAY])
		action->delay = faults->delay_least +
				(vb_time)(number_at(at + LENGTH * DRAW) % (uint64_t)(faults->delay_most - faults->delay_least + 1));
}

size_t vb_faults_shorten(struct vb_faults *faults, size_t length)
{
	bool act = is_in_share(draw(faults), faults->shorter);
	uint64_t part = draw(faults);

	return act && length > 1 ? 1 + (size_t)(part % (length - 1)) : length;
}
