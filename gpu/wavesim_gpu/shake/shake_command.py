"""`python -m wavesim_gpu shake FILE.py`: the command and its report.

Example: `python -m wavesim_gpu shake pair.py --seconds 20` ends with status 1 and four lines where a delay
makes a result wrong; `--seed 17` runs that seed again.
"""

import argparse
import json
import os
import sys
from dataclasses import asdict
from typing import Any

from wavesim.safe_io.bounds import real, whole
from wavesim.safe_io.escaping import lines
from wavesim.safe_io.options import integer, number
from wavesim_gpu.shake.shaking import ADVICE, Fault, Shaken, UnendedError, load_program, shake

HELP = "run a program with random delays at its waits, posts and stores, and compare its results"
ABOUT = f"FILE.py is your own code and is run with all your rights. A file is right when {ADVICE}."
MOST_SECONDS, MOST_SEED, MOST_SHOWN = 86_400, 2**31, 4


def add_to(commands: Any) -> None:
    """Adds the command to a program's, which `argparse` gives no public type."""
    parser = commands.add_parser("shake", help=HELP, description=ABOUT)
    parser.set_defaults(run=run)
    parser.add_argument(
        "program", metavar="FILE.py", help="a try-pair file, or one with `run()` and `outputs`"
    )
    parser.add_argument(
        "--seconds", type=number, default=60.0, help="seconds to look for a wrong result (60)"
    )
    parser.add_argument("--seed", type=integer, help="only this seed, five times")
    parser.add_argument("--limit-s", type=number, default=10.0, help="seconds that a run may take (10)")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def run(options: argparse.Namespace) -> int:
    """Shakes the program and prints what came out; the status is 1 where a result is wrong."""
    real("--seconds", options.seconds, 1, MOST_SECONDS)
    real("--limit-s", options.limit_s, 0.1, MOST_SECONDS)
    seed = 1 if options.seed is None else whole("--seed", options.seed, 1, MOST_SEED)
    try:
        shaken = shake(
            load_program(options.program),
            options.seconds,
            limit_s=options.limit_s,
            first_seed=seed,
            only=options.seed is not None,
        )
    except UnendedError as error:
        # Nothing that touches the device may run from here on: it would wait for the kernel that hangs.
        sys.stderr.write(f"{lines(str(error))}\n")
        sys.stderr.flush()
        os._exit(1)
    print(json.dumps(report(shaken)) if options.json else shaken_text(shaken))  # noqa: T201  # its purpose
    return 1 if shaken.fault else 0


def report(shaken: Shaken) -> dict[str, Any]:
    """Everything as plain values."""
    told = asdict(shaken)
    if shaken.fault is not None:
        told["fault"]["disturbance"]["sites"] = sorted(shaken.fault.disturbance.sites)
        told["fault"]["sites"] = [str(site) for site in shaken.fault.sites]
    return told


def shaken_text(shaken: Shaken) -> str:
    """The report for a terminal."""
    many = f"{shaken.seeds:,} seeds in {shaken.seconds:.1f} s at {shaken.site_count:,} places"
    if shaken.fault is None:
        said = [f"no wrong result: {many}", "a fault that needs other data or sizes can still be there"]
    else:
        said = [*_fault_lines(shaken.fault, shaken.place), many]
    return lines("\n".join([*said, *shaken.notes]))


def _fault_lines(fault: Fault, place: str) -> list[str]:
    seed = fault.disturbance.seed
    if not fault.is_delayed:
        return [f"WRONG without any delay, {fault.run}: {fault.wrong}", _often(fault)]
    sites = [str(site) for site in fault.sites[:MOST_SHOWN]]
    more = len(fault.sites) - MOST_SHOWN
    return [
        f"WRONG under seed {seed}, {fault.run}: {fault.wrong}",
        "what shows it, all else undisturbed:",
        *(f"  {site}" for site in sites),
        *([f"  and {more} more"] if more > 0 else []),
        f"{_often(fault)}; again: python -m wavesim_gpu shake {place} --seed {seed}",
    ]


def _often(fault: Fault) -> str:
    return f"wrong in {fault.failed} of {fault.replays} runs more"
