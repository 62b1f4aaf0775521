"""`wavesim validate`: the simulator scored anew against the measurements.

Status 1 where a score fell, or a prediction is not the one that was committed.
"""

import argparse
from pathlib import Path

from wavesim.cli.printing import complain, print_result, progress
from wavesim.errors import DescriptionError, RecordingError
from wavesim.recordings.shipped import FOLDER

IN_A_CHECKOUT = ("blind", "foreign", "sketch", "predictions.json.xz")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "--write", action="store_true", help="store predictions and scores as the ones to hold to"
    )
    parser.add_argument("--list", action="store_true", help="every case, worst first")
    parser.add_argument("--html", type=Path, help="write the scores to this page, with a picture per set")


def run(options: argparse.Namespace) -> int:
    """Predicts every stored measurement and prints the scores."""
    from wavesim.bench.validate_command import run_validate

    if missing := [name for name in IN_A_CHECKOUT if not (FOLDER / name).exists()]:
        raise RecordingError(
            f"the installed package lacks the recordings {', '.join(missing)}, which would make it twice as "
            "large; run this in a checkout of the repository"
        )
    if options.list and options.json:
        raise DescriptionError("--list is of the text, and --json has no cases; leave one of them out")
    result = run_validate(options, progress("validating"))
    if options.html:
        from wavesim.bench.score_page import write_score_page

        write_score_page(options.html, result.predictions, result.scores)
    status = print_result(options, result.document, result.text)
    for complaint in result.complaints:
        complain(f"not as committed: {complaint}")
    return 1 if result.complaints else status
