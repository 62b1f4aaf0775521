"""`wavesim bench`: the speed of the simulator itself."""

import argparse
from dataclasses import asdict

from wavesim.cli.printing import print_result


def add_options(parser: argparse.ArgumentParser) -> None:
    """None besides `--json`."""


def run(options: argparse.Namespace) -> int:
    """Measures and prints."""
    from wavesim.bench.simulator_speed import measure_speed

    result = asdict(measure_speed())
    return print_result(options, result, "\n".join(f"{name}: {value:.3g}" for name, value in result.items()))
