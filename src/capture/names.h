/* SPDX-License-Identifier: MIT
 *
 * Names of what records hold, for people; never NULL, whatever number is asked for.
 */
#ifndef VB_CAPTURE_NAMES_H
#define VB_CAPTURE_NAMES_H

#include <stdint.h>

const char *vb_name_of_work(uint32_t wr_opcode);           /* "RDMA_WRITE" */
const char *vb_name_of_completion(uint32_t wc_opcode);     /* "RECV" */
const char *vb_name_of_status(uint32_t wc_status);         /* "RETRY_EXC_ERR" */
const char *vb_name_of_event(uint32_t event_type);         /* "QP_FATAL" */
const char *vb_name_of_cm_event(uint32_t cm_event);        /* "ESTABLISHED" */

#endif
