"""wavesim's own synchronisation as litmus tests: what is forbidden, and which orders, fences and scopes that
takes.

Example: "A post and a wait" forbids that the consumer reads an old tile. Without the post's release, or with
block scope, it may: both are needed. `protocols.toml` holds the tests; a verdict is worked out each time.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from wavesim.litmus.enumeration import Outcome, find_outcome, outcomes
from wavesim.litmus.library import Condition, test_of
from wavesim.litmus.program import LitmusTest
from wavesim.litmus.weakening import Weakening, weakenings


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
