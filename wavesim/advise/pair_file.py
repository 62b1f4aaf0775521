"""A pair of a profile as the TOML file that `wavesim predict` reads, and as the pipeline it describes.

Example: flash_fwd_kernel, 1,280 blocks in 113.4 us, then a copy of 17,888 blocks in 28.8 us, on an h100;
tile x of the copy needs tile `x * 1280 // 17888` of the attention. The times are the profile's; which tile
needs which is an assumption until the user has looked, and the file says so.
"""

import json
import math
import re

from wavesim.advise.advice import Pair
from wavesim.advise.kernel_facts import KernelFacts
from wavesim.errors import DescriptionError
from wavesim.guard.bounds import MOST_BLOCKS
from wavesim.model import device as devices
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import Device
from wavesim.model.kernel import MAX_GRID_YZ, Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage

HEADER = """# {producer} -> {consumer},
# {count} times back to back in {source} ({device}).
# Grids, resources and times are the profile's; times are means of one launch, registers as compiled.
# ASSUMED: that the consumer reads the producer's output, and which tiles: {assumption}.
# A profile shows that one ran after the other, no more. Correct `needs` before you trust the prediction.
"""


def pair_toml(pair: Pair, source: str) -> str:
    """The TOML text of a pair. Raises `DescriptionError` for what `pair_description` refuses."""
    pair_description(pair)  # as the file's reader would refuse it
    assert pair.producer.device is not None
    first, second = _grids(pair)
    needs, assumption = _needs(first, second)
    lines = [
        HEADER.format(
            producer=_comment(pair.producer.label),
            consumer=_comment(pair.consumer.label),
            count=pair.count,
            source=_comment(source),
            device=_comment(pair.producer.device.name),
            assumption=assumption,
        ).rstrip(),
        f"device = {json.dumps(catalogue_name(pair.producer.device))}",
        *_stage("producer", pair.producer, first),
        *_stage("consumer", pair.consumer, second),
        "[[dependencies]]",
        'consumer = "consumer"',
        f"needs = [{json.dumps(needs)}]",
    ]
    return "\n".join(lines) + "\n"


def pair_description(pair: Pair) -> tuple[Pipeline, Device, dict[str, int]]:
    """A pair as (pipeline, its own device, time of each stage), with the dependency that `pair_toml` assumes.

    Raises `DescriptionError` for a pair whose waves are not known, or too large to be simulated.
    """
    device = pair.producer.device
    _require_visible(pair)
    assert device is not None
    first, second = (
        Stage(name, Kernel(name, Grid(*grid), _block(kernel)))
        for name, kernel, grid in zip(
            ("producer", "consumer"), (pair.producer, pair.consumer), _grids(pair), strict=True
        )
    )
    before, after = first.grid, second.grid
    if before.y > 1:
        needed = first[:, y]
    elif before.x <= after.x:
        needed = first[x * before.x // after.x, 0]
    else:
        needed = first[(x + 1) * before.x // after.x - 1, 0]
    times = {
        "producer": max(1, round(pair.producer.mean_ns)),
        "consumer": max(1, round(pair.consumer.mean_ns)),
    }
    return (
        Pipeline(f"pair {pair.number}", [first, second], [Dependency(second[x, y], [needed])]),
        device,
        times,
    )


def _block(kernel: KernelFacts) -> Block:
    shape = kernel.shape
    assert shape.threads is not None
    assert shape.registers is not None
    return Block(shape.threads, shape.registers, dynamic_shared_bytes=shape.shared_bytes or 0)


def _require_visible(pair: Pair) -> None:
    if pair.producer.device is None or not pair.is_visible:
        hidden = [kernel for kernel in (pair.producer, pair.consumer) if kernel.waves is None]
        reason = "; ".join(f"{kernel.label}: {kernel.blind}" for kernel in hidden)
        raise DescriptionError(
            f"pair {pair.number} cannot be predicted: {reason or 'its device is not known'}"
        )


def catalogue_name(device: Device) -> str:
    """The catalogued device that is nearest: same compute capability, then SMs."""
    known = [devices.load(name) for name in devices.products()]
    alike = [other for other in known if other.compute_capability == device.compute_capability]
    if not alike:
        raise DescriptionError(f"{device.name}: no catalogued device has its compute capability")
    return min(
        alike, key=lambda other: (abs(other.sm_count - device.sm_count), other.name != device.name)
    ).name


def _stage(name: str, kernel: KernelFacts, grid: tuple[int, int]) -> list[str]:
    shape = kernel.shape
    return [
        "[[stages]]",
        f"name = {json.dumps(name)}  # {_comment(shape.name)[:160]}",
        f"grid = [{grid[0]}, {grid[1]}]",
        f"threads = {shape.threads}",
        f"registers = {shape.registers}",
        f"shared_bytes = {shape.shared_bytes}",
        f"kernel_us = {max(kernel.mean_ns, 1) / 1000:.3f}",
    ]


def _grids(pair: Pair) -> tuple[tuple[int, int], tuple[int, int]]:
    """(columns, rows) of both: as launched where both have the same rows, else in one row."""
    first, second = pair.producer.shape.grid, pair.consumer.shape.grid
    assert first is not None
    assert second is not None
    blocks = math.prod(first) + math.prod(second)
    if blocks > MOST_BLOCKS:
        raise DescriptionError(
            f"pair {pair.number} has {blocks:,} blocks in all; at most {MOST_BLOCKS:,} are simulated. Choose "
            "another pair"
        )
    if first[2] == second[2] == 1 and first[1] == second[1] and 1 < first[1] <= MAX_GRID_YZ:
        return first[:2], second[:2]
    return (math.prod(first), 1), (math.prod(second), 1)


def _needs(first: tuple[int, int], second: tuple[int, int]) -> tuple[str, str]:
    if first[1] > 1:
        return "producer[:, y]", "a tile needs the whole tile row of the producer"
    before, after = first[0], second[0]
    if before <= after:
        return (
            f"producer[x * {before} // {after}, 0]",
            "the same share of the way through the producer's grid",
        )
    return (
        f"producer[(x + 1) * {before} // {after} - 1, 0]",
        "the same share of the way through the producer's grid",
    )


def _comment(text: str) -> str:
    """Text that stays inside a TOML comment."""
    return re.sub(r"[^\x20-\x7e]", "?", text)
