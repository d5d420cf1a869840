/* SPDX-License-Identifier: MIT */
#include "cli/fabric_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fabric_picture.h"
#include "io/clock.h"
#include "io/descriptor.h"
#include "io/unix_socket.h"

static const char prefix[] = "verbena-fabric/";

void vb_cli_fabric_socket(uint16_t port, char out[32])
{
	snprintf(out, 32, "%s%u", prefix, port);
}

/* A line ends with the name; that of an abstract socket begins with @. */
bool vb_cli_fabric_find(uint16_t *port)
{
	FILE *table = fopen("/proc/net/unix", "re");
	unsigned long least = UINT16_MAX + 1UL;
	char line[512];

	while (table && fgets(line, sizeof(line), table)) {
		const char *name = strstr(line, " @");
		unsigned long number;

		if (!name || strncmp(name + 2, prefix, strlen(prefix)) != 0)
			continue;
		number = strtoul(name + 2 + strlen(prefix), NULL, 10);
		if (number > 0 && number < least)
			least = number;
	}
	if (table)
		fclose(table);
	*port = (uint16_t)least;
	return least <= UINT16_MAX;
}

int vb_cli_fabric_request(uint16_t port, const char *request, vb_time patience, FILE *out, FILE *problem)
{
	char name[32], answer[32 * 1024];
	int error = -EINVAL, fd;
	unsigned count;
	ssize_t length;

	vb_cli_fabric_socket(port, name);
	fd = vb_unix_connect(name);
	if (fd < 0)
		return -ENOENT;
	if (vb_unix_send(fd, request, strlen(request), NULL, 0, true) == 0)
		while ((length = vb_unix_receive(fd, answer, sizeof(answer), NULL, 0, &count, vb_clock_now() + patience)) > 0) {
			error = answer[0] == '+' ? 0 : -EINVAL;
			fwrite(answer + 1, 1, (size_t)length - 1, error ? problem : out);
		}
	vb_descriptor_close(fd);
	return error;
}

int vb_cli_fabric_list_get(uint16_t port, vb_time patience, struct vb_cli_fabric_list *list)
{
	size_t length = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);
	int error = out ? vb_cli_fabric_request(port, "list", patience, out, out) : -ENOMEM;

	*list = (struct vb_cli_fabric_list){ 0 };
	if (out && fclose(out) != 0 && error == 0)
		error = -ENOMEM;
	if (error == 0)
		error = vb_cli_fabric_list_read(list, text);
	free(text);
	return error;
}
