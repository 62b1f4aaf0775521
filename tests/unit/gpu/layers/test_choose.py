"""Which way an MLP takes, by simulation: ours where it fills a tail, cuBLASLt where that gains little."""

import time
from dataclasses import replace

import pytest

from wavesim.codegen.cuda import stage_header
from wavesim.costs.device_costs import law_of
from wavesim.model.device import load
from wavesim.work.gemm.products import ProductCosts, ProductTile
from wavesim_gpu.layers import choose as choosing
from wavesim_gpu.layers.candidates import FUSED, IN_TURN, ROWS, MlpCandidate
from wavesim_gpu.layers.choose import LIBRARY, choose, predicted, predicted_library_ns, worth_timing
from wavesim_gpu.layers.description import MlpShape
from wavesim_gpu.run.planned_kernels import kernels_of

H200 = load("h200")


def gpt3(m: int) -> MlpShape:
    return MlpShape(m, 12288, 6144, 12288, "fp16", "gelu")


def test_one_kernel_for_both_products_is_chosen_where_the_first_leaves_sms_idle():
    # 3,328 rows are 26 rows of 24 tiles: 4.7 waves.
    found = choose(gpt3(3328), H200)
    assert found.candidate == MlpCandidate.read(f"hopper {FUSED} grouped:4 128x256 128x256")
    assert (found.label, found.basis) == (str(found.candidate), "estimated")
    assert found.gain_points > law_of(ProductCosts, "h200").margin_points
    low, high = found.interval_points
    assert low < found.gain_points < high


@pytest.mark.parametrize("m", [1, 16, 64, 256])
def test_few_rows_that_only_stream_weights_through_take_cublaslt(m):
    assert choose(gpt3(m), H200).candidate is None


def test_a_gain_within_the_margin_is_not_taken(monkeypatch):
    # 1,024 rows fill waves for both: within 2 % of each other.
    found = choose(gpt3(1024), H200)
    assert (found.label, found.candidate) == (LIBRARY, None)
    assert found.predicted_ns == found.library_ns > 0
    costs = replace(law_of(ProductCosts, "h200"), margin_points=-2.0)
    monkeypatch.setattr(choosing, "law_of", lambda law, name: costs)
    assert choose.__wrapped__(gpt3(1024), H200).candidate is not None


def test_ways_are_ranked_as_every_recommendation_ranks_plans(monkeypatch):
    second = predicted(gpt3(3328), H200, 3)[1]
    monkeypatch.setattr(choosing, "promising", lambda options: options[1])
    assert choose.__wrapped__(gpt3(3328), H200).candidate == second[1]


def test_a_gpu_whose_products_nobody_timed_takes_cublaslt_and_says_why():
    found = choose(gpt3(3328), load("a100-80gb"))
    assert (found.label, found.basis, found.gain_points) == (LIBRARY, "none", 0.0)
    assert "no products were timed on the" in found.reason
    assert choose(gpt3(3328), load("h100")).basis == "none"


def test_on_another_hopper_gpu_tuning_has_candidates_of_ours_to_time_and_elsewhere_none():
    shape = gpt3(3328)
    assert worth_timing(shape, H200, 8) == predicted(shape, H200, 8)
    assert len(worth_timing(shape, load("h100"), 8)) == 8
    assert not predicted(shape, load("h100"), 8)
    assert not worth_timing(shape, load("a100-80gb"), 8)


def test_what_cublaslt_does_not_fuse_costs_it_a_pass():
    costs = law_of(ProductCosts, "h200")
    plain = MlpShape(512, 4096, 4096, 4096, "bf16")
    times = {
        word: predicted_library_ns(replace(plain, activation=word), H200, costs)
        for word in (None, "gelu", "relu", "silu", "gelu-exact")
    }
    assert times[None] == times["gelu"] == times["relu"]
    assert times["silu"] == times["gelu-exact"] == times[None] + costs.pass_ns(2 * 512 * 4096)


def test_candidates_are_in_the_order_of_their_times_and_the_kernels_can_compute_them():
    found = predicted(gpt3(2000), H200, 8)
    assert len(found) == 8
    assert [ns for ns, _ in found] == sorted(ns for ns, _ in found)
    for _, candidate in found:
        pipeline, plan = candidate.planned(gpt3(2000))
        assert pipeline.stages[0].gemm.m == 2000
        assert MlpCandidate.read(str(candidate)) == candidate
        assert plan == candidate.plan()


def test_no_candidate_takes_less_than_the_tensor_cores_or_the_memory_allow():
    for m in (1, 100, 1000, 10_000):
        shape = gpt3(m)
        for ns, _ in predicted(shape, H200, 4):
            assert ns > 4 * m * 12288 * 6144 / (H200.sm_count * 4096 * 1.98)
            assert ns > 2 * 2 * 12288 * 6144 / 4.8e3


def test_a_choice_takes_milliseconds_however_many_tiles_there_are():
    began = time.process_time()
    for m in (4096, 65536, 2**20):
        choose.__wrapped__(gpt3(m), H200)
    assert time.process_time() - began < 2  # 50 ms each on an idle machine


@pytest.mark.parametrize("plan", [IN_TURN, ROWS, FUSED])
@pytest.mark.parametrize("order", ["grouped:4", "grouped:8", "column"])
def test_what_is_compiled_for_a_candidate_does_not_depend_on_the_sizes(plan, order):
    """So a process compiles little, and nothing for sizes that are new to it but not to their tiles."""
    candidate = MlpCandidate(plan, order, (ProductTile(128, 256), ProductTile(128, 256)))
    shape = MlpShape(3328, 4096, 14336, 4096, "bf16", "swiglu", "separate", "column", "column")
    others = [{"m": 1000}, {"m": 1}, {"k": 8192}, {"n1": 11008}, {"n2": 5120}, {"gate": "packed"}]
    wanted = compiled(candidate, shape)
    assert all(compiled(candidate, replace(shape, **other)) == wanted for other in others)
    assert compiled(candidate, replace(shape, dtype="fp16")) != wanted
    assert compiled(candidate, replace(shape, has_b1=True)) != wanted


def compiled(candidate: MlpCandidate, shape: MlpShape) -> list[tuple[str, str]]:
    """Template instance and generated header of each kernel: what its key is made of besides the sources."""
    pipeline, plan = candidate.planned(shape)
    texts = {stage.name: stage_header(pipeline, plan, stage.name).text for stage in pipeline.stages}
    kernels = kernels_of(pipeline, plan, H200)
    return [(kernel.launch.expression, kernel.header(texts)) for kernel in kernels]


@pytest.mark.parametrize("cuts", ["128x192 64x128", "64x128 128x192", "192x192 128x256", "128x256 192x192"])
@pytest.mark.parametrize("m", [1, 100, 384, 1000])
def test_products_in_tiles_of_different_heights_wait_for_the_rows_that_overlap(cuts, m):
    candidate = MlpCandidate.read(f"hopper {ROWS} grouped:4 {cuts}")
    pipeline, _ = candidate.planned(MlpShape(m, 1024, 1536, 768, "fp16"))
    first, second = (stage.gemm for stage in pipeline.stages)
    for row in range(second.grid.y):
        reads = {tile[1] for _, tile in pipeline.dependencies[0].producer_tiles(0, row)}
        rows = range(row * second.tile_m, min((row + 1) * second.tile_m, m))
        assert reads == {number // first.tile_m for number in rows}
    assert compiled(candidate, MlpShape(m, 1024, 1536, 768, "fp16"))
