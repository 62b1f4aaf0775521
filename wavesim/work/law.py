"""How long the blocks of a kind of work take, by constants of a device's data file: what every such law has.

Example: a tile of a product takes the cycles of its k-blocks and of storing its outputs, at the clock that
the load leaves, or the time that its weights take to arrive, whichever is longer.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from heapq import heapreplace
from math import ceil
from typing import Any, ClassVar, Self

from wavesim.model.device import Device
from wavesim.model.stage import Stage

SHARPNESS = 8  # of the bend between what the tensor cores and what the memory allows
BYTES_SHARPNESS = 3  # of the bend between what one block and what all of them can move
POWER_EXPONENT = 3


def bent(first: float, second: float, sharpness: float = SHARPNESS) -> float:
    """The larger of two times, and somewhat more where they are about equal."""
    most = max(first, second)
    return float(most * ((first / most) ** sharpness + (second / most) ** sharpness) ** (1 / sharpness))


@dataclass(frozen=True)
class BlockTimes:
    """Of a block: `before_ns`, then a main loop, then `other_cycles` at the load's clock.

    The main loop computes for `loop_cycles` and loads for `loads_ns`, whatever the clock, at the same time;
    so does what comes after it, which stores for `stores_ns`.
    """

    loop_cycles: float = 0.0
    loads_ns: float = 0.0
    other_cycles: float = 0.0
    before_ns: float = 0.0
    stores_ns: float = 0.0

    def ns(self, ghz: float) -> int:
        """At a clock."""
        loop_ns = bent(self.loop_cycles / ghz, self.loads_ns, BYTES_SHARPNESS)
        other_ns = self.other_cycles / ghz
        after_ns = bent(other_ns, self.stores_ns, BYTES_SHARPNESS) if self.stores_ns else other_ns
        return round(self.before_ns + loop_ns + after_ns)


@dataclass(frozen=True)
class StageTimes:
    """Of a stage: the times of each block or of all alike, and in how many cycles tensor cores draw power.

    Of a layer only products in tiles of `WIDE_COLUMNS` columns have such cycles: neither narrower tiles nor
    attention were seen to lower the clock.
    """

    blocks: BlockTimes | list[BlockTimes]
    tensor_cycles: float = 0.0

    def tile_ns(self, ghz: float) -> int | list[int]:
        """Of each block, or of all alike."""
        if isinstance(self.blocks, BlockTimes):
            return self.blocks.ns(ghz)
        known = {block: block.ns(ghz) for block in set(self.blocks)}
        return [known[block] for block in self.blocks]

    def span_ns(self, ghz: float, blocks: int, slots: int) -> float:
        """From the first block's start to the last one's end, as blocks fill the slots."""
        times = self.tile_ns(ghz)
        if isinstance(times, int):
            return float(ceil(blocks / slots) * times)
        ends = [0] * slots
        for time in times:
            heapreplace(ends, ends[0] + time)
        return float(max(ends))


@dataclass(frozen=True)
class LoadClock:
    """`limit_ghz`: with all tensor cores at work all the time; `most_ghz`: with hardly any.

    `rest_share`: of the power at `limit_ghz`, what is drawn whether tensor cores work or not. `bf16_share`:
    of what they draw in fp16, what they draw in bf16.
    """

    limit_ghz: float
    most_ghz: float
    rest_share: float = 0.0
    bf16_share: float = 1.0

    def ghz(self, tensor_share: float) -> float:
        """At a share, 0 to 1, of all SMs' cycles in which tensor cores work, bf16 weighed."""
        least = (self.limit_ghz / self.most_ghz) ** POWER_EXPONENT
        power = self.rest_share + (1.0 - self.rest_share) * tensor_share
        return float(self.limit_ghz * max(power, least) ** (-1 / POWER_EXPONENT))


@dataclass(frozen=True)
class RunSetting:
    """What the time of a stage's blocks depends on besides itself.

    `is_in_l2`: the L2 keeps all weights from one run to the next. `is_persistent`: blocks go on with another
    tile.
    """

    device: Device
    is_in_l2: bool = False
    is_persistent: bool = False

    @property
    def sms(self) -> int:
        """Of the device."""
        return self.device.sm_count


class CostLaw:
    """Constants of a section of a device's file, which say how long the blocks of a kind of work take.

    A law is a dataclass whose fields are the section's constants; those that `elsewhere` names, by field, are
    other sections'.
    """

    section: ClassVar[str] = ""
    scored_as: ClassVar[str] = ""  # a kind of predictions of its own
    fitted_to: ClassVar[str] = ""  # in words; such a law has times of persistent kernels too
    elsewhere: ClassVar[Mapping[str, str]] = {}
    times_descriptions: ClassVar[bool] = False  # also of stages that a file describes without their times

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Of the section's constants."""
        here: Any = cls
        return tuple(field.name for field in fields(here) if field.name not in cls.elsewhere)

    @classmethod
    def of(cls, own: Mapping[str, Any], known: Mapping[str, Any]) -> Self | None:
        """By a device's own constants and all that are known of it; None where its section is not there."""
        here: Any = cls
        names = {
            field.name: cls.elsewhere.get(field.name, f"{cls.section}.{field.name}") for field in fields(here)
        }
        values = {name: (known if name in cls.elsewhere else own).get(key) for name, key in names.items()}
        given = {name: value for name, value in values.items() if value is not None}
        needed = {field.name for field in fields(here) if field.default is MISSING}
        return cls(**given) if needed <= given.keys() else None

    def times(self, stage: Stage, setting: RunSetting) -> StageTimes:
        """Of a stage's blocks. Raises `DescriptionError` for what is not known of it."""
        raise NotImplementedError

    def overheads(self, work: Any, setting: RunSetting, shared: Mapping[str, int]) -> dict[str, int]:
        """Fields of `CostModel` that are the work's own, where `shared` are those of the run."""
        return {}

    def is_clocked(self, work: Any) -> bool:
        """Whether blocks take cycles of tensor cores, not the time that their bytes take."""
        return not self.most_bytes_per_s

    @property
    def clock(self) -> LoadClock | None:
        """Where runs of such work alone have a clock of their own."""
        return None

    @property
    def run_overheads(self) -> Mapping[str, int]:
        """Overheads of runs of such work alone."""
        return {}

    @property
    def most_bytes_per_s(self) -> float:
        """What one block can move, of kernels that do little else; 0 of others."""
        return 0.0


def in_grid_order(issued: list[BlockTimes], split_k: int) -> list[BlockTimes]:
    """From the order in which blocks are issued, a tile's splits one after the other, to the grid's."""
    return [entry for split in range(split_k) for entry in issued[split::split_k]]
