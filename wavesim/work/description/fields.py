"""The fields of a description: what each means, its unit, and what a prediction loses where it is left out.

Example: `wait` says where a kernel's blocks wait. Without it the interval of a prediction covers three
places. A kind of work has its fields in a `fields.toml` of its own. `docs/describe-your-kernels.md` has the
tables; a test keeps the two in step.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.safe_io.documents import read_toml
from wavesim.work.description.table import Field

FILE = Path(__file__).with_suffix(".toml")
COLUMNS = ("field", "unit", "meaning", "default", "without it")


@cache
def read_fields(path: Path) -> Mapping[str, tuple[Field, ...]]:
    """The fields that a file lists, by section; "stages" are those of a stage's own table."""
    sections: Mapping[str, Mapping[str, Any]] = read_toml(path)
    return {
        section: tuple(Field(name, **own) for name, own in entries.items())
        for section, entries in sections.items()
    }


def fields_table(fields: tuple[Field, ...]) -> str:
    """Some fields as Markdown."""
    rows = [(f"`{field.name}`", field.unit, field.meaning, field.default, field.absence) for field in fields]
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
