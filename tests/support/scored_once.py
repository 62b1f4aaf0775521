"""Every stored measurement, predicted once for all tests, test processes and runs of the same code.

Example: the first process to ask predicts, which takes a minute or two; one beside it waits, and reads the
file. The file's name is a hash of every byte of wavesim and of the versions below it, so that no result of
other code is ever read.
"""

import fcntl
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import wavesim
from wavesim.evaluation.scored_case import ScoredPrediction
from wavesim.predict.prediction import Measured

PACKAGE = Path(wavesim.__file__).parent
BELOW = ("numpy", "simpy")


def fingerprint(package: Path = PACKAGE) -> str:
    """A hash of names and contents of a package's files, and of the versions that it computes with."""
    digest = sha256(" ".join([sys.version, *(f"{name} {version(name)}" for name in BELOW)]).encode())
    for path in sorted(p for p in package.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        content = path.read_bytes()
        digest.update(f"\0{path.relative_to(package).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def scored_once(
    folder: Path, predict: Callable[[], list[ScoredPrediction]], package: Path = PACKAGE
) -> list[ScoredPrediction]:
    """The predictions of this very code: read from `folder`, else made by `predict` and stored there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = folder / f"{fingerprint(package)}.json"
        if not path.exists():
            document = json.dumps([asdict(one) for one in predict()])
            for old in folder.glob("*.json"):
                old.unlink()
            draft = path.with_suffix(".draft")
            draft.write_text(document)
            draft.replace(path)
        return [_prediction(entry) for entry in json.loads(path.read_text())]


def _prediction(entry: dict) -> ScoredPrediction:
    exact = {"measured": Measured(**entry["measured"]), "repeats": tuple(entry["repeats"])}
    return ScoredPrediction(**(entry | exact))


def idle_processes() -> int:
    """One for each core, or one where other test processes run beside this one."""
    return 1 if "PYTEST_XDIST_WORKER" in os.environ else os.cpu_count() or 1
