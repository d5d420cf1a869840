/* SPDX-License-Identifier: MIT
 *
 * The names of things, as a programmer wrote them: IBV_WC_REM_ACCESS_ERR is REM_ACCESS_ERR, attributes have the names
 * of their fields. Functions that take a buffer return it.
 */
#ifndef VB_EXPLAIN_WORDS_H
#define VB_EXPLAIN_WORDS_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/inquiry.h"

enum { VB_WORDS_ROOM = 256, VB_WORDS_ADDRESS = 48 };

const char *vb_words_status(enum ibv_wc_status status);
const char *vb_words_opcode(enum ibv_wr_opcode opcode);
const char *vb_words_state(enum ibv_qp_state state);
const char *vb_words_type(enum ibv_qp_type type);
const char *vb_words_a_type(enum ibv_qp_type type); /* "an RC", "a UD" */
const char *vb_words_event(enum ibv_event_type event);
/* "LOCAL_WRITE|REMOTE_READ", "none". */
const char *vb_words_rights(char out[VB_WORDS_ROOM], uint32_t rights);
/* "dest_qp_num, rq_psn". */
const char *vb_words_attributes(char out[VB_WORDS_ROOM], int attr_mask);
/* An address as people write it: 192.0.2.7, 2001:db8::7. */
const char *vb_words_address(char out[VB_WORDS_ADDRESS], const uint8_t gid[16]);
const char *vb_words_reach(enum vb_inquiry_reach reach);
/* EINVAL */
const char *vb_words_errno(int error);

#endif
