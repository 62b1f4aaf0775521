"""A what-if on blocks that stay: SMs, rows of a block, batches in flight, the barrier, which SM gets what.

Example: WaveRNN's 64 blocks on 40 SMs, five batches in flight, launched anew in every cycle above, staying
below with a barrier of 0.8 us. With 96 rows a block and a balanced mapping no SM of a T4 has two blocks of R.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wavesim.labs.wavernn import (
    BATCH,
    BYTES,
    LAYERS,
    STEPS,
    BlockRows,
    Dtype,
    StepCosts,
    StepCycle,
    Way,
    estimated_costs,
    in_flight,
    published_device,
    rotated,
    trace_of,
)
from wavesim.model import device as devices
from wavesim.model.device import Device, default_device
from wavesim.plan.order import Order, RowMajor
from wavesim.safe_io.bounds import whole
from wavesim.trace.trace import Trace
from wavesim.view.timeline_data import TimelineParts
from wavesim.widgets.explorer import menu, require_offered, slider
from wavesim.widgets.plans_what_if import PlansWhatIf

MOST_SMS, MOST_BARRIER_NS, SHOWN_CYCLES = 160, 100_000, 8
NUMBERED, BALANCED = "as numbered", "balanced"
MAPPINGS = (NUMBERED, BALANCED)
ROWS, BARRIERS_NS = (32, 48, 64, 96, 128), tuple(range(0, 3001, 100))
TRIED = 2  # every second block is tried as the first


@dataclass(frozen=True)
class StayingScenario:
    """One setting of all controls. Raises `DescriptionError` for a value that cannot be."""

    device: str = field(default_factory=lambda: published_device().name)
    sms: int = 40
    dtype: Dtype = "int8"
    recurrent_rows: int = 64
    batches: int = 5
    barrier_ns: int = 800
    mapping: str = NUMBERED

    def __post_init__(self) -> None:
        whole("sms", self.sms, 1, MOST_SMS)
        whole("batches", self.batches, 1, len(LAYERS))
        whole("barrier_ns", self.barrier_ns, 0, MOST_BARRIER_NS)
        require_offered("dtype", self.dtype, tuple(BYTES))
        require_offered("mapping", self.mapping, MAPPINGS)

    @property
    def cut(self) -> BlockRows:
        """Rows of a block. Raises `DescriptionError`."""
        return BlockRows(self.recurrent_rows, 64)

    @property
    def used_device(self) -> Device:
        """With as many SMs as are asked for."""
        return devices.load(self.device).with_sm_count(self.sms)

    @property
    def costs(self) -> StepCosts:
        """The parts, with the barrier that is asked for; a block's part by the whole device's data sheet."""
        known = estimated_costs(devices.load(self.device), self.dtype, self.cut)
        return replace(known, barrier_ns=self.barrier_ns)

    def cycles(self, steps: int = STEPS) -> list[StepCycle]:
        """Of all steps of the batches in flight."""
        return in_flight(self.batches, steps)


@dataclass(frozen=True, eq=False)
class StayingAnswer:
    """The first cycles of both ways, and what a step of eight sequences takes in the long run, in ns."""

    scenario: StayingScenario
    launched: Trace
    stays: Trace
    launched_ns: float
    stays_ns: float


def staying_answer(scenario: StayingScenario) -> StayingAnswer:
    """Both ways of a scenario. Raises `DescriptionError`."""
    order = _order(scenario)
    shown = scenario.cycles()[:SHOWN_CYCLES]
    return StayingAnswer(
        scenario,
        _named(_trace(scenario, shown, "pipeline", order), "launched in every cycle"),
        _named(_trace(scenario, shown, "both", order), "blocks stay, barrier in every cycle"),
        _step_ns(scenario, "pipeline", order),
        _step_ns(scenario, "both", order),
    )


def _trace(scenario: StayingScenario, cycles: list[StepCycle], way: Way, order: Order) -> Trace:
    return trace_of(cycles, way, scenario.used_device, scenario.costs, scenario.cut, order=order)


def _step_ns(scenario: StayingScenario, way: Way, order: Order) -> float:
    """One step of one batch where the pipeline is full: five cycles, which all batches in flight share."""
    steady = scenario.cycles(3)[len(LAYERS) : 2 * len(LAYERS)]
    each = {cycle: _trace(scenario, [cycle], way, order).makespan_ns for cycle in set(steady)}
    between = scenario.costs.between_ns(way)
    return sum(each[cycle] + between for cycle in steady) / scenario.batches


def _order(scenario: StayingScenario) -> Order:
    """Which block is issued first: the first, or whichever makes a full cycle shortest."""
    if scenario.mapping == NUMBERED:
        return RowMajor()
    full = max(scenario.cycles(3), key=lambda cycle: len(cycle.blocks(scenario.cut)))
    orders = [rotated(first) for first in range(0, len(full.blocks(scenario.cut)), TRIED)]
    return min(orders, key=lambda order: _trace(scenario, [full], "both", order).makespan_ns)


def _named(trace: Trace, label: str) -> Trace:
    return replace(trace, header=replace(trace.header, plan_label=label))


def sequences_per_ms(step_ns: float) -> float:
    """Steps of single sequences in a millisecond, eight to a batch."""
    return BATCH * 1e6 / step_ns


class StayingWhatIf(PlansWhatIf):
    """Blocks that are launched in every cycle, above those that stay."""

    scenario_type = StayingScenario

    def _controls(self, first: StayingScenario) -> tuple[Any, ...]:
        known = dict.fromkeys((published_device().name, default_device().name, first.device))
        rows, barriers = ({*ROWS, first.recurrent_rows}, {*BARRIERS_NS, first.barrier_ns})
        return (
            {
                "device": menu("Device", known, first.device),
                "sms": slider("SMs", first.sms, 8, MOST_SMS, continuous_update=False),
                "recurrent_rows": menu("Rows of a block of R", sorted(rows), first.recurrent_rows),
                "batches": slider("Batches in flight", first.batches, 1, len(LAYERS)),
                "barrier_ns": menu("Barrier (ns)", sorted(barriers), first.barrier_ns),
                "mapping": menu("Mapping", MAPPINGS, first.mapping),
            },
        )

    def _timelines(self) -> Sequence[Trace]:
        self.answer = staying_answer(self.scenario)
        return self.answer.launched, self.answer.stays

    def _panels(self, parts: TimelineParts) -> TimelineParts:
        """One kernel boundary is marked, and between the lower timeline's cycles lies none."""
        launched, stays = parts.panels
        first = replace(launched, boundaries_ns=launched.boundaries_ns[:1])
        return replace(parts, panels=(first, replace(stays, boundaries_ns=())))

    def _words(self) -> tuple[str, str]:
        answer = self.answer
        launched, stays = sequences_per_ms(answer.launched_ns), sequences_per_ms(answer.stays_ns)
        finding = (
            f"{answer.scenario.cut.all_blocks} blocks on {answer.scenario.sms} SMs, "
            f"{answer.scenario.batches} batches of 8 in flight: {launched:,.0f} samples per millisecond "
            f"where blocks are launched in every cycle, {stays:,.0f} where they stay, "
            f"{answer.launched_ns / answer.stays_ns:.2f} times as many."
        )
        return finding, f"Simulated: {answer.scenario.costs.source}. Shown: the first cycles."
