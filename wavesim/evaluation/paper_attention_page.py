"""What was simulated and measured of the paper's attention, as the table of docs/paper-attention.md.

Example: `python -m wavesim.evaluation.paper_attention_page` writes the block between the page's marks anew,
from the predictions and the newest measurement in gpu/results/paper_attention.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from wavesim.errors import RecordingError
from wavesim.evaluation.paper_attention_cases import BACKENDS, FOLDER, PREDICTIONS
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "paper-attention.md"
BEGIN, END = "<!-- paper attention: begin -->", "<!-- paper attention: end -->"
UNMEASURED = "It has not been measured yet."
MOST_BYTES = 1 << 20
NAMES = {
    "tile+streams+row": "row",
    "tile+streams+tile": "tile",
    "tile+pdl+boundary": "dependent launch",
    "tile+pdl+row": "with row",
    "tile+pdl+tile": "with tile",
}
Entry = Mapping[str, Any]


def newest() -> Path | None:
    """The newest measurement's file, by its name, which is its date."""
    found = sorted(path for path in FOLDER.glob("*.json") if path != PREDICTIONS)
    return found[-1] if found else None


def block() -> str:
    """The tables, or that nothing is measured."""
    path = newest()
    if path is None:
        return UNMEASURED
    result = json.loads(read_text(path, MOST_BYTES))
    said = json.loads(read_text(PREDICTIONS, MOST_BYTES))["cases"] if PREDICTIONS.exists() else []
    simulated = {_key(case): case for case in said}
    where = f"One {result['device']}, {result['date'][:10]}, commit {result['commit'][:7]}"
    missing = simulated.keys() - {_key(case) for case in result["cases"]}
    parts = [f"{where}, {result['rounds']} rounds. {_count_text(len(result['cases']), len(missing))}"]
    for backend, kernels in BACKENDS.items():
        cases = [case for case in result["cases"] if case["backend"] == backend and case["has_softmax"]]
        parts += [f"{kernels['title']}.", _table(cases, simulated)]
    others = [case for case in result["cases"] if not case["has_softmax"]]
    parts += ["The published program's chain, portable products.", _table(others, simulated)]
    parts.append(
        _errors_text([(case, simulated[_key(case)]) for case in result["cases"] if _key(case) in simulated])
    )
    return "\n\n".join(part for part in parts if part)


def _errors_text(pairs: list[tuple[Entry, Entry]]) -> str:
    """How far simulated times and gains are from measured ones, over all tables."""
    gains = [
        (gain(case, i, "median_us"), gain(said, i, "simulated_us"))
        for case, said in pairs
        for i in range(1, len(case["plans"]))
    ]
    if not gains:
        return ""
    shares = [said["plans"][0]["simulated_us"] / case["plans"][0]["median_us"] for case, said in pairs]
    errors = [abs(measured - said) for measured, said in gains]
    told = [(measured > 0) == (said > 0) for measured, said in gains if abs(measured) >= 1]
    return (
        f"Simulated, stream sync takes {min(shares):.2f} to {max(shares):.2f} of its measured time. Gains "
        f"are off by {median(errors):.1f} points (median) and {np.percentile(errors, 90):.1f} (90 %); of "
        f"{len(told)} of a point or more the sign is right in {sum(told)}."
    )


def _count_text(measured: int, missing: int) -> str:
    if not missing:
        return f"All {measured} cases are measured."
    return f"{measured} of {measured + missing} cases are measured; {missing} more are only simulated."


def gain(case: Entry, index: int, field: str) -> float:
    """1 - t / t of the case's first plan, in percent, for its plan of that index."""
    return 100 * (1 - float(case["plans"][index][field]) / float(case["plans"][0][field]))


def _key(case: Entry) -> tuple[Any, ...]:
    return tuple(case[name] for name in ("model", "tokens", "sequences", "keys", "backend", "has_softmax"))


def _table(cases: list[Entry], simulated: Mapping[tuple[Any, ...], Entry]) -> str:
    """Time under stream sync, and every other plan's gain over it: measured (simulated before)."""
    if not cases:
        return ""
    others = [NAMES[plan["plan"]] for plan in cases[0]["plans"][1:]]
    lines = [f"| model | rows | keys | stream sync, µs | {' | '.join(f'{one}, %' for one in others)} |"]
    lines.append("|---|---" + "|--:" * (2 + len(others)) + "|")
    lines += [f"| {' | '.join(_cells(case, simulated.get(_key(case))))} |" for case in cases]
    best = [max(gain(case, i, "median_us") for i in range(1, len(case["plans"]))) for case in cases]
    lines.append(f"\nBest plan: {min(best):+.1f} to {max(best):+.1f} %, median {median(best):+.1f} %.")
    return "\n".join(lines)


def _cells(case: Entry, said: Entry | None) -> Iterator[str]:
    yield {"gpt3": "GPT-3", "llama": "LLaMA"}[case["model"]]
    yield f"{case['tokens']}" if case["sequences"] == 1 and case["tokens"] > 1 else f"{case['sequences']} x 1"
    yield f"{case['keys']}"
    yield f"{case['plans'][0]['median_us']:.1f}" + (
        f" ({said['plans'][0]['simulated_us']:.0f})" if said else ""
    )
    for i in range(1, len(case["plans"])):
        yield f"{gain(case, i, 'median_us'):+.1f}" + (
            f" ({gain(said, i, 'simulated_us'):+.1f})" if said else ""
        )


def with_block(text: str, inner: str) -> str:
    """The page with the block between its marks. Raises `RecordingError` for a page without them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RecordingError(f"the page has no lines {BEGIN} and {END}; add them where the block goes")
    return f"{before}{BEGIN}\n{inner}\n{END}{after}"


def main() -> int:
    """Writes the page's block."""
    write_text(PAGE, with_block(read_text(PAGE, MOST_BYTES), block()))
    return 0


if __name__ == "__main__":
    sys.exit(run_program("paper_attention_page", main))
