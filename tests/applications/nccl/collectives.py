# SPDX-License-Identifier: MIT
"""PyTorch over NCCL, started by torchrun: collectives whose results are compared, then the pace of all-reduce.

Ranks may share a GPU: each says that it is a host of its own, without which NCCL would refuse to have one GPU twice, and
without which it would not use the network at all.
"""

import os
import sys

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
os.environ["NCCL_HOSTID"] = "host-%d" % RANK
os.environ.setdefault("NCCL_P2P_DISABLE", "1")
os.environ.setdefault("NCCL_SHM_DISABLE", "1")

import torch                                                # noqa: E402
import torch.distributed as distributed                     # noqa: E402


def require(holds, what):
    if not holds:
        print("rank %d: wrong: %s" % (RANK, what), file=sys.stderr, flush=True)
        os._exit(1)


def check(elements):
    """Whole numbers small enough to be exact in every order of adding."""
    base = torch.arange(elements, device="cuda", dtype=torch.float32) % 1000
    mine = base + RANK
    distributed.all_reduce(mine)
    require(torch.equal(mine, base * RANKS + sum(range(RANKS))), "all-reduce of %d" % elements)

    parts = [torch.empty(elements, device="cuda") for _ in range(RANKS)]
    distributed.all_gather(parts, base * (RANK + 1))
    require(all(torch.equal(part, base * (rank + 1)) for rank, part in enumerate(parts)), "all-gather of %d" % elements)

    part = torch.empty(elements, device="cuda")
    distributed.reduce_scatter(part, [base + rank * RANK for rank in range(RANKS)])
    require(torch.equal(part, base * RANKS + RANK * sum(range(RANKS))), "reduce-scatter of %d" % elements)

    told = base.clone() if RANK == 0 else torch.zeros(elements, device="cuda")
    distributed.broadcast(told, 0)
    require(torch.equal(told, base), "broadcast of %d" % elements)

    got = torch.empty(elements, device="cuda")
    exchange = [distributed.P2POp(distributed.isend, base + RANK, (RANK + 1) % RANKS),
                distributed.P2POp(distributed.irecv, got, (RANK - 1) % RANKS)]
    for work in distributed.batch_isend_irecv(exchange):
        work.wait()
    torch.cuda.synchronize()
    require(torch.equal(got, base + (RANK - 1) % RANKS), "send and receive of %d" % elements)


def pace(elements, rounds=20):
    """Median of so many all-reduces, in seconds."""
    data = torch.ones(elements, device="cuda")
    times = []
    for _ in range(rounds + 3):
        distributed.barrier()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        distributed.all_reduce(data)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return sorted(times[3:])[rounds // 2]


torch.cuda.set_device(RANK % torch.cuda.device_count())
distributed.init_process_group("nccl")
for size in (1, 1000, 1 << 16, 1 << 22):
    check(size)
if RANK == 0:
    print("all right", flush=True)
for size in (2, 1 << 14, 1 << 20, 1 << 24):
    took = pace(size)
    if RANK == 0:
        print("all-reduce %d B: %.1f us, %.3f GB/s" % (4 * size, took * 1e6, 4 * size / took / 1e9), flush=True)
distributed.destroy_process_group()
