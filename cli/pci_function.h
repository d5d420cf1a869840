/* SPDX-License-Identifier: MIT
 *
 * The PCI function behind a network interface.
 */
#ifndef VB_CLI_PCI_FUNCTION_H
#define VB_CLI_PCI_FUNCTION_H

#include <stdbool.h>

#include "cli/library.h"

/* Its directory below `sysfs`, without links in it: only one that has the interface in its own `net`, as an adapter's function has, because
 * scripts look for device/net there. False for an interface of no hardware, and for one with a bus in between (virtio). */
bool vb_cli_pci_function(const char *sysfs, const char *interface, char out[VB_CLI_PATH_MAX]);

#endif
