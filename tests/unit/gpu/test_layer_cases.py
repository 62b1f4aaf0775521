"""The cases of `layer_graphs`: what is tried, in which tiles; which contenders go on to the longer rounds."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim_gpu.bench.kinds.graphs import GraphTimes, _finalists
from wavesim_gpu.bench.kinds.layer_cases import all_cases, cases_named, weight_bytes
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS

H200 = load("h200")


def test_every_case_has_a_name_of_its_own_and_candidates_of_every_class():
    cases = all_cases()
    assert len({f"{case.kind} {case.name}" for case in cases}) == len(cases)
    for case in cases_named("llama-3-8b 1024") + cases_named("chain gpt3") + cases_named("decode"):
        classes = {one.plan_class for one in case.candidates(H200)}
        assert classes == ({"stream"} if case.kind == "product" else {"stream", "pdl", "semaphores"})


def test_products_are_cut_into_tiles_that_there_are_kernels_for_and_few_rows_split_k():
    (case,) = cases_named("decode llama-3-8b")
    for pipeline in case.pipelines(H200).values():
        products = [stage.gemm for stage in pipeline.stages if stage.name in ("qkv", "out", "up", "down")]
        assert all((one.tile_m, one.tile_n) in TILE_CONFIGS for one in products)
        assert max(one.split_k for one in products) > 1
        assert weight_bytes(pipeline) > 2 * 4096 * (6144 + 4096 + 3 * 14336)


def test_layers_and_chains_are_tried_with_products_whose_blocks_leave_as_they_end():
    for text in ("chain gpt3-145b attention 1024", "layer qwen2.5-0.5b 1024", "decode llama-3-8b"):
        (case,) = cases_named(text)
        chained = [one for one in case.candidates(H200) if one.group[1]]
        assert {one.plan_word.removeprefix("chained+") for one in chained} == {
            one.plan.name for one in chained
        }
        assert all(one.plan.launch.is_dependent and one.plan_class == "semaphores" for one in chained)
        backends = {stage.backend for one in chained for stage in one.pipeline.stages}
        assert "hopper-chained" in backends
        assert "hopper" not in backends
    assert not any(one.group[1] for case in cases_named("product") for one in case.candidates(H200))


def test_a_part_that_is_no_case_is_refused_by_name():
    with pytest.raises(DescriptionError, match="--only is 'vgg'; it is in no case"):
        cases_named("vgg")


def contender(plan_class, tiles, trial_ns):
    return GraphTimes({"class": plan_class, "tiles": tiles, "trial_ns": trial_ns, "is_right": True}, None)


def test_the_fastest_of_each_class_goes_on_and_stream_sync_also_in_the_tiles_of_semaphores():
    contenders = [
        contender("torch", "", 90),
        contender("stream", "best", 100),
        contender("stream", "128x128", 120),
        contender("semaphores", "best", 99),
        contender("semaphores", "128x128", 95),
    ]
    found = {one.entry["class"]: one.entry["trial_ns"] for one in _finalists(contenders)}
    assert found == {"torch": 90, "stream": 100, "semaphores": 95, "stream, same tiles": 120}
