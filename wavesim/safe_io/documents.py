"""TOML and JSON from outside: their bytes, depth, names and numbers are bounded before they cost anything.

Example: 100 KB of `a.a.a.a...` as one key would keep the TOML parser busy for a minute, and an integer of 400
digits would overflow in whatever computes with it; both are refused in one line, at once.
"""

import json
import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from wavesim.errors import DescriptionError, RecordingError
from wavesim.safe_io.bounds import MOST_DIGITS
from wavesim.safe_io.reading import read_packed, read_text

MOST_TOML_BYTES = 1 << 16  # a page or two; the longest of ours has 12 KB
MOST_DEPTH = 16  # of tables in tables and lists in lists, and of the parts of a dotted key
T = TypeVar("T")
INT_MIN, INT_MAX = -(2**63), 2**63 - 1

# Texts and comments, whatever stands in them, and what nests or ends an entry. An open text reaches to the
# end, so that every character is looked at once.
_TOKENS = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)|\'\'\'.*?(?:\'\'\'|\Z)|"(?:\\.|[^"\\\n])*"?|\'[^\'\n]*\'?'
    r"|#[^\n]*|[\[\]{}.=,\n]",
    re.DOTALL,
)


def read_toml(path: str | Path, most_bytes: int = MOST_TOML_BYTES) -> dict[str, Any]:
    """A file's TOML. Raises `RecordingError` for another file, one too large or too deep, or a number that is
    not finite or longer than 64 bits.
    """
    return toml_value(read_text(path, most_bytes), str(path))


def toml_value(text: str, place: str) -> dict[str, Any]:
    """A text's TOML. Raises `RecordingError` naming its place."""
    _require_flat(text, place)
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{place}: not TOML: {error}") from None
    _require_numbers(document, place)
    return document


def read_json(path: str | Path, most_bytes: int) -> Any:
    """The JSON of a file or of an .xz file. Raises `RecordingError` as `read_toml` does."""
    is_packed = Path(path).suffix == ".xz"
    text = read_packed(path, most_bytes) if is_packed else read_text(path, most_bytes)
    return json_value(text, str(path))


def read_measured(path: Path, most_bytes: int, command: str, build: Callable[[Any], T]) -> T:
    """What `build` makes of a file that `command` wrote. Raises `RecordingError` naming file and fault."""
    data = read_json(path, most_bytes)
    try:
        return build(data)
    except (DescriptionError, AttributeError, KeyError, TypeError, ValueError) as error:
        wrong = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise RecordingError(f"{path}: not a file of {command}: {wrong}") from None


def json_value(text: str | bytes, place: str) -> Any:
    """The value of a JSON text; `place` names it in a `RecordingError`."""
    try:
        return json.loads(text, parse_int=_integer, parse_float=_finite, parse_constant=_no_constant)
    except RecursionError:
        raise RecordingError(f"{place}: not JSON: lists or objects in each other, too deep to read") from None
    except ValueError as error:
        raise RecordingError(f"{place}: not JSON: {error}") from None


def _require_flat(text: str, place: str) -> None:
    """Raises `RecordingError` for brackets or a dotted key that are deeper than `MOST_DEPTH`."""
    depth = dots = 0
    for token in _TOKENS.finditer(text):
        match token.group()[0]:
            case "[" | "{":
                depth, dots = depth + 1, 0
            case "]" | "}":
                depth, dots = depth - 1, 0
            case ".":
                dots += 1
            case "=" | "," | "\n":
                dots = 0
        if max(depth, dots) > MOST_DEPTH:
            line = text.count("\n", 0, token.start()) + 1
            raise RecordingError(f"{place}: line {line} nests more than {MOST_DEPTH} deep; write flat tables")


def _require_numbers(value: Any, place: str, field: str = "") -> None:
    if isinstance(value, dict | list):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in entries:
            name = f"{field}[{key}]" if isinstance(value, list) else f"{field}.{key}".lstrip(".")
            _require_numbers(entry, place, name)
    elif isinstance(value, float) and not math.isfinite(value):
        raise RecordingError(f"{place}: field '{field}' is {value}; write a finite number")
    elif isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        raise RecordingError(f"{place}: field '{field}' has more than 64 bits; write a smaller integer")


def _integer(digits: str) -> int:
    number = int(digits) if len(digits) <= MOST_DIGITS + 1 else None
    if number is None or not INT_MIN <= number <= INT_MAX:
        raise ValueError(f"an integer of {len(digits):,} digits; at most 64 bits are read")
    return number


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is too large a number")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
