"""Tiles that depend on each other, directly or through others: what one cluster would have to compute.

Example: in an MLP every tile of a row of the second GEMM reads that whole row of the first. A row of both is
a group: 24 + 48 tiles, and as many groups as rows. Shared memory is reached within a cluster only, so a
semaphore there asks for whole groups in one cluster.
"""

from wavesim.model.pipeline import Pipeline

Tile = tuple[str, int, int]


def groups_of(pipeline: Pipeline) -> list[frozenset[Tile]]:
    """The groups, each of (stage, x, y), in order of their first tiles. Splits of K belong to their tile."""
    group: dict[Tile, set[Tile]] = {}
    for stage in pipeline.stages:
        for y in range(stage.grid.y):
            for x in range(stage.grid.x):
                group[stage.name, x, y] = {(stage.name, x, y)}
    for dependency in pipeline.dependencies:
        stage = dependency.consumer.stage
        for y in range(stage.grid.y):
            for x in range(stage.grid.x):
                for producer, tile in dependency.producer_tiles(x, y):
                    _join(group, (stage.name, x, y), (producer, *tile))
    return list(dict.fromkeys(frozenset(members) for members in group.values()))


def _join(group: dict[Tile, set[Tile]], first: Tile, second: Tile) -> None:
    less, more = sorted((group[first], group[second]), key=len)
    if less is more:
        return
    more |= less
    for tile in less:
        group[tile] = more
