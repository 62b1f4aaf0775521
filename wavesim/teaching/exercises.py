"""Exercises that grade themselves: a wrong answer fails with a hint, never with the solution.

Example: `check("2.1", 264)` shows "2.1: right. 132 SMs × 2 blocks"; `check("2.1", 132)` raises `WrongAnswer`
with a hint, in one line and without a traceback; `check("2.1", ...)` says that it is open, so that a notebook
that nobody has answered yet still runs from top to bottom. Tasks and hints are in `exercises.toml`; each
lesson's module works out the facts that answers are compared with, and grades what is no value.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError, WavesimError
from wavesim.safe_io.annotated import require_types, typed
from wavesim.safe_io.bounds import is_plain
from wavesim.safe_io.escaping import element
from wavesim.teaching.solved_file import remember

# Notebook number -> the module with its facts and graders, by exercise in `GRADERS`.
LESSONS = {
    1: "start",
    2: "wave_steps",
    3: "readiness",
    4: "launch_order",
    5: "litmus",
    6: "orders",
    7: "policies",
    8: "generator",
    9: "rival_plans",
    10: "paper_tables",
    11: "clock",
    12: "profiles",
    13: "triton_pair",
    14: "several_gpus",
    15: "proof",
    16: "attention_rows",
    17: "stream_programs",
    18: "staying",
    19: "latency",
    20: "sums",
    21: "device_launches",
    22: "waiting",
    23: "mending",
    24: "decode_layers",
    25: "expert_rows",
}
MOST = 1_000_000  # of a number that has no bound of its own
MANY = {2: "two", 3: "three", 4: "four"}


class WrongAnswer(WavesimError, AssertionError):  # noqa: N818  # a word for readers
    """An answer that is not right; the message is a hint."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback: the hint alone."""
        return [f"✗ {self}"]


@dataclass(frozen=True)
class Feedback:
    """What a reader is told about an answer that is right, or still missing."""

    is_right: bool
    text: str

    def _repr_html_(self) -> str:
        mark, colour = ("✓", "#0B7A66") if self.is_right else ("○", "#6B7280")
        return str(element("p", element("b", mark, style=f"color:{colour}"), f" {self.text}"))

    def __repr__(self) -> str:
        return f"{'✓' if self.is_right else '○'} {self.text}"


@dataclass(frozen=True)
class Exercise:
    """One task. `grade` returns why an answer is right and raises `WrongAnswer` with a hint if it is not.

    `hints` are those of the table, with … for values.
    """

    number: str
    task: str
    grade: Callable[[Any], str]
    hints: tuple[str, ...] = ()
    untouched: str = ""  # a program to mend, as it was

    def check(self, answer: Any) -> Feedback:
        """Feedback on a right or missing answer. Raises `WrongAnswer` for every other one."""
        if answer is ... or answer is None or (isinstance(answer, tuple) and ... in answer):
            return Feedback(is_right=False, text=f"{self.number} is open: replace the ... with your answer.")
        if self.untouched and isinstance(answer, str) and answer.split() == self.untouched.split():
            return Feedback(is_right=False, text=f"{self.number} is open: the program is as it was.")
        try:
            why = self.grade(plain(answer))
        except WavesimError as hint:  # a wrong answer, or what wavesim says of a value that cannot be
            raise WrongAnswer(f"{self.number}: {hint}") from None
        except Exception as error:
            raise WrongAnswer(
                f"{self.number}: the answer cannot be graded ({type(error).__name__}: {error}). Is it of the "
                "kind that the task shows, and does each function in it return a value for every tile?"
            ) from error
        return Feedback(is_right=True, text=f"{self.number}: right. {why}")


@typed
def check(number: str, answer: Any) -> Feedback:
    """Grades the answer to an exercise such as "2.1". Raises `WrongAnswer`, or `DescriptionError` for an
    unknown number.
    """
    feedback = exercise(number).check(answer)
    if not feedback.is_right:
        return feedback
    lesson = {one.number for one in exercises_of(int(number.partition(".")[0]))}
    return replace(feedback, text=f"{feedback.text}{remember(number, lesson)}")


@typed
def exercise(number: str) -> Exercise:
    """The exercise of that number. Raises `DescriptionError`."""
    require_types("check", number=(number, str))
    lesson = number.partition(".")[0]
    found = exercises_of(int(lesson)) if is_plain(lesson) and int(lesson) in LESSONS else ()
    for one in found:
        if one.number == number:
            return one
    known = [one.number for one in found] or f"1.1 to {max(LESSONS)}.1 and on"
    raise DescriptionError(f"exercise is {number!r}; there are {known}")


@typed
def exercises_of(lesson: int) -> tuple[Exercise, ...]:
    """All exercises of a notebook, by its number."""
    graders = import_module(f"wavesim.teaching.{LESSONS[lesson]}").GRADERS
    return tuple(
        Exercise(
            entry["number"],
            entry["task"],
            _grade(entry, graders[entry["number"]]),
            _hints(entry),
            entry.get("code", ""),
        )
        for entry in _entries()
        if entry["number"].partition(".")[0] == str(lesson)
    )


@cache
def _entries() -> list[dict[str, Any]]:
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    entries: list[dict[str, Any]] = table["exercises"]
    mended = tomllib.loads(Path(__file__).with_name("puzzles.toml").read_text(encoding="utf-8"))
    asked = ("number", "task", "code")
    return [*entries, *({name: puzzle[name] for name in asked} for puzzle in mended["puzzles"])]


def _grade(entry: Mapping[str, Any], grader: Callable[..., Any]) -> Callable[[Any], str]:
    return partial(_graded, entry, grader) if "parts" in entry else grader


def _hints(entry: Mapping[str, Any]) -> tuple[str, ...]:
    parts = [entry, *entry.get("parts", [])]
    hints = [hint for part in parts for _, _, hint in part.get("checks", [])]
    told = (re.sub(r"\{[^}]*\}", "…", hint) for hint in hints)
    return tuple(hint for hint in dict.fromkeys(told) if hint != "…")


def _graded(entry: Mapping[str, Any], facts_of: Callable[..., Mapping[str, Any]], answer: Any) -> str:
    """Why values are right. `facts_of` takes them all where there is one, or where checks are of them all."""
    parts, together = entry["parts"], entry.get("checks", [])
    given = several(answer, len(parts), entry["asks"]) if len(parts) > 1 else [answer]
    values = list(map(_value, parts, given)) if together or len(parts) == 1 else []
    facts = facts_of(*values)
    for check_of_all in together:
        _check(check_of_all, None, {}, facts)
    for place in entry.get("order", range(len(parts))):
        value = _value(parts[place], given[place])
        for check_of_part in parts[place]["checks"]:
            _check(check_of_part, value, parts[place], facts)
    return _text(entry["right"], given[0] if len(parts) > 1 else value, facts)


def _value(part: Mapping[str, Any], given: Any) -> Any:
    """A value of the kind that is asked for. Raises `WrongAnswer`."""
    kind = part.get("kind", "whole")
    if kind == "whole":
        return whole(given, part["low"], part.get("high", MOST))
    if kind == "number":
        return number(given, part["of"])
    return word(given, part["known"]) if kind == "word" else given


def _check(check: Sequence[str], value: Any, part: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    operation, name, hint = check
    fact = facts[name]
    if operation in ("is", "not"):
        is_right = _is_near(value, fact, part) is (operation == "is")
    elif operation == "true":
        is_right = bool(fact)
    else:
        is_right = value >= fact if operation == "least" else value <= fact
    if not is_right:
        raise WrongAnswer(_text(hint, value, facts))


def _is_near(value: Any, fact: Any, part: Mapping[str, Any]) -> bool:
    if not (_is_number(value) and _is_number(fact)):
        return bool(value == fact)
    return bool(abs(value - fact) <= part.get("within", 0) + part.get("share", 0) * abs(fact))


def _text(words: str, given: Any, facts: Mapping[str, Any]) -> str:
    """The words with their facts; per cent stand apart from their number."""
    return re.sub(r"(?<=\d)%", " %", words.format(given=given, **facts))


def require(is_right: bool, hint: str) -> None:
    """Raises `WrongAnswer` with the hint unless it is right."""
    if not is_right:
        raise WrongAnswer(hint)


def whole(answer: Any, low: int, high: int) -> int:
    """The answer as a whole number from `low` to `high`. Raises `WrongAnswer`."""
    is_whole = _is_number(answer) and answer == answer // 1
    require(is_whole, f"{answer!r} is not a whole number.")
    require(low <= answer <= high, f"{answer} is not between {low} and {high}.")
    return int(answer)


def number(answer: Any, of: str) -> float:
    """The answer as a number of `of`, such as "points". Raises `WrongAnswer`."""
    require(_is_number(answer), f"{answer!r} is not a number of {of}.")
    return float(answer)


def word(answer: Any, known: Collection[str]) -> str:
    """The one of `known` that the answer names, in large or small letters. Raises `WrongAnswer`."""
    named = answer.strip().casefold() if isinstance(answer, str) else None
    found = [one for one in known if one.casefold() == named]
    require(bool(found), f"{answer!r} is none of {', '.join(map(repr, known))}.")
    return found[0]


def plain(answer: Any) -> Any:
    """The answer with NumPy's numbers and arrays as Python's, also inside of a tuple or list."""
    if isinstance(answer, tuple | list):
        return type(answer)(map(plain, answer)) if type(answer) in (tuple, list) else answer
    return answer.tolist() if hasattr(answer, "tolist") else answer


def _is_number(answer: Any) -> bool:
    return isinstance(answer, Real) and not isinstance(answer, bool) and isfinite(answer)


def several(answer: Any, count: int, meaning: str) -> list[Any]:
    """So many values, "4" in quotes as 4. Raises `WrongAnswer` that says what they are."""
    is_many = isinstance(answer, tuple | list) and len(answer) == count
    require(is_many, f"{MANY[count]} values are asked for: {meaning}.")
    return list(map(_unquoted, answer))


def _unquoted(answer: Any) -> Any:
    """The number that a text is, or the answer as it is."""
    try:
        value = float(answer) if isinstance(answer, str) else None
    except ValueError:
        return answer
    if value is None or not isfinite(value):
        return answer
    return int(value) if value == value // 1 else value
