/* SPDX-License-Identifier: MIT
 *
 * Whether this process wants explanations (VERBENA_EXPLAIN) and is to be watched for misuse (VERBENA_WATCH).
 */
#ifndef VB_VERBS_EXPLAIN_SETTINGS_H
#define VB_VERBS_EXPLAIN_SETTINGS_H

#include <stdbool.h>

/* Set before the first object is created. */
extern bool vb_explains, vb_watches;

void vb_explain_settings_read(void);

#endif
