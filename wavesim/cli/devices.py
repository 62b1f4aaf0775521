"""`wavesim devices`: which GPUs are known, and for which of them anything was measured.

Example: "measured: h200"; an h100 is known by its data sheet only, and predictions on it say which constants
another device lent. A v100's were fitted to published results. `--verbose` has a line with sources for each.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from wavesim.cli.printing import print_result
from wavesim.cli.shared_options import add_shared
from wavesim.costs.constants import Constant
from wavesim.costs.device_costs import own_file
from wavesim.model import device as devices

ABOUT = (
    "From a data sheet alone predictions are guesses. --verbose: dates, constants and sources.\n"
    "Your own GPU: python -m wavesim_gpu characterise --out my-gpu.toml, then --device my-gpu.toml"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What every command of results takes."""
    add_shared(parser, "--verbose")


def run(options: argparse.Namespace) -> int:
    """Prints the list."""
    rows = [_row(name) for name in devices.names()]
    return print_result(options, rows, "\n".join(map(_line, rows)) if options.verbose else _in_short(rows))


def _in_short(rows: Sequence[Mapping[str, Any]]) -> str:
    """The devices by what is known of them."""
    states: dict[str, list[str]] = {"measured": [], "fitted to published runs": [], "data sheet only": []}
    for row in rows:
        state = "measured" if row["characterised"] else "fitted to published runs"
        states[state if row["characterised"] or row["fitted"] else "data sheet only"].append(row["name"])
    listed = [f"{state + ':':<26}{', '.join(names)}" for state, names in states.items() if names]
    return "\n".join([*listed, ABOUT])


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
