"""Draws the pictures of docs/characterise.md from the raw results that the shipped device file is made of."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from draw_model import scatter

RESULTS = Path(__file__).parents[1] / "gpu" / "results" / "characterise"


def newest_groups() -> dict[str, Any]:
    """The newest raw results, by group."""
    newest = max(RESULTS.glob("*.json"))
    return dict(json.loads(newest.read_text(encoding="utf-8"))["runs"][0])


def l2_figure(theme: str) -> go.Figure:
    """Bandwidth over the size of the set that is read: where the L2 no longer holds it."""
    found = newest_groups()["memory"]
    ways = {
        "all SMs, the same set round and round": found["cycles_bytes_per_s"],
        "all SMs, anywhere in the same set": found["sets_bytes_per_s"]["shared"],
        "each SM, anywhere in a part of its own": found["sets_bytes_per_s"]["private"],
    }
    series = {name: _by_size(rates) for name, rates in ways.items()}
    words = "What all SMs read at random outgrows the L2 sooner than what each reads for itself"
    source = "one H200, L2 of 60 MB; medians of 7 rounds"
    return scatter(series, words, source, ("size of the set (MB)", "read (TB/s)"), 1.0, theme)


def _by_size(rates: dict[str, list[float]]) -> tuple[np.ndarray, np.ndarray]:
    """MB and TB/s, up to 256 MB."""
    sizes = [size for size in rates if int(size) <= 256]
    return np.array(list(map(int, sizes))), np.array([np.median(rates[size]) / 1e12 for size in sizes])


def busy_sms_figure(theme: str) -> go.Figure:
    """The clock by how many SMs multiply: the tensor cores' own limit, then the power limit."""
    steady = newest_groups()["clock"]["steady"]
    counts = np.array(list(map(int, steady)))
    clock = np.array([np.median([one["ghz"] for one in found]) for found in steady.values()])
    watts = np.array([np.median([one["watts"] for one in found]) for found in steady.values()])
    words = f"From one SM at work to all, the clock falls from {clock[0]:.2f} to {clock[-1]:.2f} GHz"
    source = f"wgmma without a pause on so many of an H200's SMs; {watts.min():.0f} to {watts.max():.0f} W"
    return scatter(
        {"SM clock": (counts, clock)}, words, source, ("SMs at work", "SM clock (GHz)"), 1.0, theme
    )
