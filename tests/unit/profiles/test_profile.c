/* SPDX-License-Identifier: MIT
 *
 * The rows of profiles: no device grants more than the implementation can hold, and what queue pairs are given is what their row says.
 */
#include "../queue/fixture.h"
#include "profiles/limits.h"
#include "profiles/profile.h"
#include "profiles/qp_transitions.h"

static void no_row_exceeds_what_can_be_held(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < VB_DEVICE_KINDS; kind++) {
		const struct vb_profile *profile = vb_profile_of(kind);
		const struct vb_profile_limits *most = &profile->limits;

		assert_int_equal(profile->kind, kind);
		assert_true(most->qp >= 1 && most->qp <= VB_MAX_QP);
		assert_true(most->qp_wr >= 1 && most->qp_wr <= VB_MAX_QP_WR);
		assert_true(most->send_sge >= 1 && most->send_sge <= VB_MAX_SGE);
		assert_true(most->recv_sge >= 1 && most->recv_sge <= VB_MAX_SGE);
		assert_true(most->read_sge >= 1 && most->read_sge <= most->send_sge && most->sge_rd <= most->read_sge);
		assert_true(most->cq >= 1 && most->cq <= VB_MAX_CQ && most->cqe >= 1 && most->cqe <= VB_MAX_CQE);
		assert_true(most->srq <= VB_MAX_SRQ && most->srq_wr <= VB_MAX_SRQ_WR && most->srq_sge <= VB_MAX_SGE);
		assert_true(most->mr >= 1 && most->mr <= VB_MAX_MR && most->mw <= VB_MAX_MW && most->pd >= 1 && most->pd <= VB_MAX_PD);
		assert_true(most->ah <= VB_MAX_AH && most->rd_atomic <= VB_MAX_RD_ATOMIC && most->init_rd_atomic <= VB_MAX_RD_ATOMIC);
		assert_true(most->multicast_groups <= VB_MAX_MULTICAST_GROUPS && most->multicast_qps <= VB_MAX_MULTICAST_QPS);
		assert_true(most->completion_vectors >= 1 && most->completion_vectors <= VB_COMPLETION_VECTORS);
		assert_true(profile->port.max_message <= VB_MAX_MESSAGE && profile->port.gid_table_length >= 1);
		assert_true((most->mw > 0) == ((profile->device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0));
		for (unsigned type = 0; type < VB_PROFILE_TYPES; type++)
			assert_true(profile->types[type].max_inline <= VB_MAX_INLINE);
		assert_non_null(vb_profile_type(profile, IBV_QPT_RC));
	}
	assert_null(vb_profile_type(&vb_profile_iwarp, IBV_QPT_UD));
	assert_null(vb_profile_type(&vb_profile_roce, (enum ibv_qp_type)1000));
}

/* What an application does with attr_mask, and where a connection must come in. */
static void an_rnic_is_connected_by_its_connection(void **state)
{
	static const int any = ((1 << 21) - 1);
	const struct {
		enum ibv_qp_state from, to;
		bool valid, ignored, by_connection;
	} rows[] = {
		{IBV_QPS_RESET, IBV_QPS_INIT, true}, {IBV_QPS_INIT, IBV_QPS_INIT, true},
		{IBV_QPS_INIT, IBV_QPS_RTR, true, true}, {IBV_QPS_INIT, IBV_QPS_RTS, false, false, true},
		{IBV_QPS_RTR, IBV_QPS_RTS}, {IBV_QPS_RTS, IBV_QPS_RTS, true}, {IBV_QPS_RTS, IBV_QPS_SQD, true},
		{IBV_QPS_RTS, IBV_QPS_ERR, true}, {IBV_QPS_RTS, IBV_QPS_RESET}, {IBV_QPS_SQD, IBV_QPS_RTS},
		{IBV_QPS_SQD, IBV_QPS_ERR, true}, {IBV_QPS_ERR, IBV_QPS_RESET, true}, {IBV_QPS_ERR, IBV_QPS_RTS},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct vb_qp_transition *row =
			vb_qp_transition(&vb_transitions_iwarp, IBV_QPT_RC, rows[i].from, rows[i].to);

		assert_int_equal(row->valid, rows[i].valid);
		assert_int_equal(row->ignored, rows[i].ignored);
		assert_int_equal(row->by_connection, rows[i].by_connection);
		assert_int_equal(vb_qp_transition_allows(&vb_transitions_iwarp, IBV_QPT_RC, rows[i].from, rows[i].to, any), rows[i].valid);
		assert_false(vb_qp_transition_allows(&vb_transitions_iwarp, IBV_QPT_UD, rows[i].from, rows[i].to, IBV_QP_STATE));
	}
}

static struct vb_qp *create_on(struct world *w, struct vb_queue_host *host, const struct vb_profile *profile)
{
	struct vb_qp_config config = fixture_config(w, IBV_QPT_RC);
	struct vb_qp *qp = NULL;

	*host = fixture_host;
	host->profile = profile;
	assert_int_equal(vb_qp_create(&config, host, &fixture_transport, NULL, &qp), 0);
	return qp;
}

static void a_queue_pair_of_an_rnic(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD}, *bad = NULL;
	struct vb_queue_host host;
	struct vb_qp_config config;
	struct vb_qp *qp, *none = NULL;
	struct world w;

	(void)state;
	world_open(&w, IBV_QPT_RC, 8, false, false);
	qp = create_on(&w, &host, &vb_profile_iwarp);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	/* The step is taken note of, and nothing more. */
	assert_int_equal(vb_qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN, NULL, IBV_MTU_1024, 0), 0);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(vb_qp_modify(qp, &attr, IBV_QP_STATE, NULL, IBV_MTU_1024, 0), -EINVAL);
	vb_lock_take(&qp->lock);
	assert_int_equal(vb_qp_connected(qp, 0), 0);
	assert_int_equal(qp->state, IBV_QPS_RTS);
	assert_int_equal(vb_qp_connected(qp, 0), -EINVAL);
	assert_int_equal(vb_qp_post_send(qp, &wr, &bad, 0), EINVAL);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	assert_int_equal(vb_qp_post_send(qp, &wr, &bad, 0), EINVAL);
	wr.opcode = IBV_WR_SEND;
	assert_int_equal(vb_qp_post_send(qp, &wr, &bad, 0), 0);
	vb_lock_release(&qp->lock);
	config = fixture_config(&w, IBV_QPT_UD);
	assert_int_equal(vb_qp_create(&config, &host, &fixture_transport, NULL, &none), -EOPNOTSUPP);
	/* From RTS to RESET there is no way but by ERR. */
	attr.qp_state = IBV_QPS_RESET;
	assert_int_equal(vb_qp_modify(qp, &attr, IBV_QP_STATE, NULL, IBV_MTU_1024, 0), -EINVAL);
	vb_qp_destroy(qp);
	/* Of a channel adapter no connection does it. */
	qp = create_on(&w, &host, &vb_profile_roce);
	vb_lock_take(&qp->lock);
	assert_int_equal(vb_qp_connected(qp, 0), -EINVAL);
	vb_lock_release(&qp->lock);
	vb_qp_destroy(qp);
	world_close(&w);
}

/* A device whose row is lower than ours refuses what ours would take. */
static void a_read_of_too_many_elements(void **state)
{
	struct vb_profile narrow = vb_profile_iwarp;
	struct ibv_sge sge[2] = {{.length = 4}, {.length = 4}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ, .sg_list = sge, .num_sge = 2}, *bad = NULL;
	struct vb_queue_host host;
	struct vb_qp *qp;
	struct world w;

	(void)state;
	narrow.limits.read_sge = 1;
	world_open(&w, IBV_QPT_RC, 8, false, false);
	qp = create_on(&w, &host, &narrow);
	vb_lock_take(&qp->lock);
	assert_int_equal(vb_qp_connected(qp, 0), 0);
	assert_int_equal(vb_qp_post_send(qp, &wr, &bad, 0), EINVAL);
	wr.num_sge = 1;
	assert_int_equal(vb_qp_post_send(qp, &wr, &bad, 0), 0);
	wr.num_sge = 2;
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_int_equal(vb_qp_post_send(qp, &wr, &bad, 0), 0);
	vb_lock_release(&qp->lock);
	vb_qp_destroy(qp);
	world_close(&w);
}

/* RFC 7306: what nothing negotiates is posted only where the user asks for it. */
static void extensions_are_asked_for(void **state)
{
	const uint32_t extended = 1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_ATOMIC_CMP_AND_SWP | 1u << IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct vb_profile roce = vb_profile_roce, iwarp = vb_profile_iwarp;

	(void)state;
	assert_int_equal(iwarp.types[IBV_QPT_RC].opcodes & (extended | 1u << IBV_WR_SEND_WITH_IMM), 0);
	assert_int_equal(iwarp.atomic_cap, IBV_ATOMIC_NONE);
	vb_profile_extend(&iwarp);
	assert_int_equal(iwarp.types[IBV_QPT_RC].opcodes & (extended | 1u << IBV_WR_SEND_WITH_IMM), extended);
	assert_int_equal(iwarp.atomic_cap, IBV_ATOMIC_GLOB);
	assert_null(vb_profile_type(&iwarp, IBV_QPT_UD));
	/* Of RoCE nothing changes. */
	vb_profile_extend(&roce);
	assert_memory_equal(&roce, &vb_profile_roce, sizeof(roce));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_row_exceeds_what_can_be_held),
		cmocka_unit_test(an_rnic_is_connected_by_its_connection),
		cmocka_unit_test(a_queue_pair_of_an_rnic),
		cmocka_unit_test(a_read_of_too_many_elements),
		cmocka_unit_test(extensions_are_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
