"""What the threads of a litmus test do, as events and the orders among them that no execution can change.

Example: `atom.acq_rel.gpu.add r, [x], 1` is two events, a read with acquire and a write with release, tied
together. A TMA store is four: TMA reads shared memory, writes global memory, and after each there is the
proxy fence that PTX promises at completion. They are in no program order: a wait for the bulk group follows
them. A relation is rows of bits: bit j of row i says that event i comes before event j.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Literal

from wavesim.litmus.program import Place, ValueTest

Relation = list[int]
"""A row of bits per event."""


def bits(row: int) -> Iterator[int]:
    """The positions of a row's ones, ascending."""
    while row:
        lowest = row & -row
        yield lowest.bit_length() - 1
        row ^= lowest


def relation_of(pairs: Iterable[tuple[int, int]], size: int) -> Relation:
    """The relation that holds exactly these pairs of `size` events."""
    rows = [0] * size
    for before, after in pairs:
        rows[before] |= 1 << after
    return rows


def union(*relations: Relation) -> Relation:
    """Pairs that are in any of them."""
    joined = list(relations[0])
    for relation in relations[1:]:
        for index, row in enumerate(relation):
            joined[index] |= row
    return joined


def intersection(left: Relation, right: Relation) -> Relation:
    """Pairs that are in both."""
    return [a & b for a, b in zip(left, right, strict=True)]


def composed(left: Relation, right: Relation) -> Relation:
    """Has i before k for every i before j in `left` and j before k in `right`."""
    rows = []
    for row in left:
        reached = 0
        for middle in bits(row):
            reached |= right[middle]
        rows.append(reached)
    return rows


def inverse(relation: Relation) -> Relation:
    """The pairs turned round."""
    rows = [0] * len(relation)
    for before, row in enumerate(relation):
        for after in bits(row):
            rows[after] |= 1 << before
    return rows


def closure(relation: Relation) -> Relation:
    """The smallest transitive relation around it (Warshall)."""
    rows = list(relation)
    for middle, _ in enumerate(rows):
        reached, bit = rows[middle], 1 << middle
        if reached:
            rows = [row | reached if row & bit else row for row in rows]
    return rows


def reflexive(relation: Relation) -> Relation:
    """Every event before itself too."""
    return [row | 1 << index for index, row in enumerate(relation)]


def has_loop(relation: Relation) -> bool:
    """Whether any event is before itself; of a closure: whether the relation has a cycle."""
    return any(row >> index & 1 for index, row in enumerate(relation))


Kind = Literal["read", "write", "fence", "proxy fence", "barrier", "mark"]
SHARED_BY = {"cta": 3, "cluster": 2, "gpu": 1, "sys": 0}  # how much of a place the threads of a scope share


@dataclass(frozen=True)
class MemoryEvent:
    """One read, write, fence or barrier. `order` "" or "weak": not strong.

    `value`: what a write writes, as an operand, or `("copy", event)`, or `("add", event, operand)` of an
    atomic. `register`: what a read is loaded into. `makes_acquire`: false for reductions, whose read nobody
    sees.
    """

    kind: Kind
    thread: int
    place: Place
    text: str
    order: str = ""
    scope: str = ""
    proxy: str = "generic"
    variable: str = ""
    value: tuple[str | int, ...] = ()
    register: str = ""
    awaited: ValueTest | None = None
    makes_acquire: bool = True
    is_counted: bool = False  # by an mbarrier, whose count is whole whatever the scopes
    spaces: frozenset[bool] = frozenset({False, True})  # that a proxy fence is for: shared, not shared

    @property
    def is_memory(self) -> bool:
        """Whether it reads or writes."""
        return self.kind in ("read", "write")

    @property
    def is_strong(self) -> bool:
        """Whether it is a fence, or an access with an order."""
        return self.kind == "fence" or (self.is_memory and self.order not in ("", "weak"))


@dataclass
class Skeleton:
    """The events of one choice of branches, and what holds of them in every execution.

    Relations: `program`, closed; `issue`, from an instruction to the asynchronous accesses that it starts,
    and `fixed`, other orders that causality is made of; `kernel_ends`, those of them that no proxy needs a
    fence for; `depends`, of a write on what it is computed from or whether it is done at all. `atomics`:
    (read, write).
    """

    events: list[MemoryEvent] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)
    issue: list[tuple[int, int]] = field(default_factory=list)
    fixed: list[tuple[int, int]] = field(default_factory=list)
    kernel_ends: list[tuple[int, int]] = field(default_factory=list)
    depends: list[tuple[int, int]] = field(default_factory=list)
    atomics: list[tuple[int, int]] = field(default_factory=list)
    guards: list[tuple[str, ValueTest, bool]] = field(default_factory=list)

    @cached_property
    def program(self) -> Relation:
        """Program order, closed."""
        return closure(relation_of(self.steps, len(self.events)))

    def mask(self, holds: Callable[[MemoryEvent], bool]) -> int:
        """The events of which it holds, as a row."""
        return sum(1 << index for index, event in enumerate(self.events) if holds(event))

    @cached_property
    def morally_strong(self) -> Relation:
        """Strong and in each other's scope, or in program order; by one proxy; accesses to one address."""
        rows = [0] * len(self.events)
        for (i, first), (j, second) in combinations(enumerate(self.events), 2):
            are_ordered = self.program[i] >> j & 1 or self.program[j] >> i & 1
            are_apart = first.is_memory and second.is_memory and first.variable != second.variable
            if (
                first.proxy == second.proxy
                and not are_apart
                and (are_ordered or _are_in_scope(first, second))
            ):
                rows[i] |= 1 << j
                rows[j] |= 1 << i
        return rows

    @cached_property
    def whole(self) -> Relation:
        """Pairs of accesses that see one another whole: morally strong, or counted by one mbarrier."""
        counted = [event.variable if event.is_counted else "" for event in self.events]
        rows = list(self.morally_strong)
        for (i, first), (j, second) in combinations(enumerate(counted), 2):
            if first and first == second:
                rows[i] |= 1 << j
                rows[j] |= 1 << i
        return rows


def _are_in_scope(first: MemoryEvent, second: MemoryEvent) -> bool:
    if not (first.is_strong and second.is_strong):
        return False
    shared = max(SHARED_BY[first.scope], SHARED_BY[second.scope])
    return first.place[:shared] == second.place[:shared]
