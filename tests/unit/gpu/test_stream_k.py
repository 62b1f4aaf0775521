"""Stream-K is split the same way by the simulator and by the Hopper kernel, block for block."""

import random
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from generated_cuda import host_compiler

from wavesim.codegen.stream_k_text import HEADER, partition_header
from wavesim.plan.stream_k import StreamK
from wavesim.plan.stream_k_partition import most_shares, split_tiles

KERNELS = Path(HEADER).parents[3]
PROGRAM = """
#include <cstdio>
#include <kernels/gemm/sm90/stream_k_parts.cuh>

int main() {
    int tiles, iterations, blocks;
    while (std::scanf("%d %d %d", &tiles, &iterations, &blocks) == 3) {
        for (int block = 0; block < blocks; ++block) {
            std::printf("block");
            stream_k::for_each_part(tiles, iterations, block, blocks, [](const stream_k::TilePart& part) {
                std::printf(" %d,%d,%d,%d,%d", part.position, part.first, part.last, part.index, part.count);
            });
            std::printf("\\n");
        }
    }
}
"""


def shapes():
    """Tiles, iterations of each, blocks: fewer tiles than blocks, whole waves, shares that are empty."""
    draw = random.Random(4)
    found = [(6, 32, 4), (33, 1, 132), (33, 2, 132), (40, 3, 132), (132, 96, 132), (200, 96, 132), (1, 2, 2)]
    while len(found) < 150:
        blocks, iterations = draw.randint(1, 140), draw.choice([1, 2, 3, 8, 20, 97])
        found.append((draw.randint(1, 500), iterations, blocks))
    # The launch has at most one block for each iteration.
    return [(tiles, per_tile, min(blocks, tiles * per_tile)) for tiles, per_tile, blocks in found]


def lists_of(tiles, per_tile, blocks):
    """The simulator's, as the kernel numbers tiles; blocks with nothing to do are left out."""
    numbered = tuple((number, 0) for number in range(tiles))
    lists = StreamK().block_lists(numbered, per_tile, blocks)
    return [[(part.tile[0], part.first, part.upto, part.index, part.count) for part in own] for own in lists]


def test_the_kernels_header_is_what_the_python_functions_say():
    assert HEADER.read_text() == partition_header(), "run python -m wavesim.codegen.stream_k_text"


def test_kernel_and_simulator_give_every_block_the_same_parts(tmp_path):
    source, program = tmp_path / "parts.cpp", tmp_path / "parts"
    source.write_text(PROGRAM)
    command = [host_compiler(), "-std=c++17", "-Wall", "-Werror", f"-I{KERNELS}", "-o", program, source]
    subprocess.run(command, check=True)
    asked = "\n".join(" ".join(map(str, shape)) for shape in shapes())
    lines = iter(
        subprocess.run([program], input=asked, capture_output=True, text=True, check=True).stdout.splitlines()
    )
    for shape in shapes():
        own = [next(lines).split()[1:] for _ in range(shape[2])]
        found = [[tuple(map(int, part.split(","))) for part in parts] for parts in own if parts]
        assert found == lists_of(*shape), shape


@pytest.mark.parametrize("shape", shapes()[:40], ids=str)
def test_the_parts_of_a_tile_cover_it_once_and_are_numbered_in_order(shape):
    tiles, per_tile, blocks = shape
    parts = sorted(part for own in lists_of(*shape) for part in own)
    for tile in range(tiles):
        own = [part for part in parts if part[0] == tile]
        assert own[0][1] == 0
        assert own[-1][2] == per_tile
        assert all(before[2] == after[1] for before, after in pairwise(own))
        assert [part[3] for part in own] == list(range(len(own)))
        assert {part[4] for part in own} == {len(own)}
        assert len(own) <= most_shares(split_tiles(tiles, blocks), blocks)
