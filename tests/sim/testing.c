/* SPDX-License-Identifier: MIT
 *
 * Two connected hosts for the simulator's tests.
 */
#include "roce/roce.h"
#include "sim/testing.h"
#include "wire/burst.h"

enum { COMPLETIONS = 4096 };

void pair_make(struct pair *pair, uint64_t seed, bool ipv6, enum ibv_qp_type type, size_t memory)
{
	memset(pair, 0, sizeof(*pair));
	pair->flags = IBV_SEND_SIGNALED;
	pair->sim = sim_create(seed);
	for (unsigned i = 0; i < 2; i++)
		pair->hosts[i] = sim_host_add(pair->sim, ipv6);
	pair->a_cq = sim_cq(pair->hosts[0], COMPLETIONS);
	pair->b_cq = sim_cq(pair->hosts[1], COMPLETIONS);
	pair->a = sim_qp(pair->hosts[0], type, pair->a_cq, pair->a_cq, NULL);
	pair->b = sim_qp(pair->hosts[1], type, pair->b_cq, pair->b_cq, NULL);
	pair->a_memory = sim_region(pair->hosts[0], memory, SIM_ALL_ACCESS);
	pair->b_memory = sim_region(pair->hosts[1], memory, SIM_ALL_ACCESS);
}

void pair_open(struct pair *pair, uint64_t seed, bool ipv6, const struct sim_connection *connection, size_t memory)
{
	pair_make(pair, seed, ipv6, IBV_QPT_RC, memory);
	sim_connect(pair->a, pair->b, connection);
}

void pair_close(struct pair *pair)
{
	if (pair->a)
		sim_qp_free(pair->a);
	if (pair->b)
		sim_qp_free(pair->b);
	sim_region_free(&pair->a_memory);
	sim_region_free(&pair->b_memory);
	sim_cq_free(pair->a_cq);
	sim_cq_free(pair->b_cq);
	sim_destroy(pair->sim);
}

void pair_fill(struct pair *pair, struct sim_region *region, size_t length)
{
	for (size_t i = 0; i < length; i += 4) {
		uint32_t word = sim_random(pair->sim);

		memcpy(region->bytes + i, &word, length - i < 4 ? length - i : 4);
	}
}

void pair_post_at(struct pair *pair, enum ibv_wr_opcode opcode, uint64_t local, uint64_t remote, uint32_t length,
		  uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)pair->a_memory.bytes + local, length, pair->a_memory.key};
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = pair->flags,
		.imm_data = htobe32(0xc0ffee00),
	};

	wr.wr.rdma.remote_addr = (uintptr_t)pair->b_memory.bytes + remote;
	wr.wr.rdma.rkey = pair->b_memory.key;
	assert_int_equal(sim_post_send(pair->a, &wr), 0);
}

void pair_post(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t length, uint64_t wr_id)
{
	pair_post_at(pair, opcode, 0, 0, length, wr_id);
}

void pair_post_atomic(struct pair *pair, enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap,
		      uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)pair->a_memory.bytes, 8, pair->a_memory.key};
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = pair->flags,
	};

	wr.wr.atomic.remote_addr = (uintptr_t)pair->b_memory.bytes;
	wr.wr.atomic.rkey = pair->b_memory.key;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	assert_int_equal(sim_post_send(pair->a, &wr), 0);
}

void expect_send(struct vb_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_true(sim_poll(cq, &wc));
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.wr_id, wr_id);
}

bool pair_carry(struct pair *pair, bool from_b, uint32_t *packets, uint32_t *runs)
{
	static struct vb_burst burst;
	struct vb_qp *from = from_b ? pair->b : pair->a, *to = from_b ? pair->a : pair->b;
	bool more;

	vb_burst_reset(&burst);
	vb_lock_take(&from->lock);
	more = vb_roce_send(from, pair->sim->now, &burst);
	vb_lock_release(&from->lock);
	vb_lock_take(&to->lock);
	for (uint32_t run = 0; run < burst.runs; run++)
		for (uint32_t i = 0; i < burst.run[run].packets; i++) {
			struct vb_roce_packet packet;
			struct vb_path back = burst.run[run].path;
			size_t length;
			const uint8_t *bytes = vb_burst_packet(&burst, run, i, &length);

			assert_int_equal(vb_roce_packet_decode(&packet, bytes, length, &back, true, (uint16_t)i), VB_PACKET_OK);
			memcpy(packet.from.source, to->path.destination, sizeof(packet.from.source));
			memcpy(packet.from.destination, to->path.source, sizeof(packet.from.destination));
			vb_roce_receive(to, pair->sim->now, &packet);
		}
	vb_lock_release(&to->lock);
	*packets = burst.packets;
	*runs += burst.runs;
	return more;
}
