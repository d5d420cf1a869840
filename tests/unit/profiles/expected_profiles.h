/* SPDX-License-Identifier: MIT
 *
 * What devices grant under each profile, typed a second time: the adapter's own figures where they are lower than ours.
 */
#ifndef TESTS_UNIT_PROFILES_EXPECTED_PROFILES_H
#define TESTS_UNIT_PROFILES_EXPECTED_PROFILES_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define E_RC (1u << 2)
#define E_UC (1u << 3)
#define E_UD (1u << 4)
#define E_RAW (1u << 8)
#define E_XRC (1u << 9 | 1u << 10)

static const struct expected {
	const char *name;
	bool iwarp;
	unsigned types;
	uint32_t qp, qp_wr, send_sge, recv_sge, sge_rd;
	uint32_t inline_rc, inline_ud;
	uint32_t cqe;
	uint64_t mr_size;
	uint32_t rd, init_rd;
	enum ibv_atomic_cap atomics;
	uint32_t srq_wr;                 /* 0: no SRQs */
	uint32_t message;
	uint32_t gids;
	bool grants_less_inline, needs_both_queues, no_windows;
	uint32_t srq_sge, mr, group_qps; /* 0: ours */
} expected_profiles[] = {
	{"mlx5", false, E_RC | E_UC | E_UD | E_RAW | E_XRC, 16000, 32768, 30, 30, 30, 988, 512, 4194303, UINT64_MAX, 16, 16,
	 IBV_ATOMIC_HCA, 32767, 0x80000000, 64},
	{"rxe", false, E_RC | E_UC | E_UD, 16000, 32768, 30, 30, 30, 512, 512, 32767, UINT64_MAX, 128, 128, IBV_ATOMIC_HCA, 32768,
	 0x800000, 64, .srq_sge = 27, .group_qps = 56},
	{"irdma", false, E_RC | E_UD, 16000, 4063, 13, 13, 13, 101, 101, 1048574, 1ull << 45, 127, 128, IBV_ATOMIC_NONE, 0,
	 0x7fffffff, 32,
	 .grants_less_inline = true},
	{"bnxt_re", false, E_RC | E_UD, 16000, 32768, 6, 6, 6, 96, 96, 4194304, 1ull << 39, 126, 126, IBV_ATOMIC_HCA, 32768,
	 0x40000000, 64},
	{"erdma-compat", false, E_RC, 1023, 8192, 6, 1, 1, 96, 0, 4194304, UINT64_MAX, 128, 128, IBV_ATOMIC_NONE, 0, 0x80000000, 64,
	 .needs_both_queues = true},
	{"irdma", true, E_RC, 16000, 4063, 13, 13, 1, 101, 0, 1048574, 1ull << 45, 127, 128, IBV_ATOMIC_NONE, 0, 0x7fffffff, 1,
	 .grants_less_inline = true},
	{"x722", true, E_RC, 16000, 895, 3, 3, 1, 48, 0, 4194304, 1ull << 45, 63, 127, IBV_ATOMIC_NONE, 0, 0x7fffffff, 1,
	 .grants_less_inline = true},
	{"siw", true, E_RC, 16000, 32768, 6, 6, 1, 80, 0, 3276800, UINT64_MAX, 128, 128, IBV_ATOMIC_NONE, 32768, 0x80000000, 1,
	 .grants_less_inline = true, .no_windows = true, .srq_sge = 6, .mr = 1024000},
	{"erdma", true, E_RC, 1023, 8192, 6, 1, 1, 96, 0, 4194304, UINT64_MAX, 128, 128, IBV_ATOMIC_NONE, 0, 0x80000000, 1,
	 .needs_both_queues = true},
};

enum { EXPECTED_PROFILES = sizeof(expected_profiles) / sizeof(expected_profiles[0]) };

#endif
