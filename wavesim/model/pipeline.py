"""Pipelines: kernels that depend on each other, in launch order.

Example: GPT-3's MLP is two stages and one dependency; a chain has one more of each, a fork has
two consumers of one producer. The plan, not the pipeline, says how they are synchronised.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from wavesim.errors import DescriptionError, UnneededStageWarning
from wavesim.html_display import html_of
from wavesim.model.dependency import Dependency, require_few_reads
from wavesim.model.kernel import Work
from wavesim.model.reprs import repr_text
from wavesim.model.stage import Stage
from wavesim.safe_io.annotated import require_types, tuple_of
from wavesim.safe_io.bounds import MOST_BLOCKS, MOST_STAGES


def require_few_blocks(name: str, blocks: int) -> None:
    """Raises `DescriptionError` for more blocks than a pipeline may have."""
    if blocks > MOST_BLOCKS:
        raise DescriptionError(
            f"pipeline {name} has {blocks:,} blocks in all; at most {MOST_BLOCKS:,} are simulated. "
            "Use larger tiles"
        )


@dataclass(frozen=True)
class Pipeline:
    """Stages in launch order and the dependencies between them: pairs, chains, forks, joins.

    Raises `DescriptionError` for duplicate names, unknown or later-listed producers, cycles, two
    dependencies of one consumer, a KV cache that is stored otherwise than it is read (`kv_cache`), and more
    stages, blocks or reads in all than are enumerated (`wavesim.safe_io.bounds`). Warns
    (`UnneededStageWarning`) of a stage that neither reads nor is read in a pipeline that has dependencies.
    """

    name: str
    stages: Sequence[Stage]
    dependencies: Sequence[Dependency] = ()
    parameters: Mapping[str, int | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_types("Pipeline", name=(self.name, str), parameters=(self.parameters, Mapping))
        for name, kind in (("stages", Stage), ("dependencies", Dependency)):
            object.__setattr__(self, name, tuple_of(f"pipeline {self.name}", name, getattr(self, name), kind))
        if not self.stages:
            raise DescriptionError(f"pipeline {self.name} has no stages; give at least one")
        self._require_few()
        names = [stage.name for stage in self.stages]
        for name in names:
            if names.count(name) > 1:
                raise DescriptionError(
                    f"pipeline {self.name}: two stages are called {name!r}; names must differ"
                )
        self._check_cycles()
        for dependency in self.dependencies:
            self._check(dependency, names)
        consumers = [dependency.consumer.stage.name for dependency in self.dependencies]
        for name in consumers:
            if consumers.count(name) > 1:
                raise DescriptionError(
                    f"pipeline {self.name}: {name!r} has two dependencies; put all its needs into one "
                    "Dependency"
                )
        producers = {one.consumer.stage.name: one.producers for one in self.dependencies}
        for stage in self.stages:
            stage.work.require_agrees(stage, self.stages, producers.get(stage.name, ()))
        self._warn_of_unneeded(names)

    def _require_few(self) -> None:
        if len(self.stages) > MOST_STAGES:
            raise DescriptionError(
                f"pipeline {self.name} has {len(self.stages):,} stages; at most {MOST_STAGES} are simulated"
            )
        require_few_blocks(self.name, sum(stage.grid.size for stage in self.stages))
        require_few_reads(f"pipeline {self.name}", sum(dependency.reads for dependency in self.dependencies))

    def _warn_of_unneeded(self, names: list[str]) -> None:
        linked = {tiles.stage.name for d in self.dependencies for tiles in (d.consumer, *d.needs)}
        for name in names:
            if linked and name not in linked:
                warnings.warn(
                    f"pipeline {self.name}: nobody needs the tiles of stage {name!r}, and it needs nobody's",
                    UnneededStageWarning,
                    stacklevel=4,
                )

    def _check_cycles(self) -> None:
        producers = {d.consumer.stage.name: d.producers for d in self.dependencies}
        for name in producers:
            cycle = _cycle_through(name, producers)
            if cycle:
                raise DescriptionError(
                    f"pipeline {self.name}: {' needs '.join(map(repr, cycle))}, a cycle that cannot run; "
                    "remove one of these dependencies"
                )

    def _check(self, dependency: Dependency, names: list[str]) -> None:
        for tiles in (dependency.consumer, *dependency.needs):
            if tiles.stage not in self.stages:
                raise DescriptionError(
                    f"pipeline {self.name}: {dependency} names stage {tiles.stage.name!r}, "
                    f"which is not one of its stages {names}"
                )
        consumer = dependency.consumer.stage.name
        for producer in dependency.producers:
            if names.index(producer) >= names.index(consumer):
                raise DescriptionError(
                    f"pipeline {self.name}: {consumer!r} needs {producer!r}, which is listed after it. "
                    "List producers first"
                )

    def __repr__(self) -> str:
        stages = ", ".join(f"{stage.name} {stage.grid}" for stage in self.stages)
        reads = [f"{d.consumer.stage.name} needs {', '.join(d.producers)}" for d in self.dependencies]
        return repr_text("Pipeline", "; ".join([f"{self.name}: {stages}", *reads]))

    def _repr_html_(self) -> str:
        return html_of(self)

    def __hash__(self) -> int:
        return hash((self.name, self.stages, self.dependencies))

    @property
    def device_count(self) -> int:
        """GPUs that its stages run on: one more than the highest number of a device."""
        return 1 + max(stage.device for stage in self.stages)

    def stage(self, name: str) -> Stage:
        """The stage of that name. Raises `DescriptionError`."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise DescriptionError(
            f"pipeline {self.name} has no stage {name!r}; it has {[s.name for s in self.stages]}"
        )

    def with_works(self, works: Mapping[str, Work]) -> "Pipeline":
        """The same stages and dependencies with other work in the stages that are named."""
        return self.with_stages(
            {stage.name: replace(stage, work=works.get(stage.name, stage.work)) for stage in self.stages}
        )

    def with_stages(self, stages: Mapping[str, Stage]) -> "Pipeline":
        """The same dependencies between stages of the same names, all of which are given."""
        dependencies = [
            replace(
                one,
                consumer=replace(one.consumer, stage=stages[one.consumer.stage.name]),
                needs=[replace(need, stage=stages[need.stage.name]) for need in one.needs],
            )
            for one in self.dependencies
        ]
        return replace(self, stages=[stages[stage.name] for stage in self.stages], dependencies=dependencies)

    def dependency_of(self, consumer: str) -> Dependency | None:
        """What a stage needs, or None if it needs nothing. Raises `DescriptionError` for an unknown stage."""
        found = next((d for d in self.dependencies if d.consumer.stage.name == consumer), None)
        if found is None:
            self.stage(consumer)
        return found

    def consumers_of(self, producer: str) -> tuple[str, ...]:
        """Names of the stages that read a stage's tiles."""
        return tuple(d.consumer.stage.name for d in self.dependencies if producer in d.producers)

    def unread_tiles(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """Per stage that is read at all: its tiles (x, y) that no consumer tile reads.

        Unread tiles are wasted work, or a sign that a dependency leaves out some of what it reads.
        """
        read: dict[str, set[tuple[int, int]]] = {}
        for dependency in self.dependencies:
            for need in dependency.needs:
                tiles = read.setdefault(need.stage.name, set())
                for box in {need.box(*tile) for tile in dependency.consumer.stage.grid}:
                    tiles.update(tile for _, _, tile in need.walk(box))
        unread = {
            name: tuple(t for t in self.stage(name).grid if t not in tiles) for name, tiles in read.items()
        }
        return {name: tiles for name, tiles in unread.items() if tiles}


def _cycle_through(name: str, producers: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The names on a cycle of dependencies from a stage back to itself; empty if there is none."""
    paths, seen = [[name]], {name}
    while paths:
        path = paths.pop()
        for producer in producers.get(path[-1], ()):
            if producer == name:
                return [*path, name]
            if producer not in seen:
                seen.add(producer)
                paths.append([*path, producer])
    return []
