/* SPDX-License-Identifier: MIT
 *
 * Any answers of a subnet administration to the three questions that verbenad asks. An input is a list of MADs; those whose first byte
 * is odd are of a transaction under way. Each question is answered once at most, and what is told without an error is sound.
 */
#include <string.h>

#include "lib/subnet_world.h"
#include "target.h"
#include "wire/mtu.h"

enum { STEP = 120 };

static const enum vb_sa_attribute attributes[] = {VB_SA_SERVICE_RECORD, VB_SA_PATH_RECORD, VB_SA_MEMBER_RECORD};
static const uint8_t to[][16] = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}, {0xfe, 0x80, [15] = 7}, {0xff, 0x12, 0x40, 1, [15] = 7}};

static void check(const struct vb_subnet_answer *answer)
{
	if (answer->error != 0)
		return;
	FUZZ_CHECK(answer->question != VB_SUBNET_ADDRESS || answer->path.destination[0] != 0xff);
	FUZZ_CHECK(answer->question == VB_SUBNET_ADDRESS || memcmp(answer->path.destination, to[answer->question], 16) == 0);
	FUZZ_CHECK(answer->question != VB_SUBNET_PATH || (answer->path.dlid != 0 && answer->path.dlid < 0xc000 && answer->path.sl < 16));
	FUZZ_CHECK(answer->question != VB_SUBNET_PATH || vb_mtu_bytes(answer->mtu) != 0);
	FUZZ_CHECK(answer->question != VB_SUBNET_GROUP || (answer->path.dlid >= 0xc000 && answer->path.dlid != 0xffff));
}

static void ask(struct subnet_world *world, enum vb_subnet_question question)
{
	struct vb_subnet_request request = {.question = question, .owner = world, .id = question, .patience = VB_SECONDS(1)};

	memcpy(request.to, to[question], 16);
	FUZZ_CHECK(vb_subnet_client_ask(&world->client, world->now, &request) == 0);
}

/* As it comes, or made likely: an answer to the last request of its kind. */
static struct vb_sa_mad mad_of(const struct subnet_world *world, const uint8_t *input)
{
	enum vb_subnet_question question = (enum vb_subnet_question)(input[1] % 3);
	const struct vb_sa_mad *sent = subnet_world_sent(world, attributes[question]);
	struct vb_sa_mad mad = {0};

	memcpy(&mad, input + 2, STEP - 2);
	if (!(input[0] & 1) || !sent)
		return mad;
	mad.header = sent->header;
	mad.header.method = input[0] & 2 ? input[2] : VB_MAD_GET_RESPONSE;
	if (input[0] & 4)
		mad.header.status = be16_of(input[3]);
	if (input[0] & 8)
		mad.header.attribute = be16_of(input[4]);
	memset(mad.data, 0, sizeof(mad.data));
	memcpy(mad.data, input + 8, STEP - 8);
	/* The name of what was asked for, so that the rest is looked at. */
	if (input[0] & 16)
		memcpy(mad.data + (question == VB_SUBNET_GROUP ? 0 : 8), to[question], 16);
	return mad;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	static struct subnet_world world;
	unsigned answers = 0;

	subnet_world_begin(&world);
	subnet_world_run(&world, world.now + VB_MILLISECONDS(1));
	for (enum vb_subnet_question question = VB_SUBNET_ADDRESS; question <= VB_SUBNET_GROUP; question++)
		ask(&world, question);
	for (size_t at = 0; at + STEP <= length; at += STEP) {
		struct vb_sa_mad mad = mad_of(&world, input + at);

		subnet_world_receive(&world, &mad);
		if (world.answers != answers)
			check(&world.answer);
		FUZZ_CHECK(world.answers <= answers + 1);
		answers = world.answers;
	}
	subnet_world_run(&world, world.now + VB_SECONDS(2));
	FUZZ_CHECK(world.answers == 3);
	subnet_world_end(&world);
	return 0;
}
