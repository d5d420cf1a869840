/* SPDX-License-Identifier: MIT
 *
 * What is in a view: the files below /sys and /dev that a kernel with these devices would have, as a list in memory.
 */
#ifndef VB_CLI_VIEW_TREE_H
#define VB_CLI_VIEW_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "progress/devices.h"

struct vb_cli_view_entry {
	char *path;                      /* as programs know it: /sys/class/infiniband/... */
	char *text;                      /* of the file, or where the link leads */
	bool is_link;
};

struct vb_cli_view_tree {
	struct vb_cli_view_entry *entry;
	size_t count, room;
	bool out_of_memory;              /* and so not whole */
};

/* Add all there is to see of a device. `pci` is the directory of the PCI function behind its interface, or NULL;
 * `openable`: with its file in /dev/infiniband. */
void vb_cli_view_tree_add_device(struct vb_cli_view_tree *tree, const struct vb_device_info *info, const char *pci,
				 bool openable);

/* What is there whatever the devices. */
void vb_cli_view_tree_add_rest(struct vb_cli_view_tree *tree);

/* Two trees with the same figure are the same. */
uint64_t vb_cli_view_tree_hash(const struct vb_cli_view_tree *tree);

void vb_cli_view_tree_free(struct vb_cli_view_tree *tree);

#endif
