"""The quiz: what each notebook leaves behind, with what is wrong about every wrong answer.

Example: "132 SMs, one block per SM. What does the 133rd block cost?"; who chooses "1/132 of a wave" reads
that this is its share of the work, not its time. `Quiz(2)` asks it in a notebook, docs/course/quiz.html
without one.
"""

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import shown
from wavesim.teaching.exercises import LESSONS, exercises_of
from wavesim.widgets.drawn import DrawnWidget
from wavesim.widgets.scripts import script, style

FILE = Path(__file__).with_name("quiz.toml")


@dataclass(frozen=True)
class QuizQuestion:
    """One question: the right answer and why it is, and wrong ones, each with why it is not."""

    notebook: int
    asks: str
    right: str
    because: str
    wrong: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        """What its answer is kept under: of another wording, another question."""
        return hashlib.sha256(self.asks.encode()).hexdigest()[:12]

    @property
    def choices(self) -> list[dict[str, Any]]:
        """All answers, in an order that says nothing and stays the same."""
        found = [{"says": self.right, "why": self.because, "isRight": True}]
        found += [{"says": says, "why": why, "isRight": False} for says, why in self.wrong]
        return sorted(
            found, key=lambda choice: hashlib.sha256(f"{self.key}{choice['says']}".encode()).digest()
        )


@cache
def questions() -> tuple[QuizQuestion, ...]:
    """All of them, by notebook."""
    entries: list[Mapping[str, Any]] = tomllib.loads(FILE.read_text(encoding="utf-8"))["questions"]
    return tuple(
        QuizQuestion(
            entry["notebook"],
            entry["asks"],
            entry["right"],
            entry["because"],
            tuple((says, why) for says, why in entry["wrong"]),
        )
        for entry in entries
    )


class Quiz(DrawnWidget):
    """The questions of notebooks, by their numbers, or of all; answers are kept in the browser.

    `titles` are the title of a notebook's questions. Raises `DescriptionError` for a number that no
    notebook has.
    """

    _esm = script("picture.js", "quiz.js")
    _css = style("quiz.css")

    def __init__(self, *notebooks: int, titles: Mapping[int, str] = MappingProxyType({})) -> None:
        for number in notebooks:
            if number not in LESSONS:
                raise DescriptionError(f"Quiz: notebook is {shown(number)}; there are {list(LESSONS)}")
        chosen = [number for number in LESSONS if not notebooks or number in notebooks]
        sections = [_section(number, titles.get(number, f"Notebook {number}")) for number in chosen]
        super().__init__(scene={"lessons": sections})


def _section(number: int, title: str) -> dict[str, Any]:
    asked = [one for one in questions() if one.notebook == number]
    return {
        "title": title,
        "questions": [{"key": one.key, "asks": one.asks, "choices": one.choices} for one in asked],
        "exercises": [{"number": one.number, "task": one.task} for one in exercises_of(number)],
    }
