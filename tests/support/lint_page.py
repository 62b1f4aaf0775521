"""What the exam of `wavesim lint` said: a table of docs/records/lint-exam.md, a picture with a bar a class.

Example: the bar of "no-acquire" is green for the share that lint found, orange for what it called wrong by
another rule's name, grey for "unknown", red for what it missed. `python tests/support/lint_page.py`
writes both from `scores.json`.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

import plotly.graph_objects as go
from lint_exam import OPENING, SCORES

from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text
from wavesim.view.canvas import Props, axis, base_layout, heading
from wavesim.view.figure import figure_of, save_figure
from wavesim.view.theme import Theme, find_theme

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- exam -->", "<!-- end of exam -->"
VERDICTS = ("found", "misnamed", "unknown", "missed")
RIGHT = {"right": "found", "unknown": "unknown", "false alarm": "missed"}  # which colour and place it has
WIDTH, LEFT, RIGHT_MARGIN, BOTTOM, ROW = 860, 220, 60, 90, 22
LINE = 120
# The exam of the later split as it was first taken, by rules that had not seen its forms.
FIRST_OF_LATER = "it found 95 and called 2 right kernels wrong and 2 unknown"
MOST_BYTES = 1_000_000


def block(result: Mapping[str, Any]) -> str:
    """The table, with the totals in a sentence before it."""
    faults = _summed([result["families"]["mutant"], result["families"]["public"]])
    right = result["families"]["right"]
    count, of_right = sum(faults.values()), sum(right.values())
    test = result["splits"]["test, fault"]
    said = (
        f"The exam has {count} faults and {of_right} right kernels, in PTX and machine code; a case is "
        f"judged by its worst listing. Lint finds {faults['found']} faults, calls {faults['misnamed']} wrong "
        f"by another rule's name, {faults['unknown']} unknown, and misses {faults['missed']}; in the test "
        f"split it finds {test.get('found', 0)} of {sum(test.values())}: 215 while only its totals were "
        "looked at, the rest once its misses were, too. Of the right kernels it calls "
        f"{right.get('false alarm', 0)} wrong and "
        f"{right.get('unknown', 0)} unknown. {_of_later(result)} {_of_sealed(result)} A cubin takes "
        f"{result['seconds']['median']} s of CPU in the median, {result['seconds']['worst']} s at most."
    )
    lines = [
        *fill(said, LINE, break_on_hyphens=False).splitlines(),
        "",
        "| fault | mutants and bugs | found | other rule | unknown | missed | found in the later split |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, counted in result["classes"].items():
        later = result["classes of the later split"].get(name, {})
        last_cell = "sealed" if result["sealed"] else f"{later.get('found', 0)} of {sum(later.values())}"
        cells = [sum(counted.values()), *(counted.get(verdict, 0) for verdict in VERDICTS), last_cell]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, "", "*Table: what lint says of each class of fault, cases.*"])


def _of_later(result: Mapping[str, Any]) -> str:
    """What is said of the cases that were written after the rules."""
    if sealed := sum(result["sealed"].values()):
        return f"Another {sealed} cases, written after the rules, are sealed: lint was not asked about them."
    faults, right = (result["splits"][f"later, {kind}"] for kind in ("fault", "right"))
    return (
        f"Of what was written after the rules, the later split, it finds {faults.get('found', 0)} of "
        f"{sum(faults.values())} faults, and calls {right.get('false alarm', 0)} of {sum(right.values())} "
        f"right kernels wrong and {right.get('unknown', 0)} unknown; when that split was opened, and before "
        f"its misses were looked at, {FIRST_OF_LATER}."
    )


def _of_sealed(result: Mapping[str, Any]) -> str:
    """What is said of the split by somebody who had not read the rules: on first sight, and since."""
    opened = json.loads(read_text(OPENING, MOST_BYTES))["families"]
    first, since = (
        f"{said['mutant'].get('found', 0)} faults and {{}} {said['right'].get('false alarm', 0)} "
        f"right kernels wrong and {said['right'].get('unknown', 0)} unknown"
        for said in (opened, result["second sealed split"])
    )
    faults, right = (sum(opened[family].values()) for family in ("mutant", "right"))
    missed = result["second sealed split"]["mutant"].get("missed", 0)
    return (
        f"Of a second split, {faults} faults and {right} right kernels by somebody who had not read the "
        f"rules, it found on first sight {first.format('called')}. Since its misses were mended, which "
        f"makes it development data, it finds {since.format('calls')}, and misses {missed} faults."
    )


def exam_figure(result: Mapping[str, Any], theme: str | Theme = "light") -> go.Figure:
    """A bar for each class, and one for the right kernels, in shares of its cases."""
    palette = find_theme(theme)
    right = {RIGHT[verdict]: count for verdict, count in result["families"]["right"].items()}
    rows = {**result["classes"], "right kernels": right}
    names = [f"{name} ({sum(counted.values())})" for name, counted in rows.items()]
    faults = _summed(result["classes"].values())
    head = heading(
        f"Lint finds {faults['found']} of {sum(faults.values())} faults",
        "share of the cases of each class, cases in brackets; a right kernel that is missed is a false alarm",
        WIDTH - LEFT - RIGHT_MARGIN,
    )
    height = head.height + ROW * len(rows) + BOTTOM
    layout = base_layout(palette, head, (WIDTH, height), (LEFT, RIGHT_MARGIN, head.height, BOTTOM))
    layout["xaxis"] = axis(palette, "share of cases (%)", range=[0, 100])
    layout["yaxis"] = axis(palette, "", autorange="reversed")
    layout["barmode"] = "stack"
    colours = (palette.good, palette.stages[1], palette.waiting, palette.bad)
    words = ("found", "wrong by another rule", "unknown", "missed")
    data = [
        _bar(
            word,
            _shares(rows.values(), verdict),
            names,
            tone,
        )
        for verdict, word, tone in zip(VERDICTS, words, colours, strict=True)
    ]
    return figure_of(data, layout)


def _shares(rows: Iterable[Mapping[str, int]], verdict: str) -> list[float]:
    return [counted.get(verdict, 0) / sum(counted.values()) for counted in rows]


def _bar(name: str, shares: list[float], names: list[str], tone: str) -> Props:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": [100 * share for share in shares],
        "y": names,
        "marker": {"color": tone},
    }


def _summed(counts: Any) -> dict[str, int]:
    total = dict.fromkeys(VERDICTS, 0)
    for counted in counts:
        for verdict, count in counted.items():
            total[verdict] += count
    return total


def main(words: list[str] | None = None) -> int:
    """Writes the table and the pictures."""
    del words
    result = json.loads(read_text(SCORES, MOST_BYTES))
    page = DOCS / "records" / "lint-exam.md"
    before, _, rest = read_text(page, MOST_BYTES).partition(BEGIN)
    write_text(page, f"{before}{BEGIN}\n{block(result)}\n{END}{rest.partition(END)[2]}")
    for theme in ("light", "dark"):
        save_figure(exam_figure(result, theme), DOCS / "images" / f"lint-exam-{theme}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("lint_page", main))
