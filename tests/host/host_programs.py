"""The programs of this folder: what they are built over, and how they are run."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from host_sources import build

from wavesim.codegen.cuda import generate
from wavesim.model.dependency import gemm_rows
from wavesim.model.device import load
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Grouped, RowMajor
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync

RACE = 66  # exit status where ThreadSanitizer reports
KNOWN = Path(__file__).with_name("known_races.txt")
PLANS = {
    "row": SemaphoreSync(RowSync(), order=RowMajor()),
    # Semaphores that one tile posts, and positions that blocks fetch.
    "tile": SemaphoreSync(TileSync(), order=Grouped(2)),
}


@dataclass(frozen=True)
class Result:
    """What a run printed last, and the races that were reported."""

    rounds: int
    operations: int
    wrong: int
    aborted: int
    races: tuple[str, ...]


def pipeline_header(plan: str) -> str:
    """Three products, one after the other, of 4, 3 and 2 columns of tiles and four rows."""
    widths = (64, 256, 192, 128)
    stages = [
        Stage(name, Gemm(name, 256, widths[i + 1], widths[i], 64, 64, 64))
        for i, name in enumerate(("first", "second", "third"))
    ]
    needs = [gemm_rows(stages[0], stages[1]), gemm_rows(stages[1], stages[2])]
    return generate(Pipeline("pipeline", stages, needs), PLANS[plan], load("h200"), "pipeline")


def build_pipeline(plan: str, folder: Path) -> Path:
    """The program of a plan's semaphores."""
    return build("semaphore_pipeline", folder, pipeline_header(plan))


def run(program: Path, operations: int, seed: int, dropped: str = "", *, timeout_s: float = 120) -> Result:
    """One run of so many operations. Where an order is dropped it ends at the first race.

    Where posts are left out ("... whole") waits give up, and the races of `KNOWN` are not reported.
    """
    options = f"exitcode={RACE}"
    if dropped.endswith(" whole"):
        options += f" suppressions={KNOWN} print_suppressions=0"
    elif dropped:
        options += " halt_on_error=1"
    command = [program, str(operations), str(seed), *([dropped] if dropped else [])]
    environment = {**os.environ, "TSAN_OPTIONS": options}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=timeout_s, check=False
    )
    races = tuple(line for line in done.stderr.splitlines() if line.startswith("SUMMARY: ThreadSanitizer"))
    if done.returncode not in (0, 1, RACE):
        raise RuntimeError(f"{program.name} {dropped}: exit {done.returncode}\n{done.stderr[:4000]}")
    words = done.stdout.split() or ["0"] * 4
    return Result(*map(int, words), races)
