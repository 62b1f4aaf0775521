"""Arguments are checked before a body runs: against the annotations of `@typed` functions, or by a call.

Example: `LatencyExplorer(gpu=(132,))` ends with "LatencyExplorer: gpu is (132,); it must be (int, int)", and
`simulate(pipeline, plan, "h200")` with "simulate: device is 'h200'; it must be a Device".
"""

import collections.abc
import dataclasses
import functools
import inspect
import math
import numbers
import types
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

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
    names = [member.__name__ for member in get_args(kind) or (kind,)]
    words = [f"{'an' if name[0] in 'AEIOU' else 'a'} {name}" for name in names if name != "NoneType"]
    return " or ".join(words + ["None"] * ("NoneType" in names))


P = ParamSpec("P")
R = TypeVar("R")

KEYWORDS, POSITIONALS = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL


def typed(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, with `DescriptionError` for an argument that is missing, unknown or of another type.

    NaN is no `float`, and a truth value no number. Entries of lists, tuples and dicts are held to their
    annotation; what a callable takes and gives is not looked at.
    """
    signature = inspect.signature(function)
    owner = function.__qualname__.removesuffix(".__init__")

    @functools.cache  # on the first call, when every name in an annotation is there
    def hints() -> dict[str, Any]:
        return get_type_hints(function)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise DescriptionError(_unbound_text(owner, signature, kwargs, error)) from None
        for name, value in bound.items():
            kind = signature.parameters[name].kind
            if name in hints() and kind is not KEYWORDS:
                for entry in value if kind is POSITIONALS else (value,):
                    require_type(owner, name, entry, hints()[name])
        return function(*args, **kwargs)

    return checked


def require_fields(value: Any) -> None:
    """Each field of a dataclass is as annotated. Raises `DescriptionError`."""
    hints = get_type_hints(type(value))
    for field in dataclasses.fields(value):
        require_type(type(value).__name__, field.name, getattr(value, field.name), hints[field.name])


def require_type(owner: str, name: str, value: object, hint: Any) -> None:
    """Raises `DescriptionError` for a value that is not as annotated."""
    if not conforms(value, hint):
        raise DescriptionError(f"{owner}: {name} is {shown(value)}; it must be {hint_text(hint)}")


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is as annotated. What an annotation says beyond a type is not asked."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(conforms(value, kind) for kind in inner)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in inner)
    if origin is not None:
        return _conforms_inside(value, origin, inner)
    if hint in NUMBERS:
        return NUMBERS[hint](value)
    kind = types.NoneType if hint is None else hint
    is_open = kind is Any or not isinstance(kind, type)  # a type variable
    if is_open or (getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False)):
        return True
    return isinstance(value, kind)


def _is_integer(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_real and not (isinstance(value, float) and math.isnan(value))


NUMBERS: dict[Any, Callable[[object], bool]] = {int: _is_integer, float: _is_number}


def _conforms_inside(value: Any, origin: Any, inner: tuple[Any, ...]) -> bool:
    if origin is tuple and isinstance(value, tuple) and inner[-1] is not Ellipsis:
        return len(value) == len(inner) and all(map(conforms, value, inner))
    is_array = hasattr(value, "__getitem__") and hasattr(value, "__len__")  # which is no `Sequence`
    if isinstance(value, str | bytes) or not (
        isinstance(value, origin) or (origin is collections.abc.Sequence and is_array)
    ):
        return False  # a text is a list of texts, and never meant
    if isinstance(value, collections.abc.Mapping):
        is_meant = issubclass(origin, collections.abc.Mapping)
        return is_meant and all(map(conforms, [*value, *value.values()], _each(inner, len(value))))
    # What can be read once only is left whole.
    is_kept = isinstance(value, collections.abc.Collection) and issubclass(origin, collections.abc.Iterable)
    return not is_kept or all(conforms(entry, inner[0]) for entry in value)


def _each(inner: tuple[Any, ...], count: int) -> list[Any]:
    return [inner[0]] * count + [inner[1]] * count


def hint_text(hint: Any) -> str:
    """An annotation in words: "a Trace or None", "(int, int)", "a list, each entry a str"."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _either(map(hint_text, inner))
    if origin is Literal:
        return _either(map(repr, inner))
    if origin is None:
        name = "None" if hint is types.NoneType else getattr(hint, "__name__", str(hint))
        return name if name == "None" else f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
    if origin is tuple and inner[-1] is not Ellipsis:
        return f"({', '.join(getattr(kind, '__name__', str(kind)) for kind in inner)})"
    if origin is collections.abc.Callable:
        return "a function"
    is_dict = issubclass(origin, collections.abc.Mapping)
    kind = "dict" if is_dict else "tuple" if origin is tuple else "list"
    return f"a {kind}, each {'value' if is_dict else 'entry'} {hint_text(inner[is_dict])}"


def _either(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def _unbound_text(owner: str, signature: inspect.Signature, given: Any, error: TypeError) -> str:
    known = [name for name in signature.parameters if name != "self"]
    unknown = next((name for name in given if name not in known), None)
    there_are = f"it takes {', '.join(known)}" if known else "it takes no argument"
    if unknown is None:
        return f"{owner}: {error}; {there_are}"
    near = get_close_matches(unknown, known, 1)
    hint = f"did you mean {near[0]!r}? {there_are[0].upper()}{there_are[1:]}" if near else there_are
    return f"{owner} has no argument {shown(unknown)}; {hint}"
