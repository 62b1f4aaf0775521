"""Play: Jupyter widgets, each of which also draws itself in a page without a kernel."""

from importlib import import_module
from typing import Any

_HOMES = {
    "ComparisonView": "comparison_view",
    "DependencyExplorer": "dependency_explorer",
    "OccupancyExplorer": "occupancy_explorer",
    "TunerView": "tuner_view",
    "WavePlayer": "wave_player",
    "WhatIf": "what_if",
}

__all__ = [*_HOMES]  # noqa: PLE0604  # every entry is a name that __getattr__ serves


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'wavesim.widgets' has no attribute {name!r}")
    return getattr(import_module(f"wavesim.widgets.{_HOMES[name]}"), name)
