"""Tile sets as text: "gemm1[:, y]" read as data, never evaluated as code.

Example: "gemm1[:, min(y * 2, 7)]" is every column of one row. What `str` of a tile set gives is read back.
"""

import ast
import warnings
from collections.abc import Mapping

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Index, TileSet, as_index, x, y
from wavesim.model.stage import Stage
from wavesim.safe_io.bounds import MOST_LETTERS, shown
from wavesim.safe_io.escaping import one_line

HOW = "write STAGE[COLUMNS, ROWS] such as gemm1[:, y] or gemm1[x + 4, y]"


def parse_tile_set(text: object, stages: Mapping[str, Stage]) -> TileSet:
    """The tile set of one of the stages that a text names. Raises `DescriptionError`."""
    message = f"has {shown(text)}; {HOW}"
    if not isinstance(text, str) or len(text) > MOST_LETTERS:
        raise DescriptionError(message)
    try:
        with warnings.catch_warnings(action="error"):  # what Python warns of, such as 0or x, is no index
            node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError, Warning):
        raise DescriptionError(message) from None
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=[columns, rows])):
            if name not in stages:
                raise DescriptionError(f"names {shown(name)}; the stages are {one_line(', '.join(stages))}")
            return stages[name][_axis(columns, message), _axis(rows, message)]
    raise DescriptionError(message)


def written_tile_set(tiles: TileSet) -> str:
    """The text that `parse_tile_set` reads back. Raises `DescriptionError` for a set that has none."""
    name = tiles.stage.name
    if not (name.isascii() and name.isidentifier()):
        raise DescriptionError(
            f"stage {shown(name)} cannot be named in a description; use ASCII letters, digits and _"
        )
    if tiles.columns.step != 1 or tiles.rows.step != 1:
        raise DescriptionError(f"{tiles} has a step, which a description cannot say; name each tile instead")
    text = str(tiles)
    if len(text) > MOST_LETTERS:
        raise DescriptionError(
            f"what stage {name} is needed for takes {len(text)} letters; a description reads {MOST_LETTERS}. "
            "Choose tiles of which one is a multiple of the other"
        )
    return text


def _axis(node: ast.expr, message: str) -> Index | int | slice:
    if isinstance(node, ast.Slice):
        if node.step is not None:
            raise DescriptionError(message)
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
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[left, right], keywords=[]):
            first, second = as_index(_index(left, message)), as_index(_index(right, message))
            return first.at_most(second) if name == "min" else first.at_least(second)
    raise DescriptionError(message)


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
        raise DescriptionError(f"{message} ({error})") from None
    raise DescriptionError(message)
