/* SPDX-License-Identifier: MIT */
#include "wire/mad.h"

size_t vb_mad_data_offset(uint8_t mgmt_class)
{
	if (mgmt_class == VB_MAD_SA)
		return VB_SA_DATA;
	if (mgmt_class == VB_MAD_DEVICE_MANAGEMENT || mgmt_class == VB_MAD_BIS || mgmt_class == 0x10 || mgmt_class == 0x11)
		return 64;
	if (vb_mad_class_has_oui(mgmt_class))
		return VB_VENDOR_DATA;
	return VB_MAD_HEADER_LENGTH;
}

bool vb_mad_class_has_rmpp(uint8_t mgmt_class)
{
	return vb_mad_data_offset(mgmt_class) >= VB_RMPP_DATA;
}

void vb_mad_make_response(struct vb_mad *mad, uint16_t status)
{
	mad->method = mad->method == VB_MAD_TRAP ? VB_MAD_TRAP_REPRESS : VB_MAD_GET_RESPONSE;
	if (mad->mgmt_class == VB_MAD_SMP_DIRECTED)
		status |= VB_SMP_RETURNING;
	mad->status = be16_of(status);
}
