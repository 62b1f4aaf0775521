"""The convolutions of the paper's Figures 7 and 8, recomputed: published, simulated on a V100 and on an H200.

Example: two convolutions of 128 channels at batch 4 gain 23 points in the published files. Of such a gain the
simulator says how much is the host, which waited after every kernel of the baseline, how much the boundary
between two kernels, and how much the tail of the first kernel's last wave. Where the same convolutions were
measured on an H200, by `conv_bench`, that stands beside.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from wavesim.evaluation.conv_bench_results import FILTERS_FIRST, PUBLISHED, Case, bench_run
from wavesim.evaluation.conv_runs import TORCH
from wavesim.evaluation.conv_times import ConvolutionTimes, times_of_convolutions
from wavesim.evaluation.layer_blind_cases import BASELINE
from wavesim.model.device import default_device
from wavesim.predict.published_convolutions import PublishedGain, published_gain
from wavesim.workloads.conv_networks import Convolution
from wavesim.workloads.convolutions import CONVOLUTIONS, IMAGE_SIZES, PUBLISHED_LAYERS

BATCHES = (1, 4, 12, 20, 28)  # of which the files have most
# Figure 8, in the paper's words; its batches are not told.
END_TO_END = {"resnet": ("ResNet-38", "5 to 22"), "vgg": ("VGG-19", "6 to 16")}
NOTHING, OTHER_TILES = "-", "*"
STREAM_PLANS = (BASELINE, "persistent-stream")


def layer_table() -> str:
    """Figure 7: a row per channels and batch."""
    heads = (
        "convolutions",
        "batch",
        "published, V100",
        "simulated, V100",
        "host",
        "boundary",
        "tail",
        "simulated, H200",
        "boundary",
        "tail",
        "measured, H200",
    )
    rows = [
        _layer_row(count, channels, batch)
        for count, channels in ((2, 64), (2, 128), (2, 256), (2, 512), (4, 256), (4, 512))
        for batch in BATCHES
    ]
    return _table(heads, rows)


def network_table() -> str:
    """Figure 8: all layers, as often as the network has them."""
    rows = []
    for model, (name, said) in END_TO_END.items():
        for batch in BATCHES:
            published = [
                (count, published_gain(CONVOLUTIONS[model][channels], channels, batch))
                for channels, count in PUBLISHED_LAYERS[model].items()
            ]
            ours = [
                (count, h200_times(CONVOLUTIONS[model][channels], channels, batch))
                for channels, count in PUBLISHED_LAYERS[model].items()
            ]
            stream = sum(count * one.stream_ns for count, one in ours)
            best = sum(count * one.best_ns for count, one in ours)
            found = [(count, one) for count, one in published if one is not None]
            is_whole = len(found) == len(published)
            files, sim = NOTHING, NOTHING
            if is_whole:
                files, sim = (_of_all(found, part) for part in ("published", "simulated"))
            rows.append([name, str(batch), said, files, sim, f"{100 * (1 - best / stream):+.1f}"])
    heads = ("network", "batch", "the paper's text", "its files", "simulated, V100", "simulated, H200")
    return _table(heads, rows)


@cache
def h200_times(count: int, channels: int, batch: int) -> ConvolutionTimes:
    """The same convolutions by our kernels, simulated."""
    return times_of_convolutions(f"{count}", list(_published_layer(count, channels)), batch, default_device())


def _published_layer(count: int, channels: int) -> Iterator[Convolution]:
    size = IMAGE_SIZES[channels]
    for number in range(1, count + 1):
        reads = f"conv{number - 1}" if number > 1 else ""
        yield Convolution(f"conv{number}", size, channels, channels, reads=reads, has_relu=False)


def _layer_row(count: int, channels: int, batch: int) -> list[str]:
    size = IMAGE_SIZES[channels]
    found, ours = published_gain(count, channels, batch), h200_times(count, channels, batch)
    theirs = [NOTHING] * 5
    if found is not None:
        theirs[0] = f"{found.published:+.1f} ({found.policy})"
        if found.has_other_tiles:  # nothing follows from the baseline's time
            theirs[0] += OTHER_TILES
        else:
            theirs[1:] = [f"{one:+.1f}" for one in (found.simulated, found.host, found.boundary, found.tail)]
    mine = [f"{ours.saves:+.1f}", f"{ours.boundary:.1f}", f"{ours.tail:.1f}"]
    mine.append(measured_saves(count, channels, batch))
    return [f"{count} of {size} x {size} x {channels}", str(batch), *theirs, *mine]


def measured_saves(count: int, channels: int, batch: int) -> str:
    """On an H200: our fastest over our stream sync, in percent, and its plan.

    By `conv_bench`, each side in its best tiles.
    """
    found = [run.cases for run in map(bench_run, (FILTERS_FIRST, PUBLISHED)) if run is not None]
    for case in itertools.chain.from_iterable(found):
        if _is_of(case, count, channels, batch):
            ours = [one for one in case["finalists"] if one["class"] != TORCH]
            ours.sort(key=lambda one: one["median_ns"], reverse=True)  # of a plan the fastest tiles stay
            return _saves({one["label"].partition(",")[0]: one["median_ns"] for one in ours})
    return NOTHING


def _saves(plans: Mapping[str, float]) -> str:
    ours = min(plans, key=lambda name: plans[name])
    stream = min(ns for name, ns in plans.items() if name in STREAM_PLANS)
    return f"{100 * (1 - plans[ours] / stream):+.1f}" + ("" if ours in STREAM_PLANS else f" ({ours})")


def _is_of(case: Case, count: int, channels: int, batch: int) -> bool:
    same = (case.get("count"), case["channels"], case.get("filters"), case["images"], case["size"])
    return not case.get("first_size") and same == (count, channels, channels, batch, IMAGE_SIZES[channels])


def _of_all(found: Sequence[tuple[int, PublishedGain]], part: str) -> str:
    """Of a network, each layer as often as it has it, weighed by its baseline's time."""
    whole = sum(count * one.stream_us for count, one in found)
    gain = sum(count * one.stream_us * getattr(one, part) for count, one in found) / whole
    if not any(one.has_other_tiles for _, one in found):
        return f"{gain:+.1f}"
    return f"{gain:+.1f}{OTHER_TILES}" if part == "published" else NOTHING


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
