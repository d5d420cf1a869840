/* SPDX-License-Identifier: MIT
 *
 * Where faults only lose packets, short messages leave together as they do without faults: what a bad network costs is what it loses. Both
 * ends are in this process, over loopback.
 */
#include <stdlib.h>

#include "lib/patience.h"
#include "lib/private_network.h"
#include "links/udp/udp_link.h"
#include "unit/links/one_endpoint.h"
#include "wire/burst.h"

enum { DEPTH = 62, TOGETHER = 16, ROUNDS = 60 };

static struct vb_qp *sender, *receiver;
static unsigned done;
static uint32_t longest;                   /* atomic: packets that were sent by one call */

uint32_t __real_vb_udp_send_all(struct vb_udp_link *udp, struct vb_burst *burst);
uint32_t __wrap_vb_udp_send_all(struct vb_udp_link *udp, struct vb_burst *burst);

uint32_t __wrap_vb_udp_send_all(struct vb_udp_link *udp, struct vb_burst *burst)
{
	if (burst->packets > __atomic_load_n(&longest, __ATOMIC_RELAXED))
		__atomic_store_n(&longest, burst->packets, __ATOMIC_RELAXED);
	return __real_vb_udp_send_all(udp, burst);
}

static void post_receive(uint64_t number)
{
	struct ibv_sge element = {(uintptr_t)buffer[0], MESSAGE, key};
	struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &element, .num_sge = 1}, *bad;

	vb_lock_take(&receiver->lock);
	assert_int_equal(vb_qp_post_receive(receiver, &wr, &bad, vb_endpoint_now()), 0);
	vb_lock_release(&receiver->lock);
}

static void post_send(uint64_t number)
{
	struct ibv_sge element = {(uintptr_t)buffer[1], MESSAGE, key};
	struct ibv_send_wr wr = {.wr_id = number, .sg_list = &element, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	vb_lock_take(&sender->lock);
	assert_int_equal(vb_qp_post_send(sender, &wr, &bad, vb_endpoint_now()), 0);
	vb_endpoint_posted(endpoint, sender, vb_endpoint_now());
	vb_lock_release(&sender->lock);
}

static bool drain(void)
{
	struct ibv_wc wc[16];
	int count = vb_cq_poll(&cq, 16, wc);

	for (int i = 0; i < count; i++)
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
	done += (unsigned)count;
	if (count == 0)
		(void)vb_endpoint_progress(endpoint);
	return done == 2 * DEPTH;
}

static bool leave_together(void)
{
	longest = done = 0;
	for (unsigned i = 0; i < TOGETHER; i++)
		(void)vb_endpoint_progress(endpoint);
	for (unsigned i = 0; i < DEPTH; i++)
		post_send(i);
	assert_true(eventually(drain()));
	return longest >= TOGETHER;
}

static void short_messages_leave_together(void **state)
{
	bool together = false;

	(void)state;
	open_endpoint(4096);
	sender = create_qp(0, DEPTH, 1);
	receiver = create_qp(0, 1, ROUNDS * DEPTH);
	join(sender, receiver, 14, 7);
	join(receiver, sender, 14, 7);
	/* All of them first: one that finds too few waits, and others leave with it. */
	for (unsigned i = 0; i < ROUNDS * DEPTH; i++)
		post_receive(i);
	/* While the system keeps this thread from its processor another may send for it. */
	for (unsigned i = 0; i < ROUNDS && !together; i++)
		together = leave_together();
	assert_true(together);
	destroy_qp(sender);
	destroy_qp(receiver);
	close_endpoint();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_messages_leave_together),
	};

	private_network_enter();
	setenv("VERBENA_FAULTS", "drop-psn=+1000000", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
