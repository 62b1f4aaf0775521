"""Puzzles as they are shown: a picture of what goes wrong, an editor that grades, a list on the page.

Example: `Mend("23.6")` draws three threads, marks the load that can still be old, and says what the memory
model finds each time the reader leaves the program's box.
"""

import ipywidgets

from wavesim.errors import DeadlockError, WavesimError
from wavesim.litmus import LitmusTest
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.escaping import Markup, element
from wavesim.safety.hang.answer import HangAnswer
from wavesim.safety.hang.verdict import judge
from wavesim.teaching.exercises import WrongAnswer, check
from wavesim.teaching.mending import Puzzle, bad_ends, launches_of, plan_answer, puzzle, puzzles, threads_of
from wavesim.view.display import CLASS, STYLE
from wavesim.view.trace_picture import trace_svg
from wavesim.widgets.explorer import LABEL, Explorer
from wavesim.widgets.words import Words

LETTER_PX, ROW_PX, TOP_PX, GAP_PX = 6.6, 26, 44, 14
MOST_ROWS = 24  # of an editor
OLD = " ← may be old"
MARK = "stage3"  # the class of what is wrong
INTRODUCTION = (
    "Each has one bug, of a kind that has been public. Here they are to be read; in notebook 23 "
    "(wavesim lab) you edit them, and lint, simulator and memory model grade what you write."
)


def puzzle_picture(asked: Puzzle, text: str) -> Markup:
    """What the program does, and what is wrong with it. Raises `WavesimError` where it cannot be read."""
    parts = PICTURES[asked.kind](asked, text)
    return element("div", element("style", Markup(STYLE)), *parts, class_=CLASS)


def _lanes(asked: Puzzle, text: str) -> list[Markup]:
    """Threads side by side; the load that can still be old is marked."""
    test = threads_of(asked, text)
    bad = bad_ends(asked, test)
    old = {part.partition("=")[0] for end in bad for part in end.split()}
    rows = max(len(thread.statements) for thread in test.threads)
    height = TOP_PX + rows * ROW_PX + 34
    longest = max(len(statement.text) for thread in test.threads for statement in thread.statements)
    wide = LETTER_PX * (longest + len(OLD)) + 16
    width = len(test.threads) * (wide + GAP_PX)
    said = f"A run can end with {', or with '.join(bad)}." if bad else "No run ends wrong."
    verdict = element("text", said, x=0, y=height - 10, class_=f"name {MARK if bad else 'stage2'}")
    lanes = [mark for number in range(len(test.threads)) for mark in _lane(asked, test, number, old, wide)]
    title = element("title", f"{asked.fields['name']}. {said}")
    return [element("svg", title, *lanes, verdict, viewBox=f"0 0 {width} {height}", width=width, role="img")]


def _lane(asked: Puzzle, test: LitmusTest, number: int, old: set[str], wide: float) -> list[Markup]:
    thread, x = test.threads[number], number * (wide + GAP_PX)
    gpu, _, block = thread.place
    kernel = f", {thread.kernel} kernel" if thread.kernel else ""
    lane = [
        element("text", thread.name, x=x, y=16, class_="name"),
        element("text", f"block {block} of GPU {gpu}{kernel}", x=x, y=34, class_="muted"),
    ]
    for at, statement in enumerate(thread.statements):
        y = TOP_PX + at * ROW_PX
        is_data = bool(set(asked.fields["data"]) & set(statement.variables))
        is_old = is_data and bool(statement.values) and statement.values[0] in old
        role = MARK if is_old else f"stage{int(statement.what != 'st')} pale" if is_data else "idle"
        lane.append(element("rect", x=x, y=y, width=wide, height=ROW_PX - 4, rx=5, class_=role))
        note = OLD if is_old else ""
        colour = {"style": "fill:#fff"} if is_old else {}
        lane.append(element("text", f"{statement.text}{note}", x=x + 8, y=y + 15, **colour))
    return lane


def _hang(asked: Puzzle, text: str) -> list[Markup]:
    """What `wavesim why-hang` says."""
    said = HangAnswer(judge(launches_of(asked, text), with_remedies=False))
    return [element("p", element("b", said.headline))]


def _plans(asked: Puzzle, text: str) -> list[Markup]:
    """Both timelines, or the deadlock."""
    try:
        both = plan_answer(asked, text)
    except DeadlockError as error:
        return [element("p", element("b", error.summary))]
    return [trace_svg(both.stream), trace_svg(both.chosen)]


PICTURES = {"memory": _lanes, "launches": _hang, "plans": _plans}


class Mend(Explorer):
    """The editor of a puzzle. Raises `DescriptionError` for a number that there is not."""

    @typed
    def __init__(self, number: str) -> None:
        self.puzzle = puzzle(number)
        self.drawn, self.said = Words(), Words()
        program = ipywidgets.Textarea(
            value=self.puzzle.code,
            description="Program",
            rows=min(MOST_ROWS, self.puzzle.code.count("\n") + 1),
            continuous_update=False,
            style=LABEL,
            tooltip="Leave the box to have it graded",
            layout={"width": "100%"},
        )
        program.add_class("wavesim-program")
        super().__init__({"program": program}, above=[self.drawn], below=[self.said])

    def _say(self) -> None:
        text = self.program.value
        try:
            words = str(check(self.puzzle.number, text))
        except WrongAnswer as hint:
            words = f"✗ {hint}"
        try:
            task = element(
                "p", element("b", f"{self.puzzle.fields['name']}. "), f"{self.puzzle.fields['task']}."
            )
            self.drawn.value = Markup("").join([task, puzzle_picture(self.puzzle, text)])
        except WavesimError:
            words += " The picture shows the last program that could be read."
        self.said.value = element("div", words, role="status", aria_live="polite", class_="wavesim-told")


def puzzle_section() -> Markup:
    """All puzzles with picture, program, hint and solution, for a page without a kernel."""
    title = element("h2", f"Mend the bug: {len(puzzles())} puzzles", id="puzzles-title")
    cards = (_card(asked) for asked in puzzles())
    section = element("section", title, element("p", INTRODUCTION), *cards, aria_labelledby="puzzles-title")
    return Markup("").join([element("style", Markup(STYLE)), section])


def _card(asked: Puzzle) -> Markup:
    level = "for experts: " if asked.fields.get("expert") else ""
    about = element("span", f" {level}{asked.fields['fault']}", class_="marks")
    name = element("summary", f"{asked.number.partition('.')[2]}. {asked.fields['name']}:", about)
    parts = (
        element("p", f"{asked.fields['task']}."),
        element("div", *PICTURES[asked.kind](asked, asked.code), class_=CLASS),
        element("pre", asked.code),
        element("details", element("summary", "Hint"), element("p", asked.fields["hint"])),
        element("details", element("summary", "A solution"), element("pre", asked.solution)),
    )
    return element("details", name, *parts, class_="puzzle")
