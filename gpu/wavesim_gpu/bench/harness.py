"""Measures a case list: a row per way of a case, in one file that the same command goes on with.

Example: `python -m wavesim_gpu measure blind-second --out DIR --shard 1/4 --minutes 9`. Of a blind list the
baseline of every case runs first; what is predicted from it is written with its SHA-256; then all ways run in
turns. The measuring process is a separate one: a kernel that hangs or faults costs its case.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.bench import results
from wavesim.bench.case_list import CaseList
from wavesim.errors import DescriptionError, WavesimError
from wavesim.safe_io.documents import read_json
from wavesim.safe_io.writing import write_text
from wavesim_gpu.bench.measuring_process import MeasuringProcess, WorkerError

ROWS, FACTS = "rows.jsonl", "run.json"
SECONDS, COMPILING_S = 540.0, 400.0
MOST_BREAKDOWNS = 2  # one after the other; then nothing new is begun
MOST_BYTES = 1 << 24
STAMP = "predictions"  # in a trace's versions: the hash of what was written before it ran
# Kinds of lists: the module of `kinds` and the class that measure them.
PLANS = ("plans", "PlanMeasurer")
KINDS = {
    "gemms": PLANS,
    "layers": PLANS,
    "convolutions": PLANS,
    "crossover": PLANS,
    "foreign": ("foreign", "ForeignMeasurer"),
    "two-gpus": ("two_gpus", "PeerMeasurer"),
    "lab": ("labs", "LabMeasurer"),
    "mlps": ("mlp", "MlpMeasurer"),
}


def measurer_of(kind: str, commit: str, rounds: int) -> Any:
    """What measures cases of a kind; called in the measuring process."""
    return class_of(kind)(commit, rounds)


def class_of(kind: str) -> Any:
    """The class that measures cases of a kind."""
    module, name = KINDS[kind]
    return getattr(import_module(f"wavesim_gpu.bench.kinds.{module}"), name)


def require_predictions() -> Any:
    """What predicts and registers. Raises `DescriptionError` where simpy is missing."""
    try:
        return import_module("wavesim.bench.registration")
    except ImportError as error:
        raise DescriptionError(
            f"predictions need {error.name}: pip install simpy, or put its wheel on PYTHONPATH"
        ) from None


def facts_of(kind: str) -> dict[str, Any]:
    """Device, versions and hash of the kernels' sources."""
    from wavesim_gpu.driver.device import query, versions  # noqa: PLC0415  # needs CuPy
    from wavesim_gpu.driver.kernel_sources import ROOT, source_hash  # noqa: PLC0415  # as above
    from wavesim_gpu.record.stamps import device_fields  # noqa: PLC0415  # as above

    sources = sorted((ROOT / "kernels").rglob("*.cu"))
    return {
        "kind": kind,
        "device": device_fields(query()),
        "versions": versions(),
        "kernel_sources": source_hash(*sources),
    }


@dataclass
class ListRun:
    """One run of a list into a folder; what fails is kept in run.json. After `seconds` nothing new is begun.

    `ask` runs a method of the measurer within so many seconds: in a process of its own, or pretended.
    """

    cases: CaseList
    folder: Path
    chosen: Sequence[Any]
    ask: Callable[..., Any]
    header: Mapping[str, Any]
    is_blind: bool = False
    seconds: float = SECONDS
    limit_s: float = 20.0
    failures: dict[str, str] = field(default_factory=dict)
    _breakdowns: int = 0

    def run(self) -> dict[str, str]:
        """All of it, or what is left of it. Returns what failed and why."""
        self._began = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        results.start(self.folder / ROWS, self.header)
        done = results.done_cases(self.folder / ROWS)
        left = [case for case in self._known() if case.name not in done]
        facts = self._facts()
        stamp = str(facts.get(STAMP, ""))
        self.failures |= facts.get("failures", {})
        if left:
            self._attempt("compiling ahead", COMPILING_S, "prepare", left)
            self._say(f"compiled what {len(left)} cases need")
        if self.is_blind and not stamp:
            left, stamp = self._predicted(left)
        for case in left:
            self._measure(case, stamp)
        self._keep()
        return self.failures

    def _facts(self) -> dict[str, Any]:
        path = self.folder / FACTS
        return dict(read_json(path, MOST_BYTES)) if path.exists() else {}

    def _known(self) -> Sequence[Any]:
        """The cases; where this folder has predictions, those that were predicted."""
        predicted = self._facts().get("predicted")
        return [case for case in self.chosen if predicted is None or case.name in predicted]

    def _predicted(self, cases: Sequence[Any]) -> tuple[list[Any], str]:
        """The baseline of every case, then predictions, from a device's costs and from what was measured."""
        registration = require_predictions()
        device, kind = self.cases.device, KINDS[self.cases.kind]
        made_by = {"commit": str(self.header["commit"]), "device": device}
        known: dict[str, Any] = {}
        result: dict[Any, list[Any]] = {}
        if kind == PLANS:
            said = registration.predict_from_costs(cases, device)
            registration.register(self.folder, "costs", said, made_by)
        for case in cases:
            alone = self._attempt(f"{case.name}, alone", self.limit_s, "alone", case)
            if alone is not None:
                known[case.name] = alone
                self._save(case, {(order, case.baseline): trace for order, trace in _traces(alone).items()})
        own = [case for case in cases if case.name in known]
        if kind == PLANS:
            streams = {case: known[case.name] for case in own}
            result |= registration.predict_from_streams(streams, device)
        else:
            result |= import_module(f"wavesim_gpu.bench.kinds.{kind[0]}").predictions(known, device)
        stamps = [registration.register(self.folder, basis, said, made_by) for basis, said in result.items()]
        self._say(f"predictions are written, SHA-256 {' and '.join(stamps)}; no other plan has run yet")
        self._keep(**{STAMP: stamps[-1], "predicted": [case.name for case in own]})
        return own, stamps[-1]

    def _measure(self, case: Any, stamp: str) -> None:
        result = self._attempt(case.name, self.limit_s, "measure", case, bool(stamp))
        if result is None:
            return
        traces = {key: _stamped(trace, stamp) for key, trace in result.traces.items()}
        self._save(case, traces)
        if result.document is not None:
            write_text(self.folder / f"{case.name}.json", json.dumps(result.document, indent=1) + "\n")
        results.append(self.folder / ROWS, result.rows)
        self.failures.pop(case.name, None)  # of a run before
        if result.notes:
            notes = {**self._facts().get("notes", {}), case.name: dict(result.notes)}
            self._keep(notes=notes)
        self.failures |= {f"{case.name} {way}": reason for way, reason in result.missing.items()}
        self._say(f"{case.name}: {_line(result.rows)} {dict(result.missing) or ''}")

    def _save(self, case: Any, traces: Mapping[tuple[str, str], Any]) -> None:
        for (order, word), trace in traces.items():
            stem = f"{case.name} {order} {word}".replace(" ", "_").replace(":", "-").replace("/", "-")
            trace.save(self.folder / f"{stem}.npz")

    def _attempt(self, what: str, limit_s: float, *question: Any) -> Any:
        """The measurer's answer, or None: out of time, given up, or failed."""
        if time.monotonic() - self._began > self.seconds:
            self._say(f"{what}: not begun, the {self.seconds:g} s are over; the same command goes on")
            return None
        if self._breakdowns >= MOST_BREAKDOWNS:
            self._fail(what, f"not begun: the process broke down {MOST_BREAKDOWNS} times in a row")
            return None
        try:
            result = self.ask(limit_s, *question)
        except WavesimError as error:
            self._breakdowns = self._breakdowns + 1 if isinstance(error, WorkerError) else 0
            self._fail(what, str(error))
            return None
        self._breakdowns = 0
        return result

    def _fail(self, what: str, reason: str) -> None:
        self.failures[what] = reason
        self._say(f"FAILED {what}: {reason}")
        self._keep()

    def _keep(self, **more: Any) -> None:
        path = self.folder / FACTS
        facts = {**self._facts(), **self.header, **more, "failures": self.failures}
        write_text(path, json.dumps(facts, indent=1) + "\n")

    def _say(self, words: str) -> None:
        seconds = time.monotonic() - self._began
        print(f"{seconds:6.1f} s  {words}", file=sys.stderr, flush=True)  # noqa: T201  # progress


def measure(
    cases: CaseList,
    out: Path,
    *,
    only: str = "",
    shard: tuple[int, int] = (1, 1),
    seconds: float = SECONDS,
    commit: str = "",
    is_blind: bool = False,
) -> ListRun:
    """Measures on the GPU at hand; the finished run, whose `failures` say what is missing."""
    number, count = shard
    chosen = [case for case in cases.shard(number, count) if only in case.name]
    if not chosen:
        raise DescriptionError(
            f"--only is {only!r}; it is in none of {len(cases.cases)} names of {cases.name}"
        )
    measurer = class_of(cases.kind)
    about = {
        "list": cases.name,
        "list_sha256": cases.sha256,
        **facts_of(cases.kind),
        "commit": commit,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "shard": f"{number}/{count}",
    }
    header = json.loads(json.dumps(about))  # as a file has it, which another run compares with
    arguments = cases.kind, commit, cases.rounds
    # Two GPUs are two processes, which a process that is watched itself may not start.
    starts_its_own = getattr(measurer, "starts_processes", False)
    process = None if starts_its_own else MeasuringProcess(measurer_of, *arguments)
    own = measurer_of(*arguments) if starts_its_own else None

    def ask(limit_s: float, name: str, *question: Any) -> Any:
        if process:
            return process.ask(limit_s, name, *question)
        try:
            return getattr(own, name)(*question)
        except WavesimError:
            raise
        except Exception as error:  # noqa: BLE001  # CUDA errors are of many types
            raise WorkerError(f"{type(error).__name__}: {error}") from None

    folder = out if count == 1 else out / f"shard-{number}"
    run = ListRun(cases, folder, chosen, ask, header, is_blind, seconds, measurer.limit_s)
    try:
        run.run()
    finally:
        for entry in (process, own):
            if hasattr(entry, "close"):
                entry.close()
    return run


def _traces(alone: Any) -> Mapping[str, Any]:
    """By order; a foreign pair's is one, or none."""
    if isinstance(alone, Mapping):
        return alone
    return {} if alone.stream is None else {alone.pair.order: alone.stream}


def _stamped(trace: Any, stamp: str) -> Any:
    return replace(trace, header=replace(trace.header, versions={**trace.header.versions, STAMP: stamp}))


def _line(rows: Sequence[results.ResultRow]) -> str:
    """Median microseconds of each way, for whoever watches."""
    shown = (
        f"{row.order} {row.way} {median(row.ns) / 1000:.1f}" if row.ns else f"{row.order} {row.way} not timed"
        for row in rows
    )
    return ", ".join(shown) + " us"
