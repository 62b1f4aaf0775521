"""`python -m wavesim_gpu try-pair FILE.py`: the command, its table and its page.

Example: `python -m wavesim_gpu try-pair gpu/examples/try_triton_pair.py --html pair.html`.
"""

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wavesim.safe_io.bounds import real, whole
from wavesim.safe_io.columns import in_columns
from wavesim.safe_io.escaping import Markup, element, lines
from wavesim.safe_io.options import integer, number
from wavesim.safe_io.writing import require_writable, write_text
from wavesim_gpu.trial.pair_trial import PairTrial, TriedPlan, UnendedRunError, try_pair
from wavesim_gpu.trial.trial_page import CSS, PAGE
from wavesim_gpu.trial.user_pair import ADVICE, load_user_pair

HELP = "time, predict and run two kernels of your own under every plan that they can run"
ABOUT = f"FILE.py is your own code and is run with all your rights. A file is right when {ADVICE}."
COLUMNS = ("plan", "predicted", "gain", "interval", "measured", "gain", "quartiles", "error")
ROUNDS, MOST_ROUNDS = 20, 1000
BAD_INPUT = 2


def add_to(commands: Any) -> None:
    """Adds the command to a program's, which `argparse` gives no public type."""
    parser = commands.add_parser("try-pair", help=HELP, description=ABOUT)
    parser.set_defaults(run=run)
    parser.add_argument("pair", metavar="FILE.py|FILE.toml", help="the pair, or its description")
    parser.add_argument("--rounds", type=integer, default=ROUNDS, help=f"rounds, interleaved ({ROUNDS})")
    parser.add_argument("--json", type=Path, help="write everything as JSON")
    parser.add_argument("--html", type=Path, help="write the report, one self-contained page")
    parser.add_argument("--no-graph", action="store_true", help="launch from Python, not as CUDA graphs")
    parser.add_argument("--limit-s", type=number, default=60.0, help="seconds that a run may take (60)")


def run(options: argparse.Namespace) -> int:
    """Tries the pair, prints the table, writes page and JSON if asked."""
    whole("--rounds", options.rounds, 1, MOST_ROUNDS)
    real("--limit-s", options.limit_s, 1, 86_400)
    require_writable(options.json, options.html)
    pair = load_user_pair(options.pair)
    try:
        trial = try_pair(pair, options.rounds, _say, use_graph=not options.no_graph, limit_s=options.limit_s)
    except UnendedRunError as error:
        # Nothing that touches the device may run from here on: it would wait for the kernel that hangs.
        sys.stderr.write(f"{lines(str(error))}\n")
        sys.stderr.flush()
        os._exit(BAD_INPUT)
    if options.json:
        write_text(options.json, json.dumps(asdict(trial)) + "\n")
    if options.html:
        write_text(options.html, pair_page(trial))
    print(pair_text(trial))  # noqa: T201  # what the command is for
    return 0


def _say(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)  # noqa: T201  # progress


def cells(row: TriedPlan) -> tuple[str, ...]:
    """A plan's row as texts, as `COLUMNS` names them; "-" is what there is not."""

    def percent(value: float | None) -> str:
        return "-" if value is None else f"{value:+.1f} %"

    def span(low: float | None, high: float | None) -> str:
        return "-" if low is None or high is None else f"{low:+.1f} to {high:+.1f}"

    is_both = row.predicted_gain is not None and row.measured_gain is not None
    return (
        row.name,
        "-" if row.predicted_us is None else f"{row.predicted_us:.1f} us",
        percent(row.predicted_gain),
        span(row.low, row.high),
        "-" if row.measured_us is None else f"{row.measured_us:.1f} us",
        percent(row.measured_gain),
        span(*(row.quartiles or (None, None))),
        f"{(row.predicted_gain or 0) - (row.measured_gain or 0):+.1f}" if is_both else "-",
    )


def caption(trial: PairTrial) -> str:
    """What was measured how."""
    alone = ", ".join(f"{name} {time_us:.1f} us" for name, time_us in trial.kernel_us.items())
    if not trial.is_measured:
        return f"{alone} alone, as described; predicted for {trial.device}, nothing measured"
    how = "graph replays" if trial.is_graph else "launches from Python"
    return (
        f"{alone} alone, measured on {trial.device}; predictions from these two times; medians of "
        f"{trial.rounds} interleaved rounds of {how}; every result checked before and after"
    )


def pair_text(trial: PairTrial) -> str:
    """The report for a terminal."""
    table = in_columns([COLUMNS, *map(cells, trial.plans)], left=(0,))
    return lines("\n".join([trial.place, *table, caption(trial), *trial.notes, "", *trial.answer]))


def pair_page(trial: PairTrial) -> Markup:
    """The same as a page; every text of the user's file or GPU is escaped."""
    head = element("tr", *(element("th", name) for name in COLUMNS))
    body = [element("tr", *(element("td", cell) for cell in cells(row))) for row in trial.plans]
    parts = [
        element("h1", f"{Path(trial.place).name}: {_headline(trial)}"),
        element("p", caption(trial), class_="lead"),
        element("div", element("table", head, *body), class_="scroll"),
        *(element("p", note, class_="caption") for note in trial.notes),
        element("pre", "\n".join(trial.answer)),
    ]
    return PAGE.format(title=Path(trial.place).name, css=CSS, body=Markup("\n").join(parts))


def _headline(trial: PairTrial) -> str:
    best = max(trial.plans, key=lambda row: row.measured_gain or row.predicted_gain or 0.0)
    gain = best.measured_gain if trial.is_measured else best.predicted_gain
    if not gain or gain <= 0:
        return "stream sync is the fastest that was tried"
    return f"{best.name} {'gains' if trial.is_measured else 'is predicted to gain'} {gain:.1f} %"
