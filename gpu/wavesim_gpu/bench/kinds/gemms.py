"""Measures the sizes of a blind run on the GPU at hand: stream sync by itself, then all plans in turns.

Example: `streams(size)` times stream sync in both tile orders and records each once. After the predictions
are written `compare(size, ...)` times stream sync and every plan in both orders in turns, 20 rounds each, and
records the overlapped ones; their traces carry the predictions' hash.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from wavesim.bench.blind_runs import MeasuredComparison, PlanRounds, stamped
from wavesim.bench.blind_sizes import BASELINE, BlindSize
from wavesim.errors import WavesimError
from wavesim.trace.trace import Trace
from wavesim_gpu.driver.clocks import Reading, Sampler
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, versions
from wavesim_gpu.driver.functions import KernelSpec, compile_all
from wavesim_gpu.driver.kernel_sources import source_hash
from wavesim_gpu.kernels.backends import BACKENDS
from wavesim_gpu.record.stamps import device_fields
from wavesim_gpu.run.measured_trace import build_trace
from wavesim_gpu.run.operands import Operands
from wavesim_gpu.run.planned_kernels import wanted_kernels
from wavesim_gpu.run.program import Program
from wavesim_gpu.run.references import reference
from wavesim_gpu.run.runner import CupyRunner, WrongResultError
from wavesim_gpu.run.timing import Contender, Rounds, interleaved, run_in_turn

ROUNDS = 20
WARM_UP_S = 0.1
WAIT_LIMIT_S = 5.0  # so that a deadlock is told before the worker is given up (blind_worker.py)
REPLAYS, LEAD_NS = 5, 30_000_000  # recorded runs, of which the median is kept, each after that much of load
UNTRACED = ("stream-k",)  # a cut tile is recorded once, by the block that stores it


@dataclass(frozen=True)
class TimedPlan:
    """One plan of a size in one order, by its word."""

    order: str
    word: str


@dataclass(frozen=True)
class ComparedSize:
    """One comparison, the traces of its overlapped plans, and why plans are missing, by order and word."""

    comparison: MeasuredComparison
    traces: Sequence[Trace]
    missing: Mapping[str, str]


@dataclass(frozen=True)
class Timed:
    """What ran in turns: rounds and launches by entry; clock and power meanwhile; why others did not."""

    rounds: dict[TimedPlan, PlanRounds]
    contenders: dict[TimedPlan, Contender]
    reading: Reading
    missing: Mapping[str, str]


class GpuMeasurer:
    """Measures sizes one after the other in this process. `commit` is that of the kernels."""

    def __init__(self, commit: str, rounds: int = ROUNDS) -> None:
        query()  # the context is made here, not in the time of the first question
        self._commit, self._rounds = commit, rounds
        self._runners: dict[str, CupyRunner] = {}

    def facts(self) -> dict[str, Any]:
        """Of the device and its software, and hashes of the kernels' sources."""
        return {
            "gpu": device_fields(query()),
            "versions": versions(),
            "kernel_sources": {name: source_hash(one.source) for name, one in BACKENDS.items()},
        }

    def prepare(self, sizes: Sequence[BlindSize]) -> None:
        """Compiles what the sizes need, on all cores. What does not compile fails when its turn comes."""
        wanted: set[KernelSpec] = set()
        for size in sizes:
            with suppress(WavesimError):
                wanted |= self._kernels(size)
        with suppress(WavesimError):
            compile_all(wanted)

    def streams(self, size: BlindSize) -> dict[str, Trace]:
        """Stream sync by itself: a trace per order, with its rounds."""
        operands = self._operands(size)
        entries = [TimedPlan(order, BASELINE) for order in size.orders]
        traces = self._record(size, operands, entries, self._time(size, operands, entries))
        return {entry.order: trace for entry, trace in traces.items()}

    def compare(self, size: BlindSize, plans: Sequence[str], repeat: int, stamp: str) -> ComparedSize:
        """Plans and stream sync in turns; at the first repeat also traces of overlapped plans."""
        operands = self._operands(size)
        entries = [TimedPlan(order, word) for order in size.orders for word in (BASELINE, *plans)]
        timed = self._time(size, operands, entries)
        rounds = {(entry.order, entry.word): one for entry, one in timed.rounds.items()}
        comparison = MeasuredComparison(size.name, repeat, rounds, timed.reading.power_w)
        if repeat:
            return ComparedSize(comparison, [], timed.missing)
        wanted = [
            entry
            for entry in timed.rounds
            if entry.word not in (BASELINE, *UNTRACED) and entry.order in size.traced_orders
        ]
        traces = self._record(size, operands, wanted, timed)
        kept = [stamped(trace, stamp) for trace in traces.values()]
        return ComparedSize(comparison, kept, timed.missing)

    def _runner(self, size: BlindSize) -> CupyRunner:
        backend = size.stored.backend
        if backend not in self._runners:
            self._runners[backend] = CupyRunner(limit_s=WAIT_LIMIT_S, commit=self._commit, backend=backend)
        return self._runners[backend]

    def _operands(self, size: BlindSize) -> Operands:
        return self._runner(size).operands(size.pipeline(), seed=size.tokens)

    def _program(self, size: BlindSize, operands: Operands, entry: TimedPlan, build: Build) -> Program:
        return self._runner(size).program(operands, size.plan(entry.word, entry.order), build)

    def _kernels(self, size: BlindSize) -> set[KernelSpec]:
        """All that a size needs compiled."""
        pipeline, builds = size.pipeline(), (Build(), Build(is_recording=True))
        entries = [TimedPlan(order, word) for order in size.orders for word in (BASELINE, *size.plans)]
        return {
            kernel
            for entry in entries
            for build in builds
            for kernel in wanted_kernels(pipeline, size.plan(entry.word, entry.order), build)
        }

    def _time(self, size: BlindSize, operands: Operands, entries: Sequence[TimedPlan]) -> Timed:
        """Interleaved rounds of all entries that are right before and after. Raises if stream sync is not."""
        expected = reference(operands)
        programs: dict[TimedPlan, Program] = {}
        contenders: dict[TimedPlan, Contender] = {}
        missing: dict[str, str] = {}
        for entry in entries:
            with _set_aside(entry, missing):
                program = self._program(size, operands, entry, Build())
                contender = self._contender(size, program)
                self._require_right(size, entry, program, contender, expected, "not timed")
                programs[entry], contenders[entry] = program, contender
        with Sampler() as sampler:
            timed = interleaved(list(contenders.values()), self._rounds, WARM_UP_S)
        rounds = {}
        for entry, one in zip(list(contenders), timed, strict=True):
            with _set_aside(entry, missing):
                contender = contenders.pop(entry)
                programs[entry].synchronize()
                self._require_right(size, entry, programs[entry], contender, expected, "after its rounds")
                rounds[entry], contenders[entry] = _plan_rounds(one), contender
        return Timed(rounds, contenders, sampler.reading, missing)

    def _require_right(
        self,
        size: BlindSize,
        entry: TimedPlan,
        program: Program,
        contender: Contender,
        expected: Any,
        when: str,
    ) -> None:
        verdict = self._runner(size).verdict(program, contender.launch, expected)
        if not verdict.is_good:
            raise WrongResultError(
                f"relative errors {dict(verdict.errors)}, semaphores "
                f"{'right' if verdict.has_right_semaphores else 'wrong'}; {when}"
            )

    def _record(
        self, size: BlindSize, operands: Operands, wanted: Sequence[TimedPlan], timed: Timed
    ) -> dict[TimedPlan, Trace]:
        """Of a few recorded runs of each wanted entry the one with the median makespan.

        They run in turn right after unrecorded turns of all entries, at the clocks and caches of these.
        """
        programs = [self._program(size, operands, entry, Build(is_recording=True)) for entry in wanted]
        recorded = [self._contender(size, program) for program in programs]
        turn_ns = sum(statistics.median(one.ns) for one in timed.rounds.values())
        lead = [*timed.contenders.values()] * max(1, round(LEAD_NS / turn_ns))
        found: dict[TimedPlan, list[Trace]] = {entry: [] for entry in wanted}
        for _ in range(REPLAYS):
            run_in_turn([*lead, *recorded])
            for program, entry in zip(programs, wanted, strict=True):
                program.synchronize()
                rounds_ns = timed.rounds[entry].ns
                found[entry].append(build_trace(program, rounds_ns, timed.reading, self._notes()))
        return {
            entry: sorted(traces, key=lambda trace: trace.makespan_ns)[len(traces) // 2]
            for entry, traces in found.items()
        }

    def _contender(self, size: BlindSize, program: Program) -> Contender:
        return Contender(self._runner(size).launcher(program), program.streams[0])

    def _notes(self) -> dict[str, str]:
        date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return {"date": date, "commit": self._commit, "mode": "CUDA graph"}


@contextmanager
def _set_aside(entry: TimedPlan, missing: dict[str, str]) -> Iterator[None]:
    """What goes wrong with an entry is taken down in `missing`, and raised if it is stream sync."""
    try:
        yield
    except WavesimError as error:
        if entry.word == BASELINE:
            raise
        missing[f"{entry.order} {entry.word}"] = str(error)


def _plan_rounds(rounds: Rounds) -> PlanRounds:
    """A clock of 0 is none: no SM left both stamps."""
    clocks = tuple(0.0 if math.isnan(clock) else clock for clock in rounds.clocks_ghz)
    return PlanRounds(tuple(rounds.times_ns), clocks)
