/* SPDX-License-Identifier: MIT
 *
 * Faults of memory and rights in words, from whichever side they were found.
 */
#ifndef VB_EXPLAIN_ACCESS_H
#define VB_EXPLAIN_ACCESS_H

#include <stdbool.h>

#include "explain/report.h"
#include "memory/fault.h"

/* Says cause and fix. `remote_key`: the key is an rkey, named by the peer of the side that checked it. `whose` says whose
 * memory it is: "the peer's", "this side's". False: not such a fault, nothing said. */
bool vb_explain_access(const struct vb_fault_record *fault, bool remote_key, const char *whose,
		       struct vb_report *report);

/* Key, range and rights as evidence; names begin with `prefix` ("" or "far_"). */
void vb_explain_access_evidence(const struct vb_fault_record *fault, bool far, struct vb_report *report);

#endif
