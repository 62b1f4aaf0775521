"""`wavesim results`: a GPU benchmark's results as text, as a page, or as the documentation's page."""

import argparse
from pathlib import Path

from wavesim.cli.printing import print_result


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("file", type=Path, nargs="?", help="a results file (the newest in gpu/results)")
    parser.add_argument("--html", type=Path, help="write every case to this page")
    parser.add_argument("--docs", type=Path, help="write results.md into this folder")


def run(options: argparse.Namespace) -> int:
    """Prints the results and writes what is asked for."""
    from wavesim.bench.gpu_results import load_results, newest_results
    from wavesim.bench.results_page import run_results

    results = load_results(options.file or newest_results())
    return print_result(options, *run_results(results, options.html, options.docs))
