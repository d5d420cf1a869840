/* SPDX-License-Identifier: MIT
 *
 * Being looked at: what the process holds is listed as it is, and looking while other threads make, use and destroy
 * objects disturbs nobody. The looker is `verbena res` in miniature, in this very process.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "io/daemon_client.h"
#include "io/descriptor.h"
#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "wire/resource.h"

/* Sanitizers on a busy machine may keep the engine thread from answering in time: it is asked again, so often. */
enum { THREADS = 3, LOOKS = 100, MOST = 4096 };

struct seen {
	unsigned count[VB_RESOURCE_KINDS];
	unsigned rows, late;
	struct vb_resource_qp qp[MOST];
	struct vb_resource_cq cq[MOST];
	struct vb_resource_mr mr[MOST];
	struct vb_resource_srq srq[MOST];
	struct vb_resource_wq wq[MOST];
	struct vb_resource_rwq_table rwq_table[MOST];
};

static void keep(struct seen *seen, int kind, const union vb_resource *resource)
{
	unsigned at = seen->count[kind]++;

	assert_in_range(at, 0, MOST - 1);
	if (kind == VB_RESOURCE_QP)
		seen->qp[at] = resource->qp;
	else if (kind == VB_RESOURCE_CQ)
		seen->cq[at] = resource->cq;
	else if (kind == VB_RESOURCE_MR)
		seen->mr[at] = resource->mr;
	else if (kind == VB_RESOURCE_SRQ)
		seen->srq[at] = resource->srq;
	else if (kind == VB_RESOURCE_WQ)
		seen->wq[at] = resource->wq;
	else if (kind == VB_RESOURCE_RWQ_TABLE)
		seen->rwq_table[at] = resource->rwq_table;
}

static bool take(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	struct seen *seen = context;
	union vb_resource resource;
	uint32_t left_out;
	size_t length, at;
	void *bytes;
	int kind;

	if (message->header.type != VB_DAEMON_PROCESS_RESOURCES)
		return true;
	assert_int_equal(message->process_resources.pid, getpid());
	if (message->process_resources.error == ETIMEDOUT) {
		seen->late++;
		return true;
	}
	assert_int_equal(message->process_resources.error, 0);
	assert_int_equal(count, 1);
	assert_int_equal(vb_page_read(fds[0], VB_RESOURCE_MOST_BYTES, &bytes, &length), 0);
	assert_int_equal(vb_resource_begin(bytes, length, &at, &left_out), 0);
	while ((kind = vb_resource_next(bytes, length, &at, &resource)) > 0)
		keep(seen, kind, &resource);
	assert_int_equal(kind, VB_RESOURCE_END);
	seen->rows++;
	free(bytes);
	return true;
}

/* False: our own answer came too late for the daemon. */
static bool ask(struct vb_daemon_client *client, struct seen *seen)
{
	struct vb_daemon_message request;

	memset(seen, 0, sizeof(*seen));
	vb_daemon_message_begin(&request, VB_DAEMON_LIST_RESOURCES, 0);
	assert_int_equal(vb_daemon_client_request(client, &request, NULL, 0, take, seen), 0);
	assert_int_equal(seen->rows + seen->late, 1);
	return seen->rows == 1;
}

static struct seen *look(void)
{
	static struct seen seen;
	struct vb_daemon_client client;

	assert_int_equal(vb_daemon_client_connect(&client, false), 0);
	assert_true(eventually(ask(&client, &seen)));
	vb_daemon_client_close(&client);
	return &seen;
}

static const struct vb_resource_qp *find_qp(const struct seen *seen, uint32_t qpn)
{
	for (unsigned i = 0; i < seen->count[VB_RESOURCE_QP]; i++)
		if (seen->qp[i].qpn == qpn)
			return &seen->qp[i];
	fail_msg("QP 0x%06x is not listed", qpn);
	return NULL;
}

/* A receive for qp[1], in its own queue or the shared one. */
static void receive(struct pair *pair, struct ibv_srq *srq, uint64_t id, uint32_t length)
{
	struct ibv_sge sge = {.addr = (uintptr_t)pair->buffer[1], .length = length, .lkey = pair->mr[1]->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(pair->qp[1], &wr, &bad), 0);
}

static void everything_is_listed(void **state)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 10, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(world.pd, &srq_attr);
	struct pair_options options = {.srq = srq, .depth = 32};
	const struct vb_resource_qp *qp;
	const struct seen *seen;
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, &options);
	receive(&pair, srq, 1, 64);
	seen = look();
	assert_int_equal(seen->count[VB_RESOURCE_DEVICE], 1);
	assert_int_equal(seen->count[VB_RESOURCE_PD], 1);
	assert_int_equal(seen->count[VB_RESOURCE_QP], 2);
	assert_int_equal(seen->count[VB_RESOURCE_CQ], 2);
	assert_int_equal(seen->count[VB_RESOURCE_SRQ], 1);
	assert_int_equal(seen->count[VB_RESOURCE_MR], 2);
	for (int i = 0; i < 2; i++) {
		qp = find_qp(seen, pair.qp[i]->qp_num);
		assert_int_equal(qp->peer_qpn, pair.qp[!i]->qp_num);
		assert_int_equal(qp->state, IBV_QPS_RTS);
		assert_int_equal(qp->type, IBV_QPT_RC);
		assert_memory_equal(qp->peer_gid, world.gid.raw, 16);
		assert_int_equal(qp->send_cq, pair.cq[i]->handle);
		assert_int_equal(qp->srq, i == 1 ? srq->handle : 0);
		assert_int_equal(qp->pd, world.pd->handle);
	}
	assert_int_equal(seen->srq[0].posted, 1);
	assert_int_equal(seen->srq[0].users, 1);
	assert_int_equal(seen->mr[0].key, pair.mr[0]->lkey);
	assert_int_equal(seen->mr[0].address, (uintptr_t)pair.mr[0]->addr);
	assert_int_equal(seen->mr[0].length, pair.mr[0]->length);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	seen = look();
	assert_int_equal(seen->count[VB_RESOURCE_QP] + seen->count[VB_RESOURCE_CQ] + seen->count[VB_RESOURCE_SRQ] +
			 seen->count[VB_RESOURCE_MR], 0);
	assert_int_equal(seen->count[VB_RESOURCE_DEVICE], 1);
}

static void work_queues_and_tables_are_listed(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(world.context, 16, NULL, NULL, 0);
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ, .max_wr = 8, .max_sge = 1, .pd = world.pd, .cq = cq};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_wq *wq[2] = {ibv_create_wq(world.context, &attr), ibv_create_wq(world.context, &attr)};
	struct ibv_wq *entries[4] = {wq[0], wq[1], wq[0], wq[0]};
	struct ibv_rwq_ind_table_init_attr table_attr = {.log_ind_tbl_size = 2, .ind_tbl = entries};
	struct ibv_rwq_ind_table *table = ibv_create_rwq_ind_table(world.context, &table_attr);
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	const struct seen *seen;

	(void)state;
	assert_non_null(table);
	assert_int_equal(ibv_modify_wq(wq[1], &ready), 0);
	assert_int_equal(ibv_post_wq_recv(wq[1], &wr, &bad), 0);
	seen = look();
	assert_int_equal(seen->count[VB_RESOURCE_WQ], 2);
	assert_int_equal(seen->count[VB_RESOURCE_RWQ_TABLE], 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(seen->wq[i].number, wq[i]->handle);
		assert_int_equal(seen->wq[i].wq_num, wq[i]->wq_num);
		assert_int_equal(seen->wq[i].pd, world.pd->handle);
		assert_int_equal(seen->wq[i].cq, cq->handle);
		assert_int_equal(seen->wq[i].state, i == 0 ? IBV_WQS_RESET : IBV_WQS_RDY);
		assert_in_range(seen->wq[i].depth, 8, MOST);
		assert_int_equal(seen->wq[i].posted, i);
		assert_int_equal(seen->wq[i].users, i == 0 ? 3 : 1);
	}
	assert_int_equal(seen->rwq_table[0].number, table->ind_tbl_num);
	assert_int_equal(seen->rwq_table[0].size, 4);
	assert_int_equal(seen->rwq_table[0].queues, 2);
	assert_int_equal(seen->rwq_table[0].users, 0);
	assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_wq(wq[i]), 0);
	seen = look();
	assert_int_equal(seen->count[VB_RESOURCE_WQ] + seen->count[VB_RESOURCE_RWQ_TABLE], 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static bool stop;

static void *come_and_go(void *argument)
{
	uint32_t seed = (uint32_t)(uintptr_t)argument;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 8, .max_sge = 1}};
		struct ibv_srq *srq = ibv_create_srq(world.pd, &srq_attr);
		struct pair_options options = {.srq = seed % 2 ? srq : NULL, .depth = 16};
		struct pair pair;

		pair_open(&pair, &world, &options);
		for (uint32_t i = 0; i < 4; i++) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 3000);

			receive(&pair, options.srq, i, 3000);
			pair_post(&pair, 0, &wr);
			expect_completion(pair.cq[1], i, IBV_WC_RECV);
			expect_completion(pair.cq[0], wr.wr_id, IBV_WC_SEND);
		}
		pair_close(&pair);
		assert_int_equal(ibv_destroy_srq(srq), 0);
	}
	return NULL;
}

/* Or as many as have been seen before. */
static unsigned queue_pairs_seen(unsigned before)
{
	unsigned now = look()->count[VB_RESOURCE_QP];

	return now > before ? now : before;
}

static void looking_disturbs_nobody(void **state)
{
	pthread_t thread[THREADS];
	unsigned most = 0;

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, come_and_go, (void *)i), 0);
	for (unsigned i = 0; i < LOOKS; i++)
		most = queue_pairs_seen(most);
	/* On a busy machine the others may just have begun. */
	assert_true(eventually((most = queue_pairs_seen(most)) > 0));
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_in_range(most, 1, 2 * THREADS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_is_listed),
		cmocka_unit_test(work_queues_and_tables_are_listed),
		cmocka_unit_test(looking_disturbs_nobody),
	};

	private_network_enter();
	setenv("CMOCKA_TEST_ABORT", "1", 1);     /* a failed assertion cannot unwind another thread */
	return cmocka_run_group_tests(tests, open_world, close_world);
}
