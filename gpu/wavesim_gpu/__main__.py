"""Command line of the GPU: try, try-pair, shake, characterise, bench, measure, report.

Example: `python -m wavesim_gpu bench --quick` on a GPU writes gpu/results/DATE.json; `report --json` sums up
the newest anywhere.
"""

from wavesim.safe_io.signals import end_at_once

if __name__ == "__main__":
    end_at_once("wavesim_gpu")  # before the imports, which take most of a short command's time

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError, WavesimError
from wavesim.safe_io.bounds import plain_int, shown
from wavesim.safe_io.escaping import lines
from wavesim.safe_io.options import OneLineParser, number
from wavesim.safe_io.program import ReaderGoneError, error_text, run_program
from wavesim_gpu.characterise import command as characterise_command
from wavesim_gpu.driver.current_gpu import require_gpu
from wavesim_gpu.shake import shake_command
from wavesim_gpu.trial import command as try_command
from wavesim_gpu.trial import pair_command

ENDED = {"record": "measure gemms-second --blind", "layers": "measure mlps --blind"}
MEASURE = "measure every case of a list: checked, in turns, a row per way"


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit status: 2 for bad input, no GPU, wrong results or stale ones.

    Without `arguments` it is the whole process's, as `run_program` says, which has further statuses.
    """
    if arguments is None:
        return run_program("wavesim_gpu", lambda: main(sys.argv[1:]))
    if arguments and arguments[0] in ENDED:
        now = f"python -m wavesim_gpu {ENDED[arguments[0]]} --out DIR"
        print(f"{arguments[0]} has ended: {now}", file=sys.stderr)
        return 2
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except WavesimError as error:
        print(lines(str(error)), file=sys.stderr)
    except ModuleNotFoundError as error:
        if "wavesim_gpu.bench" not in str(error) and "wavesim.bench" not in str(error):
            raise
        print(f"{error.name} is not installed; this command measures and needs it", file=sys.stderr)
    except ReaderGoneError:
        raise
    except OSError as error:
        print(lines(error_text(error)), file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="python -m wavesim_gpu", description="Measure pipelines on an NVIDIA GPU.")
    commands = parser.add_subparsers(required=True, metavar="command")
    try_command.add_to(commands)
    pair_command.add_to(commands)
    shake_command.add_to(commands)
    characterise_command.add_to(commands)
    bench = commands.add_parser(
        "bench", help="time plans, our GEMM and cuBLAS in turns; writes gpu/results/DATE.json"
    )
    bench.add_argument("--quick", action="store_true", help="two sizes and two tiles")
    bench.add_argument("--out", type=Path, help="folder for the results (gpu/results)")
    bench.set_defaults(run=_bench)
    measure = _add_measure(commands)
    for command in (bench, measure):
        command.add_argument("--commit", help="commit of the kernels, where git cannot tell")
    report = commands.add_parser("report", help="sum up the newest results; needs no GPU")
    report.add_argument("--json", action="store_true", help="one JSON object on standard output")
    report.add_argument("--results", type=Path, help="folder of the results (gpu/results)")
    report.set_defaults(run=_report)
    return parser


def _add_measure(commands: Any) -> Any:
    measure = commands.add_parser("measure", help=MEASURE, description=MEASURE)
    measure.add_argument("list", help="a list of wavesim/bench/lists by its name, or a TOML file")
    measure.add_argument("--out", type=Path, required=True, help="folder of the results; again: goes on")
    measure.add_argument("--only", help="cases whose name contains this")
    measure.add_argument("--shard", help="1/4 is the first of four processes, a GPU each")
    measure.add_argument("--minutes", type=number, default=9, help="after these no case is begun (9)")
    measure.add_argument(
        "--blind",
        action="store_true",
        help="the baseline first, then predictions and their hash, then the plans; needs simpy",
    )
    measure.add_argument("--dry-run", action="store_true", help="print the cases and measure nothing")
    measure.add_argument("--device", help="what --blind predicts for, by the catalogue's name (the list's)")
    measure.set_defaults(run=_measure)
    return measure


def _bench(options: argparse.Namespace) -> int:
    # report needs none of this
    from wavesim_gpu.bench.contenders import RESULTS  # noqa: PLC0415
    from wavesim_gpu.bench.kinds.bench_sizes import QUICK, Scope, run_bench  # noqa: PLC0415

    require_gpu()
    print(run_bench(QUICK if options.quick else Scope(), options.out or RESULTS, options.commit))
    return 0


def _measure(options: argparse.Namespace) -> int:
    from wavesim.bench.case_list import load_list  # noqa: PLC0415  # as above
    from wavesim.model.device import load  # noqa: PLC0415  # as above
    from wavesim_gpu.bench.harness import measure, require_predictions  # noqa: PLC0415  # as above
    from wavesim_gpu.run.runner import current_commit  # noqa: PLC0415  # as above

    cases = load_list(options.list)
    if options.device:
        load(options.device)  # before any measurement: it names those there are
        cases = replace(cases, device=options.device)
    if options.minutes <= 0:
        raise DescriptionError(f"--minutes is {options.minutes:g}; it must be above 0, such as 9")
    shard, only = _shard(options.shard, len(cases.cases)), options.only or ""
    named = [case for case in cases.shard(*shard) if only in case.name]
    if not named:
        raise DescriptionError(
            f"--only is {shown(only)}; it is in none of the {len(cases.cases)} names, which are such as "
            f"{cases.cases[0].name!r}"
        )
    if options.dry_run:
        print("\n".join(lines(case.name) for case in named))
        return 0
    if options.blind:
        require_predictions()
    options.out.mkdir(parents=True, exist_ok=True)
    require_gpu(cases.device if options.blind else None)
    run = measure(
        cases,
        options.out,
        only=only,
        shard=shard,
        seconds=60 * options.minutes,
        commit=options.commit or current_commit(),
        is_blind=options.blind,
    )
    print(f"{len(named)} cases, {len(run.failures)} failures, in {run.folder}")
    return 1 if run.failures else 0


def _shard(text: str | None, most: int) -> tuple[int, int]:
    """Of a word such as 2/4. Raises `DescriptionError`."""
    if text is None:
        return 1, 1
    try:
        number, count = map(plain_int, text.split("/", 1))
    except ValueError:
        raise DescriptionError(f"--shard is {shown(text)}; write NUMBER/COUNT, such as 1/4") from None
    if not 1 <= number <= count <= most:
        raise DescriptionError(
            f"--shard is {shown(text)}; write 1/COUNT to COUNT/COUNT, with at most {most} parts, a case each"
        )
    return number, count


def _report(options: argparse.Namespace) -> int:
    from wavesim_gpu.bench.report import sum_up  # noqa: PLC0415  # the other commands need none of this

    ours = Path(__file__).parents[1] / "results"
    if options.results is None and not ours.is_dir():
        raise DescriptionError("an installed package has no results beside it; give --results FOLDER")
    result = sum_up(options.results or ours)
    if options.json:
        print(json.dumps(result))
    else:
        print("\n".join(f"{name:32} {value}" for name, value in result.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
