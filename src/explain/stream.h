/* SPDX-License-Identifier: MIT
 *
 * What ends a stream of iWARP, in words: TERMINATE with its meaning, and connections that close or break.
 */
#ifndef VB_EXPLAIN_STREAM_H
#define VB_EXPLAIN_STREAM_H

#include <stdbool.h>

#include "explain/report.h"
#include "memory/fault.h"

/* Is it the stream as a whole that ended, and not one request that was refused here? */
bool vb_explain_stream_ended(const struct vb_fault_record *fault);
/* Says cause and fix. False: not such a fault, nothing said. */
bool vb_explain_stream(const struct vb_fault_record *fault, struct vb_report *report);
/* The TERMINATE that was sent or received, as evidence and, where it was sent, in a sentence. */
void vb_explain_stream_evidence(const struct vb_fault_record *fault, struct vb_report *report);

#endif
