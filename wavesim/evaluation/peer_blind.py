"""Blind runs across GPUs: shapes written down, predictions registered with their hash.

Example: `python -m wavesim.evaluation.peer_blind --list second --out FOLDER` writes predicted.json and its
SHA-256; a measuring command then writes what it measured beside them, by shape and way. Predictions are
written once, and refused where they were changed afterwards.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from wavesim.errors import RecordingError
from wavesim.model.collective import Collective
from wavesim.model.device import default_device
from wavesim.model.host import Host
from wavesim.model.link import load_link
from wavesim.safe_io.documents import read_json, read_toml
from wavesim.safe_io.program import run_program
from wavesim.safe_io.workers import worker_pool
from wavesim.safe_io.writing import write_text
from wavesim.sim.peers.prediction import product_forecast

SHAPES = Path(__file__).with_name("peer_shapes.toml")
FILE, STAMP = "predicted.json", "predicted.sha256"
LISTS = ("first", "second")
WAYS = (
    *("one-shot", "two-shot", "chunks:2", "chunks:4"),
    *("stores", "stores:8", "stores:16", "exchange", "exchange:132", "blocks:16", "copies:8"),
)
CHUNK_ROWS = 64  # at least, of a library's chunks
ONE_SHOT_ROWS = 1024  # below, ours are measured in one shot too
MOST_BYTES = 1 << 20
GPUS = 2


@dataclass(frozen=True)
class PeerShape:
    """A GEMM (m, k) x (k, n) on every GPU, k its own part, and the all-reduce of its output."""

    m: int
    k: int
    n: int


@dataclass(frozen=True)
class RegisteredTime:
    """What a way was predicted to take for a shape, ns; `best` marks the one that the prediction picks."""

    m: int
    k: int
    n: int
    way: str
    time_ns: int
    is_best: bool


@cache
def shapes(name: str = LISTS[0]) -> tuple[PeerShape, ...]:
    """Of a list, in the order of the file."""
    return tuple(PeerShape(*row) for row in read_toml(SHAPES)[name])


def is_measured(m: int, way: str) -> bool:
    """Whether the measuring command takes a way of so many rows."""
    method, _, count = way.partition(":")
    if method == "chunks":
        return m >= CHUNK_ROWS * int(count)
    return m < ONE_SHOT_ROWS or not way.endswith(" one-shot")


def predicted(shape: PeerShape, ways: Sequence[str] = WAYS) -> list[RegisteredTime]:
    """Every way of a shape on two GPUs of the usual device."""
    device = default_device()
    host = Host(GPUS, load_link(device.name), {"gemm": Collective()})
    found = product_forecast((shape.m, shape.n, shape.k), host, device, ways)
    times = [one for one in found.times if is_measured(shape.m, one.word)]
    best = replace(found, times=times).best
    return [RegisteredTime(shape.m, shape.k, shape.n, one.word, one.time_ns, one is best) for one in times]


def register(folder: Path, found: Iterable[RegisteredTime], made_by: dict[str, str]) -> str:
    """Writes predictions and their SHA-256, which it returns. Raises `RecordingError` for a second time."""
    path = folder / FILE
    if path.exists():
        raise RecordingError(f"{path} is there already; predictions are written once. Use another folder")
    document = {"made_by": made_by, "predictions": [asdict(one) for one in found]}
    write_text(path, json.dumps(document, indent=0) + "\n")
    stamp = hashlib.sha256(path.read_bytes()).hexdigest()
    write_text(folder / STAMP, f"{stamp}  {FILE}\n")
    return stamp


def registered(folder: Path) -> list[RegisteredTime]:
    """What was registered. Raises `RecordingError` for a file that was changed, or is not there."""
    path = folder / FILE
    found = read_json(path, MOST_BYTES)
    stamp = hashlib.sha256(path.read_bytes()).hexdigest()
    if (folder / STAMP).read_text(encoding="utf-8").split()[:1] != [stamp]:
        raise RecordingError(f"{path}: its SHA-256 is not the one written beside it; it was changed")
    return [RegisteredTime(**one) for one in found["predictions"]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Registers predictions of all shapes."""
    parser = argparse.ArgumentParser(prog="python -m wavesim.evaluation.peer_blind", description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="an empty folder")
    parser.add_argument("--list", choices=LISTS, default=LISTS[0], help="of shapes (default first)")
    parser.add_argument("--commit", default="", help="of the code that predicts")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with worker_pool() as pool:
        found = [one for times in pool.map(predicted, shapes(options.list)) for one in times]
    stamp = register(options.out, found, {"commit": options.commit})
    sys.stdout.write(f"{len(found)} predictions of {len(shapes(options.list))} shapes, sha256 {stamp}\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("peer_blind", main))
