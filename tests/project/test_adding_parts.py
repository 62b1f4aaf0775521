"""A new schedule, launch or way to synchronise is a class and one registration line; nothing else changes.

Each test writes a throw-away part, registers it under a word, and uses the plan where users do: typed,
simulated, checked for deadlocks, saved and loaded, and tuned over.
"""

from dataclasses import dataclass
from typing import ClassVar

import pytest
from trace_invariants import violations

from wavesim import Plan, TileSync, device, simulate, toy, zero_cost
from wavesim.errors import DescriptionError
from wavesim.plan import parsing
from wavesim.plan.launch import Launch, LaunchTurn
from wavesim.plan.parsing import parse_plan, plan_data, plan_from_data
from wavesim.plan.schedule import Schedule, TilePart
from wavesim.plan.sync import Semaphores
from wavesim.safety.deadlock import safety_of
from wavesim.trace.trace import Trace
from wavesim.tuning.search import tune

TOY, FOUR_SMS = toy(), device("toy")
UNIT_NS = 1_000
COSTS = zero_cost(TOY, UNIT_NS)


@dataclass(frozen=True)
class FixedLists(Schedule):
    """Each resident block computes every n-th tile, decided before the launch."""

    is_split_persistent: ClassVar = True

    @property
    def word(self) -> str:
        return "fixed-lists"

    @property
    def text(self) -> str:
        return "fixed lists of tiles"

    def block_count(self, items, slots):
        return min(items, slots)

    def block_lists(self, tiles, iterations, slots):
        lists = [tiles[slot::slots] for slot in range(slots)]
        return [[TilePart(tile, 0, iterations, iterations) for tile in own] for own in lists if own]


@dataclass(frozen=True)
class Eager(Launch):
    """On one stream; a kernel's blocks are issued once all of the kernel before have started."""

    turn: ClassVar = LaunchTurn.AFTER_START

    @property
    def word(self) -> str:
        return "eager"

    @property
    def text(self) -> str:
        return "launched eagerly"

    @property
    def why_safe(self) -> str:
        return "blocks are issued in the order of the stages"


@dataclass(frozen=True)
class EachTile(Semaphores):
    """Tile semaphores under a word of their own."""

    @property
    def word(self) -> str:
        return "each"


def used_everywhere(text, tmp_path):
    """The trace of the plan that the words name, after what every plan goes through."""
    plan = parse_plan(text)
    assert parse_plan(plan.name) == plan
    assert plan_from_data(plan_data(plan)) == plan
    assert safety_of(TOY, plan, FOUR_SMS).is_safe
    trace = simulate(TOY, plan, FOUR_SMS, COSTS)
    assert violations(trace, TOY) == []
    trace.save(tmp_path / "new.npz")
    assert Trace.load(tmp_path / "new.npz").header.plan_data == plan_data(plan)
    assert plan in [found.plan for found in tune(TOY, FOUR_SMS, COSTS, plans=[Plan(), plan]).plans]
    return trace


def test_a_new_schedule_is_a_class_and_a_line(monkeypatch, tmp_path):
    with pytest.raises(DescriptionError, match="fixed-lists"):
        parse_plan("fixed-lists")
    monkeypatch.setitem(parsing.SCHEDULES, "fixed-lists", lambda setting: FixedLists())
    trace = used_everywhere("fixed-lists", tmp_path)
    # Six tiles on four SMs: the first two blocks have two tiles, in each of two stages.
    assert trace.makespan_ns == 4 * UNIT_NS
    assert sorted(trace.sm[trace.stage == 0]) == [0, 0, 1, 1, 2, 3]


def test_a_new_launch_is_a_class_and_a_line(monkeypatch, tmp_path):
    monkeypatch.setitem(parsing.LAUNCHES, "eager", lambda setting: Eager())
    trace = used_everywhere("eager+row", tmp_path)
    # The second stage's first tiles run beside the last two of the first: 12 tiles in three waves of four.
    assert trace.makespan_ns == simulate(TOY, parse_plan("pdl+row"), FOUR_SMS, COSTS).makespan_ns
    assert trace.makespan_ns < simulate(TOY, Plan(), FOUR_SMS, COSTS).makespan_ns


def test_a_new_way_to_synchronise_is_a_class_and_a_line(monkeypatch, tmp_path):
    monkeypatch.setitem(parsing.SYNCS, "each", lambda setting: EachTile(TileSync()))
    trace = used_everywhere("streams+each", tmp_path)
    assert trace.makespan_ns == simulate(TOY, parse_plan("tile"), FOUR_SMS, COSTS).makespan_ns
