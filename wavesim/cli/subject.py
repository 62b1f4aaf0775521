"""The workload and the device that most commands take, or a file that describes a user's own kernels.

Example: `wavesim compare gpt3-mlp --tokens 1024` is a workload of the catalogue; with `--file pair.toml`, or
the file in the workload's place, it is a pair of one's own, on the device that the file names.
"""

import argparse
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wavesim.cli.shared_options import add_rows, add_shared
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import KNOWN_ORDERS
from wavesim.safe_io.options import integer
from wavesim.work.description.reader import Description, load_description
from wavesim.workloads.catalogue import WORKLOADS, parse_tile, workload

if TYPE_CHECKING:
    from wavesim.predict.known_costs import KnownCosts
    from wavesim.predict.recommendation import Recommendation
    from wavesim.safety.verdict import Basis


TOML = ".toml"
# Options that say what a file says itself, or are of kernels of ours, with what they are where not given.
OF_WORKLOADS = {
    "tokens": None,
    "tile": None,
    "device": None,
    "tiles": "",
    "split_k": 1,
    "splits": "",
    "measure": 0,
}
ROW, SPLITS_LAST, NEVER = "row", "slices-last", "never"


@dataclass(frozen=True)
class Subject:
    """What a command line is about: a pipeline on a device, and the file that describes it, if one does."""

    pipeline: Pipeline
    device: Device
    file: Description | None = None
    path: Path | None = None

    def costs(self, order: str = ROW) -> "KnownCosts":
        """Of a described pipeline those of its kernel times, else the best known.

        Raises `DescriptionError` where a file gives neither times nor work.
        """
        from wavesim.predict.defaults import described_costs, find_costs

        if self.file is None:
            return find_costs(self.pipeline, self.device, order)
        return described_costs(self.pipeline, self.device, self.file.kernel_ns)

    def recommended(
        self, accept: "Basis | None" = None, progress: Callable[[int, int], None] | None = None
    ) -> "Recommendation":
        """Which plan to run, as every command says it. Raises `DescriptionError`."""
        from wavesim.predict.recommendation import verdict_on

        if self.file is None:
            return verdict_on(self.pipeline, self.device, None, progress, accept=accept)
        return verdict_on(self.pipeline, self.device, self.file.kernel_ns, progress, self.file.syncs, accept)

    @property
    def named(self) -> str:
        """How a command line names it: the file, else the workload."""
        return self.pipeline.name if self.file is None else str(self.path)

    def order(self, given: str | None) -> str:
        """The order of tiles: of the command line, else of the file, else row-major."""
        if given is not None:
            return given
        return (self.file.order if self.file is not None else "") or ROW

    def launch_order(self, given: str | None) -> str:
        """The same as hardware issues a grid that a file describes: all tiles' first splits of K first."""
        word = self.order(given)
        is_split = self.file is not None and any(stage.grid.z > 1 for stage in self.pipeline.stages)
        return f"{SPLITS_LAST}:{word}" if is_split and not word.startswith(SPLITS_LAST) else word

    def syncs(self, given: str | None, usual: str) -> str:
        """Plans as words separated by commas: of the command line, else of the file, else the usual ones."""
        if given is not None:
            return given
        return (",".join(self.file.syncs) if self.file is not None else "") or usual


def add_workload_options(parser: argparse.ArgumentParser, *, has_order: bool = True) -> None:
    """Workload or file, sizes, device and, for a command that does not choose it itself, the order."""
    parser.add_argument(
        "workload",
        nargs="?",
        type=_workload_or_file,
        help=f"{', '.join(WORKLOADS)}, or a description FILE.toml",
    )
    add_shared(parser, "--file")
    add_rows(parser, "rows of the input (M); images for convolutions", dest="tokens", type=integer)
    parser.add_argument("--tile", help="rows x columns of a tile, such as 128x256")
    if has_order:
        parser.add_argument("--order", help=f"{KNOWN_ORDERS}; the file's, else row")
    parser.add_argument("--device", default=None, help=f"{', '.join(devices.names())}, or a device file")


def _workload_or_file(text: str) -> str | Path:
    return Path(text) if text.endswith(TOML) else text


def described(options: argparse.Namespace, description: Description | None = None) -> Subject:
    """What the options name, `--split-k` applied; `description` where it was read already, of one GPU.

    Raises `DescriptionError`.
    """
    path = described_file(options)
    return _own(path, options, description) if path is not None else _of_catalogue(options)


def file_of(options: argparse.Namespace) -> Description | None:
    """The description that the options name, perhaps of several GPUs; None for a workload of ours."""
    path = described_file(options)
    return None if path is None else load_description(path, may_have_host=True)


def described_file(options: argparse.Namespace) -> Path | None:
    """The file that describes the kernels, None for a workload of ours. Raises `DescriptionError`."""
    named = options.workload
    if named is None and options.file is None:
        raise DescriptionError("no workload is named; name one, such as toy, or give --file FILE.toml")
    if named is not None and options.file is not None:
        raise DescriptionError(
            f"both a workload, {str(named)!r}, and --file are given; leave one of them out"
        )
    return options.file if named is None else named if isinstance(named, Path) else None


def _own(path: Path, options: argparse.Namespace, known: Description | None) -> Subject:
    for name, usual in OF_WORKLOADS.items():
        if getattr(options, name, usual) not in (usual, NEVER):
            flag = "split-k" if name == "splits" else name.replace("_", "-")
            raise DescriptionError(
                f"{path} says sizes, tiles, splits and device itself, of kernels that are yours to measure; "
                f"leave --{flag} out"
            )
    description = load_description(path) if known is None else known
    return Subject(description.pipeline, description.device, description, path)


def _of_catalogue(options: argparse.Namespace) -> Subject:
    tile = None if options.tile is None else parse_tile(options.tile)
    if options.workload == "toy" and (options.tokens is not None or tile or getattr(options, "tiles", "")):
        raise DescriptionError(
            "toy is Figure 1 of the paper, in one size; leave --tokens and --tile out, and --tiles of tune"
        )
    pipeline = workload(options.workload, options.tokens, tile)
    usual = "toy" if options.workload == "toy" else devices.default_device().name
    split_k = getattr(options, "split_k", 1)
    device = devices.load(usual if options.device is None else options.device)
    return Subject(with_split_k(pipeline, split_k) if split_k != 1 else pipeline, device)


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


def chosen_executor(options: argparse.Namespace) -> AbstractContextManager[Executor | None]:
    """The cluster, or nothing, which means this machine. Raises `DescriptionError` or `DeviceError`."""
    if options.dask is None:
        return nullcontext()
    from wavesim.tuning.dask_cluster import dask_pool  # only where it is asked for

    return dask_pool(options.dask)
