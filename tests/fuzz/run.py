"""Fuzzes what comes from outside: `make fuzz`; one target for longer: `make fuzz TARGET=sqlite MINUTES=30`.

    python tests/fuzz/run.py all --minutes 10
    python tests/fuzz/run.py sqlite --file build/fuzz/sqlite-17     # one input again

Prints what became of the inputs, the most time and memory that one took, and how to repeat what went wrong;
the exit is 1 if anything did.
"""

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import GOOD, TARGETS, Tally, Worker, fuzz, target_of

SEEDS_A_DAY = 10**7


def report(name: str, tallies: list[Tally]) -> bool:
    """Prints a target's line and what went wrong. Returns whether nothing did."""
    counts = sum((tally.counts for tally in tallies), Counter())
    told = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
    seconds, most = max(t.most_seconds for t in tallies), max(t.most_mb for t in tallies)
    sys.stdout.write(
        f"{name}: {counts.total():,} inputs: {told}; at most {seconds:.1f} s of CPU, {most} MB\n"
    )
    wrong = [line for tally in tallies for line in tally.wrong]
    sys.stdout.write("".join(f"  WRONG: {line}\n" for line in wrong[:20]))
    sys.stdout.flush()
    return not wrong


def run_all(names: list[str], minutes: float, jobs: int, out: Path, seed: int) -> bool:
    """Shares the time among the targets; each uses all jobs if it is alone."""
    each = max(1, jobs // len(names))
    seconds = 60 * minutes * min(1.0, jobs / len(names))
    good = True
    with ThreadPoolExecutor(jobs) as pool:
        running = {
            name: [pool.submit(fuzz, name, seconds, out, seed + job, each) for job in range(each)]
            for name in names
        }
        for name, parts in running.items():
            good &= report(name, [part.result() for part in parts])
    return good


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", choices=["all", *TARGETS])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    today = int(time.time() // 86_400) * SEEDS_A_DAY
    parser.add_argument("--seed", type=int, default=today, help="the first; each day has its own")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="folder for what goes wrong")
    parser.add_argument("--file", type=Path, help="run this one input")
    options = parser.parse_args()
    if options.file:
        worker = Worker(options.target)
        result, seconds, most = worker.judged(options.file.read_bytes())
        worker.close()
        sys.stdout.write(f"{result}\n{seconds:.1f} s of CPU, {most} MB\n")
        return 0 if result in GOOD else 1
    options.out.mkdir(parents=True, exist_ok=True)
    names = list(TARGETS) if options.target == "all" else [options.target]
    for name in names:
        if target_of(name).missing:
            sys.stdout.write(f"{name}: left out, needs {', '.join(target_of(name).missing)}\n")
    able = [name for name in names if not target_of(name).missing]
    where = options.out.resolve()
    return 0 if not able or run_all(able, options.minutes, options.jobs, where, options.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
