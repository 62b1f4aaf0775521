"""What `wavesim gen` and `wavesim tune` take besides the workload: light to import, for the parser."""

import argparse
from pathlib import Path


def add_gen_options(parser: argparse.ArgumentParser) -> None:
    """What `wavesim gen` takes besides the workload."""
    parser.add_argument("--sync", default="row", help="stream, or a policy's name: row, tile, block:6x1 ...")
    parser.add_argument("--no-wait-kernel", action="store_true", help="leave the wait-kernel out")
    parser.add_argument(
        "--runtime-sizes", action="store_true", help="leave the grids to run time: one header for every size"
    )
    parser.add_argument("--out", type=Path, help="write the header to this file instead of printing it")


def add_tune_options(parser: argparse.ArgumentParser) -> None:
    """What `wavesim tune` takes besides the workload."""
    parser.add_argument("--tiles", default="", help="more tile sizes to try, such as 256x128,128x128")
    parser.add_argument("--split-k", default="", help="splits of K to try, such as 2,4")
    parser.add_argument("--results", type=Path, help="keep results in this file, and go on where it stops")
    parser.add_argument("--measure", type=int, default=0, metavar="N", help="measure the best N on this GPU")
    parser.add_argument("--rows", type=int, default=12, help="rows of the table")
