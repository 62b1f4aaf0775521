"""Occupancy: hand-checked cases, what must hold for every block, and NVIDIA's own calculator."""

import importlib.util
import random
import shutil
import subprocess
from dataclasses import astuple, fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavesim.errors import DescriptionError
from wavesim.model.device import load, names
from wavesim.model.kernel import Block
from wavesim.model.occupancy import allocation, carveout_level, default_carveout, occupancy_of

KB = 1024
PRODUCTS = tuple(name for name in names() if name != "toy")


@pytest.mark.parametrize(
    ("name", "block", "blocks_per_sm", "limiter"),
    [
        # sm_75: 32 warps, 16 blocks, 64 KB; no reserved shared memory.
        ("t4", Block(256, 32), 4, "warps"),
        ("t4", Block(32, 16), 16, "blocks"),
        ("t4", Block(128, 128), 4, "registers"),
        ("t4", Block(128, 32, 0, 20 * KB), 3, "shared memory"),
        ("t4", Block(128, 32, 32 * KB, 32 * KB), 1, "shared memory"),
        # sm_80: 64 warps, 32 blocks, 164 KB; a block of 40 KB takes 41.
        ("a100-40gb", Block(64, 32), 32, "blocks"),
        ("a100-40gb", Block(128, 32), 16, "warps"),
        ("a100-40gb", Block(256, 65), 3, "registers"),
        ("a100-40gb", Block(128, 32, 0, 40 * KB), 4, "shared memory"),
        ("a100-40gb", Block(128, 32, 0, 40 * KB + 1), 3, "shared memory"),
        # sm_89: 48 warps, 24 blocks, 100 KB.
        ("rtx4090", Block(32, 32), 24, "blocks"),
        ("rtx4090", Block(1024, 32), 1, "warps"),
        ("rtx4090", Block(256, 64), 4, "registers"),
        ("rtx4090", Block(256, 32, 0, 49 * KB), 2, "shared memory"),
        ("rtx4090", Block(256, 32, 0, 99 * KB), 1, "shared memory"),
        # sm_90: 64 warps, 32 blocks, 228 KB.
        ("h200", Block(384, 168), 1, "registers"),
        ("h200", Block(256, 64, 0, 98 * KB), 2, "shared memory"),
        ("h200", Block(128, 32, 0, 227 * KB), 1, "shared memory"),
        ("h200", Block(2048 // 2, 32), 2, "warps"),
    ],
)
def test_hand_checked_blocks_fit_as_often_as_the_published_rules_say(name, block, blocks_per_sm, limiter):
    found = occupancy_of(load(name), block)
    assert (found.blocks_per_sm, found.limiter) == (blocks_per_sm, limiter)


def test_registers_are_lost_at_the_end_of_each_sub_partition():
    # 72 registers x 32 lanes = 2304 = 9 units of 256; 16384 // 2304 = 7 warps in each quarter of the SM,
    # 28 in all, although 65536 // 2304 is 28.4: with 80 registers it is 6 x 4 = 24 against 25.6.
    assert occupancy_of(load("h200"), Block(32, 72)).limits["registers"] == 28
    assert occupancy_of(load("h200"), Block(32, 80)).limits["registers"] == 24


def test_blocks_may_straddle_sub_partitions():
    # Three warps of 128 registers: four warps in each quarter are 16 warps, which hold five blocks.
    assert occupancy_of(load("h200"), Block(96, 128)).limits["registers"] == 5


def test_threads_that_do_not_fill_a_warp_take_a_whole_one():
    h200 = load("h200")
    assert occupancy_of(h200, Block(33, 32)).warps_per_sm == 64
    assert allocation(h200, Block(33, 32)).warps == 2


def test_the_fraction_counts_warps():
    found = occupancy_of(load("h200"), Block(256, 64, 0, 98 * KB))
    assert (found.warps_per_sm, found.fraction) == (16, 0.25)
    assert found.limits == {"blocks": 32, "warps": 8, "registers": 4, "shared memory": 2}


def test_a_toy_block_of_1024_threads_has_the_sm_to_itself():
    toy = load("toy")
    assert [occupancy_of(toy, Block(threads)).blocks_per_sm for threads in (1024, 512, 256)] == [1, 2, 4]


def test_the_driver_reserves_a_kilobyte_per_block_from_compute_capability_8_0():
    assert allocation(load("h200"), Block(128)).shared_bytes == KB
    assert allocation(load("h200"), Block(128, 32, 1, 0)).shared_bytes == KB + 128
    assert allocation(load("t4"), Block(128)).shared_bytes == 0
    assert allocation(load("t4"), Block(128, 32, 1, 0)).shared_bytes == 256


def test_a_carve_out_is_a_hint_that_rounds_up_to_a_level():
    h200, block = load("h200"), Block(128, 32, 0, 20 * KB)
    assert occupancy_of(h200, block, 64 * KB).blocks_per_sm == 3
    assert occupancy_of(h200, block, 64 * KB + 1).blocks_per_sm == 4
    assert occupancy_of(h200, block, 0).blocks_per_sm == 1
    assert carveout_level(h200, 101 * KB) == 132 * KB


@pytest.mark.parametrize("wanted", [-1, 229 * KB])
def test_a_carve_out_that_no_sm_has_is_refused(wanted):
    with pytest.raises(DescriptionError, match=f"carveout_bytes is {wanted}; it must be 0 to 233472"):
        occupancy_of(load("h200"), Block(128, 32, 0, KB), wanted)


def test_the_default_carve_out_of_a_150_kb_block_leaves_no_room_for_a_20_kb_neighbour():
    h200 = load("h200")
    large, small = Block(256, 128, 0, 150 * KB), Block(128, 32, 0, 20 * KB)
    level = default_carveout(h200, large)
    assert level == 164 * KB
    assert allocation(h200, large).shared_bytes + allocation(h200, small).shared_bytes > level


def test_the_default_carve_out_of_100_kb_blocks_holds_one_of_them_and_two_of_50_kb():
    h200 = load("h200")
    large, small = Block(128, 32, 0, 100 * KB), Block(128, 32, 0, 50 * KB)
    level = default_carveout(h200, large)
    assert level == 228 * KB
    assert allocation(h200, large).shared_bytes + 2 * allocation(h200, small).shared_bytes <= level


@pytest.mark.parametrize(
    ("name", "block", "message"),
    [
        ("h200", Block(1025), "threads is 1025; h200 runs at most 1024 per block.*smaller blocks"),
        ("h200", Block(128, 256), "registers is 256 per thread; h200 has at most 255"),
        ("h200", Block(1024, 65), "registers is 65 per thread for 1024 threads; .* allows 64 per thread"),
        # Nine warps are checked as twelve, and 12 x 32 x 176 is more than 65536 although 9 x 32 x 176 is not.
        ("h200", Block(288, 176), "registers is 176 per thread for 288 threads.* allows 168 per thread"),
        ("h200", Block(128, 32, 0, 227 * KB + 1), "shared_bytes is 232449; h200 allows .* 232448 bytes"),
        ("t4", Block(128, 32, 0, 96 * KB), "shared_bytes is 98304; t4 allows a block at most 65536"),
        ("h200", Block(128, 32, 49 * KB, 0), "static_shared_bytes is 50176; .* 49152.*dynamic"),
    ],
)
def test_a_block_that_can_never_run_is_refused_with_value_bound_and_fix(name, block, message):
    with pytest.raises(DescriptionError, match=message):
        occupancy_of(load(name), block)


blocks = st.builds(
    Block,
    threads=st.integers(1, 1024),
    registers=st.integers(1, 64),
    static_shared_bytes=st.integers(0, 24 * KB),
    dynamic_shared_bytes=st.integers(0, 40 * KB),
)
devices = st.sampled_from([load(name) for name in names()])


@given(devices, blocks)
def test_resident_blocks_never_take_more_than_the_sm_has(device, block):
    found, each = occupancy_of(device, block), allocation(device, block)
    assert found.blocks_per_sm == min(found.limits.values()) == found.limits[found.limiter] >= 1
    assert found.warps_per_sm <= device.max_warps_per_sm
    assert found.blocks_per_sm * each.registers <= device.registers_per_sm
    assert found.blocks_per_sm * each.shared_bytes <= device.shared_bytes_per_sm
    assert 0 < found.fraction <= 1


@given(devices, blocks, st.sampled_from([field.name for field in fields(Block)]))
def test_a_block_that_takes_more_of_anything_never_fits_more_often(device, block, resource):
    # Rounded up, because threads and registers start at one.
    smaller = replace(block, **{resource: (getattr(block, resource) + 1) // 2})
    assert occupancy_of(device, smaller).blocks_per_sm >= occupancy_of(device, block).blocks_per_sm


@given(devices, blocks)
def test_a_larger_carve_out_never_holds_fewer_blocks_and_the_default_one_holds_the_most(device, block):
    by_level = [occupancy_of(device, block, level).blocks_per_sm for level in device.carveouts_bytes]
    assert by_level == sorted(by_level)
    assert occupancy_of(device, block, default_carveout(device, block)).blocks_per_sm == by_level[-1]


@given(blocks)
def test_more_of_the_device_never_holds_fewer_blocks(block):
    rtx4090, h200 = load("rtx4090"), load("h200")
    assert occupancy_of(h200, block).blocks_per_sm >= occupancy_of(rtx4090, block).blocks_per_sm


CALCULATOR = r"""
#include <stdio.h>
#include "cuda_occupancy.h"
int main() {
    int percent, threads; size_t dynamic;
    cudaOccDeviceProp prop; cudaOccFuncAttributes attr; cudaOccDeviceState state; cudaOccResult result;
    prop.warpSize = 32; prop.numSms = 1; prop.sharedMemPerBlock = 49152;
    attr.maxThreadsPerBlock = 1024; attr.numBlockBarriers = 1; attr.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    while (scanf("%d %d %d %d %d %zu %zu %zu %d %d %d %zu %zu", &prop.computeMajor, &prop.computeMinor,
                 &prop.maxThreadsPerBlock, &prop.maxThreadsPerMultiprocessor, &prop.regsPerMultiprocessor,
                 &prop.sharedMemPerMultiprocessor, &prop.sharedMemPerBlockOptin,
                 &prop.reservedSharedMemPerBlock, &percent, &threads, &attr.numRegs,
                 &attr.sharedSizeBytes, &dynamic) == 13) {
        prop.regsPerBlock = prop.regsPerMultiprocessor;
        attr.maxDynamicSharedSizeBytes = dynamic; state.carveoutConfig = percent;
        int status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &prop, &attr, &state, threads, dynamic);
        if (status) result.activeBlocksPerMultiprocessor = 0;
        printf("%d\n", result.activeBlocksPerMultiprocessor);
    }
}
"""


def _calculator_header() -> Path | None:
    """The calculator ships as a header inside NVIDIA's runtime wheel."""
    spec = importlib.util.find_spec("nvidia")
    roots = spec.submodule_search_locations if spec else []
    return next((header for root in roots or [] for header in Path(root).rglob("cuda_occupancy.h")), None)


def _random_case(device, rng):
    """A block, possible or not, and a carve-out in percent; small, large and exactly fitting ones turn up."""
    static = rng.choice([0, 0, rng.randrange(4 * KB), rng.randrange(48 * KB + 1)])
    most = device.shared_bytes_per_block - static
    dynamic = rng.choice([0, rng.randrange(8 * KB), rng.randrange(most), rng.randrange(most + 2 * KB), most])
    threads = rng.choice([rng.randrange(1, 257), rng.randrange(1, 1100), 32 * rng.randrange(1, 33)])
    registers = rng.choice([rng.randrange(1, 65), rng.randrange(1, 256)])
    return Block(threads, registers, static, dynamic), rng.choice([100, 100, rng.randrange(101)])


def _resident_blocks(device, block, percent):
    try:
        return occupancy_of(device, block, device.shared_bytes_per_sm * percent // 100).blocks_per_sm
    except DescriptionError:
        return 0


@pytest.fixture(scope="module")
def calculator(tmp_path_factory):
    header, compiler = _calculator_header(), shutil.which("g++")
    if header is None or compiler is None:
        pytest.skip("needs g++ and the headers of nvidia-cuda-runtime (pip install 'wavesim[dev]')")
    folder = tmp_path_factory.mktemp("calculator")
    (folder / "calculator.cpp").write_text(CALCULATOR)
    command = [compiler, f"-I{header.parent}", "-o", "calculator", "calculator.cpp"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    return folder / "calculator"


@pytest.mark.parametrize("name", PRODUCTS)
def test_five_thousand_random_blocks_agree_with_nvidias_calculator(calculator, name):
    device, rng = load(name), random.Random(name)
    cases = [_random_case(device, rng) for _ in range(5_000)]
    limits = (
        *device.compute_capability,
        device.max_threads_per_block,
        device.max_threads_per_sm,
        device.registers_per_sm,
        device.shared_bytes_per_sm,
        device.shared_bytes_per_block,
        device.reserved_shared_bytes_per_block,
    )
    lines = [" ".join(map(str, (*limits, percent, *astuple(block)))) for block, percent in cases]
    answer = subprocess.run([calculator], input="\n".join(lines), check=True, capture_output=True, text=True)
    theirs = [int(line) for line in answer.stdout.split()]
    ours = [_resident_blocks(device, block, percent) for block, percent in cases]
    assert len(theirs) == len(cases)
    assert [case for case in zip(cases, theirs, ours, strict=True) if case[1] != case[2]] == []
    assert len(set(ours)) > 10
    assert 0 in ours
