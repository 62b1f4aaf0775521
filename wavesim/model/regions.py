"""What the tiles of a kernel read and write: rectangles of its operands, and when in their work.

Example: tile (2, 3) of a GEMM in tiles of 128 x 256 reads rows 384 to 511 of A, 64 columns before each
k-block, and writes rows 384 to 511, columns 512 to 767 of C. From this follow where a tile waits, whether a
dependency names all that is read, and which tiles must be done before a buffer is written again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import whole

Element = Literal["fp16", "bf16", "fp32", "int32"]
MOST_INDEX = 2**31 - 1
ELEMENT_BYTES: Mapping[str, int] = {"fp16": 2, "bf16": 2, "fp32": 4, "int32": 4}


class Region(NamedTuple):
    """Rows `top` up to `bottom` and columns `left` up to `right` of a matrix; half-open."""

    top: int
    bottom: int
    left: int
    right: int

    def meets(self, other: "Region") -> bool:
        """Whether they share an element."""
        return (
            self.top < other.bottom
            and other.top < self.bottom
            and self.left < other.right
            and other.left < self.right
        )

    def moved(self, rows: int, columns: int) -> "Region":
        """The same rectangle so many rows further down and columns to the right."""
        return Region(self.top + rows, self.bottom + rows, self.left + columns, self.right + columns)


class Read(NamedTuple):
    """A tile reads a region of an operand before its work item `at`, counted as the kernel walks its loop."""

    operand: str
    region: Region
    at: int = 0


class Write(NamedTuple):
    """A tile writes a region of an operand, after all its work items."""

    operand: str
    region: Region


@dataclass(frozen=True)
class Matrix:
    """A matrix that a kernel reads or writes, row-major; `rows` by `columns` of it are touched.

    `scale` is the standard deviation of random data for it; 0 where random data make no sense.
    """

    rows: int
    columns: int
    dtype: Element = "fp16"
    is_written: bool = False
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            whole(f"Matrix: {name}", getattr(self, name), 1, MOST_INDEX)
        if self.dtype not in ELEMENT_BYTES:
            raise DescriptionError(
                f"Matrix: dtype is {self.dtype!r}; it must be one of {', '.join(ELEMENT_BYTES)}"
            )

    @property
    def bytes(self) -> int:
        """Of all its elements."""
        return self.rows * self.columns * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class View:
    """Where an operand lies: in a buffer, from a row and a column of it on.

    Example: in the packed output of a QKV product of 32 heads, 8 KV heads and head size 128, K is
    `View("qkv", column=4096)` and V `View("qkv", column=5120)`.
    """

    buffer: str
    column: int = 0
    row: int = 0
