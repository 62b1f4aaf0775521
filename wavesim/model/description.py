"""A user's own pair or chain of kernels, from a TOML file.

Example:
    device = "NAME"           # as `wavesim devices` lists them
    [[stages]]
    name = "gemm1"
    grid = [24, 8]            # tile columns, tile rows, split-K slices
    threads = 256
    registers = 232
    shared_bytes = 98304
    kernel_us = 320.0         # the kernel alone, measured
    flops = 155e9             # optional: all its operations, so that an impossible time is noticed
    [[dependencies]]
    consumer = "gemm2"
    needs = ["gemm1[:, y]"]   # every column of the consumer's row

The file is data: index expressions are parsed, never evaluated as code.
"""

import ast
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError, RecordingError
from wavesim.guard.bounds import MOST_LETTERS, bounded_text, real, shown
from wavesim.guard.documents import read_toml
from wavesim.guard.escaping import one_line
from wavesim.model import device as devices
from wavesim.model.dependency import Dependency, Index, TileSet, x, y
from wavesim.model.device import Device
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage

FIELDS = ("device", "stages", "dependencies")
STAGE_FIELDS = ("name", "grid", "threads", "registers", "shared_bytes", "kernel_us", "flops")
DEPENDENCY_FIELDS = ("consumer", "needs")
# A kernel's: a quarter of an hour, so that sums over all blocks stay far below 64 bits of nanoseconds.
MAX_KERNEL_US, MAX_FLOPS = 1e9, 1e18
# What to write for a field that is missing.
EXAMPLES = {
    "stages": "one [[stages]] table per kernel",
    "dependencies": "one [[dependencies]] table per consumer",
    "name": 'name = "gemm1"',
    "grid": "grid = [24, 8]",
    "threads": "threads = 256",
    "registers": "registers = 232",
    "shared_bytes": "shared_bytes = 98304",
    "kernel_us": "kernel_us = 320.0",
    "consumer": 'consumer = "gemm2"',
    "needs": 'needs = ["gemm1[:, y]"]',
}
TYPE_TEXT = {str: "a text", int: "an integer", list: "a list"}


@dataclass(frozen=True)
class Description:
    """What the file says: the pipeline, its device, and each stage's measured time in nanoseconds."""

    pipeline: Pipeline
    device: Device
    kernel_ns: Mapping[str, int]


def load_description(path: str | Path) -> Description:
    """Reads a TOML file. Raises `RecordingError` naming file and field, or `DescriptionError`."""
    path = Path(path)
    data = read_toml(path)
    _require_known(data, FIELDS, "", path)
    device = devices.load(str(_field(data, "device", str, path)))
    stages: dict[str, Stage] = {}
    kernel_ns: dict[str, int] = {}
    for position, entry in enumerate(_field(data, "stages", list, path)):
        stage, time_ns = _stage(entry, f"stages[{position}]", path)
        if stage.name in stages:
            raise RecordingError(
                f"{path}: field 'stages[{position}].name' is {stage.name!r}: two stages are named "
                f"{stage.name}; give each its own name"
            )
        stages[stage.name] = stage
        kernel_ns[stage.name] = time_ns
    dependencies = [
        _dependency(entry, f"dependencies[{position}]", stages, path)
        for position, entry in enumerate(_field(data, "dependencies", list, path))
    ]
    return Description(Pipeline(path.stem, list(stages.values()), dependencies), device, kernel_ns)


def _require_known(table: Mapping[str, Any], known: Collection[str], where: str, path: Path) -> None:
    """Raises `RecordingError` for a field that would say nothing."""
    for name in table:
        if name not in known:
            raise RecordingError(
                f"{path}: field {shown(where + name)} is unknown; known are {', '.join(known)}"
            )


def _field(data: Any, name: str, kind: type | tuple[type, ...], path: Path, where: str = "") -> Any:
    if not isinstance(data, dict):
        raise RecordingError(f"{path}: field '{where.rstrip('.')}' is {shown(data)}; expected a table")
    if name not in data:
        raise RecordingError(f"{path}: field '{where}{name}' is missing; write {_example(name)}")
    value = data[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = TYPE_TEXT[kind] if isinstance(kind, type) else "a number"
        raise RecordingError(f"{path}: field '{where}{name}' is {shown(value)}; expected {wanted}")
    return value


def _example(name: str) -> str:
    """What to write for a field that is missing."""
    return EXAMPLES.get(name) or f'device = "{devices.default_device().name}"'


def _stage(entry: Any, where: str, path: Path) -> tuple[Stage, int]:
    name = bounded_text(f"{path}: field '{where}.name'", _field(entry, "name", str, path, f"{where}."))
    _require_known(entry, STAGE_FIELDS, f"{where}.", path)
    grid = _field(entry, "grid", list, path, f"{where}.")
    if not 1 <= len(grid) <= 3:
        raise RecordingError(
            f"{path}: field '{where}.grid' is {shown(grid)}; expected [columns, rows] or "
            "[columns, rows, slices]"
        )
    block = Block(
        _field(entry, "threads", int, path, f"{where}."),
        _field(entry, "registers", int, path, f"{where}."),
        dynamic_shared_bytes=_field(entry, "shared_bytes", int, path, f"{where}."),
    )
    time_us = _number(entry, "kernel_us", 0.001, MAX_KERNEL_US, path, where)
    flops = _number({"flops": 0, **entry}, "flops", 0, MAX_FLOPS, path, where)
    blocks = Grid(*grid)
    kernel = Kernel(name, blocks, block, flops_per_block=round(flops / blocks.size))
    return Stage(name, kernel), round(time_us * 1000)


def _number(entry: Mapping[str, Any], name: str, least: float, most: float, path: Path, where: str) -> float:
    value = _field(entry, name, (int, float), path, f"{where}.")
    try:
        return real(f"{path}: field '{where}.{name}'", value, least, most)
    except DescriptionError as error:
        raise RecordingError(str(error)) from None


def _dependency(entry: Any, where: str, stages: Mapping[str, Stage], path: Path) -> Dependency:
    consumer = _known(_field(entry, "consumer", str, path, f"{where}."), stages, f"{where}.consumer", path)
    needs = _field(entry, "needs", list, path, f"{where}.")
    _require_known(entry, DEPENDENCY_FIELDS, f"{where}.", path)
    return Dependency(consumer[x, y], [_tile_set(need, stages, f"{where}.needs", path) for need in needs])


def _known(name: str, stages: Mapping[str, Stage], where: str, path: Path) -> Stage:
    if name not in stages:
        raise RecordingError(
            f"{path}: field '{where}' is {shown(name)}; the stages are {one_line(', '.join(stages))}"
        )
    return stages[name]


def _tile_set(text: Any, stages: Mapping[str, Stage], where: str, path: Path) -> TileSet:
    """The tile set that "gemm1[:, y]" names."""
    message = (
        f"{path}: field '{where}' has {shown(text)}; write STAGE[COLUMNS, ROWS] such as gemm1[:, y] or "
        "gemm1[x + 4, y]"
    )
    if not isinstance(text, str) or len(text) > MOST_LETTERS:
        raise RecordingError(message)
    try:
        with warnings.catch_warnings(action="error"):  # what Python warns of, such as 0or x, is no index
            node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError, Warning):
        raise RecordingError(message) from None
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=[columns, rows])):
            stage = _known(name, stages, where, path)
            return stage[_axis(columns, message), _axis(rows, message)]
    raise RecordingError(message)


def _axis(node: ast.expr, message: str) -> Index | int | slice:
    if isinstance(node, ast.Slice):
        if node.step is not None:
            raise RecordingError(message)
        ends = (None if end is None else _index(end, message) for end in (node.lower, node.upper))
        return slice(*ends)
    return _index(node, message)


def _index(node: ast.expr, message: str) -> Index | int:
    match node:
        case ast.Name(id="x"):
            return x
        case ast.Name(id="y"):
            return y
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _index(operand, message) * -1
        case ast.BinOp(left=left, op=operator, right=right):
            return _combined(operator, _index(left, message), _index(right, message), message)
    raise RecordingError(message)


def _combined(operator: ast.operator, left: Index | int, right: Index | int, message: str) -> Index | int:
    try:
        match operator:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left + right * -1
            case ast.Mult():
                return left * right  # type: ignore[operator]  # Index * Index raises DescriptionError
            case ast.FloorDiv() if isinstance(right, int):
                return left // right
    except (ZeroDivisionError, DescriptionError) as error:
        raise RecordingError(f"{message} ({error})") from None
    raise RecordingError(message)
