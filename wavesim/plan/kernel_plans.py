"""Plans that need other kernels than one tile per block: dependent launch, Stream-K, persistent kernels.

Example: six unit tiles on four SMs take two waves with a block per tile, and 1.5 tile times under Stream-K,
which cuts the last two into four equal runs. Predictions of dependent launch and Stream-K are scored against
an H200 (`wavesim validate`), those of persistent kernels are not; each says what it assumes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from wavesim.errors import DescriptionError
from wavesim.model.kernel import require_positive
from wavesim.plan.order import Order, RowMajor
from wavesim.plan.plan_base import Plan, SemaphorePlan
from wavesim.plan.policy import Policy, RowSync

SMALL_REST = 4  # times fewer tiles than slots in the last wave: too few for Stream-K to cut these alone


@dataclass(frozen=True)
class DependentLaunch(Plan):
    """One stream with programmatic dependent launch (PDL): kernels overlap up to `griddepcontrol.wait`.

    A kernel's blocks fill free slots once every block of the kernel before has started (its first instruction
    is `griddepcontrol.launch_dependents`). Each block does the `prefetch` share of its work that reads no
    producer, 0 to 1, such as loading weights, and then waits until the whole grid before it has ended.
    Assumed: prefetched work takes as long there as elsewhere; `CostModel.dependent_ns` after that end the
    waits return. Source: CUDA programming guide, Programmatic Dependent Launch.
    """

    prefetch: float = 0.0
    order: Order = RowMajor()
    orders: Mapping[str, Order] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        is_number = isinstance(self.prefetch, int | float) and not isinstance(self.prefetch, bool)
        if not is_number or not 0 <= self.prefetch <= 1:
            raise DescriptionError(
                f"DependentLaunch: prefetch is {self.prefetch!r}; it is a share of the work, from 0 to 1"
            )

    @property
    def name(self) -> str:
        return f"pdl:{self.prefetch}" if self.prefetch else "pdl"

    @property
    def label(self) -> str:
        share = f", {100 * self.prefetch:g} % prefetched" if self.prefetch else ""
        return f"Dependent launch (PDL){share}"

    @property
    def caveat(self) -> str:
        share = "; what it prefetches is predicted only" if self.prefetch else ""
        return f"{self.label}: scored on our Hopper kernels only (hopper-pdl in `wavesim validate`){share}"


@dataclass(frozen=True)
class StreamK(Plan):
    """Stream sync between Stream-K kernels: the last `waves` waves of each are split evenly over all slots.

    A kernel is one block per slot. The tiles of the last, partly filled wave, and of `waves` - 1 full ones
    before it, are cut into equal runs of K iterations, one per block, which come first: then the sums that
    others need are early, and whole tiles follow, the same number in every block. Of its run a block first
    computes what starts a tile, then what ends another: all are then at about the same place in K and share
    the L2. `in_order` instead takes the run as it comes. Of the parts of a tile the one that comes last adds
    up all. A grid of whole waves is not split. Without `waves` one is, or two where the last one is filled to
    less than a quarter: a few tiles alone would be cut into many parts. Partial sums
    cost `CostModel.partial_ns` to store and `fixup_ns` to add. Source: Osama et al., Stream-K (PPoPP 2023),
    data-parallel hybrids; our Hopper kernel, `stream_k.cuh`.
    """

    waves: int | None = None
    order: Order = RowMajor()
    orders: Mapping[str, Order] = field(default_factory=dict)
    in_order: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.waves is not None:
            require_positive("StreamK", waves=self.waves)

    @property
    def name(self) -> str:
        word = "stream-k-in-order" if self.in_order else "stream-k"
        return word if self.waves is None else f"{word}:{self.waves}"

    @property
    def label(self) -> str:
        words = "Stream-K, runs in order" if self.in_order else "Stream-K"
        if self.waves is None:
            return words
        return f"{words}, last {f'{self.waves} waves' if self.waves > 1 else 'wave'} split"

    def cut_tiles(self, tiles: int, slots: int) -> int:
        """How many of a kernel's tiles are cut into parts, on so many slots."""
        rest = tiles % slots
        if not rest:
            return 0
        waves = self.waves or (2 if SMALL_REST * rest < slots else 1)
        return min(tiles, rest + (waves - 1) * slots)

    @property
    def caveat(self) -> str:
        known = "on our Hopper kernels often several points off (hopper-stream-k in `wavesim validate`)"
        return f"{self.label}: what partial sums cost is an estimate; {known}"


@dataclass(frozen=True)
class PersistentStream(Plan):
    """Stream sync between persistent kernels: one block per slot, which draws tile after tile from a counter.

    Assumed: a block's start is paid once per slot, each tile costs `CostModel.counter_ns`.
    """

    order: Order = RowMajor()
    orders: Mapping[str, Order] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "persistent-stream"

    @property
    def label(self) -> str:
        return "Persistent kernels, stream sync"

    @property
    def caveat(self) -> str:
        return f"{self.label}: costs are those of blocks that draw one tile each; not scored"


@dataclass(frozen=True)
class Persistent(SemaphorePlan):
    """One persistent kernel for all stages: a block per slot draws tile after tile, semaphores in between.

    No launch, boundary or wait-kernel lies between the stages, and no deadlock is possible: whoever waits
    does so for tiles drawn before its own. Assumed: the one kernel needs the most threads, registers and
    shared memory that any stage does; semaphores cost what they do under `SemaphoreSync`, and their reset
    nothing. The GPU's Hopper kernels run it: two stages, in tiles of one shape.
    """

    policy: Policy = RowSync()
    policies: Mapping[tuple[str, str], Policy] = field(default_factory=dict)
    order: Order = RowMajor()
    orders: Mapping[str, Order] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "persistent" if self.policy == RowSync() else f"persistent:{self.policy.name}"

    @property
    def label(self) -> str:
        return f"One persistent kernel, {self.policy_label}"

    @property
    def caveat(self) -> str:
        return f"{self.label}: costs are those of blocks that draw one tile each; not scored"
