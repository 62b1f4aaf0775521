"""The window of a convolution: which pixels of an image its outputs read, tap by tap.

Example: a 3 x 3 window of stride 2 and padding 1 makes 28 x 28 outputs of a 56 x 56 image. Tap (0, 2) of
output (p, q) reads pixel (2p - 1, 2q + 1); of output (0, 0) that is above the image, a zero that nobody has
to write. Outputs and pixels are numbered image after image, row after row.
Source: CUTLASS, implicit GEMM convolution.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from wavesim.errors import DescriptionError
from wavesim.model.kernel import require_positive

STRIDES = (1, 2)


class Tap(NamedTuple):
    """One element of the filter: its row and column."""

    row: int
    column: int


@dataclass(frozen=True)
class Window:
    """A filter of `size` x `size` taps that moves by `stride` over images of (height, width) pixels.

    `padding` zeros lie around each image, to its left and right `column_padding` where that is given. Raises
    `DescriptionError` for what no kernel of ours takes.
    """

    height: int
    width: int
    size: int = 3
    stride: int = 1
    padding: int = 1
    column_padding: int | None = None

    def __post_init__(self) -> None:
        require_positive("Window", height=self.height, width=self.width, kernel_size=self.size)
        if self.size % 2 == 0:
            raise DescriptionError(
                f"kernel_size is {self.size}; it must be odd, so that the padding is the same on both sides"
            )
        if self.stride not in STRIDES:
            raise DescriptionError(f"stride is {self.stride}; it must be {' or '.join(map(str, STRIDES))}")
        if not (0 <= self.padding < self.size and 0 <= self.left < self.size):
            raise DescriptionError(
                f"padding is {self._padding_text}; with kernel_size {self.size} it must be 0 to "
                f"{self.size - 1}, or outputs at the border would read nothing but zeros"
            )
        most = min(self.height + 2 * self.padding, self.width + 2 * self.left)
        if most < self.size:
            raise DescriptionError(
                f"kernel_size is {self.size}; an image of {self.height} x {self.width} with padding "
                f"{self._padding_text} holds at most {most}"
            )

    @property
    def left(self) -> int:
        """Zeros to the left of an image, and to its right."""
        return self.padding if self.column_padding is None else self.column_padding

    @property
    def _padding_text(self) -> str:
        return f"{self.padding}" + (f", {self.left} left and right" if self.left != self.padding else "")

    @property
    def taps(self) -> int:
        """Of the filter."""
        return self.size**2

    @property
    def out_height(self) -> int:
        """Rows of outputs."""
        return (self.height + 2 * self.padding - self.size) // self.stride + 1

    @property
    def out_width(self) -> int:
        """Columns of outputs."""
        return (self.width + 2 * self.left - self.size) // self.stride + 1

    @property
    def keeps_size(self) -> bool:
        """Whether output (p, q) lies where pixel (p, q) does."""
        return self.stride == 1 and 2 * self.padding == 2 * self.left == self.size - 1

    def tap(self, number: int) -> Tap:
        """Taps follow each other along the filter's rows."""
        return Tap(*divmod(number, self.size))

    def pixels_read(self, tap: Tap, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Pixels, half-open, that one tap of outputs `first` up to `end` reads: a run per image.

        A run ends at pixels that are read. In between, at the border of a row or under a stride of 2, are
        some that are not.
        """
        outputs, pixels = self.out_height * self.out_width, self.height * self.width
        for image in range(first // outputs, -(-end // outputs)):
            begin = max(first - image * outputs, 0)
            last = min(end - image * outputs, outputs) - 1
            run = self._run(tap, begin, last)
            if run is not None:
                yield image * pixels + run[0], image * pixels + run[1] + 1

    def _run(self, tap: Tap, begin: int, last: int) -> tuple[int, int] | None:
        """The first and the last pixel that a tap of one image's outputs reads, if any."""
        rows = self._inside(tap.row, self.height, self.padding)
        columns = self._inside(tap.column, self.width, self.left)
        if not rows or not columns:
            return None
        (p, q), (p_end, q_end) = divmod(begin, self.out_width), divmod(last, self.out_width)
        if q > columns[-1]:
            p, q = p + 1, 0
        if p < rows[0]:
            p, q = rows[0], 0
        if q_end < columns[0]:
            p_end, q_end = p_end - 1, self.out_width
        if p_end > rows[-1]:
            p_end, q_end = rows[-1], self.out_width
        start, stop = (p, max(q, columns[0])), (p_end, min(q_end, columns[-1]))
        return None if start > stop else (self._pixel(tap, *start), self._pixel(tap, *stop))

    def _inside(self, tap: int, extent: int, padding: int) -> range:
        """Outputs along one axis whose tap is no padding."""
        count = (extent + 2 * padding - self.size) // self.stride + 1
        first = -((tap - padding) // self.stride) if tap < padding else 0
        return range(first, min(count, (extent - 1 + padding - tap) // self.stride + 1))

    def _pixel(self, tap: Tap, p: int, q: int) -> int:
        row, column = p * self.stride - self.padding, q * self.stride - self.left
        return (row + tap.row) * self.width + column + tap.column
