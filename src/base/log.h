/* SPDX-License-Identifier: MIT
 *
 * Diagnostics to stderr (or VERBENA_LOG_FILE), at the level of VERBENA_LOG: error (default), warn,
 * info, debug. errno is preserved. What a peer can provoke must go through vb_log_limited.
 */
#ifndef VB_BASE_LOG_H
#define VB_BASE_LOG_H

enum vb_log_level { VB_LOG_ERROR, VB_LOG_WARN, VB_LOG_INFO, VB_LOG_DEBUG };

void vb_log(enum vb_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* At most ten lines a second from all callers together; what was suppressed is counted and told. */
void vb_log_limited(enum vb_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
