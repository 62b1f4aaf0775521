"""A blind run: stream sync is measured, predictions are written and hashed, and only then the plans run.

Example: one folder, in this order: a stream-sync trace of every case; predictions.json, made from these
alone, and its SHA-256, printed; then every plan in turns with stream sync, each trace carrying that hash; and
as far as time goes all of it once more, which says how well it repeats. Files are written as it goes.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from wavesim.bench.blind_runs import (
    BASES,
    SHARD,
    MeasuredComparison,
    RegisteredPrediction,
    append_comparison,
    measured_word,
    model_sources,
    trace_path,
    write_facts,
    write_predictions,
)
from wavesim.bench.blind_sizes import BASELINE, SEMAPHORES, BlindSize, shard_of, shuffled
from wavesim.errors import DescriptionError, WavesimError
from wavesim.safe_io.workers import worker_pool
from wavesim.trace.trace import Trace
from wavesim.trace.trace_archive import pack_traces
from wavesim_gpu.bench.blind_worker import Worker
from wavesim_gpu.bench.kinds.gemms import ComparedSize
from wavesim_gpu.bench.measuring_process import WorkerError
from wavesim_gpu.driver.current_gpu import require_gpu

REPEATS = 2
MOST_BREAKDOWNS = 2  # of one family of kernels, one after the other; the rest of the family is left out
Streams = Mapping[str, Trace]


class Measurer(Protocol):
    """What measures; `Worker`, or something that pretends to."""

    def facts(self) -> dict[str, Any]:
        """Of device and software."""

    def prepare(self, sizes: Sequence[BlindSize]) -> None:
        """Compiles ahead."""

    def streams(self, size: BlindSize) -> dict[str, Trace]:
        """Stream sync by itself, by order."""

    def compare(self, size: BlindSize, plans: Sequence[str], repeat: int, stamp: str) -> ComparedSize:
        """All plans in turns; traces of the overlapped ones."""


Predict = Callable[[Sequence[tuple[BlindSize, Streams]]], list[RegisteredPrediction]]


@dataclass
class BlindRunner:
    """Makes one run into `folder`. `device` is the catalogue's name of the GPU that it predicts for.

    `require` refuses another GPU, and one that cannot be measured fairly. What fails is reported, kept in
    run.json and left out. After `seconds` nothing new is begun.
    """

    folder: Path
    sizes: Sequence[BlindSize]
    measurer: Measurer
    predict: Predict
    commit: str
    device: str = "h200"
    seconds: float = 230.0
    require: Callable[[str], object] | None = None
    failures: dict[str, str] = field(default_factory=dict)
    _breakdowns: dict[str, int] = field(default_factory=dict)
    _left_out: set[str] = field(default_factory=set)
    _facts: dict[str, Any] = field(default_factory=dict)

    def run(self) -> None:
        """All of it. Raises what `facts` raises, and `DescriptionError` for a folder that is in use."""
        began = time.monotonic()
        self._deadline = began + self.seconds
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.iterdir()):
            raise DescriptionError(f"{self.folder} is not empty; a blind run starts in an empty folder")
        if self.require is not None:
            self.require(self.device)
        self._facts = {
            "device": self.device,
            "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "commit": self.commit,
            "model_sources": model_sources(),
            **self.measurer.facts(),
        }
        self._keep()
        self._attempt("compiling ahead", partial(self.measurer.prepare, self.sizes))
        self._say(f"compiled after {time.monotonic() - began:.0f} s")
        streams = dict(self._streams())
        self._say(f"stream sync of {len(streams)} sizes after {time.monotonic() - began:.0f} s")
        stamp = self._register(streams)
        self._say(f"predictions.json written, SHA-256 {stamp}, after {time.monotonic() - began:.0f} s")
        for repeat in range(REPEATS):
            done = [self._compare(size, repeat, stamp) for size in shuffled(streams)]
            self._say(f"repeat {repeat}: {sum(done)} sizes after {time.monotonic() - began:.0f} s")
        self._facts["seconds"] = round(time.monotonic() - began, 1)
        self._keep()
        pack_traces(self.folder)

    def _streams(self) -> Iterator[tuple[BlindSize, Streams]]:
        for size in shuffled(self.sizes):
            found = self._measure(size, "stream sync", partial(self.measurer.streams, size))
            if found is not None:
                for order, trace in found.items():
                    trace.save(trace_path(self.folder, size, order, BASELINE))
                yield size, found

    def _register(self, streams: Mapping[BlindSize, Streams]) -> str:
        made_by = {name: self._facts[name] for name in ("commit", "model_sources", "device")}
        return write_predictions(self.folder, self.predict(list(streams.items())), made_by)

    def _compare(self, size: BlindSize, repeat: int, stamp: str) -> bool:
        """Measures a size's plans. Where that breaks down, rivals of semaphores are left out from then on."""
        plans = tuple(word for word in size.plans if word not in self._left_out)
        what = f"repeat {repeat}"
        before = self._breakdowns.get(size.kernels, 0)
        found = self._measure(size, what, partial(self.measurer.compare, size, plans, repeat, stamp))
        if found is None:
            rivals = [word for word in plans if word not in SEMAPHORES]
            if not rivals or self._breakdowns.get(size.kernels, 0) <= before:
                return False
            self._breakdowns[size.kernels] = before
            self._left_out.add(rivals[-1])
            self._fail(f"{rivals[-1]} from {size.name} on", "left out: the process broke down with it")
            return self._compare(size, repeat, stamp)
        self._store(size, found, what)
        return True

    def _store(self, size: BlindSize, found: ComparedSize, what: str) -> None:
        for trace in found.traces:
            (order,) = set(trace.header.orders.values())
            trace.save(trace_path(self.folder, size, order, measured_word(trace)))
        append_comparison(self.folder, found.comparison)
        for plan, reason in found.missing.items():
            self._fail(f"{size.name} {plan}, {what}", reason)
        self._say(f"  {what} {size.name}: {_gains(found.comparison)}")

    def _measure(self, size: BlindSize, what: str, ask: Callable[[], Any]) -> Any:
        """What `ask` gives, or None: out of time, its kernels given up, or failed."""
        if time.monotonic() > self._deadline:
            return self._fail(f"{size.name}, {what}", f"not begun: the {self.seconds:g} s were over")
        if self._breakdowns.get(size.kernels, 0) >= MOST_BREAKDOWNS:
            return self._fail(f"{size.name}, {what}", f"not begun: {size.kernels} broke down before")
        return self._attempt(f"{size.name}, {what}", ask, size.kernels)

    def _attempt(self, what: str, ask: Callable[[], Any], kernels: str = "") -> Any:
        try:
            found = ask()
        except WavesimError as error:
            is_broken = isinstance(error, WorkerError)
            self._breakdowns[kernels] = self._breakdowns.get(kernels, 0) + 1 if is_broken else 0
            return self._fail(what, str(error))
        self._breakdowns[kernels] = 0
        return found

    def _fail(self, what: str, reason: str) -> None:
        self.failures[what] = reason
        self._say(f"FAILED {what}: {reason}")
        self._keep()

    def _keep(self) -> None:
        write_facts(self.folder, {**self._facts, "failures": self.failures})

    def _say(self, words: str) -> None:
        print(words, file=sys.stderr, flush=True)  # noqa: T201  # progress, for whoever watches


def predict_in_processes(device: str, shards: int = 1) -> Predict:
    """Predicts sizes side by side, on the cores that are one shard's. Raises `DescriptionError` if simpy is
    missing.
    """
    try:
        from wavesim.bench.blind_predictions import register_predictions  # noqa: PLC0415  # needs simpy; runs do not
    except ImportError as error:
        raise DescriptionError(
            f"predictions need {error.name}: pip install simpy, or put its wheel on PYTHONPATH"
        ) from None

    def predict(found: Sequence[tuple[BlindSize, Streams]]) -> list[RegisteredPrediction]:
        with worker_pool(max(1, (os.cpu_count() or 1) // shards)) as pool:
            waiting = [pool.submit(register_predictions, size, streams, device) for size, streams in found]
            return list(chain.from_iterable(map(_outcome, waiting, found)))

    return predict


def _outcome(
    waiting: Future[list[RegisteredPrediction]], asked: tuple[BlindSize, Streams]
) -> list[RegisteredPrediction]:
    """What was predicted; a bug in the model is written down as such and does not cost the measurement."""
    size, streams = asked
    try:
        return waiting.result()
    except Exception as error:  # noqa: BLE001  # whatever it is
        words = f"{type(error).__name__}: {error}"
        return [
            RegisteredPrediction(size.name, order, word, error=words, basis=basis)
            for basis in BASES
            for order in streams
            for word in size.plans
        ]


@dataclass(frozen=True)
class Shard:
    """Part `number`, from 1, of a run that `count` GPUs make side by side, each in a process of its own."""

    number: int = 1
    count: int = 1

    def folder(self, run: Path) -> Path:
        """Where this part of a run is: in the run's folder if there are several."""
        return run if self.count == 1 else run / f"{SHARD}{self.number}"


def make_blind_run(
    folder: Path,
    sizes: Sequence[BlindSize],
    commit: str,
    device: str,
    seconds: float,
    shard: Shard = Shard(),  # frozen
) -> dict[str, str]:
    """Measures on the GPU at hand, in a process of its own. Returns what failed and why."""
    worker = Worker(commit)
    own, predict = shard_of(sizes, shard.number, shard.count), predict_in_processes(device, shard.count)
    place = shard.folder(folder)
    runner = BlindRunner(place, own, worker, predict, commit, device, seconds, require_gpu)
    try:
        runner.run()
    finally:
        worker.close()
    return runner.failures


def _gains(found: MeasuredComparison) -> str:
    """Improvements in points, for whoever watches."""

    def median(order: str, plan: str) -> float:
        times = sorted(found.rounds[order, plan].ns)
        return times[len(times) // 2]

    return ", ".join(
        f"{order} {plan} {100 * (1 - median(order, plan) / median(order, BASELINE)):+.1f}"
        for order, plan in found.rounds
        if plan != BASELINE
    )
