"""Runs every scenario in a process of its own, with a time limit, and writes one file of what was found.

Example: `python -m faults --calls 100000 --out faults.json` exits with 1 if any result
was wrong, or NaN and not reported, or if a scenario did not end.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from faults import ENVIRONMENT
from faults.judged_calls import INPUTS
from faults.scenarios import SCENARIOS
from wavesim.errors import WavesimError
from wavesim.safe_io.bounds import whole
from wavesim.safe_io.escaping import lines
from wavesim.safe_io.options import OneLineParser
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text
from wavesim_gpu.driver.device import query, versions
from wavesim_gpu.run.runner import current_commit

ROOT = Path(__file__).parents[3]
PROGRAM = "python -m faults"
MOST_CALLS = 10_000_000
# Each one's share of the calls, and how long it may take, in seconds.
RUNS: dict[str, tuple[float, float]] = {
    "plain": (0.02, 30),
    "same_process": (0.002, 45),
    "injected": (1.0, 120),
    "threads": (0.1, 45),
    "replays": (0.1, 45),
    "other_process": (0.02, 45),
    "time_sliced": (0.05, 45),
    "two_processes": (0.05, 45),
    "green": (0.01, 30),
    "forgotten": (0, 30),
}


def run_alone(name: str, calls: int, limit_s: float, processes: int = 1) -> list[dict[str, Any]]:
    """A scenario in so many processes at once, each ended with all that it started after `limit_s`."""
    command = [sys.executable, "-m", __spec__.name, "--scenario", name, "--calls", str(calls)]
    started = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=ENVIRONMENT,
        )
        for _ in range(processes)
    ]
    ends = time.monotonic() + limit_s
    try:
        return [_ended(process, ends) for process in started]
    finally:
        for process in started:
            _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """Ends it with all that it started, by the process group that it leads; nothing if all of it has gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _ended(process: subprocess.Popen[str], ends: float) -> dict[str, Any]:
    try:
        out, errors = process.communicate(timeout=max(0.1, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        _kill(process)
        out, errors = process.communicate()
        return {"faults": 1, "error": "did not end in time", "said": _said(errors)}
    if process.returncode != 0:
        return {"faults": 1, "error": f"ended with {process.returncode}", "said": _said(errors)}
    return {**json.loads(out.splitlines()[-1]), "said": _said(errors)}


def _said(errors: str) -> str:
    """The end of what a process wrote, with paths from the repository's root."""
    return errors.replace(f"{ROOT}{os.sep}", "")[-2000:]


def found_in(name: str, calls: int, limit_s: float) -> dict[str, Any]:
    """What a scenario found, and how long it took."""
    began = time.monotonic()
    if name == "two_processes":
        both = run_alone("plain", calls, limit_s, processes=2)
        outcome: dict[str, Any] = {"processes": both, "faults": sum(entry["faults"] for entry in both)}
    else:
        (outcome,) = run_alone(name, calls, limit_s)
    if name == "forgotten" and f"call {INPUTS + 1}, mlp of" not in outcome["said"]:
        outcome["faults"] += 1  # the first call after the wanted results failed, and its process did not warn
    return {**outcome, "calls": calls, "seconds": round(time.monotonic() - began, 1)}


def main() -> int:
    """Runs the scenarios, or in a process of its own one of them. Returns the exit status."""
    parser = OneLineParser(prog=PROGRAM, description=__doc__)
    parser.add_argument("--calls", default=100_000, help="of the longest scenario (100000)")
    parser.add_argument("--out", type=Path, default=Path("faults.json"))
    parser.add_argument("--commit", help="commit of the kernels, where git cannot tell")
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--scenario", choices=SCENARIOS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        options.calls = whole("--calls", options.calls, 0, MOST_CALLS)
        if options.scenario:
            print(json.dumps(SCENARIOS[options.scenario](options.calls)))  # noqa: T201  # the parent reads it
            return 0
        return _run(options)
    except WavesimError as error:
        print(lines(str(error)), file=sys.stderr)  # noqa: T201  # as the other commands do
        return 2


def _run(options: argparse.Namespace) -> int:
    result: dict[str, Any] = {
        "device": query().name,
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": options.commit or current_commit(),
        "versions": versions(),
        "scenarios": {},
    }
    for name in options.only:
        share, limit_s = RUNS[name]
        outcome = found_in(name, round(options.calls * share), limit_s)
        result["scenarios"][name] = outcome
        result["faults"] = sum(entry["faults"] for entry in result["scenarios"].values())
        write_text(options.out, json.dumps(result, indent=1) + "\n")  # after each: nothing done is lost
        print(name, json.dumps(outcome), flush=True)  # noqa: T201  # what it is for
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(run_program(PROGRAM, main))
