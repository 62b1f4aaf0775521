"""Two matrix products in Triton, or one and a GELU, on one stream or with a semaphore per tile row, recorded.

Example: the kernel of Triton's own tutorial, with the recorder's lines, and for tile-level synchronisation a
wait before its loop and a post after its stores. `is_waiting` and `is_posting` take those out again.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import triton
import triton.language as tl

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.gemm import Gemm
from wavesim_gpu.record.triton_recorder import begin, begin_wait, end, end_wait

GELU_WARPS = 4
PATIENCE = 1 << 20  # looks at a semaphore, a third of a second: then a tile gives up, so that nothing hangs


@triton.jit
def wait(semaphore, awaited, patience, recording, number):
    """Until a semaphore has reached a value. Every look acquires.

    The result of each acquiring operation is used, by the loop's condition: one whose result is dropped is
    deleted, as it is lowered to a load that counts as read-only, and no acquire reaches the machine code.
    """
    begin_wait(recording, number)
    looks = 0
    # Acquire: what the producer stored before its release is seen by the loads that follow.
    while (tl.atomic_add(semaphore, 0, sem="acquire", scope="gpu") < awaited) & (looks < patience):
        looks += 1
    end_wait(recording, number)


@triton.jit
def wait_for_start(semaphores, patience):
    """One program ahead of the consumer: its tiles are issued once the producer has started, so after its."""
    looks = 0
    while (tl.load(semaphores, volatile=True) < 1) & (looks < patience):
        looks += 1


@triton.jit
def matmul(  # noqa: PLR0913, PLR0917  # a kernel takes what it takes
    a_ptr, b_ptr, c_ptr, semaphores, recording,
    m, n, k, stage, awaited, patience,
    is_waiting: tl.constexpr, is_posting: tl.constexpr,
    tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr,
):  # fmt: skip
    """C (m, n) = A (m, k) B (k, n), fp16, row-major; one program per tile, in row-major order."""
    number = begin(recording)
    columns = tl.cdiv(n, tile_n)
    tile_y, tile_x = tl.program_id(0) // columns, tl.program_id(0) % columns
    if is_posting:
        tl.atomic_add(semaphores, 1, mask=tl.program_id(0) == 0)  # this stage has started
    if is_waiting:
        wait(semaphores + 1 + tile_y, awaited, patience, recording, number)
    rows = tile_y * tile_m + tl.arange(0, tile_m)
    across = tile_x * tile_n + tl.arange(0, tile_n)
    depth = tl.arange(0, tile_k)
    a = a_ptr + (rows % m)[:, None] * k + depth[None, :]
    b = b_ptr + depth[:, None] * n + (across % n)[None, :]
    total = tl.zeros((tile_m, tile_n), dtype=tl.float32)
    for _ in range(0, k, tile_k):
        total = tl.dot(tl.load(a), tl.load(b), total)
        a += tile_k
        b += tile_k * n
    c = c_ptr + rows[:, None] * n + across[None, :]
    tl.store(c, total.to(tl.float16), mask=(rows < m)[:, None] & (across < n)[None, :])
    if is_posting:
        tl.debug_barrier()  # all warps have stored
        tl.atomic_add(semaphores + 1 + tile_y, 1, sem="release")
    end(recording, number, stage, tile_x, tile_y)


@triton.jit
def gelu(  # noqa: PLR0913, PLR0917  # a kernel takes what it takes
    c_ptr, out_ptr, semaphores, recording, n, stage, awaited, patience, rows_per_semaphore,
    is_waiting: tl.constexpr, tile_m: tl.constexpr, tile_n: tl.constexpr,
):  # fmt: skip
    """GELU of c (m, n) into out, fp16; one program per tile, row-major; sizes are multiples of the tile's."""
    number = begin(recording)
    columns = n // tile_n
    tile_y, tile_x = tl.program_id(0) // columns, tl.program_id(0) % columns
    if is_waiting:
        wait(semaphores + 1 + tile_y * tile_m // rows_per_semaphore, awaited, patience, recording, number)
    rows = tile_y * tile_m + tl.arange(0, tile_m)
    places = rows[:, None].to(tl.int64) * n + (tile_x * tile_n + tl.arange(0, tile_n))[None, :]
    value = tl.load(c_ptr + places).to(tl.float32)
    inner = 0.7978845608028654 * (value + 0.044715 * value * value * value)
    # tanh(u) = 2 sigmoid(2 u) - 1
    tl.store(out_ptr + places, (value * tl.sigmoid(2 * inner)).to(tl.float16))
    end(recording, number, stage, tile_x, tile_y)


@dataclass(frozen=True)
class TritonPair:
    """Sizes of y (m, n2) = (x (m, k) w1 (k, n1)) w2 (n1, n2) and of the tiles. Without n2, y = GELU(x w1)."""

    m: int
    k: int
    n1: int
    n2: int | None
    tile: tuple[int, int, int] = (128, 256, 64)
    warps: int = 8
    stages: int = 3
    gelu_tile: tuple[int, int] = (32, 256)

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pair as wavesim describes it: a tile of the second reads a whole tile row of the first."""
        tile_m, tile_n, tile_k = self.tile
        first = Stage("matmul1", Gemm("matmul1", self.m, self.n1, self.k, tile_m, tile_n, tile_k))
        if self.n2 is None:
            rows, columns = self.gelu_tile
            grid = Grid(self.n1 // columns, self.m // rows)
            last = Stage("gelu", Kernel("gelu", grid, Block(threads=32 * GELU_WARPS)))
            return Pipeline(
                "triton-gelu", [first, last], [Dependency(last[x, y], [first[:, y * rows // tile_m]])]
            )
        second = Stage("matmul2", Gemm("matmul2", self.m, self.n2, self.n1, tile_m, tile_n, tile_k))
        return Pipeline("triton-pair", [first, second], [Dependency(second[x, y], [first[:, y]])])

    @property
    def tiles(self) -> int:
        """Tiles of both stages: a recording's capacity."""
        return sum(stage.grid.size for stage in self.pipeline.stages)

    def operands(self, seed: int = 0) -> tuple[Any, ...]:
        """x, w1, w2, the intermediate and y, on the GPU; outputs are NaN."""
        generator = torch.Generator("cuda").manual_seed(seed)
        shapes = ((self.m, self.k), (self.k, self.n1), (self.n1, self.n2 or 1))
        given = [
            torch.randn(shape, device="cuda", generator=generator, dtype=torch.float16) * shape[0] ** -0.5
            if number
            else torch.randn(shape, device="cuda", generator=generator, dtype=torch.float16)
            for number, shape in enumerate(shapes)
        ]
        made = [
            torch.full((self.m, n), torch.nan, device="cuda", dtype=torch.float16)
            for n in (self.n1, self.n2 or self.n1)
        ]
        return (*given, *made)

    def launch(self, operands: tuple[Any, ...], stage: int, recording: Any, semaphores: Any = None) -> Any:
        """Launches one on torch's current stream; with `semaphores` the first posts and the second waits.

        Returns Triton's compiled kernel.
        """
        source, w1, w2, middle, out = operands
        if stage == 1 and self.n2 is None:
            return self._launch_gelu(middle, out, recording, semaphores)
        a, b, c = ((source, w1, middle), (middle, w2, out))[stage]
        first = self.pipeline.stages[0].grid
        grid = self.pipeline.stages[stage].grid
        is_synchronised = semaphores is not None
        tile_m, tile_n, tile_k = self.tile
        return matmul[(grid.size,)](
            a, b, c, semaphores, recording, self.m, b.shape[1], b.shape[0], stage, first.x, PATIENCE,
            is_synchronised and stage == 1, is_synchronised and stage == 0,
            tile_m, tile_n, tile_k, num_warps=self.warps, num_stages=self.stages,
        )  # fmt: skip

    def _launch_gelu(self, middle: Any, out: Any, recording: Any, semaphores: Any) -> Any:
        first, last = (stage.grid for stage in self.pipeline.stages)
        return gelu[(last.size,)](
            middle, out, semaphores, recording, self.n1, 1, first.x, PATIENCE, self.tile[0],
            semaphores is not None, *self.gelu_tile, num_warps=GELU_WARPS,
        )  # fmt: skip

    def run_stream(self, operands: tuple[Any, ...], recording: Any = None) -> None:
        """Both on torch's current stream."""
        for stage in range(2):
            self.launch(operands, stage, recording)

    def run_synchronised(
        self, operands: tuple[Any, ...], streams: Any, semaphores: Any, recording: Any = None
    ) -> None:
        """The second beside the first, on two streams that start and end with torch's current one.

        `semaphores` are int32 words: one that says that the first has started, then one per tile row.
        """
        current = torch.cuda.current_stream()
        semaphores.zero_()
        for stage, stream in enumerate(streams):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                if stage == 1:
                    wait_for_start[(1,)](semaphores, PATIENCE, num_warps=1)
                self.launch(operands, stage, recording, semaphores)
        for stream in streams:
            current.wait_stream(stream)
