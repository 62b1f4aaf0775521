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
`situation_fields.toml`; `situation_json` writes them.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wavesim.errors import RecordingError
from wavesim.model import device as devices
from wavesim.model.occupancy import require_runnable
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.documents import json_value, read_toml
from wavesim.safe_io.reading import read_text
from wavesim.safety.hang.situation import BlockWait, DevicePart, Situation
from wavesim.safety.hang.situation_tables import (
    block_wait,
    device_part,
    fields_of,
    operation_of,
    posted_semaphore,
    tables_of,
    texts_of,
)
from wavesim.sim.streams.stream_order import StreamOperation
from wavesim.work.description.table import DescriptionTable

MOST_TOML_BYTES, MOST_JSON_BYTES = 1 << 20, 64 << 20
MOST_OPERATIONS, MOST_WAITS, MOST_SEMAPHORES, MOST_DEVICES = 20_000, 20_000, 20_000, 64
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
    top = DescriptionTable.of(path, "", values, fields_of("top"))
    parts = [device_part(table) for table in tables_of(top, "devices", MOST_DEVICES)]
    parts = parts or [DevicePart(DEFAULT_PART, devices.default_device())]
    _require_distinct(top, "devices", [part.name for part in parts])
    operations = [operation_of(table, parts) for table in tables_of(top, "operations", MOST_OPERATIONS)]
    if not operations:
        raise top.missing("operations")
    names = {operation.name: operation for operation in operations}
    _require_distinct(top, "operations", [operation.name for operation in operations])
    blocking: dict[tuple[str, str, str], bool] = {}
    earlier: set[str] = set()
    device_of = {part.name: part.device for part in parts}
    for position, operation in enumerate(operations):
        table = DescriptionTable(path, f"operations[{position}].", top.values["operations"][position])
        _require_earlier(table, earlier)
        earlier.add(operation.name)
        is_blocking = blocking.setdefault(
            (operation.process, operation.device, operation.stream), operation.is_blocking
        )
        if operation.is_blocking != is_blocking:
            raise RecordingError(
                f"{table.field('blocking')} is not what {shown(operation.stream)} had above; make it the same"
            )
        if operation.is_kernel:
            require_runnable(device_of[operation.device], operation.block)
    semaphores = [posted_semaphore(table, names) for table in tables_of(top, "semaphores", MOST_SEMAPHORES)]
    _require_distinct(top, "semaphores", [semaphore.name for semaphore in semaphores])
    known = {semaphore.name for semaphore in semaphores}
    waits = [block_wait(table, names, known) for table in tables_of(top, "waits", MOST_WAITS)]
    has_all = top.optional("all_waits", bool)
    return Situation(
        name=top.text("name") if top.has("name") else path.stem,
        devices=tuple(parts),
        operations=tuple(operations),
        waits=tuple(waits),
        semaphores=tuple(semaphores),
        notes=tuple(texts_of(top, "notes")),
        has_all_waits=True if has_all is None else has_all,
        source=top.text("source") if top.has("source") else "",
    )


def with_waits(situation: Situation, path: Path) -> Situation:
    """A situation with the waits and semaphores of a TOML file beside its own.

    `all_waits` in the file says whether these are all. Raises `RecordingError` as `load_situation` does.
    """
    fields = tuple(field for field in fields_of("top") if field.name in ("waits", "semaphores", "all_waits"))
    top = DescriptionTable.of(path, "", read_toml(path, MOST_TOML_BYTES), fields)
    names = {operation.name: operation for operation in situation.operations}
    tables = tables_of(top, "semaphores", MOST_SEMAPHORES)
    semaphores = [*situation.semaphores, *(posted_semaphore(table, names) for table in tables)]
    known = {semaphore.name for semaphore in semaphores}
    waits = [block_wait(table, names, known) for table in tables_of(top, "waits", MOST_WAITS)]
    has_all = top.optional("all_waits", bool)
    return replace(
        situation,
        waits=(*situation.waits, *waits),
        semaphores=tuple(semaphores),
        has_all_waits=True if has_all is None else has_all,
    )


def _require_distinct(top: DescriptionTable, section: str, names: Sequence[str]) -> None:
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        if name in seen:
            table = DescriptionTable(top.path, f"{section}[{position}].", {"name": name})
            raise table.wrong("name", f"{section}[{seen[name]}] has it too; give each its own name")
        seen[name] = position


def _require_earlier(table: DescriptionTable, earlier: Collection[str]) -> None:
    for name in ("after", "host_after", "after_start"):
        for entry in table.values.get(name, ()):
            if entry not in earlier:
                raise table.wrong(
                    name, "it names what was launched before; list that operation above this one"
                )


def situation_json(situation: Situation) -> str:
    """The situation as JSON that `load_situation` reads."""
    return json.dumps(_document(situation), indent=1) + "\n"


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
        "operations": [_operation_document(operation) for operation in situation.operations],
        "waits": [_wait_document(wait) for wait in situation.waits],
        "semaphores": [
            {
                "name": semaphore.name,
                "initial": semaphore.initial,
                "posts": [
                    {"producer": post.producer, "each": post.each, "until": post.until}
                    | ({} if post.blocks is None else {"blocks": post.blocks})
                    for post in semaphore.posts
                ],
            }
            for semaphore in situation.semaphores
        ],
        "notes": list(situation.notes),
        "all_waits": situation.has_all_waits,
    }


def _operation_document(operation: StreamOperation) -> dict[str, Any]:
    kernel = {
        "grid": [operation.blocks],
        "threads": operation.block.threads,
        "registers": operation.block.registers,
        "static_shared_bytes": operation.block.static_shared_bytes,
        "dynamic_shared_bytes": operation.block.dynamic_shared_bytes,
        "carveout": operation.carveout,
        "cluster": operation.cluster,
        "cooperative": operation.is_cooperative,
    }
    return {
        "name": operation.name,
        "kind": operation.kind,
        "device": operation.device,
        "stream": operation.stream,
        "blocking": operation.is_blocking,
        "process": operation.process,
        "priority": operation.priority,
        "dependent": operation.is_dependent,
        "trigger": operation.trigger,
        "after": list(operation.after),
        "host_after": list(operation.host_after),
        "after_start": list(operation.after_start),
        "lazy": operation.is_lazy,
    } | (kernel if operation.is_kernel else {})


def _wait_document(wait: BlockWait) -> dict[str, Any]:
    if wait.is_unknown:
        return {"waiter": wait.waiter, "unknown": True}
    if wait.semaphore:
        return {"waiter": wait.waiter, "semaphore": wait.semaphore, "value": wait.value}
    rows = {"rows": wait.rows} if wait.blocks == "row" else {}
    return {
        "waiter": wait.waiter,
        "producer": wait.producer,
        "blocks": wait.blocks,
        "until": wait.until,
    } | rows
