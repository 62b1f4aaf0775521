"""`wavesim predict`: the best plan for a user's own kernels, described in a TOML file."""

import argparse
from pathlib import Path

from wavesim.cli.printing import print_result, progress
from wavesim.guard.escaping import whole_line


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("file", type=Path)


def run(options: argparse.Namespace) -> int:
    """Prints the best plan, its gain and how sure that is."""
    from wavesim.model.description import load_description
    from wavesim.predict.verdict import verdict_on

    found = load_description(options.file)
    verdict = verdict_on(found.pipeline, found.device, found.kernel_ns, progress("predicting", after_s=3.0))
    guess = "" if verdict.scored else ", a guess: no score covers this kind of kernel on this device"
    gains = ", ".join(f"{name} {gain:+.1f}" for name, gain in verdict.improvements.items())
    interval = f"{verdict.low:+.1f} to {verdict.high:+.1f}, 8 times in 10{guess}"
    lines = (
        f"best plan: {verdict.best}, {verdict.improvement_points:+.1f} points over stream sync ({interval})",
        f"why: {verdict.reason}",
        verdict.basis,
        f"tried, simulated on {found.device.name}, points: {gains}",
    )
    names = ("best", "improvement_points", "low", "high", "reason", "basis", "defaults", "scored")
    document = {name: getattr(verdict, name) for name in names}
    return print_result(options, document, "\n".join(map(whole_line, lines)))
