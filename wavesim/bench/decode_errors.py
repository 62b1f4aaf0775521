"""How far off registered predictions of decode steps were, from the raw times of the kernel.

Example: `python -m wavesim.bench.decode_errors gpu/results/decode-steps/2026-11-28
gpu/results/decode/2026-11-28-steps.json` prints predicted and measured microseconds of each case that was
measured, then the median of the errors and what nine in ten stay within.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np

from wavesim.bench.registration import registered
from wavesim.safe_io.documents import read_measured
from wavesim.safe_io.options import OneLineParser
from wavesim.safe_io.program import run_program

MODELS = {"0_5b": "qwen2.5-0.5b", "1b": "llama-3.2-1b", "8b": "llama-3-8b"}
MOST_BYTES = 1_000_000


def errors_of(folder: Path, measured: Path) -> Iterator[tuple[str, float, float]]:
    """(case, predicted us, measured us) of all cases that both have. Raises `RecordingError`."""
    known = {entry.case: entry.time_ns / 1e3 for entry in registered(folder, "costs").values()}
    for row in read_measured(measured, MOST_BYTES, "measure labs --only decode", lambda data: data["rows"]):
        name = f"{MODELS[row['model']]} batch {row['batch']} keys {row['keys']} layers {row['layers']}"
        if name in known:
            yield name, known[name], median(row["times_us"]["ours"])


def main() -> int:
    """Prints the table."""
    options = _parser().parse_args()
    rows = list(errors_of(options.registered, options.measured))
    percent = [100 * abs(predicted / measured - 1) for _, predicted, measured in rows]
    lines = [
        f"{name:<48}{predicted:>8.1f}{measured:>8.1f}{100 * (predicted / measured - 1):>+8.1f} %"
        for name, predicted, measured in rows
    ]
    lines.append(f"error: median {median(percent):.1f} %, 90 % within {np.percentile(percent, 90):.1f} %")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="python -m wavesim.bench.decode_errors")
    parser.add_argument("registered", type=Path, help="folder of the predictions")
    parser.add_argument("measured", type=Path, help="raw times of the kernel")
    return parser


if __name__ == "__main__":
    sys.exit(run_program("wavesim.bench.decode_errors", main))
