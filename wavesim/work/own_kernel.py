"""A user's own kernel as a stage: its launch, its operands, and what its tiles read and write, in full.

Example: a kernel that adds up the rows of a product is `OwnKernel("sums", Kernel(...), operands={"x":
Matrix(...), "out": Matrix(..., is_written=True)}, tile_reads=..., tile_writes=..., source=Path("sums.cu"),
expression="sums", reference=...)`. A simulation needs no source and no reference; a GPU needs both.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Kernel, TiledWork, require_positive
from wavesim.model.regions import Matrix, Read, Write

TileReads = Callable[[int, int, int], Iterable[Read]]
TileWrites = Callable[[int, int], Iterable[Write]]
Reference = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class OwnKernel(TiledWork):
    """`launch` says grid, block and cost; `tile_reads(x, y, z)` and `tile_writes(x, y)` what a tile touches,
    when.

    `work_items`: how many work items each block does; `Read.at` is below it. On the GPU `source` is the file
    and `expression` its extern "C" kernel or template instance, whose parameters are
    `cusync::StageParams<generated::stage>` and a struct with an address and a row stride in elements (8 bytes
    each) of every operand, in their order. It waits through `cusync/tile_stage.cuh`. `is_launched_early`: it
    calls `launch_dependents` and, where it has no semaphores, `wait_for_previous_grid`. `reference` makes all
    written operands, float32, of all operands as float32 arrays.
    """

    word = "own"

    name: str
    launch: Kernel
    operands: Mapping[str, Matrix] = field(hash=False)
    tile_reads: TileReads = field(repr=False)
    tile_writes: TileWrites = field(repr=False)
    work_items: int = 1
    source: Path | None = None
    expression: str = ""
    reference: Reference | None = field(default=None, repr=False)
    is_launched_early: bool = False

    def __post_init__(self) -> None:
        require_positive(f"OwnKernel {self.name}", work_items=self.work_items)
        for name, matrix in self.operands.items():
            if not isinstance(matrix, Matrix):
                raise DescriptionError(
                    f"OwnKernel {self.name}: operand {name!r} is {matrix!r}; give a Matrix(rows, columns)"
                )
        if not any(matrix.is_written for matrix in self.operands.values()):
            raise DescriptionError(
                f"OwnKernel {self.name}: it writes none of its operands; give one is_written=True"
            )

    @property
    def kernel(self) -> Kernel:
        """The launch."""
        return self.launch

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        """What the block of tile (x, y) and split z reads."""
        return self.tile_reads(x, y, z)

    def writes(self, x: int, y: int) -> Iterable[Write]:
        """What is written by the time the tile is posted."""
        return self.tile_writes(x, y)

    def items(self, x: int, y: int, z: int) -> int:
        """As many for every block."""
        return self.work_items
