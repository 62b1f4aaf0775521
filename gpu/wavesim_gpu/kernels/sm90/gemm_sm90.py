"""The Hopper GEMM: which tile shapes exist, and how they are launched.

Example: `HOPPER.launch(gemm, device)` is 132 persistent blocks, one per SM and in clusters of two where that
pays, that take tile after tile.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim_gpu.kernels.backend import Addresses, KernelLaunch
from wavesim_gpu.kernels.sm90.tensor_map import (
    ELEMENT_BYTES,
    PANEL,
    encode,
    encode_panels,
    encode_tiles,
    tiles_in_panels,
)

SOURCE = Path(__file__).with_name("gemm_sm90.cu")
TILE_K = 64
ALIGNMENT = 16  # bytes: addresses and rows of what the copy engine moves
ROW_UNIT = 8  # rows that shared memory's swizzle repeats after
CONTROL_BYTES = 1024  # sm90/shared.cuh, Control: barriers and notes, after the ring and the staging slots
HOPPER_CAPABILITY = (9, 0)
MOST_SMS = 132  # of a Hopper GPU
# Slices of the tiles that Stream-K cuts up: at most 393 on 132 SMs, whatever the number of tiles.
STREAM_K_SUMS = 4 * MOST_SMS
TICKET_BYTES = 4096

# sm90/shape.cuh, GemmSm90Params.
PARAMS = np.dtype(
    {
        "names": [
            *("a", "b", "c", "b_tiles", "c_tiles", "partials", "tickets"),
            *("k", "load_bytes", "is_persistent", "whole_tiles", "is_dependent"),
        ],
        "formats": ["V128"] * 5 + ["<u8"] * 2 + ["<i4"] * 5,
        "offsets": [0, 128, 256, 384, 512, 640, 648, 656, 660, 664, 668, 672],
        "itemsize": 704,
    }
)


@dataclass(frozen=True)
class Shape:
    """One tile shape: `warpgroups` x `fragments` x 64 rows, by `tile_n` columns.

    `staged` output slots per warpgroup. `can_pair_rows`: where there are two rows of tiles, blocks come in
    clusters of two that load B once for both. Measured: 8 to 12 % at 128 tokens; with more rows, and for
    the other shapes, clusters lose 1 to 4 %.
    """

    warpgroups: int
    fragments: int
    tile_n: int
    stages: int
    staged: int
    cluster: int = 1
    is_stream_k: bool = False
    can_pair_rows: bool = False

    @property
    def tile_m(self) -> int:
        """Rows of the tile."""
        return 64 * self.warpgroups * self.fragments

    @property
    def loaded_columns(self) -> int:
        """Columns of B that the ring has room for: whole panels."""
        return -(-self.tile_n // PANEL) * PANEL

    @property
    def threads(self) -> int:
        """Math warpgroups, and one whose warps load and store."""
        return 128 * (1 + self.warpgroups)

    @property
    def dynamic_shared_bytes(self) -> int:
        """The ring of stages, the staging slots, barriers."""
        ring = self.stages * (self.tile_m + self.loaded_columns) * ELEMENT_BYTES * TILE_K
        return ring + self.warpgroups * self.staged * PANEL * 128 + CONTROL_BYTES

    @property
    def name(self) -> str:
        """The C++ type."""
        sizes = (self.warpgroups, self.fragments, self.tile_n, self.stages, self.staged, self.cluster)
        return f"TileConfig<{', '.join(map(str, sizes))}{', true' if self.is_stream_k else ''}>"


SHAPES = {
    (shape.tile_m, shape.tile_n): shape
    for shape in (
        Shape(2, 1, 256, stages=4, staged=2),
        Shape(2, 1, 240, stages=4, staged=2),
        Shape(2, 1, 224, stages=4, staged=2),
        Shape(2, 1, 208, stages=4, staged=2),
        Shape(2, 1, 176, stages=5, staged=1),
        Shape(2, 2, 128, stages=4, staged=2),
        Shape(3, 1, 192, stages=4, staged=1),
        Shape(2, 1, 192, stages=5, staged=1),
        Shape(3, 1, 128, stages=5, staged=1),
        Shape(2, 1, 128, stages=6, staged=2),
        Shape(1, 1, 256, stages=5, staged=2),
        Shape(1, 1, 192, stages=6, staged=2, can_pair_rows=True),
        Shape(1, 1, 128, stages=6, staged=2),
    )
}


class Form(IntEnum):
    """How blocks come by tiles."""

    ONE_EACH = 0
    PERSISTENT = 1
    STREAM_K = 2


@dataclass(frozen=True)
class Hopper:
    """The family, in one of its forms; `is_dependent` for programmatic dependent launch."""

    name: str
    form: Form = Form.PERSISTENT
    is_dependent: bool = False
    source: Path = SOURCE

    @property
    def is_persistent(self) -> bool:
        """Whether a block computes tile after tile."""
        return self.form is not Form.ONE_EACH

    @property
    def takes_semaphores(self) -> bool:
        """Whether its tiles can wait and post: not those that Stream-K cuts up."""
        return self.form is not Form.STREAM_K

    def check(self, gemm: Gemm) -> None:
        """Raises `DescriptionError` for a GEMM that it cannot compute."""
        self._shape(gemm)

    def _shape(self, gemm: Gemm) -> Shape:
        if self.form is not Form.STREAM_K:
            return shape_of(gemm)
        if gemm.split_k > 1:
            raise DescriptionError(
                f"Gemm {gemm.name}: split_k is {gemm.split_k}; Stream-K cuts K by itself. Use split_k=1"
            )
        # Without clusters: their blocks would have to cut alike.
        return replace(shape_of(gemm), cluster=1, is_stream_k=True)

    def launch(self, gemm: Gemm, device: Device) -> KernelLaunch:
        """Raises also `DeviceError` for a GPU that is not a Hopper."""
        if device.compute_capability != HOPPER_CAPABILITY:
            major, minor = device.compute_capability
            raise DeviceError(
                f"{device.name} has compute capability {major}.{minor}; the kernels {self.name!r} need 9.0 "
                "(wgmma, copy engine). Use kernels='portable'"
            )
        shape = self._shape(gemm)
        activation = gemm.activation or "none"
        is_bf16 = str(gemm.dtype == "bf16").lower()
        tiles = -(-gemm.grid.tiles // shape.cluster) * shape.cluster * gemm.split_k
        slots = device.sm_count // shape.cluster * shape.cluster
        blocks = {
            Form.ONE_EACH: tiles,
            Form.PERSISTENT: min(tiles, slots),
            Form.STREAM_K: min(slots, tiles * (gemm.k // TILE_K)),  # at least one chunk each
        }[self.form]
        return KernelLaunch(
            f"gemm_sm90<{shape.name}, {is_bf16}, Activation::{activation}, generated::stage>",
            shape.threads,
            shape.dynamic_shared_bytes,
            blocks,
            shape.cluster,
            self.is_dependent,
        )

    def arguments(self, gemm: Gemm, addresses: Addresses) -> tuple[Any, ...]:
        """`GemmSm90Params`. Raises `DescriptionError` for misaligned addresses."""
        shape = self._shape(gemm)
        record = np.zeros(1, PARAMS)[0]
        # Rows outside of A cost the copy engine as much as others: with 16 tokens a tenth of the time.
        rows_of_a = min(shape.tile_m, -(-gemm.m // ROW_UNIT) * ROW_UNIT)
        record["load_bytes"] = (rows_of_a + shape.loaded_columns) * ELEMENT_BYTES * TILE_K
        b, c = (gemm.k, gemm.n), (gemm.m, gemm.columns)
        maps = (
            ("a", addresses.a, (gemm.m, gemm.k), (rows_of_a // shape.cluster, TILE_K)),
            ("b", addresses.b, b, (TILE_K // shape.cluster, PANEL)),
            ("c", addresses.c, c, (PANEL, PANEL)),
        )
        for name, address, size, box in maps:
            if address % ALIGNMENT:
                raise DescriptionError(
                    f"Gemm {gemm.name}: {name} is at address {address:#x}; the copy engine needs a "
                    f"multiple of {ALIGNMENT} bytes. Use cupy.ascontiguousarray"
                )
            record[name] = encode(address, size, box, gemm.dtype)
        record["b_tiles"] = encode_panels(addresses.b, b, shape.tile_n, TILE_K, gemm.dtype)
        record["whole_tiles"] = tiles_in_panels(gemm.n, shape.tile_n)
        columns = gemm.columns * shape.tile_n // gemm.n  # of a tile's outputs
        record["c_tiles"] = encode_tiles(addresses.c, c, columns, PANEL, gemm.dtype)
        record["partials"], record["tickets"] = addresses.partials, addresses.tickets
        if self.form is Form.STREAM_K:  # the kernel puts its tickets back to zero itself
            record["partials"], record["tickets"] = addresses.partials + TICKET_BYTES, addresses.partials
        record["k"] = gemm.k
        record["is_persistent"], record["is_dependent"] = self.is_persistent, self.is_dependent
        return (record,)

    def partial_bytes(self, gemm: Gemm) -> int:
        """Bytes of fp32 partial sums that split-K or Stream-K keeps, zeroed once; else 0."""
        if self.form is Form.STREAM_K:
            return TICKET_BYTES + STREAM_K_SUMS * 4 * gemm.tile_m * gemm.tile_n
        return 4 * gemm.grid.size * gemm.tile_m * gemm.tile_n if gemm.split_k > 1 else 0


HOPPER = Hopper("hopper")
HOPPER_PER_TILE = Hopper("hopper-per-tile", Form.ONE_EACH)
HOPPER_DEPENDENT = Hopper("hopper-dependent", is_dependent=True)
# Under stream sync only, and under dependent launch.
HOPPER_STREAM_K = Hopper("hopper-stream-k", Form.STREAM_K)


def shape_of(gemm: Gemm) -> Shape:
    """The shape that computes a described GEMM. Raises `DescriptionError`, with the fix, if there is none."""
    if (gemm.tile_m, gemm.tile_n) not in SHAPES or gemm.tile_k != TILE_K:
        known = ", ".join(f"{m}x{n}x{TILE_K}" for m, n in SHAPES)
        raise DescriptionError(
            f"Gemm {gemm.name}: the tile is {gemm.tile_m}x{gemm.tile_n}x{gemm.tile_k}; the Hopper kernels "
            f"have {known}. Use one of these"
        )
    units = {"n": (gemm.n, 16 if gemm.activation == "swiglu" else 8), "k": (gemm.k, TILE_K)}
    for name, (size, unit) in units.items():
        if size % unit:
            raise DescriptionError(
                f"Gemm {gemm.name}: {name} is {size}; on the GPU it must be a multiple of {unit}. Pad it to "
                f"{-(-size // unit) * unit}"
            )
    shape = SHAPES[gemm.tile_m, gemm.tile_n]
    has_two_rows = shape.tile_m < gemm.m <= 2 * shape.tile_m
    return replace(shape, cluster=2) if shape.can_pair_rows and has_two_rows else shape
