"""Descriptions written as the TOML file that `load_description` reads back.

Example: a pair of a profile, its grids and times filled in, for its author to correct and to keep.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.dependency import Dependency
from wavesim.model.stage import Stage
from wavesim.model.tile_set_text import written_tile_set
from wavesim.safe_io.writing import write_text
from wavesim.work.collective.host import Host
from wavesim.work.description.reader import Description, tiles_of_name
from wavesim.work.kinds import kind_of

DELETE = "\x7f"  # the one ASCII character that JSON leaves as it is and TOML refuses


def write_description(path: str | Path, description: Description) -> Path:
    """Writes a file that `load_description` reads back as the same pipeline, times and plans.

    Layouts of a `Gemm` are left out, as no prediction reads them; work of no kind that is registered, or with
    more than a file can say, is written as its kernel. Raises `DescriptionError` for what a file cannot say,
    `OutputError`.
    """
    return write_text(path, description_text(description))


def description_text(description: Description, comments: Sequence[str] = ()) -> str:
    """The file's text, with comments at its head. Raises `DescriptionError` for what it cannot say."""
    lines = [f"# {_ascii(line)}" for line in comments]
    lines.append(f"device = {_quoted(_device_text(description))}")
    for stage in description.pipeline.stages:
        lines += ["[[stages]]", *_stage_lines(stage, description.kernel_ns.get(stage.name))]
    if not description.pipeline.dependencies:
        lines.insert(len(comments) + 1, "dependencies = []")
    for dependency in description.pipeline.dependencies:
        needs = ", ".join(map(_quoted, _written_needs(dependency)))
        name = _quoted(dependency.consumer.stage.name)
        lines += ["[[dependencies]]", f"consumer = {name}", f"needs = [{needs}]"]
    if description.syncs or description.order:
        lines.append("[plans]")
        lines += [f"sync = [{', '.join(map(_quoted, description.syncs))}]"] if description.syncs else []
        lines += [f"order = {_quoted(description.order)}"] if description.order else []
    lines += _host_lines(description.host) if description.host is not None else []
    return "\n".join(lines) + "\n"


def _host_lines(host: Host) -> Iterator[str]:
    yield from ("[gpus]", f"count = {host.gpus}", f"link = {_quoted(host.link.name)}")
    if any(host.late_ns):
        yield f"late_us = [{', '.join(str(time / 1000) for time in host.late_ns)}]"
    for stage, collective in host.collectives.items():
        yield from ("[[collectives]]", f"stage = {_quoted(stage)}", f"kind = {_quoted(collective.kind)}")
        if collective.kind == "all-reduce":
            yield f"shots = {_quoted(collective.shots)}"


def _device_text(description: Description) -> str:
    if description.device_file is not None:
        return str(description.device_file.resolve())
    name = devices.catalogue_name(description.device.name)
    if name not in devices.names():
        raise DescriptionError(
            f"device {name!r} is not in the catalogue; name one that is, or a device file (.toml) of its own"
        )
    return name


def _stage_lines(stage: Stage, time_ns: int | None) -> Iterator[str]:
    kernel, loop = stage.kernel, stage.main_loop
    yield f"name = {_quoted(stage.name)}"
    yield from _work_lines(stage)
    yield f"threads = {kernel.block.threads}"
    yield f"registers = {kernel.block.registers}"
    yield f"shared_bytes = {kernel.block.shared_bytes}"
    carveout = getattr(stage.work, "carveout", "default")  # layers have no such field
    if carveout != "default":
        yield f"carveout = {_quoted(carveout)}"
    if loop.pipeline_depth is not None:
        yield f"pipeline_depth = {loop.pipeline_depth}"
    if loop.wait_place is not None:
        yield f"wait = {_quoted(loop.wait_place)}"
    if loop.is_persistent is not None:
        yield f"persistent = {str(loop.is_persistent).lower()}"
    if loop.tests_each_k_block is not None:
        yield f"tests_each_k_block = {str(loop.tests_each_k_block).lower()}"
    if stage.tile_weights:
        yield f"tile_weights = [{', '.join(map(repr, stage.tile_weights))}]"
    if time_ns is not None:
        yield f"kernel_us = {time_ns / 1000}"


def _work_lines(stage: Stage) -> Iterator[str]:
    """What the work's kind writes; its grid where it is of none, or a file cannot say all of it."""
    kind = kind_of(stage.work)
    if lines := list(kind.lines(stage.work)) if kind is not None else []:
        yield from lines
        return
    grid, kernel = stage.grid, stage.kernel
    yield f"grid = [{grid.x}, {grid.y}{f', {grid.z}' if grid.z > 1 else ''}]"
    if kernel.flops_per_block:
        yield f"flops = {kernel.flops_per_block * grid.size}"
    if kernel.bytes_per_block:
        yield f"bytes = {kernel.bytes_per_block * grid.size}"


def _written_needs(dependency: Dependency) -> Iterator[str]:
    """A dependency's needs: a name where that says all, else the tile set."""
    for place, need in enumerate(dependency.needs):
        name = need.stage.name
        try:
            named = tiles_of_name(place, name, {name: need.stage}, dependency.consumer.stage)
        except DescriptionError:  # a producer that does not make what the name stands for
            named = None
        yield name if named == need else written_tile_set(need)


def _quoted(text: str) -> str:
    return json.dumps(text).replace(DELETE, "\\u007f")


def _ascii(text: str) -> str:
    """Text that stays inside a comment."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)
