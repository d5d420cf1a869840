/* SPDX-License-Identifier: MIT
 *
 * Since rdma-core 55 an adapter may have one device for subnet management (SMI) and another for all else (GSI), and libibmad asks which
 * belong together. Here it is the same one. rdma-core 44's headers know nothing of it, so the struct stands here, and the functions have
 * other names in C, which the headers of later ones would not agree with.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "umad/ports.h"
#include "wire/mad_attributes.h"

enum { NAME = 20 };

/* umad_ca_pair */
struct vb_umad_pair {
	char smi_name[NAME];
	uint32_t smi_preferred_port;
	char gsi_name[NAME];
	uint32_t gsi_preferred_port;
};

int umad_open_port(const char *ca_name, int portnum);
int vb_umad_open_smi_port(const char *ca_name, int portnum) __asm__("umad_open_smi_port");
int vb_umad_get_pairs(struct vb_umad_pair pairs[], size_t max) __asm__("umad_get_smi_gsi_pairs");
int vb_umad_get_pair(const char *name, uint8_t portnum, struct vb_umad_pair *pair, unsigned enforce_smi)
	__asm__("umad_get_smi_gsi_pair_by_ca_name");

static void fill(struct vb_umad_pair *pair, const struct vb_umad_device *device)
{
	memset(pair, 0, sizeof(*pair));
	memcpy(pair->smi_name, device->name, sizeof(pair->smi_name));
	memcpy(pair->gsi_name, device->name, sizeof(pair->gsi_name));
}

int vb_umad_open_smi_port(const char *ca_name, int portnum)
{
	return umad_open_port(ca_name, portnum);
}

int vb_umad_get_pairs(struct vb_umad_pair pairs[], size_t max)
{
	struct vb_umad_device *devices = calloc(VB_UMAD_DEVICES, sizeof(*devices));
	int count = devices ? vb_umad_devices(devices) : -ENOMEM;
	size_t filled = 0;

	memset(pairs, 0, max * sizeof(*pairs));
	for (int i = 0; i < count && filled < max; i++)
		if (devices[i].is_infiniband)
			fill(&pairs[filled++], &devices[i]);
	free(devices);
	return (int)filled;
}

/* A port that has been given a cable; of port 0 the device's own. */
int vb_umad_get_pair(const char *name, uint8_t portnum, struct vb_umad_pair *pair, unsigned enforce_smi)
{
	struct vb_umad_device device;
	int port;

	(void)enforce_smi;
	if (!pair)
		return -1;
	memset(pair, 0, sizeof(*pair));
	if (vb_umad_find(name, portnum, &device, &port) != 0 || !device.is_infiniband || (uint32_t)port != device.adapter.port ||
	    device.adapter.state == VB_PORT_DOWN) {
		errno = ENODEV;
		return -ENODEV;
	}
	fill(pair, &device);
	pair->smi_preferred_port = pair->gsi_preferred_port = (uint32_t)port;
	return 0;
}
