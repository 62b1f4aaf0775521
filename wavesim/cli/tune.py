"""`wavesim tune`: plans of a workload ranked by the simulator, and the best of them measured if asked.

Example: `wavesim tune gpt3-mlp --tokens 2048 --tiles 128x128 --split-k 2` prints a ranked table; with
`--file pair.toml --html tuned.html` it is of one's own kernels, and drawn.
"""

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavesim.cli.pictures import require_pictures, write_pictures
from wavesim.cli.printing import INTERRUPTED, print_result, progress
from wavesim.cli.shared_options import add_moved, add_shared
from wavesim.cli.subject import Subject, add_workload_options, chosen_executor, described, with_split_k
from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.safe_io.bounds import listed, listed_integers
from wavesim.safe_io.options import integer
from wavesim.workloads.catalogue import parse_tile, workload

ROWS, ALL_ROWS = 2, 12  # of the table; the second with --verbose

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from wavesim.predict.recommendation import Recommendation
    from wavesim.tuning.ranking import TunedPlan, Tuning


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_workload_options(parser, has_order=False)
    parser.add_argument("--tiles", default="", help="more tile sizes to try, such as 256x128,128x128")
    parser.add_argument(
        "--split-k", dest="splits", default="", help="splits of K to try, separated by commas, such as 2,4"
    )
    add_shared(parser, "--dask")
    parser.add_argument("--results", type=Path, help="keep results in this file, and go on where it stops")
    parser.add_argument(
        "--measure", type=integer, default=0, metavar="N", help="measure the best N on this GPU"
    )
    add_shared(parser, "--accept", "--verbose")
    parser.add_argument("--top", type=integer, help=f"plans in the table ({ROWS}; with --verbose {ALL_ROWS})")
    add_moved(parser, "--rows", "--top", type=integer)
    add_shared(
        parser,
        "--html",
        "--perfetto",
        html="write the best plans, and the timelines of the one to run to this page",
    )


def run(options: argparse.Namespace) -> int:
    """Searches, prints the ranking; with `--measure` runs the best on this machine's GPU."""
    from wavesim.predict.recommendation import usual_basis
    from wavesim.predict.recommendation_text import answer_lines
    from wavesim.recordings.runner import find_runner
    from wavesim.tuning.ranking import measure_best
    from wavesim.tuning.search import tune

    _require_counts(options)
    require_pictures(options)
    subject = described(options)
    pipeline, device = subject.pipeline, subject.device
    runner = find_runner("require") if options.measure else None
    with chosen_executor(options) as executor:
        tuning = tune(
            pipeline,
            device,
            subject.costs() if subject.file is not None else None,
            variants=_variants(options, pipeline),
            executor=executor,
            progress=progress("simulating"),
            results=options.results,
        ).accepting(options.accept or usual_basis(device))
    advice = replace(subject, pipeline=tuning.best.pipeline).recommended(options.accept)
    _draw(options, subject, tuning, advice)
    document = tuning_json(tuning, advice)
    rows = options.top or (ALL_ROWS if options.verbose else ROWS)
    notes = tuning.notes if options.verbose else ()
    head = answer_lines(advice, device.name, subject.named, is_brief=not options.verbose)
    lines = [*head, "", tuning.table(rows), *notes]
    text = "\n".join(lines)
    if runner is not None and tuning.is_complete:
        measured = measure_best(tuning, runner, options.measure)
        document, text = document | {"measured": asdict(measured)}, f"{text}\n{measured.table()}"
    print_result(options, document, text)
    return 0 if tuning.is_complete else INTERRUPTED


def _require_counts(options: argparse.Namespace) -> None:
    for name, least in (("top", 1), ("measure", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise DescriptionError(f"{name} is {value}; it must be at least {least}")
    if options.top is not None and options.json:
        raise DescriptionError("--top is of the table, and --json has all plans; leave one of them out")


def _variants(options: argparse.Namespace, pipeline: Pipeline) -> dict[str, Pipeline]:
    tiles = {tile: parse_tile(tile) for tile in (listed("tiles", options.tiles) if options.tiles else ())}
    for name, (rows, columns) in tiles.items():
        if f"{rows}x{columns}" == pipeline.parameters["tile"]:
            raise DescriptionError(f"tiles has {name!r}, the tile that is tried anyway; leave it out")
    whole = {name: workload(options.workload, options.tokens, tile) for name, tile in tiles.items()}
    return whole | {
        f"{name} split-k:{count}".strip(): with_split_k(base, count)
        for count in listed_integers("split-k", options.splits, 2, "2,4")
        for name, base in {"": pipeline, **whole}.items()
    }


def _draw(options: argparse.Namespace, subject: Subject, tuning: "Tuning", advice: "Recommendation") -> None:
    """The first plans of the ranking, and the timelines of the best stream sync and of the plan to run."""
    if options.html is None and options.perfetto is None:
        return
    from wavesim.view.plans_figure import PlanGain, plans_by_gain
    from wavesim.view.timeline_figure import timeline

    stream = next(row for row in tuning.plans if row.plan.is_stream_sync)
    by_name = {row.name: row for row in (*tuning.plans[: options.top or ALL_ROWS], tuning.best, stream)}
    shown = sorted(by_name.values(), key=lambda row: row.predicted_ns)
    traces = list({option.name: option.trace for option in (advice.tried[0], advice.option)}.values())

    def gain(row: "TunedPlan") -> PlanGain:
        known = replace(subject, pipeline=row.pipeline).costs(row.order)
        trace = known.simulated(row.pipeline, row.plan, subject.device)
        forecast = known.forecast(trace, row.improvement_points)
        return PlanGain(
            row.name, forecast.points, forecast.low, forecast.high, forecast.scored, row.predicted_ns
        )

    def figures() -> "list[Figure]":
        source = f"the best of {len(tuning.plans)} plans, simulated, {tuning.forecast.basis}"
        return [plans_by_gain([gain(row) for row in shown], source=source), timeline(traces)]

    title = f"{tuning.workload} on {tuning.device}: run {advice.best}"
    write_pictures(options, title, traces, tuning.best.pipeline, figures, notes=tuning.notes)


def tuning_json(tuning: "Tuning", advice: "Recommendation") -> dict[str, Any]:
    """The ranking, fastest first. `recommended` is the plan to run, `run` its name in the ranking.

    `fastest` names the first that is safe enough and surely gains, scored or not.
    """
    plans = [
        {
            "plan": row.name,
            "predicted_ns": row.predicted_ns,
            "improvement_points": row.improvement_points,
            "semaphores": row.semaphores,
            "safety": row.safety.as_json(),
        }
        for row in tuning.plans
    ]
    best = advice.option.plan
    same = (row.name for row in tuning.plans if row.pipeline is tuning.best.pipeline and row.plan == best)
    return {
        "plans": plans,
        "seconds": tuning.seconds,
        "recommended": advice.best,
        "run": next(same, advice.best),
        "fastest": tuning.best.name,
        "accept": tuning.accept,
        "left_out": dict(tuning.left_out),
        "is_complete": tuning.is_complete,
        "lost_workers": list(tuning.lost_workers),
        **tuning.forecast.as_json(),
    }
