"""The blind run of layers on the GPU at hand: predictions are written and hashed before anything runs.

`python -m wavesim_gpu.bench.kinds.layers_blind --out FOLDER --commit COMMIT` into an empty folder. In this
order: what the device's file of costs says of every case, and its SHA-256, before anything has run; stream
sync of every case, timed and recorded; what follows from these recordings, and its SHA-256; then all plans
in turns, at a clock that has settled. `--list` says which run's cases, a trial of development sizes, or
convolutions; `--registered` takes predictions that `wavesim.bench.layer_blind_registered` wrote before.
`python -m wavesim.bench.layer_blind_scores FOLDER` makes the scores.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any
from zlib import crc32

from wavesim.bench.conv_blind_cases import (
    convolution_cases,
    fifth_convolution_cases,
    fourth_convolution_cases,
    second_convolution_cases,
    sixth_convolution_cases,
    third_convolution_cases,
)
from wavesim.bench.layer_blind_cases import (
    BASELINE,
    BlindCase,
    all_cases,
    second_cases,
    third_cases,
    trial_cases,
)
from wavesim.bench.layer_blind_predictions import predicted_from_costs, predicted_from_streams
from wavesim.bench.layer_blind_runs import (
    FACTS,
    ROUNDS_FILE,
    copy_registered,
    trace_name,
    write_registered,
)
<<<<<<< HEAD
from wavesim.bench.layer_blind_scores import SAID_POINTS
=======
from wavesim.bench.layer_blind_scores import SAID_POINTS

from wavesim.bench.blind_runs import model_sources
from wavesim.costs.device_costs import default_device
from wavesim.errors import DescriptionError, WavesimError
from wavesim.safe_io.appending import append_line
>>>>>>> 07f60478 (Turn the exam into case lists and one harness)
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import append_line, write_text
from wavesim.trace.trace import Trace
from wavesim_gpu.driver.clocks import Sampler
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, versions
from wavesim_gpu.driver.functions import KernelSpec, compile_all
from wavesim_gpu.record.stamps import device_fields
from wavesim_gpu.run.measured_trace import build_trace
from wavesim_gpu.run.operands import Operands
from wavesim_gpu.run.planned_kernels import wanted_kernels
from wavesim_gpu.run.program import Program
from wavesim_gpu.run.references import reference
from wavesim_gpu.run.runner import CupyRunner, WrongResultError
from wavesim_gpu.run.timing import Contender, Rounds, interleaved, run_in_turn

WAIT_LIMIT_S = 2.0
# Runs of 20 us end up to 2 us apart: by the medians of 20 rounds two gains of one program are a point apart.
ROUNDS, STREAM_ROUNDS = 160, 10
WARM_UP_S = 0.06
SETTLE_S = 0.25  # after checks, which draw much power at times: the clock rose for 0.1 s in the first run
LISTS: dict[str, Callable[[], Sequence[BlindCase]]] = {
    "first": all_cases,
    "second": second_cases,
    "third": third_cases,
    "trial": trial_cases,
    "convolutions": convolution_cases,
    "convolutions-second": second_convolution_cases,
    "convolutions-third": third_convolution_cases,
    "convolutions-fourth": fourth_convolution_cases,
    "convolutions-fifth": fifth_convolution_cases,
    "convolutions-sixth": sixth_convolution_cases,
}
RECORDED, LEAD_NS = 3, 20_000_000  # recorded runs, of which the median is kept, each after that much of load


class LayerMeasurer:
    """Measures cases one after the other. Operands and expected results are made once for each."""

    def __init__(self, commit: str) -> None:
        self._runner = CupyRunner(limit_s=WAIT_LIMIT_S, commit=commit)
        self._made: dict[str, tuple[Operands, dict[str, Any]]] = {}

    def prepare(self, cases: Sequence[BlindCase]) -> None:
        """Compiles all kernels, on all cores."""
        compile_all(kernel for case in cases for kernel in self._kernels(case))

    def _kernels(self, case: BlindCase) -> set[KernelSpec]:
        pipeline = case.pipeline()
        return {
            kernel
            for order, word in case.entries
            for build in (Build(), *([Build(is_recording=True)] if word == BASELINE else []))
            for kernel in wanted_kernels(pipeline, case.plan(word, order), build)
        }

    def streams(self, case: BlindCase) -> dict[str, Trace]:
        """Stream sync by itself: a recording per order, with the rounds that it is timed in."""
        found = {}
        for order in case.orders:
            contender = self._right(case, BASELINE, order)
            with Sampler() as sampler:
                (timed,) = interleaved([contender], STREAM_ROUNDS, WARM_UP_S)
            rounds_ns = tuple(timed.times_ns)
            program = self._program(case, BASELINE, order, Build(is_recording=True))
            recorded = self._runner.contender(program)
            traces = []
            for _ in range(RECORDED):
                run_in_turn([*[contender] * max(1, LEAD_NS // min(rounds_ns)), recorded])
                program.synchronize()
                traces.append(build_trace(program, rounds_ns, sampler.reading, self._notes()))
            found[order] = sorted(traces, key=lambda trace: trace.makespan_ns)[RECORDED // 2]
        return found

    def compare(self, case: BlindCase) -> tuple[dict[tuple[str, str], Rounds], dict[str, str]]:
        """(rounds of every plan that is right, in turns; why others are missing)."""
        contenders: dict[tuple[str, str], Contender] = {}
        missing: dict[str, str] = {}
        for order, word in case.entries:
            try:
                contenders[order, word] = self._right(case, word, order)
            except WavesimError as error:
                missing[f"{case.name}, {order} {word}"] = str(error)
        timed = interleaved(list(contenders.values()), ROUNDS, SETTLE_S)
        self._made.pop(case.name)
        return dict(zip(contenders, timed, strict=True)), missing

    def _right(self, case: BlindCase, word: str, order: str) -> Contender:
        """The plan, ready to be timed. Raises a `WavesimError` if its results are wrong."""
        _, expected = self._operands(case)
        program = self._program(case, word, order, Build())
        contender = self._runner.contender(program)
        verdict = self._runner.verdict(program, contender.launch, expected)
        if not verdict.is_good:
            raise WrongResultError(f"relative errors {dict(verdict.errors)}; not timed")
        return contender

    def _program(self, case: BlindCase, word: str, order: str, build: Build) -> Program:
        return self._runner.program(self._operands(case)[0], case.plan(word, order), build)

    def _operands(self, case: BlindCase) -> tuple[Operands, dict[str, Any]]:
        if case.name not in self._made:
            operands = self._runner.operands(case.pipeline(), seed=crc32(case.name.encode()))
            self._made[case.name] = operands, reference(operands)
        return self._made[case.name]

    def _notes(self) -> dict[str, str]:
        date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return {"date": date, "commit": self._runner.commit, "mode": "CUDA graph"}


class LayerBlindRunner:
    """Makes one run into an empty folder; after `seconds` nothing new is begun. run.json has what failed."""

    def __init__(
        self,
        folder: Path,
        cases: Sequence[BlindCase],
        commit: str,
        seconds: float,
        registered: Path | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise DescriptionError(f"{folder} is not empty; a blind run starts in an empty folder")
        self._folder, self._cases, self._commit = folder, cases, commit
        self._registered = registered
        self._device = default_device()
        self._began = time.monotonic()
        self._deadline = self._began + seconds
        self._failures: dict[str, str] = {}
        self._facts: dict[str, Any] = {}

    def run(self) -> None:
        """All of it."""
        made_by = {"commit": self._commit, "model_sources": model_sources(), "device": self._device}
        if self._registered is None:
            found = predicted_from_costs(self._cases, self._device)
            stamp = write_registered(self._folder, "costs", found, made_by)
        else:
            stamp = copy_registered(self._registered, self._folder, "costs")
        self._say(f"costs.json written, SHA-256 {stamp}")
        measurer = LayerMeasurer(self._commit)
        self._facts = {
            **made_by,
            "gpu": device_fields(query()),
            "versions": versions(),
            "serialises_bias": False,
            "said_points": SAID_POINTS,
        }
        self._attempt("compiling", lambda: measurer.prepare(self._cases))
        self._say("compiled")
        streams = dict(self._streams(measurer))
        self._say(f"stream sync of {len(streams)} cases")
        found = predicted_from_streams(streams, self._device)
        stamp = write_registered(self._folder, "trace", found, made_by)
        self._say(f"trace.json written, SHA-256 {stamp}")
        for case in streams:
            self._attempt(case.name, lambda case=case: self._compare(measurer, case))
        self._facts["seconds"] = round(time.monotonic() - self._began, 1)
        self._keep()

    def _streams(self, measurer: LayerMeasurer) -> Iterator[tuple[BlindCase, dict[str, Trace]]]:
        for case in self._cases:
            found = self._attempt(f"{case.name}, stream sync", lambda case=case: measurer.streams(case))
            if found is not None:
                for order, trace in found.items():
                    trace.save(self._folder / trace_name(case, order))
                yield case, found

    def _compare(self, measurer: LayerMeasurer, case: BlindCase) -> None:
        rounds, missing = measurer.compare(case)
        self._failures |= missing
        entry = [
            {"order": order, "plan": plan, "ns": one.times_ns, "ghz": one.clocks_ghz}
            for (order, plan), one in rounds.items()
        ]
        append_line(self._folder / ROUNDS_FILE, json.dumps({"case": case.name, "rounds": entry}))
        medians = {f"{order} {plan}": median(one.times_ns) / 1000 for (order, plan), one in rounds.items()}
        self._say(f"{case.name}: {', '.join(f'{name} {us:.1f}' for name, us in medians.items())} us")

    def _attempt(self, what: str, act: Callable[[], Any]) -> Any:
        if time.monotonic() > self._deadline:
            self._failures[what] = "not begun: out of time"
            return None
        try:
            return act()
        except Exception as error:  # noqa: BLE001  # one case that breaks must not cost the others
            self._failures[what] = f"{type(error).__name__}: {error}"
            self._say(f"FAILED {what}: {error}")
            return None
        finally:
            self._keep()

    def _keep(self) -> None:
        write_text(
            self._folder / FACTS, json.dumps({**self._facts, "failures": self._failures}, indent=1) + "\n"
        )

    def _say(self, words: str) -> None:
        line = f"{time.monotonic() - self._began:6.1f} s  {words}"
        print(line, file=sys.stderr, flush=True)  # noqa: T201  # progress, for whoever watches


def main() -> int:
    """The command; 1 if no case was measured."""
    parser = argparse.ArgumentParser(prog="python -m wavesim_gpu.bench.kinds.layers_blind")
    parser.add_argument("--out", required=True, type=Path, help="a folder that is empty, or not there")
    parser.add_argument("--commit", required=True, help="of the kernels and the model")
    parser.add_argument("--seconds", type=float, default=230.0, help="after which nothing new is begun")
    parser.add_argument("--list", choices=LISTS, default="second", help="cases; trial: development sizes")
    parser.add_argument("--registered", type=Path, help="a folder with predictions that were made before")
    asked = parser.parse_args()
    cases = LISTS[asked.list]()
    LayerBlindRunner(asked.out, cases, asked.commit, asked.seconds, asked.registered).run()
    return 0 if (asked.out / ROUNDS_FILE).is_file() else 1


if __name__ == "__main__":
    sys.exit(run_program("layers_blind", main))
