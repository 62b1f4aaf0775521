"""The recordings that ship with wavesim: per-tile traces of our own kernels on real GPUs.

Example: `gpt3-mlp_128x256_m1024_grouped8_row.npz` of the folder h200 is the GPT-3 MLP at 1024 tokens
with 128 x 256 tiles, grouped order and row semaphores, as one H200 ran it. The traces of one size,
tile and order, a `RecordedCase`, were measured interleaved in one process, and only those are compared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from wavesim.errors import RecordingError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.safe_io.annotated import typed
from wavesim.trace.trace import Trace
from wavesim.trace.trace_archive import load_trace, trace_paths
from wavesim.workloads.catalogue import parse_tile, workload

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class RecordedCase:
    """One size, tile and order on one device: the plans measured interleaved, by plan name."""

    device: str
    workload: str
    tile: str
    tokens: int
    order: str
    paths: Mapping[str, Path]

    @property
    def name(self) -> str:
        """What outliers are called in reports."""
        return f"{self.workload} {self.tile} M={self.tokens} {self.order}"

    def trace(self, plan: str) -> Trace:
        """The recording of a plan. Raises `RecordingError` if the case lacks it or the file is bad."""
        if plan not in self.paths:
            raise RecordingError(
                f"{self.name}: no recording of plan {plan!r}; there are {sorted(self.paths)}"
            )
        path = self.paths[plan]
        return _load(path, path.stat().st_mtime_ns if path.exists() else 0)


@lru_cache(maxsize=512)
def _load(path: Path, _changed_ns: int) -> Trace:
    """Reads a file once for as long as it stays the same; what is packed stays."""
    return load_trace(path)


def file_name(workload: str, tile: str, tokens: int, order: str, plan: str) -> str:
    """The file name that a recording of these goes by."""
    return f"{workload}_{tile}_m{tokens}_{order.replace(':', '')}_{plan}.npz"


def cases(folder: Path | None = None) -> list[RecordedCase]:
    """All shipped cases, or those of another folder of the same form, sorted."""
    result: dict[tuple[str, str, str, int, str], dict[str, Path]] = {}
    for path, key, plan in _files(FOLDER if folder is None else folder):
        result.setdefault(key, {})[plan] = path
    return [RecordedCase(*key, paths) for key, paths in sorted(result.items())]


def _files(folder: Path) -> Iterator[tuple[Path, tuple[str, str, str, int, str], str]]:
    for path in sorted(path for inner in folder.glob("*/") for path in trace_paths(inner)):
        parts = path.stem.split("_")
        if len(parts) != 5 or not parts[2][1:].isdigit():
            raise RecordingError(f"{path}: name is not WORKLOAD_TILE_mTOKENS_ORDER_PLAN.npz")
        workload, tile, tokens, order, plan = parts
        if order.startswith("grouped"):
            order = f"grouped:{order.removeprefix('grouped')}"
        yield path, (path.parent.name, workload, tile, int(tokens[1:]), order), plan


@lru_cache(maxsize=1)
def _shipped() -> tuple[RecordedCase, ...]:
    return tuple(cases())


@typed
def find_case(pipeline: Pipeline, device: Device, order: str) -> RecordedCase | None:
    """The shipped case of just these kernels on just this device under a tile order, or None."""
    gemms = [stage.gemm for stage in pipeline.stages if stage.work.is_product]
    if len(gemms) != len(pipeline.stages) or any(gemm.split_k > 1 or gemm.dtype != "fp16" for gemm in gemms):
        return None
    tiles = {f"{gemm.tile_m}x{gemm.tile_n}" for gemm in gemms}
    for case in _shipped():
        is_same = (case.device, case.workload, case.order) == (device.name, pipeline.name, order)
        if is_same and tiles == {case.tile} and case.tokens == gemms[0].m:
            recorded = workload(case.workload, case.tokens, parse_tile(case.tile))
            is_whole = device.sm_count == case.trace("stream").header.sm_count
            return case if is_whole and recorded == pipeline else None
    return None
