"""One table of a situation's file as the value that it describes: a device part, an operation, a wait.

Example: `{waiter = "b", producer = "a", blocks = 9}` is refused where the grid of `a` has 8 blocks, with the
field's place in the file. `situation_fields.toml` has what each field means, its unit and its default.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

from wavesim.errors import DescriptionError, RecordingError
from wavesim.model import device as devices
from wavesim.model.kernel import Block, Carveout, Grid
from wavesim.safe_io.bounds import bounded_text, whole
from wavesim.safe_io.documents import read_toml
from wavesim.safety.hang.situation import BlockWait, DevicePart, Post, PostedSemaphore, Until
from wavesim.sim.streams.stream_order import ONE_THREAD, Kind, StreamOperation, Trigger
from wavesim.work.description.table import DescriptionTable, Field

MOST_AFTER = 64
LONGEST_NAME = 200
MOST_QUEUES = 1_024
MOST_PRIORITY = 1_000
LARGEST_CLUSTER = 16
MOST_SMS = 1_024


@cache
def fields_of(section: str) -> tuple[Field, ...]:
    """The fields of the tables of that name, "top" for the file itself."""
    rows = read_toml(Path(__file__).with_name("situation_fields.toml"))[section]
    return tuple(Field(*row) for row in rows)


def tables_of(top: DescriptionTable, name: str, most: int) -> list[DescriptionTable]:
    """The tables of a list, in its bounds."""
    fields = fields_of(name)
    entries = top.optional(name, list) or []
    if len(entries) > most:
        raise RecordingError(f"{top.field(name)} has {len(entries):,} tables; at most {most:,} are read")
    return [
        DescriptionTable.of(top.path, f"{top.where}{name}[{position}].", entry, fields)
        for position, entry in enumerate(entries)
    ]


def device_part(table: DescriptionTable) -> DevicePart:
    """The part of a GPU that a `[[devices]]` table describes."""
    name = str(table.optional("device", str) or devices.default_device().name)
    if devices.is_user_file(name):
        name = str(table.path.parent / name)
    device = devices.load(devices.catalogue_name(name))
    sms = _whole(table, "sm_count", device.sm_count, 1, MOST_SMS)
    return DevicePart(
        name=_name(table),
        device=device if sms == device.sm_count else device.with_sm_count(sms),
        limited_by=table.text("limited_by") if table.has("limited_by") else "",
        held_sms=_whole(table, "held_sms", 0, 0, sms - 1),
        is_mps=bool(table.optional("mps", bool)),
        queues=_whole(table, "queues", DevicePart.queues, 1, MOST_QUEUES),
    )


def operation_of(table: DescriptionTable, parts: Sequence[DevicePart]) -> StreamOperation:
    """The launch, copy or host function of an `[[operations]]` table, on one of these parts."""
    part = table.optional("device", str) or parts[0].name
    if part not in {other.name for other in parts}:
        raise table.wrong("device", "no [[devices]] table has that name")
    blocking = table.optional("blocking", bool)
    operation = StreamOperation(
        name=_name(table),
        device=part,
        kind=table.word("kind", get_args(Kind)) or "kernel",
        stream=table.text("stream") if table.has("stream") else StreamOperation.stream,
        is_blocking=True if blocking is None else blocking,
        process=table.text("process") if table.has("process") else "",
        priority=_whole(table, "priority", 0, -MOST_PRIORITY, MOST_PRIORITY),
        is_dependent=bool(table.optional("dependent", bool)),
        trigger=table.word("trigger", get_args(Trigger)) or "end",
        after=tuple(texts_of(table, "after")),
        host_after=tuple(texts_of(table, "host_after")),
        is_lazy=bool(table.optional("lazy", bool)),
        after_start=tuple(texts_of(table, "after_start")),
    )
    if operation.is_kernel:
        return _kernel(table, operation)
    given = [name for name in ("grid", "threads", "cooperative", "cluster") if table.has(name)]
    if given:
        raise table.wrong(given[0], f"a {operation.kind} has no blocks; leave it out")
    return replace(operation, blocks=0)


def _kernel(table: DescriptionTable, operation: StreamOperation) -> StreamOperation:
    grid = table.integers("grid", 1, 3, "[x], [x, y] or [x, y, z]")
    if grid is None:
        raise table.missing("grid")
    block = Block(
        table.required("threads", int),
        _whole(table, "registers", ONE_THREAD.registers, 1, 1 << 16),
        _whole(table, "static_shared_bytes", 0, 0, 1 << 40),
        _whole(table, "dynamic_shared_bytes", 0, 0, 1 << 40),
    )
    blocks, cluster = Grid(*grid).size, _whole(table, "cluster", 1, 1, LARGEST_CLUSTER)
    if blocks % cluster:
        raise table.wrong("cluster", f"the grid's {blocks:,} blocks are no multiple of it")
    carveout: Carveout = table.word("carveout", get_args(Carveout)) or "default"
    cooperative = bool(table.optional("cooperative", bool))
    return replace(
        operation, blocks=blocks, block=block, carveout=carveout, cluster=cluster, is_cooperative=cooperative
    )


def block_wait(
    table: DescriptionTable, names: Mapping[str, StreamOperation], semaphores: Collection[str]
) -> BlockWait:
    """The wait of a `[[waits]]` table among these operations and semaphores."""
    waiter = _named(table, "waiter", names)
    until: Until = table.word("until", get_args(Until)) or "end"
    if sum((table.has("producer"), table.has("semaphore"), bool(table.optional("unknown", bool)))) != 1:
        raise RecordingError(
            f"{table.field('producer')}: a wait is for one thing; write producer, semaphore or unknown = true"
        )
    if table.optional("unknown", bool):
        return BlockWait(waiter, is_unknown=True)
    if table.has("semaphore"):
        semaphore = _named(table, "semaphore", semaphores)
        return BlockWait(waiter, semaphore=semaphore, value=_whole(table, "value", 1, 0, 2**63 - 1))
    producer = _named(table, "producer", names)
    if table.values.get("blocks", "all") in ("all", "row"):
        blocks = table.values.get("blocks", "all")
    else:
        blocks = _whole(table, "blocks", 1, 1, max(1, names[producer].blocks))
    if blocks == "row" and not table.has("rows"):
        raise table.missing("rows")
    if waiter == producer and until == "end" and names[waiter].is_kernel:
        raise RecordingError(
            f"{table.field('until')}: a block that waits for the end of its own grid never ends; "
            'write until = "start" for a barrier of the grid'
        )
    return BlockWait(waiter, producer, blocks, until, rows=_whole(table, "rows", 1, 1, 2**31 - 1))


def posted_semaphore(table: DescriptionTable, names: Mapping[str, StreamOperation]) -> PostedSemaphore:
    """The counter of a `[[semaphores]]` table, posted to by these operations."""
    posts = [
        Post(
            producer=_named(entry, "producer", names),
            each=_whole(entry, "each", 1, 0, 2**31 - 1),
            blocks=_whole(entry, "blocks", 0, 0, 2**63 - 1) if entry.has("blocks") else None,
            until=entry.word("until", get_args(Until)) or "end",
        )
        for entry in tables_of(table, "posts", MOST_AFTER)
    ]
    return PostedSemaphore(_name(table), tuple(posts), _whole(table, "initial", 0, 0, 2**63 - 1))


def _name(table: DescriptionTable) -> str:
    name = bounded_text(table.field("name"), table.required("name", str), LONGEST_NAME)
    if not name:
        raise table.wrong("name", "give it a name")
    return name


def _named(table: DescriptionTable, field: str, known: Collection[str]) -> str:
    name = str(table.required(field, str))
    if name not in known:
        raise table.wrong(field, "nothing of that name is listed")
    return name


def texts_of(table: DescriptionTable, name: str) -> list[str]:
    """A list of texts, empty where there is none."""
    entries = table.optional(name, list) or []
    if len(entries) > MOST_AFTER or any(not isinstance(entry, str) for entry in entries):
        raise table.wrong(name, f"expected a list of at most {MOST_AFTER} texts")
    return [bounded_text(table.field(name), entry, 1_000) for entry in entries]


def _whole(table: DescriptionTable, name: str, default: int, least: int, most: int) -> int:
    if not table.has(name):
        return default
    if not isinstance(table.values[name], int):
        raise table.wrong(name, "expected an integer")
    try:
        return whole(table.field(name), table.values[name], least, most)
    except DescriptionError as error:
        raise RecordingError(str(error)) from None
