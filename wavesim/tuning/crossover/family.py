"""Families: a pair or chain of kernels at any number of rows M, its costs, and the models the command names.

Example: `MlpFamily("MLP", 6144, 12288, (128, 256))` at M = 1,024 is a grid of 24 x 8 tiles and another of
48 x 8. From M = 897 to 1,024 nothing changes but how full the last row of tiles is: that is one cell.
`mlp_of("gpt3-145b", 8)` is GPT-3's MLP on one of eight GPUs: tensor parallelism cuts its width.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Literal

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import Work
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.predict.defaults import described_costs
from wavesim.predict.known_costs import KnownCosts
from wavesim.predict.product_times import costs_from_products
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import whole
from wavesim.safe_io.documents import read_toml
from wavesim.work.gemm import GATED, Activation, Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim.workloads.hopper import BLOCKS, TILE_K
from wavesim.workloads.mlps import gemm_block
from wavesim.workloads.models import model_named

Tile = tuple[int, int]
Dtype = Literal["fp16", "bf16"]
PORTABLE_TILE_K = 32
MOST_ROWS = 2**20


class KernelFamily(ABC):
    """The same kernels at every number of rows M."""

    name: str

    @property
    @abstractmethod
    def heights(self) -> tuple[int, ...]:
        """Rows of the stages' tiles, each once."""

    @abstractmethod
    def pipeline(self, m: int) -> Pipeline:
        """The kernels at M = m."""

    @property
    def timed(self) -> tuple[Pipeline, Mapping[str, int]] | None:
        """The size at which the kernels were described, and each one's time there in ns; None for others."""
        return None

    def is_described(self, m: int) -> bool:
        """Whether the kernels at M = m are those that were timed."""
        if self.timed is None:
            return False
        grids = [stage.grid for stage in self.pipeline(m).stages]
        return grids == [stage.grid for stage in self.timed[0].stages]

    def cells(self, m_from: int, m_to: int) -> list[tuple[int, int]]:
        """The ranges (first M, last M) from m_from to m_to in which no stage's grid changes."""
        whole("m", m_from, least=1, most=MOST_ROWS)
        whole("m", m_to, least=m_from, most=MOST_ROWS)
        firsts = {m_from}
        for height in self.heights:
            firsts.update(range((m_from - 1) // height * height + height + 1, m_to + 1, height))
        edges = [*sorted(firsts), m_to + 1]
        return [(first, following - 1) for first, following in pairwise(edges)]


@dataclass(frozen=True)
class MlpFamily(KernelFamily):
    """(M, hidden) x (hidden, columns) -> activation -> x (columns, hidden), both in tiles (tile_m, tile_n).

    With a gated activation `columns` are gates and values, and half of them go on. `backend` is the kernels'
    name; kernels that have none are blocks as `gemm_block` guesses them.
    """

    name: str
    columns: int
    hidden: int
    tile: Tile
    activation: Activation | None = None
    dtype: Dtype = "fp16"
    backend: str = ""

    def __post_init__(self) -> None:
        if self.backend and self.tile not in BLOCKS:
            known = ", ".join(f"{m}x{n}" for m, n in BLOCKS)
            raise DescriptionError(
                f"tile is {self.tile[0]}x{self.tile[1]}; described of backend {self.backend!r} are {known}"
            )
        self.pipeline(1)  # raises for what cannot be, before anything is simulated

    @property
    def heights(self) -> tuple[int, ...]:
        return (self.tile[0],)

    def pipeline(self, m: int) -> Pipeline:
        inner = self.columns // 2 if self.activation in GATED else self.columns
        first = self._stage("gemm1", m, self.columns, self.hidden, self.activation)
        second = self._stage("gemm2", m, self.hidden, inner, None)
        parameters: dict[str, int | str] = {"tokens": m, "tile": f"{self.tile[0]}x{self.tile[1]}"}
        return Pipeline(self.name, [first, second], [gemm_rows(first, second)], parameters)

    def _stage(self, name: str, m: int, n: int, k: int, activation: Activation | None) -> Stage:
        block = BLOCKS[self.tile] if self.backend else gemm_block(self.tile)
        depth = TILE_K if self.backend else PORTABLE_TILE_K
        work = Gemm(
            name,
            m,
            n,
            k,
            *self.tile,
            depth,
            dtype=self.dtype,
            activation=activation,
            block=block,
            carveout="full",
        )
        return Stage(name, work, self.backend)


@dataclass(frozen=True)
class DescribedFamily(KernelFamily):
    """A user's own kernels, described at one size; other sizes have more or fewer rows of the same tiles.

    `tile_rows` is the height of the tiles of stages that do not say it. A tile is taken to cost the same at
    every M, what it costs at the described one.
    """

    name: str
    described: Pipeline
    kernel_ns: Mapping[str, int] = field(hash=False)
    tile_rows: int | None = None

    def __post_init__(self) -> None:
        if self.tile_rows is not None:
            whole("tile-rows", self.tile_rows, least=1, most=MOST_ROWS)
        assert self.heights

    @cached_property
    def heights(self) -> tuple[int, ...]:
        """Rows of the stages' tiles, each once."""
        return tuple(dict.fromkeys(self._height(stage) for stage in self.described.stages))

    def pipeline(self, m: int) -> Pipeline:
        alike = {stage.name: replace(stage, tile_weights=()) for stage in self.described.stages}
        works = {stage.name: self._work(stage, m) for stage in self.described.stages}
        return self.described.with_stages(alike).with_works(works)

    @property
    def timed(self) -> tuple[Pipeline, Mapping[str, int]]:
        return self.described, self.kernel_ns

    def _height(self, stage: Stage) -> int:
        if stage.work.output_tile is not None:
            return stage.work.output_tile[0]
        if self.tile_rows is None:
            raise DescriptionError(
                f"{self.described.name}: stage {stage.name!r} does not say how many rows its tiles have; "
                "give --tile-rows, such as 128"
            )
        return self.tile_rows

    def _work(self, stage: Stage, m: int) -> Work:
        return stage.work.with_m(m, self._height(stage))


def family_costs(family: KernelFamily, m: int, device: Device) -> KnownCosts:
    """The costs at M = m. Raises `DescriptionError` for kernels of which neither time nor work is known."""
    if family.timed is None:
        return costs_from_products(family.pipeline(m), device)
    pipeline, kernel_ns = family.timed
    known = _described_costs(pipeline, device, tuple(kernel_ns.items()))
    note = "tile_ns: those of the described size, at every M"
    return replace(known, model=_of_any_grid(known.model), defaults=(*known.defaults, note))


def _of_any_grid(model: CostModel) -> CostModel:
    means = {
        stage: times if isinstance(times, int) else round(mean(times))
        for stage, times in model.tile_ns.items()
    }
    return replace(model, tile_ns=means)


@lru_cache(maxsize=8)
def _described_costs(
    pipeline: Pipeline, device: Device, kernel_ns: tuple[tuple[str, int], ...]
) -> KnownCosts:
    return described_costs(pipeline, device, dict(kernel_ns))


KERNELS = Path(__file__).with_name("kernels.toml")


@typed
def mlp_of(name: str, tp: int, tile: Tile, backend: str = "") -> MlpFamily:
    """A model's MLP on one of `tp` GPUs, in tiles of (tile_m, tile_n). Raises `DescriptionError`."""
    model = model_named(name)
    share = model.share(tp)
    columns = 2 * share if model.activation in GATED else share
    title = f"{name} MLP" + (f", 1 of {tp} GPUs" if tp > 1 else "")
    return MlpFamily(title, columns, model.hidden, tile, model.activation, model.dtype, backend)


def backend_of(device: Device) -> str:
    """The backend whose kernels were timed on GPUs like this one; "" where there is none."""
    kernels = read_toml(KERNELS).items()
    return next(
        (
            name
            for name, kernel in kernels
            if tuple(kernel["compute_capability"]) == device.compute_capability
        ),
        "",
    )
