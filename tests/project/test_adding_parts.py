"""A new schedule, launch, way to synchronise or kind of work is a class and one line; a device is a file.

Each test writes a throw-away part, registers it under a word, and uses the plan where users do: typed,
simulated, checked for deadlocks, saved and loaded, and tuned over.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from trace_invariants import violations

from wavesim import Plan, TileSync, device, simulate, toy, zero_cost
from wavesim.cli.command_line import main
from wavesim.costs.device_costs import own_file
from wavesim.costs.layer_costs import costs_of_stages
from wavesim.errors import DescriptionError, RecordingError
from wavesim.model import device as devices
from wavesim.model.kernel import Block, Grid, Kernel, TiledWork
from wavesim.model.regions import Matrix, Read, Region, Write
from wavesim.plan import parsing
from wavesim.plan.launch import Launch, LaunchTurn
from wavesim.plan.parsing import parse_plan, plan_data, plan_from_data
from wavesim.plan.schedule import Schedule, TilePart
from wavesim.plan.sync import Semaphores
from wavesim.safety.deadlock import safety_of
from wavesim.safety.hazards import hazards_of
from wavesim.trace.trace import Trace
from wavesim.tuning.search import tune
from wavesim.view.display import pipeline_html
from wavesim.work import kinds
from wavesim.work.description.reader import load_description
from wavesim.work.description.writer import write_description
from wavesim.work.kind import WorkKind
from wavesim.work.law import BlockTimes, CostLaw, StageTimes

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


BLOCK = Block(256, 40)


@dataclass(frozen=True)
class Transpose(TiledWork):
    """out = x transposed, by square tiles."""

    word = "transpose"

    name: str
    m: int
    columns: int
    tile_m: int = 64
    dtype: str = "fp16"
    block: Block = BLOCK

    @property
    def kernel(self):
        grid = Grid(self.m // self.tile_m, self.columns // self.tile_m)
        return Kernel(self.name, grid, self.block, bytes_per_block=4 * self.tile_m**2)

    @property
    def operands(self):
        return {
            "x": Matrix(self.m, self.columns, self.dtype),
            "out": Matrix(self.columns, self.m, self.dtype, is_written=True),
        }

    def _tile(self, x, y):
        size = self.tile_m
        return Region(y * size, (y + 1) * size, x * size, (x + 1) * size)

    def reads(self, x, y, z):
        yield Read("x", self._tile(y, x))

    def writes(self, x, y):
        yield Write("out", self._tile(x, y))


BLOCK = Block(256, 40)


@dataclass(frozen=True)
class TransposeLaw(CostLaw):
    """Blocks that move bytes as those of row kernels do, twice as slowly."""

    section: ClassVar = "rows"

    block_bytes_per_s: float

    def times(self, stage, situation):
        return StageTimes(BlockTimes(loads_ns=2e9 * stage.kernel.bytes_per_block / self.block_bytes_per_s))


FIELDS = """
[stages.transpose]
unit = "table"
meaning = "a matrix turned over its diagonal; its `tile` is the rows of a square"
default = "no transpose"
example = "transpose = { rows = 1024, columns = 512 }"
[transpose.rows]
value = "m"
unit = "rows"
meaning = "of the input"
default = "required"
example = "rows = 1024"
[transpose.columns]
unit = "columns"
meaning = "of the input"
default = "required"
example = "columns = 512"
"""
PAIR = """
device = "h200"
[[stages]]
name = "up"
m = 1024
n = 512
k = 4096
tile = [128, 256, 64]
threads = 384
registers = 168
shared_bytes = 200000
kernel_us = 30.0
[[stages]]
name = "turn"
tile = [64]
transpose = { rows = 1024, columns = 512 }
threads = 256
registers = 40
shared_bytes = 0
kernel_us = 5.0
[[dependencies]]
consumer = "turn"
needs = ["up[y // 4, x // 2]"]
"""


@pytest.fixture
def register():
    yield kinds.register_kind
    kinds.KINDS.pop(Transpose.word, None)


def test_a_new_kind_of_work_is_a_folder_and_a_line(register, tmp_path, capsys):
    file = tmp_path / "pair.toml"
    file.write_text(PAIR)
    with pytest.raises(RecordingError, match=r"'stages\[1\].transpose' is unknown"):
        load_description(file)
    (tmp_path / "fields.toml").write_text(FIELDS)
    register(WorkKind(Transpose, tmp_path / "fields.toml", ("tile_m",), "[rows]", law=TransposeLaw))
    described = load_description(file)
    pipeline, turn = described.pipeline, described.pipeline.stages[1]
    assert turn.work == Transpose("turn", 1024, 512, block=BLOCK)
    again = load_description(write_description(tmp_path / "again.toml", described)).pipeline
    assert (again.stages[1], again.dependencies) == (turn, pipeline.dependencies)
    costs = costs_of_stages(pipeline, described.device)
    assert costs.tile_times(turn) == round(2e9 * 4 * 64**2 / law_of_rows(described.device.name))
    trace = simulate(pipeline, parse_plan("tile"), described.device, costs)
    assert violations(trace, pipeline) == []
    assert list(hazards_of(pipeline, parse_plan("tile"))) == []
    assert main(["compare", str(file), "--sync", "row", "--json"]) == 0
    assert "turn" in capsys.readouterr().out
    assert "turn" in pipeline_html(pipeline)
    (tmp_path / "wrong.toml").write_text(PAIR.replace("columns = 512", "column = 512"))
    with pytest.raises(RecordingError, match=r"transpose.column' is unknown; known are rows, columns"):
        load_description(tmp_path / "wrong.toml")


def law_of_rows(device_name):
    return own_file(device_name).constants["rows.block_bytes_per_s"].value


def test_a_new_device_is_a_file(tmp_path):
    text = (Path(devices.device_files.FOLDER) / "h200.toml").read_text()
    (tmp_path / "mine.toml").write_text(text.replace("sm_count = 132", "sm_count = 66"))
    mine = device(str(tmp_path / "mine.toml"))
    trace = simulate(TOY, parse_plan("row"), mine, COSTS)
    assert (mine.sm_count, trace.header.sm_count) == (66, 66)
