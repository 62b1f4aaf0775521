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

All fields are in `fields.toml`, those of a kind of work in its own. The file is data: index expressions are
parsed, never evaluated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from wavesim.errors import DescriptionError, RecordingError
from wavesim.model import device as devices
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import Device
from wavesim.model.kernel import WAIT_PLACES, Block, Carveout, Kernel, MainLoop, Work
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import LEAST_WEIGHT, MOST_WEIGHT, Stage, TileSet
from wavesim.model.tile_set_text import parse_tile_set
from wavesim.safe_io.documents import read_toml
from wavesim.work.collective.host import Host, host_of
from wavesim.work.description.table import DescriptionTable
from wavesim.work.kind import OF_PRODUCTS, SaidStage
from wavesim.work.kinds import KINDS, kind_of, sections, stage_fields

# A kernel's: a quarter of an hour, so that sums over all blocks stay far below 64 bits of nanoseconds.
MAX_KERNEL_US, MAX_WORK = 1e9, 1e18


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
    known = sections()
    top = DescriptionTable.of(path, "", read_toml(path), known["top"])
    device, device_file = _device(top)
    stages: dict[str, Stage] = {}
    times: dict[str, int | None] = {}
    for position, entry in enumerate(top.required("stages", list)):
        table = DescriptionTable.of(path, f"stages[{position}].", entry, known["stages"])
        stage, times[stage.name] = stage_of(table, device), time_ns_of(table)
        if stage.name in stages:
            raise table.wrong("name", f"two stages are named {stage.name}; give each its own name")
        stages[stage.name] = stage
    dependencies = [
        _dependency(
            DescriptionTable.of(path, f"dependencies[{position}].", entry, known["dependencies"]), stages
        )
        for position, entry in enumerate(top.required("dependencies", list))
    ]
    syncs, order = _plans(top)
    pipeline = Pipeline(path.stem, list(stages.values()), dependencies)
    host = host_of(top, stages, device.name)
    if host is not None and not may_have_host:
        raise RecordingError(
            f"{path}: field 'gpus' describes {host.gpus} GPUs, and here one is meant; leave gpus and "
            "collectives out, or use wavesim simulate, compare or predict"
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
            table = DescriptionTable(path, f"stages[{position}].", {}, stage_fields())
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
    carveout: Carveout = table.word("carveout", get_args(Carveout)) or "default"
    work = _work(SaidStage(name, block, carveout, table, device))
    weights = table.numbers("tile_weights", LEAST_WEIGHT, MOST_WEIGHT) or work.row_weights
    return Stage(name, work, main_loop=loop, tile_weights=weights)


def _work(said: SaidStage) -> Work:
    """What the kind that the table is of reads; a bare kernel where it is of none."""
    kinds = [kind for kind in KINDS.values() if kind.is_said(said.table)]
    if not kinds:
        return _bare(said)
    first = min(kinds, key=lambda kind: not said.table.has(kind.word))
    for other in kinds:
        if other is not first and said.table.has(other.word):
            raise said.table.wrong(other.word, f"{first.word} says what the kernel is; leave one of them out")
    return first.read(said)


def _bare(said: SaidStage) -> Kernel:
    """A launch of which the grid is known, and perhaps how much it computes and moves."""
    for name in ("tile", "element", "activation", *OF_PRODUCTS):
        if said.table.has(name):
            raise said.table.wrong(
                name, "it says nothing without m, n and k, or a table of what the kernel is; leave it out"
            )
    grid = said.grid()
    flops, moved = (
        round((said.table.number(name, 0, MAX_WORK) or 0) / grid.size) for name in ("flops", "bytes")
    )
    return Kernel(said.name, grid, said.block, flops, moved, carveout=said.carveout)


def tiles_of_name(place: int, text: object, stages: Mapping[str, Stage], consumer: Stage) -> TileSet | None:
    """What a stage's name alone means as a need, where the consumer's kind says it."""
    kind = kind_of(consumer.work)
    if not isinstance(text, str) or text not in stages or kind is None or place >= len(kind.needs):
        return None
    return kind.needs[place](stages[text], consumer)


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
    table = DescriptionTable.of(top.path, "plans.", top.values["plans"], sections()["plans"])
    syncs = table.optional("sync", list) or []
    for word in syncs:
        if not isinstance(word, str):
            raise table.wrong("sync", "expected a list of texts")
    return tuple(syncs), table.optional("order", str) or ""
