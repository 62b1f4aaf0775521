"""Arguments of public functions and classes: each of its type before anything is asked of it.

Example: `simulate(pipeline, plan, "h200")` ends with "simulate: device is 'h200'; it must be a Device", not
with an `AttributeError` from somewhere inside.
"""

from pathlib import Path
from typing import Any, get_args

from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import shown


def require_types(owner: str, **arguments: tuple[object, Any]) -> None:
    """Each argument is a value and the class, or the union of classes, that it must be of.

    Raises `DescriptionError` for the first that is not.
    """
    for name, (value, kind) in arguments.items():
        if not isinstance(value, kind):
            raise DescriptionError(f"{owner}: {name} is {shown(value)}; it must be {_text(kind)}")


def tuple_of(owner: str, name: str, values: Any, kind: type = object) -> tuple[Any, ...]:
    """A list's entries, each of a class. Raises `DescriptionError`."""
    try:
        entries = tuple(values)
    except TypeError:
        entry = "" if kind is object else f", each entry {_text(kind)}"
        raise DescriptionError(f"{owner}: {name} is {shown(values)}; it must be a list{entry}") from None
    require_types(owner, **{f"{name}[{index}]": (entry, kind) for index, entry in enumerate(entries)})
    return entries


def path_of(owner: str, name: str, value: Any) -> Path:
    """A text or a path as a path. Raises `DescriptionError`."""
    try:
        return Path(value)
    except TypeError:
        raise DescriptionError(f"{owner}: {name} is {shown(value)}; it must be the path of a file") from None


def _text(kind: Any) -> str:
    """A class or a union of classes in words: "a CostModel or None"."""
    names = [member.__name__ for member in get_args(kind) or (kind,)]
    words = [f"{'an' if name[0] in 'AEIOU' else 'a'} {name}" for name in names if name != "NoneType"]
    return " or ".join(words + ["None"] * ("NoneType" in names))
