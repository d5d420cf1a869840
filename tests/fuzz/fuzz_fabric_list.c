/* SPDX-License-Identifier: MIT
 *
 * The list of a fabric as another process gives it (`verbena fabric show`, `verbena web`), of any bytes: what is accepted has links
 * between nodes that are there, and its picture is well-formed whatever the names are.
 *
 * Input: one byte that is not used, then the list.
 */
#include <errno.h>
#include <string.h>

#include "cli/fabric_picture.h"
#include "markup.h"
#include "target.h"

static void check_list(struct vb_cli_fabric_list *list, bool as_json)
{
	size_t length = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);

	FUZZ_CHECK(out);
	for (unsigned i = 0; i < list->link_count; i++)
		FUZZ_CHECK(list->links[i].node[0] < list->node_count && list->links[i].node[1] < list->node_count);
	if (as_json)
		vb_cli_fabric_list_json(list, out);
	else
		vb_cli_fabric_list_svg(list, out);
	FUZZ_CHECK(fclose(out) == 0);
	if (as_json)
		markup_check_characters(text, length);
	else
		markup_check(text, length);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	struct vb_cli_fabric_list list = {0};
	char *text;
	int result;

	if (length < 1)
		return 0;
	text = malloc(length); /* of exactly that size, for the sanitizer */
	FUZZ_CHECK(text);
	memcpy(text, input + 1, length - 1);
	text[length - 1] = '\0';
	result = vb_cli_fabric_list_read(&list, text);
	FUZZ_CHECK(result == 0 || result == -EPROTO || result == -ENOMEM);
	if (result == 0) {
		check_list(&list, true);
		check_list(&list, false);
	}
	vb_cli_fabric_list_free(&list);
	free(text);
	return 0;
}
