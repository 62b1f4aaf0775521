"""A run is replayed with its own tile times: what it waited is simulated, and counted once."""

from dataclasses import replace

import pytest

from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.model.device import load
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.predict.prediction import replay
from wavesim.recordings.shipped import cases
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.workloads.catalogue import parse_tile, workload
from wavesim.workloads.mlps import gpt3_mlp

H200 = load("h200")
KNOWN = costs_of("h200").overheads
COSTS = CostModel(
    {"gemm1": 160_000, "gemm2": 85_000},
    boundary_ns=KNOWN["boundary_ns"],
    wait_kernel_ns=KNOWN["wait_kernel_ns"],
)


def as_measured(trace: Trace) -> Trace:
    return replace(trace, header=replace(trace.header, source="measured"))


@pytest.mark.parametrize("policy", [RowSync(), TileSync()])
@pytest.mark.parametrize("tokens", [128, 512, 1_024])
@pytest.mark.parametrize("wait_ns", [0, 300])
def test_a_run_whose_truth_is_known_is_replayed_to_the_nanosecond_or_the_cost_of_its_waits(
    policy, tokens, wait_ns
):
    pipeline, plan = gpt3_mlp(tokens), SemaphoreSync(policy)
    truth = as_measured(simulate(pipeline, plan, H200, replace(COSTS, wait_ns=wait_ns)))
    consumers = truth.wait_ns[truth.stage == 1]
    everyone_spins = tokens == 128  # 24 + 48 blocks are resident together: no consumer finds its tiles ready
    assert (consumers.min() > 50_000) == everyone_spins
    waits = 24 if policy == TileSync() else 1
    unseen = waits * wait_ns if everyone_spins else 0
    assert 0 <= truth.makespan_ns - replay(pipeline, truth, H200).makespan_ns <= unseen


def test_a_recorded_run_in_which_most_consumers_wait_is_replayed_within_a_percent():
    case = next(c for c in cases() if (c.tile, c.tokens, c.order) == ("128x256", 256, "row"))
    pipeline = workload(case.workload, case.tokens, parse_tile(case.tile))
    for policy in ("row", "tile"):
        measured = case.trace(policy)
        assert replay(pipeline, measured, H200).makespan_ns == pytest.approx(measured.makespan_ns, rel=0.01)


def test_stream_sync_is_replayed_with_its_boundary():
    pipeline = gpt3_mlp(512)
    truth = as_measured(simulate(pipeline, StreamSync(), H200, COSTS))
    assert replay(pipeline, truth, H200).makespan_ns == truth.makespan_ns
