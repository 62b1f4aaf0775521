"""Collectives as stages made of tiles: all-reduce, reduce-scatter and all-gather over the GPUs of one host.

Example: after `gemm` on two GPUs a two-shot all-reduce is a stage `gemm.reduce@0` and one `gemm.reduce@1`.
Each owns every second tile column: it adds what both made of a tile as soon as that is there, and stores the
sum on both. One-shot, every GPU gets every tile of all others and adds all of them itself: more bytes, one
step less.

Additions are in fp32 in the order of the ranks, rounded once: the same bits on every rank and in every run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, Index, as_index, x, y
from wavesim.model.kernel import Block, Grid, Kernel, Work
from wavesim.model.pipeline import Pipeline, require_few_blocks
from wavesim.model.stage import MOST_DEVICES, Axis, Stage, TileSet
from wavesim.safe_io.bounds import shown

Kind = Literal["all-reduce", "reduce-scatter", "all-gather"]
Shots = Literal["two-shot", "one-shot"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SHOTS: tuple[Shots, ...] = get_args(Shots)
ADDITIONS = "in fp32, in the order of the ranks, rounded once: the same bits on every rank and in every run"
ELEMENT_BYTES = 2
# As many threads as store 20 GB/s to a peer from one SM.
TILE_BLOCK = Block(threads=512, registers=64)
# Where they add, two share an SM, so that one loads while the other's stores travel: simulated as one block.
ADDING_BLOCK = Block(threads=1024, registers=64)


@dataclass(frozen=True)
class Collective:
    """What becomes of a stage's tiles over all ranks. Raises `DescriptionError` for other words.

    `shots` matters to an all-reduce alone.
    """

    kind: Kind = "all-reduce"
    shots: Shots = "two-shot"

    def __post_init__(self) -> None:
        for name, known in (("kind", KINDS), ("shots", SHOTS)):
            if getattr(self, name) not in known:
                raise DescriptionError(
                    f"Collective: {name} is {shown(getattr(self, name))}; known are {', '.join(known)}"
                )


@dataclass(frozen=True)
class SharedTiles(Work):
    """The work of a collective's stage on one rank: per tile, read `inputs` copies, add them, store the sum.

    `stores_to`: the other ranks that get every tile whoever reads it there. `tile_bytes`: of one tile.
    """

    word = "collective"

    name: str
    grid: Grid
    tile_bytes: int
    inputs: int
    stores_to: tuple[int, ...] = ()

    @property
    def bytes_of_tile(self) -> int:
        """As given."""
        return self.tile_bytes

    @property
    def shared_inputs(self) -> int:
        """Copies of a tile that it adds up."""
        return self.inputs

    @property
    def shared_with(self) -> tuple[int, ...]:
        """The other GPUs that get every tile."""
        return self.stores_to

    @property
    def block(self) -> Block:
        """What runs on an SM at a time."""
        return ADDING_BLOCK if self.inputs > 1 else TILE_BLOCK

    @property
    def kernel(self) -> Kernel:
        """The launch, bound by what it reads and writes of its own GPU's memory."""
        moved = (self.inputs + 1) * self.tile_bytes
        return Kernel(self.name, self.grid, self.block, bytes_per_block=moved, carveout="full")


def tile_bytes_of(stage: Stage) -> int:
    """What a tile of a stage holds in bytes. Raises `DescriptionError` where its work does not say."""
    size = stage.work.bytes_of_tile
    if size is None:
        raise DescriptionError(
            f"stage {stage.name} is a {type(stage.work).__name__}, which does not say how many bytes its "
            "tiles hold, and a link has to carry them; describe it as a Gemm, a Norm or SharedTiles"
        )
    return size


def across(pipeline: Pipeline, ranks: int, collectives: Mapping[str, Collective]) -> Pipeline:
    """The pipeline of one rank on all of them, each on a device of its own, with collectives after its
    stages.

    An all-gather comes before its stage: every rank has the same share of A's rows, and a GEMM of its own for
    the rows of each. Stages are called "NAME@RANK". Raises `DescriptionError`.
    """
    _require_ranks(pipeline, ranks, collectives)
    made = _Ranks(pipeline, ranks, collectives)
    for stage in pipeline.stages:
        made.add(stage)
    name = f"{pipeline.name} on {ranks} GPUs"
    return Pipeline(name, made.stages, made.dependencies, {**pipeline.parameters, "ranks": ranks})


def _require_ranks(pipeline: Pipeline, ranks: int, collectives: Mapping[str, Collective]) -> None:
    if type(ranks) is not int or not 2 <= ranks <= MOST_DEVICES:
        raise DescriptionError(
            f"pipeline {pipeline.name}: ranks is {shown(ranks)}; GPUs that compute together are 2 to "
            f"{MOST_DEVICES}. "
            "On one GPU leave the collectives out"
        )
    blocks = ranks * sum(stage.grid.size for stage in pipeline.stages)
    require_few_blocks(f"{pipeline.name} on {ranks} GPUs", blocks)  # before their reads are enumerated
    for name in collectives:
        pipeline.stage(name)


class _Ranks:
    """Stages and dependencies of all ranks, as they are built up."""

    def __init__(self, pipeline: Pipeline, ranks: int, collectives: Mapping[str, Collective]) -> None:
        self._pipeline, self._ranks, self._collectives = pipeline, ranks, collectives
        self.stages: list[Stage] = []
        self.dependencies: list[Dependency] = []
        # By stage, then rank: where its tiles lie. Several stages hold whole rows together.
        self._made: dict[str, list[list[Stage]]] = {}

    def add(self, stage: Stage) -> None:
        """A stage of one rank, with the collective that belongs to it."""
        collective = self._collectives.get(stage.name)
        if collective is not None and collective.kind == "all-gather":
            self._add_gathered(stage)
            return
        own = [replace(stage, name=f"{stage.name}@{rank}", device=rank) for rank in range(self._ranks)]
        self.stages += own
        dependency = self._pipeline.dependency_of(stage.name)
        for rank, entry in enumerate(own if dependency is not None else ()):
            assert dependency is not None
            needs = [made for need in dependency.needs for made in self._needs(need, rank)]
            self.dependencies.append(Dependency(entry[x, y], needs))
        self._made[stage.name] = [[item] for item in own]
        if collective is not None:
            self._made[stage.name] = self._sums(stage, own, collective)

    def _needs(self, need: TileSet, rank: int) -> Sequence[TileSet]:
        """A rank's tiles where it has them all, else whole rows of what several stages hold."""
        made = self._made[need.stage.name][rank]
        if len(made) == 1:
            return [replace(need, stage=made[0])]
        return [TileSet(entry, Axis.of(slice(None)), need.rows) for entry in made]

    def _sums(self, stage: Stage, own: list[Stage], collective: Collective) -> list[list[Stage]]:
        """The stages that add; in which of them a rank finds what its consumers read."""
        sums = [self._sum(stage, rank, collective) for rank in range(self._ranks)]
        self.stages += sums
        for rank, entry in enumerate(sums):
            columns, rows = self._owned(stage, rank, collective)
            self.dependencies.append(Dependency(entry[x, y], [made[columns, rows] for made in own]))
        if collective == Collective("all-reduce", "two-shot"):
            return [sums] * self._ranks
        return [[item] for item in sums]

    def _owned(self, stage: Stage, rank: int, collective: Collective) -> tuple[Index, Index]:
        """The tile of `stage` that tile (x, y) of a rank's sums adds."""
        if collective.kind == "reduce-scatter":
            return as_index(x), y + rank * (stage.grid.y // self._ranks)
        return (as_index(x), as_index(y)) if collective.shots == "one-shot" else (self._ranks * x + rank, y)

    def _sum(self, stage: Stage, rank: int, collective: Collective) -> Stage:
        ranks, grid = self._ranks, stage.grid
        stores_to: tuple[int, ...] = ()
        if collective.kind == "reduce-scatter":
            if grid.y % ranks:
                raise DescriptionError(
                    f"reduce-scatter of {stage.name}: its grid {grid} has {grid.y} tile rows, which "
                    f"{ranks} ranks "
                    f"cannot have in equal shares; pad the rows to a multiple of {ranks} tiles"
                )
            grid = Grid(grid.x, grid.y // ranks)
        elif collective.shots == "two-shot":
            if grid.x < ranks:
                raise DescriptionError(
                    f"all-reduce of {stage.name}: its grid {grid} has {grid.x} tile columns for {ranks} "
                    "ranks, and "
                    "each owns at least one; use narrower tiles or shots one-shot"
                )
            grid = Grid(-(-(grid.x - rank) // ranks), grid.y)
            stores_to = tuple(other for other in range(ranks) if other != rank)
        name = f"{stage.name}.sum@{rank}"
        return Stage(name, SharedTiles(name, grid, tile_bytes_of(stage), ranks, stores_to), device=rank)

    def _add_gathered(self, stage: Stage) -> None:
        """A's rows on every rank, stored to all others, and a GEMM for each rank's rows, its own first."""
        gemm, ranks = stage.gemm, self._ranks
        if self._pipeline.dependency_of(stage.name) is not None:
            raise DescriptionError(
                f"all-gather before {stage.name}: it reads another stage's tiles; let it be the first of "
                "the pipeline"
            )
        if gemm.m % (ranks * gemm.tile_m):
            raise DescriptionError(
                f"all-gather before {stage.name}: m is {gemm.m}; {ranks} ranks have equal shares of whole "
                "tiles of "
                f"{gemm.tile_m} rows. Pad m to a multiple of {ranks * gemm.tile_m}"
            )
        rows = gemm.m // ranks
        shards = [self._shard(stage, rank, rows) for rank in range(ranks)]
        self.stages += shards
        self._made[stage.name] = []
        for rank in range(ranks):
            parts: list[Stage] = []
            for owner in (*range(rank, ranks), *range(rank)):
                name = f"{stage.name}.{owner}@{rank}"
                part = Stage(
                    name, replace(gemm, name=name, m=rows), stage.backend, stage.main_loop, device=rank
                )
                parts.append(part)
                self.dependencies.append(Dependency(part[x, y], [shards[owner][0, y]]))
            self.stages += parts
            self._made[stage.name].append(parts)

    def _shard(self, stage: Stage, rank: int, rows: int) -> Stage:
        gemm, name = stage.gemm, f"{stage.name}.rows@{rank}"
        others = tuple(other for other in range(self._ranks) if other != rank)
        row_bytes = ELEMENT_BYTES * gemm.tile_m * gemm.k
        return Stage(name, SharedTiles(name, Grid(1, rows // gemm.tile_m), row_bytes, 1, others), device=rank)
