"""crossover_of(): what every way gains at every M of a range, and which one to take from where on.

Example: of GPT-3's MLP in 128x256 tiles on an H200 Stream-K gains 38 points at M = 128, nothing pays at 640,
and from 641 on row semaphores gain 27. Grids change every 128 rows: 32 sizes say all there is up to 4,096.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.predict.forecast import Forecast
from wavesim.predict.known_costs import KnownCosts
from wavesim.predict.recommendation import ORDERS as ALL_ORDERS
from wavesim.predict.recommendation import SLICES_LAST, usual_basis, verdict_on
from wavesim.safe_io.annotated import require_types
from wavesim.safe_io.bounds import real
from wavesim.safety.verdict import Basis, require_basis
from wavesim.trace.trace import Trace
from wavesim.tuning.batches import answered, worker_count
from wavesim.tuning.crossover.family import KernelFamily, family_costs
from wavesim.tuning.crossover.gains import (
    ORDERS,
    ComparedPlan,
    SizeQuestion,
    accepted_ways,
    gains_of,
    question_of,
    recommended,
    simulated,
    ways_of,
)
from wavesim.tuning.crossover.table import MARGIN_POINTS, TableRow, table_of

MOST_AT_ONCE = (
    64  # cells that are all simulated; of more, some first, and then those between which ways differ
)
TILES_WORTH_A_PROCESS = 200_000  # of simulation: some two seconds; starting workers takes half of one


@dataclass(frozen=True)
class SizeGains:
    """Ways' gains at M from `m_from` to `m_to`, where no grid changes.

    `asked`: the way recommended for the kernels as they were described, where these are of that size.
    """

    m_from: int
    m_to: int
    gains: Mapping[ComparedPlan, Forecast]
    asked: ComparedPlan | None = None

    @cached_property
    def best(self) -> ComparedPlan:
        """The way to run: what a recommendation for this size says."""
        return self.asked or recommended(self.gains)


@dataclass(frozen=True)
class Crossover:
    """Gains of all ways over stream sync at the sizes that were simulated, and the table that follows.

    `left_out` says which ways were not tried, and why. Not complete after an interrupt: the table is then of
    the sizes that are done. `lost_workers` ended before their time; what they had was done again.
    """

    family: str
    device: str
    m_from: int
    m_to: int
    sizes: tuple[SizeGains, ...]
    table: tuple[TableRow, ...]
    left_out: tuple[str, ...] = ()
    lost_workers: tuple[str, ...] = ()
    seconds: float = 0.0
    is_complete: bool = True

    @property
    def forecast(self) -> Forecast:
        """The largest gain of the table's ways, with what all of them rest on."""
        chosen = [
            size.gains[row.way]
            for row in self.table
            for size in self.sizes
            if row.m_from <= size.m_to <= row.m_to and row.way in size.gains
        ]
        return max(chosen, key=lambda gain: gain.points)

    @property
    def ways(self) -> tuple[ComparedPlan, ...]:
        """All that were tried."""
        return tuple(dict.fromkeys(way for size in self.sizes for way in size.gains))

    def pays_from(self, way: ComparedPlan, least_points: float = 1.0) -> int | None:
        """The least M at which a way gains so many points over stream sync; None if nowhere."""
        return next(
            (
                size.m_from
                for size in self.sizes
                if way in size.gains and size.gains[way].points >= least_points
            ),
            None,
        )


@dataclass
class _Search:
    """Which cells are simulated, and what came out, for one call."""

    family: KernelFamily
    device: Device
    ways: tuple[ComparedPlan, ...]
    cells: list[tuple[int, int]]
    asked: ComparedPlan | None
    simulated: dict[int, SizeGains] = field(default_factory=dict)

    def question(self, index: int) -> SizeQuestion:
        m = self.cells[index][1]
        return question_of(self.family.pipeline(m), self.device, self.ways, self.known(index))

    def known(self, index: int) -> KnownCosts:
        """The costs of a cell."""
        return family_costs(self.family, self.cells[index][1], self.device)

    def size(self, index: int, traces: Sequence[Trace | None]) -> SizeGains:
        """What came out at a cell."""
        first, last = self.cells[index]
        is_described = self.asked is not None and self.family.is_described(last)
        gains = gains_of(self.ways, traces, self.known(index))
        return SizeGains(first, last, gains, self.asked if is_described else None)

    def wanted(self) -> list[int]:
        """Cells to simulate next: first some over all, then halfway where the best way changes."""
        if not self.simulated:
            return _spread(len(self.cells))
        known = sorted(self.simulated)
        return [
            (low + high) // 2
            for low, high in pairwise(known)
            if high - low > 1 and self.simulated[low].best != self.simulated[high].best
        ]


def _spread(count: int) -> list[int]:
    """All of few; of many the first ones, and on from there in steps that grow with them."""
    if count <= MOST_AT_ONCE:
        return list(range(count))
    ratio = (count - 1) ** (1 / (MOST_AT_ONCE - 1))
    return sorted({0, count - 1, *(min(count - 1, round(ratio**step)) for step in range(MOST_AT_ONCE))})


def crossover_of(
    family: KernelFamily,
    device: Device,
    rows: tuple[int, int] = (1, 4096),
    *,
    ways: Sequence[ComparedPlan] | None = None,
    accept: str | None = None,
    margin_points: float = MARGIN_POINTS,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Crossover:
    """Simulates every way at every M at which a grid changes, and says which one to take from where on.

    `rows` are the first and the last M.
    A way is left for another only where that gains `margin_points` more, so that tables do not flicker.
    `accept`: the weakest basis that a way's safety may have, `usual_basis` of the device if not given.
    Without `ways` a user's own kernels are tried in all that `recommend` tries, and at the size at which they
    were described the table has what it recommends. After Ctrl-C the table is of the sizes that are
    finished, where any is. Raises `DescriptionError`.
    """
    began = time.monotonic()
    require_types("crossover_of", family=(family, KernelFamily), device=(device, Device))
    require_types("crossover_of", executor=(executor, Executor | None), progress=(progress, Callable | None))
    margin = real("margin", margin_points, 0.0, 100.0)
    basis = usual_basis(device) if accept is None else require_basis(accept)
    m_from, m_to = rows
    cells = family.cells(m_from, m_to)
    asked = None if ways is not None or family.timed is None else _asked(family.timed, device, basis)
    tried = ways or ways_of(orders=ORDERS if family.timed is None else ALL_ORDERS)
    kept, left_out = accepted_ways(family.pipeline(cells[-1][1]), device, tried, basis)
    search, lost = _Search(family, device, kept, cells, asked), list[str]()
    is_complete = _run(search, executor, progress, lost)
    if not search.simulated:
        raise KeyboardInterrupt  # before the first size there is no table to return
    sizes = tuple(search.simulated[index] for index in sorted(search.simulated))
    return Crossover(
        family.name,
        device.name,
        m_from,
        m_to,
        sizes,
        table_of(sizes, m_from, m_to, margin),
        left_out,
        tuple(lost),
        time.monotonic() - began,
        is_complete,
    )


def _asked(timed: tuple[Pipeline, Mapping[str, int]], device: Device, accept: Basis) -> ComparedPlan:
    """What is recommended for the kernels as they were described."""
    plan = verdict_on(timed[0], device, timed[1], accept=accept).option.plan
    return ComparedPlan(plan.name, plan.order.name.removeprefix(SLICES_LAST))


def _run(
    search: _Search,
    executor: Executor | None,
    progress: Callable[[int, int], None] | None,
    lost: list[str],
) -> bool:
    """Answers what the search wants until it wants no more. Returns whether nobody interrupted it."""
    tell = progress or (lambda _done, _total: None)
    try:
        while wanted := search.wanted():
            questions = {index: search.question(index) for index in wanted}
            with closing(_answers(questions, executor, lost)) as answers:
                for index, traces in answers:
                    search.simulated[index] = search.size(index, traces)
                    tell(
                        len(search.simulated),
                        len(search.simulated) + len(questions) - len(questions.keys() & search.simulated),
                    )
    except KeyboardInterrupt:
        return False
    return True


def _answers(
    questions: Mapping[int, SizeQuestion], executor: Executor | None, lost: list[str]
) -> Generator[tuple[int, list[Trace | None]]]:
    tiles = sum(question.tiles for question in questions.values())
    if executor is None and (worker_count() == 1 or tiles < TILES_WORTH_A_PROCESS):
        yield from ((index, simulated(question)) for index, question in questions.items())
        return
    largest_first = sorted(questions.items(), key=lambda entry: -entry[1].tiles)
    for batch, traces in answered(_answer, [[entry] for entry in largest_first], executor, lost):
        yield batch[0][0], traces


def _answer(batch: Sequence[tuple[int, SizeQuestion]]) -> list[Trace | None]:
    ((_, question),) = batch
    return simulated(question)
