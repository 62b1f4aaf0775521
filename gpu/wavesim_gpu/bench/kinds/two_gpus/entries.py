"""What the page on several GPUs reads, from the lines that the measuring command wrote.

Example: `python -m wavesim_gpu.bench.kinds.two_gpus.entries LINES` turns medians of every way of every shape
into `wavesim/recordings/two-gpus/measured.json`. Ways that were wrong on any rank have no time, and no entry.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from wavesim.bench.peer_page import MEASURED

from wavesim.errors import RecordingError
from wavesim.safe_io.documents import json_value
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text

MOST_BYTES = 1 << 24
# As the simulator calls what PyTorch's symmetric memory does.
NAMES = {"symmetric one-shot": "one-shot", "symmetric two-shot": "two-shot"}


def entries_of(lines: Iterable[Any]) -> list[dict[str, Any]]:
    """{"m", "k", "n", "way", "ns", "words"} of all-reduces; of a shape measured twice the later one.

    Raises `RecordingError` for a line that is no measurement.
    """
    found: dict[tuple[Any, ...], tuple[int, str]] = {}
    for number, line in enumerate(lines, 1):
        try:
            if line["part"] == "times" and line["kind"] == "all-reduce":
                m, k, n = line["size"]
                found |= {
                    (m, k, n, NAMES.get(way, way)): (round(median(one["ns"])), one.get("words", ""))
                    for way, one in line["ways"].items()
                    if one["ns"]
                }
        except (KeyError, TypeError, ValueError) as error:
            raise RecordingError(
                f"line {number} is no line of the measuring command ({error!r}); give its --out file"
            ) from error
    names = ("m", "k", "n", "way", "ns", "words")
    return [dict(zip(names, (*key, *one), strict=True)) for key, one in found.items()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the file; `python -m wavesim.bench.peer_page` then shows it."""
    parser = argparse.ArgumentParser(prog="python -m wavesim_gpu.bench.kinds.two_gpus.entries")
    parser.add_argument("lines", type=Path, help="what the measuring command wrote")
    parser.add_argument("--out", type=Path, default=MEASURED, help=f"default {MEASURED.name} of the page")
    options = parser.parse_args(arguments)
    rows = read_text(options.lines, MOST_BYTES).splitlines()
    found = entries_of(json_value(row, f"{options.lines}, line {at}") for at, row in enumerate(rows, 1))
    write_text(options.out, json.dumps(found, indent=0) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("two_gpus.entries", main))
