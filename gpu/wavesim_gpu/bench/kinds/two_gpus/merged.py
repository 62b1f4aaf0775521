"""The recorded times of the page, from what several runs of the measuring command wrote.

Example: `python -m wavesim_gpu.bench.kinds.two_gpus.merged reduce-scatter.jsonl kraken.jsonl` writes
`wavesim/recordings/two-gpus/timed.json`: a line per collective and shape. Ways that a later file has too keep
their first times, so that ours and the libraries beside them are of one run.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from wavesim.bench.peer_timed import COLLECTIVES, TIMED

from wavesim.errors import RecordingError
from wavesim.safe_io.documents import json_value
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text
from wavesim_gpu.bench.kinds.two_gpus.cases import LISTS, shapes
from wavesim_gpu.bench.kinds.two_gpus.entries import MOST_BYTES


def in_one(lines: Iterable[Any]) -> list[dict[str, Any]]:
    """By collective, then as the lists have the shapes. Raises `RecordingError` for no measurement."""
    found: dict[tuple[str, tuple[int, ...]], dict[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        try:
            key = line["kind"], tuple(line["size"])
            known = found.setdefault(key, line | {"ways": {}, "needs": {}})
            for part in ("ways", "needs"):
                known[part] = line[part] | known[part]
        except (KeyError, TypeError) as error:
            raise RecordingError(
                f"line {number} is no line of the measuring command ({error!r}); give its --out files"
            ) from error
    listed = {size: at for at, size in enumerate(size for name in LISTS for size in shapes(name))}
    return sorted(
        found.values(),
        key=lambda line: (COLLECTIVES.index(line["kind"]), listed.get(tuple(line["size"]), len(listed))),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the file; `python -m wavesim.bench.peer_timed` then shows it."""
    parser = argparse.ArgumentParser(prog="python -m wavesim_gpu.bench.kinds.two_gpus.merged")
    parser.add_argument("lines", type=Path, nargs="+", help="what the measuring command wrote")
    parser.add_argument("--out", type=Path, default=TIMED, help=f"default {TIMED.name} of the page")
    options = parser.parse_args(arguments)
    rows = [
        json_value(row, f"{path}, line {at}")
        for path in options.lines
        for at, row in enumerate(read_text(path, MOST_BYTES).splitlines(), 1)
    ]
    write_text(options.out, "[\n" + ",\n".join(map(json.dumps, in_one(rows))) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("two_gpus.merged", main))
