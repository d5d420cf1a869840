/* SPDX-License-Identifier: MIT
 *
 * Topology files of any bytes. What is accepted has cables with two ends each; what is refused names a line that is there.
 */
#include <errno.h>
#include <string.h>

#include "fabric/topology.h"
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	static const struct vb_fabric_host host;
	struct vb_topology_error error;
	struct vb_fabric fabric;
	unsigned lines = 1;
	char *text;
	int result;

	if (length < 1)
		return 0;
	text = malloc(length); /* of exactly that size, for the sanitizer */
	if (!text)
		return 0;
	memcpy(text, input + 1, length - 1);
	for (size_t i = 0; i + 1 < length; i++)
		lines += text[i] == '\n';
	vb_fabric_init(&fabric, &host, NULL);
	result = vb_topology_read(&fabric, text, length - 1, 0, &error);
	FUZZ_CHECK(result == 0 || result == -EINVAL);
	if (result != 0)
		FUZZ_CHECK(error.line <= lines && error.what[0] && strlen(error.word) < sizeof(error.word));
	for (const struct vb_fabric_node *node = fabric.first; node; node = node->next)
		for (unsigned i = 1; i <= node->ports; i++)
			FUZZ_CHECK(!node->port[i].peer || node->port[i].peer->peer == &node->port[i]);
	vb_fabric_fini(&fabric);
	free(text);
	return 0;
}
