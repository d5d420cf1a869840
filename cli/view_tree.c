/* SPDX-License-Identifier: MIT
 *
 * The forms are those of the kernel's drivers/infiniband/core/sysfs.c and uverbs_main.c
 * (Documentation/ABI/stable/sysfs-class-infiniband), the arrangement that of a software device:
 *
 *   /sys/class/infiniband/roce_eth0             -> ../../devices/virtual/infiniband/roce_eth0
 *   /sys/class/infiniband_verbs/uverbs2         -> ../../devices/virtual/infiniband_verbs/uverbs2
 *   /sys/class/infiniband_mad/umad0             -> ../../devices/virtual/infiniband_mad/umad0; and issm0. Of vib0, which alone has agents
 *   /sys/devices/virtual/infiniband/roce_eth0/device -> the PCI function of eth0 (cli/pci_function.h), or what stands for one:
 *   /sys/devices/virtual/verbena/f000:02:00.0
 *   /dev/infiniband/uverbs2                     -> /dev/null, a character device that all may open; likewise umad0 and issm0
 *
 * The last but one is for programs that cannot do without `device`: NCCL, which takes what follows the last slash for
 * a PCI address and sets its last digits to zero, and scripts that look for device/net. It is in no subsystem, so none
 * takes it for PCI. Counters are empty files: those who open them are given the figure by what is preloaded (src/preload/counters.h).
 */
#include "cli/view_tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/port_figures.h"
#include "profiles/profile.h"
#include "wire/path.h"

enum { TEXT_ROOM = 512 };

static struct vb_cli_view_entry *add(struct vb_cli_view_tree *tree)
{
	if (tree->count == tree->room) {
		size_t room = tree->room ? 2 * tree->room : 64;
		void *more = realloc(tree->entry, room * sizeof(*tree->entry));

		if (!more) {
			tree->out_of_memory = true;
			return NULL;
		}
		tree->entry = more;
		tree->room = room;
	}
	return &tree->entry[tree->count];
}

static void add_entry(struct vb_cli_view_tree *tree, const char *directory, const char *name, const char *text,
		      bool is_link)
{
	struct vb_cli_view_entry *entry = add(tree);
	char path[TEXT_ROOM];

	if (!entry)
		return;
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	*entry = (struct vb_cli_view_entry){.path = strdup(path), .text = strdup(text), .is_link = is_link};
	if (!entry->path || !entry->text) {
		free(entry->path);
		free(entry->text);
		tree->out_of_memory = true;
		return;
	}
	tree->count++;
}

/* A file of one line. */
__attribute__((format(printf, 4, 5)))
static void add_file(struct vb_cli_view_tree *tree, const char *directory, const char *name, const char *format, ...)
{
	char text[TEXT_ROOM];
	va_list arguments;
	size_t length;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text) - 1, format, arguments);
	va_end(arguments);
	length = strlen(text);
	memcpy(text + length, "\n", 2);
	add_entry(tree, directory, name, text, false);
}

__attribute__((format(printf, 4, 5)))
static void add_link(struct vb_cli_view_tree *tree, const char *directory, const char *name, const char *format, ...)
{
	char text[TEXT_ROOM];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	add_entry(tree, directory, name, text, true);
}

/* ---- ports ---- */

static const char *state_name(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_INIT: return "2: INIT";
	case IBV_PORT_ARMED: return "3: ARMED";
	case IBV_PORT_ACTIVE: return "4: ACTIVE";
	default: return "1: DOWN";
	}
}

static bool is_infiniband(const struct vb_device_info *info)
{
	return info->kind == VB_DEVICE_INFINIBAND;
}

static const char *node_name(enum ibv_node_type type)
{
	return type == IBV_NODE_RNIC ? "RNIC" : "CA";
}

static const char *physical_name(const struct vb_device_info *info)
{
	enum { POLLING = 2, LINK_UP = 5 };

	if (is_infiniband(info) ? info->subnet.physical == LINK_UP : info->state == IBV_PORT_ACTIVE)
		return "5: LinkUp";
	return is_infiniband(info) && info->subnet.physical == POLLING ? "2: Polling" : "3: Disabled";
}

static unsigned lanes_of(uint8_t width)
{
	switch (width) {
	case 1: return 1;
	case 4: return 8;
	case 8: return 12;
	case 16: return 2;
	default: return 4;
	}
}

static void add_rate(struct vb_cli_view_tree *tree, const char *port, const struct vb_device_info *info)
{
	/* By the code of ibv_port_attr.active_speed: tenths of Gb/s per lane, and what the kernel calls it. */
	static const struct { uint8_t code; unsigned tenths; const char *name; } speeds[] = {
		{1, 25, ""}, {2, 50, " DDR"}, {4, 100, " QDR"}, {8, 100, " FDR10"}, {16, 140, " FDR"}, {32, 250, " EDR"},
		{64, 500, " HDR"}, {128, 1000, " NDR"},
	};
	uint8_t width, speed;
	unsigned lanes, tenths;
	size_t i = 0;

	vb_device_link_speed(info, &width, &speed);
	while (i + 1 < sizeof(speeds) / sizeof(speeds[0]) && speeds[i].code != speed)
		i++;
	lanes = lanes_of(width);
	tenths = lanes * speeds[i].tenths;
	add_file(tree, port, "rate", "%u%s Gb/sec (%uX%s)", tenths / 10, tenths % 10 ? ".5" : "", lanes, speeds[i].name);
}

/* The bytes of an entry, and whether there is one. */
static bool read_gid(const struct vb_device_info *info, unsigned index, uint8_t gid[16])
{
	static const uint8_t none[16];

	memset(gid, 0, sizeof(none));
	if (vb_profile_of(info->kind)->gid_layout == VB_GIDS_MAC)
		memcpy(gid, info->mac, sizeof(info->mac));
	else if (index < info->gid_count)
		memcpy(gid, info->gid[index].gid, sizeof(none));
	return memcmp(gid, none, sizeof(none)) != 0;
}

/* The kernel has one word for GIDs of InfiniBand, of RoCEv1 and of RNICs. */
static bool is_of_rocev2(const struct vb_device_info *info, unsigned index)
{
	return vb_profile_of(info->kind)->gid_layout == VB_GIDS_ADDRESSES && info->gid[index].framing != VB_FRAMING_ETHERNET;
}

static void add_gids(struct vb_cli_view_tree *tree, const char *port, const struct vb_device_info *info)
{
	char name[16], gids[TEXT_ROOM], types[TEXT_ROOM], interfaces[TEXT_ROOM];
	uint8_t b[16];

	snprintf(gids, sizeof(gids), "%s/gids", port);
	snprintf(types, sizeof(types), "%s/gid_attrs/types", port);
	snprintf(interfaces, sizeof(interfaces), "%s/gid_attrs/ndevs", port);
	for (unsigned i = 0; i < vb_profile_of(info->kind)->port.gid_table_length; i++) {
		bool is_set = read_gid(info, i, b);

		snprintf(name, sizeof(name), "%u", i);
		add_file(tree, gids, name, "%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x",
			 b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
			 b[15]);
		if (!is_set)
			continue;
		add_file(tree, types, name, is_of_rocev2(info, i) ? "RoCE v2" : "IB/RoCE v1");
		if (!is_infiniband(info))
			add_file(tree, interfaces, name, "%s", info->interface);
	}
}

static void add_pkeys(struct vb_cli_view_tree *tree, const char *port, const struct vb_device_info *info)
{
	char pkeys[TEXT_ROOM], name[16];

	snprintf(pkeys, sizeof(pkeys), "%s/pkeys", port);
	if (!is_infiniband(info)) {
		if (vb_profile_of(info->kind)->port.pkey_table_length > 0)
			add_file(tree, pkeys, "0", "0xffff");
		return;
	}
	for (unsigned i = 0; i < VB_DAEMON_ADAPTER_PKEYS; i++) {
		snprintf(name, sizeof(name), "%u", i);
		add_file(tree, pkeys, name, "0x%04x", info->subnet.pkeys[i]);
	}
}

/* Is there a figure for it that is the device's? */
static bool is_of_a_device(const char *name)
{
#define X(of_none) if (!strcmp(name, #of_none)) return false;
	VB_COUNTERS_OF_NO_DEVICE(X)
#undef X
	return true;
}

static void add_counters(struct vb_cli_view_tree *tree, const char *port, const struct vb_device_info *info)
{
	char of_device[TEXT_ROOM], of_port[TEXT_ROOM];

	snprintf(of_device, sizeof(of_device), "%s/hw_counters", port);
	snprintf(of_port, sizeof(of_port), "%s/counters", port);
#define X(name) if (is_of_a_device(#name)) add_entry(tree, of_device, #name, "", false);
	VB_COUNTERS(X)
#undef X
#define X(name) add_entry(tree, of_port, #name, "", false);
	VB_PORT_FIGURES_OF_ALL(X)
	if (!is_infiniband(info))
		return;
	VB_PORT_FIGURES_OF_SUBNETS(X)
#undef X
}

static void add_port(struct vb_cli_view_tree *tree, const char *device, const struct vb_device_info *info)
{
	char port[TEXT_ROOM / 2];

	snprintf(port, sizeof(port), "%s/ports/1", device);
	add_file(tree, port, "cap_mask", "0x%08x", is_infiniband(info) ? info->subnet.capabilities :
		 vb_profile_of(info->kind)->port.cap_flags);
	/* Zeros where there is no subnet. */
	add_file(tree, port, "lid", "0x%x", info->subnet.lid);
	add_file(tree, port, "lid_mask_count", "%u", info->subnet.lmc);
	add_file(tree, port, "link_layer", is_infiniband(info) ? "InfiniBand" : "Ethernet");
	add_file(tree, port, "phys_state", "%s", physical_name(info));
	add_file(tree, port, "sm_lid", "0x%x", info->subnet.sm_lid);
	add_file(tree, port, "sm_sl", "%u", info->subnet.sm_sl);
	add_file(tree, port, "state", "%s", state_name(info->state));
	add_pkeys(tree, port, info);
	add_rate(tree, port, info);
	add_gids(tree, port, info);
	add_counters(tree, port, info);
}

/* ---- what stands for a PCI function ---- */

/* As many bits as there are processors, in words of 32, the highest first. */
static void add_processors(struct vb_cli_view_tree *tree, const char *directory)
{
	long count = sysconf(_SC_NPROCESSORS_CONF);
	char text[TEXT_ROOM] = "";
	size_t used = 0;

	if (count < 1)
		count = 1;
	for (long word = (count - 1) / 32; word >= 0 && used + 10 < sizeof(text); word--) {
		unsigned bits = word == (count - 1) / 32 && count % 32 ? (1u << count % 32) - 1 : UINT32_MAX;

		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%08x", used ? "," : "", bits);
	}
	add_file(tree, directory, "local_cpus", "%s", text);
	add_file(tree, directory, "local_cpulist", count > 1 ? "0-%ld" : "%ld", count - 1);
}

static void add_function(struct vb_cli_view_tree *tree, const char *address, const struct vb_device_info *info)
{
	char directory[TEXT_ROOM / 4], net[TEXT_ROOM / 2], infiniband[TEXT_ROOM / 2];

	snprintf(directory, sizeof(directory), "/sys/devices/virtual/verbena/%s", address);
	snprintf(net, sizeof(net), "%s/net", directory);
	snprintf(infiniband, sizeof(infiniband), "%s/infiniband", directory);
	add_file(tree, directory, "class", "0x020000");
	add_file(tree, directory, "vendor", "0x0000");
	add_file(tree, directory, "device", "0x0001");
	add_file(tree, directory, "numa_node", "-1");
	add_processors(tree, directory);
	if (!is_infiniband(info))
		add_link(tree, net, info->interface, "/sys/class/net/%s", info->interface);
	add_link(tree, infiniband, info->name, "../../../infiniband/%s", info->name);
}

/* ---- devices ---- */

static void add_guid(struct vb_cli_view_tree *tree, const char *directory, const char *name, uint64_t guid)
{
	add_file(tree, directory, name, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48), (unsigned)(guid >> 32 & 0xffff),
		 (unsigned)(guid >> 16 & 0xffff), (unsigned)(guid & 0xffff));
}

static void add_device_link(struct vb_cli_view_tree *tree, const char *directory, const char *address, const char *pci)
{
	if (pci)
		add_link(tree, directory, "device", "%s", pci);
	else
		add_link(tree, directory, "device", "../../verbena/%s", address);
}

/* MADs go through libibumad; programs that are given such a file ask sysfs whose it is. */
static void add_mad_file(struct vb_cli_view_tree *tree, const char *name, const struct vb_device_info *info)
{
	char directory[TEXT_ROOM / 4];

	snprintf(directory, sizeof(directory), "/sys/devices/virtual/infiniband_mad/%s", name);
	add_link(tree, "/sys/class/infiniband_mad", name, "../../devices/virtual/infiniband_mad/%s", name);
	add_file(tree, directory, "ibdev", "%s", info->name);
	add_file(tree, directory, "port", "1");
	add_link(tree, "/dev/infiniband", name, "/dev/null");
}

void vb_cli_view_tree_add_device(struct vb_cli_view_tree *tree, const struct vb_device_info *info, const char *pci,
				 bool openable)
{
	enum ibv_node_type node_type = vb_profile_of(info->kind)->node_type;
	char device[TEXT_ROOM / 4], verbs[TEXT_ROOM / 4], uverbs[32], address[32];

	snprintf(device, sizeof(device), "/sys/devices/virtual/infiniband/%.63s", info->name);
	snprintf(uverbs, sizeof(uverbs), "uverbs%u", info->index); /* as vb_device_from_info names it */
	snprintf(verbs, sizeof(verbs), "/sys/devices/virtual/infiniband_verbs/%s", uverbs);
	/* One for each interface, in a domain that no machine has. */
	snprintf(address, sizeof(address), "%04x:%02x:00.0", 0xf000 | (info->index >> 8 & 0xfff),
		 info->index & 0xff);

	add_link(tree, "/sys/class/infiniband", info->name, "../../devices/virtual/infiniband/%s", info->name);
	add_file(tree, device, "fw_ver", "verbena " VERBENA_VERSION);
	add_file(tree, device, "hca_type", "verbena");
	add_file(tree, device, "hw_rev", "1");
	add_file(tree, device, "node_desc", "%s", info->name);
	add_file(tree, device, "node_type", "%d: %s", node_type, node_name(node_type));
	add_guid(tree, device, "node_guid", info->guid);
	add_guid(tree, device, "sys_image_guid", info->guid);
	add_device_link(tree, device, address, pci);
	add_port(tree, device, info);
	if (!pci)
		add_function(tree, address, info);

	add_link(tree, "/sys/class/infiniband_verbs", uverbs, "../../devices/virtual/infiniband_verbs/%s", uverbs);
	add_file(tree, verbs, "abi_version", "1");
	add_file(tree, verbs, "ibdev", "%s", info->name);
	add_device_link(tree, verbs, address, pci);
	if (openable)
		add_link(tree, "/dev/infiniband", uverbs, "/dev/null");
	if (is_infiniband(info)) {
		add_mad_file(tree, "umad0", info);
		add_mad_file(tree, "issm0", info);
	}
}

void vb_cli_view_tree_add_rest(struct vb_cli_view_tree *tree)
{
	add_file(tree, "/sys/class/infiniband_verbs", "abi_version", "6");
	/* Without it libibumad does not look at a device's other files, which is all that ibstat wants. */
	add_file(tree, "/sys/class/infiniband_mad", "abi_version", "5");
	add_link(tree, "/dev/infiniband", "rdma_cm", "/dev/null");
}

/* FNV-1a, ends of strings included. */
static uint64_t hash_string(uint64_t hash, const char *text)
{
	do
		hash = (hash ^ (uint8_t)*text) * 0x100000001b3;
	while (*text++);
	return hash;
}

uint64_t vb_cli_view_tree_hash(const struct vb_cli_view_tree *tree)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < tree->count; i++)
		hash = hash_string(hash_string(hash, tree->entry[i].path), tree->entry[i].text);
	return hash;
}

void vb_cli_view_tree_free(struct vb_cli_view_tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		free(tree->entry[i].path);
		free(tree->entry[i].text);
	}
	free(tree->entry);
	*tree = (struct vb_cli_view_tree){0};
}
