/* SPDX-License-Identifier: MIT */
#include "wire/mad_attributes.h"

#include "wire/mad.h"

const struct vb_attribute_row vb_attributes[VB_ATTRIBUTE_COUNT] = {
#define ATTRIBUTE(symbol, name, mgmt_class, id, length, modifier, who) \
	[VB_ATTRIBUTE_##symbol] = {name, VB_MAD_##mgmt_class, id, length, VB_MODIFIER_##modifier, VB_ANSWERED_BY_##who},
	VB_MAD_ATTRIBUTES(ATTRIBUTE)
#undef ATTRIBUTE
};

enum vb_attribute vb_attribute_find(uint8_t mgmt_class, uint16_t id)
{
	if (mgmt_class == VB_MAD_SMP_DIRECTED)
		mgmt_class = VB_MAD_SMP_LID;
	for (unsigned i = 0; i < VB_ATTRIBUTE_COUNT; i++)
		if (vb_attributes[i].mgmt_class == mgmt_class && vb_attributes[i].id == id)
			return (enum vb_attribute)i;
	return VB_ATTRIBUTE_UNKNOWN;
}
