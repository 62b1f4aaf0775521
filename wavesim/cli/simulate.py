"""`wavesim simulate`: one plan of a workload, by a short word or by its parts.

Example: `wavesim simulate gpt3-mlp --sync row`, or with the launch named
`wavesim simulate gpt3-mlp --launch pdl --sync row`; with one edge that does not overlap
`wavesim simulate llama-3-8b-layer --sync pdl+row --edges qkv-attention=grid`; of kernels of one's own
`wavesim simulate --file pair.toml --sync row --html row.html`.
"""

import argparse
from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from wavesim.cli.in_kernel import in_kernel_trace, trace_line
from wavesim.cli.megakernels import simulate_megakernel_plan
from wavesim.cli.pictures import require_pictures, write_pictures
from wavesim.cli.printing import complain, print_result
from wavesim.cli.several_gpus import of_several, simulate_several
from wavesim.cli.shared_options import add_shared
from wavesim.cli.subject import Subject, add_workload_options, described, file_of
from wavesim.codegen.edge_policies import with_edges
from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import parse_order
from wavesim.plan.parsing import LAUNCHES, SCHEDULES, SYNCS, WORDS, parse_plan
from wavesim.plan.plan import Plan, StreamSync
from wavesim.safe_io.escaping import WIDTH
from wavesim.safe_io.options import integer
from wavesim.trace.trace import Trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from wavesim.predict.forecast import Forecast


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_workload_options(parser)
    parser.add_argument("--sync", default="stream", help=WORDS)
    parser.add_argument("--schedule", help=f"who computes a tile: {', '.join(SCHEDULES)}")
    parser.add_argument("--launch", help=f"when a kernel starts: {', '.join(LAUNCHES)}")
    add_shared(parser, "--edges")
    add_shared(parser, "--split-k", "--verbose")
    add_shared(parser, "--way", way="with [gpus] in the file, how they communicate (stores)")
    parser.add_argument("--no-wait-kernel", action="store_true", help="let consumers be issued at any time")
    parser.add_argument(
        "--head-start",
        type=integer,
        default=0,
        help="consumer blocks on the device before the producer's first",
    )
    parser.add_argument(
        "--beside",
        type=Path,
        help="a trace from inside kernels, to set beside the prediction: Proton's, ours",
    )
    parser.add_argument(
        "--draws", type=integer, default=0, help="of experts: simulate so many other routings, 9 or more"
    )
    add_shared(
        parser, "--html", "--perfetto", html="write the timelines of the plan and of stream sync to this page"
    )


def run(options: argparse.Namespace) -> int:
    """Simulates the plan and stream sync, with the best costs known."""
    from wavesim.predict.recommendation_text import gain_text
    from wavesim.safety.deadlock import safety_of
    from wavesim.trace.metrics import metrics_of

    require_pictures(options)
    beside = _beside(options.beside)
    description = file_of(options)
    several = of_several(description, options)
    if several is not None:
        return simulate_several(several, options)
    subject = described(options, description)
    pipeline, device = subject.pipeline, subject.device
    options.order = subject.launch_order(options.order)
    plan = with_edges(plan_of(options), pipeline, options.edges)
    if plan.schedule.has_work_lists:
        return simulate_megakernel_plan(pipeline, plan, device, options)
    known = subject.costs(options.order)
    baseline = StreamSync(parse_order(options.order))
    trace, forecast = known.predicted(pipeline, plan, baseline, device, (plan.caveat,) if plan.caveat else ())
    safety = safety_of(pipeline, plan, device)
    if plan.launch.is_multi_stream and not plan.launch.wait_kernel:
        complain(f"without the wait-kernel: {safety.reason}")
    stream = known.baseline(pipeline, baseline, device)
    metrics = metrics_of(trace)
    notes = (
        forecast.text,
        f"costs: {known.source}",
        f"before: {forecast.history}",
        *forecast.caveats,
        safety.text,
    )
    verdict = _verdict(forecast, plan, baseline)
    _draw(options, pipeline, (stream, trace), notes, beside)
    document = {
        "workload": pipeline.name,
        "device": device.name,
        "sync": plan.name,
        "makespan_ns": metrics.makespan_ns,
        "waves": metrics.waves,
        "busy_utilisation": metrics.busy_utilisation,
        "resident_utilisation": metrics.resident_utilisation,
        **forecast.as_json(),
        "safety": safety.as_json(),
        **({"measured_makespan_ns": beside.makespan_ns} if beside is not None else {}),
    }
    head = (
        f"{pipeline.name} on {device.name}, {plan.label[0].lower()}{plan.label[1:]}, {options.order} order: "
        f"{trace.time_ns / 1e3:.1f} us{_outside_text(trace.header.setup_ns, plan)}; SMs busy "
        f"{metrics.busy_utilisation:.0%}, holding blocks {metrics.resident_utilisation:.0%}"
    )
    gain = () if plan == baseline else (f"gain {gain_text(forecast, device.name)}",)
    drawn = _drawn_lines(options, subject, plan, document)
    details = (f"costs: {known.source}", f"before: {forecast.history}", *forecast.caveats, safety.text)
    measured = (f"beside it {trace_line(beside)}",) if beside is not None else ()
    basis = f"simulated, {known.source.partition(';')[0]}"
    shown = (head, *drawn, *gain, *measured, *verdict, basis, safety.line)
    lines = [part for line in shown for part in wrap(line, WIDTH, subsequent_indent="  ")]
    return print_result(options, document, "\n".join([*lines, *(details if options.verbose else ())]))


def _drawn_lines(
    options: argparse.Namespace, subject: Subject, plan: Plan, document: dict[str, Any]
) -> tuple[str, ...]:
    """What other routings would take, where they are asked for."""
    if not options.draws:
        return ()
    from wavesim.predict.routings import over_routings

    interval = over_routings(
        subject.pipeline,
        plan,
        subject.device,
        lambda drawn: replace(subject, pipeline=drawn).costs(options.order),
        options.draws,
    )
    document["routings"] = asdict(interval)
    return (interval.text,)


def _verdict(forecast: "Forecast", plan: Plan, baseline: Plan) -> tuple[str, ...]:
    """Of a layer or convolutions, whose gains were scored with it: whether this plan is worth running."""
    from wavesim.predict.forecast import HELPS_POINTS
    from wavesim.predict.kinds import CONVOLUTION_CONSTANTS, LAYER_CONSTANTS

    if plan == baseline or not forecast.kind.startswith((LAYER_CONSTANTS, CONVOLUTION_CONSTANTS)):
        return ()
    if forecast.points < HELPS_POINTS:
        return ("verdict: nothing to gain here by this plan, a point is worth naming",)
    words = "worth running" if forecast.is_worth_it else "too little gain to be sure of"
    return (f"verdict: {words} by this plan, {forecast.needed_points:.1f} points are asked",)


def _beside(path: Path | None) -> Trace | None:
    """The trace that the prediction is set beside. Raises `DescriptionError` for a file that holds none."""
    trace = None if path is None else in_kernel_trace(path, None)
    if path is not None and trace is None:
        raise DescriptionError(
            f"--beside is {path}, no trace from inside kernels; `wavesim advise` reads profiles"
        )
    return trace


def _draw(
    options: argparse.Namespace,
    pipeline: Pipeline,
    traces: tuple[Trace, Trace],
    notes: tuple[str, ...],
    beside: Trace | None,
) -> None:
    """The plan's timeline under that of stream sync; one alone where the plan is stream sync."""
    stream, trace = traces
    drawn = [stream] if trace.header.plan == stream.header.plan else [stream, trace]
    drawn += [beside] if beside is not None else []

    def figures() -> "list[Figure]":
        from wavesim.view.timeline_figure import timeline

        return [timeline(drawn)]

    write_pictures(options, f"{pipeline.name}, simulated", drawn, pipeline, figures, notes=notes)


def plan_of(options: argparse.Namespace) -> Plan:
    """The plan: `--sync` alone is any of `WORDS`, beside `--schedule` or `--launch` one of `SYNCS`.

    Raises `DescriptionError` for unknown words, parts that do not fit together, and options that say nothing
    about this plan.
    """
    if options.head_start < 0:
        raise DescriptionError(f"head-start is {options.head_start}; it must be at least 0")
    if options.head_start and not options.no_wait_kernel:
        raise DescriptionError(
            f"head-start is {options.head_start}, but behind a wait-kernel no consumer block comes first; "
            "add --no-wait-kernel"
        )
    is_parts = options.schedule is not None or options.launch is not None
    is_free = options.no_wait_kernel or options.head_start
    if not is_parts:
        return parse_plan(
            options.sync,
            options.order,
            wait_kernel=not options.no_wait_kernel,
            head_start=options.head_start,
        )
    sync = "boundary" if options.sync == "stream" else options.sync
    _require_word("sync", sync, SYNCS)
    launch = options.launch
    if is_free:
        if launch not in (None, "streams") or sync == "boundary":
            raise DescriptionError(
                "--no-wait-kernel and --head-start are for consumers on a stream of their own; use "
                "--launch streams and --sync row or tile"
            )
        launch = "streams" + (":no-wait-kernel" if options.no_wait_kernel else "")
        launch += f":{options.head_start}" if options.head_start else ""
    _require_word("schedule", options.schedule, SCHEDULES)
    _require_word("launch", launch, LAUNCHES)
    return parse_plan("+".join(word for word in (options.schedule, launch, sync) if word), options.order)


def _require_word(kind: str, word: str | None, known: Collection[str]) -> None:
    if word is not None and word.partition(":")[0] not in known:
        raise DescriptionError(f"{kind} is {word!r}; known are {', '.join(known)}")


def _outside_text(outside_ns: int, plan: Plan) -> str:
    what = "setup and fork" if plan.launch.is_multi_stream else "setup"
    return f" ({outside_ns / 1e3:.1f} us {what})" if outside_ns else ""
