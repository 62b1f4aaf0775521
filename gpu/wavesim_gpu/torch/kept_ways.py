"""What tuning has measured, kept in files for later processes of this machine.

Example: `kept_choices(shape)` is the way in graphs, the way outside them and cuBLASLt's algorithms that an
earlier process kept for the same GPU, software and kernels; None where there is no such file, or a damaged
one.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import torch

from wavesim.errors import OutputError, RecordingError
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text
from wavesim_gpu.driver import cubin_cache
from wavesim_gpu.driver.device import query, versions
from wavesim_gpu.driver.kernel_sources import source_hash
from wavesim_gpu.peers.choice import LinearShape, WayChoice, candidates_of
from wavesim_gpu.peers.products import GEMM

MOST_BYTES = 4096
FORMS = "graph", "eager"
Kept = tuple[WayChoice, WayChoice | None, tuple[str, str]]


def candidates(shape: LinearShape) -> list[WayChoice]:
    """All ways that the current GPU may take."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return candidates_of(shape, (properties.major, properties.minor), properties.multi_processor_count)


def kept_choices(shape: LinearShape) -> Kept | None:
    """Ways in graphs and outside them; cuBLASLt's algorithms for the whole GEMM and for half of its rows."""
    path = _path(key := _key(shape))
    if path is None or not path.exists():
        return None
    with suppress(RecordingError, ValueError, TypeError, LookupError):
        kept = json.loads(read_text(path, MOST_BYTES))
        graph, eager = (WayChoice(str(kept[name]["way"]), tuple(kept[name]["tile"])) for name in FORMS)
        is_known = kept["key"] == key and {graph, eager} <= set(candidates(shape))
        whole, half = map(str, kept["algorithms"])
        return (graph, eager, (whole, half)) if is_known else None
    return None


def keep_choices(shape: LinearShape, graph: WayChoice, eager: WayChoice, algorithms: tuple[str, str]) -> None:
    """For later processes. A full disk only costs the next process its tuning."""
    if (path := _path(key := _key(shape))) is not None:
        told = {name: asdict(choice) for name, choice in zip(FORMS, (graph, eager), strict=True)}
        with suppress(OutputError):
            write_text(path, json.dumps({"key": key, "algorithms": algorithms} | told) + "\n")


def _key(shape: LinearShape) -> str:
    software = sorted(versions().items())
    return f"{shape} on {query().name}, {software}, torch {torch.__version__}, {source_hash(GEMM)}"


def _path(key: str) -> Path | None:
    folder = cubin_cache.folder()
    return folder and folder / "two_gpus" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
