"""Plans: their words, and plans that do not fit a pipeline."""

import pytest
from toy_schedules import run

from wavesim.errors import DescriptionError
from wavesim.plan.launch import DependentLaunch
from wavesim.plan.order import ColumnMajor, Grouped, RowMajor
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync, without_overlap
from wavesim.plan.policy import CustomPolicy, RowSync, TileSync
from wavesim.plan.schedule import Persistent
from wavesim.plan.stream_k import StreamK
from wavesim.plan.sync import Semaphores
from wavesim.workloads.figure_one import toy


def test_an_edge_without_overlap_takes_as_long_as_a_kernel_boundary():
    rows, edges = SemaphoreSync(RowSync()), [("gemm1", "gemm2")]
    times = [run(toy(), plan).makespan_ns for plan in (rows, without_overlap(rows, edges), StreamSync())]
    assert times == [3000, 4000, 4000]
    with pytest.raises(DescriptionError, match="so no dependency has a policy"):
        without_overlap(StreamSync(), edges)


@pytest.mark.parametrize(
    ("word", "plan", "label"),
    [
        ("stream", StreamSync(), "Stream sync"),
        ("row", SemaphoreSync(), "Row semaphores"),
        (
            "streams:no-wait-kernel+tile",
            SemaphoreSync(TileSync(), wait_kernel=False),
            "Tile semaphores, no wait-kernel",
        ),
        ("graph", StreamSync(launch="graph"), "Stream sync, in a CUDA graph"),
        ("host", StreamSync(launch="host"), "Stream sync, launched one by one"),
        ("pdl", Plan(launch=DependentLaunch()), "Dependent launch (PDL)"),
        ("pdl:0.05", Plan(launch=DependentLaunch(), prefetch=0.05), "Dependent launch (PDL), 5 % prefetched"),
        ("stream-k", Plan(StreamK()), "Stream-K, stream sync"),
        ("stream-k-in-order", Plan(StreamK(in_order=True)), "Stream-K, runs in order, stream sync"),
        ("stream-k:2", Plan(StreamK(2)), "Stream-K, last 2 waves split, stream sync"),
        ("stream-k:1", Plan(StreamK(1)), "Stream-K, last wave split, stream sync"),
        (
            "persistent",
            Plan(Persistent(fused=True), sync=Semaphores()),
            "One persistent kernel, row semaphores",
        ),
        (
            "persistent:tile",
            Plan(Persistent(fused=True), sync=Semaphores(TileSync())),
            "One persistent kernel, tile semaphores",
        ),
        ("persistent-stream", Plan(Persistent()), "Persistent kernels, stream sync"),
    ],
)
def test_the_words_of_plans_with_other_kernels_and_launches_read_back(word, plan, label):
    assert parse_plan(word) == plan
    assert (plan.name, plan.label) == (word, label)
    assert parse_plan(word, order="grouped:4").order_of("a") == Grouped(4)


def test_a_plan_says_how_far_its_predictions_were_compared_with_measurements():
    assert {word: parse_plan(word).caveat.split(": ")[1] for word in ("pdl", "host", "persistent")} == {
        "pdl": "dependent launch is scored on few kernels (`wavesim validate`)",
        "host": "4.5 us per launch from Python was measured once, with sketch kernels; predicted only",
        "persistent": "costs are those of blocks that fetch one tile each; not scored",
    }
    assert "what it prefetches is predicted only" in parse_plan("pdl:0.05").caveat
    assert "often several points off" in parse_plan("stream-k").caveat
    assert "not scored" in parse_plan("persistent-stream").caveat
    assert not any(parse_plan(word).caveat for word in ("stream", "graph", "row", "tile"))


def test_a_stage_may_have_an_order_and_an_edge_a_policy_of_its_own():
    plan = SemaphoreSync(policies={("a", "b"): TileSync()}, orders={"b": ColumnMajor()})
    assert (plan.order_of("a"), plan.order_of("b")) == (RowMajor(), ColumnMajor())
    assert (plan.policy_of("a", "b"), plan.policy_of("a", "c")) == (TileSync(), RowSync())


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: parse_plan("magic"), "sync is 'magic'; known are stream, row, tile"),
        (lambda: parse_plan("row", order="spiral"), "order is 'spiral'; known are row, column"),
        (lambda: StreamSync(order="row"), "Plan: order is 'row'; use RowMajor()"),
        (lambda: SemaphoreSync(orders={"a": 3}), "Plan: order is 3; use RowMajor()"),
        (lambda: SemaphoreSync(policy="row"), "Semaphores: policy is 'row'; use TileSync(), RowSync()"),
        (
            lambda: SemaphoreSync(wait_kernel=False, head_start=-1),
            "head_start is -1; it must be an integer of at least 0",
        ),
        (
            lambda: SemaphoreSync(wait_kernel=False, head_start=1.5),
            "head_start is 1.5; it must be an integer of at least 0",
        ),
        (lambda: SemaphoreSync(head_start=2), "head_start is 2 but the wait-kernel rules that out"),
        (lambda: StreamSync(launch="cloud"), "submission is 'cloud'; it must be one of stream, graph, host"),
        (lambda: parse_plan("pdl:1.5"), "prefetch is 1.5; it is a share of the work, from 0 to 1"),
        (
            lambda: Plan(launch=DependentLaunch(), prefetch=True),
            "prefetch is True; it is a share of the work, from 0 to 1",
        ),
        (lambda: parse_plan("pdl:much"), "sync is 'pdl:much'; known are"),
        (lambda: parse_plan("stream-k:0"), "StreamK: waves is 0; it must be an integer of at least 1"),
        (lambda: parse_plan("persistent:x"), "sync is 'x'; known are"),
        (
            lambda: Plan(Persistent(fused=True), sync=Semaphores(policy="row")),
            "Semaphores: policy is 'row'; use TileSync(), RowSync()",
        ),
    ],
    ids=range(15),
)
def test_a_plan_that_cannot_be_is_refused(build, words):
    with pytest.raises(DescriptionError) as caught:
        build()
    assert words in str(caught.value)


def never_ready(tile_x, tile_y, grid):
    return grid.x + 1


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            StreamSync(orders={"gemm3": RowMajor()}),
            "orders stage 'gemm3'; pipeline toy has ['gemm1', 'gemm2']",
        ),
        (
            SemaphoreSync(policies={("gemm2", "gemm1"): RowSync()}),
            "has a policy for ('gemm2', 'gemm1'); pipeline toy has [('gemm1', 'gemm2')]",
        ),
        (
            Plan(Persistent(fused=True), sync=Semaphores(policies={("gemm2", "gemm1"): RowSync()})),
            "has a policy for ('gemm2', 'gemm1'); pipeline toy has [('gemm1', 'gemm2')]",
        ),
        (
            SemaphoreSync(CustomPolicy("mine", lambda x, y, grid: y, never_ready)),
            "awaits value 3 of semaphore 0, which gets 2 posts, so its consumer waits for ever",
        ),
    ],
    ids=["order", "edge", "persistent edge", "policy"],
)
def test_a_plan_that_does_not_fit_its_pipeline_is_refused_before_anything_runs(plan, words):
    with pytest.raises(DescriptionError) as caught:
        run(toy(), plan)
    assert words in str(caught.value)
