"""One table of a description, read field by field: what is there, of what kind, and in which bounds.

Example: `wait = "barrier"` is refused by name, with the words that are known; so is `kernel_ms`: the nearest
is `kernel_us`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError, RecordingError
from wavesim.safe_io.bounds import bounded_text, real, shown
from wavesim.safe_io.escaping import one_line

LONGEST_NAME = 40  # of an unknown field, for which a near one is looked up
KIND_TEXT: Mapping[Any, str] = {str: "a text", int: "an integer", list: "a list", bool: "true or false"}


@dataclass(frozen=True)
class Field:
    """One field, as pages and error messages know it.

    `default` is "required" or what holds without it, `absence` what that costs in certainty, `example` what
    to write. Of a kind's table: `value` is the work's name for it where that is another; it is one of
    `words`, or a number within `bounds`, or whole; `usual` holds without it where the work has no default.
    """

    name: str
    unit: str
    meaning: str
    default: str
    absence: str = "-"
    example: str = ""
    value: str = ""
    words: Sequence[str] = ()
    bounds: Sequence[float] = ()
    usual: int | None = None

    @property
    def attribute(self) -> str:
        """The work's name for it."""
        return self.value or self.name


@dataclass(frozen=True)
class DescriptionTable:
    """A table's values; `where` is its place in the file: "", "stages[0].". `fields` are what it may have.

    Every method raises `RecordingError` with file, field, value and what to write.
    """

    path: Path
    where: str
    values: Mapping[str, Any]
    fields: tuple[Field, ...] = ()

    @classmethod
    def of(cls, path: Path, where: str, value: object, fields: tuple[Field, ...]) -> "DescriptionTable":
        """A value that is a table with no fields but these."""
        if not isinstance(value, dict):
            raise RecordingError(f"{path}: field '{where.rstrip('.')}' is {shown(value)}; expected a table")
        known = [field.name for field in fields]
        for name in value:
            if name not in known:
                near = get_close_matches(name[:LONGEST_NAME], known, 1)
                raise RecordingError(
                    f"{path}: field {shown(where + name)} is unknown; known are {', '.join(known)}"
                    + (f". The nearest is {near[0]}" if near else "")
                )
        return cls(path, where, value, fields)

    def has(self, *names: str) -> bool:
        """Whether any of these fields is there."""
        return any(name in self.values for name in names)

    def field(self, name: str) -> str:
        """The field with its place, for an error's line."""
        return f"{self.path}: field '{self.where}{name}'"

    def wrong(self, name: str, text: str) -> RecordingError:
        """The error that a field's value is what it is, and `text`."""
        return RecordingError(f"{self.field(name)} is {shown(self.values[name])}; {text}")

    def missing(self, name: str, text: str = "") -> RecordingError:
        """The error that a field is not there; `text` says why it has to be."""
        write = next((field.example for field in self.fields if field.name == name), name)
        return RecordingError(f"{self.field(name)} is missing; write {write}{text}")

    def required(self, name: str, kind: type) -> Any:
        """A value of a kind, which must be there."""
        if name not in self.values:
            raise self.missing(name)
        return self.optional(name, kind)

    def optional(self, name: str, kind: type) -> Any:
        """A value of a kind; None where it is not there."""
        value = self.values.get(name)
        is_kind = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if name in self.values and not is_kind:
            raise self.wrong(name, f"expected {KIND_TEXT[kind]}")
        return value

    def text(self, name: str) -> str:
        """A text of bounded length, which must be there."""
        return bounded_text(self.field(name), self.required(name, str))

    def integers(self, name: str, least: int, most: int, expected: str) -> list[int] | None:
        """A list of so many integers, if it is there."""
        values: list[Any] | None = self.optional(name, list)
        if values is None:
            return None
        if not least <= len(values) <= most or any(type(value) is not int for value in values):
            raise self.wrong(name, f"expected {expected}")
        return values

    def number(self, name: str, least: float, most: float) -> float | None:
        """A number in its bounds, if it is there."""
        if name not in self.values:
            return None
        value = self.values[name]
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.wrong(name, "expected a number")
        try:
            return real(self.field(name), value, least, most)
        except DescriptionError as error:
            raise RecordingError(str(error)) from None

    def numbers(self, name: str, least: float, most: float) -> tuple[float, ...]:
        """A list of numbers in their bounds; none where it is not there."""
        values: list[Any] = self.optional(name, list) or []
        if any(not isinstance(value, int | float) or isinstance(value, bool) for value in values):
            raise self.wrong(name, "expected a list of numbers")
        try:
            return tuple(real(self.field(name), value, least, most) for value in values)
        except DescriptionError as error:
            raise RecordingError(str(error)) from None

    def word(self, name: str, known: Sequence[str]) -> Any:
        """One of the known words, if it is there."""
        value = self.optional(name, str)
        if value is not None and value not in known:
            near = get_close_matches(value[:LONGEST_NAME], known, 1)
            hint = f". The nearest is {near[0]}" if near else ""
            raise self.wrong(name, f"known are {', '.join(known)}{hint}")
        return value

    def stage(self, name: str, stages: Mapping[str, Any]) -> Any:
        """The stage that a field names."""
        result = self.text(name)
        if result not in stages:
            raise self.wrong(name, f"the stages are {one_line(', '.join(stages))}")
        return stages[result]
