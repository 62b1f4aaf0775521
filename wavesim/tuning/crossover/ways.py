"""Ways of synchronising that a crossover compares: a plan's word in a tile order.

Example: "pdl+row" in order grouped:4 is row semaphores by dependent launch; "stream grouped:4" is what all
are held against. Simpler ways come first, and are taken where others gain next to nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from wavesim.errors import DescriptionError
from wavesim.plan.order import parse_order
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import listed

BASELINE = "stream"
WORDS = (
    BASELINE,
    "pdl",
    "stream-k",
    "persistent",
    "persistent+pdl+row",
    "persistent+pdl+tile",
    "row",
    "tile",
)
ORDERS = ("grouped:4",)


@dataclass(frozen=True)
class ComparedPlan:
    """A plan by its word and order, as `parse_plan` takes them."""

    word: str
    order: str

    @property
    def name(self) -> str:
        """Both words: "pdl+row grouped:4"."""
        return f"{self.word} {self.order}"

    @cached_property
    def plan(self) -> Plan:
        """The plan."""
        return parse_plan(self.word, self.order)

    @property
    def is_baseline(self) -> bool:
        """Whether it is stream sync, which gains nothing over itself."""
        return self.plan.is_stream_sync

    @property
    def has_semaphores(self) -> bool:
        """Whether consumer tiles wait for tiles, on their own or in one kernel with the producer's."""
        return self.plan.sync.has_semaphores


@typed
def ways_of(words: Sequence[str] = WORDS, orders: Sequence[str] = ORDERS) -> tuple[ComparedPlan, ...]:
    """Every word in every order, stream sync first, added where it is missing. Raises `DescriptionError`."""
    for order in orders:
        parse_order(order)
    ways = [ComparedPlan(word, order) for word in words for order in orders]
    streams = [way for way in ways if way.is_baseline] or [ComparedPlan(BASELINE, order) for order in orders]
    return (*streams, *(way for way in ways if way not in streams))


def read_ways(words: str, orders: str) -> tuple[ComparedPlan, ...]:
    """The ways of two lists separated by commas. Raises `DescriptionError`."""
    ways = ways_of(listed("ways", words), listed("orders", orders))
    if all(way.is_baseline for way in ways):
        raise DescriptionError(f"ways is {words!r}, stream sync alone; name at least one other, such as row")
    return ways
