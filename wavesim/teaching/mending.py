"""Notebook 23: short programs with one bug each, mended as text and graded by wavesim's own tools at once.

Example: puzzle 23.3 has its fence behind the flag. The memory model finds the run in which the tile is old,
lint says "fence-misplaced" of the same instructions as PTX, and an answer is right when neither finds a fault
and the threads still do their work. Launches are judged as `wavesim why-hang` does, plans are simulated.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from wavesim.errors import DeadlockError, DescriptionError, WavesimError
from wavesim.lint.check import findings_of
from wavesim.lint.finding import Known
from wavesim.lint.ptx import listing_of_ptx
from wavesim.litmus import LitmusTest, outcomes
from wavesim.litmus.program import Statement
from wavesim.litmus.protocol import Condition, test_of
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.documents import toml_value
from wavesim.safety.hang.situation import Situation
from wavesim.safety.hang.situation_file import situation_of
from wavesim.safety.hang.verdict import judge
from wavesim.teaching.exercises import WrongAnswer, require
from wavesim.teaching.protocol_ptx import DATA, FLAGS, ptx_of
from wavesim.widgets.scenario import Answer, answer
from wavesim.widgets.what_if import start_scenario

MOST_LETTERS, MOST_LINES = 4_000, 120
MOST_ADDED = 4  # instructions; runs of many more fences are too many to try
HEADER = re.compile(r"(?P<name>[A-Za-z][\w ]*):\s*")
ROUNDING = 1e-9  # of a gain in per cent
PLAN_FIELDS = ("workload", "tokens", "tile", "device", "order", "policy", "wait_kernel", "head_start")


@dataclass(frozen=True)
class Puzzle:
    """A program with a bug. `fields` is its table in puzzles.toml, where each field is explained."""

    fields: Mapping[str, Any]

    @property
    def number(self) -> str:
        """Its number as an exercise, such as "23.1"."""
        return str(self.fields["number"])

    @property
    def code(self) -> str:
        """What is to be mended."""
        return str(self.fields["code"]).lstrip("\n")

    @property
    def solution(self) -> str:
        """A right answer."""
        text = self.code
        for old, new in self.fields["solution"]:
            text = text.replace(old, new)
        return text

    @property
    def kind(self) -> str:
        """What it is about, and so what grades it: "memory", "launches" or "plans"."""
        return str(self.fields["kind"])

    def grade(self, given: Any) -> str:
        """Why the answer is right. Raises `WrongAnswer` with a hint."""
        require(isinstance(given, str), "the answer is a text: the program, mended.")
        require(
            len(given) <= MOST_LETTERS and given.count("\n") <= MOST_LINES,
            f"{len(given):,} letters are more than this program needs.",
        )
        try:
            KINDS[self.kind](self, given)
        except WrongAnswer:
            raise
        except WavesimError as error:
            require(is_right=False, hint=f"{error}")
        return str(self.fields["right"])

    def refuse(self, found: str) -> None:
        """Says what was found, and the puzzle's hint."""
        require(is_right=False, hint=f"{found} {self.fields['hint']}")


@cache
def puzzles() -> tuple[Puzzle, ...]:
    """All of them, in the order of their file."""
    table = tomllib.loads(Path(__file__).with_name("puzzles.toml").read_text(encoding="utf-8"))
    return tuple(map(Puzzle, table["puzzles"]))


@typed
def puzzle(number: str) -> Puzzle:
    """The one of that number. Raises `DescriptionError`."""
    found = [one for one in puzzles() if one.number == number]
    if not found:
        raise DescriptionError(f"puzzle is {number!r}; there are 23.1 to {puzzles()[-1].number}")
    return found[0]


@typed
def bug(number: str) -> str:
    """The program to mend. Raises `DescriptionError`."""
    return puzzle(number).code


# --- memory ---


def _grade_memory(asked: Puzzle, given: str) -> None:
    before, after = threads_of(asked, asked.code), threads_of(asked, given)
    _require_same_work(asked, before, after)
    sizes = [sum(len(thread.statements) for thread in test.threads) for test in (before, after)]
    require(
        sizes[1] <= sizes[0] + MOST_ADDED,
        f"{sizes[1]} instructions are more than this program needs: at most {MOST_ADDED} may be added.",
    )
    found = outcomes(after)
    require(bool(found), "no run of this ends: a wait or a barrier lasts for ever.")
    for outcome in sorted(found):
        missing = _results(asked, before) - dict(outcome).keys()
        require(not missing, f"there are runs in which {', '.join(sorted(missing))} is never loaded.")
    for bad in bad_ends(asked, after):
        asked.refuse(f"memory model: a run can still end with {bad}.")
    if asked.fields.get("lint"):
        _lint(asked, after)


def bad_ends(asked: Puzzle, test: LitmusTest) -> list[str]:
    """What runs of it can end with and should not."""
    found = outcomes(test)
    conditions = map(Condition, asked.fields["bad"])
    return [condition.text for condition in conditions if any(map(condition.holds, found))]


def threads_of(asked: Puzzle, text: str) -> LitmusTest:
    """The threads of a text, each under its header, where the puzzle puts them."""
    code: dict[str, list[str]] = {}
    for line in (line.partition("#")[0].strip() for line in text.splitlines()):
        header = HEADER.fullmatch(line)
        if header:
            code[header["name"]] = []
        elif line:
            require(bool(code), f"{line!r} belongs to no thread: begin with a name and a colon.")
            code[list(code)[-1]].append(line)
    names = [thread["name"] for thread in asked.fields["threads"]]
    require(list(code) == names, f"the threads are {', '.join(names)}, in this order.")
    threads = [{**thread, "code": "\n".join(code[thread["name"]])} for thread in asked.fields["threads"]]
    return test_of({**asked.fields, "threads": threads, "final": ()})


def _require_same_work(asked: Puzzle, before: LitmusTest, after: LitmusTest) -> None:
    """Every thread still makes its accesses of the data, and flags are still posted by those who did."""
    for old, new in zip(before.threads, after.threads, strict=True):
        had, has = (Counter(_work(asked, thread.statements)) for thread in (old, new))
        missing, added = had - has, has - had
        require(not missing, f"{old.name} no longer does: {', '.join(missing)}.")
        require(
            not added, f"{old.name} now also does: {', '.join(added)}. Only the synchronisation is wrong."
        )


def _work(asked: Puzzle, statements: Sequence[Statement]) -> list[str]:
    data = {f"[{name}]" for name in asked.fields["data"]}
    kept = []
    for statement in statements:
        if data & set(statement.operands):
            guard = "a condition on " if statement.guard else ""
            looped = "a loop around " if statement.awaited else ""
            kept.append(f"{guard}{looped}{statement.what} {', '.join(statement.operands)}")
    return kept


def _results(asked: Puzzle, test: LitmusTest) -> set[str]:
    """Registers that data is loaded into."""
    data = set(asked.fields["data"])
    statements = (statement for thread in test.threads for statement in thread.statements)
    return {
        statement.values[0]
        for statement in statements
        if statement.values and data & set(statement.variables) and statement.what in ("ld", "wgmma")
    }


def _lint(asked: Puzzle, test: LitmusTest) -> None:
    """The same instructions as PTX, by lint."""
    known = Known(produced=frozenset(DATA), flags=frozenset(FLAGS))
    listing = listing_of_ptx(ptx_of(test, asked.fields["data"]), f"puzzle {asked.number}")
    wrong = [
        found for found in findings_of(listing, known) if found.verdict == "wrong" and found.kind != "spin"
    ]
    if wrong:
        asked.refuse(f"lint: {wrong[0].rule} in {wrong[0].kernel}: {wrong[0].why}.")


# --- launches ---


def _grade_launches(asked: Puzzle, given: str) -> None:
    before, after = (launches_of(asked, text) for text in (asked.code, given))
    _require_same_launches(asked, before, after)
    verdict = judge(after, with_remedies=False)
    if verdict.can_hang is None:
        asked.refuse("why-hang: this cannot be judged.")
    if verdict.can_hang:
        asked.refuse("why-hang: this can still hang.")


def launches_of(asked: Puzzle, text: str) -> Situation:
    """The launches of a text, as a file of `wavesim why-hang` has them. Raises `RecordingError`."""
    return situation_of(
        Path(f"puzzle {asked.number}"), toml_value(f'name = "{asked.fields["name"]}"\n{text}', "the answer")
    )


def _require_same_launches(asked: Puzzle, before: Situation, after: Situation) -> None:
    may, least = asked.fields["may_change"], asked.fields.get("least", {})
    old, new = ({op.name: op for op in situation.operations} for situation in (before, after))
    require(old.keys() == new.keys(), f"the launches are {', '.join(old)}.")
    require("order" in may or list(old) == list(new), "the order of the launches is given.")
    for name, operation in new.items():
        changed = {
            field: getattr(old[name], field)
            for field in operation.__dataclass_fields__
            if field in may or f"{name}.{field}" in may
        }
        words = ", ".join(WRITTEN.get(word.rpartition(".")[2], word) for word in may)
        require(replace(operation, **changed) == old[name], f"{name}: only {words} may change here.")
        require(operation.blocks >= least.get(name, 0), f"{name} needs at least {least.get(name)} blocks.")
    for part in ("waits", "devices", "semaphores"):
        both = {tuple(sorted(map(str, getattr(situation, part)))) for situation in (before, after)}
        require(len(both) == 1, f"the {part} are given.")


# How a file of `why-hang` writes fields of a launch.
WRITTEN = {
    "blocks": "grid",
    "is_blocking": "blocking",
    "is_dependent": "dependent",
    "order": "the order of launches",
}


# --- plans ---


def plan_answer(asked: Puzzle, text: str) -> Answer:
    """Both simulated plans. Raises `WavesimError`; `WrongAnswer` where something else was changed."""
    before, values = tomllib.loads(asked.code), toml_value(text, "the answer")
    for name, value in values.items():
        require(name in PLAN_FIELDS, f"{name!r} is none of {', '.join(PLAN_FIELDS)}.")
        may = name in asked.fields["may_change"]
        require(may or value == before.get(name), f"{name} is given: {before.get(name)!r}.")
    kept = {name: value for name, value in before.items() if name not in asked.fields["may_change"]}
    return answer(start_scenario(**kept | values))


def _grade_plans(asked: Puzzle, given: str) -> None:
    try:
        both = plan_answer(asked, given)
    except DeadlockError:
        asked.refuse("simulator: this deadlocks.")
        return
    gain = 100 * (1 - both.chosen.time_ns / both.stream.time_ns)
    if gain < asked.fields["least_gain"] - ROUNDING:
        asked.refuse(
            f"simulator: {gain:+.1f} % over one stream; {asked.fields['least_gain']:g} are asked for."
        )
    if not both.safety.is_safe:
        asked.refuse(f"{both.safety.text}.")


KINDS: Mapping[str, Callable[[Puzzle, str], None]] = {
    "memory": _grade_memory,
    "launches": _grade_launches,
    "plans": _grade_plans,
}
GRADERS = {one.number: partial(Puzzle.grade, one) for one in puzzles()}
