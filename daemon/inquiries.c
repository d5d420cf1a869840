/* SPDX-License-Identifier: MIT
 *
 * See inquiries.h.
 */
#include "daemon/inquiries.h"

#include <stdio.h>

#include "base/list.h"
#include "daemon/client.h"
#include "io/explain_output.h"
#include "io/inquiry.h"
#include "io/process.h"
#include "io/udp.h"
#include "wire/daemon_message.h"

#ifndef VERBENA_VERSION
#define VERBENA_VERSION "0"
#endif

enum { INQUIRIES_PER_SECOND = 64 };

/* "1.2.3" as the bytes 1, 2 and 3 of a number. */
static uint32_t version_number(void)
{
	unsigned major = 0, minor = 0, patch = 0;

	(void)sscanf(VERBENA_VERSION, "%u.%u.%u", &major, &minor, &patch);
	return (major & 0xff) << 16 | (minor & 0xff) << 8 | (patch & 0xff);
}

/* Asked by a peer whom the process itself does not answer. */
static enum vb_inquiry_status status_about(const struct vb_list *clients, uint32_t qpn)
{
	VB_LIST_FOR_EACH(node, clients) {
		const struct vb_client *client = vb_container_of(node, struct vb_client, node);

		if (client->slot != 0 && client->slot == qpn >> VB_DAEMON_INDEX_BITS)
			return vb_process_is_stopped(client->peer.pid) ? VB_INQUIRY_STOPPED : VB_INQUIRY_LIVES;
	}
	return VB_INQUIRY_NO_PROCESS;
}

bool vb_inquiries_answer(struct vb_inquiries *inquiries, const struct vb_list *clients, vb_time now, int fd,
			 const struct vb_udp_bundle *bundle)
{
	struct vb_inquiry inquiry;
	struct vb_inquiry_answer answer = {0};

	if (bundle->segment != bundle->length || !vb_inquiry_decode(&inquiry, bundle->bytes, bundle->length))
		return false;
	if (now - inquiries->since >= VB_SECONDS(1)) {
		inquiries->since = now;
		inquiries->count = 0;
	}
	if (inquiries->count++ >= INQUIRIES_PER_SECOND || !vb_explain_output_tells_peers())
		return true;
	if (inquiry.qpn > 1)
		answer.status = VB_INQUIRY_NO_PROCESS;
	else
		answer.status = inquiry.about_qpn == 0 ? VB_INQUIRY_DAEMON : status_about(clients, inquiry.about_qpn);
	answer.qpn = inquiry.qpn;
	answer.nonce = inquiry.nonce;
	answer.version = version_number();
	vb_inquiry_reply(fd, &bundle->from, &answer);
	return true;
}
