/* SPDX-License-Identifier: MIT
 *
 * The page of `verbena web` and what it asks for, over HTTP on the loopback address. Three questions are asked of each request, so that
 * neither another user of this host nor a page of somebody else's in the same browser learns anything:
 *
 *   Host     names this address: a name of somebody else's that was made to point here (DNS rebinding) is not it
 *   Origin   if there is one, is this page
 *   token    of what tells something about this host: the one that was printed at the start, 128 random bits
 *
 * Nothing here changes anything: there is GET and HEAD.
 */
#ifndef VB_WEB_SERVER_H
#define VB_WEB_SERVER_H

#include <stdint.h>

struct vb_web_server;
struct vb_web_state;
struct vb_web_records;

enum { VB_WEB_TOKEN = 33 };

/* `port` 0: any. 0 or -errno. */
int vb_web_server_start(struct vb_web_server **server, uint16_t port, struct vb_web_state *state, struct vb_web_records *records);
void vb_web_server_stop(struct vb_web_server *server);

uint16_t vb_web_server_port(const struct vb_web_server *server);
const char *vb_web_server_token(const struct vb_web_server *server);

#endif
