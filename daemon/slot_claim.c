/* SPDX-License-Identifier: MIT
 *
 * See slot_claim.h.
 */
#include "daemon/slot_claim.h"

#include <stdio.h>

#include "io/unix_socket.h"
#include "wire/daemon_message.h"

int vb_slot_claim_open(void)
{
	return vb_unix_open();
}

int vb_slot_claim_take(int claim, uint32_t slot)
{
	char name[sizeof(VB_DAEMON_SOCKET) + 24];

	snprintf(name, sizeof(name), VB_DAEMON_SOCKET "/slot/%u", slot);
	return vb_unix_bind(claim, name);
}
