"""A situation from a file: TOML that a person writes, or JSON that the launch recorder writes.

Example:
    [[devices]]
    name = "gpu0"
    device = "b200"
    [[operations]]
    name = "workers"
    grid = [128]
    threads = 256
    dynamic_shared_bytes = 213000
    stream = "workers"
    blocking = false
    [[waits]]
    waiter = "workers"
    producer = "workers"      # a barrier of its own grid
    until = "start"

JSON has the same fields, in one value or in lines whose lists are joined. All of them are in
`situation_fields`.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from wavesim.errors import DescriptionError, RecordingError
from wavesim.guard.bounds import bounded_text, shown, whole
from wavesim.guard.documents import json_value, read_toml
from wavesim.guard.reading import read_text
from wavesim.hang.situation import BlockWait, DevicePart, Post, PostedSemaphore, Situation, Until
from wavesim.hang.situation_fields import DEVICES, OPERATIONS, POSTS, SEMAPHORES, TOP, WAITS
from wavesim.model import device as devices
from wavesim.model.description_table import DescriptionTable
from wavesim.model.kernel import Block, Carveout, Grid
from wavesim.model.occupancy import require_runnable
from wavesim.streams.operation import ONE_THREAD, Kind, StreamOperation, Trigger

MOST_TOML_BYTES, MOST_JSON_BYTES = 1 << 20, 64 << 20
MOST_OPERATIONS, MOST_WAITS, MOST_SEMAPHORES, MOST_DEVICES = 20_000, 20_000, 20_000, 64
MOST_AFTER = 64
LONGEST_NAME = 200
MOST_QUEUES = 1_024
MOST_PRIORITY = 1_000
LARGEST_CLUSTER = 16
MOST_SMS = 1_024
DEFAULT_PART = "gpu0"


def load_situation(path: str | Path) -> Situation:
    """Reads TOML from a `.toml` file, else JSON. Raises `RecordingError` or `DescriptionError`."""
    path = Path(path)
    if path.suffix == ".toml":
        return situation_of(path, read_toml(path, MOST_TOML_BYTES))
    return situation_of(path, _joined(path, read_text(path, MOST_JSON_BYTES)))


def _joined(path: Path, text: str) -> Any:
    """One JSON value, or as many lines of objects as the launch recorder has appended: their lists joined.

    A last line that is cut off is left out: the process ended while it wrote.
    """
    lines = text.splitlines(keepends=True)
    if len(lines) < 2 or not lines[0].rstrip().endswith("}") or not lines[1].startswith("{"):
        return json_value(text, str(path))
    if not lines[-1].endswith("\n"):
        lines.pop()
    joined: dict[str, Any] = {}
    for number, line in enumerate(lines, 1):
        place = f"{path}: line {number}"
        entry = json_value(line, place)
        if not isinstance(entry, dict):
            raise RecordingError(f"{place} is {shown(entry)}; expected an object")
        for name, value in entry.items():
            if isinstance(value, list) and isinstance(joined.get(name, []), list):
                joined.setdefault(name, []).extend(value)
            else:
                joined[name] = value
    return joined


def situation_of(path: Path, values: Any) -> Situation:
    """The situation that a file's values describe. Raises `RecordingError`, `DescriptionError`."""
    top = DescriptionTable.of(path, "", values, TOP)
    parts = [_device(table) for table in _tables(top, "devices", DEVICES, MOST_DEVICES)]
    parts = parts or [DevicePart(DEFAULT_PART, devices.default_device())]
    _require_distinct(top, "devices", [part.name for part in parts])
    operations = [
        _operation(table, parts) for table in _tables(top, "operations", OPERATIONS, MOST_OPERATIONS)
    ]
    if not operations:
        raise top.missing("operations")
    names = {one.name: one for one in operations}
    _require_distinct(top, "operations", [one.name for one in operations])
    blocking: dict[tuple[str, str, str], bool] = {}
    for position, one in enumerate(operations):
        table = DescriptionTable(path, f"operations[{position}].", top.values["operations"][position])
        _require_earlier(table, [other.name for other in operations[:position]])
        is_blocking = blocking.setdefault((one.process, one.device, one.stream), one.is_blocking)
        if one.is_blocking != is_blocking:
            raise RecordingError(
                f"{table.field('blocking')} is not what {shown(one.stream)} had above; make it the same"
            )
        if one.is_kernel:
            require_runnable(next(part.device for part in parts if part.name == one.device), one.block)
    semaphores = [
        _semaphore(table, names) for table in _tables(top, "semaphores", SEMAPHORES, MOST_SEMAPHORES)
    ]
    _require_distinct(top, "semaphores", [one.name for one in semaphores])
    known = {one.name for one in semaphores}
    waits = [_wait(table, names, known) for table in _tables(top, "waits", WAITS, MOST_WAITS)]
    has_all = top.optional("all_waits", bool)
    return Situation(
        name=top.text("name") if top.has("name") else path.stem,
        devices=tuple(parts),
        operations=tuple(operations),
        waits=tuple(waits),
        semaphores=tuple(semaphores),
        notes=tuple(_texts(top, "notes")),
        has_all_waits=True if has_all is None else has_all,
        source=top.text("source") if top.has("source") else "",
    )


def with_waits(situation: Situation, path: Path) -> Situation:
    """A situation with the waits and semaphores of a TOML file beside its own.

    `all_waits` in the file says whether these are all. Raises `RecordingError` as `load_situation` does.
    """
    fields = tuple(one for one in TOP if one.name in ("waits", "semaphores", "all_waits"))
    top = DescriptionTable.of(path, "", read_toml(path, MOST_TOML_BYTES), fields)
    names = {one.name: one for one in situation.operations}
    tables = _tables(top, "semaphores", SEMAPHORES, MOST_SEMAPHORES)
    semaphores = [*situation.semaphores, *(_semaphore(table, names) for table in tables)]
    known = {one.name for one in semaphores}
    waits = [_wait(table, names, known) for table in _tables(top, "waits", WAITS, MOST_WAITS)]
    has_all = top.optional("all_waits", bool)
    return replace(
        situation,
        waits=(*situation.waits, *waits),
        semaphores=tuple(semaphores),
        has_all_waits=True if has_all is None else has_all,
    )


def _tables(top: DescriptionTable, name: str, fields: Any, most: int) -> list[DescriptionTable]:
    """The tables of a list, in its bounds."""
    entries = top.optional(name, list) or []
    if len(entries) > most:
        raise RecordingError(f"{top.field(name)} has {len(entries):,} tables; at most {most:,} are read")
    return [
        DescriptionTable.of(top.path, f"{top.where}{name}[{position}].", entry, fields)
        for position, entry in enumerate(entries)
    ]


def _require_distinct(top: DescriptionTable, section: str, names: Sequence[str]) -> None:
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        if name in seen:
            table = DescriptionTable(top.path, f"{section}[{position}].", {"name": name})
            raise table.wrong("name", f"{section}[{seen[name]}] has it too; give each its own name")
        seen[name] = position


def _require_earlier(table: DescriptionTable, earlier: Sequence[str]) -> None:
    """What an operation comes after was launched before it."""
    before = set(earlier)
    for name in ("after", "host_after", "after_start"):
        for entry in table.values.get(name, ()):
            if entry not in before:
                raise table.wrong(
                    name, "it names what was launched before; list that operation above this one"
                )


def _device(table: DescriptionTable) -> DevicePart:
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


def _operation(table: DescriptionTable, parts: Sequence[DevicePart]) -> StreamOperation:
    part = table.optional("device", str) or parts[0].name
    if part not in {one.name for one in parts}:
        raise table.wrong("device", "no [[devices]] table has that name")
    blocking = table.optional("blocking", bool)
    found = StreamOperation(
        name=_name(table),
        device=part,
        kind=table.word("kind", get_args(Kind)) or "kernel",
        stream=table.text("stream") if table.has("stream") else StreamOperation.stream,
        is_blocking=True if blocking is None else blocking,
        process=table.text("process") if table.has("process") else "",
        priority=_whole(table, "priority", 0, -MOST_PRIORITY, MOST_PRIORITY),
        is_dependent=bool(table.optional("dependent", bool)),
        trigger=table.word("trigger", get_args(Trigger)) or "end",
        after=tuple(_texts(table, "after")),
        host_after=tuple(_texts(table, "host_after")),
        after_start=tuple(_texts(table, "after_start")),
    )
    if found.is_kernel:
        return _kernel(table, found)
    given = [name for name in ("grid", "threads", "cooperative", "cluster") if table.has(name)]
    if given:
        raise table.wrong(given[0], f"a {found.kind} has no blocks; leave it out")
    return replace(found, blocks=0)


def _kernel(table: DescriptionTable, found: StreamOperation) -> StreamOperation:
    """The operation with its grid and what its blocks take."""
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
        found, blocks=blocks, block=block, carveout=carveout, cluster=cluster, is_cooperative=cooperative
    )


def _wait(table: DescriptionTable, names: Any, semaphores: set[str]) -> BlockWait:
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


def _semaphore(table: DescriptionTable, names: Any) -> PostedSemaphore:
    posts = [
        Post(
            producer=_named(entry, "producer", names),
            each=_whole(entry, "each", 1, 0, 2**31 - 1),
            blocks=_whole(entry, "blocks", 0, 0, 2**63 - 1) if entry.has("blocks") else None,
            until=entry.word("until", get_args(Until)) or "end",
        )
        for entry in _tables(table, "posts", POSTS, MOST_AFTER)
    ]
    return PostedSemaphore(_name(table), tuple(posts), _whole(table, "initial", 0, 0, 2**63 - 1))


def _name(table: DescriptionTable) -> str:
    name = bounded_text(table.field("name"), table.required("name", str), LONGEST_NAME)
    if not name:
        raise table.wrong("name", "give it a name")
    return name


def _named(table: DescriptionTable, field: str, known: Any) -> str:
    name = str(table.required(field, str))
    if name not in known:
        raise table.wrong(field, "nothing of that name is listed")
    return name


def _texts(table: DescriptionTable, name: str) -> list[str]:
    """A list of texts, empty where there is none."""
    entries = table.optional(name, list) or []
    if len(entries) > MOST_AFTER or any(not isinstance(entry, str) for entry in entries):
        raise table.wrong(name, f"expected a list of at most {MOST_AFTER} texts")
    return [bounded_text(table.field(name), entry, 1_000) for entry in entries]


def _whole(table: DescriptionTable, name: str, default: int, least: int, most: int) -> int:
    """An integer in its bounds."""
    if not table.has(name):
        return default
    if not isinstance(table.values[name], int):
        raise table.wrong(name, "expected an integer")
    try:
        return whole(table.field(name), table.values[name], least, most)
    except DescriptionError as error:
        raise RecordingError(str(error)) from None


def situation_json(situation: Situation) -> str:
    """The situation as JSON that `load_situation` reads, on one line."""
    return json.dumps(_document(situation))


def _document(situation: Situation) -> dict[str, Any]:
    return {
        "name": situation.name,
        "source": situation.source,
        "devices": [
            {
                "name": part.name,
                "device": part.device.name,
                "sm_count": part.device.sm_count,
                "limited_by": part.limited_by,
                "held_sms": part.held_sms,
                "mps": part.is_mps,
                "queues": part.queues,
            }
            for part in situation.devices
        ],
        "operations": [_operation_document(one) for one in situation.operations],
        "waits": [_wait_document(one) for one in situation.waits],
        "semaphores": [
            {
                "name": one.name,
                "initial": one.initial,
                "posts": [
                    {"producer": post.producer, "each": post.each, "until": post.until}
                    | ({} if post.blocks is None else {"blocks": post.blocks})
                    for post in one.posts
                ],
            }
            for one in situation.semaphores
        ],
        "notes": list(situation.notes),
        "all_waits": situation.has_all_waits,
    }


def _operation_document(one: StreamOperation) -> dict[str, Any]:
    kernel = {
        "grid": [one.blocks],
        "threads": one.block.threads,
        "registers": one.block.registers,
        "static_shared_bytes": one.block.static_shared_bytes,
        "dynamic_shared_bytes": one.block.dynamic_shared_bytes,
        "carveout": one.carveout,
        "cluster": one.cluster,
        "cooperative": one.is_cooperative,
    }
    return {
        "name": one.name,
        "kind": one.kind,
        "device": one.device,
        "stream": one.stream,
        "blocking": one.is_blocking,
        "process": one.process,
        "priority": one.priority,
        "dependent": one.is_dependent,
        "trigger": one.trigger,
        "after": list(one.after),
        "host_after": list(one.host_after),
        "after_start": list(one.after_start),
    } | (kernel if one.is_kernel else {})


def _wait_document(one: BlockWait) -> dict[str, Any]:
    if one.is_unknown:
        return {"waiter": one.waiter, "unknown": True}
    if one.semaphore:
        return {"waiter": one.waiter, "semaphore": one.semaphore, "value": one.value}
    rows = {"rows": one.rows} if one.blocks == "row" else {}
    return {"waiter": one.waiter, "producer": one.producer, "blocks": one.blocks, "until": one.until} | rows
