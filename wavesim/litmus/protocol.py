"""wavesim's own synchronisation and published litmus tests: what is forbidden, and which orders that takes.

Example: "A post and a wait" forbids that the consumer reads an old tile. Without the post's release, or with
block scope, it may: both are needed. `protocols.toml` holds the tests; a verdict is worked out each time.
`published.toml` has tests of the PTX manual, which check the model.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.litmus.enumeration import Outcome, find_outcome, outcomes
from wavesim.litmus.program import LitmusTest, LitmusThread, ValueTest
from wavesim.litmus.weakening import Weakening, weakenings

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


@dataclass(frozen=True)
class Protocol:
    """One protocol. `spare`: the beginning of a weakening's name, and why the code is stronger than it need
    be.

    `allowed_because`: where the model allows what is bad, "" elsewhere; `kept_by`: what it rests on instead.
    """

    name: str
    says: str
    plan: str
    files: tuple[str, ...]
    test: LitmusTest
    bad: tuple[Condition, ...]
    spare: Mapping[str, str]
    allowed_because: str
    kept_by: str

    def reason(self, form: Weakening) -> str:
        """Why the code is stronger than this weaker form, or "" where that is not said."""
        return next((why for start, why in self.spare.items() if str(form).startswith(start)), "")

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """All that the model allows, sorted."""
        return tuple(sorted(outcomes(self.test)))

    def is_bad(self, outcome: Outcome) -> bool:
        """Whether any of `bad` holds of it."""
        return any(condition.holds(outcome) for condition in self.bad)

    @cached_property
    def is_safe(self) -> bool:
        """Whether nothing bad is allowed."""
        return not any(map(self.is_bad, self.outcomes))

    @cached_property
    def weaker(self) -> tuple[tuple[Weakening, Outcome | None], ...]:
        """Each weaker form, and something bad that it allows: then what it lacks is needed. Else None."""
        return tuple((form, find_outcome(form.test, self.is_bad)) for form in weakenings(self.test))


@cache
def protocols() -> tuple[Protocol, ...]:
    """All of them, in the order of their file."""
    text = Path(__file__).with_name("protocols.toml").read_text(encoding="utf-8")
    return tuple(
        Protocol(
            fields["name"],
            fields["says"],
            fields["plan"],
            tuple(fields["files"]),
            test_of(fields),
            tuple(map(Condition, fields["bad"])),
            fields.get("spare", {}),
            fields.get("allowed_because", ""),
            fields.get("kept_by", ""),
        )
        for fields in tomllib.loads(text)["protocol"]
    )
