"""Of what `campaign.py` has measured, all that the repository shows: recordings, scores, pages, choices.

Example: `python -m wavesim_gpu.bench.kinds.two_gpus.collected FOLDER [FOLDER ...]` adds the folders' results
to `wavesim/recordings/two-gpus`, writes the way that operators take for each shape, and then the tables of
docs/two-gpus.md. Of a shape that was measured anew the new run comes first and the old one adds only the ways
that it lacks. What is registered stays as it is.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from wavesim.bench.peer_page import MEASURED, MOST_BYTES, NOT_YET, PAGE
from wavesim.bench.peer_registered import ALONE, FIRST, SECOND
from wavesim.bench.peer_trials import TRIALS, trial_lines

from wavesim.bench import peer_timed
from wavesim.errors import RecordingError, WavesimError
from wavesim.safe_io.options import BAD_INPUT
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import write_text
from wavesim_gpu.bench.kinds.two_gpus import choices, steps
from wavesim_gpu.bench.kinds.two_gpus.entries import entries_of
from wavesim_gpu.bench.kinds.two_gpus.merged import in_one

ALONE_WAYS = ("gemm", "all-reduce")  # cuBLAS's and NCCL's, by themselves


def collect(folders: Sequence[Path]) -> list[str]:
    """Writes all files; what was added, in words. Raises `RecordingError` where there is no result."""
    found = {file: _lines(folders, file) for file in (steps.SECOND, steps.FIRST, steps.KRAKEN, steps.TRIALS)}
    if not any(found.values()):
        raise RecordingError(
            f"{', '.join(map(str, folders))}: no results there; give the --out folder of the campaign"
        )
    if found[steps.SECOND]:
        before = peer_timed.timed_lines(peer_timed.SECOND_TIMED)
        lines = in_one([*found[steps.SECOND], *before])
        _write(peer_timed.SECOND_TIMED, lines)
        _write_entries(SECOND.measured_in / MEASURED.name, entries_of(lines))
    if found[steps.FIRST] or found[steps.KRAKEN]:
        lines = [*found[steps.FIRST], *peer_timed.timed_lines(), *found[steps.KRAKEN]]
        _write(peer_timed.TIMED, in_one(lines))
        alone = [one for one in entries_of(found[steps.FIRST]) if one["way"] in ALONE_WAYS]
        if alone:
            _write_entries(FIRST.measured_in / ALONE, alone)
    if found[steps.TRIALS]:
        _write(TRIALS, _latest([*trial_lines(), *found[steps.TRIALS]]))
    choices.main()
    peer_timed.main()
    added = [f"{file}: {len(lines)} results" for file, lines in found.items()]
    rows = enumerate(read_text(PAGE, MOST_BYTES).splitlines(), 1)
    stale = [f"{PAGE.name}, line {at}, is to be read again: {row}" for at, row in rows if NOT_YET in row]
    return [*added, *stale]


def _lines(folders: Sequence[Path], file: str) -> list[dict[str, Any]]:
    return [line for folder in folders for line in steps.lines_of(folder, file)]


def _latest(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One per part, collective, way and shape, the last of each."""
    found = {(line["part"], line["kind"], tuple(line["ways"]), tuple(line["size"])): line for line in lines}
    return list(found.values())


def _write(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    write_text(path, "[\n" + ",\n".join(map(json.dumps, lines)) + "\n]\n")


def _write_entries(path: Path, entries: Sequence[dict[str, Any]]) -> None:
    write_text(path, f"{json.dumps(entries, indent=0)}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m wavesim_gpu.bench.kinds.two_gpus.collected")
    parser.add_argument("folders", type=Path, nargs="+", help="what the campaign wrote")
    try:
        added = collect(parser.parse_args(arguments).folders)
    except WavesimError as error:
        sys.stderr.write(f"two_gpus.collected: {error}\n")
        return BAD_INPUT
    sys.stdout.write("\n".join(added) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("two_gpus.collected", main))
