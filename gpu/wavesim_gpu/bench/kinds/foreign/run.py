"""A blind run of the foreign pairs: kernels alone, predictions and their hash, and only then the plans.

Example: `python -m wavesim_gpu.bench.kinds.foreign.run --out wavesim/recordings/foreign/NAME --commit COMMIT`
on a GPU, with simpy installed. It measures every pair of `foreign_pairs.toml`, or those of `--pairs FILE`.
Files are written as it goes.
"""

import argparse
import os
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from wavesim.bench.blind_runs import (
    MeasuredComparison,
    PlanRounds,
    RegisteredPrediction,
    append_comparison,
    model_sources,
    stamped,
    write_facts,
    write_predictions,
)
from wavesim.bench.foreign_pairs import BASELINE, ForeignPair, all_pairs, pair_of
from wavesim.bench.foreign_runs import ComparedPair, KnownPair, register_foreign, trace_path
from wavesim.errors import DescriptionError, WavesimError
from wavesim.predict.prediction import improvement_of_rounds
from wavesim.safe_io.program import run_program
from wavesim.safe_io.workers import worker_pool
from wavesim.trace.trace_archive import pack_traces

Register = Callable[[Sequence[KnownPair]], list[RegisteredPrediction]]


class PairMeasurer(Protocol):
    """What measures: `ByKernels`, or something that pretends to."""

    def known(self, pair: ForeignPair) -> KnownPair:
        """Before any plan has run."""

    def in_turns(self, pair: ForeignPair) -> ComparedPair:
        """Stream sync and the plans in turns."""


@dataclass
class ForeignRunner:
    """Makes one run into `folder`; what fails is kept in run.json. After `seconds` nothing new is begun."""

    folder: Path
    pairs: Sequence[ForeignPair]
    measurer: PairMeasurer
    register: Register
    facts: dict[str, Any]
    seconds: float = 150.0
    failures: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """All of it. Raises `DescriptionError` for a folder that is in use."""
        self._began = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.iterdir()):
            raise DescriptionError(f"{self.folder} is not empty; a blind run starts in an empty folder")
        known = [one for pair in self.pairs if (one := self._known(pair)) is not None]
        self.facts["pairs"] = {one.pair.name: one.as_data() for one in known}
        self._keep()
        made_by = {name: self.facts[name] for name in ("commit", "model_sources", "device")}
        stamp = write_predictions(self.folder, self.register(known), made_by)
        self._say(f"predictions.json written, SHA-256 {stamp}; no plan with semaphores has run yet")
        for one in known:
            self._compare(one.pair, stamp)
        self.facts["seconds"] = round(time.monotonic() - self._began, 1)
        self._keep()
        pack_traces(self.folder)

    def _known(self, pair: ForeignPair) -> KnownPair | None:
        found: KnownPair | None = self._attempt(f"{pair.name}, alone", partial(self.measurer.known, pair))
        if found is not None:
            if found.stream is not None:
                found.stream.save(trace_path(self.folder, pair))
            self._say(f"  {pair.name}: {dict(found.kernel_ns)} ns alone")
        return found

    def _compare(self, pair: ForeignPair, stamp: str) -> None:
        ask = partial(self.measurer.in_turns, pair)
        found: ComparedPair | None = self._attempt(f"{pair.name}, plans", ask)
        if found is None:
            return
        times = {word: tuple(ns) for word, ns in found.rounds.items()}
        rounds = {(pair.order, word): PlanRounds(ns, (0.0,) * len(ns)) for word, ns in times.items()}
        append_comparison(self.folder, MeasuredComparison(pair.name, 0, rounds))
        for word, trace in found.traces.items():
            stamped(trace, stamp).save(trace_path(self.folder, pair, word))
        self.failures |= {f"{pair.name} {word}": reason for word, reason in found.missing.items()}
        gains = {
            word: round(improvement_of_rounds(ns, times[BASELINE]).median, 1) for word, ns in times.items()
        }
        self._say(f"  {pair.name}: {gains} {dict(found.missing) or ''}")

    def _attempt(self, what: str, ask: Callable[[], Any]) -> Any:
        if time.monotonic() - self._began > self.seconds:
            self.failures[what] = f"not begun: the {self.seconds:g} s were over"
            return None
        try:
            return ask()
        except WavesimError as error:
            self.failures[what] = str(error)
            self._say(f"FAILED {what}: {error}")
            return None

    def _keep(self) -> None:
        write_facts(self.folder, {**self.facts, "failures": self.failures})

    def _say(self, words: str) -> None:
        print(f"{time.monotonic() - self._began:5.0f} s {words}", file=sys.stderr, flush=True)  # noqa: T201  # progress


def register_in_processes(device: str, known: Sequence[KnownPair]) -> list[RegisteredPrediction]:
    """Predicts pairs side by side, a process per core."""
    with worker_pool(os.cpu_count()) as pool:
        waiting = [pool.submit(register_foreign, one, device) for one in known]
        return [one for done in waiting for one in done.result()]


class ByKernels:
    """The GPU at hand, with the module that launches a pair's kernels."""

    def known(self, pair: ForeignPair) -> KnownPair:
        """Raises `WrongResultError` if stream sync's outputs are wrong."""
        return _module(pair).known(pair)

    def in_turns(self, pair: ForeignPair) -> ComparedPair:
        """A plan whose bits are not stream sync's is missing."""
        return _module(pair).in_turns(pair)


def _module(pair: ForeignPair) -> PairMeasurer:
    name = "triton_measuring" if pair.kernels == "triton" else "measuring"
    found: Any = import_module(f"wavesim_gpu.bench.kinds.foreign.{name}")  # both need what others lack
    return found


def facts_of(device: str, commit: str) -> dict[str, Any]:
    """Of the run: device, date, commit, model, versions."""
    from wavesim_gpu.driver.device import query, versions  # noqa: PLC0415  # as above
    from wavesim_gpu.record.stamps import device_fields  # noqa: PLC0415  # needs CuPy

    return {
        "device": device,
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit,
        "model_sources": model_sources(),
        "gpu": device_fields(query()),
        "versions": versions(),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes a run; 0 unless something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="an empty folder")
    parser.add_argument("--commit", required=True, help="commit of the kernels")
    parser.add_argument("--device", default="h200", help="what is predicted for")
    parser.add_argument("--pairs", type=Path, help="other pairs than those of foreign_pairs.toml")
    parser.add_argument("--seconds", type=float, default=150.0, help="after these nothing new is begun")
    options = parser.parse_args(arguments)
    pairs = all_pairs()
    if options.pairs is not None:
        pairs = tuple(map(pair_of, tomllib.loads(options.pairs.read_text(encoding="utf-8"))["pairs"]))
    from wavesim_gpu.driver.current_gpu import require_gpu  # noqa: PLC0415  # needs CuPy

    require_gpu(options.device)
    runner = ForeignRunner(
        options.out,
        pairs,
        ByKernels(),
        partial(register_in_processes, options.device),
        facts_of(options.device, options.commit),
        options.seconds,
    )
    runner.run()
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(run_program("foreign.run", main))
