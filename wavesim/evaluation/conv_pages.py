"""A page per network of convolutions: times of its parts, end to end, and what synchronising changes.

Example: `python -m wavesim.evaluation.conv_pages` writes docs/models/resnet-50.md and the other networks'
pages anew: simulated times and, where gpu/results/convolutions has a run with cases of kind "network", what
was measured.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wavesim.evaluation.conv_bench_results import CLOSELY, FILTERS_FIRST, FOLDER
from wavesim.evaluation.conv_times import ConvolutionTimes, rest_ns, times_of_convolutions
from wavesim.evaluation.layer_graphs_table import MOST_BYTES, times_of
from wavesim.evaluation.model_pages import DOCS
from wavesim.model.device import default_device
from wavesim.safe_io.documents import read_json
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text
from wavesim.workloads.conv_networks import Network, network_named

PACKED = FILTERS_FIRST  # behind packed images
NETWORKS = {"resnet-34": "ResNet-34", "resnet-50": "ResNet-50", "vgg-19": "VGG-19"}
BATCHES = (1, 8, 32)
KIND = "network"
UNMEASURED = "not measured yet"
PADDED_TEXT = "Both get images whose 3 colours were padded to 8 channels before."
PACKED_TEXT = (
    "Images have 3 colours: PyTorch gets them as they are; of ours a kernel packs them first, in these times."
)
CLOSELY_TEXT = (
    "Images are packed as above. By dependent launch and semaphores a run begins before what is ahead of it "
    "has ended (`CupyRunner(follows_closely=True)`), as in a network; blocks that wait load few filters."
)
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


def page(
    name: str,
    runs: Mapping[str, Any] | None,
    packed: Mapping[str, Any] | None = None,
    closely: Mapping[str, Any] | None = None,
) -> str:
    """A network's page; `runs` are the results of a run, `packed` of later kernels, behind packed images.

    `closely`: of today's kernels, behind packed images and whatever ran before.
    """
    network = network_named(name)
    return "\n\n".join(
        [
            f"# {NETWORKS[name]}: its convolutions, and end to end",
            f"Written by `{COMMAND}`; do not edit.",
            _shape(network),
            _basis(),
            *(block(network, images, packed) for images in BATCHES),
            _measured("## Measured", PADDED_TEXT, name, runs),
            _measured("## Measured with packed images", PACKED_TEXT, name, packed),
            _measured("## Measured behind other kernels", CLOSELY_TEXT, name, closely),
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
        "ones and pairs](../convolutions.md). Intervals are not here, but beside each gain that `wavesim "
        "simulate` shows. Stream sync and dependent launch are "
        "in the tiles that suit each convolution alone, semaphores (a semaphore per tile, by dependent "
        "launch) in those or in one tile for all, whichever is fastest. A part computes images of one "
        "size; parts follow each other under stream sync. Saves: the fastest of the three over stream "
        "sync; boundary: what dependent launch alone saves; tail: what semaphores save on top, where "
        "tiles need not wait for a kernel's last wave."
    )


def _measured(heading: str, images_text: str, name: str, runs: Mapping[str, Any] | None) -> str:
    """The network's convolutions as measured, beside PyTorch's; what neither side has is named."""
    cases = [case for case in (runs["cases"] if runs else ()) if case["name"].startswith(f"{name} batch")]
    cases = [case for case in cases if case["kind"] == KIND and "failed" not in case]
    if runs is None or not cases:
        return f"{heading}\n\nAll convolutions one after the other: {UNMEASURED}."
    lines = ["| batch | PyTorch, µs | stream sync | dependent launch | semaphores | ours over PyTorch |"]
    lines.append("|--:|--:|--:|--:|--:|--:|")
    for case in sorted(cases, key=_batch):
        times = fastest_of(case)
        ours = [times[one] for one in ("stream", "pdl", "semaphores")]
        cells = [f"{ns / 1e3:.1f}" for ns in (times["torch"], *ours)]
        lines.append(_row([f"{_batch(case)}", *cells, f"{times['torch'] / min(ours):.2f}"]))
    missing = [images for images in BATCHES if images not in map(_batch, cases)]
    lines += [f"\nBatch {images}: {UNMEASURED}." for images in missing]
    left_out = ", ".join(cases[0]["left_out"])
    commits = ", ".join(sorted({case["commit"] for case in cases}))
    how = (
        f"All convolutions one after the other in a CUDA graph on one {runs['device']['name']}, "
        f"{runs['date'][:10]}, commit {commits}: medians of 20 interleaved rounds. PyTorch: "
        "cuDNN, channels last, `cudnn.benchmark`, with ReLU and residuals as kernels of its own, which are "
        f"in our epilogues. Neither side has {left_out}. Each of ours is in the tiles that suit it alone, in "
        f"segments of 12 convolutions at most, between which the stream synchronises. {images_text}"
    )
    return "\n\n".join([heading, how, "\n".join(lines)])


def fastest_of(case: Mapping[str, Any]) -> dict[str, int]:
    """Median nanoseconds by class, of several plans of a class the fastest."""
    found: dict[str, int] = {}
    for one in case["finalists"]:
        found[one["class"]] = min(one["median_ns"], found.get(one["class"], one["median_ns"]))
    return found


def network_run(folder: Path = FOLDER) -> dict[str, Any] | None:
    """The networks of all results files of a folder, in one; None where there are none."""
    found: dict[str, Any] | None = None
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        results = read_json(path, MOST_BYTES)
        cases = [case for case in results["cases"] if case["kind"] == KIND]
        if cases:
            cases = [{**case, "commit": results["commit"][:7]} for case in cases]
            found = {**results, "cases": [*(found["cases"] if found else ()), *cases]}
    return found


def _batch(case: Mapping[str, Any]) -> int:
    return int(case["name"].rpartition(" ")[2])


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Writes every network's page."""
    runs = network_run()
    for name in NETWORKS:
        text = page(name, runs, network_run(PACKED), network_run(CLOSELY))
        write_text(DOCS / "models" / f"{name}.md", text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("conv_pages", main))
