"""The page's own simulator against wavesim's engine: each block on the same SM at the same nanoseconds."""

import json
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from wavesim import CostModel, Dependency, Grid, Kernel, Pipeline, Stage, device, simulate, x, y
from wavesim.model.kernel import Block
from wavesim.plan.parsing import parse_plan

SCRIPT = Path(__file__).parents[3] / "wavesim" / "widgets" / "pair_simulator.js"
PLANS = {"stream": "stream", "row": "pdl+row", "tile": "pdl+tile"}
CASES = 400
RUN = """
const specs = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const told = specs.map((spec) => {
  const { blocks, waits, makespanNs } = simulatePair(spec);
  return { makespanNs, blocks: blocks.map((b) => [b.kernel, b.x, b.y, b.sm, b.slot, b.issue, b.end, b.wait]),
    waits: waits.map((w) => [w.block, w.semaphore, w.start, w.end]) };
});
process.stdout.write(JSON.stringify(told));
"""


def specs():
    """Sizes, times and costs of every kind: ties, one SM, one tile, more slots than blocks."""
    chance = random.Random(42)
    for _ in range(CASES):
        kernels = [
            {
                "columns": chance.choice((1, 2, 3, 5, 8, 13)),
                "ns": chance.choice((1, 7, 100, 1_000, 1_001, 33_333)),
                "perSm": chance.choice((1, 1, 1, 2, 3, 4)),
            }
            for _ in range(2)
        ]
        yield {
            "sms": chance.choice((1, 2, 4, 7, 12, 33)),
            "rows": chance.choice((1, 2, 3, 4, 9)),
            "kernels": kernels,
            "gapNs": chance.choice((0, 0, 1, 900, 4_000)),
            "waitNs": chance.choice((0, 0, 1, 50, 600)),
            "policy": chance.choice(tuple(PLANS)),
        }


def by_the_engine(spec):
    """The same run in Python: warps are what an SM has too few of."""
    first, second = spec["kernels"]
    room = first["perSm"] * second["perSm"]
    limits = {"max_threads_per_sm": 32 * room, "max_threads_per_block": 32 * room}
    gpu = replace(device("h200"), sm_count=spec["sms"], **limits)
    stages = [
        Stage(
            f"k{number}",
            Kernel(
                f"k{number}",
                Grid(mine["columns"], spec["rows"]),
                Block(threads=32 * other["perSm"], registers=32),
                carveout="full",
            ),
        )
        for number, (mine, other) in enumerate(((first, second), (second, first)))
    ]
    pair = Pipeline("pair", stages, [Dependency(stages[1][x, y], [stages[0][:, y]])])
    costs = CostModel(
        {f"k{number}": kernel["ns"] for number, kernel in enumerate(spec["kernels"])},
        boundary_ns=spec["gapNs"],
        wait_ns=spec["waitNs"],
    )
    return simulate(pair, parse_plan(PLANS[spec["policy"]]), gpu, costs)


@pytest.fixture(scope="module")
def in_the_page():
    """What the page's script makes of every case, by Node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node, which runs the page's script without a browser")
    source = SCRIPT.read_text(encoding="utf-8") + RUN
    cases = list(specs())
    done = subprocess.run(
        [node, "-e", source], input=json.dumps(cases), capture_output=True, text=True, check=True, timeout=120
    )
    return list(zip(cases, json.loads(done.stdout), strict=True))


def test_every_block_runs_where_and_when_it_does_in_the_engine(in_the_page):
    for spec, told in in_the_page:
        trace = by_the_engine(spec)
        columns = (
            trace.stage,
            trace.x,
            trace.y,
            trace.sm,
            trace.slot,
            trace.issue_ns,
            trace.end_ns,
            trace.wait_ns,
        )
        ours = sorted(zip(*(column.tolist() for column in columns), strict=True))
        assert sorted(map(tuple, told["blocks"])) == ours, spec
        assert told["makespanNs"] == trace.makespan_ns, spec


def test_every_wait_that_lasts_is_the_engines(in_the_page):
    for spec, told in in_the_page:
        waits = by_the_engine(spec).waits
        theirs = (
            [] if waits is None else list(zip(waits.start_ns.tolist(), waits.end_ns.tolist(), strict=True))
        )
        assert sorted((start, end) for _, _, start, end in told["waits"]) == sorted(theirs), spec
