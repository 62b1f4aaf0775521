"""The convolutions of the paper's Figures 7 and 8, recomputed: published, simulated on a V100 and on an H200.

Example: two convolutions of 128 channels at batch 4 gain 23 points in the published files. Of such a gain the
simulator says how much is the host, which waited after every kernel of the baseline, how much the boundary
between two kernels, and how much the tail of the first kernel's last wave.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from wavesim.costs.device_costs import costs_of, with_host_sync
from wavesim.evaluation.conv_times import ConvolutionTimes, times_of_convolutions
from wavesim.model.device import default_device
from wavesim.plan.plan import StreamSync
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.recordings.published_rows import PublishedRun, published_runs
from wavesim.sim.simulation import simulate
from wavesim.workloads.conv_networks import Convolution
from wavesim.workloads.convolutions import CONVOLUTIONS, IMAGE_SIZES, PUBLISHED_LAYERS

BATCHES = (1, 4, 12, 20, 28)  # of which the files have most
OPERATIONS = {2: "conv", 4: "chain"}  # of the published files, by how many follow each other
# Figure 8, in the paper's words; its batches are not told.
END_TO_END = {"resnet": ("ResNet-38", "5 to 22"), "vgg": ("VGG-19", "6 to 16")}
NOTHING, OTHER_TILES = "-", "*"


@dataclass(frozen=True)
class PublishedGain:
    """A pair or chain on a V100: published times, and where the simulated gain comes from, in points.

    `host`: waits of the host after each kernel; `boundary`: launches behind each other; `tail`: the rest.
    `has_other_tiles`: the policy ran in other tiles or splits than its baseline, which alone is an effect.
    """

    stream_us: float
    best_us: float
    policy: str
    host: float
    boundary: float
    tail: float
    has_other_tiles: bool

    @property
    def published(self) -> float:
        """Of the best policy, in points."""
        return 100 * (1 - self.best_us / self.stream_us)

    @property
    def simulated(self) -> float:
        """All three together."""
        return self.host + self.boundary + self.tail


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
def published_gain(count: int, channels: int, batch: int) -> PublishedGain | None:
    """Of the best published policy; None where the files have no such row."""
    runs = [
        run
        for run in published_runs(OPERATIONS[count])
        if run.size == batch and run.case.split()[2] == f"C={channels}"
    ]
    if not runs:
        return None
    best = min(runs, key=lambda run: run.time_us)
    host, boundary, tail = _simulated_parts(best)
    is_same = best.is_same_configuration
    return PublishedGain(best.stream_us, best.time_us, best.policy, host, boundary, tail, not is_same)


def _simulated_parts(run: PublishedRun) -> tuple[float, float, float]:
    """(host, boundary, tail) in points of the baseline, each what is left when the one before is gone."""
    known = costs_of(run.device.name)
    costs = costs_from_kernel_times(run.pipeline, run.device, run.kernel_ns, with_host_sync(known))
    stream = StreamSync(run.plan.order)
    boundaries = (costs.boundary_ns, known.overheads["boundary_ns"], 0)
    times = [
        simulate(run.pipeline, stream, run.device, replace(costs, boundary_ns=ns)).time_ns
        for ns in boundaries
    ]
    times.append(simulate(run.pipeline, run.plan, run.device, costs).time_ns)
    parts = [100 * (one - other) / times[0] for one, other in pairwise(times)]
    return parts[0], parts[1], parts[2]


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
    return [f"{count} of {size} x {size} x {channels}", str(batch), *theirs, *mine]


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
