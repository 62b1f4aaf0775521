"""`wavesim compare`: plans side by side, predicted and, where there are recordings or a GPU, measured.

Example: `wavesim compare gpt3-mlp --tokens 768 --sync row,tile,pdl+row --html plans.html`, or of one's own
kernels `wavesim compare --file pair.toml --html plans.html`.
"""

import argparse
from typing import TYPE_CHECKING

from wavesim.cli.pictures import gains_table, require_pictures, write_pictures
from wavesim.cli.printing import print_result, progress
from wavesim.cli.several_gpus import compare_several, of_several
from wavesim.cli.shared_options import add_moved, add_shared
from wavesim.cli.subject import NEVER, add_workload_options, described, file_of
from wavesim.errors import DescriptionError
from wavesim.plan.parsing import WORDS, parse_plan
from wavesim.safe_io.bounds import MOST_COMPARED, listed
from wavesim.safe_io.escaping import whole_line

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from wavesim.comparison import Comparison
    from wavesim.model.pipeline import Pipeline

SYNCS = "row,tile"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_workload_options(parser)
    parser.add_argument(
        "--sync",
        help=f"plans to set beside stream sync, separated by commas ({SYNCS}, or the file's): {WORDS}",
    )
    add_shared(parser, "--split-k")
    add_shared(
        parser,
        "--way",
        way="with [gpus] in the file, how they communicate (all, or some separated by commas)",
    )
    modes = (NEVER, "auto", "require")
    parser.add_argument("--measure", default=NEVER, choices=modes, help="measure on this GPU")
    add_moved(parser, "--gpu", "--measure", default=NEVER, choices=modes)
    add_shared(parser, "--accept", "--verbose")
    add_shared(parser, "--html", "--perfetto", html="write all plans and their timelines to this page")


def run(options: argparse.Namespace) -> int:
    """Prints the table, and draws it if asked."""
    from wavesim.comparison import compare, prediction_keys
    from wavesim.predict.recommendation_text import answer_lines, run_line
    from wavesim.recordings.runner import find_runner

    require_pictures(options)
    description = file_of(options)
    several = of_several(description, options)
    if several is not None:
        return compare_several(several, options)
    subject = described(options, description)
    pipeline, device, order = subject.pipeline, subject.device, subject.launch_order(options.order)
    words = listed("sync", subject.syncs(options.sync, SYNCS), MOST_COMPARED)
    plans = [parse_plan(name, order) for name in ["stream", *(word for word in words if word != "stream")]]
    for plan in plans:
        if plan.schedule.has_work_lists:
            raise DescriptionError(
                f"sync is {plan.name!r}: a megakernel has constants of its own, so no gain over others is "
                "predicted. Use wavesim simulate, or predict with a file; or name other plans with --sync"
            )
    advice = subject.recommended(options.accept, progress("choosing", after_s=3.0))
    if options.sync is None and subject.syncs(None, SYNCS) == SYNCS:
        plans += [advice.option.plan] if advice.option.plan not in plans else []
    result = compare(
        pipeline,
        plans,
        device,
        find_runner(options.measure),
        subject.costs(order) if subject.file is not None else None,
        progress=progress("predicting", after_s=3.0),
    )
    _draw(options, result, pipeline)
    document = {
        "workload": pipeline.name,
        "device": device.name,
        "rows": [row.as_json() for row in result.rows],
        "notes": list(result.notes),
        "recommended": advice.best,
        **prediction_keys(result),
    }
    head = answer_lines(advice, device.name, subject.named) if options.verbose else [run_line(advice)]
    lines = [*head, "", result.table()]
    notes = result.shown_notes if options.verbose else ()
    return print_result(options, document, "\n".join([*lines, *map(whole_line, notes)]))


def _draw(options: argparse.Namespace, result: "Comparison", pipeline: "Pipeline") -> None:
    """The page: plans, table, timelines. To Perfetto every trace, predicted and measured."""
    if options.html is None and options.perfetto is None:
        return
    from wavesim.view.plans_figure import PlanGain, plans_by_gain

    gains = [
        PlanGain(row.label, row.predicted_points, row.low, row.high, row.scored, row.predicted_ns)
        for row in result.rows
    ]

    def figures() -> list["Figure"]:
        return [plans_by_gain(gains, source=f"simulated, {result.basis}"), result.figure()]

    measured = [trace for trace in result.measured if trace is not None]
    title = f"{pipeline.name}: predicted" + (" and measured" if measured else "")
    traces = [*result.predicted, *measured]
    table = gains_table(gains)
    write_pictures(options, title, traces, pipeline, figures, table=table, notes=result.shown_notes)
