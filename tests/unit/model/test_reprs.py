"""What a description says of itself at a prompt: one line, with its name and sizes."""

import itertools
import pickle
from dataclasses import replace

import pytest

from wavesim.costs.cost_model import CostModel, zero_cost
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Grouped
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.plan.stream_k import StreamK
from wavesim.sim.simulation import simulate
from wavesim.tuning.candidates import Fingerprints, boundary_candidates
from wavesim.work.convolution import Conv2D
from wavesim.work.gemm import Gemm
from wavesim.workloads.catalogue import WORKLOADS, workload

MOST = 120
GEMM = Gemm("gemm1", m=1024, n=6144, k=12288, tile_m=128, tile_n=256)


def chain(length, name="gemm"):
    """GEMMs one after the other, all of one size."""
    stages = [Stage(f"{name}{i}", replace(GEMM, name=f"{name}{i}", k=6144)) for i in range(length)]
    needs = [Dependency(b[x, y], [a[:, y]]) for a, b in itertools.pairwise(stages)]
    return Pipeline("chain", stages, needs)


DESCRIBED = {
    "<Pipeline chain: gemm0 24 x 8, gemm1 24 x 8; gemm1 needs gemm0>": chain(2),
    "<Stage gemm0: grid 24 x 8, Gemm>": chain(2).stages[0],
    "<Dependency gemm1[x, y] needs gemm0[:, y]>": chain(2).dependencies[0],
    "<Gemm gemm1: m 1024, n 6144, k 12288, tiles 128 x 256 x 32, fp16>": GEMM,
    "<Gemm gemm1: m 1024, n 6144, k 12288, tiles 128 x 256 x 32, split-K 3, bf16, gelu>": replace(
        GEMM, split_k=3, dtype="bf16", activation="gelu"
    ),
    "<Kernel k: grid 5 x 2, 64 threads, 32 registers, 1000 bytes shared>": Kernel(
        "k", Grid(5, 2), Block(64, static_shared_bytes=1000)
    ),
    "<Conv2D conv: 4 x 28 x 28 x 128 to 256, filter 3 x 3, tiles 128 x 64>": Conv2D(
        "conv", 4, 28, 28, 128, 256, 128, 64, Block(128)
    ),
    "<TileSet gemm0[(x + 1), :y]>": chain(2).stages[0][x + 1, :y],
    "Plan()": StreamSync(),
    "Plan(launch=StreamPerStage(), sync=Semaphores())": SemaphoreSync(),
    "Plan(schedule=StreamK(waves=2), order=Grouped(rows=4))": Plan(StreamK(2), order=Grouped(4)),
    "Plan(launch=StreamPerStage(wait_kernel=False), sync=Semaphores(policy=TileSync()), prefetch=0.1)": (
        SemaphoreSync(TileSync(), wait_kernel=False, prefetch=0.1)
    ),
    "<CostModel tile_ns gemm0 500, gemm1 of 2 blocks; post_ns 400>": CostModel(
        {"gemm0": 500, "gemm1": [1, 2]}, post_ns=400
    ),
}


@pytest.mark.parametrize(("text", "described"), DESCRIBED.items())
def test_a_description_is_one_short_line(text, described):
    assert repr(described) == text
    assert len(text) <= MOST
    assert pickle.loads(pickle.dumps(described)) == described  # noqa: S301  # our own bytes


@pytest.mark.parametrize("length", [2, 4, 60])
def test_a_longer_chain_is_still_one_line(length):
    pipeline = chain(length, name="a-gemm-with-a-long-name-")
    costs = replace(zero_cost(pipeline, 1000), post_ns=1, wait_ns=2, setup_ns=3, launch_ns=4)
    for described in (pipeline, *pipeline.stages, *pipeline.dependencies, costs):
        assert len(repr(described)) <= MOST
        assert "\n" not in repr(described)


def test_every_workload_device_and_trace_is_one_line():
    for name in WORKLOADS:
        assert len(repr(workload(name))) <= MOST
    for name in devices.names():
        assert name in repr(devices.load(name))
        assert len(repr(devices.load(name))) <= MOST
    pipeline, device = chain(4), devices.load("h200")
    assert len(repr(simulate(pipeline, StreamSync(), device, zero_cost(pipeline, 1000)))) <= MOST


def test_an_error_that_shows_a_description_still_names_value_and_fix():
    stage = chain(2).stages[0]
    with pytest.raises(DescriptionError) as caught:
        Dependency(stage, [stage[x, y]])
    assert str(caught.value) == (
        "a dependency has <Stage gemm0: grid 24 x 8, Gemm>; name tiles as stage[x, y]"
    )


def test_a_fingerprint_tells_descriptions_apart_that_print_alike():
    """What is kept of a search is found again by what was simulated, not by how it is shown."""
    device, prints = devices.load("h200"), set()
    for block in (Block(256, 200), Block(256, 232)):
        pipeline = Pipeline("one", [Stage("gemm1", replace(GEMM, block=block))])
        for times in ([100] * 192, [100] * 191 + [101]):
            costs = CostModel({"gemm1": times})
            prints.add(Fingerprints().of(boundary_candidates(pipeline, device)[0], device, costs))
    assert len(prints) == 4


def test_a_name_moves_no_cursor_and_turns_round_no_text():
    name = "a\x1b[31mb\nc\u202ed"
    first, second = (
        Stage(one, Kernel(one, Grid(2, 2), Block(threads=128, registers=64))) for one in (name, "b")
    )
    pipeline = Pipeline(name, [first, second], [Dependency(second[x, y], [first[:, y]])])
    for shown in (first.kernel, first, first[x, y], pipeline.dependencies[0], pipeline):
        assert repr(shown).isprintable()
        assert "a?[31mb c?d" in repr(shown)
