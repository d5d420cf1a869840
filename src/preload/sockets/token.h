/* SPDX-License-Identifier: MIT
 *
 * The token: sixteen random bytes that one side of a TCP connection sends to the other by RDMA, and the other sends
 * back in the TCP stream, as the last it sends there. So the reader knows exactly where the stream goes on by RDMA,
 * and that whom it speaks with by RDMA has the other end of the TCP connection.
 */
#ifndef VB_PRELOAD_SOCKETS_TOKEN_H
#define VB_PRELOAD_SOCKETS_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VB_TOKEN = 16 };

/* How many of these bytes are the program's. *found: the token follows them. What could be the beginning of a token
 * is not counted until more has come. */
size_t vb_token_find(const uint8_t token[VB_TOKEN], const uint8_t *bytes, size_t length, bool *found);

/* False: there are no random numbers to be had. */
bool vb_token_make(uint8_t token[VB_TOKEN]);

#endif
