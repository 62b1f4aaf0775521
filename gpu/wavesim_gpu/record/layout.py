"""A recording's buffer, byte for byte as `wavesim_recorder.cuh` writes it: a header, then a record per tile.

Example: room for 2,112 tiles is 64 + 2,112 x 64 bytes; the header says so, and how many were begun.
"""

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError

MAGIC = 0x52435357  # "WSCR"
VERSION = 1
ALIGNMENT = 16
WORD = 4
MAX_CAPACITY = 1 << 24  # a buffer of 1 GiB

HEADER = np.dtype(
    [(name, "<u4") for name in ("magic", "capacity", "count", "version")] + [("reserved", "<u4", 12)]
)
RECORD = np.dtype(
    [(name, "<u8") for name in ("start_ns", "start_cycles", "end_ns", "end_cycles")]
    + [(name, "<i4") for name in ("stage", "x", "y", "z")]
    + [(name, "<u4") for name in ("wait_ns", "wait_cycles", "sm", "threads")]
)
assert HEADER.itemsize == RECORD.itemsize == 64


def recording_bytes(capacity: int) -> int:
    """Size of a buffer with room for so many tiles. Raises `DescriptionError` below 1 or above 2^24."""
    if not isinstance(capacity, int) or not 1 <= capacity <= MAX_CAPACITY:
        raise DescriptionError(
            f"capacity is {capacity!r}; it must be 1 to {MAX_CAPACITY}: the tiles of all stages"
        )
    return HEADER.itemsize + capacity * RECORD.itemsize


def recording_header(capacity: int) -> NDArray[np.int32]:
    """The header of an empty buffer, 16 words of 4 bytes. Raises `DescriptionError`."""
    recording_bytes(capacity)
    header = np.zeros(1, HEADER)
    header["magic"], header["capacity"], header["version"] = MAGIC, capacity, VERSION
    return header.view(np.int32)
