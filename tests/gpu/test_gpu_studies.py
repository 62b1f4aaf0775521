"""The benchmark's choices, where there is no GPU: cuts, entrants, finalists, clocks from stamps."""

import numpy as np
import pytest

from wavesim.model.device import load
from wavesim.model.order import parse_order
from wavesim_gpu.clock_stamps import mean_clocks
from wavesim_gpu.studies.entrants import HOPPER, PORTABLE, entrant_for
from wavesim_gpu.studies.pairs import Kind, PairStudy, Variant, variants_of
from wavesim_gpu.studies.products import ways_of
from wavesim_gpu.studies.shapes import Cut, mlp_pair, products_of, weight_bytes
from wavesim_gpu.timing import Rounds

ROW = parse_order("row")
WIDE, SQUARE = Cut(128, 256), Cut(128, 128)


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
    assert HOPPER.relatives[0] == "hopper"
    assert not PORTABLE.can_compute(products_of("llama-mlp", 1024).values())  # no SwiGLU
    assert HOPPER.can_compute(products_of("llama-mlp", 1024).values())


def test_a_product_is_measured_in_every_cut_that_suits_it_and_k_is_split_only_for_few_blocks():
    gemm = products_of("gpt3-mlp", 256)["gemm1"]
    ways = ways_of(HOPPER, gemm, [ROW], sm_count=132)
    assert len(ways) == len(set(ways))
    for way in ways:
        blocks = Cut(way.cut.tile_m, way.cut.tile_n).applied(gemm, HOPPER.tile_k).grid.tiles
        assert way.cut.split_k == 1 or blocks * way.cut.split_k <= 264
        assert way.cut.tile_m < 512
    assert {str(way.cut) for way in ways} >= {"128x256", "128x256/2", "128x192/4"}


def test_each_stage_of_a_pair_has_its_own_cut_and_the_dependency_follows():
    pipeline = mlp_pair("gpt3-mlp", 1024, (SQUARE, Cut(256, 128, 2)), 64)
    first, second = (stage.gemm for stage in pipeline.stages)
    assert (first.grid.x, first.grid.y, second.grid.y, second.split_k) == (48, 8, 4, 2)
    assert set(pipeline.dependencies[0].producer_tiles(0, 0)) == {
        ("gemm1", (x, y)) for x in range(48) for y in (0, 1)
    }
    assert weight_bytes(pipeline) == 2 * 2 * 12_288 * 6_144


@pytest.fixture
def study():
    """Screening is done: stream sync is best in one cut, semaphores gain most in the other."""
    made = PairStudy.__new__(PairStudy)
    stream, row = Kind("stream", "stream", "hopper"), Kind("row", "row", "hopper")
    times = {(stream, WIDE): 100.0, (row, WIDE): 101.0, (stream, SQUARE): 150.0, (row, SQUARE): 120.0}
    made._screened = {Variant(kind, (cut, cut), ROW): time for (kind, cut), time in times.items()}
    return made


def test_finalists_are_the_fastest_of_each_kind_and_the_cut_where_semaphores_gain_most(study):
    found = {name: (variant.kind.name, variant.cuts[0]) for name, variant in study._finalists().items()}
    assert found == {
        "stream": ("stream", WIDE),
        "row": ("row", WIDE),
        "same-cut": ("row", SQUARE),
        "same-cut stream": ("stream", SQUARE),
    }


def test_the_tuned_plan_is_the_fastest_in_screening_stream_sync_included(study):
    roles = study._roles()
    assert roles["tuned"].kind.name == "stream"
    assert roles["cusync"].kind.name == "row"


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
