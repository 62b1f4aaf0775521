"""What a run makes of a buffer: which of its elements it writes, and which must be there before it begins.

Example: of a KV cache a decode step writes one row per sequence, and reads those before. The row is the
run's own; the others are inputs. A residual that is updated in place is both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.model.accesses import Accesses, Regions, joined
from wavesim.model.buffers import Buffer
from wavesim.model.regions import Region


@dataclass(frozen=True)
class Contents:
    """Of one buffer: `made` by the run and by nobody before, `updated` by the run after it was read, and
    whether it `has_inputs`, elements that the run reads and nobody has made before.
    """

    made: tuple[Region, ...]
    updated: tuple[Region, ...]
    has_inputs: bool


def contents_of(accesses: Accesses, buffer: Buffer) -> Contents:
    """By stages in their order: what each reads counts before what it writes.

    A stage that only reads a buffer may read all of its operands; weights, for one, are in nobody's reads.
    """
    if not buffer.is_written:
        return Contents((), (), has_inputs=True)
    steps = list(_steps(accesses, buffer))
    cells = _Cells(region for reads, writes in steps for region in (*reads, *writes))
    written, inputs = cells.none(), cells.none()
    for reads, writes in steps:
        inputs |= cells.mask(reads) & ~written
        written |= cells.mask(writes)
    return Contents(cells.regions(written & ~inputs), cells.regions(written & inputs), bool(inputs.any()))


def _steps(accesses: Accesses, buffer: Buffer) -> Iterable[tuple[Sequence[Region], Sequence[Region]]]:
    """What each stage that uses the buffer reads and writes of it."""
    for stage in accesses.pipeline.stages:
        uses = [use for use in buffer.uses if use.stage == stage.name]
        if not uses:
            continue
        if not any(use.matrix.is_written for use in uses):
            yield [use.region for use in uses], []
            continue
        blocks = ((tile, z) for tile in stage.grid for z in range(stage.grid.z))
        found = (accesses.reads(stage.name, *block).get(buffer.name) for block in blocks)
        reads = _regions(one.regions for one in found if one is not None)
        yield reads, _regions(accesses.writes(stage.name, tile).get(buffer.name) for tile in stage.grid)


def _regions(found: Iterable[Regions | None]) -> list[Region]:
    rows = (Region(*map(int, row)) for regions in found if regions is not None for row in regions)
    return joined(rows)


class _Cells:
    """The rectangles into which all edges of some regions cut a buffer."""

    def __init__(self, regions: Iterable[Region]) -> None:
        known = set(regions)
        self._rows = np.unique([edge for one in known for edge in (one.top, one.bottom)])
        self._columns = np.unique([edge for one in known for edge in (one.left, one.right)])

    def none(self) -> NDArray[np.bool_]:
        """No cell."""
        return np.zeros((max(len(self._rows) - 1, 0), max(len(self._columns) - 1, 0)), bool)

    def mask(self, regions: Iterable[Region]) -> NDArray[np.bool_]:
        """The cells of some regions."""
        found = self.none()
        for one in regions:
            top, bottom = np.searchsorted(self._rows, one[:2])
            left, right = np.searchsorted(self._columns, one[2:])
            found[top:bottom, left:right] = True
        return found

    def regions(self, mask: NDArray[np.bool_]) -> tuple[Region, ...]:
        """Cells as few rectangles."""
        cells = (
            Region(*map(int, (self._rows[i], self._rows[i + 1], self._columns[j], self._columns[j + 1])))
            for i, j in zip(*np.nonzero(mask), strict=True)
        )
        return tuple(joined(cells))
