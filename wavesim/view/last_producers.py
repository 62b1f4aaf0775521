"""For each consumer block of a trace, the block that it could not have gone on without: the last it reads.

Example: tile (5, 2) of the second GEMM reads row 2 of the first; of its 24 tiles (23, 2) ended last.
"""

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.trace.trace import Trace
from wavesim.workloads.catalogue import parse_tile, workload

Tile = tuple[int, int, int]  # stage, x, y


def find_last_producers(trace: Trace, pipeline: Pipeline | None = None) -> dict[int, int]:
    """{consumer block: producer block}; of a split-K tile the slice that ended last.

    Without a pipeline that of the trace's catalogued workload; empty if it has none. Raises
    `DescriptionError` for a pipeline of other grids than the trace's.
    """
    if pipeline is None:
        pipeline = _catalogued(trace)
    elif not _fits(trace, pipeline):
        raise DescriptionError(
            f"pipeline {pipeline.name} has other stages or grids than the trace of {trace.header.workload}"
        )
    if pipeline is None:
        return {}
    names = [stage.name for stage in pipeline.stages]
    columns = (trace.stage, trace.x, trace.y)
    tiles: list[Tile] = list(zip(*(column.tolist() for column in columns), strict=True))
    ends = trace.end_ns.tolist()
    last: dict[Tile, int] = {}
    for block, tile in enumerate(tiles):
        if tile not in last or ends[block] > ends[last[tile]]:
            last[tile] = block
    found = {}
    for block, (stage, x, y) in enumerate(tiles):
        dependency = pipeline.dependency_of(names[stage])
        if dependency is not None:
            reads = [last[names.index(name), *tile] for name, tile in dependency.producer_tiles(x, y)]
            found[block] = max(reads, key=ends.__getitem__)
    return found


def _catalogued(trace: Trace) -> Pipeline | None:
    """The workload that the trace's header names, if it is catalogued and has the trace's grids."""
    settings = trace.header.parameters
    try:
        tokens = int(settings["tokens"]) if "tokens" in settings else None
        tile = parse_tile(str(settings["tile"])) if "tile" in settings else None
        pipeline = workload(trace.header.workload, tokens, tile)
    except (DescriptionError, ValueError):
        return None
    return pipeline if _fits(trace, pipeline) else None


def _fits(trace: Trace, pipeline: Pipeline) -> bool:
    ours = [(stage.name, (stage.grid.x, stage.grid.y, stage.grid.z)) for stage in pipeline.stages]
    return ours == [(info.name, tuple(info.grid)) for info in trace.header.stages]
