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
    gains = ", ".join(f"{name} {gain:+.1f}" for name, gain in verdict.improvements.items())
    lines = (
        f"best plan: {verdict.best}, {verdict.forecast.text}",
        f"why: {verdict.reason}",
        f"before: {verdict.forecast.history}",
        *verdict.forecast.caveats,
        verdict.basis,
        f"tried, simulated on {found.device.name}, points: {gains}",
    )
    document = {"best": verdict.best, "reason": verdict.reason, **verdict.forecast.as_json()}
    return print_result(options, document, "\n".join(map(whole_line, lines)))
