"""Our occupancy rules give the driver's own answer on random block shapes."""

import random

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.occupancy import occupancy_of

pytestmark = pytest.mark.gpu

REGISTER_CAPS = [*range(16, 184, 8), 192, 208, 224, 240, 255]
STATIC_BYTES = [0, 16, 1024, 5000, 16_384, 30_000, 49_152]
CASES = 500

# Keeps up to 270 values alive across a loop that the compiler cannot see through, so that it uses all the
# registers that it may. (n) values in and out.
SOURCE = """
template <int CAP, int BYTES>
__global__ void __maxnreg__(CAP) hungry(float* data, int n) {
    __shared__ char room[BYTES ? BYTES : 1];
    float values[270];
#pragma unroll
    for (int i = 0; i < 270; ++i) values[i] = data[i * n + threadIdx.x];
    for (int turn = 0; turn < n; ++turn) {
#pragma unroll
        for (int i = 0; i < 270; ++i) values[i] = values[i] * values[(i + 7) % 270] + turn;
    }
    if (BYTES) room[threadIdx.x % (BYTES ? BYTES : 1)] = n;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 270; ++i) data[i * n + threadIdx.x] = values[i];
    if (BYTES) data[threadIdx.x] += room[n % (BYTES ? BYTES : 1)];
}
"""


def test_occupancy_equals_the_drivers_answer_on_500_random_blocks(runner, cupy, tmp_path):
    from wavesim_gpu.driver.compiler import compile_cubin
    from wavesim_gpu.driver.device import architecture, query
    from wavesim_gpu.driver.functions import _configured

    device, driver = query(), cupy.cuda.driver
    path = tmp_path / "hungry.cu"
    path.write_text(SOURCE)
    draw = random.Random(2026)
    pairs = [(cap, draw.choice(STATIC_BYTES)) for cap in REGISTER_CAPS]
    pairs = sorted({*pairs, *((64, size) for size in STATIC_BYTES)})
    names = [f"hungry<{cap}, {size}>" for cap, size in pairs]
    cubin = compile_cubin(path, names, architecture(cupy))
    module = cupy.cuda.function.Module()
    module.load(cubin.data)
    functions = [
        _configured(cupy, module, cubin.lowered[name], device.shared_bytes_per_block - size)
        for name, (_, size) in zip(names, pairs, strict=True)
    ]
    assert len({function.registers for function in functions}) >= 20
    assert len({function.static_shared_bytes for function in functions}) >= 5
    mismatches, zeros = [], 0
    for _ in range(CASES):
        function = draw.choice(functions)
        threads = draw.choice([draw.randint(1, 1024), 32 * draw.randint(1, 32)])
        room = device.shared_bytes_per_block - function.static_shared_bytes
        dynamic = draw.choice(
            [0, draw.randint(0, room), draw.randint(0, 20_000), 1024 * draw.randint(0, room // 1024)]
        )
        answer = driver.occupancyMaxActiveBlocksPerMultiprocessor(function.function.ptr, threads, dynamic)
        block = function.block(threads, dynamic)
        try:
            ours = occupancy_of(device, block).blocks_per_sm
        except DescriptionError:
            ours = 0
        zeros += answer == 0
        if ours != answer:
            mismatches.append((block, ours, answer))
    assert not mismatches, f"{len(mismatches)} of {CASES}: {mismatches[:5]}"
    assert zeros < CASES // 2


def test_the_query_agrees_with_the_catalogue_on_an_h200(runner):
    from wavesim.model.device import load
    from wavesim_gpu.driver.device import query

    found, known = query(), load("h200")
    if "H200" not in found.name:
        pytest.skip(f"this is a {found.name}")
    for name in (
        "sm_count",
        "compute_capability",
        "max_threads_per_sm",
        "registers_per_sm",
        "shared_bytes_per_sm",
        "shared_bytes_per_block",
        "reserved_shared_bytes_per_block",
        "max_blocks_per_sm",
    ):
        assert getattr(found, name) == getattr(known, name), name
