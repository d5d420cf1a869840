/* SPDX-License-Identifier: MIT
 *
 * Topology files: what ibnetdiscover writes and ibsim reads.
 *
 *   vendid=0x2c9  devid=0xb924  sysimgguid=0x...  switchguid=0x...(...)  caguid=0x...   of the node that follows, each on a line or many
 *   Switch 24 "S-0008f10400411f56"     # "description" enhanced port 0 lid 6 lmc 0
 *   Ca 2 "H-0008f10403961354"          # "description"
 *   [1](8f10403961355) "S-..."[13]     # ... 4xQDR
 *
 * Each cable may stand at both of its ends. `Hca` is `Ca`. A node's GUID is that of its line, else the hexadecimal
 * digits of its name, else made from its place in the file.
 */
#ifndef VB_FABRIC_TOPOLOGY_H
#define VB_FABRIC_TOPOLOGY_H

#include <stddef.h>

#include "base/time.h"
#include "fabric/fabric.h"

struct vb_topology_error {
	unsigned line;                     /* the first is 1 */
	char word[48];                     /* at which reading stopped; may be empty */
	char what[96];
};

/* Add the nodes and cables of a text to a fabric. 0 or -errno: -EINVAL with `error`, -ENOMEM. */
int vb_topology_read(struct vb_fabric *fabric, const char *text, size_t length, vb_time now, struct vb_topology_error *error);

/* "4xQDR", as ibnetdiscover spells it; NULL: no such rate. */
const char *vb_topology_rate_name(const struct vb_link_rate *rate);

#endif
