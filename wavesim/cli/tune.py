"""`wavesim tune`: plans of a workload ranked by the simulator, and the best of them measured if asked.

Example: `wavesim tune gpt3-mlp --tokens 2048 --tiles 128x128 --split-k 2` prints a ranked table.
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavesim.cli.printing import print_result, progress
from wavesim.cli.status import INTERRUPTED
from wavesim.cli.workload_options import add_workload_options, described, with_split_k
from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.workloads.catalogue import parse_tile, workload

if TYPE_CHECKING:
    from wavesim.tuning.search import Tuning


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_workload_options(parser, has_order=False)
    parser.add_argument("--tiles", default="", help="more tile sizes to try, such as 256x128,128x128")
    parser.add_argument(
        "--split-k", dest="splits", default="", help="splits of K to try, separated by commas, such as 2,4"
    )
    parser.add_argument("--results", type=Path, help="keep results in this file, and go on where it stops")
    parser.add_argument("--measure", type=int, default=0, metavar="N", help="measure the best N on this GPU")
    parser.add_argument("--rows", type=int, default=12, help="rows of the table")


def run(options: argparse.Namespace) -> int:
    """Searches, prints the ranking; with `--measure` runs the best on this machine's GPU."""
    from wavesim.recordings.runner import find_runner
    from wavesim.tuning.measuring import measure_best
    from wavesim.tuning.search import tune

    for name, least in (("rows", 1), ("measure", 0)):
        if getattr(options, name) < least:
            raise DescriptionError(f"{name} is {getattr(options, name)}; it must be at least {least}")
    pipeline, device = described(options)
    runner = find_runner("require") if options.measure else None
    tuning = tune(
        pipeline,
        device,
        variants=_variants(options, pipeline),
        progress=progress("simulating"),
        results=options.results,
    )
    document = tuning_json(tuning)
    text = f"{pipeline.name} on {device.name}\n{tuning.table(options.rows)}\nrun: {tuning.best.text}"
    if runner is not None:
        found = measure_best(tuning, runner, options.measure)
        document, text = document | {"measured": asdict(found)}, f"{text}\n{found.table()}"
    print_result(options, document, text)
    return 0 if tuning.is_complete else INTERRUPTED


def _variants(options: argparse.Namespace, pipeline: Pipeline) -> dict[str, Pipeline]:
    """The workload in other tiles, and each with K split. Raises `DescriptionError`."""
    variants = {
        tile: workload(options.workload, options.tokens, parse_tile(tile)) for tile in _listed(options.tiles)
    }
    for word in _listed(options.splits):
        if not word.isdecimal() or int(word) < 1:
            raise DescriptionError(f"split-k is {word!r}; write numbers separated by commas, such as 2,4")
        for name, base in {"": pipeline, **variants}.items():
            if int(word) > 1 and "split-k" not in name:
                variants |= {f"{name} split-k:{word}".strip(): with_split_k(base, int(word))}
    return variants


def _listed(text: str) -> Iterator[str]:
    return (word for word in text.split(",") if word)


def tuning_json(tuning: "Tuning") -> dict[str, Any]:
    """The ranking, best first; `run` names the plan to run."""
    plans = [
        {
            "plan": row.name,
            "predicted_ns": row.predicted_ns,
            "improvement_points": row.improvement_points,
            "semaphores": row.semaphores,
        }
        for row in tuning.plans
    ]
    return {
        "plans": plans,
        "seconds": tuning.seconds,
        "run": tuning.best.name,
        "margin_points": tuning.margin_points,
        "left_out": dict(tuning.left_out),
        "is_complete": tuning.is_complete,
        "basis": tuning.basis,
        "defaults": list(tuning.defaults),
        "low": tuning.interval[0],
        "high": tuning.interval[1],
        "scored": tuning.margin_points is not None,
    }
