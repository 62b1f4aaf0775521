"""The programs of this folder: what they are built over, how they are run, and what dropping an order does.

Example: `build_program("row", folder)` compiles semaphore_pipeline.cpp over three products under row
semaphores, and `run(program, 200_000, seed=1, dropped="add_release")` runs it without the release of posts.
"""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from host_sources import build

from wavesim.codegen.cuda import generate
from wavesim.model.accesses import Accesses
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.coverage import Precedence
from wavesim.plan.order import Grouped, Reversed, RowMajor
from wavesim.plan.parsing import plan_of_words
from wavesim.plan.plan import Plan, SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.plan.resolved import resolve
from wavesim.plan.schedule import Persistent
from wavesim.plan.sync import Semaphores
from wavesim.work.attention.decode import AttentionDecode
from wavesim.work.convolution import Conv2D
from wavesim.work.convolution.reads import conv_rows
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim.work.rows import Copy
from wavesim_gpu.cusync.waits import wait_schedule

RACE = 66  # exit status where ThreadSanitizer reports
KNOWN = Path(__file__).with_name("known_races.txt")
ROWS = plan_of_words("persistent", "streams", "row")
STREAMS = replace(ROWS, sync=Semaphores(TileSync()))


@dataclass(frozen=True)
class Program:
    """A source of this folder over a pipeline under a plan, and its macros."""

    source: str
    plan: Plan | None = None
    pipeline: Pipeline | None = None
    defines: tuple[str, ...] = ()
    has_wait_lists: bool = False

    def header(self) -> str:
        """The generated header, whose namespace is `pipeline`; empty without a plan.

        With wait lists: what the runner gives each stage, `pipeline::second_waits` of stage "second".
        """
        if self.plan is None or self.pipeline is None:
            return ""
        header = generate(self.pipeline, self.plan, load("h200"), "pipeline")
        return header + wait_lists(self.pipeline, self.plan) if self.has_wait_lists else header


def wait_lists(pipeline: Pipeline, plan: Plan) -> str:
    """C++ of what each tile and split of consuming stages awaits and when, as wait_schedule.cuh has it."""
    order, resolved, text = Precedence(Accesses(pipeline)), resolve(pipeline, plan), ""
    for stage in pipeline.stages:
        inputs = resolved.inputs(stage.name)
        if inputs:
            lists = wait_schedule(order, stage, inputs, by_tile=True)
            steps = ", ".join(f"{{{', '.join(map(str, step))}}}" for step in lists.steps.tolist())
            text += (
                f"namespace pipeline {{ struct {stage.name}_waits {{\n"
                f"static constexpr int steps[][4] = {{{steps}}};\n"
                f"static constexpr int first[] = {{{', '.join(map(str, lists.first.tolist()))}}};\n}}; }}\n"
            )
    return text


def products(tile: tuple[int, int], rows: int, widths: tuple[int, ...], split_k: int = 1) -> Pipeline:
    """A chain of products: tiles, rows of them, K of the first, then how many tiles wide each is."""
    columns = [widths[0], *(width * tile[1] for width in widths[1:])]
    names = ("first", "second", "third")[: len(columns) - 1]
    stages = [
        Stage(name, Gemm(name, rows * tile[0], columns[i + 1], columns[i], *tile, 64, split_k=split_k))
        for i, name in enumerate(names)
    ]
    return Pipeline("pipeline", stages, [gemm_rows(*pair) for pair in pairwise(stages)])


def decode_chain() -> Pipeline:
    """A copy by rows, decode of 68 cached keys and its own in two splits, and a copy of that."""
    sequences, heads, kv_heads, size = 4, 8, 2, 64
    packed, out = (heads + 2 * kv_heads) * size, heads * size
    first, third = (
        Stage(name, Copy(name, sequences, columns, 1, columns))
        for name, columns in (("first", packed), ("third", out))
    )
    work = AttentionDecode("second", sequences, 68, heads, kv_heads, size, 2, tile_n=16, appends=True)
    second = Stage("second", work)
    needs = [Dependency(second[x, y], [first[0, y]]), Dependency(third[x, y], [second[:, y]])]
    return Pipeline("pipeline", [first, second, third], needs)


def conv_block() -> Pipeline:
    """Three 3 x 3 convolutions of ragged images, channels and tiles; the third adds what the first makes."""
    fields = {"split_k": 1, "tile_k": 32, "block": Block(64), "activation": "relu"}
    made = {
        "first": Conv2D("first", 3, 3, 16, 24, 40, 32, 64, **fields),
        "second": Conv2D("second", 3, 3, 16, 40, 40, 32, 64, **fields | {"split_k": 2}),
        "third": Conv2D("third", 3, 3, 16, 40, 40, 32, 64, **fields, has_residual=True),
    }
    first, second, third = (Stage(name, work) for name, work in made.items())
    return Pipeline(
        "pipeline", [first, second, third], [conv_rows(first, second), conv_rows(second, third, first)]
    )


PIPELINE = products((64, 64), 4, (64, 4, 3, 2))
# The second begins where the first ends, so that its blocks wait in earnest: for tiles that are being made.
# Waits for tiles that were made long before could be dropped for hundreds of rounds unseen.
REVERSED = {"second": Reversed(RowMajor())}
CONV_PLAN = SemaphoreSync(TileSync(), orders=REVERSED)
PROGRAMS: Mapping[str, Program] = {
    "ring": Program("semaphore_ring"),
    "row": Program("semaphore_pipeline", SemaphoreSync(RowSync(), orders=REVERSED), PIPELINE),
    # Semaphores that one tile posts, and positions that blocks fetch.
    "tile": Program(
        "semaphore_pipeline", SemaphoreSync(TileSync(), order=Grouped(2), orders=REVERSED), PIPELINE
    ),
    # Row kernels whose blocks take tile after tile, and splits of which the last to come merges all.
    "decode": Program("decode_chain", ROWS, decode_chain()),
    # Convolutions that wait for their halo tap by tap, in splits of the taps, and for a residual.
    "conv": Program("conv_chain", CONV_PLAN, conv_block(), has_wait_lists=True),
    # Two warpgroups, and tiles whose K two blocks share.
    "split": Program(
        "persistent_gemm",
        STREAMS,
        products((128, 128), 3, (192, 3, 2), 2),
        ("CONFIG=TileConfig<2,1,128,2,1>", "FUSED=0", "WITH_RESIDUAL=0", "IS_SHORT=0"),
    ),
    # As convolutions have it: looks that acquire, splits counted as they begin, blocks that retire early.
    "short": Program(
        "persistent_gemm",
        STREAMS,
        products((128, 128), 3, (192, 3, 2), 2),
        ("CONFIG=TileConfig<2,1,128,2,1>", "FUSED=0", "WITH_RESIDUAL=0", "IS_SHORT=1"),
    ),
    # The mailbox: one block of two fetches work for both.
    "cluster": Program(
        "persistent_gemm",
        STREAMS,
        products((64, 128), 3, (192, 3, 2)),
        ("CONFIG=TileConfig<1,1,128,3,2,2>", "FUSED=0", "WITH_RESIDUAL=0", "IS_SHORT=0"),
    ),
    # TMA loads what the first product made into the epilogue buffers of the second.
    "residual": Program(
        "persistent_gemm",
        STREAMS,
        products((128, 128), 3, (192, 3, 3)),
        ("CONFIG=TileConfig<2,1,128,3,2>", "FUSED=0", "WITH_RESIDUAL=1", "IS_SHORT=0"),
    ),
    "fused": Program(
        "persistent_gemm",
        Plan(Persistent(fused=True), sync=Semaphores(TileSync())),
        products((128, 128), 3, (192, 3, 2)),
        ("CONFIG=TileConfig<2,1,128,3,2>", "FUSED=1", "WITH_RESIDUAL=0", "IS_SHORT=0"),
    ),
}
# What is dropped, in which program: an order of an instruction, a barrier or a wait, by its function. "halo":
# waits for other rows of tiles than the consumer's own.
DROPPED = (
    ("row", "add_release"),
    ("tile", "store_release"),
    ("row", "load_acquire"),
    ("tile", "acquire_fence"),
    ("row", "fetch_add_acq_rel acquire"),
    ("row", "fetch_add_acq_rel release"),
    ("tile", "begin"),
    ("row", "wait"),
    ("row", "wait_for"),
    ("row", "finish"),
    ("decode", "for_each_tile"),
    ("decode", "is_last_split"),
    ("decode", "decode"),
    ("decode", "wait_copies"),
    ("conv", "accumulate"),
    ("conv", "reduce_splits"),
    ("conv", "wait_copies"),
    ("conv", "halo"),
    ("split", "arrive"),
    ("split", "try_wait"),
    ("split", "test_wait"),
    ("split", "count_stored acquire"),
    ("split", "count_stored release"),
    ("split", "mma_barrier"),
    ("split", "cluster_barrier"),
    ("split", "wait_read"),
    ("split", "wait_stored"),
    ("split", "wgmma_wait"),
    ("split", "add_release"),
    ("short", "load_acquire"),
    ("split", "acquire_fence"),
    ("ring", "add_release"),
    ("ring", "store_release"),
    ("ring", "load_acquire"),
    ("ring", "acquire_fence"),
    ("ring", "fetch_add_acq_rel release"),
    ("cluster", "arrive_remote"),
    ("cluster", "store_remote"),
)
# What no host can show, and where it is shown or why nothing is to be shown.
ELSEWHERE = {
    "fence_proxy": "proxies: tests of the memory model",
    "fence_proxy_shared": "proxies: tests of the memory model",
    "fence_proxy_global": "proxies: tests of the memory model",
    "fence_init": "barriers for the async proxy: tests of the memory model",
    "arrive_and_expect_tx": "no data rides on it: what fills the slot comes by TMA",
}


@dataclass(frozen=True)
class Result:
    """What a run printed last, and the races that were reported."""

    rounds: int
    operations: int
    wrong: int
    aborted: int
    races: tuple[str, ...]


def build_program(name: str, folder: Path) -> Path:
    """Compiles one of `PROGRAMS`; `folder` is for all that is made."""
    program = PROGRAMS[name]
    return build(program.source, folder, program.header(), *program.defines)


def run(program: Path, operations: int, seed: int, dropped: str = "", *, timeout_s: float = 120) -> Result:
    """One run of so many operations. Where an order is dropped it ends at the first race.

    Where posts are left out ("... whole") waits give up, and the races of `KNOWN` are not reported.
    """
    options = f"exitcode={RACE}"
    if dropped.endswith(" whole"):
        options += f" suppressions={KNOWN} print_suppressions=0"
    elif dropped:
        options += " halt_on_error=1"
    command = [program, str(operations), str(seed), *([dropped] if dropped else [])]
    environment = {**os.environ, "TSAN_OPTIONS": options}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=timeout_s, check=False
    )
    races = tuple(line for line in done.stderr.splitlines() if line.startswith("SUMMARY: ThreadSanitizer"))
    if done.returncode not in (0, 1, RACE):
        raise RuntimeError(f"{program.name} {dropped}: exit {done.returncode}\n{done.stderr[:4000]}")
    words = done.stdout.split() or ["0"] * 4
    return Result(*map(int, words), races)
