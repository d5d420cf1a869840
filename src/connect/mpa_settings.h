/* SPDX-License-Identifier: MIT
 *
 * What users may say about iWARP connections, in one variable:
 *
 *   VERBENA_IWARP=crc=auto|on|off,fpdu=auto|segment|large,p2p=off|on,first=MILLISECONDS|strict,last=MILLISECONDS,
 *                 extensions=off|on
 */
#ifndef VB_CONNECT_MPA_SETTINGS_H
#define VB_CONNECT_MPA_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vb_mpa_choice { VB_MPA_AUTO, VB_MPA_ON, VB_MPA_OFF };

struct vb_mpa_settings {
	enum vb_mpa_choice crc;          /* AUTO: between hosts */
	enum vb_mpa_choice large;        /* FPDUs longer than a segment. AUTO: to a peer that welcomes them */
	bool peer_to_peer;               /* ask for it */
	bool extensions;                 /* atomics and immediate data may be posted (RFC 7306), which nothing negotiates */
	int32_t first_ms;                /* a responder waits so long for the initiator's first message; -1: for ever */
	int32_t last_ms;                 /* no FIN sooner than so long behind the peer's last bytes, unless it bears that */
};

/* NULL or "": as they are by default. False: a word of it is not understood, and stands in `why`; the others count. */
bool vb_mpa_settings_parse(struct vb_mpa_settings *settings, const char *text, char *why, size_t room);

#endif
