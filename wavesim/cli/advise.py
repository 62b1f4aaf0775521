"""`wavesim advise`: where a profile loses time, and what would win it back.

Example: `wavesim advise trace.json.gz --depend 1,3 --html report.html --pair 1 --toml pair.toml`.
"""

import argparse
from pathlib import Path

from wavesim.cli.printing import print_result
from wavesim.errors import DescriptionError, RecordingError


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
    parser.add_argument("--pair", type=int, default=1, help="the pair that --toml writes")
    parser.add_argument("--toml", type=Path, help="write a pair for `wavesim predict`")


def run(options: argparse.Namespace) -> int:
    """Reads, analyses and marks the profile; writes page and TOML if asked."""
    from wavesim.advise.advice import advise
    from wavesim.advise.advice_text import summary_text
    from wavesim.advise.pair_file import pair_toml
    from wavesim.advise.profile_file import load_profile

    advice = advise(load_profile(options.trace, options.device))
    marks = dict.fromkeys(_numbers(options.depend, "--depend"), True)
    marks |= dict.fromkeys(_numbers(options.independent, "--independent"), False)
    advice = advice.marked(marks)
    if options.toml:
        text = pair_toml(advice.pair(options.pair), advice.profile.source)
        try:
            options.toml.write_text(text, encoding="utf-8")
        except OSError as error:
            raise RecordingError(f"{options.toml}: cannot be written: {error.strerror}") from None
    if options.html:
        from wavesim.advise.report import write_report

        write_report(options.html, advice)
    return print_result(options, advice.json_object, summary_text(advice))


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise DescriptionError(f"{option} is {text!r}; write pair numbers such as 1,3") from None
