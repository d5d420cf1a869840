/* SPDX-License-Identifier: MIT
 *
 * VERBENA_SOCKETS_REPORT=FILE: a line for each connection that ends.
 */
#ifndef VB_PRELOAD_SOCKETS_REPORT_H
#define VB_PRELOAD_SOCKETS_REPORT_H

struct vb_connection;

/* Caller holds connection->lock. */
void vb_sockets_report(const struct vb_connection *connection);

#endif
