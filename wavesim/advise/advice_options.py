"""The options of `wavesim advise`, apart from what they start, so that other commands need not load it.

Example: `wavesim advise trace.json.gz --depend 1,3 --html report.html --pair 1 --toml pair.toml`.
"""

import argparse
from pathlib import Path


def add_advise_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "trace", type=Path, help="PyTorch-profiler JSON (or .gz), or Nsight Systems sqlite export"
    )
    parser.add_argument("--html", type=Path, help="write the report, one self-contained page")
    parser.add_argument("--device", help="the device it ran on, where the profile does not say")
    parser.add_argument(
        "--depend", default="", help="numbers of pairs whose consumer reads the producer: 1,3"
    )
    parser.add_argument("--independent", default="", help="numbers of pairs that do not depend on each other")
    parser.add_argument("--pair", type=int, default=1, help="the pair that --toml writes")
    parser.add_argument("--toml", type=Path, help="write a pair for `wavesim predict`")
