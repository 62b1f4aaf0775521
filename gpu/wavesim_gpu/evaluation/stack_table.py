"""The table of the measured model stacks, for the documentation: speeds of the swapped models, step by step.

Example: `python -m wavesim_gpu.evaluation.stack_table` writes the block of docs/in-your-model.md between its
two marks anew from the newest file of gpu/results/stack; without a file the page stays as it is.
"""

import sys
from pathlib import Path
from typing import Any

from wavesim.errors import RecordingError
from wavesim.safe_io.documents import read_json
from wavesim.safe_io.escaping import one_line
from wavesim.safe_io.options import OneLineParser
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text
from wavesim_gpu.evaluation.stack_models import LAYERS, Phase
from wavesim_gpu.evaluation.stack_programs import COMPILED, COMPILED_SWAPPED, PROGRAMS, SWAPPED, TORCH
from wavesim_gpu.trial.step_times import StepTimes

ROOT = Path(__file__).parents[3]
RESULTS, PAGE = ROOT / "gpu" / "results" / "stack", ROOT / "docs" / "in-your-model.md"
BEGIN, END = "<!-- model stack: begin -->", "<!-- model stack: end -->"
MOST_BYTES = 1 << 22
HEAD = "| Model | Step | torch, ms | swapped, ms | speed | torch.compile, ms | swapped, ms | speed |"
TUNED = "the MLPs tuned beforehand (`optimize(model, tokens=..., tune=True)`)"
UNTUNED = "the MLPs as the simulator chose, untuned"
PAIRS = ((TORCH, SWAPPED), (COMPILED, COMPILED_SWAPPED))


def newest(results: Path = RESULTS) -> Path | None:
    """The newest results' file by its name, a date; None where there is none."""
    found = [path for path in results.glob("*.json") if not path.name.endswith(".predictions.json")]
    return max(found, default=None)


def markdown_table(result: dict[str, Any]) -> str:
    """The table and what it says, as Markdown. Raises `RecordingError` for what is no result of ours."""
    try:
        rows = [_row(case) for case in sorted(result["cases"], key=_order)]
        about = _about(result)
        failures = _failures(result)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(f"not a model stack's results: {one_line(repr(error))}; measure anew") from error
    return "\n".join([HEAD, "| --- | --- " + "| ---: " * 6 + "|", *rows, "", about, *failures])


def slowest(result: dict[str, Any]) -> float | None:
    """The smallest speed of a swapped program over the same without, of all steps; None without any."""
    speeds = [
        found[0] for case in result["cases"] for pair in PAIRS if (found := _speed(case, *pair)) is not None
    ]
    return min(speeds, default=None)


def with_table(page: str, table: str) -> str:
    """The page with the table between its marks. Raises `RecordingError` for a page without both."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise RecordingError(f"the page has no lines {BEGIN} and {END}; add them where the table goes")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def _order(case: dict[str, Any]) -> tuple[str, bool, int]:
    """Model by model, prompts before tokens, small before large."""
    return case["model"], case["phase"] != "prefill", case["rows"]


def _row(case: dict[str, Any]) -> str:
    cells = [case["model"], _phase(case).label]
    for plain, swapped in PAIRS:
        speed = _speed(case, plain, swapped)
        said = "-" if speed is None else f"{speed[0]:.3f} ({speed[1]:.3f} to {speed[2]:.3f})"
        cells += [_milliseconds(case, plain), _milliseconds(case, swapped), said]
    return f"| {' | '.join(cells)} |"


def _phase(case: dict[str, Any]) -> Phase:
    return Phase(case["phase"], case["batch"], case["tokens"])


def _times(case: dict[str, Any], label: str) -> StepTimes | None:
    found = case["programs"].get(label, {})
    return StepTimes(label, tuple(found["times_ns"]), found["repeats"]) if "times_ns" in found else None


def _speed(case: dict[str, Any], plain: str, swapped: str) -> tuple[float, float, float] | None:
    one, other = _times(case, swapped), _times(case, plain)
    return None if one is None or other is None else one.speed_over(other)


def _milliseconds(case: dict[str, Any], label: str) -> str:
    found = _times(case, label)
    return "-" if found is None else f"{found.median_ns / 1e6:.3f}"


def _about(result: dict[str, Any]) -> str:
    versions = result["versions"]
    worst = slowest(result)
    said = "" if worst is None else f" The lowest speed is {worst:.3f}."
    return (
        f"Measured on one {result['device']} on {result['date'][:10]}, torch {versions.get('torch', '?')}, "
        f"transformers {versions.get('transformers', '?')}: each program in a CUDA graph, all in turns, "
        f"medians of {result['rounds']} rounds; speed is the median of the rounds' ratios with quartiles, "
        f"above 1 where the swapped model is faster. {LAYERS} layers, random bf16 weights, "
        f"{TUNED if result['is_tuned'] else UNTUNED}.{said} {_errors(result)}{_left_out(result)}"
    )


def _errors(result: dict[str, Any]) -> str:
    """How far the logits of each program are from torch's, at most."""
    found = []
    for label in PROGRAMS[1:]:
        programs = [case["programs"].get(label, {}) for case in result["cases"]]
        errors = [program["relative_error"] for program in programs if "times_ns" in program]
        if errors:
            found.append(f"{100 * max(errors):.2g} % ({label})")
    return f"Logits differ from torch's in the Euclidean norm by at most {', '.join(found)}." if found else ""


def _left_out(result: dict[str, Any]) -> str:
    """Which steps torch.compile was not tried at."""
    steps = [
        _phase(case).label for case in sorted(result["cases"], key=_order) if COMPILED not in case["programs"]
    ]
    return f" Not run under torch.compile, for want of time: {'; '.join(steps)}." if steps else ""


def _failures(result: dict[str, Any]) -> list[str]:
    """A line for each program that could not be timed."""
    found = [
        f"{case['model']}, {case['phase']} {case['rows']}: {label}: {one_line(program['failed'])}"
        for case in result["cases"]
        for label, program in case["programs"].items()
        if "failed" in program
    ]
    return ["", "Not timed:", "", *(f"- {line}" for line in found)] if found else []


def main(words: list[str] | None = None) -> int:
    """Writes the page's block; status 2 where it has no marks, or the results are damaged."""
    parser = OneLineParser(prog="python -m wavesim_gpu.evaluation.stack_table", description=__doc__)
    parser.add_argument("--results", type=Path, help="a results' file (the newest of gpu/results/stack)")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page (docs/in-your-model.md)")
    options = parser.parse_args(sys.argv[1:] if words is None else words)
    path = options.results or newest()
    if path is None:
        print("no results yet; the page stays as it is")  # noqa: T201  # what it is for
        return 0
    try:
        table = markdown_table(read_json(path, MOST_BYTES))
        write_text(options.page, with_table(read_text(options.page, MOST_BYTES), table))
    except RecordingError as error:
        print(f"{path}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    print(table)  # noqa: T201  # what it is for
    return 0


if __name__ == "__main__":
    sys.exit(run_program("stack_table", main))
