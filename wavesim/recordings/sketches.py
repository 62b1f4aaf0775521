"""Traces of throw-away sketch kernels on an H200, made before this project's own: read as any other trace.

Example: `wmma_128x256_m1024_row` has a column entry for each of 576 blocks; the medians of its plans' times
are in `summary.csv`. Source: recordings/sketch/README.md.
"""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from wavesim.errors import RecordingError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.kernel import Block, MainLoop
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Grouped, Order, RowMajor
from wavesim.recordings.shipped import FOLDER
from wavesim.safe_io.reading import read_packed
from wavesim.trace.header import Header, StageInfo
from wavesim.trace.trace import Trace
from wavesim.work.gemm.reads import gemm_rows
from wavesim.workloads.mlps import gpt3_mlp

SKETCH = FOLDER / "sketch"
ORDERS: Mapping[str, Order] = {"row_major": RowMajor(), "grouped_8": Grouped(8)}
PLANS = ("stream", "row", "tile")
COLUMNS = ("stage", "linear_tile", "sm", "start_ns", "end_ns", "wait_ns")
TIMER_STEP_NS = 32
MAX_BYTES = 1 << 24
ONE_PER_SM, TWO_PER_SM = 200_000, 100_000  # bytes of shared memory that leave room for so many blocks
# wmma: all warps wait at a block barrier, between the producer's tiles; wgmma: a warp that loads by TMA.
MAIN_LOOPS: Mapping[str, MainLoop] = {
    "wmma": MainLoop(2, "block-barrier", is_persistent=False, tests_each_k_block=False),
    "wgmma": MainLoop(4, "producer-warp", is_persistent=False),
}


@dataclass(frozen=True)
class SketchCase:
    """One kernel, tile, size and order: its plans' traces and median times; run1 was not interleaved."""

    kernel: str
    tile: tuple[int, int]
    tokens: int
    run: str
    order_name: str
    time_us: Mapping[str, float]
    stream_sd_us: float
    folder: Path

    @property
    def group(self) -> str:
        """What decides its split: all orders and runs of a size together."""
        return f"sketch {self.kernel} {self.tile[0]}x{self.tile[1]} M={self.tokens}"

    @property
    def name(self) -> str:
        """What outliers are called in reports."""
        return f"{self.group} {self.order_name} {self.run}"

    @property
    def device(self) -> Device:
        """The H200 that they ran on."""
        return devices.load(json.loads((SKETCH / "device.json").read_text())["name"])

    @property
    def order(self) -> Order:
        """The tile order of both kernels."""
        return ORDERS[self.order_name]

    @property
    def blocks_per_sm(self) -> int:
        """Blocks that fit on an SM."""
        return 2 if (self.kernel, self.tile) == ("wmma", (128, 128)) else 1

    @cached_property
    def pipeline(self) -> Pipeline:
        """GPT-3's MLP, with blocks that fit on an SM as often as the sketch's did."""
        shared_bytes = TWO_PER_SM if self.blocks_per_sm == 2 else ONE_PER_SM
        block = Block(threads=256, registers=128, dynamic_shared_bytes=shared_bytes)
        first, second = (
            Stage(stage.name, replace(stage.gemm, block=block), main_loop=MAIN_LOOPS[self.kernel])
            for stage in gpt3_mlp(self.tokens, self.tile).stages
        )
        return Pipeline("gpt3-mlp", [first, second], [gemm_rows(first, second)])

    def stem(self, plan: str) -> str:
        """What a plan's trace is called."""
        order = f"_{self.order_name}_run2" if self.run == "run2" else ""
        tile = f"{self.tile[0]}x{self.tile[1]}"
        return f"{self.kernel}_{tile}_m{self.tokens}{order}_{plan}"

    def trace(self, plan: str) -> Trace:
        """The trace of a plan; its one round is the median time. Raises `RecordingError` for a bad file."""
        columns = dict(zip(COLUMNS, _blocks(self.folder)[self.stem(plan)], strict=True))
        stage = columns["stage"]
        tiles = np.zeros((stage.size, 2), dtype=np.int64)
        for index, info in enumerate(self.pipeline.stages):
            rows = stage == index
            tiles[rows] = np.array(self.order.sequence(info.grid))[columns["linear_tile"][rows]]
        zero = np.zeros_like(stage)
        start = columns["start_ns"]
        return Trace(
            self._header(plan), stage, tiles[:, 0], tiles[:, 1], zero, columns["sm"], zero, start, start,
            columns["wait_ns"], columns["end_ns"],
        )  # fmt: skip

    def _header(self, plan: str) -> Header:
        stages = tuple(
            StageInfo(stage.name, (stage.grid.x, stage.grid.y, 1), self.blocks_per_sm, 256, self.tile)
            for stage in self.pipeline.stages
        )
        return Header(
            source="measured",
            device={"name": "NVIDIA H200", "sm_count": self.device.sm_count},
            workload="gpt3-mlp",
            plan=plan,
            plan_label=f"sketch, {plan}",
            stages=stages,
            orders={stage.name: self.order.name for stage in stages},
            timer_step_ns=TIMER_STEP_NS,
            rounds_ns=(round(self.time_us[plan] * 1_000),),
        )


@lru_cache(maxsize=1)
def _blocks(folder: Path) -> dict[str, np.ndarray]:
    """The columns of every trace, by its name. Raises `RecordingError`."""
    path = folder / "blocks.npy.xz"
    with (folder / "blocks.csv").open(newline="") as file:
        counts = {row["trace"]: int(row["blocks"]) for row in csv.DictReader(file)}
    try:
        table = np.load(io.BytesIO(read_packed(path, MAX_BYTES)), allow_pickle=False).astype(np.int64)
    except ValueError as error:
        raise RecordingError(f"{path}: cannot be read as a table of integers: {error}") from None
    if table.shape != (len(COLUMNS), sum(counts.values())):
        raise RecordingError(
            f"{path}: {table.shape} integers; expected {len(COLUMNS)} columns of the "
            f"{sum(counts.values())} blocks that blocks.csv counts"
        )
    ends = np.cumsum(list(counts.values()))[:-1]
    return dict(zip(counts, np.split(table, ends, axis=1), strict=True))


def sketch_cases(folder: Path | None = None) -> list[SketchCase]:
    """Every sketch of which all three plans were traced, in the order of `summary.csv`."""
    folder = SKETCH if folder is None else folder
    with (folder / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    cases = [_case(row, folder) for row in rows if row["order"] in ORDERS]
    return [case for case in cases if all(case.stem(plan) in _blocks(folder) for plan in PLANS)]


def _case(row: Mapping[str, str], folder: Path) -> SketchCase:
    rows, columns = (int(side) for side in row["block_tile"].split("x"))
    times = {plan: float(row[f"{plan}_us"]) for plan in PLANS}
    return SketchCase(
        row["kernel"], (rows, columns), int(row["tokens"]), row["run"], row["order"], times,
        float(row["stream_sd_us"]), folder,
    )  # fmt: skip
