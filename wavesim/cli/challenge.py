"""`wavesim challenge`: predict 60 pairs from their stream-sync runs, and be scored against the measurement.

Example: `wavesim challenge list --csv mine.csv`, fill in the points, `wavesim challenge score mine.csv`; the
tile times of a pair are in the file that `wavesim challenge trace P07 --out p07.npz` writes.
"""

import argparse
from pathlib import Path
from typing import Any

from wavesim.cli.printing import print_result
from wavesim.cli.shared_options import add_shared
from wavesim.errors import DescriptionError
from wavesim.safe_io.writing import require_writable, write_text

# Of each action what its word is, and the option that goes with it.
ACTIONS = {"list": ("", "csv"), "trace": ("a pair, P01 to P60", "out"), "score": ("a CSV file", "reveal")}

SHOWN = 8  # pairs


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("action", choices=list(ACTIONS), help="the pairs; one pair's trace; your score")
    parser.add_argument("what", nargs="?", help="of trace: a pair, P01 to P60; of score: a CSV file")
    parser.add_argument("--csv", type=Path, help="with list: write a file to fill in")
    parser.add_argument("--out", type=Path, metavar="FILE.npz", help="with trace: where to write it")
    add_shared(parser, "--verbose", verbose="with list: show all pairs")
    parser.add_argument("--reveal", action="store_true", help="with score: show every pair's measurement too")


def run(options: argparse.Namespace) -> int:
    """Lists, hands out or scores."""
    _require_fitting(options)
    result: dict[str, Any]
    if options.action == "list":
        result, text = _listed(options.csv, options.verbose)
    elif options.action == "trace":
        result, text = _trace(options.what, options.out)
    else:
        result, text = _scored(Path(options.what), options.reveal)
    return print_result(options, result, text)


def _require_fitting(options: argparse.Namespace) -> None:
    """Raises `DescriptionError` for a word or an option that the action has no use for, or lacks."""
    word, own = ACTIONS[options.action]
    if word and options.what is None:
        raise DescriptionError(f"challenge {options.action} needs {word}; write it after '{options.action}'")
    if not word and options.what is not None:
        raise DescriptionError(
            f"challenge {options.action} takes no further word; leave {options.what!r} out"
        )
    for other in (option for _, option in ACTIONS.values() if option != own):
        if getattr(options, other):
            raise DescriptionError(f"--{other} is not of challenge {options.action}; leave it out")
    if options.action == "trace" and (options.out is None or options.out.suffix != ".npz"):
        raise DescriptionError("challenge trace needs --out, a file that ends in .npz; give one")
    require_writable(options.csv, options.out)


def _listed(path: Path | None, is_verbose: bool) -> tuple[dict[str, Any], str]:
    from wavesim.bench.challenge import pairs, source, template

    if path is not None:
        write_text(path, template(pairs()))
    facts = [pair.facts() for pair in pairs()]
    lines = [
        f"{fact['pair']}  {fact['size']:<52}{_times(fact['kernel_ns']):>18}{fact['stream_ns'] / 1e3:10.1f}"
        for fact in facts
    ]
    if path is not None:
        text = f"{path}: {len(facts)} pairs; fill in the column points, then: wavesim challenge score {path}"
        return {"pairs": facts}, text
    shown = lines if is_verbose else lines[:SHOWN]
    more = f"{len(lines) - len(shown)} more: --verbose; a file to fill in: --csv mine.csv"
    question = f"How many % of stream sync's time do row semaphores save ({source()})?"
    head = f"{'pair':<5}{'kernels, size':<52}{'us of each kernel':>18}{'both, us':>10}"
    return {"pairs": facts}, "\n".join([question, head, *shown, *([more] if shown != lines else [])])


def _times(kernels_ns: list[int]) -> str:
    return " then ".join(f"{ns / 1e3:.1f}" for ns in kernels_ns)


def _trace(number: str, path: Path) -> tuple[dict[str, Any], str]:
    from wavesim.bench.challenge import pair_named, source

    pair = pair_named(number)
    pair.stream.save(path)
    text = f"{path}: {pair.number}, {pair.size.name}, every tile of its stream-sync run, {source()}"
    return {"pair": pair.number, "path": str(path)}, text


def _scored(path: Path, is_revealed: bool) -> tuple[dict[str, Any], str]:
    from wavesim.bench.challenge import as_json, read_predictions, revealed, score_text, scores_of

    yours = read_predictions(path)
    scores = scores_of(yours)
    document, text = as_json(scores), score_text(scores)
    if is_revealed:
        opened = revealed(yours)
        document["revealed"] = opened
        rows = [
            f"{entry['pair']}  {entry['size']:<52}{entry['you']:8.1f}{entry['wavesim']:10.1f}"
            f"{entry['measured']:10.1f}"
            for entry in opened
        ]
        text = "\n".join([text, "", f"{'':<57}{'you':>8}{'wavesim':>10}{'measured':>10}", *rows])
    return document, text
