"""A page per network of convolutions: times of its parts, end to end, and what synchronising changes.

Example: `python -m wavesim.evaluation.conv_pages` writes docs/models/resnet-50.md and the other networks'
pages anew: simulated times and, where gpu/results/convolutions has a run with cases of kind "network", what
was measured.
"""

import sys
from collections.abc import Mapping
from typing import Any

from wavesim.evaluation.conv_times import ConvolutionTimes, rest_ns, times_of_convolutions
from wavesim.evaluation.layer_graphs_table import times_of
from wavesim.evaluation.model_pages import DOCS, ROOT, newest_run
from wavesim.guard.program import run_program
from wavesim.guard.writing import write_text
from wavesim.model.device import default_device
from wavesim.workloads.conv_networks import Network, network_named

FOLDER = ROOT / "gpu" / "results" / "convolutions"
NETWORKS = {"resnet-34": "ResNet-34", "resnet-50": "ResNet-50", "vgg-19": "VGG-19"}
BATCHES = (1, 8, 32)
KIND = "network"
UNMEASURED = "not measured yet"
COMMAND = "python -m wavesim.evaluation.conv_pages"
HEADS = (
    "images of",
    "convolutions",
    "stream sync, µs",
    "dependent launch, µs",
    "semaphores, µs",
    "their tiles",
    "saves, %",
    "boundary",
    "tail",
    "measured saves, %",
)


def case_name(network: str, size: int, images: int) -> str:
    """What a measured part is called in a results file."""
    return f"{network}-{size} batch {images}"


def page(name: str, runs: Mapping[str, Any] | None) -> str:
    """A network's page; `runs` is the results file of a run."""
    network = network_named(name)
    return "\n\n".join(
        [
            f"# {NETWORKS[name]}: its convolutions, and end to end",
            f"Written by `{COMMAND}`; do not edit.",
            _shape(network),
            _basis(),
            *(block(network, images, runs) for images in BATCHES),
            _measured(runs),
        ]
    )


def block(network: Network, images: int, runs: Mapping[str, Any] | None) -> str:
    """A batch: a row per part, all convolutions, the rest, and end to end."""
    device = default_device()
    lines = [_row(HEADS), "|--:|--:" + "|--:" * 3 + "|---" + "|--:" * 4 + "|"]
    times = []
    for size in network.sizes:
        part = network.part(size)
        found = times_of_convolutions(f"{network.name}-{size}", part, images, device)
        times.append(found)
        words = [f"{size} x {size}", str(len(part)), *_cells(found), found.tiles]
        lines.append(_row([*words, *_shares(found), measured_saves(runs, network.name, size, images)]))
    whole = ConvolutionTimes(
        sum(one.stream_ns for one in times),
        sum(min(one.stream_ns, one.pdl_ns) for one in times),
        sum(one.best_ns for one in times),
        "",
    )
    rest = rest_ns(network, images, device)
    ends = ConvolutionTimes(whole.stream_ns + rest, whole.pdl_ns + rest, whole.semaphores_ns + rest, "")
    count = str(len(network.convolutions))
    lines.append(_row(["all", count, *_cells(whole), "best of each", *_shares(whole), ""]))
    lines.append(_row(["rest", "", *[f"{rest / 1e3:.1f}"] * 3, "", "", "", "", ""]))
    lines.append(_row(["end to end", "", *_cells(ends), "", *_shares(ends), ""]))
    return "\n".join([f"## Batch {images}, simulated", "", *lines])


def measured_saves(runs: Mapping[str, Any] | None, network: str, size: int, images: int) -> str:
    """Our fastest over our stream sync, in percent, as measured."""
    for case in runs["cases"] if runs else ():
        if case["kind"] == KIND and case["name"] == case_name(network, size, images) and "failed" not in case:
            times = times_of(case)
            ours = [ns for name, ns in times.items() if name in ("stream", "pdl", "semaphores")]
            return f"{100 * (1 - min(ours) / times['stream']):+.1f}"
    return UNMEASURED


def _cells(found: ConvolutionTimes) -> list[str]:
    return [f"{ns / 1e3:.1f}" for ns in (found.stream_ns, found.pdl_ns, found.semaphores_ns)]


def _shares(found: ConvolutionTimes) -> list[str]:
    return [f"{found.saves:+.1f}", f"{found.boundary:.1f}", f"{found.tail:.1f}"]


def _shape(network: Network) -> str:
    adds = sum(
        one.kernel_size**2 * one.channels * one.filters * one.out_size**2 for one in network.convolutions
    )
    rest = ", ".join(one.name for one in network.rest)
    return (
        f"{len(network.convolutions)} convolutions, {adds / 1e9:.1f} billion multiply-adds an image with the "
        "3 colours padded to 8 channels; fp16, NHWC; bias, ReLU and residuals in the epilogues, batch "
        f"normalisation folded. The rest, {rest}: kernels of their own that nothing overlaps, poolings at "
        "the rate of an element-wise pass, products as timed alone. What a network is: "
        "`wavesim/workloads/conv_networks.py`."
    )


def _basis() -> str:
    return (
        f"{default_device().name}, simulated, not measured: tiles take what products of their size take, "
        "or what loading their operands or the memory takes; how convolutions wait was fitted to [single "
        "ones and pairs](../convolutions.md). No interval is known. Stream sync and dependent launch are "
        "in the tiles that suit each convolution alone, semaphores (a semaphore per tile, by dependent "
        "launch) in those or in one tile for all, whichever is fastest. A part computes images of one "
        "size; parts follow each other under stream sync. Saves: the fastest of the three over stream "
        "sync; boundary: what dependent launch alone saves; tail: what semaphores save on top, where "
        "tiles need not wait for a kernel's last wave."
    )


def _measured(runs: Mapping[str, Any] | None) -> str:
    if runs is None or not any(case["kind"] == KIND for case in runs["cases"]):
        return f"Measured: {UNMEASURED}; the column is filled from `gpu/results/convolutions`."
    return (
        f"Measured: one {runs['device']['name']}, {runs['date'][:10]}, commit {runs['commit'][:7]}; medians "
        "of interleaved rounds of CUDA graphs, our fastest over our stream sync."
    )


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Writes every network's page."""
    runs = newest_run(FOLDER)
    for name in NETWORKS:
        write_text(DOCS / "models" / f"{name}.md", page(name, runs) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("conv_pages", main))
