"""What a generated header tells its user to add, on the host and in kernels, by schedule and launch."""

import pytest

from wavesim.codegen.cuda import SizesWord, generate
from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import DependentLaunch, StreamPerStage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan, SemaphoreSync
from wavesim.plan.schedule import Persistent, TilePerBlock
from wavesim.plan.stream_k import StreamK
from wavesim.plan.sync import Semaphores
from wavesim.workloads.catalogue import workload

H200 = load("h200")


def fork() -> Pipeline:
    a, b, c = (Stage(name, Kernel(name, Grid(4, 4), Block(128))) for name in "abc")
    return Pipeline("forked", [a, b, c], [Dependency(one[x, y], [a[:, y]]) for one in (b, c)])


def comment(plan: Plan, sizes: SizesWord = "constant") -> str:
    """The first comment of a header, as one line."""
    lines = generate(fork(), plan, H200, sizes=sizes).split("#pragma once")[0].splitlines()
    return " ".join(" ".join(line.removeprefix("//").strip() for line in lines).split())


@pytest.mark.parametrize("sizes", ["constant", "runtime"])
@pytest.mark.parametrize("schedule", [TilePerBlock(), Persistent()], ids=lambda part: part.word)
def test_a_kernel_that_starts_early_ends_only_after_the_one_that_it_reads(schedule, sizes):
    plan = Plan(schedule, DependentLaunch(), Semaphores())
    assert "Every block of b executes griddepcontrol.wait before it ends, also where wait " in comment(
        plan, sizes
    )


@pytest.mark.parametrize("plan", [SemaphoreSync(), SemaphoreSync(wait_kernel=False)])
@pytest.mark.parametrize("sizes", ["constant", "runtime"])
def test_streams_of_a_run_wait_for_the_first_ones_zeros_and_the_first_one_then_waits_for_them(plan, sizes):
    said = [
        "counters, first_stream) != cudaSuccess",
        "every other stream waits for first_stream",
        "the launches",
        "first_stream waits for every other stream",
        "check_run",
    ]
    found = comment(plan, sizes)
    places = [found.index(words) for words in said]
    assert places == sorted(places)
    header = generate(fork(), plan, H200, sizes=sizes).split("#pragma once")[1]
    before = header[: header.index("cudaError_t prepare_run")].rpartition("\n\n")[2].replace("\n// ", " ")
    assert "it waits for all that the run before does on them" in before


@pytest.mark.parametrize(
    "plan",
    [
        Plan(Persistent()),
        Plan(Persistent(), StreamPerStage(), Semaphores()),
        Plan(Persistent(fused=True), sync=Semaphores()),
    ],
    ids=lambda plan: plan.name,
)
def test_persistent_blocks_are_as_many_as_fit_and_fetch_tile_after_tile(plan: Plan):
    found = comment(plan)
    assert "a one-dimensional grid of as many blocks as fit at once, at most STAGE::blocks() blocks" in found
    assert "for (each position = forked::c::next_position(counters) below forked::c::blocks())" in found
    assert "begin(counters)" not in found


def test_a_header_without_wait_kernel_claims_safety_only_where_there_is_some():
    alone = SemaphoreSync(wait_kernel=False)
    assert "safe: " in (found := comment(alone))
    assert "for why that is safe on this device, and only there" in found
    large = workload("gpt3-mlp", 1_024)
    constant, runtime = (
        " ".join(generate(large, alone, H200, sizes=sizes).replace("//", "").split())
        for sizes in ("constant", "runtime")
    )
    assert "No wait-kernel: see its option above for how these kernels can deadlock" in constant
    assert "No wait-kernel: at some sizes that can deadlock" in runtime
    assert "why that is safe" not in constant + runtime


def test_stream_k_has_no_header():
    with pytest.raises(DescriptionError, match=r"^Stream-K, stream sync: blocks have lists .* Use schedule="):
        generate(fork(), Plan(StreamK()), H200)


@pytest.mark.parametrize("word", ["row", "streams:no-wait-kernel+row", "pdl+row", "one-stream+row", "stream"])
def test_kernels_are_prepared_where_the_verdict_rests_on_how_they_are_launched(word):
    header = generate(fork(), parse_plan(word), H200)
    is_said = "forked::prepare_kernel(kernel, its_stream)" in header
    is_there = "cudaFuncAttributePreferredSharedMemoryCarveout, 100" in header
    assert is_said == is_there == (word in ("row", "streams:no-wait-kernel+row"))
    assert ("CarVeout = 100) for every kernel".lower() in header.lower()) == is_said
