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

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wavesim.errors import RecordingError
from wavesim.model import device as devices
from wavesim.model.description_table import DescriptionTable
from wavesim.model.occupancy import require_runnable
from wavesim.safe_io.bounds import shown
from wavesim.safe_io.documents import json_value, read_toml
from wavesim.safe_io.reading import read_text
from wavesim.safety.hang.situation import DevicePart, Situation
from wavesim.safety.hang.situation_fields import DEVICES, OPERATIONS, SEMAPHORES, TOP, WAITS
from wavesim.safety.hang.situation_tables import (
    block_wait,
    device_part,
    operation_of,
    posted_semaphore,
    tables_of,
    texts_of,
)

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
    top = DescriptionTable.of(path, "", values, TOP)
    parts = [device_part(table) for table in tables_of(top, "devices", DEVICES, MOST_DEVICES)]
    parts = parts or [DevicePart(DEFAULT_PART, devices.default_device())]
    _require_distinct(top, "devices", [part.name for part in parts])
    operations = [
        operation_of(table, parts) for table in tables_of(top, "operations", OPERATIONS, MOST_OPERATIONS)
    ]
    if not operations:
        raise top.missing("operations")
    names = {one.name: one for one in operations}
    _require_distinct(top, "operations", [one.name for one in operations])
    blocking: dict[tuple[str, str, str], bool] = {}
    earlier: set[str] = set()
    device_of = {part.name: part.device for part in parts}
    for position, one in enumerate(operations):
        table = DescriptionTable(path, f"operations[{position}].", top.values["operations"][position])
        _require_earlier(table, earlier)
        earlier.add(one.name)
        is_blocking = blocking.setdefault((one.process, one.device, one.stream), one.is_blocking)
        if one.is_blocking != is_blocking:
            raise RecordingError(
                f"{table.field('blocking')} is not what {shown(one.stream)} had above; make it the same"
            )
        if one.is_kernel:
            require_runnable(device_of[one.device], one.block)
    semaphores = [
        posted_semaphore(table, names) for table in tables_of(top, "semaphores", SEMAPHORES, MOST_SEMAPHORES)
    ]
    _require_distinct(top, "semaphores", [one.name for one in semaphores])
    known = {one.name for one in semaphores}
    waits = [block_wait(table, names, known) for table in tables_of(top, "waits", WAITS, MOST_WAITS)]
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
    fields = tuple(one for one in TOP if one.name in ("waits", "semaphores", "all_waits"))
    top = DescriptionTable.of(path, "", read_toml(path, MOST_TOML_BYTES), fields)
    names = {one.name: one for one in situation.operations}
    tables = tables_of(top, "semaphores", SEMAPHORES, MOST_SEMAPHORES)
    semaphores = [*situation.semaphores, *(posted_semaphore(table, names) for table in tables)]
    known = {one.name for one in semaphores}
    waits = [block_wait(table, names, known) for table in tables_of(top, "waits", WAITS, MOST_WAITS)]
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
    """What an operation comes after was launched before it."""
    for name in ("after", "host_after", "after_start"):
        for entry in table.values.get(name, ()):
            if entry not in earlier:
                raise table.wrong(
                    name, "it names what was launched before; list that operation above this one"
                )
