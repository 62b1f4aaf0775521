"""`wavesim compare`: plans side by side, predicted and, where there are recordings or a GPU, measured.

Example: `wavesim compare gpt3-mlp --tokens 768 --sync row,tile,pdl+row --html plans.html`.
"""

import argparse
from pathlib import Path

from wavesim.cli.printing import print_result, progress
from wavesim.cli.workload_options import add_split_k_option, add_workload_options, described
from wavesim.guard.bounds import MOST_COMPARED, listed
from wavesim.plan.parsing import WORDS, parse_plan


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_workload_options(parser)
    parser.add_argument(
        "--sync", default="row,tile", help=f"plans to set beside stream sync, separated by commas: {WORDS}"
    )
    add_split_k_option(parser)
    parser.add_argument("--gpu", default="never", choices=["never", "auto", "require"], help="measure live")
    parser.add_argument("--html", type=Path, help="write the figure to this page")


def run(options: argparse.Namespace) -> int:
    """Prints the table, and draws it if asked."""
    from wavesim.comparison import compare, prediction_keys
    from wavesim.recordings.runner import find_runner

    pipeline, device = described(options)
    names = [name for name in listed("sync", options.sync, MOST_COMPARED) if name != "stream"]
    plans = [parse_plan(name, options.order) for name in ["stream", *names]]
    result = compare(
        pipeline, plans, device, find_runner(options.gpu), progress=progress("predicting", after_s=3.0)
    )
    if options.html:
        from wavesim.view.page import write_page

        write_page(options.html, title=f"{pipeline.name}: predicted and measured", figures=[result.figure()])
    document = {
        "workload": pipeline.name,
        "device": device.name,
        "rows": [row.as_json() for row in result.rows],
        "notes": list(result.notes),
        **prediction_keys(result),
    }
    return print_result(options, document, repr(result))
