"""`wavesim advise`: where a profile loses time, and what would win it back.

Example: `wavesim advise trace.json.gz --depend 1,3 --html report.html --pair 1 --toml pair.toml`.
"""

import argparse
from pathlib import Path

from wavesim.cli.printing import print_result
from wavesim.errors import DescriptionError
from wavesim.guard.bounds import listed_integers
from wavesim.guard.options import integer
from wavesim.guard.writing import write_text

MOST_PAIRS = 1_000


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "trace", type=Path, help="PyTorch-profiler JSON (or .gz), or Nsight Systems sqlite export"
    )
    parser.add_argument("--html", type=Path, help="write the report, one self-contained page")
    parser.add_argument("--device", help="the device it ran on, where the profile does not say")
    parser.add_argument(
        "--depend", default="", help="numbers of pairs whose consumer reads the producer: 1,3"
    )
    parser.add_argument("--independent", default="", help="numbers of pairs that do not depend on each other")
    parser.add_argument("--pair", type=integer, help="the pair that --toml writes (1)")
    parser.add_argument("--toml", type=Path, help="write a pair for `wavesim predict`")


def run(options: argparse.Namespace) -> int:
    """Reads, analyses and marks the profile; writes page and TOML if asked."""
    from wavesim.advise.advice import advise
    from wavesim.advise.advice_text import summary_text
    from wavesim.advise.pair_file import pair_toml
    from wavesim.advise.profile_file import load_profile

    if options.pair is not None and not options.toml:
        raise DescriptionError("--pair is the pair that --toml writes; add --toml FILE, or leave --pair out")
    marks = _marks(options)
    advice = advise(load_profile(options.trace, options.device))
    advice = advice.marked(marks)
    if options.toml:
        text = pair_toml(advice.pair(1 if options.pair is None else options.pair), advice.profile.source)
        write_text(options.toml, text)
    if options.html:
        from wavesim.advise.report import write_report

        write_report(options.html, advice)
    return print_result(options, advice.json_object, summary_text(advice))


def _marks(options: argparse.Namespace) -> dict[int, bool]:
    """Whether a pair depends, by its number. Raises `DescriptionError` for one said to do both."""
    depend, independent = (
        listed_integers(f"--{name}", getattr(options, name), 1, "1,3", MOST_PAIRS)
        for name in ("depend", "independent")
    )
    for number in depend:
        if number in independent:
            raise DescriptionError(f"pair {number} is in --depend and in --independent; leave it out of one")
    return dict.fromkeys(depend, True) | dict.fromkeys(independent, False)
