"""`wavesim advise`: the advice that its options ask for.

Example: `wavesim advise trace.json.gz --depend 1,3 --html report.html --pair 1 --toml pair.toml`.
"""

import argparse

from wavesim.advise.advice import Advice, advise
from wavesim.advise.pair_file import pair_toml
from wavesim.advise.profile_file import load_profile
from wavesim.errors import DescriptionError, RecordingError


def run_advise(options: argparse.Namespace) -> Advice:
    """Reads, analyses, marks; writes TOML if asked. Raises `RecordingError` or `DescriptionError`."""
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
    return advice


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise DescriptionError(f"{option} is {text!r}; write pair numbers such as 1,3") from None
