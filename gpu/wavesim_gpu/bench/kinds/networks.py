"""`python -m wavesim_gpu.bench.kinds.networks --out FILE`: a network's convolutions, ours and PyTorch's.

Example: ResNet-50's 53 convolutions at batch 8 as one CUDA graph: our kernels under stream sync, dependent
launch and semaphores, and cuDNN's. A network is cut into segments, which a plan orders within and the stream
between; each reads inputs of its own. Ours pack images of 3 colours first, which is timed too. Each segment's
results are compared with an fp32 reference first. Pooling and the products behind the convolutions are on
neither side: `left_out` names them. `--parts` measures those of one size of images by themselves, such as
"resnet-50-56 batch 8".
"""

import json
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from wavesim.errors import DescriptionError, DeviceError, WavesimError
from wavesim.model.convolution_reads import conv_rows
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.predict.convolution_tiles import best_convolution_tiles
from wavesim.safe_io.escaping import lines
from wavesim.safe_io.options import OneLineParser, number
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text
from wavesim.workloads.conv_networks import PADDED_COLOURS, Convolution, conv_of, network_named
from wavesim_gpu.bench.kinds.graphs import CLOSELY, GraphTimes, graph_of_programs
from wavesim_gpu.bench.kinds.layer_cases import PlanClass
from wavesim_gpu.bench.kinds.stem_cases import COLOURS
from wavesim_gpu.bench.libraries.torch_chain import require_torch
from wavesim_gpu.bench.libraries.torch_convolutions import LABEL, convolutions_by_torch
from wavesim_gpu.bench.libraries.torch_layer import graph_of_layers
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy, versions
from wavesim_gpu.driver.functions import compile_all
from wavesim_gpu.kernels.convolution.conv_sm90 import ChainedHopperConvolution
from wavesim_gpu.kernels.convolution.pack_pixels import with_packed_images
from wavesim_gpu.run.operands import Operands
from wavesim_gpu.run.planned_kernels import wanted_kernels
from wavesim_gpu.run.references import reference
from wavesim_gpu.run.runner import CupyRunner, WrongResultError, require_safe
from wavesim_gpu.run.timing import Contender, interleaved

NAMES, BATCHES = ("resnet-50", "vgg-19"), (1, 8, 32)
# Of one stream: segments follow each other in it.
PLANS: dict[PlanClass, tuple[str, ...]] = {
    "stream": ("stream",),
    "pdl": ("pdl",),
    "semaphores": ("pdl+row",),
}
BACKEND, MOST_STAGES = "hopper", 12
SECONDS, ROUNDS, WARM_UP_S, BATCH_NS = 170.0, 20, 0.05, 1_000_000


@dataclass(frozen=True)
class NetworkCase:
    """A network at a batch; of its convolutions those that make images of a size, all where it is 0."""

    network: str
    images: int
    size: int = 0

    @property
    def name(self) -> str:
        """For people and files."""
        part = f"-{self.size}" if self.size else ""
        return f"{self.network}{part} batch {self.images}"


def cases_of(*, parts: bool) -> list[NetworkCase]:
    """All that are measured: whole networks, or their parts."""
    return [
        NetworkCase(name, images, size)
        for images in BATCHES
        for name in NAMES
        for size in (network_named(name).sizes if parts else (0,))
    ]


def segments_of(name: str, images: int, device: Device, only_size: int = 0) -> list[Pipeline]:
    """A network's convolutions in their order, each in the tile that suits it alone."""
    network, found = network_named(name), []
    tiles = best_convolution_tiles(network.convolutions, images, device)
    for size in [only_size] if only_size else network.sizes:
        for part in _cut(network.part(size)):
            works = {one.name: conv_of(one, images, tiles[one.name]) for one in part}
            stages = {
                key: Stage(key, work, backend=ChainedHopperConvolution.name) for key, work in works.items()
            }
            needs = [
                conv_rows(*(stages[maker] for maker in (one.reads, one.name)), *_residual(one, stages))
                for one in part
                if one.reads
            ]
            pipeline = Pipeline(f"{name}-{size}-{part[0].name}", list(stages.values()), needs)
            packs = part[0].channels == PADDED_COLOURS
            found.append(with_packed_images(pipeline, COLOURS) if packs else pipeline)
    return found


def _residual(one: Convolution, stages: dict[str, Stage]) -> list[Stage]:
    return [stages[one.residual]] if one.residual else []


def _cut(part: Sequence[Convolution]) -> Iterator[list[Convolution]]:
    """Pieces of about as many, `MOST_STAGES` at most; what another piece computes is an input."""
    length = -(-len(part) // -(-len(part) // MOST_STAGES))
    for first in range(0, len(part), length):
        piece = part[first : first + length]
        names = {one.name for one in piece}
        yield [
            replace(
                one,
                reads=one.reads if one.reads in names else "",
                residual=one.residual if one.residual in names and one.reads in names else "",
            )
            for one in piece
        ]


@dataclass(frozen=True)
class NetworkRun:
    """One network at one batch on the GPU at hand."""

    runner: CupyRunner
    segments: Sequence[Pipeline]

    def measured(self) -> dict[str, Any]:
        """PyTorch's and each plan's rounds, of those that are right; why others are missing."""
        missing: dict[str, str] = {}
        sets = [self.runner.operands(pipeline, seed) for seed, pipeline in enumerate(self.segments)]
        expected = [reference(operands, BACKEND) for operands in sets]
        found = [self._by_torch(sets)]
        for plan_class, words in PLANS.items():
            for word in words:
                try:
                    found.append(self._by_plan(plan_class, word, sets, expected))
                except WavesimError as error:
                    missing[word] = str(error)
        times = interleaved([one.contender for one in found], ROUNDS, WARM_UP_S)
        for one, rounds in zip(found, times, strict=True):
            one.entry["rounds_ns"] = rounds.times_ns
            one.entry["median_ns"] = round(median(rounds.times_ns))
            one.entry["quartiles_ns"] = [round(value) for value in quantiles(rounds.times_ns, n=4)[::2]]
            for program in one.programs:
                program.synchronize()
        return {"finalists": [one.entry for one in found], "missing": missing}

    def _by_plan(
        self, plan_class: PlanClass, word: str, sets: Sequence[Operands], expected: Sequence[dict[str, Any]]
    ) -> GraphTimes:
        plan = parse_plan(word)
        for pipeline in self.segments:
            require_safe(pipeline, plan, query(), BACKEND)
        # Their last block puts back what splits count with, too: a memset would stand between segments.
        programs = [self.runner.program(operands, plan, is_self_resetting=True) for operands in sets]
        for program, wanted in zip(programs, expected, strict=True):
            verdict = self.runner.verdict(program, program.launcher(), wanted)
            if not verdict.is_good:
                raise WrongResultError(f"{program.pipeline.name} under {word}: {dict(verdict.errors)}")
        runs = self._runs()
        launch = graph_of_programs(programs, runs * len(programs))
        entry = {"class": plan_class, "label": f"{word}, best tiles"}
        return GraphTimes(entry, Contender(launch, programs[0].streams[0], runs), programs)

    def _by_torch(self, sets: Sequence[Operands]) -> GraphTimes:
        layers, _ = convolutions_by_torch(sets)
        runs = self._runs()
        launch, stream = graph_of_layers(layers, runs * len(layers))
        return GraphTimes({"class": "torch", "label": LABEL}, Contender(launch, stream, runs))

    def _runs(self) -> int:
        """In one graph, so that its start does not count."""
        flops = sum(
            stage.kernel.flops_per_block * stage.grid.size
            for pipeline in self.segments
            for stage in pipeline.stages
        )
        return max(1, round(BATCH_NS / (flops / 300_000)))


def measure(options: Namespace) -> int:
    """Measures the cases that the command's options name; how many were."""
    only, out = options.only, options.out
    began, torch = time.monotonic(), require_torch()
    runner, device = (
        CupyRunner(backend=BACKEND, commit=options.commit or None, follows_closely=options.closely),
        query(),
    )
    known = cases_of(parts=options.parts)
    cases = [case for case in known if only in case.name]
    if not cases:
        names = ", ".join(case.name for case in known)
        raise DescriptionError(f"--only is {only!r}; it is in none of {names}")
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": {name: value for name, value in asdict(device).items() if name != "sources"},
        "versions": {**versions(), "torch": torch.__version__},
        "commit": runner.commit,
        "follows_closely": options.closely,
        "cases": [],
    }
    for case in cases:
        if time.monotonic() - began > options.seconds:
            break
        entry: dict[str, Any] = {
            "kind": "network",
            "name": case.name,
            "left_out": [] if case.size else [one.name for one in network_named(case.network).rest],
        }
        try:
            segments = segments_of(case.network, case.images, device, case.size)
            words = [word for words in PLANS.values() for word in words]
            compile_all(
                wanted
                for pipeline in segments
                for word in words
                for wanted in wanted_kernels(pipeline, parse_plan(word), Build(), BACKEND)
            )
            entry |= NetworkRun(runner, segments).measured()
        except (WavesimError, RuntimeError) as error:
            entry["failed"] = str(error)
        result["cases"].append(entry)
        write_text(out, json.dumps(result, indent=1) + "\n")
        times = ", ".join(
            f"{one['label']} {one['median_ns'] / 1000:.1f}" for one in entry.get("finalists", ())
        )
        print(f"{entry['name']}: {times or entry['failed']} us", flush=True)  # noqa: T201  # progress
        torch.cuda.empty_cache()
        require_cupy().get_default_memory_pool().free_all_blocks()
    return len(result["cases"])


def main(words: list[str] | None = None) -> int:
    """Measures networks; status 2 for bad input, no GPU or no torch."""
    parser = OneLineParser(prog="python -m wavesim_gpu.bench.kinds.networks", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the results' file (JSON)")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--parts", action="store_true", help="the networks' parts, by their images' size")
    parser.add_argument("--closely", action="store_true", help=CLOSELY)
    parser.add_argument(
        "--seconds", type=number, default=SECONDS, help=f"after which none is begun ({SECONDS:g})"
    )
    parser.add_argument("--commit", default="", help="commit of the kernels, where git cannot tell")
    try:
        options = parser.parse_args(sys.argv[1:] if words is None else words)
        count = measure(options)
    except (DescriptionError, DeviceError) as error:
        print(lines(str(error)), file=sys.stderr)  # noqa: T201
        return 2
    print(f"{count} cases in {options.out}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(run_program("conv_networks", main))
