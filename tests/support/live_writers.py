"""Several writers of one results file, killed at random and started again, and the lines that were lost.

Example: `python tests/support/live_writers.py --appends 10000` keeps two writers alive until they
have reported 10,000 appends and 100 were killed, and then looks for every reported line in the file.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from wavesim.tuning.results_file import ResultsFile

WRITER = """
import itertools, sys
from pathlib import Path
from wavesim.tuning.results_file import ResultsFile
path, name = sys.argv[1:]
file = ResultsFile(Path(path))
for number in itertools.count():
    file.append(f"{name}-{number}", "row grouped:4", number)
    sys.stdout.write(f"{name}-{number}\\n")
    sys.stdout.flush()
"""


@dataclass(frozen=True)
class Outcome:
    """What came of it. `lost` were reported as written and are not in the file."""

    reported: int
    kills: int
    lost: int
    torn: int


def write_and_kill(folder: Path, appends: int, least_kills: int, writers: int = 2, seed: int = 0) -> Outcome:
    """Runs writers until as many appends are reported; each is killed after a random time and replaced."""
    chance, path, kills, born = random.Random(seed), folder / "results.jsonl", 0, 0
    logs: list[Path] = []
    alive: list[tuple[subprocess.Popen[bytes], float]] = []
    while kills < least_kills or sum(len(reported(log)) for log in logs) < appends:
        while len(alive) < writers:
            logs.append(folder / f"reported-{born}")
            alive.append((_start(path, logs[-1], f"w{born}"), time.monotonic() + chance.uniform(0.1, 0.4)))
            born += 1
        time.sleep(0.005)
        for one in [one for one in alive if time.monotonic() > one[1]]:
            one[0].kill()
            one[0].wait()
            alive.remove(one)
            kills += 1
    for process, _ in alive:
        process.kill()
        process.wait()
    return _counted(path, [line for log in logs for line in reported(log)], kills)


def reported(log: Path) -> list[str]:
    """Keys that a writer reported; its last line may be cut off."""
    return log.read_text().split("\n")[:-1] if log.exists() else []


def _start(path: Path, log: Path, name: str) -> "subprocess.Popen[bytes]":
    with log.open("wb") as file:
        return subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stdout=file)


def _counted(path: Path, keys: list[str], kills: int) -> Outcome:
    file = ResultsFile(path)
    file.close()
    lines = path.read_bytes().splitlines(keepends=True)
    torn = sum(not line.endswith(b"\n") or "key" not in json.loads(line) for line in lines)
    return Outcome(len(keys), kills, len(set(keys) - set(file.known)), torn)


def main() -> int:
    """Runs it in a temporary folder and prints what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = write_and_kill(Path(folder), options.appends, options.kills, options.writers, options.seed)
    sys.stdout.write(f"{outcome}\n")
    return 1 if outcome.lost or outcome.torn else 0


if __name__ == "__main__":
    sys.exit(main())
