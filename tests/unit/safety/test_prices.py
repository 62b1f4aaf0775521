"""The fast bound on closed SMs: sound, close to the exact count, and quick for long chains."""

import time
from itertools import pairwise

import pytest
from safety_cases import case_of
from toy_schedules import stage

from wavesim.codegen.cuda import generate
from wavesim.costs.cost_model import zero_cost
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import parse_plan
from wavesim.safety import residency
from wavesim.safety.deadlock import safety_of
from wavesim.tuning.search import tune

ALONE = parse_plan("streams:no-wait-kernel+tile")


def chain(length: int, blocks: int) -> Pipeline:
    """Kernels of which no two ask for the same."""
    stages = [
        stage(f"s{i}", blocks, block=Block(64 + 32 * (i % 6), 24 + 8 * i, dynamic_shared_bytes=1_000 * i))
        for i in range(length)
    ]
    reads = [Dependency(after[x, y], [before[x, y]]) for before, after in pairwise(stages)]
    return Pipeline("chain", stages, reads)


@pytest.mark.parametrize("device", ["toy", "h200"])
@pytest.mark.parametrize("blocks", [4, 40, 400])
def test_a_chain_of_twelve_distinct_kernels_is_judged_in_a_moment(device, blocks):
    began = time.process_time()
    for plan in (ALONE, parse_plan("tile")):
        safety_of(chain(12, blocks), plan, load(device))
    assert time.process_time() - began < 3


def test_a_chain_of_twelve_is_generated_and_tuned_in_a_moment():
    began, pipeline, device = time.process_time(), chain(12, 8), load("h200")
    assert "struct s11" in generate(pipeline, parse_plan("tile"), device)
    assert tune(pipeline, device, zero_cost(pipeline, 1_000)).best.safety.basis == "cuda"
    assert time.process_time() - began < 10


def test_the_bound_alone_never_accepts_what_the_exact_count_refuses_and_refuses_little_else(monkeypatch):
    outcomes = []
    for seed in range(1_500):
        pipeline, plan, device = case_of(seed)
        if plan.launch.wait_kernel:
            continue
        exact, bounded = [], []
        for found, most in ((exact, 10**6), (bounded, 1)):
            monkeypatch.setattr(residency, "MOST_SETS", most)
            found.append(safety_of(pipeline, plan, device))
        assert exact[0].is_safe or not bounded[0].is_safe, seed
        outcomes.append((exact[0].is_safe, bounded[0].is_safe))
    safe = outcomes.count((True, True)) + outcomes.count((True, False))
    assert safe > 200
    assert outcomes.count((True, False)) <= 0.03 * safe


def test_where_sets_are_too_many_a_deadlock_is_still_shown_block_by_block(monkeypatch):
    monkeypatch.setattr(residency, "MOST_SETS", 1)
    verdict = safety_of(chain(4, 40), ALONE, load("toy"))
    assert not verdict.is_safe
    assert verdict.reason.startswith("can deadlock: ")
    assert verdict.worst is not None
    assert len(verdict.worst.residents) == 4
