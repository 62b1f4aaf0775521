"""Plans of a pipeline in turns, beside libraries: GEMMs, chains, layers, convolutions, crossovers.

Example: a pair of GEMMs of 1,408 tokens runs under stream sync, row and tile semaphores in two tile orders,
with cuBLASLt's two products between them in a drawn order. Every way's outputs are compared with a float32
reference before and after its rounds; a way that is wrong has no times.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from zlib import crc32

from wavesim.errors import WavesimError
from wavesim.trace.trace import Trace
from wavesim_gpu.bench.contenders import (
    CheckedCandidate,
    library_entry,
    sharing_entry,
    time_and_judge,
)
from wavesim_gpu.bench.libraries.cublaslt import LtChain
from wavesim_gpu.bench.libraries.torch_chain import TorchChain
from wavesim_gpu.bench.rows import MeasuredCase, row_of
from wavesim_gpu.driver.clocks import Reading
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.functions import compile_all
from wavesim_gpu.kernels.backends import DEFAULT
from wavesim_gpu.run.measured_trace import build_trace
from wavesim_gpu.run.operands import Operands
from wavesim_gpu.run.planned_kernels import wanted_kernels
from wavesim_gpu.run.program import Program
from wavesim_gpu.run.references import reference
from wavesim_gpu.run.runner import CupyRunner, WrongResultError
from wavesim_gpu.run.timing import Contender, run_in_turn

ROUNDS, WARM_UP_S = 20, 0.1
WAIT_LIMIT_S = 5.0  # so that a deadlock is told before the measuring process is given up
REPLAYS, LEAD_NS = 5, 30_000_000  # recorded runs, of which the median is kept, each after that much of load
UNTRACED = ("stream-k",)  # a cut tile is recorded once, by the block that stores it


def _by_torch(sets: Sequence[Operands], repeats: int) -> Any:
    from wavesim_gpu.bench.libraries.torch_layer import TorchGraph, torch_layers  # noqa: PLC0415  # PyTorch

    return TorchGraph(torch_layers(sets)[0], sets[0], repeats)


def _by_cudnn(sets: Sequence[Operands], repeats: int) -> Any:
    from wavesim_gpu.bench.libraries.torch_convolutions import TorchConvolutions  # noqa: PLC0415  # PyTorch
    from wavesim_gpu.bench.libraries.torch_layer import TorchGraph  # noqa: PLC0415  # PyTorch

    return TorchGraph([TorchConvolutions(item) for item in sets], sets[0], repeats)


RIVALS: Mapping[str, Callable[[Sequence[Operands], int], Any]] = {
    "cublaslt": lambda sets, repeats: LtChain(sets[0], repeats),
    "torch": lambda sets, repeats: TorchChain(sets[0], repeats),
    "torch layer": _by_torch,
    "cudnn": _by_cudnn,
}
Entry = tuple[str, str]  # order, plan


class PlanMeasurer:
    """Measures cases one after the other in this process. `commit` is that of the kernels."""

    limit_s = 60.0

    def __init__(self, commit: str, rounds: int = ROUNDS) -> None:
        self._commit, self._rounds = commit, rounds or ROUNDS
        self._runners: dict[str, CupyRunner] = {}
        self._made: tuple[str, list[Operands], dict[str, Any]] | None = None

    def prepare(self, cases: Sequence[Any]) -> None:
        """Compiles what the cases need, on all cores. What does not compile fails when its turn comes."""
        wanted: set[Any] = set()
        for case in cases:
            with suppress(WavesimError):
                wanted |= self._kernels(case)
        with suppress(WavesimError):
            compile_all(wanted)

    def alone(self, case: Any) -> dict[str, Trace]:
        """The baseline by itself: a trace per order, with its rounds."""
        baselines = [entry for entry in case.entries if entry[1] == case.baseline]
        result = self._timed(case, baselines, {})
        return {order: trace for (order, _), trace in self._record(case, baselines, result).items()}

    def measure(self, case: Any, has_traces: bool = False) -> MeasuredCase:
        """All plans and rivals in turns; with `has_traces` recordings of the overlapped plans."""
        missing: dict[str, str] = {}
        entries = list(case.entries)
        timed = self._timed(case, entries, missing)
        rows = [row_of(case.name, *key, rounds, verdict) for key, (rounds, verdict, _) in timed.items()]
        traced = [
            entry
            for entry in entries
            if has_traces and _is_timed(timed, entry) and entry[1] not in (case.baseline, *UNTRACED)
        ]
        return MeasuredCase(rows, self._record(case, traced, timed) if traced else {}, missing)

    def _timed(
        self, case: Any, entries: Sequence[Entry], missing: dict[str, str]
    ) -> dict[Entry, tuple[Any, Any, Reading | None]]:
        """(rounds, verdict, clock and power) of each. Raises if the baseline is wrong."""
        sets, expected = self._operands(case)
        repeats = int(case.fields.get("repeats", 1))
        made: dict[Entry, CheckedCandidate] = {}
        for order, word in entries:
            try:
                made[order, word] = self._plan(case, sets, expected, (order, word), repeats)
            except WavesimError as error:
                if word == case.baseline:
                    raise
                missing[f"{order} {word}"] = str(error)
        names = case.fields.get("rivals", ()) if len(made) > 1 else ()
        for name in names:
            try:
                made["", name] = library_entry(RIVALS[name](sets, repeats), sets[0], expected, repeats)
            except (WavesimError, RuntimeError) as error:  # RuntimeError: PyTorch's
                missing[name] = str(error)
        return self._in_turns(case, made)

    def _in_turns(
        self, case: Any, made: Mapping[Entry, CheckedCandidate]
    ) -> dict[Entry, tuple[Any, Any, Any]]:
        by_name = {" ".join(key): item for key, item in made.items()}
        result, verdicts, sampler = time_and_judge(by_name, self._rounds, WARM_UP_S)
        timed = {}
        for key in made:
            verdict = verdicts[" ".join(key)]
            if key[1] == case.baseline and not verdict.is_good:
                raise WrongResultError(f"{case.name}: relative errors {dict(verdict.errors)}; not timed")
            timed[key] = result.get(" ".join(key)), verdict, sampler.reading if sampler else None
        return timed

    def _plan(
        self, case: Any, sets: Sequence[Operands], expected: Mapping[str, Any], entry: Entry, repeats: int
    ) -> CheckedCandidate:
        runner, plan = self._runner(case), case.plan(entry[1], entry[0])
        # Runs one behind the other put their counters back themselves: a memset would keep them apart.
        resets = repeats > 1 and plan.sync.has_semaphores and not plan.launch.is_multi_stream
        programs = [runner.program(operands, plan, is_self_resetting=resets or None) for operands in sets]
        contender = runner.contender(programs[0], repeats)
        if len(sets) > 1:
            contender = replace(contender, launch=graph_of_programs(programs, repeats))
        return sharing_entry(runner, programs[0], contender, expected)

    def _record(
        self, case: Any, wanted: Sequence[Entry], timed: Mapping[Entry, tuple[Any, Any, Any]]
    ) -> dict[Entry, Trace]:
        """Of a few recorded runs of each wanted entry the one with the median makespan.

        They run in turn right behind unrecorded turns of all entries, at the clocks and caches of these.
        """
        operands = self._operands(case)[0][0]
        ahead = [entry for entry in case.entries if _is_timed(timed, entry)]
        plain, programs = (
            self._programs(case, operands, some, is_recording)
            for some, is_recording in ((ahead, False), (wanted, True))
        )
        lead, recorded = (
            [Contender(self._runner(case).launcher(item), item.streams[0]) for item in some]
            for some in (plain, programs)
        )
        turn_ns = sum(statistics.median(timed[entry][0].times_ns) for entry in ahead)
        turns = lead * max(1, round(LEAD_NS / turn_ns))
        result: dict[Entry, list[Trace]] = {entry: [] for entry in wanted}
        for _ in range(REPLAYS):
            run_in_turn([*turns, *recorded])
            for program, entry in zip(programs, wanted, strict=True):
                program.synchronize()
                rounds, _, reading = timed[entry]
                result[entry].append(build_trace(program, tuple(rounds.times_ns), reading, self._notes()))
        return {
            entry: sorted(traces, key=lambda trace: trace.makespan_ns)[len(traces) // 2]
            for entry, traces in result.items()
        }

    def _programs(
        self, case: Any, operands: Operands, entries: Sequence[Entry], is_recording: bool
    ) -> list[Program]:
        build = Build(is_recording=is_recording)
        return [
            self._runner(case).program(operands, case.plan(word, order), build) for order, word in entries
        ]

    def _kernels(self, case: Any) -> set[Any]:
        """All that a case needs compiled."""
        pipeline, backend = case.pipeline(), case.fields.get("backend", DEFAULT)
        return {
            kernel
            for order, word in case.entries
            for build in (Build(), Build(is_recording=True))
            for kernel in wanted_kernels(pipeline, case.plan(word, order), build, backend)
        }

    def _runner(self, case: Any) -> CupyRunner:
        """By the backend of stages that name none."""
        backend = case.fields.get("backend", DEFAULT)
        if backend not in self._runners:
            self._runners[backend] = CupyRunner(limit_s=WAIT_LIMIT_S, commit=self._commit, backend=backend)
        return self._runners[backend]

    def _operands(self, case: Any) -> tuple[list[Operands], dict[str, Any]]:
        """Of the case at hand, and what must come out of the first set.

        Of several `sets`, which fill the L2, runs in one graph take one after the other.
        """
        if self._made is None or self._made[0] != case.name:
            runner, pipeline, seed = self._runner(case), case.pipeline(), crc32(case.name.encode())
            sets = [runner.operands(pipeline, seed + at) for at in range(int(case.fields.get("sets", 1)))]
            self._made = case.name, sets, reference(sets[0], runner.backend)
        return self._made[1:]

    def _notes(self) -> dict[str, str]:
        date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return {"date": date, "commit": self._commit, "mode": "CUDA graph"}


def _is_timed(timed: Mapping[Entry, tuple[Any, Any, Any]], entry: Entry) -> bool:
    """Whether it was right before and after its rounds."""
    return entry in timed and timed[entry][0] is not None and timed[entry][1].is_good


def graph_of_programs(programs: Sequence[Program], repeats: int) -> Callable[[], None]:
    """What replays so many runs, of the programs in turn, as one graph: plans of one stream only."""
    stream = programs[0].streams[0]
    assert all(len(program.streams) == 1 for program in programs)
    with stream:
        stream.begin_capture()
        for index in range(repeats):
            program = programs[index % len(programs)]
            program.sync.reset(stream)
            for launch in program.launches:
                launch.enqueue((stream,))
        graph = stream.end_capture()
    return partial(_replay, graph, stream, programs)


def _replay(graph: Any, stream: Any, programs: Sequence[Program]) -> None:
    """One run of all. The programs own the buffers that the graph uses, and nothing else keeps them."""
    del programs
    graph.launch(stream)
