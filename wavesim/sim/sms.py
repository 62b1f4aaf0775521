"""The SMs of a GPU: grids go to their dispatcher, and of each block they keep where and when it was.

Example: a kernel of 66 blocks is launched behind one of 132; the dispatcher issues its blocks as slots come
free, each does its work and frees its slot, and after the last one the kernel has ended.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from simpy import Environment, Event

from wavesim.model.device import Device
from wavesim.model.kernel import Kernel
from wavesim.sim.dispatcher import Dispatcher, QueuedGrid
from wavesim.sim.events import Process
from wavesim.sim.placement import footprint


@dataclass(frozen=True)
class BlockSpan:
    """One block of a kernel on an SM."""

    operation: str
    sm: int
    slot: int
    start_ns: int
    end_ns: int


class Sms(Dispatcher):
    """A GPU's SMs for kernels whose blocks' work is a generator; `spans` has their blocks, as they end.

    A block of a pipeline's kernel frees its slot itself (`SimulatedBlock`): it is mostly no generator, as ten
    thousand of them are to take less than a tenth of a second.
    """

    def __init__(self, env: Environment, device: Device) -> None:
        super().__init__(env, device)
        self.device = device
        self.spans: list[BlockSpan] = []

    def launch(
        self,
        kernel: Kernel,
        rank: int,
        work: Callable[[int, int, int], Iterable[Event]],
        ended: Callable[[], object] | None = None,
        *,
        priority: int = 0,
    ) -> None:
        """Queues a kernel whose turn has come. `work(position, sm, slot)` is what a block does, which begins
        with an event; `ended` is called after the last block has left its slot.
        """
        taken, left = footprint(self.device, kernel), kernel.grid.size

        def life(position: int, sm: int, slot: int) -> Process:
            nonlocal left
            begin_ns = int(self._env.now)
            yield from work(position, sm, slot)
            self.spans.append(BlockSpan(kernel.name, sm, slot, begin_ns, int(self._env.now)))
            self.release(sm, slot, taken)
            left -= 1
            if ended is not None and not left:
                ended()

        self.enqueue(QueuedGrid(kernel.name, rank, taken, life, 0, left, priority=priority))
