/* SPDX-License-Identifier: MIT
 *
 * UDP port 4791: which devices cannot do without, and whether we have it.
 */
#include "progress/endpoint_parts.h"

#include "profiles/profile.h"

bool vb_endpoint_needs_port(enum vb_device_kind kind)
{
	return vb_profile_of(kind)->connection == VB_CONNECT_CM;
}

bool vb_endpoint_has_port(const struct vb_endpoint *endpoint)
{
	return endpoint->receive_fd[VB_ENDPOINT_IPV4] >= 0 || endpoint->receive_fd[VB_ENDPOINT_IPV6] >= 0;
}
