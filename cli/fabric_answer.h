/* SPDX-License-Identifier: MIT
 *
 * The process of `fabric up` answers `fabric show` ("show", and "list" for programs), `cut` and `mend`.
 * One request, a line of words, and its answer:
 * messages of text, the first byte of each says whether all is well ('+') or not ('-'); then it hangs up.
 */
#ifndef VB_CLI_FABRIC_ANSWER_H
#define VB_CLI_FABRIC_ANSWER_H

struct vb_fabric;
struct vb_fabric_hosts;

/* Takes the connection, which may be -errno. */
void vb_cli_fabric_answer(struct vb_fabric *fabric, struct vb_fabric_hosts *hosts, int fd);

#endif
