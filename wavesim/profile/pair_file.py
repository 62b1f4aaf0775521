"""A pair of a profile as a description, for `wavesim predict` and all other commands, and its TOML text.

Example: flash_fwd_kernel, 1,280 blocks in 113.4 us, then a copy of 17,888 blocks in 28.8 us, on an h100;
tile x of the copy needs tile `x * 1280 // 17888` of the attention. The times are the profile's; which tile
needs which is an assumption until the user has looked, and the file says so. What the user answers replaces
it: sizes and tile of a product make a launch of one dimension columns and rows again.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.description import Description, stage_of, time_ns_of
from wavesim.model.description_table import DescriptionTable
from wavesim.model.description_writer import description_text
from wavesim.model.device import Device
from wavesim.model.kernel import MAX_GRID_YZ
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.model.tile_set_text import parse_tile_set
from wavesim.profile.advice import Pair
from wavesim.profile.kernel_facts import PERSISTENT, KernelFacts
from wavesim.profile.pair_answers import ROLES, PairAnswers, needs_text
from wavesim.safe_io.bounds import MOST_BLOCKS

LONGEST_NAME = 160  # of a kernel, in a comment
NOTHING_SAID = PairAnswers()


def pair_toml(pair: Pair, source: str, answers: PairAnswers = NOTHING_SAID) -> str:
    """The TOML text of a pair, what was answered in it. Raises `DescriptionError` as `pair_description`."""
    description = pair_description(pair, answers)
    own, named = description.device, devices.load(catalogue_name(description.device))
    needs = ", ".join(str(need) for need in description.pipeline.dependencies[0].needs)
    assumed = (
        f"said by its author: the consumer reads {needs}."
        if answers.reads
        else f"ASSUMED: that the consumer reads the producer's output, and which tiles: {needs}."
    )
    comments = [
        f"producer: {pair.producer.shape.name[:LONGEST_NAME]}",
        f"consumer: {pair.consumer.shape.name[:LONGEST_NAME]}",
        f"{pair.count} times back to back in {source} ({own.name}).",
        "Resources are the profile's, registers as compiled; times are means of one launch, unless answered.",
        assumed,
        "A profile shows that one ran after the other, no more. Correct `needs` before you trust it.",
    ]
    return description_text(replace(description, device=named), comments)


def pair_description(pair: Pair, answers: PairAnswers = NOTHING_SAID) -> Description:
    """A pair on its own device, with the dependency that is answered, or else assumed.

    Raises `DescriptionError` for a pair whose tiles are not known, or that is too large to be simulated, and
    for answers that the launches contradict.
    """
    kernels = dict(zip(ROLES, (pair.producer, pair.consumer), strict=True))
    for role, kernel in kernels.items():
        _require_known(pair.number, kernel, answers.of(role))
    _require_few(pair)
    grids = dict(zip(ROLES, _grids(pair), strict=True))
    stages, times = {}, {}
    device = pair.producer.device
    assert device is not None
    for role, kernel in kernels.items():
        table = _table(role, kernel, grids[role], answers)
        stages[role] = stage_of(table, device)
        times[role] = time_ns_of(table) or max(1, round(kernel.mean_ns))
        _require_launch(kernel, stages[role], table)
    first, second = stages.values()
    try:
        need = parse_tile_set(needs_text(answers.reads, first, second), stages)
    except DescriptionError as error:
        raise DescriptionError(f"{answers.path}: field 'reads': {error}") from None
    pipeline = Pipeline(f"pair {pair.number}", [first, second], [Dependency(second[x, y], [need])])
    return Description(pipeline, device, times)


def _table(role: str, kernel: KernelFacts, grid: tuple[int, int], answers: PairAnswers) -> DescriptionTable:
    """A kernel's fields: the profile's, and those of its author."""
    shape = kernel.shape
    values: dict[str, Any] = {
        "name": role,
        "threads": shape.threads,
        "registers": shape.registers,
        "shared_bytes": shape.shared_bytes or 0,
    }
    if kernel.blind == PERSISTENT:
        values["persistent"] = True
    if "tile" not in answers.of(role):
        values["grid"] = list(grid)
    return DescriptionTable(answers.path, f"{role}.", values | dict(answers.of(role)))


def _require_known(number: int, kernel: KernelFacts, answer: Mapping[str, Any]) -> None:
    """Raises `DescriptionError` unless a kernel's tiles are known: by its grid, or by its author."""
    is_described = kernel.blind == PERSISTENT and "tile" in answer
    if kernel.device is None or (kernel.waves is None and not is_described):
        fix = ". Answer with m, n, k and tile" if kernel.blind == PERSISTENT else ""
        raise DescriptionError(
            f"pair {number} cannot be predicted: {kernel.label}: "
            f"{kernel.blind or 'its device is not known'}{fix}"
        )


def _require_launch(kernel: KernelFacts, stage: Stage, table: DescriptionTable) -> None:
    """Raises `DescriptionError` for tiles that are not the blocks that were launched."""
    launched, tiles = kernel.shape.blocks, stage.grid.size
    if "tile" in table.values and kernel.blind != PERSISTENT and tiles != launched:
        raise table.wrong(
            "tile",
            f"with m, n and k that is {stage.grid}, {tiles:,} blocks; {launched:,} were launched. Correct "
            "one, or add split_k",
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


def _require_few(pair: Pair) -> None:
    blocks = sum(kernel.shape.blocks or 0 for kernel in (pair.producer, pair.consumer))
    if blocks > MOST_BLOCKS:
        raise DescriptionError(
            f"pair {pair.number} has {blocks:,} blocks in all; at most {MOST_BLOCKS:,} are simulated. Choose "
            "another pair"
        )


def _grids(pair: Pair) -> tuple[tuple[int, int], tuple[int, int]]:
    """(columns, rows) of both: as launched where both have the same rows, else in one row."""
    first, second = pair.producer.shape.grid, pair.consumer.shape.grid
    assert first is not None
    assert second is not None
    if first[2] == second[2] == 1 and first[1] == second[1] and 1 < first[1] <= MAX_GRID_YZ:
        return first[:2], second[:2]
    return (math.prod(first), 1), (math.prod(second), 1)
