"""Memory that all ranks lay out alike, and see of each other.

Example: with two ranks, `PeerLayout({"arrived": 4 * 2 * tiles, "staging": ...})` says at which byte of every
rank's allocation the staging begins; `SharedMemory.address(seen_by=0, of=1, name="staging")` is where rank
0's kernels store what rank 1 is to add up. In one process all ranks see one address; in a process per GPU
each has mapped the others' allocations at addresses of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wavesim.errors import DescriptionError

ALIGNMENT = 256  # bytes; TMA and 16-byte vectors need less


@dataclass(frozen=True)
class PeerLayout:
    """Where each region of a rank's allocation begins, from its size in bytes."""

    sizes: Mapping[str, int]
    offsets: Mapping[str, int] = field(init=False)
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        offsets, at = {}, 0
        for name, size in self.sizes.items():
            offsets[name] = at
            at += -(-size // ALIGNMENT) * ALIGNMENT
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "bytes", at)


@dataclass(frozen=True)
class SharedMemory:
    """`bases[r][q]`: where rank q's allocation begins for rank r, of those ranks that this process drives."""

    layout: PeerLayout
    bases: Mapping[int, Sequence[int]]

    def address(self, seen_by: int, of: int, name: str) -> int:
        """Where a region of rank `of` is for rank `seen_by`."""
        return self.bases[seen_by][of] + self.layout.offsets[name]

    def addresses(self, seen_by: int, name: str) -> list[int]:
        """The same of all ranks."""
        return [self.address(seen_by, of, name) for of in range(len(self.bases[seen_by]))]

    def require_inside(self, name: str, size: int) -> None:
        """Raises `DescriptionError` where a call would write more than a region holds."""
        held = self.layout.sizes.get(name, 0)
        if size > held:
            raise DescriptionError(
                f"peer memory: {name} holds {held} bytes; this call writes {size}. Make its memory for the "
                "largest call, and for its way"
            )
