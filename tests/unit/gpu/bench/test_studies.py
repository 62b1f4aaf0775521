"""The benchmark's choices, where there is no GPU: cuts, entrants, variants, clocks from stamps."""

import re

import numpy as np
import pytest
from cubin_facts import registers_at_launch

from wavesim.codegen.cuda import stage_header
from wavesim.model.device import load
from wavesim.plan.order import parse_order
from wavesim_gpu.bench.contenders import describe_case
from wavesim_gpu.bench.kinds.products import splits_of, ways_of
from wavesim_gpu.bench.kinds.variants import (
    HOPPER,
    PORTABLE,
    TileConfig,
    entrant_for,
    mlp_pair,
    products_of,
    variants_of,
    weight_bytes,
)
from wavesim_gpu.bench.labs import copies
from wavesim_gpu.bench.labs.copies import full_wave, ways_on
from wavesim_gpu.bench.labs.primitives import NAMES, is_as_used, middle
from wavesim_gpu.bench.labs.primitives import SOURCE as PRIMITIVES
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.run.runner import OutputCheck
from wavesim_gpu.run.timing import Rounds, mean_clocks

ROW = parse_order("row")
GOOD = OutputCheck({}, is_right=True, has_right_semaphores=True)
WIDE, SQUARE = TileConfig(128, 256), TileConfig(128, 128)


def test_two_stamps_give_the_mean_clock_of_what_ran_between_them():
    before = np.array([[1_000, 500], [9_000, 500], [0, 0]], np.uint64)
    after = np.array(
        [[16_000, 10_500], [24_000, 10_500], [70, 10_500]], np.uint64
    )  # the third SM made no first stamp
    assert mean_clocks(np.stack([before, after])) == [1.5]
    assert np.isnan(mean_clocks(np.stack([before, before]))[0])


def test_cycles_are_time_times_clock():
    assert Rounds([2_000, 4_000], [1.5, 1.25]).kilocycles == [3.0, 5.0]


def test_the_hopper_kernels_enter_on_a_hopper_and_the_portable_ones_elsewhere():
    assert entrant_for(load("h200")) is HOPPER
    assert entrant_for(load("a100-80gb")) is PORTABLE
    assert (HOPPER.kernels, PORTABLE.kernels) == ("hopper", "portable")  # in the results
    assert not PORTABLE.can_compute(products_of("llama-mlp", 1024).values())  # no SwiGLU
    assert HOPPER.can_compute(products_of("llama-mlp", 1024).values())


def test_k_is_split_where_that_fills_waves_and_slices_stay_worth_their_sums():
    assert splits_of(tiles=24, chunks=192, sm_count=132) == [1, 5, 10, 11]  # 120, 240 and 264 blocks
    assert splits_of(tiles=48, chunks=192, sm_count=132) == [1, 2, 5]  # 96 at once, 240
    assert splits_of(tiles=132, chunks=192, sm_count=132) == [1, 2]
    assert splits_of(tiles=400, chunks=192, sm_count=132) == [1]
    assert splits_of(tiles=11, chunks=20, sm_count=132) == [1, 5]  # slices of four chunks at least


def test_a_product_is_measured_in_every_cut_that_suits_it_and_k_is_split_only_for_few_blocks():
    gemm = products_of("gpt3-mlp", 256)["gemm1"]
    ways = ways_of(HOPPER, gemm, [ROW], sm_count=132)
    assert len(ways) == len(set(ways))
    for way in ways:
        blocks = TileConfig(way.cut.tile_m, way.cut.tile_n).applied(gemm, HOPPER.tile_k).grid.tiles
        assert way.cut.split_k == 1 or blocks * way.cut.split_k <= 264
        assert way.cut.tile_m < 512
    assert {str(way.cut) for way in ways} >= {"128x256", "128x256/2", "128x192/4"}


def test_each_stage_of_a_pair_has_its_own_cut_and_the_dependency_follows():
    pipeline = mlp_pair("gpt3-mlp", 1024, (SQUARE, TileConfig(256, 128, 2)), 64)
    first, second = (stage.gemm for stage in pipeline.stages)
    assert (first.grid.x, first.grid.y, second.grid.y, second.split_k) == (48, 8, 4, 2)
    assert set(pipeline.dependencies[0].producer_tiles(0, 0)) == {
        ("gemm1", (x, y)) for x in range(48) for y in (0, 1)
    }
    assert weight_bytes(pipeline) == 2 * 2 * 12_288 * 6_144


def test_stream_k_takes_part_in_cuts_that_were_split():
    kinds = [kind for kind in HOPPER.kinds if kind.name.startswith("stream-k")]
    found = variants_of(kinds, [(TileConfig(64, 256, 11), TileConfig(64, 128))], [ROW])
    assert {variant.cuts for variant in found} == {(TileConfig(64, 256), TileConfig(64, 128))}
    assert {variant.kind.stored[0] for variant in found} == {"hopper-stream-k", "hopper-stream-k-dependent"}


def test_short_runs_are_timed_in_batches_and_every_round_is_kept(monkeypatch):
    asked, begun = [], []

    def time_together(contenders, rounds, warm_up_s, head_start_ns):
        asked.append((rounds, head_start_ns))
        begun.append(next(iter(contenders)))
        return {name: Rounds([len(asked)] * rounds, [1.0] * rounds) for name in contenders}, None

    monkeypatch.setattr(copies, "time_together", time_together)
    found, _ = copies.time_in_batches({"stream": None, "tile": None}, 50)
    assert asked == [(20, 2_000_000), (20, 2_000_000), (10, 1_000_000)]
    assert begun == ["stream", "tile", "stream"]
    assert found["tile"].times_ns == [1] * 20 + [2] * 20 + [3] * 10
    assert len(found["stream"].clocks_ghz) == 50


def test_copies_run_by_dependent_launch_where_the_gpu_knows_it():
    assert set(ways_on(load("h200"))) == {"stream", "ready", "tile", "pdl", "tile on one stream"}
    assert set(ways_on(load("a100-80gb"))) == {"stream", "ready", "tile"}
    assert full_wave(load("h200"), 1024) == 264
    assert full_wave(load("h200"), 128) == 132 * 16


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


def test_a_primitives_time_is_the_median_blocks_and_its_clock_cycles_over_time():
    durations = np.array([[500_000, 1_000_000], [600_000, 1_200_000], [900_000, 1_800_000]], np.uint64)
    assert middle(durations) == (600_000, 2.0)


def test_counters_must_show_every_use():
    counters = np.ones(32 * 3, np.uint32)
    counters[0] = 5_000
    assert is_as_used(counters, 5_000)
    assert not is_as_used(counters, 5_001)
    counters[64] = 2
    assert not is_as_used(counters, 5_000)


def test_every_primitive_compiles_and_is_other_code_than_the_empty_loop():
    bodies = set()
    for index, name in enumerate(NAMES):
        build = Build(is_recording=name == "recording")
        ptx = compile_cubin(PRIMITIVES, (f"primitive<{index}>",), "sm_90a", build).ptx
        bodies.add(re.sub(r"primitiveILi\d+E", "primitive", ptx))
    assert len(bodies) == len(NAMES)


def test_variants_are_all_kinds_in_all_cuts_and_orders():
    cuts, kinds = [(WIDE, WIDE), (WIDE, SQUARE)], [kind for kind in HOPPER.kinds if not kind.is_joint]
    found = variants_of(kinds, cuts, [ROW, parse_order("grouped:4")])
    assert len(set(found)) == len(kinds) * 4 == len(found)


def test_one_kernel_for_both_stages_is_screened_in_the_cut_of_either_for_both_and_is_no_semaphore_plan():
    joint = [kind for kind in HOPPER.kinds if kind.is_joint]
    assert {kind.plan for kind in joint} == {"persistent", "persistent:tile"}
    found = variants_of(joint[:1], [(WIDE, SQUARE)], [ROW])
    assert [variant.cuts for variant in found] == [(WIDE, SQUARE), (WIDE, WIDE), (SQUARE, SQUARE)]
    assert not any(variant.has_semaphores for variant in found)
    assert len({str(variant) for variant in variants_of(joint, [(WIDE, WIDE)], [ROW])}) == len(joint)


def test_a_round_without_a_clock_costs_the_clocks_and_not_the_file():
    times = [1_000, 1_100]
    for clocks, kept in (([1.5, 1.6], [1.5, 1.6]), ([1.5, float("nan")], [])):
        case = describe_case("stream", {}, Rounds(times, clocks), None, None)
        assert (case["rounds_ns"], case["clocks_ghz"]) == (times, kept)
