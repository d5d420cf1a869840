/* SPDX-License-Identifier: MIT
 *
 * From any bytes that call themselves a capture to a picture: reading, putting in order, drawing, saving. What is
 * drawn stands inside the picture and is well-formed text; what is saved is read again as the same story.
 *
 * Input: one byte of options, then the file.
 */
#include <math.h>
#include <string.h>

#include "capture/buffer.h"
#include "capture/ladder.h"
#include "capture/story.h"
#include "markup.h"
#include "target.h"

static void check_places(const struct vb_ladder *ladder)
{
	FUZZ_CHECK(ladder->lanes <= VB_LADDER_LANES);
	FUZZ_CHECK(isfinite(ladder->height));
	for (size_t i = 0; i < ladder->items; i++) {
		const struct vb_ladder_item *item = &ladder->item[i];

		FUZZ_CHECK(item->from < ladder->lanes && item->to < ladder->lanes);
		FUZZ_CHECK(item->times >= 1);
		FUZZ_CHECK(item->y > 0 && item->y <= ladder->height && item->arrival_y >= item->y);
	}
	for (size_t i = 0; i < ladder->gaps; i++)
		FUZZ_CHECK(ladder->gap[i].length > 0 && ladder->gap[i].y > 0 && ladder->gap[i].y <= ladder->height);
}

static void check_drawing(const struct vb_ladder *ladder, void (*draw)(const struct vb_ladder *, FILE *))
{
	size_t length = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return;
	draw(ladder, out);
	if (fclose(out) == 0)
		markup_check(text, length);
	free(text);
}

static void check_saving(const struct vb_story *story)
{
	struct vb_capture_buffer buffer = {0};
	struct vb_story again;
	char why[256];

	if (vb_story_encode(story, &buffer) != 0) {
		vb_capture_buffer_free(&buffer);
		return;
	}
	FUZZ_CHECK(vb_story_read(&again, buffer.bytes, buffer.used, why, sizeof(why)) == 0);
	FUZZ_CHECK(again.packets == story->packets && again.events == story->events && again.clock == story->clock);
	for (size_t i = 0; i < story->packets; i++) {
		FUZZ_CHECK(vb_story_time(&again.packet[i]) == vb_story_time(&story->packet[i]));
		FUZZ_CHECK(again.packet[i].length == story->packet[i].length);
		FUZZ_CHECK(memcmp(again.packet[i].datagram, story->packet[i].datagram, again.packet[i].length) == 0);
	}
	vb_story_free(&again);
}

static void check_story(const struct vb_story *story, uint8_t choice)
{
	struct vb_ladder_options options = {.absolute = choice & 1, .most = choice & 2 ? 5 : 200, .first = choice & 4 ? 2 : 0};
	struct vb_ladder ladder;

	for (size_t i = 1; i < story->packets; i++)
		FUZZ_CHECK(vb_story_time(&story->packet[i - 1]) <= vb_story_time(&story->packet[i]));
	if (choice & 8 && story->packets > 0)
		options.qpn = story->packet[choice % story->packets].note.peer_qpn;
	if (vb_ladder_build(&ladder, story, &options) != 0)
		return;
	check_places(&ladder);
	check_drawing(&ladder, choice & 16 ? vb_ladder_html : vb_ladder_svg);
	vb_ladder_free(&ladder);
	/* Of streams in disorder a second reading may join more than the first. */
	if (story->segmented == 0 && story->segments == 0)
		check_saving(story);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	struct vb_story story;
	char why[256];
	uint8_t *bytes;

	if (length < 1)
		return 0;
	bytes = malloc(length > 1 ? length - 1 : 1); /* of exactly that size, for the sanitizer */
	if (!bytes)
		return 0;
	memcpy(bytes, input + 1, length - 1);
	if (vb_story_read(&story, bytes, length - 1, why, sizeof(why)) == 0) {
		check_story(&story, input[0]);
		vb_story_free(&story);
	} else {
		FUZZ_CHECK(why[0] != '\0');
	}
	return 0;
}
