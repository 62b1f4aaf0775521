"""What safe verdicts take for granted of the hardware: carve-outs, and that no launch passes an older one.

The first test brings about what `safety_of` refuses: kernels that ask for CUDA's default carve-out shut each
other out, and the same ones with the largest do not.
"""

import numpy as np
import pytest

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.safety.deadlock import safety_of
from wavesim_gpu.driver.device import query

pytestmark = pytest.mark.gpu
cupy = pytest.importorskip("cupy")

SOURCE = r"""
extern "C" __global__ void hold(volatile unsigned* started, volatile unsigned* gate,
                                unsigned long long limit_ns, unsigned* gave_up) {
    extern __shared__ char memory[];
    unsigned long long began, now;
    if (threadIdx.x == 0) {
        memory[0] = 0;
        atomicAdd((unsigned*)started, 1u);
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
        do {
            asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        } while (*gate == 0 && now - began < limit_ns);
        if (*gate == 0) atomicAdd(gave_up, 1u);
    }
}
extern "C" __global__ void open_gate(unsigned* started, unsigned* gate, unsigned all) {
    extern __shared__ char memory[];
    if (threadIdx.x == 0) {
        memory[0] = 0;
        if (atomicAdd(started, 1u) + 1 == all) atomicExch(gate, 1u);
    }
}
"""
SMALL, LARGE = 24 << 10, 140 << 10  # bytes: a carve-out that holds the one has no room for the other
LIMIT_NS = 2_000_000_000


def _kernels(percent):
    module = cupy.RawModule(code=SOURCE)
    kernels = module.get_function("hold"), module.get_function("open_gate")
    for kernel in kernels:
        kernel.max_dynamic_shared_size_bytes = LARGE
        kernel.preferred_shared_memory_carveout = percent
        _ = kernel.num_regs  # loaded before any of them waits
    return kernels


def _waits_that_gave_up(percent):
    """One small block on every SM waits until all large ones, a block per SM, have started."""
    sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
    hold, open_gate = _kernels(percent)
    words = cupy.zeros(4, dtype=np.uint32)
    started, gate, gave_up, opened = (words[i : i + 1] for i in range(4))
    cupy.cuda.Device().synchronize()
    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    with first:
        # So many threads that an SM takes one block of them: a block on each.
        hold((sms,), (1024,), (started, gate, np.uint64(LIMIT_NS), gave_up), shared_mem=SMALL)
    with second:
        open_gate((sms,), (128,), (opened, gate, np.uint32(sms)), shared_mem=LARGE)
    first.synchronize()
    second.synchronize()
    return int(gave_up[0])


def test_kernels_with_the_default_carve_out_shut_each_other_out_and_with_the_largest_do_not():
    assert _waits_that_gave_up(100) == 0
    assert _waits_that_gave_up(-1) > 0


def test_the_verdict_says_the_same_of_both():
    device = query()
    stages = [
        Stage("large", Kernel("large", Grid(device.sm_count), Block(128, 32, dynamic_shared_bytes=LARGE))),
        Stage("small", Kernel("small", Grid(device.sm_count), Block(1024, 32, dynamic_shared_bytes=SMALL))),
    ]
    pipeline = Pipeline("carve-outs", stages, [Dependency(stages[1][x, y], [stages[0][:, y]])])
    plan = parse_plan("streams:no-wait-kernel+row")
    assert not safety_of(pipeline, plan, device).is_safe
    assert safety_of(pipeline, plan, device, carveout="full").is_safe


def test_no_block_of_a_younger_launch_passes_an_older_one_that_does_not_fit():
    """What "seen" rests on: a large block waits for room, and a small one that would fit waits behind it."""
    sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
    hold, open_gate = _kernels(100)
    words = cupy.zeros(6, dtype=np.uint32)
    started, gate, gave_up, opened, unused, passed = (words[i : i + 1] for i in range(6))
    cupy.cuda.Device().synchronize()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    with streams[0]:  # holds so much of every SM that no large block fits
        hold((sms,), (128,), (started, gate, np.uint64(LIMIT_NS), gave_up), shared_mem=LARGE)
    while int(started.get()[0]) < sms:
        pass
    with streams[1]:
        open_gate((sms,), (128,), (opened, unused, np.uint32(sms)), shared_mem=LARGE)
    with streams[2]:
        open_gate((1,), (128,), (passed, unused, np.uint32(2)), shared_mem=1024)
    copy = cupy.cuda.Stream(non_blocking=True)
    seen = [int(passed.get(stream=copy)[0]) for _ in range(50)]
    gate.set(np.ones(1, dtype=np.uint32), stream=copy)  # no kernel, which would wait as well
    for stream in streams:
        stream.synchronize()
    assert int(gave_up[0]) == 0
    assert max(seen) == 0
    assert int(passed[0]) == 1
