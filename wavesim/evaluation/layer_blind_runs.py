"""The files of a blind run of layers: predictions with their hashes, rounds, recordings of stream sync.

Example: costs.json was written, and costs.sha256 printed, before anything had run; trace.json after stream
sync was recorded and before any other plan ran; rounds.jsonl has what was measured then. A file that was
changed after its hash was written is refused.
"""

import hashlib
import json
import lzma
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from wavesim.errors import RecordingError
from wavesim.evaluation.layer_blind_cases import BlindCase
from wavesim.safe_io.writing import write_text
from wavesim.trace.trace import Trace
from wavesim.trace.trace_archive import load_trace

LayerBasis = Literal["costs", "trace", "fitted"]
FACTS, ROUNDS_FILE = "run.json", "rounds.jsonl"


@dataclass(frozen=True)
class LayerPrediction:
    """What a plan of a case was predicted to take, and to gain over stream sync in its order, in points."""

    case: str
    order: str
    plan: str
    time_ns: int
    points: float


def write_registered(
    folder: Path, basis: LayerBasis, found: Iterable[LayerPrediction], made_by: Mapping[str, str]
) -> str:
    """The predictions and their SHA-256, which it returns. Raises `RecordingError` where there are some."""
    path = folder / f"{basis}.json"
    if path.exists():
        raise RecordingError(f"{path} is there already; predictions are written once. Use another folder")
    document = {"made_by": dict(made_by), "predictions": [asdict(one) for one in found]}
    write_text(path, json.dumps(document, indent=0) + "\n")
    stamp = hashlib.sha256(path.read_bytes()).hexdigest()
    write_text(folder / f"{basis}.sha256", f"{stamp}  {basis}.json\n")
    return stamp


def copy_registered(source: Path, folder: Path, basis: LayerBasis) -> str:
    """Predictions that were made before, with their SHA-256, which it returns. Refuses changed ones."""
    LayerBlindRun(source).predictions(basis)
    for name in (f"{basis}.json", f"{basis}.sha256"):
        write_text(folder / name, (source / name).read_text(encoding="utf-8"))
    return (folder / f"{basis}.sha256").read_text(encoding="utf-8").split()[0]


def trace_name(case: BlindCase, order: str) -> str:
    """Of the recording of stream sync in an order of attention's tiles."""
    return f"{case.name} {order}".replace(" ", "__").replace(":", "-") + ".npz"


@dataclass(frozen=True)
class LayerBlindRun:
    """A run's folder. All that reads it raises `RecordingError`, naming the file."""

    folder: Path

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Device, commit, versions, failures."""
        found = json.loads((self.folder / FACTS).read_text(encoding="utf-8"))
        return dict(found)

    @property
    def serialises_bias(self) -> bool:
        """Whether its kernels did (`tile_costs_of`): those of runs that do not say."""
        return bool(self.facts.get("serialises_bias", True))

    @property
    def said_points(self) -> float:
        """Below which predicted gains were said to be nothing, as registered; 1 where it does not say."""
        return float(self.facts.get("said_points", 1.0))

    def predictions(self, basis: LayerBasis) -> dict[tuple[str, str, str], LayerPrediction]:
        """By case, order and plan."""
        path = self.folder / f"{basis}.json"
        data = path.read_bytes()
        stamp = (self.folder / f"{basis}.sha256").read_text(encoding="utf-8").split()[0]
        if hashlib.sha256(data).hexdigest() != stamp:
            raise RecordingError(f"{path}: its SHA-256 is not the one written beside it; it was changed")
        found = [LayerPrediction(**one) for one in json.loads(data)["predictions"]]
        return {(one.case, one.order, one.plan): one for one in found}

    @cached_property
    def rounds(self) -> dict[str, dict[tuple[str, str], list[int]]]:
        """Nanoseconds of each round by order and plan, by case."""
        found: dict[str, dict[tuple[str, str], list[int]]] = {}
        for line in self._rounds_text().splitlines():
            entry = json.loads(line)
            found[entry["case"]] = {
                (one["order"], one["plan"]): [int(ns) for ns in one["ns"]] for one in entry["rounds"]
            }
        return found

    @property
    def is_measured(self) -> bool:
        """Whether there are rounds."""
        return (self.folder / ROUNDS_FILE).is_file() or self._packed.is_file()

    @property
    def _packed(self) -> Path:
        return self.folder / f"{ROUNDS_FILE}.xz"

    def _rounds_text(self) -> str:
        if not self._packed.is_file():
            return (self.folder / ROUNDS_FILE).read_text(encoding="utf-8")
        return lzma.decompress(self._packed.read_bytes()).decode("utf-8")

    def stream(self, case: BlindCase, order: str) -> Trace:
        """The recording of stream sync."""
        return load_trace(self.folder / trace_name(case, order))
