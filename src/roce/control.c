/* SPDX-License-Identifier: MIT
 *
 * The table of algorithms, and policies as users write them.
 */
#include "roce/control.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "roce/congestion.h"

const struct vb_roce_algorithm vb_roce_algorithms[VB_CONTROLS] = {
	[VB_CONTROL_WINDOW] = {
		.name = "window",
		.start = vb_roce_window_start,
		.acknowledged = vb_roce_window_acknowledged,
		.lost = vb_roce_window_lost,
		.timed_out = vb_roce_window_timed_out,
		.notified = vb_roce_window_notified,
	},
	[VB_CONTROL_DCQCN] = {
		.name = "dcqcn",
		.has_rate = true,
		.start = vb_dcqcn_start,
		.acknowledged = vb_roce_window_acknowledged,
		.lost = vb_roce_window_lost,
		.timed_out = vb_roce_window_timed_out,
		.notified = vb_dcqcn_notified,
		.passed = vb_dcqcn_passed,
	},
	[VB_CONTROL_TIMELY] = {
		.name = "timely",
		.has_rate = true,
		.start = vb_timely_start,
		.acknowledged = vb_roce_window_acknowledged,
		.lost = vb_roce_window_lost,
		.timed_out = vb_roce_window_timed_out,
		.notified = vb_timely_notified,
		.round_trip = vb_timely_round_trip,
	},
};

#define DEFAULT_RATE 100000000000ull
#define DEFAULT_BURST VB_MICROSECONDS(50)

static const struct vb_roce_policy window_policy = {.algorithm = &vb_roce_algorithms[VB_CONTROL_WINDOW]};
static const struct vb_roce_policies *chosen;

void vb_roce_policies_set(const struct vb_roce_policies *policies)
{
	__atomic_store_n(&chosen, policies, __ATOMIC_RELEASE);
}

const struct vb_roce_policy *vb_roce_policy_for(const char *device)
{
	const struct vb_roce_policies *policies = __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
	const struct vb_roce_policy *policy = &window_policy;

	for (unsigned i = 0; policies && i < policies->count; i++) {
		if (device && strcmp(policies->of[i].device, device) == 0)
			return &policies->of[i].policy;
		if (policies->of[i].device[0] == '\0')
			policy = &policies->of[i].policy;
	}
	return policy;
}

/* Bits a second; 0: that is no rate. */
static uint64_t parse_rate(const char *text)
{
	char *end;
	unsigned long long number;
	uint64_t unit = 1;

	if (!isdigit((unsigned char)*text))
		return 0;
	number = strtoull(text, &end, 10);
	if (*end != '\0' && end[1] == '\0')
		unit = *end == 'k' ? 1000 : *end == 'M' ? 1000000 : *end == 'G' ? 1000000000 : 0;
	else if (*end != '\0')
		return 0;
	return unit != 0 && number <= UINT64_MAX / 1000 / unit ? number * unit : 0;
}

static bool is_word(const char *text, size_t length, const char *word)
{
	return strlen(word) == length && memcmp(text, word, length) == 0;
}

static const struct vb_roce_algorithm *find(const char *name, size_t length)
{
	for (unsigned i = 0; i < VB_CONTROLS; i++)
		if (is_word(name, length, vb_roce_algorithms[i].name))
			return &vb_roce_algorithms[i];
	return NULL;
}

bool vb_roce_policy_parse(struct vb_roce_policy *policy, const char *text)
{
	const char *colon = strchr(text, ':'), *at = strchr(text, '@');
	const char *end = at ? at : text + strlen(text);
	const struct vb_roce_algorithm *algorithm = find(text, (size_t)((colon ? colon : end) - text));
	const struct vb_dcqcn_parameters *dcqcn = &vb_dcqcn_adapter;
	uint64_t rate = at ? parse_rate(at + 1) : DEFAULT_RATE;

	if (!algorithm || (colon && colon > end) || rate == 0 || (at && !algorithm->has_rate) ||
	    (colon && algorithm != &vb_roce_algorithms[VB_CONTROL_DCQCN]))
		return false;
	if (colon && is_word(colon + 1, (size_t)(end - colon - 1), "paper"))
		dcqcn = &vb_dcqcn_paper;
	else if (colon && !is_word(colon + 1, (size_t)(end - colon - 1), "adapter"))
		return false;
	*policy = (struct vb_roce_policy){
		.algorithm = algorithm,
		.dcqcn = dcqcn,
		.timely = &vb_timely_default,
		.line_rate = rate,
		.burst = DEFAULT_BURST,
	};
	return true;
}

static bool parse_one(struct vb_roce_policies *policies, char *word)
{
	char *equals = strchr(word, '='), *text = equals ? equals + 1 : word;
	size_t length = equals ? (size_t)(equals - word) : 0;

	if (policies->count == VB_ROCE_MOST_POLICIES || (equals && length == 0) ||
	    !vb_roce_policy_parse(&policies->of[policies->count].policy, text))
		return false;
	memcpy(policies->of[policies->count].device, word, length);
	policies->of[policies->count++].device[length] = '\0';
	return true;
}

bool vb_roce_policies_parse(struct vb_roce_policies *policies, const char *text, char word[VB_ROCE_DEVICE_NAME])
{
	policies->count = 0;
	for (;; text++) {
		size_t length = strcspn(text, ",");

		snprintf(word, VB_ROCE_DEVICE_NAME, "%.*s", (int)length, text);
		if (length >= VB_ROCE_DEVICE_NAME || !parse_one(policies, word))
			return false;
		text += length;
		if (*text == '\0')
			return true;
	}
}
