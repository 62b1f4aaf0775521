"""Threads with uneven work, and who launches what it is: nobody, each thread, a warp, a block, or the grid.

Example: of 4,096 threads most have a few items and some have hundreds. Alone, a thread with 1,000 items keeps
its block; as a launch of its own it is a grid of four blocks. Per block, 16 launches do what 4,096 did.

Source: I. El Hajj, Techniques for Optimizing Dynamic Parallelism on Graphics Processing Units, 2018.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.model.kernel import WARP_SIZE
from wavesim.safe_io.bounds import shown, whole
from wavesim.sim.streams.device_launches import ChildLaunch, DeviceGrid

Launcher = Literal["nobody", "thread", "warp", "block", "grid"]
LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)
THREADS = 256  # of a block, of parents and children
MOST_ITEMS = 2_048


@dataclass(frozen=True)
class UnevenWork:
    """A parent of `blocks` blocks of 256 threads, each with items of `item_ns`, and who launches.

    A thread does fewer than `threshold` items itself, and its warp launches when all its threads are through
    with theirs, one thread after the other. A child's thread does one, which takes `child_ns` with
    all that a block begins and ends with.
    """

    launcher: Launcher = "thread"
    threshold: int = 1
    blocks: int = 16
    item_ns: int = 100
    child_ns: int = 2_000

    def __post_init__(self) -> None:
        if self.launcher not in LAUNCHERS:
            raise DescriptionError(
                f"launcher is {shown(self.launcher)}; choose one of {', '.join(LAUNCHERS)}"
            )
        whole("threshold", self.threshold, 1, 2 * MOST_ITEMS)
        whole("blocks", self.blocks, 1, 64)
        whole("item_ns", self.item_ns, 1, 10**6)
        whole("child_ns", self.child_ns, 1, 10**6)

    def grid(self) -> DeviceGrid:
        """The parent with what it launches."""
        of_blocks = [items_of(range(at * THREADS, (at + 1) * THREADS)) for at in range(self.blocks)]
        own_ns = [max(1, self.item_ns * max(map(self._own, items))) for items in of_blocks]
        launches = [
            launch for at, items in enumerate(of_blocks) for launch in self._launches(at, items, own_ns[at])
        ]
        if self.launcher == "grid":
            gathered = sum((self._children(items) for items in of_blocks), 0)
            launches = [ChildLaunch(self._child("all", gathered), None)] if gathered else []
        return DeviceGrid("parent", own_ns, launches, THREADS)

    def _own(self, items: int) -> int:
        """What a thread does itself, one after the other."""
        return items if self.launcher == "nobody" or items < self.threshold else 0

    def _children(self, items: Sequence[int]) -> int:
        """Blocks of the children of some threads, a thread per item."""
        return sum(-(-count // THREADS) for count in items if count >= self.threshold)

    def _launches(self, at: int, items: Sequence[int], own_ns: int) -> Iterator[ChildLaunch]:
        sizes = {"thread": 1, "warp": WARP_SIZE, "block": THREADS}
        if self.launcher not in sizes:
            return
        size = sizes[self.launcher]
        for first in range(0, THREADS, size):
            if children := self._children(items[first : first + size]):
                child = self._child(f"{at}.{first // size}", children)
                if self.launcher == "block":
                    # It gathers behind a barrier, when its threads are through with their own items.
                    yield ChildLaunch(child, at, own_ns)
                else:
                    warp = first // WARP_SIZE
                    own = max(map(self._own, items[warp * WARP_SIZE : (warp + 1) * WARP_SIZE]))
                    yield ChildLaunch(child, at, own * self.item_ns, warp=warp)

    def _child(self, name: str, blocks: int) -> DeviceGrid:
        return DeviceGrid(name, (self.child_ns,) * blocks, (), THREADS)


def items_of(threads: Sequence[int]) -> list[int]:
    """How many items each thread has: 1 to 2,048, few for most, spread as by chance and always the same."""
    return [min(MOST_ITEMS, int(4 / _spread(thread))) for thread in threads]


def _spread(thread: int) -> float:
    """Multiples of the golden section: evenly over 0 to 1, and neighbours far apart."""
    return (thread * 40_503 % 65_536 + 0.5) / 65_536 * 2


def nested(levels: int, fan_out: int = 2, block_ns: int = 10_000) -> DeviceGrid:
    """A grid of one block that launches `fan_out` grids as it begins, and these again, so many levels deep.

    Raises `DescriptionError` for more than 20,000 grids.
    """
    whole("levels", levels, 0, 64)
    whole("fan_out", fan_out, 1, 64)
    grids = sum(fan_out**level for level in range(levels + 1))
    whole("grids", grids, 1, 20_000)
    return _nested("0", levels, fan_out, block_ns)


def _nested(name: str, levels: int, fan_out: int, block_ns: int) -> DeviceGrid:
    children = [
        ChildLaunch(_nested(f"{name}.{number}", levels - 1, fan_out, block_ns))
        for number in range(fan_out)
        if levels
    ]
    return DeviceGrid(name, (block_ns,), children, 32)
