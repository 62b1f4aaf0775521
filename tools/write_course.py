"""Writes docs/course/: the course, the instructor's page and the quiz, from notebooks, graders and questions.

Example: `python tools/write_course.py` (`make course`) after an objective or exercise has changed;
`--check` writes nothing and exits with 1 where a page is old.
"""

import argparse
import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat

from wavesim.safe_io.writing import write_text
from wavesim.teaching.exercises import LESSONS, Exercise, exercises_of
from wavesim.teaching.quiz import Quiz, QuizQuestion, questions
from wavesim.view.page_shell import whole_page

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "course"
SAID = "The questions are worked out by hand; nothing in them is measured."
INTRODUCTION = """\
One lecture, three labs, or eight weeks, made of the [notebooks](../../notebooks). Nothing here needs a
GPU; with one, some cells measure live. Tables are made from the notebooks themselves, so they follow
them. For teachers: [what students get wrong](instructors.md). For students: [the quiz](quiz.html), which
grades itself and keeps your answers in your browser, with the exercises to tick off."""
ADVICE = """\
Let them commit before they run: every notebook asks for a number first, and a wrong one is worth more
than a right one that was read off. Graders never show an answer, only hints; [solutions](../../solutions)
are files of their own."""
HINTS_ARE = """\
What each exercise's grader says of the wrong answers that it knows (… stands for the student's own
values), and what is wrong about the quiz's wrong choices."""
HINTS = {"require": 1, "WrongAnswer": 0}  # which argument says what is wrong


@dataclass(frozen=True)
class Lesson:
    """What a notebook says of itself in its first cell."""

    number: int
    name: str
    question: str
    needs: str
    minutes: int
    objectives: tuple[str, ...]

    @property
    def link(self) -> str:
        """The notebook, from a page of the course."""
        return f"[{self.question}](../../notebooks/{self.name})"


def lesson_of(path: Path) -> Lesson:
    """A notebook's number, question, needs, minutes and objectives."""
    first = nbformat.read(path, 4).cells[0].source
    needs = re.search(r"\*\*You need\*\* (.*?)\s*\*\*Time:\*\* (\d+)", first, re.DOTALL)
    assert needs is not None, f"{path.name}: its first cell does not say what it needs"
    listed = first.partition("**Afterwards you can**\n")[2].partition("\n\n")[0].splitlines()
    return Lesson(
        int(path.name[:2]),
        path.name,
        first.splitlines()[0].removeprefix("# "),
        needs[1].replace("](", "](../../notebooks/").split(" No GPU")[0].rstrip("."),
        int(needs[2]),
        tuple(line[3:].rstrip(";.") for line in listed),
    )


def course_page(lessons: dict[int, Lesson], plan: dict[str, Any]) -> str:
    """docs/course/course.md."""
    lecture = sum(part["minutes"] for part in plan["lecture"])
    parts = [
        "# A course on waves, waiting and proof",
        INTRODUCTION,
        f"## One lecture of {lecture} minutes",
        "`make slides` puts its slides into `build/slides.html`: arrow keys move, each prints on a page.",
        _table(
            ("minutes", "from", "what happens"),
            [
                (part["minutes"], lessons[part["notebook"]].link if "notebook" in part else "", part["does"])
                for part in plan["lecture"]
            ],
        ),
        "## Three labs",
        *(text for lab in plan["labs"] for text in _lab(lab, lessons)),
        "## Eight weeks",
        "A week is a lecture on its questions and a lab with its notebooks, which take so many minutes once.",
        _table(
            ("week", "topic", "notebooks", "minutes"),
            [
                (
                    week,
                    entry["title"],
                    _links(entry["notebooks"], lessons),
                    _minutes(entry["notebooks"], lessons),
                )
                for week, entry in enumerate(plan["weeks"], start=1)
            ],
        ),
        *(f"Project: {entry['project']}" for entry in plan["weeks"] if "project" in entry),
        *_beyond(lessons, plan),
        "## What each notebook teaches",
        *(_objectives(lesson) for lesson in lessons.values()),
    ]
    return "\n\n".join(parts) + "\n"


def _lab(lab: dict[str, Any], lessons: dict[int, Lesson]) -> list[str]:
    numbers = lab["notebooks"]
    chosen = [lessons[number] for number in numbers]
    goals = [f"- {goal}" for lesson in chosen for goal in lesson.objectives]
    return [
        f"### {lab['title']}",
        f"{_links(numbers, lessons)}: {_minutes(numbers, lessons)} minutes. Afterwards students can",
        "\n".join(goals),
        f"Hand in: {lab['hand_in']}",
    ]


def _beyond(lessons: dict[int, Lesson], plan: dict[str, Any]) -> list[str]:
    named = {number for week in plan["weeks"] for number in week["notebooks"]}
    rest = [number for number in lessons if number not in named]
    return [f"Beyond the eight weeks: {_links(rest, lessons)}."] if rest else []


def _objectives(lesson: Lesson) -> str:
    exercises = ", ".join(one.number for one in exercises_of(lesson.number))
    asked = sum(one.notebook == lesson.number for one in questions())
    goals = "\n".join(f"- {goal}" for goal in lesson.objectives)
    return (
        f"**{lesson.number}. {lesson.link}** ({lesson.minutes} minutes; needs {_small(lesson.needs)}). "
        f"Exercises {exercises}; {asked} in the quiz. Afterwards you can\n\n{goals}"
    )


def _small(text: str) -> str:
    return text if text.startswith(("[", "CUDA")) else text[0].lower() + text[1:]


def _links(numbers: Sequence[int], lessons: dict[int, Lesson]) -> str:
    return ", ".join(f"[{number}](../../notebooks/{lessons[number].name})" for number in numbers)


def _minutes(numbers: Sequence[int], lessons: dict[int, Lesson]) -> int:
    return sum(lessons[number].minutes for number in numbers)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def instructor_page(lessons: dict[int, Lesson]) -> str:
    """docs/course/instructors.md: misconceptions, and the wrong answers that graders and quiz know."""
    readme = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")
    misconceptions = readme.partition("and where they are met\n")[2].strip()
    parts = [
        "# For instructors: what students get wrong",
        ADVICE,
        "## Misconceptions, and where they are met",
        misconceptions.replace("](", "](../../notebooks/"),
        "## Wrong answers, by notebook",
        HINTS_ARE,
        *(text for lesson in lessons.values() for text in _wrong_answers(lesson)),
    ]
    return "\n\n".join(parts) + "\n"


def _wrong_answers(lesson: Lesson) -> Iterator[str]:
    yield f"### {lesson.number}. {lesson.question}"
    for one in exercises_of(lesson.number):
        hints = "".join(f"\n- {hint}" for hint in hints_of(one))
        yield f"**{one.number}** {one.task}" + (f"\n{hints}" if hints else "")
    for asked in (one for one in questions() if one.notebook == lesson.number):
        yield f"**Quiz:** {asked.asks}\n{_choices(asked)}"


def _choices(asked: QuizQuestion) -> str:
    wrong = [f"\n- *{says}*: {why}" for says, why in asked.wrong]
    return "".join([*wrong, f"\n- Right: **{asked.right}**. {asked.because}"])


def hints_of(one: Exercise) -> list[str]:
    """What a grader can say of a wrong answer, with … for values, in the order of its source."""
    if one.hints:
        return list(one.hints)
    module = inspect.getmodule(one.grade)
    name = getattr(one.grade, "__name__", "")
    if module is None:
        return []
    functions = _functions(module)
    seen: dict[str, None] = {}
    found = [hint for part in _called(name, functions, seen) for hint in _hints(functions[part])]
    return list(dict.fromkeys(found))


def _functions(module: ModuleType) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(inspect.getsource(module))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _called(name: str, functions: dict[str, ast.FunctionDef], seen: dict[str, None]) -> list[str]:
    """A function and those of its module that it calls, each once."""
    if name not in functions or name in seen:
        return list(seen)
    seen[name] = None
    for node in ast.walk(functions[name]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            _called(node.func.id, functions, seen)
    return list(seen)


def _hints(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in HINTS:
            place = HINTS[node.func.id]
            for text in _texts(node.args[place]) if len(node.args) > place else ():
                if re.search(r"[a-z]{3}", text):
                    yield text


def _texts(node: ast.expr) -> list[str]:
    """The texts that an expression can be."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return ["".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in values)]
        case ast.IfExp(body=one, orelse=other):
            return [*_texts(one), *_texts(other)]
    return []


def pages() -> dict[Path, str]:
    """Every page by its path."""
    lessons = {
        lesson.number: lesson for lesson in map(lesson_of, sorted((ROOT / "notebooks").glob("*.ipynb")))
    }
    assert list(lessons) == list(LESSONS), "a notebook has no lesson, or a lesson no notebook"
    plan = tomllib.loads((FOLDER / "course.toml").read_text(encoding="utf-8"))
    titles = {number: f"{number}. {lesson.question}" for number, lesson in lessons.items()}
    lead = "One answer is right. A wrong one tells you why; try again. Your answers stay in this browser."
    return {
        FOLDER / "course.md": course_page(lessons, plan),
        FOLDER / "instructors.md": instructor_page(lessons),
        FOLDER / "quiz.html": whole_page("The quiz", lead, Quiz(titles=titles).html(), said=SAID),
    }


def main() -> None:
    """Writes the pages, or says which are old."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where a page is old")
    options = parser.parse_args()
    found = pages()
    old = [path for path, text in found.items() if not path.exists() or path.read_text("utf-8") != text]
    if options.check:
        print(*(f"{path.name} is old; run: make course" for path in old), sep="\n")  # noqa: T201
        sys.exit(1 if old else 0)
    for path in old:
        write_text(path, found[path])


if __name__ == "__main__":
    main()
