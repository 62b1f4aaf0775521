"""`wavesim devices`: which GPUs are known, and for which of them anything was measured.

Example: "h200  characterised  2026-11-21  15 measured, 48 fitted  ..."; an h100 is in the catalogue only, and
predictions on it say which constants another device lent. A v100's were fitted to published results.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from wavesim.cli.printing import print_result
from wavesim.costs.constants import Constant
from wavesim.costs.device_costs import own_file
from wavesim.model import device as devices


def add_options(parser: argparse.ArgumentParser) -> None:
    """None besides `--json`."""


def run(options: argparse.Namespace) -> int:
    """Prints the list."""
    rows = [_row(name) for name in devices.names()]
    return print_result(options, rows, "\n".join(map(_line, rows)))


def _line(row: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{row[kind]} {kind}" for kind in ("measured", "fitted") if row[kind])
    state = "characterised" if row["characterised"] else "fitted" if row["fitted"] else "catalogue only"
    return f"{row['name']:<12}{state:<16}{row['date'] or '-':<12}{counts or '-':<25}{row['source']}"


def _row(name: str) -> dict[str, object]:
    """Source and newest date of a device's own constants, and how many were measured and fitted.

    Without any, the source of its catalogue entry.
    """
    own = own_file(name)
    constants = own.constants.values()
    fitted = sum(constant.is_fitted for constant in constants)
    measured = len(constants) - fitted
    newest = max(
        (constant for constant in constants if constant.is_fitted == (not measured)), default=None, key=_date
    )
    return {
        "name": name,
        "characterised": measured > 0,
        "date": newest.date if newest else None,
        "source": own.source or (newest.source if newest else _catalogue_source(name)),
        "measured": measured,
        "fitted": fitted,
    }


def _date(constant: Constant) -> str:
    return constant.date


def _catalogue_source(name: str) -> str:
    return str(devices.load(name).sources["sm_count"])
