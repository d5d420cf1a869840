/* SPDX-License-Identifier: MIT */
#include "cli/pci_function.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool ends_in(const char *text, const char *end)
{
	size_t length = strlen(text), less = strlen(end);

	return length >= less && !strcmp(text + length - less, end);
}

bool vb_cli_pci_function(const char *sysfs, const char *interface, char out[VB_CLI_PATH_MAX])
{
	char path[VB_CLI_PATH_MAX + 32], subsystem[VB_CLI_PATH_MAX];
	ssize_t length;

	snprintf(path, sizeof(path), "%s/class/net/%s/device/subsystem", sysfs, interface);
	length = readlink(path, subsystem, sizeof(subsystem) - 1);
	if (length < 0)
		return false;
	subsystem[length] = '\0';
	if (!ends_in(subsystem, "/pci"))
		return false;
	snprintf(path, sizeof(path), "%s/class/net/%s/device/net/%s", sysfs, interface, interface);
	if (access(path, F_OK) != 0)
		return false;
	snprintf(path, sizeof(path), "%s/class/net/%s/device", sysfs, interface);
	return realpath(path, out) != NULL;
}
