"""Crossovers of whole families, in the simulator."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.tuning.crossover.crossing import crossover_of
from wavesim.tuning.crossover.family import DescribedFamily, MlpFamily, mlp_of
from wavesim.tuning.crossover.gains import read_ways, ways_of
from wavesim.work.description.reader import load_description
from wavesim.work.gemm import Gemm
from wavesim.workloads.models import all_models

H200 = load("h200")
GPT3 = mlp_of("gpt3-145b", 8, (128, 256), "hopper")
FEW = ways_of(("stream", "pdl", "pdl+row"))
PAIR = Path(__file__).parents[4] / "docs" / "pair.toml"


def test_cells_begin_where_a_row_of_tiles_does_and_cover_the_range():
    assert GPT3.cells(100, 400) == [(100, 128), (129, 256), (257, 384), (385, 400)]
    assert GPT3.cells(128, 128) == [(128, 128)]


def test_semaphores_pay_where_the_first_wave_overflows():
    """5 rows x 24 tiles fit on 132 SMs; 6 rows do not, and their last wave is nearly empty."""
    crossover = crossover_of(GPT3, H200, (513, 896), ways=FEW)
    assert crossover.pays_from(FEW[2]) == 641
    assert [(row.m_from, row.way.word) for row in crossover.table] == [(513, "stream"), (641, "pdl+row")]
    assert crossover.table[1].gain_points > 10
    assert "products timed alone" in crossover.forecast.basis


def test_an_executor_gives_the_same_crossover():
    with ThreadPoolExecutor(2) as pool:
        there = crossover_of(GPT3, H200, (513, 896), ways=FEW, executor=pool)
    here = crossover_of(GPT3, H200, (513, 896), ways=FEW)
    assert (there.table, there.sizes) == (here.table, here.sizes)


def test_of_many_cells_those_are_simulated_between_which_the_best_way_changes():
    family = MlpFamily("small", 512, 256, (128, 256))
    crossover = crossover_of(family, H200, (1, 128 * 200), ways=FEW)
    assert 40 <= len(crossover.sizes) < 200
    at = {size.m_from: size.best for size in crossover.sizes}
    firsts = sorted(at)
    changes = [(first, second) for first, second in pairwise(firsts) if at[first] != at[second]]
    assert all(second - first == 128 for first, second in changes)


def test_a_device_without_product_times_is_predicted_from_its_data_sheet_and_says_so():
    crossover = crossover_of(mlp_of("gpt3-145b", 8, (128, 256)), load("a100-80gb"), (128, 256), ways=FEW)
    assert "data sheet" in crossover.forecast.basis
    assert not crossover.forecast.scored
    assert "guess" in crossover.forecast.interval_text


def test_plans_that_rest_on_more_than_is_accepted_are_left_out_and_named():
    few = ways_of(("stream", "row", "pdl+row"))
    crossover = crossover_of(GPT3, H200, (128, 128), ways=few)
    assert [way.word for way in crossover.ways] == ["stream", "pdl+row"]
    assert crossover.left_out[0].startswith("row grouped:4: safety: rests on")
    assert len(crossover_of(GPT3, H200, (128, 128), ways=few, accept="seen").ways) == 3


def test_a_described_pair_scales_its_rows_and_keeps_its_tile_times():
    described = load_description(PAIR)
    family = DescribedFamily("pair", described.pipeline, described.kernel_ns, 128)
    assert [stage.grid.y for stage in family.pipeline(2000).stages] == [16, 16]
    assert [stage.grid.x for stage in family.pipeline(2000).stages] == [
        stage.grid.x for stage in described.pipeline.stages
    ]
    crossover = crossover_of(family, described.device, (1024, 1152), ways=FEW)
    assert any("every M" in text for text in crossover.forecast.defaults)


def test_kernels_that_do_not_say_the_height_of_their_tiles_need_it_given():
    described = load_description(PAIR)
    if not isinstance(described.pipeline.stages[0].work, Gemm):
        with pytest.raises(DescriptionError, match="--tile-rows"):
            DescribedFamily("pair", described.pipeline, described.kernel_ns)


def test_every_model_can_be_described_and_says_where_it_stands():
    for name, model in all_models().items():
        assert model.source, name
        assert mlp_of(name, 1, (128, 256)).pipeline(128).stages[0].grid.y == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mlp_of("gpt-5", 1, (128, 256)), "model is 'gpt-5'; known are gpt3-145b"),
        (lambda: mlp_of("llama-65b", 3, (128, 256)), "tp is 3; it must divide"),
        (lambda: mlp_of("llama-65b", 8, (64, 64), "hopper"), "described of backend 'hopper' are"),
        (lambda: crossover_of(GPT3, H200, (9, 8)), "m is 8; it must be an integer from 9"),
        (lambda: crossover_of(GPT3, H200, (0, 8)), "m is 0"),
        (lambda: read_ways("stream", "row"), "stream sync alone"),
        (lambda: read_ways("row,row", "row"), "entry 2 is 'row' again"),
        (lambda: crossover_of(GPT3, H200, (1, 2), accept="luck"), "luck"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(call, words):
    with pytest.raises(DescriptionError, match=words.replace("(", r"\(")):
        call()
