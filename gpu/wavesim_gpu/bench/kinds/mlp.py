"""MLPs of published sizes: `mlp` beside torch's forms, cuBLASLt and the fastest simulated of our kernels.

Example: `python -m wavesim_gpu measure mlps --blind --out DIR` writes what the simulator expects of each
shape and its hash. Then, shape by shape, all contenders run interleaved in one process as CUDA graphs, and
their outputs are compared with a result in fp32 before and after. One that raises an error is named, and the
rest goes on.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.bench.results import ResultRow
from wavesim_gpu.bench.kinds.mlp_contenders import (
    GraphOfRuns,
    Run,
    captured,
    host_ns,
    judged,
    library_run,
    mlp_run,
    our_best,
    ours_run,
    run_count,
    way_label,
)
from wavesim_gpu.bench.kinds.mlp_operands import LayerOperands, LayerShape, random_layer, reference, set_count
from wavesim_gpu.bench.libraries.torch_chain import require_torch
from wavesim_gpu.bench.libraries.torch_forms import torch_form
from wavesim_gpu.bench.rows import MeasuredCase
from wavesim_gpu.driver import compiler, cubin_cache
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.run.timing import Contender, Rounds, interleaved

ROUNDS = 20
LIBRARY, OURS = "library", "our kernels"
LONGEST_MESSAGE = 300


@dataclass(frozen=True)
class MlpEstimate:
    """Nanoseconds that the simulator expects of cuBLASLt and of our best kernels; None without them."""

    library_ns: float | None
    ours_ns: float | None
    stream: None = None  # nothing was recorded


@dataclass
class TimedMlp:
    """One contender of a shape: its graph while it is timed, its rounds and verdict, and notes on it."""

    name: str
    graph: GraphOfRuns | None = None
    failure: str = ""
    plan: str | None = None
    same_as: "TimedMlp | None" = None  # takes the same way, and was not timed twice
    verdict: dict[str, Any] = field(default_factory=dict)
    rounds: Rounds = field(default_factory=lambda: Rounds([], []))
    notes: dict[str, Any] = field(default_factory=dict)

    def row(self, case: str) -> ResultRow:
        """For results: without times where the result is wrong."""
        timed = self.same_as or self
        if not timed.verdict["is_good"]:
            return ResultRow(case, "", self.name, correct=False, error=f"wrong: {timed.verdict}")
        clocks = timed.rounds.clocks_ghz
        ghz = tuple(clocks) if all(map(math.isfinite, clocks)) else ()
        words = self.plan or ""
        return ResultRow(case, "", self.name, True, tuple(timed.rounds.times_ns), ghz, words=words)


class MlpMeasurer:
    """Measures shapes one after the other, each with kernels compiled anew."""

    limit_s = 240.0

    def __init__(self, commit: str, rounds: int) -> None:
        self._rounds = rounds or ROUNDS

    def prepare(self, cases: Sequence[Any]) -> None:
        """A first call compiles what it needs, and that is counted."""

    def alone(self, case: Any) -> MlpEstimate:
        """What the simulator expects; nothing runs."""
        from wavesim_gpu.layers.choose import choose  # noqa: PLC0415  # a failed import is the case's failure

        shape = LayerShape.of(case.fields)
        best = our_best(shape)
        return MlpEstimate(choose(shape.mlp, query()).library_ns, best[0] if best else None)

    def measure(self, case: Any, has_traces: bool = False) -> MeasuredCase:
        """A row per contender."""
        torch = require_torch()
        with tempfile.TemporaryDirectory(prefix="wavesim-mlps-") as cache, torch.no_grad():
            cubin_cache.use(Path(cache))
            outcome = timed_contenders(torch, LayerShape.of(case.fields), self._rounds)
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        return MeasuredCase(
            [entry.row(case.name) for entry in outcome if not entry.failure],
            missing={entry.name: entry.failure for entry in outcome if entry.failure},
            notes={entry.name: entry.notes for entry in outcome if entry.notes},
        )


def predictions(known: Mapping[str, MlpEstimate], device: str) -> dict[str, list[Any]]:
    """What our kernels will gain over cuBLASLt."""
    from wavesim.bench.registration import CasePrediction  # noqa: PLC0415  # needs simpy
    from wavesim.predict.prediction import improvement_points  # noqa: PLC0415  # as above

    del device
    return {
        "costs": [
            CasePrediction(case, "", way, round(ns), improvement_points(round(ns), round(entry.library_ns)))
            for case, entry in known.items()
            if entry.library_ns and entry.ours_ns
            for way, ns in ((LIBRARY, entry.library_ns), (OURS, entry.ours_ns))
        ]
    }


def timed_contenders(torch: Any, shape: LayerShape, rounds: int) -> list[TimedMlp]:
    """All contenders on one shape, timed in turns; those that there are none of are left out."""
    torch.compiler.reset()  # what was compiled for other shapes would count against this one's limit
    stream = torch.cuda.Stream()
    sets = [random_layer(torch, shape, seed) for seed in range(set_count(shape))]
    count = run_count(shape)
    expected = [reference(torch, shape, sets[0]), reference(torch, shape, sets[(count - 1) % len(sets)])]
    torch.cuda.synchronize()  # they were made on another stream than the one that runs
    outcome = [
        entry
        for name, make in _makers(torch, shape, sets[0]).items()
        if (entry := _prepared(torch, shape, stream, sets, name, make)) is not None
    ]
    _join_same(shape, sets[0], outcome)
    running = [entry for entry in outcome if entry.graph is not None]
    for entry in running:
        entry.verdict = judged(torch, shape, entry.graph, expected)
    _time(torch, running, count, rounds)
    for entry in running:
        again = judged(torch, shape, entry.graph, expected)
        entry.verdict = entry.verdict if again["is_good"] else again
        entry.graph = None
    return outcome


def _makers(torch: Any, shape: LayerShape, operands: LayerOperands) -> dict[str, Callable[[], Run | None]]:
    """`mlp` first, whose first call is watched, and tuned last."""
    makers: dict[str, Callable[[], Run | None]] = {"mlp": partial(mlp_run, shape)}
    makers |= {f"torch {form}": partial(torch_form, torch, shape, form) for form in shape.forms}
    if shape.mlp.gate != "packed":
        makers[LIBRARY] = partial(library_run, torch, shape)
        makers[OURS] = partial(ours_run, torch, shape)
        makers["stream sync"] = partial(ours_run, torch, shape, is_stream_sync=True)
    return makers | {"mlp tuned": partial(_tuned_run, shape, operands)}


def _prepared(
    torch: Any,
    shape: LayerShape,
    stream: Any,
    sets: Sequence[LayerOperands],
    name: str,
    make: Callable[[], Run | None],
) -> TimedMlp | None:
    """A contender captured, with its host time, or why it could not be; None where there is none to time."""
    entry = TimedMlp(name)
    try:
        run = make()
        if run is None:
            return None
        if name == "mlp":
            entry.notes["first_call"] = first_call(torch, run, sets[0])
            entry.plan = _label(shape, sets[0])
        entry.graph = captured(torch, stream, run, sets, run_count(shape))
        entry.notes["host_ns"] = round(median(host_ns(torch, shape, stream, run, sets[0])))
    except Exception as error:  # noqa: BLE001  # named, and the rest goes on
        return TimedMlp(name, failure=f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE])
    return entry


def _tuned_run(shape: LayerShape, operands: LayerOperands) -> Run:
    mlp_run(shape, tune=True)(operands)
    return mlp_run(shape)


def _join_same(shape: LayerShape, operands: LayerOperands, outcome: Sequence[TimedMlp]) -> None:
    """What takes the same way as another is not timed twice: noise would make two speeds of one."""
    by_name = {entry.name: entry for entry in outcome if entry.graph is not None}
    if "mlp tuned" in by_name:
        by_name["mlp tuned"].plan = _label(shape, operands)
    if OURS in by_name:
        by_name[OURS].plan = str(our_best(shape)[1])
    first = by_name.get("mlp")
    for name in (OURS, "mlp tuned"):
        other = by_name.get(name)
        if first is not None and other is not None and first.plan == other.plan is not None:
            other.graph, other.same_as = None, first


def _label(shape: LayerShape, operands: LayerOperands) -> str | None:
    try:
        return way_label(shape, operands)
    except Exception:  # noqa: BLE001  # only a label
        return None


def _time(torch: Any, running: Sequence[TimedMlp], count: int, rounds: int) -> None:
    """Rounds of all of them in turns, with the SM clock."""
    if not running:
        return
    stream = require_cupy().cuda.ExternalStream(running[0].graph.stream.cuda_stream)
    contenders = [Contender(partial(entry.graph.launch, torch), stream, count) for entry in running]
    for entry, result in zip(running, interleaved(contenders, rounds), strict=True):
        entry.rounds = result


@contextmanager
def watched_compilations() -> Iterator[list[float]]:
    """Seconds that each compilation by NVRTC takes meanwhile."""
    result: list[float] = []
    build = compiler.build_and_keep

    def watched(request: compiler.Request) -> Any:
        began = time.perf_counter()
        try:
            return build(request)
        finally:
            result.append(time.perf_counter() - began)

    compiler.build_and_keep = watched
    try:
        yield result
    finally:
        compiler.build_and_keep = build


def first_call(torch: Any, run: Callable[[LayerOperands], Any], operands: LayerOperands) -> dict[str, Any]:
    """One call until its result is there: `ms`, the number of compilations, and the sum of their times."""
    torch.cuda.synchronize()
    with watched_compilations() as compiled:
        began = time.perf_counter()
        run(operands)
        torch.cuda.synchronize()
        took = time.perf_counter() - began
    return {
        "ms": round(1e3 * took, 3),
        "compilations": len(compiled),
        "compile_ms": round(1e3 * sum(compiled), 3),
    }
