/* SPDX-License-Identifier: MIT
 *
 * What users write into variables, or files of theirs put there, of any bytes: VERBENA_FAULTS, VERBENA_IWARP, VERBENA_ROCE,
 * VERBENA_PROFILE. What is refused is refused with a sentence; what is accepted decides about packets, the same way each time.
 *
 * Input: one byte that chooses which, then the text.
 */
#include <errno.h>
#include <string.h>

#include "connect/mpa_settings.h"
#include "links/faults.h"
#include "profiles/adapter.h"
#include "profiles/roce_versions.h"
#include "target.h"

enum { PACKETS = 200 };

static void judge(struct vb_faults *faults, unsigned i, struct vb_faults_action *action)
{
	struct vb_faults_packet packet = {.qpn = 1 + i % 3, .psn = i, .is_request = i % 2, .is_fpdu = i % 5 == 0};

	memset(action, 0, sizeof(*action));
	vb_faults_decide(faults, &packet, action);
}

static void check_faults(const char *text)
{
	struct vb_faults *faults = NULL, *again = NULL;
	struct vb_faults_messages messages;
	char why[256] = "";
	int result = vb_faults_create(&faults, text, why, sizeof(why));

	FUZZ_CHECK(result == 0 || result == -EINVAL || result == -ENOMEM);
	if (result != 0) {
		FUZZ_CHECK(!faults && (result != -EINVAL || why[0]));
		return;
	}
	FUZZ_CHECK(vb_faults_create(&again, text, why, sizeof(why)) == 0);
	for (unsigned i = 0; i < PACKETS; i++) {
		struct vb_faults_action one, other;

		judge(faults, i, &one);
		judge(again, i, &other);
		FUZZ_CHECK(one.drop == other.drop && one.duplicate == other.duplicate && one.corrupt == other.corrupt &&
			   one.cut == other.cut && one.delay == other.delay && one.behind == other.behind && one.noise == other.noise);
		FUZZ_CHECK(one.delay >= 0);
		FUZZ_CHECK(vb_faults_shorten(faults, i) <= i && (i == 0 || vb_faults_shorten(faults, i) > 0));
		(void)vb_faults_shorten(again, i);
		if (i > 0)
			(void)vb_faults_shorten(again, i);
	}
	(void)vb_faults_connection_messages(faults, &messages);
	(void)vb_faults_keep_runs(faults);
	vb_faults_destroy(faults);
	vb_faults_destroy(again);
}

static void check_iwarp(const char *text)
{
	struct vb_mpa_settings settings;
	char why[64] = "";
	bool good = vb_mpa_settings_parse(&settings, text, why, sizeof(why));

	FUZZ_CHECK(good || memchr(why, '\0', sizeof(why)));
	FUZZ_CHECK(settings.first_ms >= -1 && settings.last_ms >= 0);
	FUZZ_CHECK(settings.crc <= VB_MPA_OFF && settings.large <= VB_MPA_OFF);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	char *text;

	if (length < 1)
		return 0;
	text = malloc(length); /* of exactly that size, for the sanitizer */
	FUZZ_CHECK(text);
	memcpy(text, input + 1, length - 1);
	text[length - 1] = '\0';
	if (input[0] % 4 < 2)
		check_faults(text);
	else if (input[0] % 4 == 2)
		check_iwarp(text);
	else
		(void)vb_roce_versions(text, vb_adapter_find(text) ? text : NULL);
	free(text);
	return 0;
}
