"""Pipelines: kernels that depend on each other, in launch order.

Picture: GPT-3's MLP is two stages and one dependency; a chain has one more of each, a fork has
two consumers of one producer. How they are synchronised is not said here but in the plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, TileSet
from wavesim.model.kernel import Gemm, Grid, Kernel


@dataclass(frozen=True)
class Stage:
    """A kernel as a part of a pipeline. `stage[x, y]` names its tiles in dependencies."""

    name: str
    work: Kernel | Gemm

    def __getitem__(self, key: tuple[object, object]) -> TileSet:
        return TileSet.of(self, key)

    def __iter__(self) -> None:
        raise TypeError(f"stage {self.name} is not a sequence; list(stage.grid) gives its tiles")

    @cached_property
    def kernel(self) -> Kernel:
        """The launch: grid, block and work per block."""
        return self.work.kernel if isinstance(self.work, Gemm) else self.work

    @property
    def grid(self) -> Grid:
        """The launch's grid."""
        return self.kernel.grid

    @property
    def gemm(self) -> Gemm:
        """The GEMM it computes. Raises `DescriptionError` if it is another kernel."""
        if not isinstance(self.work, Gemm):
            raise DescriptionError(f"stage {self.name} is a {type(self.work).__name__}, not a Gemm")
        return self.work


@dataclass(frozen=True)
class Pipeline:
    """Stages in launch order and the dependencies between them: pairs, chains, forks, joins.

    Raises `DescriptionError` for duplicate names, unknown or later-listed producers (and so for
    cycles), and two dependencies of one consumer.
    """

    name: str
    stages: Sequence[Stage]
    dependencies: Sequence[Dependency] = ()
    parameters: Mapping[str, int | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        object.__setattr__(self, "dependencies", tuple(self.dependencies))
        if not self.stages:
            raise DescriptionError(f"pipeline {self.name} has no stages; give at least one")
        names = [stage.name for stage in self.stages]
        for name in names:
            if names.count(name) > 1:
                raise DescriptionError(
                    f"pipeline {self.name}: two stages are called {name!r}; names must differ"
                )
        for dependency in self.dependencies:
            self._check(dependency, names)
        consumers = [dependency.consumer.stage.name for dependency in self.dependencies]
        for name in consumers:
            if consumers.count(name) > 1:
                raise DescriptionError(
                    f"pipeline {self.name}: {name!r} has two dependencies; put all its needs into one "
                    "Dependency"
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
                    "List producers first; a cycle cannot run"
                )

    def __hash__(self) -> int:
        return hash((self.name, self.stages, self.dependencies))

    def stage(self, name: str) -> Stage:
        """The stage of that name. Raises `DescriptionError`."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise DescriptionError(
            f"pipeline {self.name} has no stage {name!r}; it has {[s.name for s in self.stages]}"
        )

    def dependency_of(self, consumer: str) -> Dependency | None:
        """What a stage needs, or None if it needs nothing."""
        return next((d for d in self.dependencies if d.consumer.stage.name == consumer), None)

    def consumers_of(self, producer: str) -> tuple[str, ...]:
        """Names of the stages that read a stage's tiles."""
        return tuple(d.consumer.stage.name for d in self.dependencies if producer in d.producers)
