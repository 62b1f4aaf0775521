"""`wavesim devices`: which GPUs are known, and for which of them anything was measured.

Example: "h200  measured  2026-11-21  ..."; an h100 is in the catalogue only, and predictions on it say which
constants another device lent.
"""

import argparse

from wavesim.cli.printing import print_result
from wavesim.costs.device_costs import own_file
from wavesim.model import device as devices


def add_options(parser: argparse.ArgumentParser) -> None:
    """None besides `--json`."""


def run(options: argparse.Namespace) -> int:
    """Prints the list."""
    rows = [_row(name) for name in devices.names()]
    lines = [
        f"{row['name']:<12}{'measured' if row['characterised'] else 'catalogue':<11}{row['date'] or '-':<12}"
        f"{row['source']}"
        for row in rows
    ]
    return print_result(options, rows, "\n".join(lines))


def _row(name: str) -> dict[str, object]:
    """Source and newest date of a device's own constants; else the source of its catalogue entry."""
    own = own_file(name)
    if not own.constants:
        return {"name": name, "characterised": False, "date": None, "source": _catalogue_source(name)}
    newest = max(own.constants.values(), key=lambda one: one.date)
    source = own.source or newest.source
    return {"name": name, "characterised": True, "date": newest.date, "source": source}


def _catalogue_source(name: str) -> str:
    return str(devices.load(name).sources["sm_count"])
