"""The published measurements of cuSync on V100 and A100, one object per measured plan.

Example: V100, GPT-3, 1024 tokens, row semaphores: 1985.65 us measured; the prediction knows only the
stream-sync run's 1446.18 and 1174.7 us, tiles of 256 x 256 and no split-K.

Convolutions have no times of their kernels, and their baseline synchronises with the host after each: that
time is subtracted, and each kernel gets an equal part of the rest. Source: recordings/published/README.md.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import hypot

from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import RowMajor, SlicesLast
from wavesim.plan.plan import Plan, SemaphoreSync
from wavesim.plan.policy import Policy, RowSync, TileSync
from wavesim.recordings.published_kernels import KernelChoice, conv_chain, llama_tile_policy, mlp_pair
from wavesim.recordings.shipped import FOLDER

PUBLISHED = FOLDER / "published"
POLICIES = ("rowsync", "tilesync")
CONVOLUTIONS = {"conv": 2, "chain": 4}  # how many follow each other
KERNEL_FIELDS = ("tile", "stages", "split_k")
Row = dict[str, str]


@dataclass(frozen=True)
class PublishedRun:
    """Kernels under one policy, and their stream-sync run; `kernel_us` is None for convolutions.

    `is_same_configuration`: tiles, stages and split-K are those of the `baseline`, the kernels of the
    stream-sync run; `has_other_split`: only the number of split-K slices differs. `beats_work_conservation`:
    faster than a fully used GPU at the baseline's tile rate, which no scheduler can be.
    """

    case: str
    policy: str
    device: Device
    pipeline: Pipeline
    plan: Plan
    size: int
    time_us: float
    stdev_us: float
    stream_us: float
    stream_stdev_us: float
    baseline: Pipeline
    kernel_us: tuple[float, float] | None
    is_same_configuration: bool
    has_other_split: bool
    beats_work_conservation: bool

    @property
    def has_unequal_tiles(self) -> bool:
        """Whether one kernel's tiles are higher than the other's."""
        tiles = [stage.work.output_tile for stage in self.pipeline.stages]
        return len({tile[0] for tile in tiles if tile}) > 1

    @property
    def improvement_points(self) -> float:
        """Measured improvement over stream sync."""
        return 100.0 * (1.0 - self.time_us / self.stream_us)

    @property
    def noise_points(self) -> float:
        """Half-width between the quartiles of the improvement, were both times normally distributed."""
        relative = hypot(self.stdev_us / self.time_us, self.stream_stdev_us / self.stream_us)
        return 67.4 * relative * self.time_us / self.stream_us

    @property
    def kernel_ns(self) -> dict[str, int]:
        """What each stage took under stream sync; for convolutions an equal part of all, host included."""
        names = [stage.name for stage in self.pipeline.stages]
        times = self.kernel_us or [self.stream_us / len(names)] * len(names)
        return {name: round(time * 1_000) for name, time in zip(names, times, strict=True)}


def published_runs(operation: str) -> list[PublishedRun]:
    """Every row and tile measurement of "mlp", "conv" or "chain", in the file's order."""
    violators = {tuple(row.values()) for row in _rows("work_conservation_violators.csv")}
    return [
        _run(row, stream, violators)
        for row, stream in _with_stream()
        if row["op"] == operation and row["policy"] in POLICIES
    ]


def _rows(name: str) -> list[Row]:
    with (PUBLISHED / name).open(newline="") as file:
        return list(csv.DictReader(file))


def _with_stream() -> Iterator[tuple[Row, Row]]:
    """Each row of a policy with its baseline, the last one before it."""
    stream: Row = {}
    for row in _rows("measurements.csv"):
        if row["policy"] == "baseline":
            stream = row
        elif row["policy"] in POLICIES:
            yield row, stream


@cache
def _catalogue_names() -> dict[str, str]:
    """The catalogue's name of each device that the rows name."""
    names: dict[str, str] = json.loads((PUBLISHED / "devices.json").read_text())
    return names


def _run(row: Row, stream: Row, violators: set[tuple[str, ...]]) -> PublishedRun:
    is_mlp, size = row["op"] == "mlp", int(row["M"])
    pair, baseline = _pipeline(row, row), _pipeline(row, stream)
    device = devices.load(_catalogue_names()[row["device"]])
    plan = SemaphoreSync(
        _policy(row),
        order=SlicesLast(RowMajor()),
        wait_kernel="AvoidWaitKernel" not in row["opts"],
        prefetch=_prefetch(pair, device) if "ReorderTileLoads" in row["opts"] else 0.0,
    )
    return PublishedRun(
        case=f"{row['device']} {row['model']} "
        + (f"M={size}" if is_mlp else f"C={row['channels']} B={size}"),
        policy=row["policy"].removesuffix("sync"),
        device=device,
        pipeline=pair,
        plan=plan,
        size=size,
        time_us=float(row["time_us"]),
        stdev_us=float(row["stdev_us"] or 0),
        stream_us=float(stream["time_us"]),
        stream_stdev_us=float(stream["stdev_us"] or 0),
        baseline=baseline,
        kernel_us=(float(row["gemm1_us"]), float(row["gemm2_us"])) if is_mlp else None,
        is_same_configuration=(changed := _changed(row, stream)) == set(),
        has_other_split=changed != set() and all(field.startswith("split_k") for field in changed),
        beats_work_conservation=(row["device"], row["model"], row["M"], row["policy"]) in violators,
    )


def _pipeline(row: Row, configuration: Row) -> Pipeline:
    """The row's kernels in the tiles and splits of a row that may be another, its baseline."""
    first, second = (_kernel(configuration, number) for number in "12")
    size, operation = int(row["M"]), row["op"]
    if operation == "mlp":
        return mlp_pair(row["model"], size, first, second)
    # A chain's convolutions are alike; only the first two have columns.
    kernels = (first, *[second] * (CONVOLUTIONS[operation] - 1))
    pixels = size * int(row["P"]) * int(row["Q"])
    is_tile = row["policy"] == "tilesync"
    return conv_chain(row["model"], int(row["channels"]), pixels, kernels, is_tile=is_tile)


def _prefetch(pair: Pipeline, device: Device) -> float:
    """What the second kernel loads before it waits; nothing is known of convolutions."""
    return pair.stages[-1].work.prefetch_share(device)


def _changed(row: Row, stream: Row) -> set[str]:
    """Columns of the kernels' configuration in which a row differs from its baseline."""
    return {field for field in row if field.startswith(KERNEL_FIELDS) and row[field] != stream[field]}


def _kernel(row: Row, number: str) -> KernelChoice:
    tile_m, tile_n, tile_k, warp_m, warp_n, warp_k = (
        int(row[f"{kind}{number}_{axis}"]) for kind in ("tile", "warp") for axis in "mnk"
    )
    stages, split_k = int(row[f"stages{number}"]), int(row[f"split_k{number}"])
    return KernelChoice(tile_m, tile_n, tile_k, warp_m, warp_n, warp_k, stages, split_k)


def _policy(row: Row) -> Policy:
    if row["policy"] == "rowsync":
        return RowSync()
    return llama_tile_policy() if row["model"] == "llama" else TileSync()
