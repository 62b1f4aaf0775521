"""What the exam of `wavesim lint` said: a table of docs/records/lint-exam.md with a row for each class.

Example: `python tests/support/lint_page.py` writes it from `scores.json`.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

from lint_exam import OPENING, SCORES

from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- exam -->", "<!-- end of exam -->"
VERDICTS = ("found", "misnamed", "unknown", "missed")
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


def _summed(counts: Any) -> dict[str, int]:
    total = dict.fromkeys(VERDICTS, 0)
    for counted in counts:
        for verdict, count in counted.items():
            total[verdict] += count
    return total


def main(words: list[str] | None = None) -> int:
    """Writes the table."""
    del words
    result = json.loads(read_text(SCORES, MOST_BYTES))
    page = DOCS / "records" / "lint-exam.md"
    before, _, rest = read_text(page, MOST_BYTES).partition(BEGIN)
    write_text(page, f"{before}{BEGIN}\n{block(result)}\n{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("lint_page", main))
