"""The paper's attention by five kernels: stream sync against semaphores, at the sizes of its Figure 6b.

Example: `python -m wavesim_gpu.bench.kinds.paper_attention --out gpu/results/paper_attention/DATE.json` on a
GPU. Every plan's result is checked against a float32 reference before and after its timed rounds, which take
turns in CUDA graphs. Kernels, tiles and order are the same under all plans of a case.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wavesim.bench.paper_attention_cases import PLANS, ChainCase, cases

from wavesim.errors import DescriptionError, DeviceError
from wavesim.plan.plan import Plan
from wavesim.safe_io.bounds import whole
from wavesim.safe_io.escaping import lines
from wavesim.safe_io.options import OneLineParser, integer, number
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import require_writable, write_text
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.functions import KernelSpec, compile_all
from wavesim_gpu.run.planned_kernels import wanted_kernels
from wavesim_gpu.run.runner import CupyRunner, Timing, current_commit

SECONDS, ROUNDS, MOST_ROUNDS = 50.0, 20, 1000


def measured(case: ChainCase, rounds: int) -> dict[str, Any]:
    """The case's times under its plans. Raises `WrongResultError` where a result is wrong."""
    runner = CupyRunner(backend=case.backend)
    timings = runner.time(runner.operands(case.pipeline()), case.plans, rounds=rounds)
    return {
        **asdict(case),
        "plans": [_times(*pair) for pair in zip(PLANS[case.backend], timings, strict=True)],
    }


def _wanted(case: ChainCase, plan: Plan) -> set[KernelSpec]:
    return wanted_kernels(case.pipeline(), plan, Build(), case.backend)


def _times(words: str, timing: Timing) -> dict[str, Any]:
    low, middle, high = statistics.quantiles(timing.rounds_ns, n=4)
    return {
        "plan": words,
        "median_us": middle / 1e3,
        "quartiles_us": [low / 1e3, high / 1e3],
        "errors": dict(timing.verdict.errors),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measures cases until the time is up, and writes the file after each; returns what it holds."""
    began = time.monotonic()
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": CupyRunner().device.name,
        "commit": options.commit or current_commit(),
        "rounds": options.rounds,
        "cases": [],
    }
    chosen = [case for case in cases() if options.only in case.text]
    compile_all(one for case in chosen for plan in case.plans for one in _wanted(case, plan))
    for case in chosen:
        if time.monotonic() - began > options.seconds:
            break
        result["cases"].append(measured(case, options.rounds))
        write_text(options.out, json.dumps(result) + "\n")
        took_s = time.monotonic() - began
        print(f"{took_s:5.1f} s  {line_of(result['cases'][-1], case)}", flush=True)  # noqa: T201  # progress
    return result


def line_of(found: dict[str, Any], case: ChainCase) -> str:
    """A case's times, the first in microseconds and the others as gains over it."""
    first, *others = found["plans"]
    gains = (f"{one['plan']} {gain(first, one):+.1f} %" for one in others)
    return f"{case.text}: {first['median_us']:.1f} us; {', '.join(gains)}"


def gain(first: dict[str, Any], other: dict[str, Any]) -> float:
    """1 - t / t of the first, in percent."""
    return 100 * (1 - other["median_us"] / first["median_us"])


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = OneLineParser(prog="python -m wavesim_gpu.bench.kinds.paper_attention", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the results' file (JSON)")
    parser.add_argument("--rounds", type=integer, default=ROUNDS, help=f"rounds of all plans ({ROUNDS})")
    parser.add_argument(
        "--seconds", type=number, default=SECONDS, help=f"after these no case is begun ({SECONDS:g})"
    )
    parser.add_argument("--only", default="", help="cases whose text contains this")
    parser.add_argument("--commit", help="commit of the kernels, where git cannot tell")
    options = parser.parse_args(words)
    whole("--rounds", options.rounds, 4, MOST_ROUNDS)
    return options


def main(words: Sequence[str] | None = None) -> int:
    """Measures and writes the file; status 2 for bad input or no GPU."""
    try:
        options = _options(sys.argv[1:] if words is None else words)
        require_writable(options.out)
        result = measure(options)
    except (DescriptionError, DeviceError) as error:
        print(lines(str(error)), file=sys.stderr)  # noqa: T201
        return 2
    print(f"{len(result['cases'])} cases in {options.out}")  # noqa: T201  # what it is for
    return 0


if __name__ == "__main__":
    sys.exit(run_program("paper_attention", main))
