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
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError, RecordingError
from wavesim.model import device as devices
from wavesim.model.dependency import Dependency, Index, TileSet, x, y
from wavesim.model.device import Device
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage

MAX_FILE_BYTES = 1 << 20
STAGE_FIELDS = {"name", "grid", "threads", "registers", "shared_bytes", "kernel_us", "flops"}
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
    data = _read(path)
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


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise RecordingError(
                f"{path}: larger than {MAX_FILE_BYTES} bytes; a description is a page of TOML"
            )
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecordingError(f"{path}: not TOML: {error}") from None


def _field(data: Any, name: str, kind: type | tuple[type, ...], path: Path, where: str = "") -> Any:
    if not isinstance(data, dict):
        raise RecordingError(f"{path}: field '{where.rstrip('.')}' is {data!r}; expected a table")
    if name not in data:
        raise RecordingError(f"{path}: field '{where}{name}' is missing; write {_example(name)}")
    value = data[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = TYPE_TEXT[kind] if isinstance(kind, type) else "a number"
        raise RecordingError(f"{path}: field '{where}{name}' is {value!r}; expected {wanted}")
    return value


def _example(name: str) -> str:
    """What to write for a field that is missing."""
    return EXAMPLES.get(name) or f'device = "{devices.default_device().name}"'


def _stage(entry: Any, where: str, path: Path) -> tuple[Stage, int]:
    name = _field(entry, "name", str, path, f"{where}.")
    unknown = set(entry) - STAGE_FIELDS
    if unknown:
        raise RecordingError(
            f"{path}: field '{where}.{min(unknown)}' is unknown; known are {sorted(STAGE_FIELDS)}"
        )
    grid = _field(entry, "grid", list, path, f"{where}.")
    if not 1 <= len(grid) <= 3:
        raise RecordingError(
            f"{path}: field '{where}.grid' is {grid}; expected [columns, rows] or [columns, rows, slices]"
        )
    block = Block(
        _field(entry, "threads", int, path, f"{where}."),
        _field(entry, "registers", int, path, f"{where}."),
        dynamic_shared_bytes=_field(entry, "shared_bytes", int, path, f"{where}."),
    )
    time_us = float(_field(entry, "kernel_us", (int, float), path, f"{where}."))
    if not 0 < time_us < 1e9:
        raise RecordingError(f"{path}: field '{where}.kernel_us' is {time_us}; expected microseconds above 0")
    blocks = Grid(*grid)
    flops = float(_field({"flops": 0, **entry}, "flops", (int, float), path, f"{where}."))
    if not 0 <= flops < 1e21:
        raise RecordingError(f"{path}: field '{where}.flops' is {flops}; expected operations of at least 0")
    kernel = Kernel(name, blocks, block, flops_per_block=round(flops / blocks.size))
    return Stage(name, kernel), round(time_us * 1000)


def _dependency(entry: Any, where: str, stages: Mapping[str, Stage], path: Path) -> Dependency:
    consumer = _known(_field(entry, "consumer", str, path, f"{where}."), stages, f"{where}.consumer", path)
    needs = _field(entry, "needs", list, path, f"{where}.")
    return Dependency(consumer[x, y], [_tile_set(need, stages, f"{where}.needs", path) for need in needs])


def _known(name: str, stages: Mapping[str, Stage], where: str, path: Path) -> Stage:
    if name not in stages:
        raise RecordingError(f"{path}: field '{where}' is {name!r}; the stages are {list(stages)}")
    return stages[name]


def _tile_set(text: Any, stages: Mapping[str, Stage], where: str, path: Path) -> TileSet:
    """The tile set that "gemm1[:, y]" names."""
    message = (
        f"{path}: field '{where}' has {text!r}; write STAGE[COLUMNS, ROWS] such as gemm1[:, y] or "
        "gemm1[x + 4, y]"
    )
    try:
        node = ast.parse(str(text), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
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
