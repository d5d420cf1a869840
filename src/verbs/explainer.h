/* SPDX-License-Identifier: MIT
 *
 * Who writes explanations. What can be told from this side is written at once; where the peer must be asked, a thread of
 * its own asks, because a failure is found with a queue pair's lock held and the peer may be this very process.
 */
#ifndef VB_VERBS_EXPLAINER_H
#define VB_VERBS_EXPLAINER_H

#include "explain/failure.h"
#include "explain/report.h"
#include "wire/path.h"

struct vb_endpoint;

void vb_explainer_write(const struct vb_report *report);

/* Explain, asking the peer along `path` where that helps. Caller may hold queue locks. */
void vb_explainer_failure(const struct vb_explain_failure *failure, const struct vb_path *path);

/* Wait, for two seconds at most, until everything handed over is written: a program that ends at its first failed
 * completion has then been told why. Makes progress meanwhile. Caller holds no lock. */
void vb_explainer_await(struct vb_endpoint *endpoint);

#endif
