"""The benchmark's choices, where there is no GPU: cuts, entrants, variants, clocks from stamps."""

import numpy as np
import pytest
from cubin_facts import registers_at_launch

from wavesim.codegen.cuda import stage_header
from wavesim.model.device import load
from wavesim_gpu.bench.contenders import describe_case
from wavesim_gpu.bench.kinds.products import splits_of
from wavesim_gpu.bench.kinds.variants import (
    TileConfig,
    mlp_pair,
    weight_bytes,
)
from wavesim_gpu.bench.labs import copies
from wavesim_gpu.bench.labs.copies import full_wave
from wavesim_gpu.bench.labs.primitives import is_as_used
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.run.timing import Rounds, mean_clocks

WIDE, SQUARE = TileConfig(128, 256), TileConfig(128, 128)


def test_two_stamps_give_the_mean_clock_of_what_ran_between_them():
    before = np.array([[1_000, 500], [9_000, 500], [0, 0]], np.uint64)
    after = np.array(
        [[16_000, 10_500], [24_000, 10_500], [70, 10_500]], np.uint64
    )  # the third SM made no first stamp
    assert mean_clocks(np.stack([before, after])) == [1.5]
    assert np.isnan(mean_clocks(np.stack([before, before]))[0])


def test_k_is_split_where_that_fills_waves_and_slices_stay_worth_their_sums():
    assert splits_of(tiles=24, chunks=192, sm_count=132) == [1, 5, 10, 11]  # 120, 240 and 264 blocks
    assert splits_of(tiles=48, chunks=192, sm_count=132) == [1, 2, 5]  # 96 at once, 240
    assert splits_of(tiles=132, chunks=192, sm_count=132) == [1, 2]
    assert splits_of(tiles=400, chunks=192, sm_count=132) == [1]
    assert splits_of(tiles=11, chunks=20, sm_count=132) == [1, 5]  # slices of four chunks at least


def test_each_stage_of_a_pair_has_its_own_cut_and_the_dependency_follows():
    pipeline = mlp_pair("gpt3-mlp", 1024, (SQUARE, TileConfig(256, 128, 2)), 64)
    first, second = (stage.gemm for stage in pipeline.stages)
    assert (first.grid.x, first.grid.y, second.grid.y, second.split_k) == (48, 8, 4, 2)
    assert set(pipeline.dependencies[0].producer_tiles(0, 0)) == {
        ("gemm1", (x, y)) for x in range(48) for y in (0, 1)
    }
    assert weight_bytes(pipeline) == 2 * 2 * 12_288 * 6_144


@pytest.mark.parametrize("threads", copies.THREADS)
def test_a_full_wave_of_copies_fits_on_the_gpu_under_every_plan_and_posts_by_adding(nvrtc, threads):
    h200, registers_of_sm = load("h200"), 1 << 16
    blocks = full_wave(h200, threads)
    for way in copies.WAYS.values():
        pipeline = copies.describe_pair(blocks, threads)
        for stage in copies.STAGES:
            header = stage_header(pipeline, way.plan, stage, copies.options_of(pipeline, way.plan)).text
            name = f"copy<{threads}>"
            cubin = compile_cubin(copies.SOURCE, (name,), "sm_90a", Build(), {GENERATED: header})
            is_poster = stage == "first" and way.plan.sync.has_semaphores
            assert ("red.release.gpu" in cubin.ptx) == is_poster
            assert "st.release.gpu" not in cubin.ptx
            registers = -(-registers_at_launch(cubin.data) // 8) * 8  # handed out in eights
            assert registers * threads * blocks <= registers_of_sm * h200.sm_count, (stage, way)


def test_counters_must_show_every_use():
    counters = np.ones(32 * 3, np.uint32)
    counters[0] = 5_000
    assert is_as_used(counters, 5_000)
    assert not is_as_used(counters, 5_001)
    counters[64] = 2
    assert not is_as_used(counters, 5_000)


def test_a_round_without_a_clock_costs_the_clocks_and_not_the_file():
    times = [1_000, 1_100]
    for clocks, kept in (([1.5, 1.6], [1.5, 1.6]), ([1.5, float("nan")], [])):
        case = describe_case("stream", {}, Rounds(times, clocks), None, None)
        assert (case["rounds_ns"], case["clocks_ghz"]) == (times, kept)
