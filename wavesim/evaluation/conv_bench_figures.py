"""Pictures of what `conv_bench` measured: convolutions over cuDNN, what semaphores gain in pairs.

Example: a green dot at 1.12 over batch 8, in the panel of 128 channels, is a pair that semaphores make 12 %
faster than stream sync does, each in its best tiles; the hollow diamond compares with dependent launch.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import geometric_mean, quantiles
from typing import TYPE_CHECKING

from wavesim.evaluation.conv_bench_results import (
    PAIR,
    PDL,
    SEMAPHORES,
    SINGLE,
    STREAM,
    BenchRun,
    Case,
)
from wavesim.evaluation.conv_runs import CHAIN, TORCH
from wavesim.safe_io.escaping import BREAK
from wavesim.view.export import save_figure
from wavesim.view.panels_data import Dot, Panel, Series, fitting
from wavesim.view.panels_figure import small_panels

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

IMAGES = Path(__file__).parents[2] / "docs" / "images"
THEMES = ("light", "dark")
WITHIN = (0.4, 1.6)
BOTTLENECKS = "1x1, then 3x3"
USUAL = 3  # rows and columns of a filter
SHIFT = 0.18  # categories between the two marks of one case


def write_pictures(run: BenchRun) -> None:
    """Both pictures in both themes."""
    for theme in THEMES:
        save_figure(single_figure(run, theme), IMAGES / f"convolutions-single-{theme}.svg")
        save_figure(chain_figure(run, theme), IMAGES / f"convolutions-pairs-{theme}.svg")


def single_figure(run: BenchRun, theme: str = "light") -> "Figure":
    """A panel per kind of convolution: ours over cuDNN's."""
    found = [case for case in run.cases if case["kind"] == SINGLE]
    square = [case for case in found if case["kernel_size"] == USUAL]
    kinds: dict[str, tuple[list[Case], Callable[[Case], str]]] = {
        f"3x3, {channels} channels": (
            [one for one in square if one["channels"] == channels],
            _batch_and_stride,
        )
        for channels in sorted({case["channels"] for case in square})
    }
    for size in dict.fromkeys(case["kernel_size"] for case in found if case not in square):
        of_size = [case for case in found if case["kernel_size"] == size]
        kinds[f"{size}x{size}, batch 32"] = of_size, _channels
    panels = [
        _verdicts(title, cases, name, STREAM, TORCH, "than cuDNN") for title, (cases, name) in kinds.items()
    ]
    dots = [dot for panel in panels for series in panel.series for dot in series.dots]
    mean = geometric_mean([dot.value for dot in dots])
    return small_panels(
        panels,
        fitting("speed over cuDNN", dots, WITHIN),
        title=f"One convolution of ours has {mean:.2f} of cuDNN's speed (geometric mean of {len(dots)})",
        source=f"time of cuDNN with cudnn.benchmark, channels last, over ours; {_measured(run)}",
        size_name="batch; of 1x1 channels and filters (s2: stride 2)",
        columns=2,
        panel_height=140,
        theme=theme,
    )


def chain_figure(run: BenchRun, theme: str = "light") -> "Figure":
    """A panel per image size of pairs and of chains: semaphores over stream sync and dependent launch."""
    found = [case for case in run.cases if case["kind"] in (PAIR, CHAIN)]
    found.sort(key=lambda case: (case["kind"], -case["size"], case["images"]))
    alike: dict[str, list[Case]] = {}
    for case in found:
        alike.setdefault(_images(case), []).append(case)
    single = [case for cases in alike.values() if len(cases) == 1 for case in cases]
    panels = [
        _gains(title, cases, _width_and_batch if title == BOTTLENECKS else _batch)
        for title, cases in alike.items()
        if len(cases) > 1
    ]
    if single:
        panels.append(_gains("two, other images", single, _width_and_batch))
    dots = [dot for panel in panels for series in panel.series for dot in series.dots]
    gains = [one for case in found for one in _dots([case], SEMAPHORES, STREAM)]
    mean = geometric_mean([one.value for one in gains])
    return small_panels(
        panels,
        fitting("speed of semaphores", dots, WITHIN),
        title=f"Semaphores have {mean:.2f} of stream sync's speed (mean of {len(gains)} pairs and chains)",
        source=f"time of stream sync over that of semaphores, each in its best tiles; {_measured(run)}",
        size_name="batch; of 1x1 and of other images their width, and batch",
        columns=3,
        panel_height=130,
        theme=theme,
    )


def _images(case: Case) -> str:
    if case.get("first_size"):
        return BOTTLENECKS
    count = {PAIR: "two", CHAIN: "four"}[case["kind"]]
    return f"{count} of {case['size']}x{case['size']}x{case['channels']}"


def _batch(case: Case) -> str:
    return f"{case['images']}"


def _width_and_batch(case: Case) -> str:
    return f"{case['size']}, {_batch(case)}"


def _stride(case: Case) -> str:
    return " s2" if case["stride"] > 1 else ""


def _batch_and_stride(case: Case) -> str:
    return _batch(case) + _stride(case)


def _channels(case: Case) -> str:
    return f"{case['channels']}-{case['filters']}{_stride(case)}"


def _gains(title: str, cases: Sequence[Case], name: Callable[[Case], str]) -> Panel:
    return _verdicts(title, cases, name, SEMAPHORES, STREAM, "than stream sync", beside=PDL)


def _measured(run: BenchRun) -> str:
    return f"measured on {run.device}, {run.date}, commit {run.commit}; whiskers: quartiles"


def _verdicts(
    title: str,
    cases: Sequence[Case],
    name: Callable[[Case], str],
    ours: str,
    theirs: str,
    words: str,
    beside: str = "",
) -> Panel:
    """Green above 1, magenta below, grey where quartiles reach 1; hollow the same over the class `beside`."""
    dots = _dots(cases, ours, theirs)
    faster, slower = [dot for dot in dots if dot.low > 1], [dot for dot in dots if dot.high < 1]
    level = [dot for dot in dots if dot not in faster and dot not in slower]
    shift = -SHIFT if beside else 0.0
    series = [
        Series(f"faster {words}", faster, "good", shift=shift),
        Series(f"slower {words}", slower, "bad", shift=shift),
        Series("no clear difference (quartiles reach 1)", level, "waiting", shift=shift),
    ]
    if beside:
        others = _dots(cases, ours, beside)
        series.append(Series("the same over dependent launch", others, "muted", "diamond-open", SHIFT))
    facts = f"{geometric_mean([dot.value for dot in dots]):.2f}" if dots else "not measured"
    return Panel(title, facts, [name(case) for case in cases], series)


def _dots(cases: Iterable[Case], ours: str, theirs: str) -> list[Dot]:
    """A case's ratio of medians, and the quartiles of its rounds' ratios."""
    found = []
    for at, case in enumerate(cases):
        of = {one["class"]: one for one in case.get("finalists", ())}
        if {ours, theirs} <= of.keys():
            mine, other = of[ours], of[theirs]
            rounds = [b / a for a, b in zip(mine["rounds_ns"], other["rounds_ns"], strict=True)]
            low, _, high = quantiles(rounds, n=4)
            value = other["median_ns"] / mine["median_ns"]
            words = BREAK.join(
                [
                    case["name"],
                    f"{mine['label']}: {mine['median_ns'] / 1e3:.1f} µs",
                    f"{other['label']}: {other['median_ns'] / 1e3:.1f} µs",
                ]
            )
            found.append(Dot(at, value, min(low, value), max(high, value), words))
    return found
