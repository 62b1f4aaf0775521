"""The command line: `wavesim simulate | compare | predict | gen | tune | advise | validate | results | ...`.

With `--json` standard output holds exactly one JSON object; progress and messages go to standard
error. Bad input ends with status 2 and one line that says what to change.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from wavesim import __version__
from wavesim.advise.advice_options import add_advise_options
from wavesim.cli.devices import run_devices
from wavesim.cli.gen_options import add_gen_options, add_tune_options
from wavesim.errors import DeadlockError, DescriptionError, WavesimError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import parse_order
from wavesim.plan.plan import Plan, StreamSync
from wavesim.plan.words import WORDS, parse_plan
from wavesim.workloads.catalogue import WORKLOADS, parse_tile, workload

BAD_INPUT = 2
INTERRUPTED = 130
EVALUATION = "wavesim.evaluation"  # the only room that the others work without


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns the exit status: 0, 1 if a check failed, 2 for bad input."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except (WavesimError, ModuleNotFoundError) as error:
        sys.stderr.write(f"wavesim: {_bad_input_text(error)}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("wavesim: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # the reader has gone: nothing to report
        return 0
    except OSError as error:
        sys.stderr.write(f"wavesim: {error.filename}: {error.strerror}; give another path\n")
        return BAD_INPUT


def _bad_input_text(error: WavesimError | ModuleNotFoundError) -> str:
    """One line for an error that a user can do something about; raises any other again."""
    if isinstance(error, DeadlockError):
        return error.summary
    if isinstance(error, WavesimError):
        return str(error)
    if not (error.name or "").startswith(EVALUATION):
        raise error
    return (
        f"{EVALUATION} is not installed; this command scores the simulator and needs it: install the whole "
        "package"
    )


class _OneLineParser(argparse.ArgumentParser):
    """Bad arguments are one line, like every other bad input."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"wavesim: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _OneLineParser(prog="wavesim", description="Predict and prove tile-level synchronisation.")
    parser.add_argument("--version", action="version", version=f"wavesim {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    simulate = _command(commands, "simulate", _simulate, "simulate one plan of a workload")
    _workload_options(simulate)
    simulate.add_argument("--sync", default="stream", help=WORDS)
    _split_k_option(simulate)
    simulate.add_argument("--no-wait-kernel", action="store_true", help="let consumers be issued at any time")
    simulate.add_argument(
        "--head-start", type=int, default=0, help="consumer blocks on the device before the producer's first"
    )
    compare = _command(commands, "compare", _compare, "plans side by side, predicted and measured")
    _workload_options(compare)
    compare.add_argument(
        "--sync", default="row,tile", help=f"plans to set beside stream sync, separated by commas: {WORDS}"
    )
    _split_k_option(compare)
    compare.add_argument("--gpu", default="never", choices=["never", "auto", "require"], help="measure live")
    compare.add_argument("--html", type=Path, help="write the figure to this page")
    predict = _command(
        commands, "predict", _predict, "will tile sync help your own kernels? from a TOML file"
    )
    predict.add_argument("file", type=Path)
    gen = _command(commands, "gen", _gen, "orders, policies and options of a workload, as a CUDA header")
    _workload_options(gen)
    add_gen_options(gen)
    tune = _command(commands, "tune", _tune, "search policies, orders and options in the simulator")
    _workload_options(tune)
    add_tune_options(tune)
    advise = _command(commands, "advise", _advise, "where a profile loses time, and what would win it back")
    add_advise_options(advise)
    validate = _command(
        commands, "validate", _validate, "re-score the simulator against the stored measurements"
    )
    validate.add_argument("--write", action="store_true", help="store the scores as the ones to hold to")
    validate.add_argument("--list", action="store_true", help="every case, worst first")
    validate.add_argument("--html", type=Path, help="write the scores to this page, with a picture per set")
    results = _command(commands, "results", _results, "a GPU benchmark's results as a page and pictures")
    results.add_argument("file", type=Path, nargs="?", help="a results file (the newest in gpu/results)")
    results.add_argument("--html", type=Path, help="write every figure and a table to this page")
    results.add_argument("--docs", type=Path, help="write results.md and its images into this folder")
    _command(commands, "bench", _bench, "speed of the simulator itself")
    _command(commands, "devices", run_devices, "the GPUs that are known, and which of them were measured")
    demo = _command(commands, "demo", _demo, "the GPT-3 MLP at the paper's sizes: a table and an HTML page")
    demo.add_argument("--html", type=Path, default=Path("wavesim-demo.html"))
    return parser


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], words: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=words, description=words)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.set_defaults(command=run)
    return parser


def _workload_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workload", help=", ".join(WORKLOADS))
    parser.add_argument("--tokens", type=int, help="rows of the input (M); images for convolutions")
    parser.add_argument("--tile", help="rows x columns of a tile, such as 128x256")
    parser.add_argument("--order", default="row", help="row, column, grouped:ROWS or reversed:ORDER")
    parser.add_argument("--device", default=None, help=", ".join(devices.names()))


def _split_k_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--split-k", type=int, default=1, help="slices of K, each a block of its own")


def _described(options: argparse.Namespace) -> tuple[Pipeline, Device]:
    tile = None if options.tile is None else parse_tile(options.tile)
    pipeline = workload(options.workload, options.tokens, tile)
    return pipeline, devices.load(
        options.device or ("toy" if options.workload == "toy" else devices.default_device().name)
    )


def _described_split(options: argparse.Namespace) -> tuple[Pipeline, Device]:
    from wavesim.cli.gen_commands import with_split_k

    pipeline, device = _described(options)
    return (pipeline if options.split_k == 1 else with_split_k(pipeline, options.split_k)), device


def _simulate(options: argparse.Namespace) -> int:
    from wavesim.analysis.metrics import metrics_of
    from wavesim.check.deadlock import safety_of
    from wavesim.predict.defaults import find_costs
    from wavesim.predict.intervals import interval_from_trace
    from wavesim.predict.prediction import improvement_points
    from wavesim.sim.simulation import simulate

    if options.head_start < 0:
        raise DescriptionError(f"head-start is {options.head_start}; it must be at least 0")
    pipeline, device = _described_split(options)
    plan = parse_plan(
        options.sync, options.order, wait_kernel=not options.no_wait_kernel, head_start=options.head_start
    )
    known = find_costs(pipeline, device, options.order)
    trace = simulate(pipeline, plan, device, known.model)
    if options.no_wait_kernel:
        sys.stderr.write(f"wavesim: without the wait-kernel: {safety_of(pipeline, plan, device).reason}\n")
    stream = simulate(pipeline, StreamSync(parse_order(options.order)), device, known.model)
    found = metrics_of(trace)
    gain = improvement_points(trace.time_ns, stream.time_ns)
    interval = interval_from_trace(trace, gain, is_calibrated=known.case is not None)
    result = {
        "workload": pipeline.name,
        "device": device.name,
        "sync": plan.name,
        "makespan_ns": found.makespan_ns,
        "waves": found.waves,
        "busy_utilisation": found.busy_utilisation,
        "resident_utilisation": found.resident_utilisation,
        "improvement_points": gain,
        "low": interval.low,
        "high": interval.high,
        "scored": interval.scored,
        "basis": known.source,
        "defaults": list(known.defaults),
    }
    words = (
        f"{pipeline.name} on {device.name}, {plan.label}, order {options.order}: simulated "
        f"{trace.time_ns / 1e3:.1f} us{_outside(trace.header.setup_ns, plan)}, "
        f"{gain:+.1f} points over stream sync; SMs {found.busy_utilisation:.0%} "
        "busy, "
        f"{found.resident_utilisation:.0%} resident\ncosts: {known.source}"
        + (f"\n{plan.caveat}" if plan.caveat else "")
    )
    return _print(options, result, words)


def _outside(outside_ns: int, plan: Plan) -> str:
    """How much of a plan's time is around its blocks."""
    words = "setup and fork" if plan.launch.is_multi_stream else "setup"
    return f" ({outside_ns / 1e3:.1f} of them {words})" if outside_ns else ""


def _compare(options: argparse.Namespace) -> int:
    from wavesim.comparison import compare, find_runner, prediction_keys

    pipeline, device = _described_split(options)
    names = [name for name in options.sync.split(",") if name != "stream"]
    plans = [parse_plan(name, options.order) for name in ["stream", *names]]
    result = compare(pipeline, plans, device, find_runner(options.gpu))
    if options.html:
        from wavesim.view.page import write_page

        write_page(options.html, title=f"{pipeline.name}: predicted and measured", figures=[result.figure()])
    rows = [asdict(row) | {"error_points": row.error_points} for row in result.rows]
    document = {
        "workload": pipeline.name,
        "device": device.name,
        "rows": rows,
        "notes": list(result.notes),
        **prediction_keys(result),
    }
    return _print(options, document, repr(result))


def _predict(options: argparse.Namespace) -> int:
    from wavesim.model.description import load_description
    from wavesim.predict.verdict import verdict_on

    found = load_description(options.file)
    verdict = verdict_on(found.pipeline, found.device, found.kernel_ns)
    guess = "" if verdict.scored else ", a guess: no score covers this kind of kernel on this device"
    gains = ", ".join(f"{name} {gain:+.1f}" for name, gain in verdict.improvements.items())
    words = (
        f"best plan: {verdict.best}, {verdict.improvement_points:+.1f} points over stream sync "
        f"({verdict.low:+.1f} to {verdict.high:+.1f}, 8 times in 10{guess})\nwhy: {verdict.reason}\n"
        f"{verdict.basis}\ntried, simulated on {found.device.name}, points: {gains}"
    )
    document = {k: v for k, v in asdict(verdict).items() if k != "improvements"}
    return _print(options, document, words)


def _gen(options: argparse.Namespace) -> int:
    from wavesim.cli.gen_commands import run_gen

    return _print(options, *run_gen(options, *_described(options)))


def _tune(options: argparse.Namespace) -> int:
    from wavesim.cli.gen_commands import run_tune
    from wavesim.comparison import find_runner
    from wavesim.tuning.measuring import measure_best

    def other_tile(tile: str) -> Pipeline:
        return workload(options.workload, options.tokens, parse_tile(tile))

    pipeline, device = _described(options)
    runner = find_runner("require") if options.measure else None
    tuning, document, words = run_tune(options, pipeline, device, other_tile, _progress("simulating"))
    if runner is not None:
        found = measure_best(tuning, runner, options.measure)
        document, words = document | {"measured": asdict(found)}, f"{words}\n{found.table()}"
    _print(options, document, words)
    return 0 if tuning.is_complete else INTERRUPTED


def _advise(options: argparse.Namespace) -> int:
    from wavesim.advise.advice_command import run_advise
    from wavesim.advise.advice_text import summary_text

    advice = run_advise(options)
    if options.html:
        from wavesim.advise.report import write_report

        write_report(options.html, advice)
    return _print(options, advice.json_object, summary_text(advice))


def _validate(options: argparse.Namespace) -> int:
    from wavesim.evaluation.validate_command import run_validate

    found = run_validate(options, _progress("validating"))
    if options.html:
        from wavesim.evaluation.score_page import write_score_page

        write_score_page(options.html, found.predictions, found.scores)
    status = _print(options, found.document, found.words)
    for complaint in found.complaints:
        sys.stderr.write(f"wavesim: worse than the committed score: {complaint}\n")
    if not found.predictions:
        sys.stderr.write("wavesim: no recordings are installed with this package\n")
    return 1 if found.complaints or not found.predictions else status


def _results(options: argparse.Namespace) -> int:
    from wavesim.evaluation.gpu_results import load_results, newest_results
    from wavesim.evaluation.results_page import run_results

    found = load_results(options.file or newest_results())
    return _print(options, *run_results(found, options.html, options.docs))


def _bench(options: argparse.Namespace) -> int:
    from wavesim.evaluation.simulator_speed import measure_speed

    result = asdict(measure_speed())
    return _print(options, result, "\n".join(f"{name}: {value:.3g}" for name, value in result.items()))


def _demo(options: argparse.Namespace) -> int:
    from wavesim.cli.demo import run_demo

    result = run_demo(options.html, progress=_progress("simulating"))
    words = f"{result.table}\n\n{options.html}: the same as pictures, one self-contained page"
    document = {"rows": result.rows, "html": str(options.html), **result.prediction}
    return _print(options, document, words)


def _progress(words: str) -> Callable[[int, int], None]:
    """Shows n of total on standard error, on one line where that is a terminal."""
    is_terminal = sys.stderr.isatty()

    def show(done: int, total: int) -> None:
        if is_terminal:
            sys.stderr.write(f"\r{words}: {done} of {total}" + ("\n" if done == total else ""))
        elif done == total:
            sys.stderr.write(f"{words}: {done} of {total}\n")

    return show


def _print(options: argparse.Namespace, result: dict[str, Any], words: str) -> int:
    sys.stdout.write((json.dumps(result) if options.json else words) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
