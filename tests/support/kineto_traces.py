"""Profiler traces for tests: the four real ones, and small made ones in Kineto's form."""

import functools
import gzip
import json
import lzma
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wavesim.profile.advice import Advice, advise
from wavesim.profile.profile import Profile
from wavesim.profile.profile_file import EXAMPLE, load_profile

FOLDER = Path(__file__).parents[1] / "data" / "kineto"
PACKED = {
    "b200": "b200_vllm_moe_eager.json",
    "a100": "a100_resnet_ddp_train.json",
    "v100": "v100_resnet50_kineto_sample.json",
}
UNPACKED = tempfile.TemporaryDirectory(prefix="wavesim-kineto-")  # ends with the process
H100 = {
    "id": 0,
    "name": "NVIDIA H100 80GB HBM3",
    "computeMajor": 9,
    "computeMinor": 0,
    "numSms": 132,
    "warpSize": 32,
    "sharedMemPerMultiprocessor": 233472,
}


class RealTraces(Mapping[str, Path]):
    """Paths of the real traces by name; those that are packed are unpacked when they are first asked for."""

    def __getitem__(self, name: str) -> Path:
        return EXAMPLE if name == "h100" else _unpacked(PACKED[name])

    def __iter__(self):
        return iter(["h100", *PACKED])

    def __len__(self) -> int:
        return 1 + len(PACKED)


REAL = RealTraces()


@functools.cache
def _unpacked(name: str) -> Path:
    path = Path(UNPACKED.name) / f"{name}.gz"
    path.write_bytes(gzip.compress(lzma.decompress((FOLDER / f"{name}.xz").read_bytes()), compresslevel=1))
    return path


@functools.cache
def profile_of(path: Path) -> Profile:
    """A profile that several tests read, imported once."""
    return load_profile(path)


@functools.cache
def advice_of(path: Path) -> Advice:
    """What is said of it, computed once."""
    return advise(profile_of(path))


def raw_trace(path: Path) -> dict[str, Any]:
    """The whole trace as the json module reads it."""
    trace: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return trace


def raw_kernels(path: Path) -> list[dict[str, Any]]:
    """Its kernel events."""
    return [event for event in raw_trace(path)["traceEvents"] if str(event.get("cat")).lower() == "kernel"]


def kernel(name: str, ts: float, dur: float, **arguments: Any) -> dict[str, Any]:
    """A kernel event: 198 blocks of 128 threads unless told otherwise; None leaves an argument out."""
    said = {
        "device": 0,
        "stream": 7,
        "grid": [198, 1, 1],
        "block": [128, 1, 1],
        "registers per thread": 255,
        "shared memory": 100_000,
    } | {key.replace("_", " "): value for key, value in arguments.items()}
    said = {key: value for key, value in said.items() if value is not None}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": said}


def write_trace(folder: Path, events: list[Any], devices: Any = (H100,), **more: Any) -> Path:
    """A trace file of these events."""
    path = folder / "trace.json"
    document = {"deviceProperties": list(devices), "traceEvents": events, **more}
    if not devices:
        del document["deviceProperties"]
    path.write_text(json.dumps(document))
    return path
