"""A pair of Triton matrix products, hidden = x w1 and y = hidden w2, plain or under any plan, in CUDA graphs.

Example: `MatmulPair(1536, 8192, 4096, 6144)` launched plainly, in groups of eight tile rows as in Triton's
tutorial, and again with `Synchronised`: both give the same bits, and `interleaved_us` times them in turns.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

import torch
import triton
import triton.language as tl

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan
from wavesim.work.gemm import Gemm
from wavesim_gpu.triton import Synchronised

STAGES = ("up", "down")
WARPS, DEPTH = 8, 3
WARM_UP_S = 0.15  # the clock settles within tens of milliseconds of load
RUNS_PER_GRAPH = 4  # so that starting a graph is a small part of what is timed
TOLERANCE = 2e-3
Operands = tuple[torch.Tensor, ...]


@triton.jit
def matmul(  # noqa: PLR0913, PLR0917  # a kernel takes what it takes
    a_ptr, b_ptr, c_ptr, sync, m, n, k,
    tile: tl.constexpr, wait: tl.constexpr, post: tl.constexpr, group: tl.constexpr,
    tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr,
):  # fmt: skip
    """C (m, n) = A (m, k) B (k, n), one program per tile; k is a multiple of tile_k.

    `tile`, `wait` and `post` are a plan's functions, or None: then tiles go in groups of `group` tile rows.
    """
    if tile is None:
        tiles_per_group = group * tl.cdiv(n, tile_n)
        first = tl.program_id(0) // tiles_per_group * group
        height = tl.minimum(tl.cdiv(m, tile_m) - first, group)
        y = first + tl.program_id(0) % tiles_per_group % height
        x = tl.program_id(0) % tiles_per_group // height
    else:
        x, y = tile(sync)
    rows, columns = y * tile_m + tl.arange(0, tile_m), x * tile_n + tl.arange(0, tile_n)
    depth = tl.arange(0, tile_k)
    a = a_ptr + (rows % m)[:, None] * k + depth[None, :]
    b = b_ptr + depth[:, None] * n + (columns % n)[None, :]
    total = tl.zeros((tile_m, tile_n), dtype=tl.float32)
    late = -0.0
    if wait is not None:
        late = wait(sync, x, y)
    for i in range(0, k, tile_k):
        total = tl.dot(tl.load(a + i), tl.load(b + i * n), total)
    c = c_ptr + rows[:, None] * n + columns[None, :]
    tl.store(c, (total + late).to(tl.float16), mask=(rows < m)[:, None] & (columns < n)[None, :])
    if post is not None:
        post(sync, x, y)


@dataclass(frozen=True)
class MatmulPair:
    """y (m, n2) = (x (m, k) w1 (k, n1)) w2 (n1, n2), fp16; k and n1 are multiples of the tile's 64."""

    m: int
    k: int
    n1: int
    n2: int
    tile: tuple[int, int, int] = (128, 256, 64)

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pair as wavesim describes it: a tile of the second reads a whole tile row of the first."""
        return self.described({})

    def described(self, blocks: Mapping[str, Block]) -> Pipeline:
        """The same, with what the blocks of compiled kernels occupy."""
        gemms = (
            Gemm("up", self.m, self.n1, self.k, *self.tile),
            Gemm("down", self.m, self.n2, self.n1, *self.tile),
        )
        up, down = (
            Stage(gemm.name, replace(gemm, block=blocks[gemm.name]) if gemm.name in blocks else gemm)
            for gemm in gemms
        )
        return Pipeline("triton-pair", [up, down], [Dependency(down[x, y], [up[:, y]])])

    def operands(self, seed: int = 0) -> Operands:
        """x, w1, w2, hidden and y on the GPU; the last two are NaN."""
        generator = torch.Generator("cuda").manual_seed(seed)

        def random(rows: int, columns: int) -> torch.Tensor:
            return torch.randn((rows, columns), device="cuda", generator=generator, dtype=torch.float16)

        given = (random(self.m, self.k), random(self.k, self.n1), random(self.n1, self.n2))
        given[1].mul_(self.k**-0.5)
        given[2].mul_(self.n1**-0.5)
        made = (
            torch.full((self.m, n), torch.nan, device="cuda", dtype=torch.float16) for n in (self.n1, self.n2)
        )
        return (*given, *made)

    def launch(self, number: int, operands: Operands, group: int, **options: Any) -> Any:
        """Launches one kernel plainly, in groups of so many tile rows. Returns Triton's compiled kernel."""
        return self._launch(number, operands, None, (None, None, None, group), options)

    def run_plain(self, operands: Operands, group: int) -> None:
        """Both, one after the other."""
        for number in range(len(STAGES)):
            self.launch(number, operands, group)

    def synchronised(self, plan: Plan, operands: Operands) -> Callable[[], Synchronised]:
        """What runs the pair under a plan; it was run once, and checked."""
        made = Synchronised(self.pipeline, plan)
        functions = [
            tuple(getattr(made.functions, f"{stage}_{what}", None) for what in ("tile", "wait", "post"))
            for stage in STAGES
        ]
        launches = [
            lambda sync, number=number, **how: self._launch(
                number, operands, sync, (*functions[number], 1), how
            )
            for number in range(len(STAGES))
        ]

        def run() -> Synchronised:
            made.run(*launches)
            return made

        run().check()
        return run

    def _launch(
        self, number: int, operands: Operands, sync: Any, how: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        source, w1, w2, hidden, out = operands
        a, b, c = ((source, w1, hidden), (hidden, w2, out))[number]
        return matmul[(self.pipeline.stages[number].grid.size,)](
            a, b, c, c if sync is None else sync, self.m, b.shape[1], b.shape[0], *how, *self.tile,
            num_warps=WARPS, num_stages=DEPTH, **options,
        )  # fmt: skip

    def require_right(self, operands: Operands) -> None:
        """Raises `ArithmeticError` unless hidden and y are the products, to fp16's rounding."""
        source, w1, w2, hidden, out = operands
        for got, a, b in ((hidden, source, w1), (out, hidden, w2)):
            want = a.float() @ b.float()
            error = float((got.float() - want).norm() / want.norm())
            if not error < TOLERANCE:
                raise ArithmeticError(f"{self}: relative error {error}")


def graph_of(run: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """Some runs in one CUDA graph. They ran before: what they compile and check is over."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(RUNS_PER_GRAPH):
            run()
    return graph


def interleaved_us(graphs: Mapping[str, torch.cuda.CUDAGraph], rounds: int) -> dict[str, list[float]]:
    """Microseconds per run of each graph, in turns; the order turns about from round to round."""
    began = time.monotonic()
    while time.monotonic() - began < WARM_UP_S:
        for graph in graphs.values():
            graph.replay()
        torch.cuda.synchronize()
    marks: dict[str, list[tuple[Any, Any]]] = {name: [] for name in graphs}
    for number in range(rounds):
        for name in list(graphs)[:: 1 if number % 2 else -1]:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graphs[name].replay()
            end.record()
            marks[name].append((start, end))
    torch.cuda.synchronize()
    return {
        name: [1e3 * start.elapsed_time(end) / RUNS_PER_GRAPH for start, end in own]
        for name, own in marks.items()
    }


def block_of(kernel: Any) -> Block:
    """What a block of a compiled kernel occupies."""
    return Block(32 * kernel.metadata.num_warps, kernel.n_regs, 0, kernel.metadata.shared)


def medians_us(rounds: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each."""
    return {name: median(times) for name, times in rounds.items()}
