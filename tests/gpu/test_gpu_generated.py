"""Generated headers on the GPU: every semaphore, value, order and need as in Python; and they synchronise."""

import random

import numpy as np
import pytest
from generated_cuda import expected_numbers, probe, random_pipeline, random_plan

from wavesim.codegen.cuda import generate
from wavesim.codegen.orders import orders_backward
from wavesim.codegen.policies import derive_policies
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Grouped, RowMajor
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.plan.semaphores import edges_of
from wavesim.workloads.catalogue import workload

pytestmark = pytest.mark.gpu

# Each tile of the second kernel adds up the tiles it reads; the sum is right only if all were there.
SUM_PAIR = """
extern "C" __global__ void first(unsigned* counters, int* values) {
    const pair::Tile tile = pair::first::begin(counters);
    if (threadIdx.x == 0) values[tile.y * pair::first::columns + tile.x] = tile.y * 100 + tile.x + 1;
    pair::first::post(counters, tile);
}
extern "C" __global__ void second(unsigned* counters, const int* values, int* sums) {
    const pair::Tile tile = pair::second::begin(counters);
    const pair::Box box = pair::first_to_second::need_0(tile.x, tile.y);
    int sum = 0;
    for (int y = box.y_begin; y < box.y_end; y += box.y_step)
        for (int x = box.x_begin; x < box.x_end; x += box.x_step) {
            if (!pair::first_to_second::wait(counters, x, y)) return;
            sum += values[y * pair::first::columns + x];
        }
    if (threadIdx.x == 0) sums[tile.y * pair::second::columns + tile.x] = sum;
    pair::second::post(counters, tile);
}
extern "C" __global__ void wait_for_start(unsigned* counters) {
    pair::wait_for(counters, pair::first::started, 1);
}
"""


@pytest.fixture
def compiled(cupy, tmp_path):
    """Compiles text for this GPU into a module."""
    from wavesim_gpu.driver.compiler import compile_cubin
    from wavesim_gpu.driver.device import architecture

    def build(text):
        path = tmp_path / "generated.cu"
        path.write_text(text.replace("#pragma once", ""))
        module = cupy.cuda.function.Module()
        module.load(compile_cubin(path, (), architecture(cupy)).data)
        return module

    return build


def cases():
    rng = random.Random(11)
    for _ in range(150):
        pipeline = random_pipeline(rng)
        yield pipeline, random_plan(rng, pipeline)
    for name in ("gpt3-mlp", "llama-mlp", "attention", "attention-as-published", "resnet-conv-512"):
        pipeline = workload(name)
        policies = {edge: derive_policies(pipeline, edge)[-2].policy for edge in edges_of(pipeline)}
        yield pipeline, SemaphoreSync(TileSync(), orders=orders_backward(pipeline))
        yield pipeline, SemaphoreSync(RowSync(), policies=policies, order=Grouped(4))


def probe_kernel(number, pipeline, plan):
    """Loops are kept: unrolled, a hundred probes take minutes to compile."""
    text = probe(pipeline, plan, f"case_{number}").replace("for (int", "\n#pragma unroll 1\nfor (int")
    return (
        f'extern "C" __global__ void probe_{number}(int* next) {{\n'
        f"auto put = [&](int value) {{ *next++ = value; }};\n{text}\n}}"
    )


def test_the_device_and_python_agree_on_every_semaphore_value_order_and_need(cupy, compiled):
    found = list(cases())
    device = load("h200")
    headers = [generate(*case, device, namespace=f"case_{i}") for i, case in enumerate(found)]
    kernels = [probe_kernel(i, *case) for i, case in enumerate(found)]
    module = compiled("\n".join([*headers, *kernels]))
    for i, case in enumerate(found):
        expected = np.fromiter(expected_numbers(*case), np.int32)
        out = cupy.full(len(expected), -1, np.int32)
        module.get_function(f"probe_{i}")((1, 1, 1), (1, 1, 1), (out,))
        assert (out.get() == expected).all(), f"{case[0].dependencies}, {case[1]}"


def sum_pair():
    block = Block(32, 32)
    first, second = (
        Stage("first", Kernel("first", Grid(7, 40), block)),
        Stage("second", Kernel("second", Grid(9, 40), block)),
    )
    return Pipeline("pair", [first, second], [Dependency(second[x, y], [first[:, y]])])


@pytest.mark.parametrize("policy", [TileSync(), RowSync()])
@pytest.mark.parametrize("order", [RowMajor(), Grouped(3)])
def test_kernels_synchronised_by_a_generated_header_read_what_was_written(cupy, compiled, policy, order):
    pipeline = sum_pair()
    module = compiled(generate(pipeline, SemaphoreSync(policy, order=order), load("h200")) + SUM_PAIR)
    first_semaphore, semaphores = 3, policy.table(pipeline.stage("first").grid).count
    expected = np.repeat(
        [[sum(row * 100 + column + 1 for column in range(7))] for row in range(40)], 9, axis=1
    )
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    for _ in range(20):
        counters, values, sums = (cupy.zeros(n, np.int32) for n in (semaphores + 3, 280, 360))
        cupy.cuda.Device().synchronize()
        module.get_function("first")((280, 1, 1), (32, 1, 1), (counters, values), 0, streams[0])
        module.get_function("wait_for_start")((1, 1, 1), (32, 1, 1), (counters,), 0, streams[1])
        module.get_function("second")((360, 1, 1), (32, 1, 1), (counters, values, sums), 0, streams[1])
        cupy.cuda.Device().synchronize()
        final = counters.get()
        assert final[2] == 0, "a wait gave up"
        assert final[first_semaphore:].sum() == 280
        assert (sums.get().reshape(40, 9) == expected).all()


@pytest.mark.parametrize("policy", [TileSync(), RowSync()])
def test_blocks_whose_wait_gives_up_write_nothing_and_the_counter_says_what_was_missing(
    cupy, compiled, policy
):
    """The second kernel alone: its producer never comes. Where it has come, the same counters serve again."""
    text = generate(sum_pair(), SemaphoreSync(policy), load("h200")) + SUM_PAIR
    module = compiled("#define WAVESIM_WAIT_LIMIT_NS 20000000ull\n" + text)
    counters = cupy.zeros(policy.table(Grid(7, 40)).count + 3, np.int32)
    values, sums = cupy.zeros(280, np.int32), cupy.full(360, -1, np.int32)
    module.get_function("second")((360, 1, 1), (32, 1, 1), (counters, values, sums))
    assert (sums.get() == -1).all(), "a block went on over tiles that were not there"
    missing = int(counters[2]) - 1
    assert 3 <= missing < counters.size, "a semaphore"
    assert (counters.get()[3:] == 0).all()
    counters.fill(0)
    module.get_function("first")((280, 1, 1), (32, 1, 1), (counters, values))
    module.get_function("second")((360, 1, 1), (32, 1, 1), (counters, values, sums))
    assert int(counters[2]) == 0
    assert (sums.get() > 0).all()
