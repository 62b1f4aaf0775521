"""A user's own kernels, a pair, a chain or a fork, from a TOML file.

Example:
    device = "NAME"           # as `wavesim devices` lists them, or a device file of one's own
    [[stages]]
    name = "gemm1"
    m = 1024                  # a GEMM; or `grid`, for any other kernel
    n = 6144
    k = 12288
    tile = [128, 256, 64]     # rows, columns, k-block
    threads = 256
    registers = 232
    shared_bytes = 98304
    kernel_us = 320.0         # the kernel alone, measured
    wait = "producer-warp"    # what is known of how it waits; what is not widens the interval
    [[dependencies]]
    consumer = "gemm2"
    needs = ["gemm1[:, y]"]   # every column of the consumer's row

All fields are in `description_fields`. The file is data: index expressions are parsed, never evaluated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from wavesim.errors import DescriptionError, RecordingError
from wavesim.model import device as devices
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import Device
from wavesim.model.kernel import WAIT_PLACES, Block, Carveout, Grid, Kernel, MainLoop, Work
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import LEAST_WEIGHT, MOST_WEIGHT, Stage
from wavesim.model.tile_set_text import parse_tile_set
from wavesim.safe_io.documents import read_toml
from wavesim.work.collective.host import Host, host_of
from wavesim.work.description.convolution import convolution_of, tiles_of_name
from wavesim.work.description.fields import DEPENDENCIES, PLANS, STAGES, TOP
from wavesim.work.description.layers import EPILOGUES, epilogue_of, key_weights, layer_work_of
from wavesim.work.description.table import DescriptionTable
from wavesim.work.gemm import ACTIVATIONS, Gemm

# A kernel's: a quarter of an hour, so that sums over all blocks stay far below 64 bits of nanoseconds.
MAX_KERNEL_US, MAX_WORK = 1e9, 1e18
ELEMENT_BYTES = {"fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "tf32": 4, "fp32": 4, "fp64": 8}
USUAL_TILE_K = 32  # columns of a k-block, as of `Gemm`
OUTPUT_BYTES = 2  # at least: products of narrower operands are written as 16 bits
OURS = ("fp16", "bf16")  # of `Gemm`; the catalogue's peak rates are theirs
SIZES = ("m", "n", "k")


@dataclass(frozen=True)
class Description:
    """What the file says: the pipeline, its device, and each stage's measured time in nanoseconds, or none.

    `syncs` and `order` are the words of `[plans]`, empty where it does not say; `device_file` is the file
    that describes the device, where it is not the catalogue's. `host`: the GPUs that run the pipeline, where
    there are several.
    """

    pipeline: Pipeline
    device: Device
    kernel_ns: Mapping[str, int] = field(default_factory=dict)
    syncs: tuple[str, ...] = ()
    order: str = ""
    device_file: Path | None = None
    host: Host | None = None


def load_description(path: str | Path, *, may_have_host: bool = False) -> Description:
    """Reads a TOML file; one of several GPUs only for a caller that knows what to do with them.

    Raises `RecordingError` naming file and field, or `DescriptionError`.
    """
    path = Path(path)
    top = DescriptionTable.of(path, "", read_toml(path), TOP)
    device, device_file = _device(top)
    stages: dict[str, Stage] = {}
    times: dict[str, int | None] = {}
    for position, entry in enumerate(top.required("stages", list)):
        table = DescriptionTable.of(path, f"stages[{position}].", entry, STAGES)
        stage, times[stage.name] = stage_of(table, device), time_ns_of(table)
        if stage.name in stages:
            raise table.wrong("name", f"two stages are named {stage.name}; give each its own name")
        stages[stage.name] = stage
    dependencies = [
        _dependency(DescriptionTable.of(path, f"dependencies[{position}].", entry, DEPENDENCIES), stages)
        for position, entry in enumerate(top.required("dependencies", list))
    ]
    syncs, order = _plans(top)
    pipeline = Pipeline(path.stem, list(stages.values()), dependencies)
    host = host_of(top, stages, device.name)
    if host is not None and not may_have_host:
        raise RecordingError(
            f"{path}: field 'gpus' describes {host.gpus} GPUs, and here one is meant; leave gpus and "
            "collectives "
            "out, or use wavesim simulate, compare or predict"
        )
    return Description(pipeline, device, _all_or_none(times, path), syncs, order, device_file, host)


def _device(top: DescriptionTable) -> tuple[Device, Path | None]:
    """The device, and the file that describes it: the user's own, or this one."""
    if isinstance(top.values.get("device"), dict):
        if not devices.is_user_file(str(top.path)):
            raise RecordingError(
                f"{top.field('device')} is a table, and a device is known by its file; let this one's name "
                "end in .toml"
            )
        return devices.load(str(top.path)), top.path
    name = str(top.required("device", str))
    if not devices.is_user_file(name):
        try:
            return devices.load(name), None
        except DescriptionError as error:
            raise DescriptionError(f"{top.field('device')}: {error}") from None
    file = top.path.parent / name
    return devices.load(str(file)), file


def _all_or_none(times: Mapping[str, int | None], path: Path) -> dict[str, int]:
    """Every stage's time. Raises `RecordingError` where some have one and some have not."""
    known = {name: time for name, time in times.items() if time is not None}
    for position, name in enumerate(times):
        if known and name not in known:
            table = DescriptionTable(path, f"stages[{position}].", {})
            raise table.missing("kernel_us", f", as stage {next(iter(known))} has one")
    return known


def time_ns_of(table: DescriptionTable) -> int | None:
    """A stage's measured time in nanoseconds, if it is said. Raises `RecordingError`."""
    time_us = table.number("kernel_us", 0.001, MAX_KERNEL_US)
    return None if time_us is None else round(time_us * 1000)


def stage_of(table: DescriptionTable, device: Device) -> Stage:
    """The stage that a table describes, for a device.

    Raises `RecordingError` or `DescriptionError` that say in which stage of which file.
    """
    try:
        return _stage(table, device)
    except DescriptionError as error:
        raise DescriptionError(f"{table.path}: {table.where.rstrip('.')}: {error}") from None


def _stage(table: DescriptionTable, device: Device) -> Stage:
    name = table.text("name")
    block = Block(
        table.required("threads", int),
        table.required("registers", int),
        dynamic_shared_bytes=table.required("shared_bytes", int),
    )
    loop = MainLoop(
        table.optional("pipeline_depth", int),
        table.word("wait", WAIT_PLACES),
        table.optional("persistent", bool),
        tests_each_k_block=table.optional("tests_each_k_block", bool),
    )
    work = layer_work_of(name, block, table, device) or _work(name, block, table)
    weights = table.numbers("tile_weights", LEAST_WEIGHT, MOST_WEIGHT) or key_weights(work)
    return Stage(name, work, main_loop=loop, tile_weights=weights)


def _work(name: str, block: Block, table: DescriptionTable) -> Kernel | Work:
    """A `Gemm` where it is said to be one of 16-bit elements in known tiles, else a bare kernel."""
    grid = table.integers("grid", 1, 3, "[columns, rows] or [columns, rows, splits]")
    split_k = table.optional("split_k", int)
    carveout: Carveout = table.word("carveout", get_args(Carveout)) or "full"
    if table.has("convolution"):
        conv = convolution_of(name, block, carveout, table, _split(grid, split_k))
        if grid is not None and _grid(grid, split_k, table) != conv.grid:
            raise table.wrong(
                "grid", f"convolution and tile make it {conv.grid}; correct one, or leave it out"
            )
        return conv
    if not table.has(*SIZES):
        for field_name in ("tile", "element", "activation", *EPILOGUES):
            if table.has(field_name):
                raise table.wrong(
                    field_name,
                    "it says nothing without m, n and k, or convolution; add them, or leave it out",
                )
        blocks = _grid(grid, split_k, table)
        return Kernel(name, blocks, block, *_given_work(table, blocks), carveout=carveout)
    gemm = _gemm(name, block, carveout, table, _split(grid, split_k))
    if table.has("tile"):
        blocks = gemm.grid
        if grid is not None and _grid(grid, split_k, table) != blocks:
            raise table.wrong("grid", f"m, n, k and tile make it {blocks}; correct one, or leave grid out")
    else:
        blocks = _grid(grid, split_k, table)
    element = table.values.get("element", "fp16")
    if element in OURS and table.has("tile"):
        return gemm
    flops = gemm.flops if element in OURS else 0  # no peak rate is known of other elements
    size = ELEMENT_BYTES[element]
    operands, outputs = gemm.m * gemm.k + gemm.k * gemm.n, gemm.m * gemm.output_columns
    outputs *= 2 if gemm.has_residual else 1
    moved = size * operands + max(size, OUTPUT_BYTES) * outputs
    return Kernel(name, blocks, block, flops // blocks.size, moved // blocks.size, carveout=carveout)


def _gemm(name: str, block: Block, carveout: Carveout, table: DescriptionTable, split_k: int) -> Gemm:
    """The product that m, n and k describe, in the smallest tiles where none are given."""
    for other in ("flops", "bytes"):
        if table.has(other):
            raise table.wrong(other, "m, n and k say it; leave it out")
    sizes = {}
    for size in SIZES:
        if not table.has(size):
            raise table.missing(size, "; m, n and k are given together")
        sizes[size] = table.required(size, int)
    tile = table.integers("tile", 2, 3, "[rows, columns] or [rows, columns, k-block]")
    tile_m, tile_n, tile_k = [*(tile or [2, 2]), USUAL_TILE_K][:3]
    element = table.word("element", tuple(ELEMENT_BYTES))
    return Gemm(
        name,
        sizes["m"],
        sizes["n"],
        sizes["k"],
        tile_m,
        tile_n,
        tile_k,
        split_k=split_k,
        dtype=element if element in OURS else "fp16",
        activation=table.word("activation", ACTIVATIONS),
        block=block,
        carveout=carveout,
        **epilogue_of(table, sizes["m"]),
    )


def _split(grid: list[int] | None, split_k: int | None) -> int:
    if split_k is not None:
        return split_k
    return grid[2] if grid is not None and len(grid) == 3 else 1


def _grid(grid: list[int] | None, split_k: int | None, table: DescriptionTable) -> Grid:
    """The grid that is given, with its splits of K said in either way."""
    if grid is None:
        raise table.missing("grid", ", or m, n, k and tile")
    if split_k is None:
        return Grid(*grid)
    if len(grid) == 3 and grid[2] != split_k:
        raise table.wrong("split_k", f"grid has {grid[2]} splits; correct one, or leave split_k out")
    columns, rows = [*grid, 1][:2]
    return Grid(columns, rows, split_k)


def _given_work(table: DescriptionTable, blocks: Grid) -> tuple[int, int]:
    """(operations, bytes) of a block; 0 where they are not given."""
    flops, moved = (table.number(name, 0, MAX_WORK) or 0 for name in ("flops", "bytes"))
    return round(flops / blocks.size), round(moved / blocks.size)


def _dependency(table: DescriptionTable, stages: Mapping[str, Stage]) -> Dependency:
    consumer = table.stage("consumer", stages)
    try:
        needs = [
            tiles_of_name(place, text, stages, consumer) or parse_tile_set(text, stages)
            for place, text in enumerate(table.required("needs", list))
        ]
    except DescriptionError as error:
        raise RecordingError(f"{table.field('needs')} {error}") from None
    return Dependency(consumer[x, y], needs)


def _plans(top: DescriptionTable) -> tuple[tuple[str, ...], str]:
    """The words of `[plans]`, as they stand: what they mean is for whoever reads plans."""
    if not top.has("plans"):
        return (), ""
    table = DescriptionTable.of(top.path, "plans.", top.values["plans"], PLANS)
    syncs = table.optional("sync", list) or []
    for word in syncs:
        if not isinstance(word, str):
            raise table.wrong("sync", "expected a list of texts")
    return tuple(syncs), table.optional("order", str) or ""
