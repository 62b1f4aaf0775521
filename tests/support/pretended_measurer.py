"""A measurer that pretends: what the GPU would have measured, simulated."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from wavesim.bench.blind_runs import STAMP, MeasuredComparison, PlanRounds
from wavesim.bench.blind_sizes import BASELINE, RIVALS, BlindSize
from wavesim.costs.builds import as_built
from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.errors import DeviceError
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim_gpu.bench.kinds.gemms import ComparedSize
from wavesim_gpu.bench.measuring_process import WorkerError

WIDE = ((128, 256), (128, 256))
PORTABLE = BlindSize("portable", "gpt3-mlp", 384, WIDE)  # in the test half, by its hash
HOPPER = BlindSize("hopper-per-tile", "llama-mlp", 384, WIDE, plans=RIVALS)  # likewise
KNOWN = costs_of("h200")
TRUE_COSTS = CostModel({"gemm1": 151_000, "gemm2": 80_500}, **{**KNOWN.overheads, "boundary_ns": 1_600})


def true_costs(size: BlindSize) -> CostModel:
    """The world's costs, with what semaphores cost the family of kernels."""
    return replace(TRUE_COSTS, **KNOWN.backend(size.pipeline(), size.stored.schedule).overheads)


class Pretender:
    """Measures by simulating. What it is asked for is noted, with whether predictions were there already."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[str, str, bool]] = []
        self.broken: set[str] = set()  # plans that break the process down
        self.wrong: set[str] = set()  # plans with wrong results
        self.refuses: str = ""  # name of a size without a stream-sync run

    def facts(self) -> dict[str, object]:
        return {"gpu": {"name": "pretended"}, "versions": {"driver": "0"}}

    def prepare(self, sizes) -> None:
        self._note("prepare", f"{len(sizes)} sizes")

    def streams(self, size: BlindSize) -> dict[str, Trace]:
        self._note("streams", size.name)
        if size.name == self.refuses:
            raise DeviceError("no room")
        return {order: pretended(size, order, BASELINE) for order in size.orders}

    def compare(self, size: BlindSize, plans, repeat: int, stamp: str) -> ComparedSize:
        self._note(f"repeat {repeat}", size.name)
        if self.broken & set(plans):
            raise WorkerError("a kernel hung")
        missing = {f"{order} {word}": "wrong" for order in size.orders for word in self.wrong & set(plans)}
        words = [word for word in (BASELINE, *plans) if word not in self.wrong]
        traces = {(order, word): pretended(size, order, word) for order in size.orders for word in words}
        slower = 1.0 + 0.002 * repeat  # plans take 0.2 % longer when all is repeated
        rounds = {
            key: PlanRounds(
                tuple(int(ns * (1.0 if key[1] == BASELINE else slower)) for ns in trace.header.rounds_ns),
                (1.5,) * len(trace.header.rounds_ns),
            )
            for key, trace in traces.items()
        }
        kept = [] if repeat else [stamped(t, stamp) for key, t in traces.items() if key[1] in ("row", "tile")]
        return ComparedSize(MeasuredComparison(size.name, repeat, rounds, 600.0), kept, missing)

    def _note(self, what: str, size: str) -> None:
        self.asked.append((what, size, (self.folder / "predictions.sha256").exists()))


def pretended(size: BlindSize, order: str, word: str) -> Trace:
    """One plan as if measured."""
    pipeline, plan = size.pipeline(), parse_plan(word, order)
    trace = simulate(pipeline, plan, load("h200"), as_built(true_costs(size), pipeline, plan, KNOWN))
    scatter = 1.0 + 0.01 * np.sin(np.arange(20))
    rounds = tuple(int(trace.time_ns * factor) for factor in scatter)
    header = replace(trace.header, source="measured", rounds_ns=rounds, costs={}, setup_ns=0)
    return replace(trace, header=header, waits=None)


def stamped(trace: Trace, stamp: str) -> Trace:
    return replace(trace, header=replace(trace.header, versions={STAMP: stamp}))
