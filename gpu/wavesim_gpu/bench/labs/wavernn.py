"""WaveRNN's five tests on the GPU at hand: cuBLASLt, own products, staying, pipelining, and both.

Example: `python -m wavesim_gpu measure labs --only wavernn --out DIR` checks every way against a reference,
times the parts of a step alone, works out what follows for the five tests, and then times these in turns. A
sixth has no barrier: its blocks wait for the words that they read. A seventh, in int8, is one cluster of 16
blocks, whose barrier is what they send each other.
"""

import statistics
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from wavesim.labs.wavernn import STEPS, WAYS, StepCosts
from wavesim_gpu.driver.current_gpu import require_gpu
from wavesim_gpu.persistent.library import LibraryStep, captured
from wavesim_gpu.persistent.one_cluster import OneCluster
from wavesim_gpu.persistent.reference import is_right
from wavesim_gpu.persistent.wavernn import BLOCKS_BEFORE, Launched, Wavernn, of_stage, ways_of
from wavesim_gpu.persistent.weights import DTYPES, LAYERS
from wavesim_gpu.run.runner import WrongResultError
from wavesim_gpu.run.timing import Contender, interleaved

ROUNDS, MOST_ROUNDS = 30, 1000
LAUNCHES, BARRIERS = 160, 2000  # of the parts that are timed alone
HEAD_START_NS = 2_000_000  # the host launches some of what is timed one by one
LIBRARY_TOLERANCE = {"fp16": 2e-3, "int8": 0.0}
R_BLOCKS, O1_BLOCKS = (BLOCKS_BEFORE[stage + 1] - BLOCKS_BEFORE[stage] for stage in (0, 1))


class TypeRuns:
    """One element type on the current GPU: the model, cuBLASLt's step, and what is timed of them."""

    def __init__(self, dtype: str) -> None:
        self.model = Wavernn(dtype, STEPS)
        self.stream = self.model.stream
        self.library = LibraryStep(dtype, self.model.weights, self.stream)
        self.cluster = OneCluster(self.model) if dtype == "int8" else None

    def checked(self) -> dict[str, Any]:
        """The errors of every way. Raises `WrongResultError` for a wrong one, `DeadlockError`."""
        errors: dict[str, Any] = {"library": self.library.worst_error()}
        if not errors["library"] <= LIBRARY_TOLERANCE[self.model.dtype]:
            raise WrongResultError(f"cuBLASLt's {self.model.dtype} products are off by {errors['library']:g}")
        runs: dict[str, Callable[[], None]] = {way: partial(self.model.run, way) for way in ways_of(STEPS)}
        if self.cluster:
            runs["cluster"] = self.cluster.run
        for way, run in runs.items():
            run()
            errors[way] = self.model.errors()
            if not is_right(self.model.weights, errors[way]):
                raise WrongResultError(f"WaveRNN's {way}, {self.model.dtype}, is wrong: {errors[way]}")
        return errors

    def medians_ns(self, launches: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[int]]:
        """Rounds of each, in turns."""
        contenders = [Contender(launch, self.stream) for launch in launches.values()]
        result = interleaved(contenders, rounds, head_start_ns=HEAD_START_NS)
        return {name: entry.times_ns for name, entry in zip(launches, result, strict=True)}

    def tests(self) -> dict[str, Callable[[], None]]:
        """What starts each test: launched ones are CUDA graphs, those that stay a launch behind a reset."""
        result = {"library": self._graph(partial(self.library.enqueue, STEPS))}
        for way, launches in ways_of(STEPS).items():
            enqueue = partial(self.model.enqueue, launches)
            result[way] = enqueue if launches[0].is_persistent else self._graph(enqueue)
        if self.cluster:
            result["cluster"] = self.cluster.enqueue
        return result

    def parts(self, rounds: int) -> StepCosts:
        """A step's parts, each timed without the others."""
        own = {name: self._start(launches) for name, launches in part_launches().items()}
        library = {
            f"library {name}": self._graph(partial(_times, launch, LAUNCHES))
            for name, launch in self.library.launches.items()
        }
        rounds_ns = self.medians_ns(own | library, rounds)
        return costs_of_parts({name: statistics.median(times) for name, times in rounds_ns.items()})

    def _start(self, launches: list[Launched]) -> Callable[[], None]:
        enqueue = partial(self.model.enqueue, launches)
        return enqueue if launches[0].is_persistent else self._graph(enqueue)

    def _graph(self, enqueue: Callable[[], None]) -> Callable[[], None]:
        graph = captured(enqueue, self.stream)
        return partial(graph.launch, self.stream)


def part_launches() -> dict[str, list[Launched]]:
    """What is timed for the parts: kernels without work, barriers alone, one layer's blocks alone.

    Products of 40 are timed as they are launched, every layer's, as cuBLASLt's are: a block that stays for
    the next product has its weights already, and stores of its outputs run beside it.
    """
    r = {"block": 0, "blocks": R_BLOCKS}
    o1 = {"block": R_BLOCKS, "blocks": O1_BLOCKS}
    cycles = range(LAUNCHES)
    return {
        "empty": [Launched(0, 0, is_pipelined=True)] * LAUNCHES,
        "barriers": [Launched(0, BARRIERS, is_pipelined=True, between="barrier", items=0)],
        "r": [Launched(0, LAUNCHES, is_pipelined=True, between="barrier", **r)],
        "o1": [Launched(1, LAUNCHES + 1, is_pipelined=True, between="barrier", **o1)],
        "r launched": [Launched(cycle, cycle + 1, is_pipelined=True, **r) for cycle in cycles],
        "o1 launched": [Launched(cycle + 1, cycle + 2, is_pipelined=True, **o1) for cycle in cycles],
        **{f"{name} batch": [of_stage(stage)] * LAUNCHES for stage, name in enumerate(LAYERS)},
    }


def costs_of_parts(ns: dict[str, float]) -> StepCosts:
    """The parts from the times of `part_launches`, and of `LAUNCHES` of each of cuBLASLt's products."""
    launch, barrier = ns["empty"] / LAUNCHES, ns["barriers"] / BARRIERS

    def part(name: str, count: int, *others: float) -> int:
        return max(0, round(ns[name] / count - sum(others)))

    r, o1 = (part(name, LAUNCHES, barrier) for name in ("r", "o1"))
    r_weights, o1_weights = part("r launched", LAUNCHES, launch, r), part("o1 launched", LAUNCHES, launch, o1)
    batch = [part(f"{name} batch", LAUNCHES, launch, o1_weights) for name in LAYERS[1:]]
    outputs = [part(f"library {name}", LAUNCHES, launch) for name in LAYERS[1:]]
    return StepCosts(
        launch_ns=round(launch),
        barrier_ns=round(barrier),
        recurrent_ns=r,
        output_ns=o1,
        recurrent_batch_ns=part("r batch", LAUNCHES, launch, r_weights),
        output_batch_ns=round(statistics.mean(batch)),
        recurrent_weights_ns=r_weights,
        output_weights_ns=o1_weights,
        recurrent_library_ns=part(f"library {LAYERS[0]}", LAUNCHES, launch),
        output_library_ns=round(statistics.mean(outputs)),
        source="parts timed alone",
    )


def measured(dtype: str, rounds: int) -> dict[str, Any]:
    """One type's errors, parts, predictions (made before the tests run) and tests."""
    own = TypeRuns(dtype)
    errors = own.checked()
    parts = own.parts(rounds)
    predicted = {way: parts.total_ns(way, STEPS) for way in WAYS}
    times = own.medians_ns(own.tests(), rounds)
    for way in ways_of(STEPS):
        own.model.check(way)
    return {
        "errors": errors,
        "parts_ns": {name: value for name, value in asdict(parts).items() if name.endswith("_ns")},
        "predicted_ns": predicted,
        "rounds_ns": times,
        "errors_after": own.checked(),
    }


def _times(launch: Callable[[], None], count: int) -> None:
    for _ in range(count):
        launch()


def document(rounds: int) -> dict[str, Any]:
    """Both element types."""
    types = {dtype: measured(dtype, rounds or ROUNDS) for dtype in DTYPES}
    return {"device": require_gpu().device.name, "steps": STEPS, "types": types}
