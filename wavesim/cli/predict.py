"""`wavesim predict`: the best plan for a user's own kernels, described in a TOML file.

Example: `wavesim predict pair.toml --html pair.html` says which way of synchronising pays, by how much and
why, and draws every plan that was tried and the timelines of the best.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from wavesim.cli.megakernels import names_megakernel, predict_megakernel
from wavesim.cli.pictures import gains_table, require_pictures, write_pictures
from wavesim.cli.printing import print_result, progress
from wavesim.cli.several_gpus import of_several, predict_several
from wavesim.cli.shared_options import add_shared
from wavesim.cli.subject import Subject
from wavesim.errors import DescriptionError
from wavesim.safe_io.escaping import whole_line

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from wavesim.predict.recommendation import Recommendation
    from wavesim.work.description.reader import Description


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("described", nargs="?", type=Path, metavar="FILE.toml", help="as --file")
    add_shared(parser, "--file")
    add_shared(parser, "--accept", "--verbose")
    add_shared(
        parser, "--html", "--perfetto", html="write all plans tried and the best one's timelines to this page"
    )


def run(options: argparse.Namespace) -> int:
    """Prints the best plan, its gain and how sure that is."""
    from wavesim.predict.defaults import are_times_known
    from wavesim.predict.recommendation_text import answer_lines, detail_lines
    from wavesim.work.description.reader import load_description

    require_pictures(options)
    description = load_description(_file(options), may_have_host=True)
    several = of_several(description, options)
    if several is not None:
        return predict_several(several, options)
    if names_megakernel(description):
        return predict_megakernel(description, options)
    if not description.kernel_ns and not are_times_known(description.pipeline, description.device):
        raise DescriptionError(
            f"stage {description.pipeline.stages[0].name!r} has no time; write kernel_us = the kernel alone, "
            "measured"
        )
    subject = Subject(description.pipeline, description.device, description, _file(options))
    verdict = subject.recommended(options.accept, progress("predicting", after_s=3.0))
    lines, details = answer_lines(verdict, subject.device.name, subject.named), detail_lines(verdict)
    _draw(options, description, verdict, [*lines, *details])
    document = {
        "best": verdict.best,
        "recommended": verdict.best,
        "reason": verdict.reason,
        **verdict.forecast.as_json(),
        "safety": verdict.option.safety.as_json(),
    }
    shown = [*lines, *details] if options.verbose else lines
    return print_result(options, document, "\n".join(map(whole_line, shown)))


def _file(options: argparse.Namespace) -> Path:
    given = [path for path in (options.described, options.file) if path is not None]
    if len(given) != 1:
        fault = "no file is named" if not given else "two files are named"
        raise DescriptionError(f"{fault}; give one, as FILE.toml or as --file FILE.toml")
    return Path(given[0])


def _draw(
    options: argparse.Namespace, description: "Description", verdict: "Recommendation", lines: list[str]
) -> None:
    if options.html is None and options.perfetto is None:
        return
    from wavesim.view.plans_figure import PlanGain, plans_by_gain
    from wavesim.view.timeline_figure import timeline

    gains = [
        PlanGain(
            plan.name,
            plan.points,
            plan.forecast.low,
            plan.forecast.high,
            plan.forecast.scored,
            plan.trace.time_ns,
        )
        for plan in verdict.tried
    ]
    stream, drawn = verdict.tried[0], verdict.runner_up

    def figures() -> list["Figure"]:
        source = f"simulated on {description.device.name} from each kernel's time alone"
        return [plans_by_gain(gains, source=source), timeline([stream.trace, drawn.trace])]

    title = f"{description.pipeline.name}: {lines[0]}"
    traces = [plan.trace for plan in verdict.tried]
    table = gains_table(gains)
    write_pictures(options, title, traces, description.pipeline, figures, table=table, notes=lines[1:])
