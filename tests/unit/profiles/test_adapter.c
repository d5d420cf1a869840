/* SPDX-License-Identifier: MIT
 *
 * Each adapter and each limit: granted at it, refused above it, by the objects themselves. And an adapter never raises anything.
 */
#include "../queue/fixture.h"
#include "expected_profiles.h"
#include "profiles/adapter.h"
#include "profiles/roce_versions.h"
#include "profiles/limits.h"

static struct vb_queue_host host;
static struct vb_profile profile;
static struct world w;

static void put_over(const struct expected *expected)
{
	const struct vb_adapter *adapter = vb_adapter_find(expected->name);

	assert_non_null(adapter);
	profile = *vb_profile_of(expected->iwarp ? VB_DEVICE_IWARP : VB_DEVICE_ROCE);
	assert_true(vb_adapter_suits(adapter, profile.kind));
	assert_false(vb_profile_is_lowered(&profile));
	vb_profile_lower(&profile, adapter);
	assert_true(vb_profile_is_lowered(&profile));
	host = fixture_host;
	host.profile = &profile;
}

static int create(const struct vb_qp_config *config, struct vb_qp **qp)
{
	return vb_qp_create(config, &host, &fixture_transport, NULL, qp);
}

static void every_adapter_is_expected(void **state)
{
	const struct vb_adapter *adapter;
	unsigned combinations = 0;

	(void)state;
	for (unsigned i = 0; (adapter = vb_adapter_at(i)) != NULL; i++)
		for (unsigned kind = 0; kind < VB_DEVICE_KINDS; kind++)
			combinations += vb_adapter_suits(adapter, kind);
	assert_int_equal(combinations, EXPECTED_PROFILES);
	assert_null(vb_adapter_find("mlx"));
	assert_null(vb_adapter_find(""));
}

static void nothing_is_raised(void **state)
{
	(void)state;
	for (unsigned i = 0; i < EXPECTED_PROFILES; i++) {
		const struct vb_profile *ours = vb_profile_of(expected_profiles[i].iwarp ? VB_DEVICE_IWARP : VB_DEVICE_ROCE);
		const struct vb_profile_limits *a, *b;

		put_over(&expected_profiles[i]);
		a = &profile.limits;
		b = &ours->limits;
		assert_true(a->mr_size <= b->mr_size && a->qp <= b->qp && a->qp_wr <= b->qp_wr && a->send_sge <= b->send_sge);
		assert_true(a->recv_sge <= b->recv_sge && a->sge_rd <= b->sge_rd && a->read_sge <= b->read_sge && a->cq <= b->cq);
		assert_true(a->cqe <= b->cqe && a->srq <= b->srq && a->srq_wr <= b->srq_wr && a->srq_sge <= b->srq_sge);
		assert_true(a->mr <= b->mr && a->mw <= b->mw && a->pd <= b->pd && a->ah <= b->ah && a->rd_atomic <= b->rd_atomic);
		assert_true(a->init_rd_atomic <= b->init_rd_atomic && a->multicast_groups <= b->multicast_groups);
		assert_true(a->multicast_qps <= b->multicast_qps && a->completion_vectors <= b->completion_vectors);
		assert_true(profile.atomic_cap <= ours->atomic_cap && profile.port.max_message <= ours->port.max_message);
		assert_true(profile.port.gid_table_length <= ours->port.gid_table_length);
		assert_int_equal(profile.device_cap_flags & ~ours->device_cap_flags, 0);
		for (unsigned type = 0; type < VB_PROFILE_TYPES; type++) {
			assert_int_equal(profile.types[type].opcodes & ~ours->types[type].opcodes, 0);
			assert_true(profile.types[type].max_inline <= ours->types[type].max_inline);
		}
		/* Libraries go past libibverbs when they know the vendor. */
		assert_int_equal(profile.vendor_id, ours->vendor_id);
		assert_int_equal(profile.vendor_part_id, ours->vendor_part_id);
	}
}

#define AT_AND_ABOVE(field, limit)                                                           \
	do {                                                                                 \
		struct vb_qp_config config = fixture_config(&w, IBV_QPT_RC);                 \
		struct vb_qp *qp = NULL;                                                     \
		config.cap.max_send_sge = config.cap.max_recv_sge = 1;                       \
		config.cap.max_inline_data = 0;                                              \
		config.cap.field = (limit);                                                  \
		assert_int_equal(create(&config, &qp), 0);                                   \
		assert_true(qp->attr.cap.field >= (limit));                                  \
		vb_qp_destroy(qp);                                                           \
		config.cap.field = (limit) + 1;                                              \
		assert_int_equal(create(&config, &qp), -EINVAL);                             \
	} while (0)

static void queue_pairs_of_each_profile(void **state)
{
	(void)state;
	for (unsigned i = 0; i < EXPECTED_PROFILES; i++) {
		const struct expected *e = &expected_profiles[i];

		world_open(&w, IBV_QPT_RC, 8, false, false);
		put_over(e);
		AT_AND_ABOVE(max_send_wr, e->qp_wr);
		AT_AND_ABOVE(max_recv_wr, e->qp_wr);
		AT_AND_ABOVE(max_send_sge, e->send_sge);
		AT_AND_ABOVE(max_recv_sge, e->recv_sge);
		for (unsigned type = IBV_QPT_RC; type <= IBV_QPT_UD; type++) {
			struct vb_qp_config config = fixture_config(&w, type);
			uint32_t most = type == IBV_QPT_UD ? e->inline_ud : e->inline_rc;
			struct vb_qp *qp = NULL;

			config.cap.max_recv_sge = 1;
			config.cap.max_inline_data = most;
			assert_int_equal(create(&config, &qp), e->types & 1u << type ? 0 : -EOPNOTSUPP);
			if (!(e->types & 1u << type))
				continue;
			assert_int_equal(qp->attr.cap.max_inline_data, most);
			vb_qp_destroy(qp);
			config.cap.max_inline_data = most + 1;
			config.cap.max_send_sge = e->send_sge;
			assert_int_equal(create(&config, &qp), e->grants_less_inline ? 0 : -EINVAL);
			if (e->grants_less_inline) {
				assert_int_equal(qp->attr.cap.max_inline_data, most);
				vb_qp_destroy(qp);
			}
			/* A long list leaves room for more, which is not granted. */
			config.cap.max_inline_data = 0;
			assert_int_equal(create(&config, &qp), 0);
			assert_true(qp->attr.cap.max_inline_data <= most);
			vb_qp_destroy(qp);
			config.cap.max_send_wr = 0;
			assert_int_equal(create(&config, &qp), e->needs_both_queues ? -EINVAL : 0);
			if (!e->needs_both_queues)
				vb_qp_destroy(qp);
		}
		world_close(&w);
	}
}

static void other_queues_of_each_profile(void **state)
{
	(void)state;
	for (unsigned i = 0; i < EXPECTED_PROFILES; i++) {
		const struct expected *e = &expected_profiles[i];
		struct ibv_srq_attr attr = {.max_wr = e->srq_wr, .max_sge = 1};
		struct vb_pd pd = {0};
		struct vb_srq srq;
		struct vb_cq cq;

		put_over(e);
		assert_int_equal(vb_cq_init(&cq, &host, NULL, e->cqe + 1), -EINVAL);
		assert_int_equal(vb_cq_init(&cq, &host, NULL, e->cqe), 0);
		assert_int_equal(vb_cq_resize(&cq, e->cqe + 1), -EINVAL);
		vb_cq_fini(&cq);
		assert_int_equal(vb_srq_init(&srq, &host, NULL, &pd, &attr), e->srq_wr > 0 ? 0 : -EOPNOTSUPP);
		if (e->srq_wr == 0)
			continue;
		attr.max_wr = e->srq_wr + 1;
		assert_int_equal(vb_srq_modify(&srq, &attr, IBV_SRQ_MAX_WR), -EINVAL);
		vb_srq_fini(&srq);
		assert_int_equal(vb_srq_init(&srq, &host, NULL, &pd, &attr), -EINVAL);
	}
}

static void modify(struct vb_qp *qp, enum ibv_qp_state to, int mask, struct ibv_qp_attr *attr, int result)
{
	static const struct vb_path path = {.hop_limit = 1};

	attr->qp_state = to;
	assert_int_equal(vb_qp_modify(qp, attr, mask | IBV_QP_STATE, &path, IBV_MTU_4096, 0), result);
}

/* Through the states of a channel adapter, with as many READs as it grants and with one more. */
static void walk(struct vb_qp *qp, const struct expected *e)
{
	const int rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	struct ibv_qp_attr attr = {.port_num = 1, .path_mtu = IBV_MTU_1024, .ah_attr = {.is_global = 1, .port_num = 1}};

	modify(qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, &attr, 0);
	attr.max_dest_rd_atomic = (uint8_t)(e->rd + 1);
	modify(qp, IBV_QPS_RTR, rtr, &attr, -EINVAL);
	attr.max_dest_rd_atomic = (uint8_t)e->rd;
	modify(qp, IBV_QPS_RTR, rtr, &attr, 0);
	attr.max_rd_atomic = (uint8_t)(e->init_rd + 1);
	modify(qp, IBV_QPS_RTS, rts, &attr, -EINVAL);
	attr.max_rd_atomic = (uint8_t)e->init_rd;
	modify(qp, IBV_QPS_RTS, rts, &attr, 0);
}

static int post_list(struct vb_qp *qp, enum ibv_wr_opcode opcode, int elements, uint32_t each)
{
	struct ibv_sge sge[VB_MAX_SGE + 1];
	struct ibv_send_wr wr = {.opcode = opcode, .sg_list = sge, .num_sge = elements}, *bad;
	int error;

	for (int i = 0; i < elements; i++)
		sge[i] = (struct ibv_sge){.length = each};
	vb_lock_take(&qp->lock);
	error = vb_qp_post_send(qp, &wr, &bad, 0);
	vb_lock_release(&qp->lock);
	return error;
}

static void work_of_each_profile(void **state)
{
	(void)state;
	for (unsigned i = 0; i < EXPECTED_PROFILES; i++) {
		const struct expected *e = &expected_profiles[i];
		struct vb_qp_config config;
		struct vb_qp *qp = NULL;

		world_open(&w, IBV_QPT_RC, 8, false, false);
		put_over(e);
		config = fixture_config(&w, IBV_QPT_RC);
		config.cap.max_recv_sge = 1;
		config.cap.max_send_sge = e->send_sge;
		assert_int_equal(create(&config, &qp), 0);
		if (e->iwarp) {
			vb_lock_take(&qp->lock);
			assert_int_equal(vb_qp_connected(qp, 0), 0);
			vb_lock_release(&qp->lock);
		} else {
			walk(qp, e);
		}
		assert_int_equal(post_list(qp, IBV_WR_RDMA_READ, (int)profile.limits.read_sge, 1), 0);
		assert_int_equal(post_list(qp, IBV_WR_RDMA_READ, (int)profile.limits.read_sge + 1, 1), EINVAL);
		assert_int_equal(post_list(qp, IBV_WR_RDMA_WRITE, (int)e->send_sge, 1), 0);
		assert_int_equal(post_list(qp, IBV_WR_RDMA_WRITE, (int)e->send_sge + 1, 1), EINVAL);
		assert_int_equal(post_list(qp, IBV_WR_SEND, 1, e->message), 0);
		assert_int_equal(post_list(qp, IBV_WR_SEND, 1, e->message + 1), EINVAL);
		assert_int_equal(post_list(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8), e->atomics == IBV_ATOMIC_NONE ? EINVAL : 0);
		assert_int_equal(post_list(qp, IBV_WR_LOCAL_INV, 0, 0), 0);
		assert_int_equal((qp->opcodes & 1u << IBV_WR_BIND_MW) == 0, e->no_windows);
		assert_int_equal(profile.limits.mw == 0, e->no_windows);
		vb_qp_destroy(qp);
		world_close(&w);
	}
}

/* Which have RoCEv1 beside RoCEv2, as their drivers in Linux say. What is asked for counts first. */
static void versions_of_roce(void **state)
{
	static const char *const both[] = {"mlx5", "bnxt_re"}, *const second_only[] = {"rxe", "irdma", "erdma-compat", "siw", "", "mlx6"};

	(void)state;
	for (unsigned i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
		assert_int_equal(vb_roce_versions(NULL, both[i]), VB_ROCE_V1 | VB_ROCE_V2);
		assert_int_equal(vb_roce_versions("", both[i]), VB_ROCE_V1 | VB_ROCE_V2);
		assert_int_equal(vb_roce_versions("v2", both[i]), VB_ROCE_V2);
		assert_int_equal(vb_roce_versions("v1", both[i]), VB_ROCE_V1);
		assert_int_equal(vb_roce_versions("v3", both[i]), 0);
	}
	for (unsigned i = 0; i < sizeof(second_only) / sizeof(second_only[0]); i++) {
		assert_int_equal(vb_roce_versions(NULL, second_only[i]), VB_ROCE_V2);
		assert_int_equal(vb_roce_versions("v1,v2", second_only[i]), VB_ROCE_V1 | VB_ROCE_V2);
	}
	assert_int_equal(vb_roce_versions(NULL, NULL), VB_ROCE_V2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_of_roce),
		cmocka_unit_test(every_adapter_is_expected),
		cmocka_unit_test(nothing_is_raised),
		cmocka_unit_test(queue_pairs_of_each_profile),
		cmocka_unit_test(other_queues_of_each_profile),
		cmocka_unit_test(work_of_each_profile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
