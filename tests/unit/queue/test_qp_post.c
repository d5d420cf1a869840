/* SPDX-License-Identifier: MIT
 *
 * What posting takes and refuses: state, room, opcode against type, lengths, inline data, address handles, lists.
 */
#include "fixture.h"
#include "profiles/limits.h"

static struct world w;
static uint8_t bytes[8192];

static void open_in(enum ibv_qp_type type, enum ibv_qp_state state)
{
	world_open(&w, type, 64, false, false);
	bring_to(w.qp, state);
}

static struct vb_send_wqe *newest(void)
{
	return vb_send_queue_at(&w.qp->send, w.qp->send.head - 1);
}

static struct ibv_send_wr request(struct ibv_sge *sge, uint32_t length, enum ibv_wr_opcode opcode)
{
	*sge = (struct ibv_sge){.addr = (uintptr_t)bytes, .length = length, .lkey = 5};
	struct ibv_send_wr wr = {.wr_id = 77, .sg_list = sge, .num_sge = 1, .opcode = opcode};

	if (w.qp->type == IBV_QPT_UD) {
		wr.wr.ud.ah = (struct ibv_ah *)(void *)bytes;
		wr.wr.ud.remote_qpn = 5;
		wr.wr.ud.remote_qkey = 0x2222;
	}
	return wr;
}

static void states_take_or_refuse_sends(void **state)
{
	/* reset init rtr rts sqd sqe err: taken; and flushed at once */
	static const int refused[] = {EINVAL, EINVAL, EINVAL, 0, 0, 0, 0}, flushed[] = {0, 0, 0, 0, 0, 1, 1};

	(void)state;
	for (int s = IBV_QPS_RESET; s <= IBV_QPS_ERR; s++) {
		open_in(IBV_QPT_UC, (enum ibv_qp_state)s);
		assert_int_equal(post_one(w.qp, IBV_WR_SEND, 4, 0), refused[s]);
		assert_int_equal(vb_send_queue_count(&w.qp->send), !refused[s] && !flushed[s]);
		if (flushed[s])
			assert_completion(&w.send_cq, 4, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND);
		assert_empty(&w.send_cq);
		world_close(&w);
	}
}

static void states_take_or_refuse_receives(void **state)
{
	(void)state;
	for (int s = IBV_QPS_RESET; s <= IBV_QPS_ERR; s++) {
		open_in(IBV_QPT_UD, (enum ibv_qp_state)s);
		assert_int_equal(post_receive(w.qp, 4), s == IBV_QPS_RESET ? EINVAL : 0);
		if (s == IBV_QPS_ERR)
			assert_completion(&w.recv_cq, 4, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
		assert_empty(&w.recv_cq);
		world_close(&w);
	}
}

/* ibv_post_send(3)'s table, typed again; SEND_WITH_INV on UC has no opcode on the wire. */
static void opcodes_belong_to_types(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		const char *types;
		enum ibv_wc_opcode completion;
	} table[] = {
		{IBV_WR_SEND, "rc uc ud", IBV_WC_SEND},
		{IBV_WR_SEND_WITH_IMM, "rc uc ud", IBV_WC_SEND},
		{IBV_WR_SEND_WITH_INV, "rc", IBV_WC_SEND},
		{IBV_WR_RDMA_WRITE, "rc uc", IBV_WC_RDMA_WRITE},
		{IBV_WR_RDMA_WRITE_WITH_IMM, "rc uc", IBV_WC_RDMA_WRITE},
		{IBV_WR_RDMA_READ, "rc", IBV_WC_RDMA_READ},
		{IBV_WR_ATOMIC_CMP_AND_SWP, "rc", IBV_WC_COMP_SWAP},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, "rc", IBV_WC_FETCH_ADD},
		{IBV_WR_LOCAL_INV, "rc uc", IBV_WC_LOCAL_INV},
		{IBV_WR_TSO, "", IBV_WC_SEND},
		{IBV_WR_DRIVER1, "", IBV_WC_SEND},
		{(enum ibv_wr_opcode)-1, "", IBV_WC_SEND},
		{(enum ibv_wr_opcode)1000, "", IBV_WC_SEND},
	};
	static const struct {
		const char *word;
		enum ibv_qp_type type;
	} types[] = {{"rc", IBV_QPT_RC}, {"uc", IBV_QPT_UC}, {"ud", IBV_QPT_UD}};

	(void)state;
	for (unsigned t = 0; t < 3; t++) {
		open_in(types[t].type, IBV_QPS_RTS);
		for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
			bool legal = strstr(table[i].types, types[t].word) != NULL;

			assert_int_equal(post_one(w.qp, table[i].opcode, i, IBV_SEND_SIGNALED), legal ? 0 : EINVAL);
			assert_int_equal(vb_send_queue_count(&w.qp->send), legal);
			if (!legal)
				continue;
			vb_lock_take(&w.qp->lock);
			vb_qp_complete_send(w.qp, IBV_WC_SUCCESS, VB_FAULT_NONE, 0);
			vb_lock_release(&w.qp->lock);
			assert_completion(&w.send_cq, i, IBV_WC_SUCCESS, table[i].completion);
		}
		world_close(&w);
	}
}

static void work_is_kept_as_posted(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	uint8_t immediate[4];

	(void)state;
	open_in(IBV_QPT_RC, IBV_QPS_RTS);
	wr = request(&sge, 100, IBV_WR_RDMA_WRITE_WITH_IMM);
	wr.send_flags = IBV_SEND_FENCE | IBV_SEND_SOLICITED;
	wr.imm_data = htobe32(0x01020304);
	wr.wr.rdma.remote_addr = 0x123456789a;
	wr.wr.rdma.rkey = 0x777;
	assert_int_equal(post(w.qp, &wr), 0);
	assert_int_equal(newest()->wr_id, 77);
	assert_int_equal(newest()->send_flags, IBV_SEND_FENCE | IBV_SEND_SOLICITED);
	assert_int_equal(newest()->length, 100);
	assert_int_equal(newest()->sge_count, 1);
	assert_int_equal(newest()->list[0].lkey, 5);
	assert_false(newest()->is_inline);
	assert_false(newest()->started);
	assert_int_equal(newest()->rdma.address, 0x123456789a);
	assert_int_equal(newest()->rdma.rkey, 0x777);
	memcpy(immediate, &newest()->immediate, 4);
	assert_int_equal(immediate[0], 1);
	assert_int_equal(immediate[3], 4);
	wr = request(&sge, 8, IBV_WR_ATOMIC_CMP_AND_SWP);
	wr.wr.atomic.remote_addr = 0x1000;
	wr.wr.atomic.compare_add = 11;
	wr.wr.atomic.swap = 12;
	wr.wr.atomic.rkey = 13;
	assert_int_equal(post(w.qp, &wr), 0);
	assert_int_equal(newest()->atomic.address, 0x1000);
	assert_int_equal(newest()->atomic.compare_or_add, 11);
	assert_int_equal(newest()->atomic.swap, 12);
	assert_int_equal(newest()->atomic.rkey, 13);
	wr = request(&sge, 8, IBV_WR_SEND_WITH_INV);
	wr.invalidate_rkey = 0xfeed;
	assert_int_equal(post(w.qp, &wr), 0);
	assert_int_equal(newest()->invalidate_rkey, 0xfeed);
	world_close(&w);
}

static void windows_are_bound_by_their_handles(void **state)
{
	struct ibv_mw mw = {.rkey = 0x100};
	struct ibv_mr mr = {.lkey = 0x200};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW};

	(void)state;
	open_in(IBV_QPT_RC, IBV_QPS_RTS);
	assert_int_equal(post(w.qp, &wr), EINVAL);
	wr.bind_mw.mw = &mw;
	wr.bind_mw.rkey = 0x101;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.addr = 1, .length = 2, .mw_access_flags = 4};
	assert_int_equal(post(w.qp, &wr), EINVAL);
	wr.bind_mw.bind_info.mr = &mr;
	assert_int_equal(post(w.qp, &wr), 0);
	assert_int_equal(newest()->bind.window_key, 0x100);
	assert_int_equal(newest()->bind.new_key, 0x101);
	assert_int_equal(newest()->bind.region_lkey, 0x200);
	assert_int_equal(newest()->bind.address, 1);
	assert_int_equal(newest()->bind.length, 2);
	assert_int_equal(newest()->bind.access, 4);
	assert_int_equal(newest()->bind.qpn, FIXTURE_QPN);
	assert_ptr_equal(newest()->bind.pd, &w.pd);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = NULL};
	assert_int_equal(post(w.qp, &wr), 0);
	world_close(&w);
}

static void lengths_are_checked(void **state)
{
	struct ibv_sge list[4] = {{.length = 1u << 30}, {.length = 1u << 30}, {.length = 0}, {.length = 0}};
	struct ibv_send_wr wr = {.sg_list = list, .num_sge = 3, .opcode = IBV_WR_RDMA_WRITE};

	(void)state;
	open_in(IBV_QPT_RC, IBV_QPS_RTS);
	assert_int_equal(post(w.qp, &wr), 0); /* exactly 2^31 */
	assert_int_equal(newest()->length, 1u << 31);
	list[2].length = 1;
	assert_int_equal(post(w.qp, &wr), EINVAL);
	/* A sum that wraps in 32 bits. */
	list[0].length = list[1].length = UINT32_MAX;
	list[2].length = 3;
	assert_int_equal(post(w.qp, &wr), EINVAL);
	list[0].length = list[1].length = 1;
	wr.num_sge = 4;
	assert_int_equal(post(w.qp, &wr), EINVAL);
	wr.num_sge = -1;
	assert_int_equal(post(w.qp, &wr), EINVAL);
	wr.num_sge = 0;
	assert_int_equal(post(w.qp, &wr), 0);
	assert_int_equal(newest()->length, 0);
	world_close(&w);
}

static void atomics_are_eight_aligned_bytes(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	open_in(IBV_QPT_RC, IBV_QPS_RTS);
	for (uint32_t length = 7; length <= 9; length++)
		for (uint64_t address = 0x1000; address <= 0x1008; address++) {
			wr = request(&sge, length, IBV_WR_ATOMIC_FETCH_AND_ADD);
			wr.wr.atomic.remote_addr = address;
			assert_int_equal(post(w.qp, &wr), length == 8 && address % 8 == 0 ? 0 : EINVAL);
		}
	wr = request(&sge, 8, IBV_WR_ATOMIC_FETCH_AND_ADD);
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(post(w.qp, &wr), EINVAL);
	wr = request(&sge, 8, IBV_WR_RDMA_READ);
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(post(w.qp, &wr), EINVAL);
	world_close(&w);
}

static void inline_bytes_are_copied_at_once(void **state)
{
	uint8_t a[40], b[24];
	struct ibv_sge list[3] = {{(uintptr_t)a, 40, 0xbad}, {0, 0, 0xbad}, {(uintptr_t)b, 24, 0xbad}};
	struct ibv_send_wr wr = {.sg_list = list, .num_sge = 3, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};

	(void)state;
	open_in(IBV_QPT_RC, IBV_QPS_RTS);
	assert_int_equal(w.qp->attr.cap.max_inline_data, 64);
	memset(a, 0xaa, sizeof(a));
	memset(b, 0xbb, sizeof(b));
	assert_int_equal(post(w.qp, &wr), 0);
	memset(a, 0, sizeof(a));
	memset(b, 0, sizeof(b));
	assert_true(newest()->is_inline);
	assert_int_equal(newest()->length, 64);
	assert_int_equal(vb_send_wqe_inline(newest())[0], 0xaa);
	assert_int_equal(vb_send_wqe_inline(newest())[39], 0xaa);
	assert_int_equal(vb_send_wqe_inline(newest())[40], 0xbb);
	assert_int_equal(vb_send_wqe_inline(newest())[63], 0xbb);
	list[1] = (struct ibv_sge){(uintptr_t)a, 1, 0};
	assert_int_equal(post(w.qp, &wr), EINVAL);
	list[1].length = UINT32_MAX;
	assert_int_equal(post(w.qp, &wr), EINVAL);
	world_close(&w);
}

static void datagrams_need_an_address(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	open_in(IBV_QPT_UD, IBV_QPS_RTS);
	notes.ah.path.source_port = 1234;
	notes.ah.service_level = 6;
	wr = request(&sge, 4096, IBV_WR_SEND);
	assert_int_equal(post(w.qp, &wr), 0);
	assert_int_equal(newest()->datagram.path.source_port, 1234);
	assert_int_equal(newest()->datagram.service_level, 6);
	assert_int_equal(newest()->datagram.qpn, 5);
	assert_int_equal(newest()->datagram.qkey, 0x2222);
	/* IBA C10-15: the high bit asks for the queue pair's own Q_Key. */
	wr.wr.ud.remote_qkey = 0x80000000;
	assert_int_equal(post(w.qp, &wr), 0);
	assert_int_equal(newest()->datagram.qkey, 0x11111111);
	/* How long it may be is the path's business: told by its completion, whatever the MTU. */
	wr = request(&sge, 4097, IBV_WR_SEND);
	assert_int_equal(post(w.qp, &wr), 0);
	wr = request(&sge, 1, IBV_WR_SEND);
	wr.wr.ud.remote_qpn = 1 << 24;
	assert_int_equal(post(w.qp, &wr), EINVAL);
	wr = request(&sge, 1, IBV_WR_SEND);
	wr.wr.ud.ah = NULL;
	assert_int_equal(post(w.qp, &wr), EINVAL);
	notes.ah.pd = &w.other_pd;
	wr = request(&sge, 1, IBV_WR_SEND);
	assert_int_equal(post(w.qp, &wr), EINVAL);
	world_close(&w);
}

static void a_list_stops_at_the_first_bad_one(void **state)
{
	struct ibv_send_wr wr[12], *bad = NULL;
	int error;

	(void)state;
	open_in(IBV_QPT_RC, IBV_QPS_RTS);
	memset(wr, 0, sizeof(wr));
	for (unsigned i = 0; i < 12; i++) {
		wr[i].wr_id = i;
		wr[i].opcode = IBV_WR_SEND;
		wr[i].next = i < 11 ? &wr[i + 1] : NULL;
	}
	wr[2].opcode = IBV_WR_TSO;
	vb_lock_take(&w.qp->lock);
	error = vb_qp_post_send(w.qp, wr, &bad, 0);
	vb_lock_release(&w.qp->lock);
	assert_int_equal(error, EINVAL);
	assert_ptr_equal(bad, &wr[2]);
	assert_int_equal(vb_send_queue_count(&w.qp->send), 2);
	/* Two are in, eight fit: the seventh of these does not. */
	vb_lock_take(&w.qp->lock);
	error = vb_qp_post_send(w.qp, &wr[3], &bad, 0);
	vb_lock_release(&w.qp->lock);
	assert_int_equal(error, ENOMEM);
	assert_ptr_equal(bad, &wr[9]);
	assert_int_equal(vb_send_queue_count(&w.qp->send), 8);
	vb_lock_take(&w.qp->lock);
	vb_qp_complete_send(w.qp, IBV_WC_SUCCESS, VB_FAULT_NONE, 0);
	vb_lock_release(&w.qp->lock);
	assert_empty(&w.send_cq); /* unsignaled: it keeps its place */
	assert_int_equal(post_one(w.qp, IBV_WR_SEND, 1, 0), ENOMEM);
	world_close(&w);
}

static void complete_sends(unsigned count, enum ibv_wc_status status)
{
	vb_lock_take(&w.qp->lock);
	for (; count > 0; count--)
		vb_qp_complete_send(w.qp, status, VB_FAULT_NONE, 0);
	vb_lock_release(&w.qp->lock);
}

/* Posts unsignaled requests until one is refused. */
static unsigned room(void)
{
	unsigned taken = 0;
	int error;

	while ((error = post_one(w.qp, IBV_WR_SEND, 100 + taken, 0)) == 0)
		taken++;
	assert_int_equal(error, ENOMEM);
	return taken;
}

static void open_with_signaled_third(void)
{
	open_in(IBV_QPT_RC, IBV_QPS_RTS);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(post_one(w.qp, IBV_WR_SEND, i, i == 2 ? IBV_SEND_SIGNALED : 0), 0);
}

/* IBA 10.8.5.1: a request is known to be finished once a completion of it or of a later one was taken from the CQ. Until then its place
 * is taken. */
static void places_return_with_the_completion_that_is_polled(void **state)
{
	struct vb_completion current = {0};

	(void)state;
	open_with_signaled_third();
	complete_sends(6, IBV_WC_SUCCESS);
	assert_int_equal(room(), 0); /* nothing is polled yet */
	assert_completion(&w.send_cq, 2, IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_int_equal(room(), 3); /* the signaled one and the two before it */
	/* A failure is told of, signaled or not, and speaks for those before it. */
	complete_sends(1, IBV_WC_SUCCESS);
	complete_sends(1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(room(), 0);
	assert_completion(&w.send_cq, 7, IBV_WC_REM_ACCESS_ERR, IBV_WC_SEND);
	assert_int_equal(room(), 5);
	world_close(&w);
	/* The same for who polls one at a time. */
	open_with_signaled_third();
	complete_sends(3, IBV_WC_SUCCESS);
	assert_true(vb_cq_take(&w.send_cq, &current));
	assert_int_equal(current.wr_id, 2);
	assert_int_equal(room(), 3);
	world_close(&w);
}

static void places_return_with_a_reset(void **state)
{
	(void)state;
	open_with_signaled_third();
	complete_sends(5, IBV_WC_SUCCESS);
	bring_to(w.qp, IBV_QPS_RTS);
	assert_empty(&w.send_cq);
	assert_int_equal(room(), 8);
	world_close(&w);
}

/* Completions that are handed to the poller without entering the queue. */
static void places_return_with_a_completion_handed_over(void **state)
{
	struct ibv_wc wc;

	(void)state;
	open_with_signaled_third();
	vb_lock_take(&w.qp->lock);
	assert_false(vb_qp_complete_send_to(w.qp, &wc));
	assert_false(vb_qp_complete_send_to(w.qp, &wc));
	vb_lock_release(&w.qp->lock);
	assert_int_equal(room(), 0);
	vb_lock_take(&w.qp->lock);
	assert_true(vb_qp_complete_send_to(w.qp, &wc));
	assert_false(vb_qp_complete_send_to(w.qp, &wc));
	vb_lock_release(&w.qp->lock);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(room(), 3);
	world_close(&w);
}

static void receives_fill_up(void **state)
{
	struct ibv_recv_wr wr[9], *bad = NULL;

	(void)state;
	open_in(IBV_QPT_RC, IBV_QPS_INIT);
	memset(wr, 0, sizeof(wr));
	for (unsigned i = 0; i < 8; i++)
		wr[i].next = &wr[i + 1];
	vb_lock_take(&w.qp->lock);
	assert_int_equal(vb_qp_post_receive(w.qp, wr, &bad, 0), ENOMEM);
	vb_lock_release(&w.qp->lock);
	assert_ptr_equal(bad, &wr[8]);
	world_close(&w);
	/* With a shared queue there is none of its own. */
	world_open(&w, IBV_QPT_RC, 8, true, false);
	bring_to(w.qp, IBV_QPS_INIT);
	assert_int_equal(post_receive(w.qp, 1), EINVAL);
	world_close(&w);
}

/* What ibv_wr_start / ibv_wr_* / ibv_wr_complete and ibv_wr_abort stand on. */
static void builders_commit_or_abort(void **state)
{
	struct vb_send_list list;
	struct vb_send_wqe *wqe;

	(void)state;
	world_open(&w, IBV_QPT_RC, 16, false, true);
	bring_to(w.qp, IBV_QPS_RTS);
	vb_send_list_begin(&list, &w.qp->send);
	for (unsigned i = 0; i < 8; i++) {
		wqe = vb_send_list_add(&list, &w.qp->send);
		assert_non_null(wqe);
		wqe->wr_id = i;
		wqe->opcode = IBV_WR_SEND;
		assert_int_equal(vb_qp_check_send(w.qp, wqe), 0);
	}
	assert_null(vb_send_list_add(&list, &w.qp->send));
	assert_int_equal(vb_send_queue_count(&w.qp->send), 0);
	/* Begun again, the first list never was. */
	vb_send_list_begin(&list, &w.qp->send);
	wqe = vb_send_list_add(&list, &w.qp->send);
	assert_int_equal(wqe->wr_id, 0); /* zeroed */
	wqe->wr_id = 9;
	wqe->opcode = IBV_WR_SEND;
	assert_int_equal(vb_send_queue_count(&w.qp->send), 0);
	vb_lock_take(&w.qp->lock);
	assert_int_equal(vb_qp_commit_list(w.qp, &list, 0), 0);
	assert_int_equal(vb_send_queue_count(&w.qp->send), 1);
	vb_qp_complete_send(w.qp, IBV_WC_SUCCESS, VB_FAULT_NONE, 0);
	vb_lock_release(&w.qp->lock);
	assert_completion(&w.send_cq, 9, IBV_WC_SUCCESS, IBV_WC_SEND); /* sq_sig_all */
	/* It becomes work in the state that it meets. */
	vb_send_list_begin(&list, &w.qp->send);
	wqe = vb_send_list_add(&list, &w.qp->send);
	wqe->wr_id = 10;
	wqe->opcode = IBV_WR_SEND;
	assert_int_equal(step(w.qp, IBV_QPS_ERR, 0), 0);
	vb_lock_take(&w.qp->lock);
	assert_int_equal(vb_qp_commit_list(w.qp, &list, 0), 0);
	vb_lock_release(&w.qp->lock);
	assert_completion(&w.send_cq, 10, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND);
	/* A queue pair that was reset meanwhile takes nothing of it, and neither does it when it lives again. */
	vb_send_list_begin(&list, &w.qp->send);
	assert_non_null(vb_send_list_add(&list, &w.qp->send));
	assert_int_equal(step(w.qp, IBV_QPS_RESET, 0), 0);
	vb_lock_take(&w.qp->lock);
	assert_int_equal(vb_qp_commit_list(w.qp, &list, 0), EINVAL);
	vb_lock_release(&w.qp->lock);
	bring_to(w.qp, IBV_QPS_RTS);
	vb_lock_take(&w.qp->lock);
	assert_int_equal(vb_qp_commit_list(w.qp, &list, 0), EINVAL);
	vb_lock_release(&w.qp->lock);
	assert_int_equal(vb_send_queue_count(&w.qp->send), 0);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_take_or_refuse_sends),
		cmocka_unit_test(states_take_or_refuse_receives),
		cmocka_unit_test(opcodes_belong_to_types),
		cmocka_unit_test(work_is_kept_as_posted),
		cmocka_unit_test(windows_are_bound_by_their_handles),
		cmocka_unit_test(lengths_are_checked),
		cmocka_unit_test(atomics_are_eight_aligned_bytes),
		cmocka_unit_test(inline_bytes_are_copied_at_once),
		cmocka_unit_test(datagrams_need_an_address),
		cmocka_unit_test(a_list_stops_at_the_first_bad_one),
		cmocka_unit_test(places_return_with_the_completion_that_is_polled),
		cmocka_unit_test(places_return_with_a_reset),
		cmocka_unit_test(places_return_with_a_completion_handed_over),
		cmocka_unit_test(receives_fill_up),
		cmocka_unit_test(builders_commit_or_abort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
