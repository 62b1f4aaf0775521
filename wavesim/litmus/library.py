"""The litmus tests that wavesim ships: published ones, which check the model, and its own protocols.

Example: `published()` has "MP+fences" of the PTX manual with the outcomes that the manual allows and forbids.
`published.toml` and `protocols.toml` hold them.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.litmus.enumeration import Outcome
from wavesim.litmus.program import LitmusTest, LitmusThread
from wavesim.litmus.statement import ValueTest

_PART = re.compile(r"(\w+)(>=|<=|!=|=|<|>)(-?\d+)", re.ASCII)


@dataclass(frozen=True)
class Condition:
    """Some registers' values: `r=1 s!=0`. It holds of an outcome that has all of them so."""

    text: str

    def holds(self, outcome: Outcome) -> bool:
        """Registers that were not loaded, behind a guard, fulfil nothing."""
        values = dict(outcome)
        return all(name in values and compared.holds(values[name]) for name, compared in self._parts())

    def _parts(self) -> list[tuple[str, ValueTest]]:
        parts = [_PART.fullmatch(part) for part in self.text.split()]
        if not parts or None in parts:
            raise DescriptionError(f"litmus condition {self.text!r}: write it like r=1 s!=0")
        return [(part[1], ValueTest(part[2], int(part[3]))) for part in parts if part]


@dataclass(frozen=True)
class PublishedTest:
    """A test, where it is from, and what is known of it: outcomes that are allowed, outcomes that are not."""

    name: str
    source: str
    test: LitmusTest
    allowed: tuple[Condition, ...]
    forbidden: tuple[Condition, ...]


def test_of(fields: Mapping[str, Any]) -> LitmusTest:
    """A litmus test from a table: `threads` with `at` and `code`, `memory` and so on. Code is lines."""
    threads = []
    for number, thread in enumerate(fields["threads"]):
        lines = (line.partition("#")[0].strip() for line in re.split(r"[;\n]", thread["code"]))
        threads.append(
            LitmusThread(
                thread.get("name", f"thread {number}"),
                thread["at"],
                tuple(filter(None, lines)),
                thread.get("kernel", ""),
                tuple(thread.get("after", ())),
            )
        )
    return LitmusTest(
        tuple(threads),
        fields.get("memory", {}),
        frozenset(fields.get("shared", ())),
        fields.get("aliases", {}),
        tuple(fields.get("final", ())),
    )


@cache
def published() -> tuple[PublishedTest, ...]:
    """The published tests, in the order of their file."""
    return tuple(
        PublishedTest(
            fields["name"],
            fields["source"],
            test_of(fields),
            tuple(map(Condition, fields["allowed"])),
            tuple(map(Condition, fields["forbidden"])),
        )
        for fields in tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))[
            "test"
        ]
    )
