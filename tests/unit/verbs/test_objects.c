/* SPDX-License-Identifier: MIT
 *
 * Objects come and go with the errno the manual pages say: what is in use cannot go, what is foreign or out of range is
 * refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

static struct ibv_qp_init_attr plain_attr(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	return attr;
}

static void a_domain_in_use_stays(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(world.context);
	struct ibv_cq *cq = ibv_create_cq(world.context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = plain_attr(cq);
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = world.gid}};
	static char byte;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_ah *ah;

	(void)state;
	ah_attr.grh.sgid_index = (uint8_t)world.gid_index;
	assert_non_null(mr = ibv_reg_mr(pd, &byte, 1, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_non_null(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_non_null(qp = ibv_create_qp(pd, &attr));
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_cq(cq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_non_null(srq = ibv_create_srq(pd, &srq_attr));
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_non_null(ah = ibv_create_ah(pd, &ah_attr));
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void parent_and_thread_domains(void **state)
{
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_td *td = ibv_alloc_td(world.context, &td_attr);
	struct ibv_parent_domain_init_attr attr = {.pd = world.pd, .td = td};
	struct ibv_pd *parent;
	struct ibv_cq *cq = ibv_create_cq(world.context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr qp_attr = plain_attr(cq);
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};
	struct ibv_cq_ex *cq_ex;
	struct ibv_qp *qp;
	static char byte;
	struct ibv_mr *mr;

	(void)state;
	assert_non_null(td);
	parent = ibv_alloc_parent_domain(world.context, &attr);
	assert_non_null(parent);
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_dealloc_pd(world.pd), EBUSY);
	/* "Completely interchangeable" with the domain it was made of. */
	assert_non_null(qp = ibv_create_qp(parent, &qp_attr));
	assert_ptr_equal(qp->pd, parent);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_non_null(mr = ibv_reg_mr(parent, &byte, 1, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	cq_attr.parent_domain = parent;
	assert_non_null(cq_ex = ibv_create_cq_ex(world.context, &cq_attr));
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), 0);
	cq_attr.parent_domain = world.pd;
	assert_null(ibv_create_cq_ex(world.context, &cq_attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);

	attr = (struct ibv_parent_domain_init_attr){.td = NULL};
	assert_null(ibv_alloc_parent_domain(world.context, &attr));
	assert_int_equal(errno, EINVAL);
	attr = (struct ibv_parent_domain_init_attr){.pd = world.pd, .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS};
	/* Neither alloc nor free. */
	assert_null(ibv_alloc_parent_domain(world.context, &attr));
	assert_int_equal(errno, EINVAL);
	td_attr.comp_mask = 1;
	assert_null(ibv_alloc_td(world.context, &td_attr));
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* ---- memory of queues, from the application ---- */

enum { KINDS = 5, PIECE = 1 << 20 };

static struct bookkeeping {
	const struct ibv_pd *pd;
	unsigned taken[KINDS], given[KINDS]; /* by resource type */
	bool uses_default, has_none;
} books;

static void *take_piece(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment, uint64_t resource_type)
{
	assert_ptr_equal(pd_context, &books);
	assert_ptr_equal(pd, books.pd);
	assert_in_range(resource_type, 1, KINDS - 1);
	assert_in_range(size, 1, PIECE);
	assert_int_equal(alignment & (alignment - 1), 0);
	if (books.has_none)
		return NULL;
	if (books.uses_default)
		return IBV_ALLOCATOR_USE_DEFAULT;
	books.taken[resource_type]++;
	/* Not zeros: that is the device's affair. */
	return memset(aligned_alloc(alignment, PIECE), 0xa5, PIECE);
}

static void give_piece(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type)
{
	assert_ptr_equal(pd_context, &books);
	assert_ptr_equal(pd, books.pd);
	books.given[resource_type]++;
	free(ptr);
}

static struct ibv_pd *begin_books(void)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = world.pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = take_piece,
		.free = give_piece,
		.pd_context = &books,
	};
	struct ibv_pd *parent = ibv_alloc_parent_domain(world.context, &attr);

	assert_non_null(parent);
	books = (struct bookkeeping){.pd = parent};
	return parent;
}

/* A connection whose queues, completion queue and shared receives lie in the application's memory. */
static void queues_lie_in_the_applications_memory(void **state)
{
	struct ibv_pd *parent = begin_books();
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 10, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = parent};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 10, .max_sge = 2}};
	struct ibv_srq_attr wider = {.max_wr = 100};
	struct world other = world;
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	(void)state;
	other.pd = parent;
	pair_open(&pair, &other, &(struct pair_options){.inline_data = 64});
	assert_int_equal(books.taken[1], 2);
	assert_int_equal(books.taken[2], 2);
	fill_pattern(pair.buffer[0], 3000, 1);
	for (unsigned i = 0; i < 40; i++) {
		pair_receive(&pair, 1, i, 0, 4096);
		wr = pair_request(&pair, 0, IBV_WR_SEND, &sge, 0, 3000);
		wr.wr_id = i;
		pair_post(&pair, 0, &wr);
		expect_completion(pair.cq[0], i, IBV_WC_SEND);
		expect_completion(pair.cq[1], i, IBV_WC_RECV);
	}
	assert_true(has_pattern(pair.buffer[1], 3000, 1));
	assert_non_null(cq = ibv_create_cq_ex(world.context, &cq_attr));
	assert_non_null(srq = ibv_create_srq(parent, &srq_attr));
	assert_int_equal(books.taken[3], 1);
	assert_int_equal(books.taken[4], 1);
	/* Larger ones take the place of those. */
	assert_int_equal(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 100), 0);
	assert_int_equal(ibv_modify_srq(srq, &wider, IBV_SRQ_MAX_WR), 0);
	for (unsigned i = 3; i <= 4; i++) {
		assert_int_equal(books.taken[i], 2);
		assert_int_equal(books.given[i], 1);
	}
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	pair_close(&pair);
	assert_memory_equal(books.taken, books.given, sizeof(books.taken));
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void an_allocator_may_decline_or_have_none(void **state)
{
	struct ibv_pd *parent = begin_books();
	struct ibv_cq *cq = ibv_create_cq(world.context, 10, NULL, NULL, 0);
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 10, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = parent};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 10, .max_sge = 2}};
	struct ibv_qp_init_attr attr = plain_attr(cq);
	static const unsigned nothing[KINDS];
	struct ibv_qp *qp;

	(void)state;
	books.uses_default = true;
	assert_non_null(qp = ibv_create_qp(parent, &attr));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	books.has_none = true;
	assert_null(ibv_create_qp(parent, &attr));
	assert_int_equal(errno, ENOMEM);
	assert_null(ibv_create_srq(parent, &srq_attr));
	assert_int_equal(errno, ENOMEM);
	assert_null(ibv_create_cq_ex(world.context, &cq_attr));
	assert_int_equal(errno, ENOMEM);
	assert_memory_equal(books.taken, nothing, sizeof(nothing));
	assert_memory_equal(books.given, nothing, sizeof(nothing));
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void queue_pairs_grant_at_least_what_was_asked_and_say_so(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(world.context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = plain_attr(cq), queried;
	struct ibv_qp_attr qp_attr;
	struct ibv_qp *qp;

	(void)state;
	attr.cap = (struct ibv_qp_cap){.max_send_wr = 100, .max_recv_wr = 33, .max_send_sge = 7, .max_recv_sge = 3,
				       .max_inline_data = 256};
	attr.qp_context = &attr;
	attr.sq_sig_all = 1;
	assert_non_null(qp = ibv_create_qp(world.pd, &attr));
	assert_true(attr.cap.max_send_wr >= 100 && attr.cap.max_recv_wr >= 33 && attr.cap.max_send_sge >= 7 &&
		    attr.cap.max_recv_sge >= 3 && attr.cap.max_inline_data >= 256);
	assert_int_equal(ibv_query_qp(qp, &qp_attr, IBV_QP_CAP, &queried), 0);
	assert_memory_equal(&queried.cap, &attr.cap, sizeof(attr.cap));
	assert_memory_equal(&qp_attr.cap, &attr.cap, sizeof(attr.cap));
	assert_ptr_equal(queried.qp_context, &attr);
	assert_ptr_equal(queried.send_cq, cq);
	assert_ptr_equal(queried.recv_cq, cq);
	assert_null(queried.srq);
	assert_int_equal(queried.sq_sig_all, 1);
	assert_int_equal(queried.qp_type, IBV_QPT_RC);
	assert_int_equal(qp_attr.qp_state, IBV_QPS_RESET);
	assert_null(ibv_qp_to_qp_ex(qp));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void oversized_and_unknown_requests_are_refused(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(world.context, 1, NULL, NULL, 0);
	struct ibv_device_attr device;
	struct ibv_qp_init_attr attr;
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1u << 30, .max_sge = 1}};
	static const struct { enum ibv_qp_type type; int error; } types[] = {
		{IBV_QPT_XRC_RECV, EINVAL},
		{IBV_QPT_DRIVER, EOPNOTSUPP}, {(enum ibv_qp_type)0, EOPNOTSUPP},
	};

	(void)state;
	assert_int_equal(ibv_query_device(world.context, &device), 0);
	for (int field = 0; field < 5; field++) {
		const uint32_t limits[] = {(uint32_t)device.max_qp_wr, (uint32_t)device.max_qp_wr, (uint32_t)device.max_sge,
					   (uint32_t)device.max_sge, 1024};

		attr = plain_attr(cq);
		((uint32_t *)&attr.cap)[field] = limits[field] + 1;
		assert_null(ibv_create_qp(world.pd, &attr));
		assert_int_equal(errno, EINVAL);
	}
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		attr = plain_attr(cq);
		attr.qp_type = types[i].type;
		assert_null(ibv_create_qp(world.pd, &attr));
		assert_int_equal(errno, types[i].error);
	}
	attr = plain_attr(NULL);
	assert_null(ibv_create_qp(world.pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr = plain_attr(cq);
	assert_null(ibv_create_qp(NULL, &attr));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_srq(world.pd, &srq_attr));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(world.context, 0, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(world.context, -1, NULL, NULL, 0));
	assert_null(ibv_create_cq(world.context, device.max_cqe + 1, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(world.context, 1, NULL, NULL, world.context->num_comp_vectors));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(world.context, 1, NULL, NULL, -1));
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* A client finds the largest inline size by doubling until creation fails. */
static void probing_for_inline_ends(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(world.context, 1, NULL, NULL, 0);
	uint32_t granted = 0;

	(void)state;
	for (uint32_t size = 1; size != 0; size *= 2) {
		struct ibv_qp_init_attr attr = plain_attr(cq);
		struct ibv_qp *qp;

		attr.cap.max_inline_data = size;
		qp = ibv_create_qp(world.pd, &attr);
		if (qp == NULL)
			break;
		granted = size;
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
	assert_true(granted >= 256 && granted <= 65536);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* Objects of two openings of one device do not mix. */
static void strangers_are_refused(void **state)
{
	struct world other;
	struct ibv_cq *own_cq = ibv_create_cq(world.context, 1, NULL, NULL, 0), *other_cq;
	struct ibv_comp_channel *channel;
	struct ibv_qp_init_attr attr;

	(void)state;
	world_open(&other, "lo");
	other_cq = ibv_create_cq(other.context, 1, NULL, NULL, 0);
	attr = plain_attr(own_cq);
	attr.recv_cq = other_cq;
	assert_null(ibv_create_qp(world.pd, &attr));
	assert_int_equal(errno, EINVAL);
	channel = ibv_create_comp_channel(other.context);
	assert_null(ibv_create_cq(world.context, 1, NULL, channel, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	assert_int_equal(ibv_destroy_cq(other_cq), 0);
	assert_int_equal(ibv_destroy_cq(own_cq), 0);
	world_close(&other);
}

/* ibv_close_device(3): what is left is the program's to release; nothing of it may crash. */
static void closing_first_is_survived(void **state)
{
	struct world other;
	struct pair pair;

	(void)state;
	world_open(&other, "lo");
	pair_open(&pair, &other, NULL);
	assert_int_equal(ibv_close_device(other.context), 0);
	pair_close(&pair);
	assert_int_equal(ibv_dealloc_pd(other.pd), 0);
}

static void what_is_not_there_says_so(void **state)
{
	struct ibv_ece ece = {.vendor_id = 1};
	struct ibv_qp_rate_limit_attr rate = {0};
	/* What adapters do to raw packets: VLAN tags, frame checksums, padding, segmentation. */
	static const struct ibv_qp_init_attr_ex asked[] = {
		{.comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS, .create_flags = IBV_QP_CREATE_CVLAN_STRIPPING},
		{.comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS, .create_flags = IBV_QP_CREATE_SCATTER_FCS},
		{.comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS, .create_flags = IBV_QP_CREATE_PCI_WRITE_END_PADDING},
		{.comp_mask = IBV_QP_INIT_ATTR_MAX_TSO_HEADER, .max_tso_header = 64},
	};
	struct pair pair;

	(void)state;
	pair_open(&pair, &world, NULL);
	errno = 0;
	assert_null(ibv_create_flow_action_esp(world.context, &(struct ibv_flow_action_esp_attr){0}));
	assert_int_equal(errno, EOPNOTSUPP);
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		struct ibv_qp_init_attr_ex attr = asked[i];

		attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr.pd = world.pd;
		attr.send_cq = attr.recv_cq = pair.cq[0];
		attr.qp_type = IBV_QPT_RAW_PACKET;
		errno = 0;
		assert_null(ibv_create_qp_ex(world.context, &attr));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	assert_int_equal(ibv_modify_qp_rate_limit(pair.qp[0], &rate), EOPNOTSUPP);
	assert_int_equal(ibv_set_ece(pair.qp[0], &ece), EOPNOTSUPP);
	assert_int_equal(ibv_query_ece(pair.qp[0], &ece), EOPNOTSUPP);
	assert_int_equal(ece.vendor_id, 0);
	assert_int_equal(ibv_query_qp_data_in_order(pair.qp[0], IBV_WR_RDMA_WRITE, 0), 1);
	assert_int_equal(ibv_query_qp_data_in_order(pair.qp[0], IBV_WR_RDMA_WRITE, 1), 0);
	assert_int_equal(ibv_query_qp_data_in_order(pair.qp[0], IBV_WR_BIND_MW, 0), 0);
	pair_close(&pair);
}

static void nothing_can_be_destroyed(void **state)
{
	(void)state;
	assert_int_equal(ibv_dealloc_pd(NULL), EINVAL);
	assert_int_equal(ibv_dereg_mr(NULL), EINVAL);
	assert_int_equal(ibv_destroy_cq(NULL), EINVAL);
	assert_int_equal(ibv_destroy_qp(NULL), EINVAL);
	assert_int_equal(ibv_destroy_srq(NULL), EINVAL);
	assert_int_equal(ibv_destroy_ah(NULL), EINVAL);
	assert_int_equal(ibv_destroy_comp_channel(NULL), EINVAL);
	assert_null(ibv_create_comp_channel(NULL));
	assert_null(ibv_create_ah(NULL, NULL));
	assert_null(ibv_create_srq(NULL, NULL));
	assert_int_equal(ibv_modify_qp(NULL, NULL, 0), EINVAL);
	assert_int_equal(ibv_query_qp(NULL, NULL, 0, NULL), EINVAL);
	assert_null(ibv_qp_to_qp_ex(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_domain_in_use_stays),
		cmocka_unit_test(parent_and_thread_domains),
		cmocka_unit_test(queues_lie_in_the_applications_memory),
		cmocka_unit_test(an_allocator_may_decline_or_have_none),
		cmocka_unit_test(queue_pairs_grant_at_least_what_was_asked_and_say_so),
		cmocka_unit_test(oversized_and_unknown_requests_are_refused),
		cmocka_unit_test(probing_for_inline_ends),
		cmocka_unit_test(strangers_are_refused),
		cmocka_unit_test(closing_first_is_survived),
		cmocka_unit_test(what_is_not_there_says_so),
		cmocka_unit_test(nothing_can_be_destroyed),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
