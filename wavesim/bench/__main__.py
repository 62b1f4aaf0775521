"""`python -m wavesim.bench lists | register | score | page`: a case list from registration to its page.

Example: `register layers-third --out run --commit 1a2b3c4` writes what is predicted, and its hash; after
`python -m wavesim_gpu measure layers-third --out run`, `score layers-third run` prints how good it was.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from wavesim.bench.blind_runs import model_sources
from wavesim.bench.case_list import list_names, load_list
from wavesim.bench.list_page import page_of_list
from wavesim.bench.registration import predict_from_costs, register, registered
from wavesim.bench.results import merged
from wavesim.bench.scoring import scores_of, speeds_of
from wavesim.errors import WavesimError
from wavesim.safe_io.escaping import lines
from wavesim.safe_io.options import OneLineParser
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text


def main() -> int:
    """Runs the command; returns its status: 2, and a line on standard error, for bad input."""
    options = _parser().parse_args()
    try:
        return _run(options)
    except WavesimError as error:
        sys.stderr.write(lines(f"wavesim.bench: {error}") + "\n")
        return 2


def _run(options: argparse.Namespace) -> int:
    if options.action == "lists":
        known_lists = map(load_list, list_names())
        _say("\n".join(f"{it.name:<24}{len(it.cases):>5} cases  {it.title}" for it in known_lists))
        return 0
    cases = load_list(options.list)
    if options.action == "register":
        made_by = {"commit": options.commit, "model_sources": model_sources(), "list_sha256": cases.sha256}
        predictions = predict_from_costs(cases.cases, cases.device)
        _say(f"costs.json {register(options.out, 'costs', predictions, made_by)}")
        return 0
    header, rows = merged(sorted(options.folder.glob("*.jsonl")))
    known = registered(options.folder, "costs") if (options.folder / "costs.json").exists() else {}
    if options.action == "score":
        speeds = {way: asdict(speed) for way, speed in speeds_of(rows, cases.contests).items()}
        scores = asdict(scores_of(known, rows, cases.baseline)) if known or not speeds else {}
        _say(json.dumps(scores | ({"speeds": speeds} if speeds else {}), indent=1))
    else:
        write_text(options.out, page_of_list(cases, known, header, rows))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="python -m wavesim.bench")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("lists", help="the lists that ship")
    register_ = actions.add_parser("register", help="write predictions and their hash before measuring")
    score = actions.add_parser("score", help="how good registered predictions were")
    page = actions.add_parser("page", help="a measured list as Markdown")
    for action in (register_, score, page):
        action.add_argument("list", help="a list's name, or a TOML file")
    register_.add_argument("--out", type=Path, required=True, help="folder for predictions and results")
    register_.add_argument("--commit", required=True, help="the model's commit")
    for action in (score, page):
        action.add_argument("folder", type=Path, help="where predictions and results are")
    page.add_argument("--out", type=Path, required=True, help="the page")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(run_program("wavesim.bench", main))
