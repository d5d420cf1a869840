/* SPDX-License-Identifier: MIT
 *
 * Every limit that ibv_query_device_ex and ibv_query_port tell, under every profile and under none: what is told is granted, one more is
 * refused, by each verb that could grant it. What is told to be 0 is not there: EOPNOTSUPP.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/private_network.h"
#include "unit/profiles/expected_profiles.h"
#include "unit/verbs/profile_world.h"

static struct ibv_device_attr_ex told;
static struct ibv_port_attr port;
static struct ibv_cq *cq;

/* ---- tries: 0, or the errno of the refusal; what was made is gone again ---- */

static int end_mr(struct ibv_mr *mr)
{
	if (mr == NULL)
		return errno;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	return 0;
}

/* On demand: it may be memory that is not there. */
enum { ANYWHERE = 4096, ON_DEMAND = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND };

static int try_region(uint64_t length)
{
	return end_mr(ibv_reg_mr(world.pd, (void *)ANYWHERE, length, ON_DEMAND));
}

static int try_region_at(uint64_t length)
{
	return end_mr(ibv_reg_mr_iova(world.pd, (void *)ANYWHERE, length, 0, ON_DEMAND));
}

static int try_other_region(uint64_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(world.pd, (void *)ANYWHERE, 1, ON_DEMAND);
	int error = 0;

	assert_non_null(mr);
	if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)ANYWHERE, length, 0) != 0)
		error = errno;
	assert_int_equal(end_mr(mr), 0);
	return error;
}

/* A file of that length has no pages. Where it fits it would be mapped, for which a sanitizer may have no room. */
static int try_dmabuf(uint64_t length)
{
	int fd = memfd_create("limits", MFD_CLOEXEC), error;

	assert_true(fd >= 0);
	if (length <= told.orig_attr.max_mr_size)
		length = 4096;
	assert_int_equal(ftruncate(fd, (off_t)length), 0);
	error = end_mr(ibv_reg_dmabuf_mr(world.pd, 0, length, 0, fd, IBV_ACCESS_LOCAL_WRITE));
	close(fd);
	return error;
}

static int try_qp_with(struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = cap};
	struct ibv_qp *qp = ibv_create_qp(world.pd, &attr);

	if (qp == NULL)
		return errno;
	assert_int_equal(ibv_destroy_qp(qp), 0);
	return 0;
}

static int try_sends(uint64_t count)
{
	return try_qp_with((struct ibv_qp_cap){.max_send_wr = (uint32_t)count, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1});
}

static int try_receives(uint64_t count)
{
	return try_qp_with((struct ibv_qp_cap){.max_send_wr = 1, .max_recv_wr = (uint32_t)count, .max_send_sge = 1, .max_recv_sge = 1});
}

/* max_sge is the smaller one of both lists' limits. */
static int try_elements(uint64_t count)
{
	return try_qp_with((struct ibv_qp_cap){.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = (uint32_t)count,
					       .max_recv_sge = (uint32_t)count});
}

static int end_cq(struct ibv_cq *made)
{
	if (made == NULL)
		return errno;
	assert_int_equal(ibv_destroy_cq(made), 0);
	return 0;
}

static int try_completions(uint64_t count)
{
	return end_cq(ibv_create_cq(world.context, (int)count, NULL, NULL, 0));
}

static int try_completions_ex(uint64_t count)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = (uint32_t)count};
	struct ibv_cq_ex *made = ibv_create_cq_ex(world.context, &attr);

	return end_cq(made == NULL ? NULL : ibv_cq_ex_to_cq(made));
}

static int try_resized(uint64_t count)
{
	struct ibv_cq *made = ibv_create_cq(world.context, 1, NULL, NULL, 0);
	int error = ibv_resize_cq(made, (int)count);

	assert_int_equal(end_cq(made), 0);
	return error;
}

/* Vectors are counted from 0. */
static int try_vectors(uint64_t count)
{
	return end_cq(ibv_create_cq(world.context, 1, NULL, NULL, (int)count - 1));
}

static int end_srq(struct ibv_srq *srq)
{
	if (srq == NULL)
		return errno;
	assert_int_equal(ibv_destroy_srq(srq), 0);
	return 0;
}

static struct ibv_srq *create_srq(uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = max_wr, .max_sge = max_sge}};

	return ibv_create_srq(world.pd, &attr);
}

static int try_shared(uint64_t count)
{
	return end_srq(create_srq((uint32_t)count, 1));
}

static int try_shared_ex(uint64_t count)
{
	struct ibv_srq_init_attr_ex attr = {.comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = world.pd,
					    .attr = {.max_wr = (uint32_t)count, .max_sge = 1}};

	return end_srq(ibv_create_srq_ex(world.context, &attr));
}

static int try_more_shared(uint64_t count)
{
	struct ibv_srq_attr attr = {.max_wr = (uint32_t)count};
	struct ibv_srq *srq = create_srq(1, 1);
	int error;

	if (srq == NULL)
		return errno;
	error = ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
	assert_int_equal(end_srq(srq), 0);
	return error;
}

static int try_shared_elements(uint64_t count)
{
	return end_srq(create_srq(1, (uint32_t)count));
}

static int try_windows(uint64_t count)
{
	struct ibv_mw *mw = ibv_alloc_mw(world.pd, IBV_MW_TYPE_1);

	(void)count;
	if (mw == NULL)
		return errno;
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	return 0;
}

static int try_address(uint64_t count)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = world.gid, .sgid_index = (uint8_t)world.gid_index}};
	struct ibv_ah *ah = ibv_create_ah(world.pd, &attr);

	(void)count;
	if (ah == NULL)
		return errno;
	assert_int_equal(ibv_destroy_ah(ah), 0);
	return 0;
}

static struct ibv_qp *create_of(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = type,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};

	return ibv_create_qp(world.pd, &attr);
}

static int to_init(struct ibv_qp *qp, uint16_t pkey_index, uint8_t port_num)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .pkey_index = pkey_index, .port_num = port_num};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rts(struct ibv_qp *qp, uint64_t answered, uint64_t asked)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = (uint8_t)answered,
		.max_rd_atomic = (uint8_t)asked,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = world.gid, .sgid_index = (uint8_t)world.gid_index}},
	};
	int error = to_init(qp, 0, 1);

	if (error == 0)
		error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
							 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	if (error == 0)
		error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
							 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	return error;
}

static int end_qp(struct ibv_qp *qp, int error)
{
	assert_int_equal(ibv_destroy_qp(qp), 0);
	return error;
}

static int try_answered(uint64_t count)
{
	struct ibv_qp *qp = create_of(IBV_QPT_RC);

	return end_qp(qp, to_rts(qp, count, 1));
}

static int try_asked(uint64_t count)
{
	struct ibv_qp *qp = create_of(IBV_QPT_RC);

	return end_qp(qp, to_rts(qp, 1, count));
}

/* Indices are counted from 0. */
static int try_pkeys(uint64_t count)
{
	struct ibv_qp *qp = create_of(IBV_QPT_RC);

	return end_qp(qp, to_init(qp, (uint16_t)(count - 1), 1));
}

/* Ports from 1. */
static int try_ports(uint64_t count)
{
	struct ibv_qp *qp = create_of(IBV_QPT_RC);

	return end_qp(qp, to_init(qp, 0, (uint8_t)count));
}

static int try_queried_ports(uint64_t count)
{
	struct ibv_port_attr attr;

	return ibv_query_port(world.context, (uint8_t)count, &attr);
}

static int try_read_elements(uint64_t count)
{
	struct pair_options options = {.sge = (uint32_t)told.orig_attr.max_sge};
	struct ibv_sge sge[64] = {{0}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ, .sg_list = sge, .num_sge = (int)count}, *bad;
	struct pair pair;
	int error;

	assert_true(count <= sizeof(sge) / sizeof(sge[0]));
	pair_open(&pair, &world, &options);
	error = ibv_post_send(pair.qp[0], &wr, &bad);
	pair_close(&pair);
	return error;
}

/* Where it fits it would be sent. */
static int try_message(uint64_t length)
{
	struct ibv_sge sge[2] = {{.length = (uint32_t)(length / 2)}, {.length = (uint32_t)(length - length / 2)}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = sge, .num_sge = 2}, *bad;
	struct pair_options options = {.sge = told.orig_attr.max_sge >= 2 ? 2 : 1};
	struct pair pair;
	int error;

	if (length <= port.max_msg_sz)
		return 0;
	if (options.sge == 1) {
		sge[0].length = (uint32_t)length;
		wr.num_sge = 1;
	}
	pair_open(&pair, &world, &options);
	error = ibv_post_send(pair.qp[0], &wr, &bad);
	pair_close(&pair);
	return error;
}

static int try_members(uint64_t count)
{
	union ibv_gid group = {.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}};
	struct ibv_qp **qp = calloc(count, sizeof(struct ibv_qp *));
	uint64_t made = 0;
	int error = 0;

	assert_non_null(qp);
	while (error == 0 && made < count) {
		assert_non_null(qp[made] = create_of(IBV_QPT_UD));
		error = ibv_attach_mcast(qp[made++], &group, 0);
	}
	assert_true(error == 0 || made == count);
	for (uint64_t i = 0; i < made; i++) {
		if (i < made - (error != 0))
			assert_int_equal(ibv_detach_mcast(qp[i], &group, 0), 0);
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
	}
	free(qp);
	return error;
}

static int try_device_memory(uint64_t length)
{
	struct ibv_alloc_dm_attr attr = {.length = length};
	struct ibv_dm *dm = ibv_alloc_dm(world.context, &attr);

	if (dm == NULL)
		return errno;
	assert_int_equal(ibv_free_dm(dm), 0);
	return 0;
}

static struct ibv_wq *create_wq(void)
{
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = world.pd, .cq = cq};

	return ibv_create_wq(world.context, &attr);
}

static int try_work_queue(uint64_t count)
{
	struct ibv_wq *wq = create_wq();

	(void)count;
	if (wq == NULL)
		return errno;
	assert_int_equal(ibv_destroy_wq(wq), 0);
	return 0;
}

static int try_work_queue_with(uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ, .max_wr = max_wr, .max_sge = max_sge, .pd = world.pd, .cq = cq};
	struct ibv_wq *wq = ibv_create_wq(world.context, &attr);

	if (wq == NULL)
		return errno;
	assert_int_equal(ibv_destroy_wq(wq), 0);
	return 0;
}

static int try_work_queue_receives(uint64_t count) { return try_work_queue_with((uint32_t)count, 1); }
static int try_work_queue_elements(uint64_t count) { return try_work_queue_with(1, (uint32_t)count); }

/* Tables have a power of two of entries: one more is twice as many. */
static int try_table(uint64_t count)
{
	struct ibv_wq *wq = create_wq(), **entries = calloc(2 * count, sizeof(struct ibv_wq *));
	struct ibv_rwq_ind_table_init_attr attr = {.ind_tbl = entries};
	struct ibv_rwq_ind_table *table;
	int error = 0;

	if (wq == NULL) {
		error = errno;
		free(entries);
		return error;
	}
	assert_non_null(entries);
	while (1ull << attr.log_ind_tbl_size < count)
		attr.log_ind_tbl_size++;
	for (uint64_t i = 0; i < 2 * count; i++)
		entries[i] = wq;
	table = ibv_create_rwq_ind_table(world.context, &attr);
	if (table == NULL)
		error = errno;
	else
		assert_int_equal(ibv_destroy_rwq_ind_table(table), 0);
	assert_int_equal(ibv_destroy_wq(wq), 0);
	free(entries);
	return error;
}

static int try_gids(uint64_t count)
{
	union ibv_gid gid;

	return ibv_query_gid(world.context, 1, (int)count - 1, &gid) == 0 ? 0 : errno;
}

static int try_queried_pkeys(uint64_t count)
{
	__be16 pkey;

	return ibv_query_pkey(world.context, 1, (int)count - 1, &pkey) == 0 ? 0 : errno;
}

/* ---- the table ---- */

/* How far it is tried. */
enum reach {
	ONE_MORE,        /* what is told, and one more */
	CONNECTED,       /* the same, where a program connects queue pairs by itself: not with iWARP */
	ANY,             /* whether there are any: as many as that would take long (as_many_objects_as_are_promised has some) */
};

struct limit {
	const char *name;
	uint64_t value;
	int (*attempt)(uint64_t count);
	int error;                       /* of one more */
	enum reach reach;
};

/* More than there are addresses is no limit. */
#define BOUNDLESS (1ull << 60)

static void expect(const char *profile, const struct limit *limit, uint64_t count, int error)
{
	int result;

	errno = 0;
	result = limit->attempt(count);
	if (result != error)
		print_error("%s, %s of %llu: %llu gave %d, not %d\n", profile, limit->name, (unsigned long long)limit->value,
			    (unsigned long long)count, result, error);
	assert_int_equal(result, error);
}

static void look_at(const char *profile, bool iwarp)
{
	const struct ibv_device_attr *attr = &told.orig_attr;

	assert_int_equal(ibv_query_device_ex(world.context, NULL, &told), 0);
	assert_int_equal(ibv_query_port(world.context, 1, &port), 0);
	assert_non_null(cq = ibv_create_cq(world.context, 8, NULL, NULL, 0));

	const struct limit limits[] = {
		{"max_mr_size", attr->max_mr_size, try_region, EINVAL, ONE_MORE},
		{"max_mr_size", attr->max_mr_size, try_region_at, EINVAL, ONE_MORE},
		{"max_mr_size", attr->max_mr_size, try_other_region, EINVAL, ONE_MORE},
		{"max_mr_size", attr->max_mr_size, try_dmabuf, EINVAL, ONE_MORE},
		{"max_mw", (uint64_t)attr->max_mw, try_windows, 0, ANY},
		{"max_qp_wr", (uint64_t)attr->max_qp_wr, try_sends, EINVAL, ONE_MORE},
		{"max_qp_wr", (uint64_t)attr->max_qp_wr, try_receives, EINVAL, ONE_MORE},
		{"max_sge", (uint64_t)attr->max_sge, try_elements, EINVAL, ONE_MORE},
		{"max_sge_rd", (uint64_t)attr->max_sge_rd, try_read_elements, EINVAL, CONNECTED},
		{"max_cqe", (uint64_t)attr->max_cqe, try_completions, EINVAL, ONE_MORE},
		{"max_cqe", (uint64_t)attr->max_cqe, try_completions_ex, EINVAL, ONE_MORE},
		{"max_cqe", (uint64_t)attr->max_cqe, try_resized, EINVAL, ONE_MORE},
		{"num_comp_vectors", (uint64_t)world.context->num_comp_vectors, try_vectors, EINVAL, ONE_MORE},
		{"max_qp_rd_atom", (uint64_t)attr->max_qp_rd_atom, try_answered, EINVAL, CONNECTED},
		{"max_qp_init_rd_atom", (uint64_t)attr->max_qp_init_rd_atom, try_asked, EINVAL, CONNECTED},
		{"max_srq", (uint64_t)attr->max_srq, try_shared, 0, ANY},
		{"max_srq_wr", (uint64_t)attr->max_srq_wr, try_shared, EINVAL, ONE_MORE},
		{"max_srq_wr", (uint64_t)attr->max_srq_wr, try_shared_ex, EINVAL, ONE_MORE},
		{"max_srq_wr", (uint64_t)attr->max_srq_wr, try_more_shared, EINVAL, ONE_MORE},
		{"max_srq_sge", (uint64_t)attr->max_srq_sge, try_shared_elements, EINVAL, ONE_MORE},
		{"max_ah", (uint64_t)attr->max_ah, try_address, 0, ANY},
		{"max_mcast_qp_attach", attr->max_ah == 0 ? 0 : (uint64_t)attr->max_mcast_qp_attach, try_members, ENOMEM, CONNECTED},
		{"max_pkeys", (uint64_t)attr->max_pkeys, try_pkeys, EINVAL, CONNECTED},
		{"phys_port_cnt", attr->phys_port_cnt, try_ports, EINVAL, CONNECTED},
		{"phys_port_cnt", attr->phys_port_cnt, try_queried_ports, EINVAL, ONE_MORE},
		{"max_dm_size", told.max_dm_size, try_device_memory, ENOMEM, ONE_MORE},
		{"max_wq_type_rq", told.max_wq_type_rq, try_work_queue, 0, ANY},
		{"max_qp_wr", told.max_wq_type_rq == 0 ? 0 : (uint64_t)attr->max_qp_wr, try_work_queue_receives, EINVAL, ONE_MORE},
		{"max_sge", told.max_wq_type_rq == 0 ? 0 : (uint64_t)attr->max_sge, try_work_queue_elements, EINVAL, ONE_MORE},
		{"max_rwq_indirection_table_size", told.rss_caps.max_rwq_indirection_table_size, try_table, EINVAL, ONE_MORE},
		{"max_msg_sz", port.max_msg_sz, try_message, EINVAL, CONNECTED},
		{"gid_tbl_len", (uint64_t)port.gid_tbl_len, try_gids, EINVAL, ONE_MORE},
		{"pkey_tbl_len", port.pkey_tbl_len, try_queried_pkeys, EINVAL, CONNECTED},
	};

	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct limit *limit = &limits[i];

		if (limit->value > BOUNDLESS || (limit->reach == CONNECTED && iwarp))
			continue;
		/* A group is nothing without datagrams, of which there can be no queue pair to try it with. */
		if (limit->attempt == try_members && limit->value == 0)
			continue;
		if (limit->value == 0 || limit->reach == ANY) {
			expect(profile, limit, 1, limit->value == 0 ? EOPNOTSUPP : 0);
			continue;
		}
		expect(profile, limit, limit->value, 0);
		expect(profile, limit, limit->value + 1, limit->error);
	}
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void of_channel_adapters(void **state)
{
	(void)state;
	open_as(NULL);
	look_at("no profile", false);
	world_close(&world);
	for (unsigned i = 0; i < EXPECTED_PROFILES; i++) {
		if (expected_profiles[i].iwarp)
			continue;
		open_as(expected_profiles[i].name);
		look_at(expected_profiles[i].name, false);
		world_close(&world);
	}
	set_profile(NULL);
}

static void of_rnics(void **state)
{
	(void)state;
	open_rnic_as(NULL);
	look_at("no profile, iWARP", true);
	world_close(&world);
	for (unsigned i = 0; i < EXPECTED_PROFILES; i++) {
		if (!expected_profiles[i].iwarp)
			continue;
		open_rnic_as(expected_profiles[i].name);
		look_at(expected_profiles[i].name, true);
		world_close(&world);
	}
	set_profile(NULL);
}

/* The address handle that an index leads to, of which the interface has an address. */
static int try_source(uint8_t index)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = world.gid, .sgid_index = index}};
	struct ibv_ah *ah = ibv_create_ah(world.pd, &attr);

	if (ah == NULL)
		return errno;
	assert_int_equal(ibv_destroy_ah(ah), 0);
	return 0;
}

/* An interface with more addresses than the adapter's table has places: those beyond are not there. */
static void more_addresses_than_places(void **state)
{
	enum { ADDRESSES = 40, PLACES = 32 };
	struct ibv_gid_entry entries[64];
	char address[16];

	(void)state;
	for (int i = 0; i < ADDRESSES; i++) {
		snprintf(address, sizeof(address), "10.9.0.%d", i + 1);
		assert_int_equal(private_network_add_address("lo", address, 32), 0);
	}
	/* verbenad hears of addresses by itself: the device is asked until it has them all. */
	for (ssize_t found = 0; found <= ADDRESSES;) {
		open_as(NULL);
		found = ibv_query_gid_table(world.context, entries, 64, 0);
		if (found > ADDRESSES) {
			assert_int_equal(try_source(PLACES - 1), 0);
			assert_int_equal(try_source(PLACES), 0);
		}
		world_close(&world);
	}
	open_as("irdma");
	assert_int_equal(ibv_query_port(world.context, 1, &port), 0);
	assert_int_equal(port.gid_tbl_len, PLACES);
	assert_int_equal(ibv_query_gid_table(world.context, entries, 64, 0), PLACES);
	assert_int_equal(try_source(PLACES - 1), 0);
	assert_int_equal(try_source(PLACES), EINVAL);
	world_close(&world);
	set_profile(NULL);
	for (int i = 0; i < ADDRESSES; i++) {
		snprintf(address, sizeof(address), "10.9.0.%d", i + 1);
		assert_int_equal(private_network_remove_address("lo", address, 32), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_channel_adapters),
		cmocka_unit_test(of_rnics),
		cmocka_unit_test(more_addresses_than_places),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
