"""What notebook 13 shows: a pair of Triton products, the lines that change in them, and the registered pairs.

Example: `changed_lines()` is the difference between the kernels of `gpu/examples/plain_triton.py` and
`synchronised_triton.py`; `registered_pairs()` is the table of ten pairs that were predicted first.
"""

import difflib
import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from wavesim.errors import DeviceError, RecordingError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import default_device
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.semaphores import semaphore_arrays
from wavesim.recordings.shipped import FOLDER
from wavesim.safe_io.annotated import typed
from wavesim.teaching.shown import Shown
from wavesim.work.gemm import Gemm

EXAMPLES = Path(__file__).parents[2] / "gpu" / "examples"
PLAIN, SYNCHRONISED = "plain_triton.py", "synchronised_triton.py"
REGISTERED = FOLDER / "triton_pairs.json"
TILE = (128, 256, 64)
BLOCK = Block(threads=256, registers=232, dynamic_shared_bytes=147_456)  # one on an SM
ASKED_TILE = (3, 5)
TITLES = ("pair", "stream sync, µs", "advice", "predicted, points", "interval", "measured, points")


@typed
def pair(m: int, k: int = 8192, n1: int = 4096, n2: int = 6144) -> Pipeline:
    """Two products, hidden (m, n1) = x (m, k) w1 and y (m, n2) = hidden w2, in tiles of 128 x 256."""
    up = Stage("up", Gemm("up", m, n1, k, *TILE, block=BLOCK, carveout="full"))
    down = Stage("down", Gemm("down", m, n2, n1, *TILE, block=BLOCK, carveout="full"))
    return Pipeline("triton-pair", [up, down], [Dependency(down[x, y], [up[:, y]])])


@dataclass(frozen=True)
class KernelDiff:
    """A unified difference; `count` is how many lines of the new text are new or changed."""

    lines: tuple[str, ...]

    @property
    def count(self) -> int:
        """New or changed lines."""
        return sum(line.startswith("+") and not line.startswith("+++") for line in self.lines)

    def __repr__(self) -> str:
        return "\n".join(self.lines)


@typed
def changed_lines(folder: Path = EXAMPLES) -> KernelDiff:
    """Of the two kernels. Raises `RecordingError` outside a checkout, where the examples are not."""
    plain, synchronised = (_kernels(folder / name) for name in (PLAIN, SYNCHRONISED))
    return KernelDiff(tuple(difflib.unified_diff(plain, synchronised, PLAIN, SYNCHRONISED, lineterm="", n=1)))


def _kernels(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RecordingError(
            f"{path}: {error.strerror}; the examples are in a checkout of wavesim"
        ) from error
    return text[text.index("@triton.jit") : text.index("def run(")].splitlines()


@typed
def time_plans(sizes: str = "1536,8192,4096,6144") -> str:
    """Times a pair (m, k, n1, n2) under every plan on this machine's GPU; says so where Triton is missing.

    Raises `DeviceError` with the last line of what went wrong.
    """
    if importlib.util.find_spec("triton") is None:
        return "not timed here: Triton is not installed"
    command = [sys.executable, str(EXAMPLES / "triton_variants.py"), sizes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own script
    if done.returncode:
        raise DeviceError(
            f"{EXAMPLES / 'triton_variants.py'}: {(done.stderr.splitlines() or ['failed'])[-1]}"
        )
    return done.stdout


@typed
def registered_pairs(path: Path = REGISTERED) -> Shown:
    """The pairs that were predicted before they were synchronised, and what they gained then."""
    if not path.exists():
        return Shown(TITLES, (("none is recorded yet", *[""] * (len(TITLES) - 1)),))
    found = json.loads(path.read_text(encoding="utf-8"))
    return Shown(
        TITLES,
        tuple(
            (
                row["name"],
                f"{row['stream_us']:.1f}",
                row["plan"] if row["is_advised"] else "leave it",
                f"{row['points']:+.1f}",
                f"{row['low']:+.1f} to {row['high']:+.1f}",
                f"{row['measured']:+.1f}",
            )
            for row in found["pairs"]
        ),
    )


def _awaited() -> dict[str, Any]:
    """The semaphore and the value that tile (3, 5) of `down` waits for, under row semaphores."""
    (array,) = semaphore_arrays(pair(1536), parse_plan("pdl+row"))
    column, row = ASKED_TILE
    return {"column": column, "row": row, "rows": array.grid.y, "columns": array.grid.x}


def _full_waves(m: int) -> dict[str, Any]:
    """Waves of both kernels on an H200; the last tile row may be part empty, its wave is not."""
    sm_count = default_device().sm_count
    blocks = [stage.grid.size for stage in pair(TILE[0] * ceil(m / TILE[0])).stages]
    waves = " and ".join(f"{count / sm_count:.2f}" for count in blocks)
    return {"waves": waves, "are_whole": all(count % sm_count == 0 for count in blocks)}


GRADERS = {"13.1": _awaited, "13.2": _full_waves}
