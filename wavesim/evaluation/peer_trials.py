"""What was tried across two GPUs beside times: results, replays under skew, a rank that ended, operators.

Example: `trials_block()` is the block "trials" of docs/two-gpus.md: of 10,000 replays by exchange how many
gave other bits, and after how many seconds a rank that had ended was named.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from wavesim.evaluation.peer_page import FOLDER, MOST_BYTES, NOT_YET
from wavesim.safe_io.documents import read_json

TRIALS = FOLDER / "trials.json"
Line = Mapping[str, Any]


def trial_lines(path: Path = TRIALS) -> list[dict[str, Any]]:
    """As the measuring command wrote them; none where nothing was tried."""
    return list(read_json(path, MOST_BYTES)) if path.exists() else []


def trials_block(lines: Sequence[Line] | None = None) -> str:
    """A row per trial, then what calls of the operators take."""
    found = trial_lines() if lines is None else lines
    tried = [one for one in found if one["part"] in TEXTS]
    if not found:
        return f"By the command that measures all: {NOT_YET}."
    rows = ["| | of | M x K x N | found |", "| --- | --- | --- | --- |"]
    rows += [_row(one) for one in sorted(tried, key=lambda one: tuple(TEXTS).index(one["part"]))]
    return "\n".join([*rows, "", operators_text(found)])


def operators_text(lines: Sequence[Line]) -> str:
    """Calls that the host launches one by one, over PyTorch's product and all-reduce."""
    gains = {
        tuple(line["size"]): line["us"]["torch"] / line["us"]["row_parallel_linear"]
        for line in lines
        if line["part"] == "operators" and {"torch", "row_parallel_linear"} <= set(line["us"])
    }
    if not gains:
        return f"Calls of the operators, launched by the host: {NOT_YET}."
    lost = [f"{m:,} x {k:,} x {n:,} ({gain:.2f})" for (m, k, n), gain in gains.items() if gain < 0.99]
    mean, least, most = geometric_mean(gains.values()), min(gains.values()), max(gains.values())
    return (
        f"A call of `row_parallel_linear`, launched by the host, is {mean:.2f} times as fast as PyTorch's "
        f"product and NCCL's all-reduce ({len(gains)} shapes; {least:.2f} to {most:.2f}); more than 1 % "
        f"slower: {'; '.join(lost) if lost else 'nowhere'}."
    )


def _row(line: Line) -> str:
    m, k, n = line["size"]
    words, text = TEXTS[line["part"]]
    of = ", ".join([line["kind"], *line["ways"]])
    return f"| {words} | {of} | {m:,} x {k:,} x {n:,} | {text(line)} |"


def _right_text(line: Line) -> str:
    wrong = "; ".join(line["wrong"]) if line["wrong"] else "none"
    known = [error for error in line["errors"].values() if error is not None]
    most = f"; largest error {max(known):.4f} of the largest output" if known else ""
    return f"{len(line['errors'])} ways and tiles, wrong: {wrong}{most}"


def _skew_text(line: Line) -> str:
    error = "NaN" if line["error"] is None else f"{line['error']:.4f}"
    return f"{line['calls']:,} replays, other bits in {line['different_bits']}, error {error}"


def _killed_text(line: Line) -> str:
    works = "works on" if line["gpu_works"] else "is lost"
    return f"after {line['seconds']} s: {line['message'].splitlines()[0][:160]}; the other's GPU {works}"


TEXTS: Mapping[str, tuple[str, Callable[[Line], str]]] = {
    "right": ("results", _right_text),
    "skew": ("a rank held up at random", _skew_text),
    "killed": ("a rank that ends in the middle", _killed_text),
}
