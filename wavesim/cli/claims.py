"""`wavesim claims`: every headline figure, with its target and where it was measured."""

import argparse

from wavesim.cli.printing import print_result


def add_options(parser: argparse.ArgumentParser) -> None:
    """None besides `--json`."""


def run(options: argparse.Namespace) -> int:
    """Prints the table."""
    from wavesim.bench.claims import claims_text, load_claims

    claims = load_claims()
    return print_result(options, [claim.json_object for claim in claims], claims_text(claims))
