"""The workload and the device that most commands take, and what they describe."""

import argparse
from dataclasses import replace

from wavesim.errors import DescriptionError
from wavesim.guard.options import integer
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import KNOWN_ORDERS
from wavesim.workloads.catalogue import WORKLOADS, parse_tile, workload


def add_workload_options(
    parser: argparse.ArgumentParser, *, has_order: bool = True, takes_files: bool = False
) -> None:
    """Workload, sizes, device and, for a command that does not choose it itself, the order."""
    files = "; or a .toml file as predict takes it" if takes_files else ""
    parser.add_argument("workload", help=", ".join(WORKLOADS) + files)
    parser.add_argument("--tokens", type=integer, help="rows of the input (M); images for convolutions")
    parser.add_argument("--tile", help="rows x columns of a tile, such as 128x256")
    if has_order:
        parser.add_argument("--order", default="row", help=KNOWN_ORDERS)
    parser.add_argument("--device", default=None, help=", ".join(devices.names()))


def add_split_k_option(parser: argparse.ArgumentParser) -> None:
    """`--split-k` for commands that take one split."""
    parser.add_argument(
        "--split-k", type=integer, default=1, help="how many ways K is split, each a block of its own"
    )


def described(options: argparse.Namespace) -> tuple[Pipeline, Device]:
    """The pipeline and device that the options name, `--split-k` applied. Raises `DescriptionError`."""
    tile = None if options.tile is None else parse_tile(options.tile)
    if options.workload == "toy" and (options.tokens is not None or tile or getattr(options, "tiles", "")):
        raise DescriptionError(
            "toy is Figure 1 of the paper, in one size; leave --tokens and --tile out, and --tiles of tune"
        )
    pipeline = workload(options.workload, options.tokens, tile)
    usual = "toy" if options.workload == "toy" else devices.default_device().name
    split_k = getattr(options, "split_k", 1)
    is_split = isinstance(split_k, int) and split_k != 1
    device = devices.load(usual if options.device is None else options.device)
    return with_split_k(pipeline, split_k) if is_split else pipeline, device


def with_split_k(pipeline: Pipeline, count: int) -> Pipeline:
    """The same computation with every GEMM's k split `count` ways; dependencies name the new stages."""
    stages = {
        stage.name: replace(stage, work=replace(stage.gemm, split_k=count)) for stage in pipeline.stages
    }
    dependencies = []
    for dependency in pipeline.dependencies:
        consumer = replace(dependency.consumer, stage=stages[dependency.consumer.stage.name])
        needs = [replace(need, stage=stages[need.stage.name]) for need in dependency.needs]
        dependencies.append(replace(dependency, consumer=consumer, needs=needs))
    parameters = {**pipeline.parameters, "split_k": count}
    return replace(pipeline, stages=list(stages.values()), dependencies=dependencies, parameters=parameters)
