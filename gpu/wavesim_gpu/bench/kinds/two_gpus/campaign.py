"""All that is measured on two GPUs: `python -m wavesim_gpu.bench.kinds.two_gpus.campaign --out DIR`.

Example: `--minutes 9` takes the steps in the order of their worth until nine minutes are over. Each adds
lines to a file of the folder as it goes, and `steps.json` says after each what is done, failed and left. The
same command again goes on: what a line holds is not measured again, nor what `--known DIR` holds. A step that
fails or hangs is ended and costs its shape, not the run; its output is in a file of its name. `--dry-run`
lists the steps anywhere. `collected.py` then makes of the folder what the pages show.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError, DeviceError, WavesimError
from wavesim.safe_io.options import BAD_INPUT, OneLineParser, integer, number
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import open_appending, require_writable, write_text
from wavesim_gpu.bench.kinds.two_gpus.__main__ import devices_of, require_kraken
from wavesim_gpu.bench.kinds.two_gpus.steps import (
    BEGIN_S,
    MOST_BYTES,
    ROUNDS,
    MeasuringStep,
    Size,
    batches,
    expected_s,
    left_of,
    lines_of,
    mend,
    require_one_commit,
    steps_of,
)
from wavesim_gpu.driver.device import compute_capability, require_cupy
from wavesim_gpu.peers.choice import HOPPER
from wavesim_gpu.peers.groups import require_access
from wavesim_gpu.run.runner import current_commit

MINUTES = 25.0
ENDING_S = 10.0  # until a process that was asked to end is killed
LOOK_S = 1.0  # between looks at the results
STALLED_S = 180.0  # without a new result, so that one that hangs does not take all of the time
MODULE = "wavesim_gpu.bench.kinds.two_gpus"
# Runs a command, whose output goes to the first file and results to the second, for so many seconds: its
# status, or None where it was ended.
Runner = Callable[[Sequence[str], Path, Path, float], int | None]


@dataclass
class Campaign:
    """A run of the steps: where results go, of which kernels, how long, and where some are already."""

    folder: Path
    commit: str
    devices: tuple[int, ...]
    seconds: float
    known: Sequence[Path] = ()
    kraken: str = ""
    run: Runner = field(default_factory=lambda: run_command)
    now: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._until = self.now() + self.seconds
        self.states: dict[str, dict[str, Any]] = {}

    @property
    def left_s(self) -> float:
        """Of the time that was given."""
        return self._until - self.now()

    def lines(self, step: MeasuringStep) -> list[dict[str, Any]]:
        """All results of the step's file, of this folder and of those known. Raises `RecordingError`."""
        found = [line for folder in (self.folder, *self.known) for line in lines_of(folder, step.file)]
        require_one_commit(found, self.commit)
        return found

    def take(self, steps: Sequence[MeasuringStep]) -> int:
        """Takes step after step; 1 where a shape failed, else 0. Raises `RecordingError`, `OutputError`."""
        for file in {step.file for step in steps}:
            mend(self.folder / file)
        for step in steps:
            self._tell(step, "", 0.0)
        for step in steps:
            began = self.now()
            failed = self._step(step)
            self._tell(step, failed, self.now() - began)
            say(f"{step.name}: {self.states[step.name]['state']}, {self.left_s:.0f} s left")
        return int(any(one["failed"] for one in self.states.values()))

    def _step(self, step: MeasuringStep) -> str:
        """What failed, "" for nothing. After a failure the next shape is tried."""
        failed: list[str] = []
        given_up: set[Size] = set()
        while True:
            left = [one for one in left_of(step, self.lines(step)) if one not in given_up]
            if not left or self.left_s < BEGIN_S + self._each_s(step):
                return "; ".join(failed)
            sizes = batches(step, left)[0]
            seconds = self.left_s
            command = self._command(step, sizes, seconds - BEGIN_S)
            status = self.run(command, self._log(step), self.folder / step.file, seconds)
            after = left_of(step, self.lines(step))
            if status == 0 and len(after) < len(left):
                continue
            if status in (0, None) and self.left_s < BEGIN_S + self._each_s(step):
                return "; ".join(failed)  # the time is over, nothing is wrong
            first = next((one for one in sizes if one in after), None)
            if first is not None:
                given_up.add(first)
                failed.append(f"{' x '.join(map(str, first))} ({_reason(status, self._log(step))})")

    def _each_s(self, step: MeasuringStep) -> float:
        return expected_s(step, step.sizes[:1], self.lines(step)) - BEGIN_S

    def _command(self, step: MeasuringStep, sizes: Sequence[Size], seconds: float) -> list[str]:
        words = ["--out", str(self.folder / step.file), "--commit", self.commit]
        words += ["--devices", ",".join(map(str, self.devices)), *step.words(sizes, seconds)]
        if self.kraken and step.name.startswith("kraken"):
            words += ["--kraken", self.kraken]
        return [sys.executable, "-m", MODULE, *words]

    def _log(self, step: MeasuringStep) -> Path:
        return self.folder / f"{step.name.replace(', ', '-').replace(' ', '-').replace(':', '-')}.log"

    def _tell(self, step: MeasuringStep, failed: str, seconds: float) -> None:
        left = len(left_of(step, self.lines(step)))
        state = "done" if not left else f"{len(step.sizes) - left} of {len(step.sizes)}"
        self.states[step.name] = {
            "file": step.file, "state": f"{state}; failed: {failed}" if failed else state,
            "left": left, "failed": failed, "seconds": round(seconds, 1),
        }  # fmt: skip
        write_text(self.folder / "steps.json", json.dumps(self.states, indent=1) + "\n")


def run_command(
    command: Sequence[str], log: Path, results: Path, seconds: float, stalled_s: float = STALLED_S
) -> int | None:
    """A process group of its own, which is ended with all that it has started where it takes longer, or adds
    no result for `stalled_s`.
    """
    file = open_appending(log)
    try:
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)  # noqa: S603  # ours
    finally:
        os.close(file)
    began = since = time.monotonic()
    size = _size(results)
    try:
        while (now := time.monotonic()) < began + seconds and now < since + stalled_s:
            try:
                return process.wait(min(LOOK_S, max(0.0, began + seconds - now)))
            except subprocess.TimeoutExpired:
                if _size(results) != size:
                    size, since = _size(results), time.monotonic()
        return None
    finally:
        _end(process)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """All of its group: a rank may outlive the process that has started it."""
    for number_, wait_s in ((signal.SIGTERM, ENDING_S), (signal.SIGKILL, ENDING_S)):
        try:
            os.killpg(process.pid, number_)
        except ProcessLookupError:
            return
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            continue


def _reason(status: int | None, log: Path) -> str:
    if status is None:
        return "it did not end"
    rows = (
        [row.strip() for row in read_text(log, MOST_BYTES).splitlines() if row.strip()]
        if log.exists()
        else []
    )
    return f"status {status}: {rows[-1][:200]}" if rows else f"status {status}"


def require_two_gpus(devices: Sequence[int]) -> None:
    """Raises `DeviceError`: no GPU or no CuPy, fewer than asked for, no peer access, or not of Hopper."""
    cupy = require_cupy()
    count = int(cupy.cuda.runtime.getDeviceCount())
    if max(devices) >= count:
        raise DeviceError(
            f"this machine has {count} GPU{'s' * (count > 1)}, and GPUs {','.join(map(str, devices))} are "
            "asked for; take a machine with two GPUs of one host. On one, --devices 0,0 checks all but "
            "the link; --dry-run lists the steps"
        )
    if compute_capability(cupy) != HOPPER:
        raise DeviceError("the kernels among GPUs are for Hopper (sm_90); take H100s or H200s")
    for device in devices:
        for peer in devices:
            if device != peer:
                require_access(cupy, device, peer)


def plan_text(steps: Sequence[MeasuringStep], lines: Callable[[MeasuringStep], list[Any]]) -> str:
    """What would run, in order, how long it is expected to take and where its results go."""
    rows = [f"{'step':<30}{'shapes':>7}{'left':>6}{'s, expected':>13}{'s, in all':>11}  file"]
    total = 0.0
    for step in steps:
        known = lines(step)
        left = left_of(step, known)
        expected = expected_s(step, left, known)
        total += expected
        rows.append(
            f"{step.name:<30}{len(step.sizes):>7}{len(left):>6}{expected:>13.0f}{total:>11.0f}  {step.file}"
        )
    rows.append(
        f"by results where there are some, else assumed; a process begins in {BEGIN_S:.0f} s, also assumed"
    )
    return "\n".join(rows)


def say(text: str) -> None:
    """A line for whoever watches."""
    print(text, flush=True)  # noqa: T201


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command's options."""
    parser = OneLineParser(prog=f"python -m {MODULE}.campaign")
    parser.add_argument("--out", required=True, type=Path, help="a folder of results, which grows")
    parser.add_argument("--minutes", type=number, default=MINUTES, help=f"at most (default {MINUTES:g})")
    parser.add_argument("--known", nargs="*", default=[], metavar="FOLDER", help="results of runs before")
    parser.add_argument("--only", default="", metavar="WORD", help="only steps whose names begin so")
    parser.add_argument("--commit", default="", help="of the kernels (default: that of the checkout)")
    parser.add_argument("--kraken", default="", metavar="DIR", help="a checkout of meta-pytorch/kraken")
    parser.add_argument("--devices", default="0,1", help="the ranks' GPUs; 0,0: both on one (default 0,1)")
    parser.add_argument("--rounds", type=integer, default=ROUNDS, help=f"of times (default {ROUNDS})")
    parser.add_argument("--dry-run", action="store_true", help="list the steps and measure nothing")
    return parser.parse_args(arguments)  # type: ignore[no-any-return]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0, 1 where a step failed, 2 for what cannot be run."""
    options = parsed(arguments)
    try:
        return _run(options)
    except WavesimError as error:
        sys.stderr.write(f"two_gpus.campaign: {error}\n")
        return BAD_INPUT


def _run(options: argparse.Namespace) -> int:
    devices = devices_of(options.devices, "right")
    require_kraken(options.kraken)
    commit = options.commit or current_commit()
    if not commit:
        raise DescriptionError("this is no git checkout; say of which kernels results are with --commit")
    steps = [
        one for one in steps_of(devices, options.kraken, options.rounds) if one.name.startswith(options.only)
    ]
    if not steps:
        raise DescriptionError(f"--only is {options.only!r}; no step's name begins so. Use --dry-run")
    known = [Path(folder) for folder in options.known]
    found = Campaign(options.out, commit, devices, 60 * options.minutes, known, options.kraken)
    if options.dry_run:
        say(plan_text(steps, found.lines))
        return 0
    require_two_gpus(devices)
    options.out.mkdir(parents=True, exist_ok=True)
    require_writable(options.out / "steps.json")
    return found.take(steps)


if __name__ == "__main__":
    sys.exit(run_program("two_gpus.campaign", main))
