"""How a pipeline that reuses buffers is made safe: needs that order a write after reads, or a second buffer.

Example: layers in a row share one buffer for QKV. `with_anti_dependencies` has the QKV product of layer 2
wait for the attention tiles of layer 1 that read the rows it overwrites; `double_buffered(pipeline, "qkv")`
has it write to "qkv.2", and layer 3 to "qkv" again.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from wavesim.errors import DescriptionError
from wavesim.model.accesses import Accesses
from wavesim.model.buffers import buffers_of, written_operands
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.index import Index
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import Region
from wavesim.model.stage import Stage, TileSet
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import TileSync
from wavesim.safe_io.bounds import shown
from wavesim.safety.hazards import RegionIndex, hazards_of
from wavesim.safety.tile_order import TileSets

Rows = Mapping[int, tuple[int, int]]  # of a consumer's tile row: the producer's rows, half-open


def with_anti_dependencies(pipeline: Pipeline) -> Pipeline:
    """The same with needs that let no tile overwrite what one of an earlier stage may still read or write.

    They hold under every plan; a need is of whole rows of tiles, so that GEMMs can have it. What is read
    before it is written is no matter of these and stays.
    """
    plan = SemaphoreSync(TileSync())  # orders the least
    for _ in range(len(pipeline.stages) ** 2):
        hazard = next(
            (candidate for candidate in hazards_of(pipeline, plan) if candidate.kind in _OVERWRITES), None
        )
        if hazard is None:
            return pipeline
        pipeline = _with_need(pipeline, hazard.second[0], hazard.first[0])
    raise AssertionError("every pair of stages has a need")


_OVERWRITES = ("overwritten before read", "written twice")


def _with_need(pipeline: Pipeline, later: str, earlier: str) -> Pipeline:
    """The later stage's tiles need those of the earlier one that use what they overwrite."""
    consumer, producer = pipeline.stage(later), pipeline.stage(earlier)
    need = _tile_rows(consumer, producer, _rows_used(pipeline, consumer, producer))
    known = pipeline.dependency_of(later)
    added = Dependency(consumer[x, y], [*(known.needs if known is not None else ()), need])
    others = [dependency for dependency in pipeline.dependencies if dependency is not known]
    return replace(pipeline, dependencies=[*others, added])


def _rows_used(pipeline: Pipeline, consumer: Stage, producer: Stage) -> Rows:
    """By tile row of the consumer: the producer's tile rows that use what it overwrites."""
    accesses, sets = Accesses(pipeline), TileSets(pipeline)
    uses = RegionIndex(sets.count)
    for tile in producer.grid:
        number = sets.number(producer, tile)
        uses.add(number, accesses.all_reads(producer.name, tile))
        uses.add(number, accesses.writes(producer.name, tile))
    rows: dict[int, tuple[int, int]] = {}
    for tile in consumer.grid:
        for buffer, regions in accesses.writes(consumer.name, tile).items():
            for row in regions.tolist():
                for _, (_, used) in sets.tiles(uses.meeting(buffer, Region(*row))):
                    low, high = rows.get(tile[1], (used, used + 1))
                    rows[tile[1]] = min(low, used), max(high, used + 1)
    return rows


def _tile_rows(consumer: Stage, producer: Stage, rows: Rows) -> TileSet:
    """The fewest rows of the producer, of those that are written as a slice of y, that hold all of them."""
    have, ask = producer.grid.y, consumer.grid.y
    divisor = gcd(have, ask)
    own, other = have // divisor, ask // divisor
    begin, end = (y, y + 1) if own == other else (y * own // other, ((y + 1) * own + (other - 1)) // other)
    for start, stop in ((begin, end), (begin, None), (None, end)):
        if all(
            _at(start, row, 0) <= low and high <= _at(stop, row, have) for row, (low, high) in rows.items()
        ):
            return producer[:, start:stop]
    return producer[:, :]


def _at(index: Index | None, row: int, without: int) -> int:
    return without if index is None else index.evaluate(0, row)


def double_buffered(pipeline: Pipeline, buffer: str) -> Pipeline:
    """The same with two buffers in turns for one: whoever writes it after it was read writes the other one.

    Raises `DescriptionError` for a buffer that there is not, and one that a stage updates in place.
    """
    known = buffers_of(pipeline)
    if buffer not in known:
        raise DescriptionError(
            f"pipeline {pipeline.name} has no buffer {shown(buffer)}; it has {', '.join(map(repr, known))}"
        )
    names, writes, was_read = (buffer, f"{buffer}.2"), -1, True
    stages: dict[str, Stage] = {}
    for stage in pipeline.stages:
        mine = [use for use in known[buffer].uses if use.stage == stage.name]
        written = [use for use in mine if use.operand in written_operands(stage)]
        own = dict(stage.buffers)
        for use in mine:
            if use not in written:
                own[use.operand] = replace(use.view, buffer=names[max(0, writes) % 2])
        if written:
            _require_not_updated(stage, buffer, [use.operand for use in written])
            writes += was_read or len(mine) > len(written)
            was_read = False
            for use in written:
                own[use.operand] = replace(use.view, buffer=names[writes % 2])
        was_read |= len(mine) > len(written)
        stages[stage.name] = replace(stage, buffers=own)
    return pipeline.with_stages(stages)


def _require_not_updated(stage: Stage, buffer: str, written: list[str]) -> None:
    """Raises `DescriptionError` where a tile reads an operand that it writes: the rest would be lost."""
    read = {access.operand for z in range(stage.grid.z) for access in stage.tiled.reads(0, 0, z)}
    for operand in written:
        if operand in read:
            raise DescriptionError(
                f"stage {stage.name} updates {operand!r} in place, so that {buffer!r} cannot change places "
                "with a second buffer. Use with_anti_dependencies"
            )
