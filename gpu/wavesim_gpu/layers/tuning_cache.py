"""What tuning found, on disk: for later processes, on the same GPU with the same software.

Example: after `mlp(..., tune=True)` on an H200 a file of that shape says that row semaphores in 128x256 tiles
took 244 us and cuBLASLt 251. Another driver, CUDA, GPU or other kernels make another key, and what was found
for the old one is no longer read. A file that is damaged is as good as none.
"""

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError, DeviceError, OutputError, RecordingError
from wavesim.model.device import Device
from wavesim.safe_io.bounds import MOST_NS, bounded_text, real, shown
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text
from wavesim_gpu.cublas.cublas_library import library_version
from wavesim_gpu.driver import cubin_cache
from wavesim_gpu.driver.device import versions
from wavesim_gpu.driver.kernel_sources import source_hash
from wavesim_gpu.kernels.backends import BACKENDS
from wavesim_gpu.layers.candidates import MlpCandidate
from wavesim_gpu.layers.choose import LIBRARY, Choice
from wavesim_gpu.layers.description import MlpShape

MOST_BYTES = 64 << 10
MOST_ALGORITHMS = 8
FOLDER = "mlp"
FORMAT = 1  # of the files: another number is not read


def read(shape: MlpShape, device: Device, software: Mapping[str, str]) -> Choice | None:
    """What was kept for a shape; None where nothing was, or nothing that makes sense."""
    path = _path(shape, device, software)
    if path is None:
        return None
    try:
        result = json.loads(read_text(path, MOST_BYTES))
        if result["key"] != _key(shape, device, software):
            return None
        word = result["way"]
        candidate = None if word == LIBRARY else MlpCandidate.read(word)
        times = [real(name, result[name], 1, MOST_NS) for name in ("measured_ns", "library_ns")]
        algorithms = _algorithms(result["algorithms"])
    except (RecordingError, DescriptionError, ValueError, TypeError, LookupError, RecursionError):
        return None
    label = str(candidate) if candidate else LIBRARY
    return Choice(label, times[0], times[1], "measured", candidate, algorithms=algorithms)


def is_any() -> bool:
    """Whether anything was ever kept: where nothing was, nobody need find out what it would depend on."""
    folder = cubin_cache.folder()
    return folder is not None and (folder / FOLDER).is_dir()


def keep(choice: Choice, shape: MlpShape, device: Device, software: Mapping[str, str]) -> None:
    """Keeps a measured choice; whoever reads at the same time sees the old file or the new one, whole."""
    path = _path(shape, device, software)
    if path is None:
        return
    result = {
        "key": _key(shape, device, software),
        "way": str(choice.candidate) if choice.candidate else LIBRARY,
        "measured_ns": choice.predicted_ns,
        "library_ns": choice.library_ns,
        "algorithms": dict(choice.algorithms),
    }
    # A full disk or a read-only home only costs the next process its tuning.
    with contextlib.suppress(OutputError):
        write_text(path, json.dumps(result, indent=1) + "\n")


def _algorithms(algorithms: Any) -> tuple[tuple[str, str], ...]:
    """CuBLASLt's own words, which it checks itself. Raises `DescriptionError`."""
    if not isinstance(algorithms, dict) or len(algorithms) > MOST_ALGORITHMS:
        raise DescriptionError(f"algorithms is {shown(algorithms)}; it must be a few words by their names")
    return tuple(
        (bounded_text("name", name), bounded_text(name, word)) for name, word in sorted(algorithms.items())
    )


def _key(shape: MlpShape, device: Device, software: Mapping[str, str]) -> dict[str, Any]:
    """All that a measured time depends on."""
    gpu = {"name": device.name, "sm_count": device.sm_count}
    return {"format": FORMAT, "gpu": gpu, "software": dict(software), "shape": asdict(shape)}


def _path(shape: MlpShape, device: Device, software: Mapping[str, str]) -> Path | None:
    """The file of a key, in the folder of compiled kernels; None for a user without a home."""
    folder = cubin_cache.folder()
    if folder is None:
        return None
    text = json.dumps(_key(shape, device, software), sort_keys=True)
    return folder / FOLDER / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


@cache
def used_software() -> Mapping[str, str]:
    """Versions and a hash of the kernels, by name. Needs a GPU; the first call in a process reads sources."""
    result = versions()
    used = {name: result[name] for name in ("driver", "cuda_driver", "cuda_runtime")}
    kernels = source_hash(*(backend.source for backend in BACKENDS.values()))
    return {**used, "cublaslt": _cublaslt(), "kernels": kernels}


def _cublaslt() -> str:
    """The version of the library that would compute, "" where it cannot be had."""
    try:
        return library_version()
    except DeviceError:
        return ""
