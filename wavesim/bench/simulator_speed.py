"""The simulator's own speed, in the figures that it is held to.

Example: 9,792 tiles of GPT-3's MLP under row semaphores, simulated by SimPy and by the reference simulator in
one process. Their ratio means the same on every machine; milliseconds depend on it and on what
else runs there.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from wavesim.bench.reference.simulator import ReferenceSimulator
from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.model.device import default_device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import SemaphoreSync
from wavesim.sim.engine import Engine
from wavesim.sim.simulation import simulate
from wavesim.workloads.mlps import gpt3_mlp

PLAN = SemaphoreSync()
ROUNDS = 7
# Rows of GPT-3's MLP that make about so many tiles of 128 x 256: 72 tiles per 128 rows.
TOKENS_600 = 1_024
TOKENS_10K = 17_792
TOKENS_100K = 177_792


@dataclass(frozen=True)
class SimulatorSpeed:
    """CPU time: a ratio of medians, a ratio per tile, and milliseconds to describe, simulate and record."""

    simpy_over_oracle: float
    time_per_tile_100k_over_10k: float
    ms_600_tiles: float
    ms_10k_tiles: float


def measure_speed(rounds: int = ROUNDS) -> SimulatorSpeed:
    """All four figures: medians of `rounds` rounds; the largest case runs twice. Takes some seconds."""
    ratio = simpy_over_oracle(rounds)
    ms_600, _ = simulation_ms(TOKENS_600, rounds)
    ms_10k, tiles_10k = simulation_ms(TOKENS_10K, rounds)
    ms_100k, tiles_100k = simulation_ms(TOKENS_100K, 2)
    return SimulatorSpeed(ratio, (ms_100k / tiles_100k) / (ms_10k / tiles_10k), ms_600, ms_10k)


def simpy_over_oracle(rounds: int = ROUNDS, tokens: int = TOKENS_10K) -> float:
    """CPU time of the SimPy model over the reference's, runs alternating; what both share is left out."""
    device = default_device()
    pipeline = gpt3_mlp(tokens)
    costs = _costs(pipeline)
    simpy, reference = [], []
    for _ in range(rounds):
        simpy.append(_cpu_ms(Engine(pipeline, PLAN, device, costs).run))
        reference.append(_cpu_ms(ReferenceSimulator(pipeline, PLAN, device, costs).run))
    return statistics.median(simpy) / statistics.median(reference)


def simulation_ms(tokens: int, rounds: int = ROUNDS) -> tuple[float, int]:
    """CPU milliseconds to describe, simulate and record GPT-3's MLP under RowSync, and its tiles."""
    device = default_device()

    def whole() -> None:
        pipeline = gpt3_mlp(tokens)
        simulate(pipeline, PLAN, device, _costs(pipeline))

    tiles = sum(stage.grid.size for stage in gpt3_mlp(tokens).stages)
    return statistics.median(_cpu_ms(whole) for _ in range(rounds)), tiles


def _costs(pipeline: Pipeline) -> CostModel:
    """Tile times of the measured order of size, unequal so that few blocks end together."""
    tile_ns = {
        stage.name: [base + 97 * (i % 13) for i in range(stage.grid.size)]
        for stage, base in zip(pipeline.stages, (150_000, 80_000), strict=True)
    }
    return CostModel(tile_ns, **costs_of(default_device().name).overheads)


def _cpu_ms(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return (time.process_time() - begin) * 1_000
