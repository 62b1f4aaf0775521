"""generate_triton(): a Python module of Triton functions for a pipeline's tile orders, waits and posts.

Example: for two GEMMs under row semaphores the module has `gemm1_tile(sync)` and `gemm1_post(sync, x, y)` for
the first kernel, `gemm2_tile(sync)` and `gemm2_wait(sync, x, y)` for the second, and
`gemm2_tile_when_ready(sync)`, which is both. `sync` is one int32 buffer: a report of the first wait that ran
out of time, counters, semaphores, and tables where no formula says them.
"""

import re
import textwrap
from collections.abc import Sequence
from itertools import chain

from wavesim.codegen.formulas import fitted_formula, order_formula
from wavesim.codegen.tile_map import fit_map
from wavesim.codegen.triton_primitives import PRIMITIVES
from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Order, SlicesLast
from wavesim.plan.plan import Plan, check_plan
from wavesim.plan.policy import SemaphoreTable
from wavesim.plan.resolved import resolve
from wavesim.plan.semaphores import SemaphoreArray
from wavesim.plan.waits import position_in_slice, waits_of
from wavesim.safe_io.escaping import cuda_comment, identifier

REPORT_WORDS = 8  # limit in looks; gave up; then stage, column, row, word of the semaphore, seen, awaited
Awaited = tuple[tuple[int, int], ...]  # (word in the buffer, value) of every semaphore that a tile waits for


def generate_triton(pipeline: Pipeline, plan: Plan) -> str:
    """The module's text. It imports triton and nothing else; its constants say how to lay out the buffer.

    Raises `DescriptionError` for plans that do not fit the pipeline, and for split-K stages, kernels that
    fetch tiles (persistent, Stream-K) and stages whose names become the same in Python.
    """
    check_plan(pipeline, plan)
    _require_plain(pipeline, plan)
    return _Module(pipeline, plan).text()


def function_name(stage: str, what: str) -> str:
    """What the module calls a stage's function: `gemm1_wait`, and `up_1_wait` of a stage called `up-1`."""
    return f"{identifier(stage)}_{what}"


def _require_plain(pipeline: Pipeline, plan: Plan) -> None:
    if plan.schedule.is_persistent:
        raise DescriptionError(
            f"{plan.label}: Triton kernels compute a tile per program here. Use schedule=TilePerBlock()"
        )
    for stage in pipeline.stages:
        if stage.grid.z > 1:
            raise DescriptionError(
                f"stage {stage.name} splits K {stage.grid.z} ways; the Triton functions know whole tiles. "
                "Use grid.z = 1"
            )
    words = [identifier(stage.name) for stage in pipeline.stages]
    for name, word in zip((stage.name for stage in pipeline.stages), words, strict=True):
        if words.count(word) > 1:
            raise DescriptionError(
                f"pipeline {pipeline.name}: two stages are {word} in Python; rename {name!r}"
            )


LAUNCH_NOTE = (
    "# Compile and load all of them before the first run, on streams of the default priority, and let each",
    "# ask for the largest shared-memory carve-out: cuFuncSetAttribute(compiled.function,",
    "# CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100). Without that the plan can deadlock;",
    "# wavesim_gpu.triton.Synchronised sees to it.",
)


class _Module:
    """One module's text, and the tables that it needs."""

    def __init__(self, pipeline: Pipeline, plan: Plan) -> None:
        self._pipeline, self._plan = pipeline, plan
        self._resolved = resolve(pipeline, plan)
        self._arrays = self._resolved.arrays
        self._first = REPORT_WORDS + len(pipeline.stages)
        self._counters = self._first + self._resolved.semaphore_count
        self._tables: list[int] = []

    def text(self) -> str:
        """All of it. Stages come first, as they fill the tables."""
        self._require_ends()
        stages = list(chain.from_iterable(map(self._stage, self._pipeline.stages)))
        orders = ", ".join(
            f"{stage.name} {self._plan.order_of(stage.name).name}" for stage in self._pipeline.stages
        )
        title = cuda_comment(f"{self._pipeline.name}: {self._plan.label}. Orders: {orders}.")
        head = [
            f"# {title}",
            "# Written by wavesim; change the description and write it again, not this file.",
            "# `sync` is one int32 buffer: how often a wait looks before it gives up (a look takes 0.32 us",
            "# or more), zeros up to COUNTERS, TABLES. After a wait gave up word 1 is not 0; then stage,",
            "# column, row, word of the semaphore, seen, awaited.",
            *self._launch_lines(),
            "",
            "import triton",
            "import triton.language as tl",
            "",
            f"COUNTERS = {self._counters}  # words before the tables; after the report zero before a run",
            "TABLES = (",
            *textwrap.wrap(
                "".join(f"{number}, " for number in self._tables),
                100,
                initial_indent="    ",
                subsequent_indent="    ",
            ),
            ")",
            "",
            PRIMITIVES,
        ]
        return "\n".join([*head, *stages]).rstrip() + "\n"

    def _launch_lines(self) -> list[str]:
        """How the plan launches the kernels, as comments. A grid has one program per tile."""
        lines = []
        for index, stage in enumerate(self._pipeline.stages):
            how = "behind what is on the stream"
            if self._arrays and self._resolved.turns[index].is_early:
                how = "with launch_pdl=True"
            elif index and self._plan.launch.is_multi_stream:
                start = function_name(stage.name, "wait_for_start")
                held = f", behind {start}[(1,)](sync, num_warps=1)" if self._plan.launch.wait_kernel else ""
                how = f"on a stream of its own{held}"
            lines.append(f"# Launch {cuda_comment(stage.name)}: {stage.grid.size} programs, {how}.")
        if self._arrays and self._plan.launch.is_multi_stream:
            lines += LAUNCH_NOTE
        return lines

    def _require_ends(self) -> None:
        """Refuses dependent launches that can end before the kernel that they were launched beside.

        What the stream does next waits for the dependent kernel alone. A kernel all of whose tiles it waited
        for has posted them by then, and touches nothing more.
        """
        stages = self._pipeline.stages
        for index in range(1, len(stages)):
            if not self._arrays or not self._resolved.turns[index].is_early:
                continue
            before, stage = stages[index - 1].name, stages[index]
            awaited = {word for x, y in stage.grid for word, _ in self._awaited(stage, x, y)}
            posted = {
                self._first + array.first + i
                for array in self._resolved.outputs(before)
                for i in range(array.table.count)
            }
            if posted - awaited:
                raise DescriptionError(
                    f"{self._plan.label}: {stage.name} does not wait for all tiles of {before}, so it may "
                    f"end while {before} still runs, and CUDA takes that for the end of both. Use "
                    "launch=StreamPerStage()"
                )

    def _stage(self, stage: Stage) -> list[str]:
        lines = self._tile_lines(stage)
        outputs = self._resolved.outputs(stage.name)
        if outputs:
            lines += self._post_lines(stage, outputs)
        if self._arrays and self._pipeline.dependency_of(stage.name) is not None:
            lines += self._wait_lines(stage)
            lines += self._ready_lines(stage)
            if self._plan.launch.wait_kernel:
                lines += self._start_lines(stage)
        return lines

    def _function(
        self, stage: Stage, what: str, parameters: str, said: str, body: Sequence[str]
    ) -> list[str]:
        return [
            "@triton.jit",
            f"def {function_name(stage.name, what)}({parameters}):",
            f'    """{said}"""',
            *(f"    {line}" for line in body),
            "",
            "",
        ]

    def _tile_lines(self, stage: Stage) -> list[str]:
        order, index = self._plan.order_of(stage.name), self._pipeline.stages.index(stage)
        fetch = f'tl.atomic_add(sync + {REPORT_WORDS + index}, 1, sem="relaxed", scope="gpu")'
        # A launch of too many programs is refused after it has run: until then they all take the last tile.
        body = [f"place = tl.minimum({fetch}, {stage.grid.size - 1})"]
        if self._plan.launch.is_dependent and self._pipeline.consumers_of(stage.name):
            body.insert(0, "tl.extra.cuda.gdc_launch_dependents()")
        body += [*self._place_lines(stage, order), "return x, y"]
        said = "Column and row of this program's tile: programs take tiles in the order in which they start."
        return self._function(stage, "tile", "sync", said, body)

    def _place_lines(self, stage: Stage, order: Order) -> list[str]:
        inner = order.order if isinstance(order, SlicesLast) else order
        formula = order_formula(inner)
        if formula is None:
            numbers = [y * stage.grid.x + x for x, y in order.sequence(stage.grid)]
            tile = f"tile = tl.load(sync + {self._table(numbers)} + place)"
            return [tile, f"x = tile % {stage.grid.x}", f"y = tile // {stage.grid.x}"]
        extents = {"columns": stage.grid.x, "rows": stage.grid.y}
        return [line for text in formula for line in _statements(_in_python(text, extents))]

    def _post_lines(self, stage: Stage, outputs: Sequence[SemaphoreArray]) -> list[str]:
        posts = [
            f'tl.atomic_add(sync + {self._semaphore(array)}, 1, sem="release", scope="gpu")'
            for array in outputs
        ]
        body = [
            "tl.debug_barrier()  # all warps have stored: the release that follows covers their stores",
            *posts,
        ]
        said = (
            "The tile is there. After the last tl.store of it; not after stores through a tensor descriptor."
        )
        return self._function(stage, "post", "sync, x, y", said, body)

    def _semaphore(self, array: SemaphoreArray) -> str:
        first, fitted = self._first + array.first, fit_map(array.table, array.grid)
        if fitted is not None:
            return f"{first} + {_in_python(fitted_formula(fitted, array.grid).semaphore, {})}"
        place = self._table(array.table.semaphore_of_tile)
        return f"{first} + tl.load(sync + {place} + y * {array.grid.x} + x)"

    def _wait_lines(self, stage: Stage) -> list[str]:
        waits = [self._awaited(stage, x, y) for x, y in stage.grid]
        index = self._pipeline.stages.index(stage)
        said = "Until all that tile (x, y) reads is there. Returns -0.0, or NaN if time ran out: add it."
        return self._function(stage, "wait", "sync, x, y", said, self._wait_body(stage, waits, index))

    def _ready_lines(self, stage: Stage) -> list[str]:
        """Tile and wait in one call: a line less to change in a kernel that does nothing between them."""
        tile, wait = (function_name(stage.name, what) for what in ("tile", "wait"))
        body = [f"x, y = {tile}(sync)", f"return x, y, {wait}(sync, x, y)"]
        said = "This program's tile, once all that it reads is there: column, row, and what the wait returns."
        return self._function(stage, "tile_when_ready", "sync", said, body)

    def _awaited(self, stage: Stage, x: int, y: int) -> Awaited:
        dependency = self._pipeline.dependency_of(stage.name)
        assert dependency is not None, "callers ask for consumers only"
        arrays = self._resolved.inputs(stage.name)

        def semaphore_of(producer: str, tile: tuple[int, int]) -> int:
            return arrays[producer].semaphore(tile)

        values = {array.first + i: value for array in arrays.values() for i, value in enumerate(array.values)}
        waits = waits_of(dependency, (x, y), semaphore_of, position_in_slice(0, 1))
        return tuple((self._first + wait.semaphore, values[wait.semaphore]) for wait in waits)

    def _wait_body(self, stage: Stage, waits: Sequence[Awaited], index: int) -> list[str]:
        grid = stage.grid
        if all(len(awaited) == 1 for awaited in waits):
            semaphores, values = zip(*(awaited[0] for awaited in waits), strict=True)
            fitted = fit_map(SemaphoreTable(max(semaphores) + 1, semaphores, _shares(semaphores)), grid)
            if fitted is not None and len(set(values)) == 1:
                word = _in_python(fitted_formula(fitted, grid).semaphore, {})
                return [f"return _wait(sync, {word}, {values[0]}, {index}, x, y)"]
        places: dict[Awaited, int] = {}  # the consumer's tiles share lists: those of a row, say
        for awaited in waits:
            if awaited not in places:
                places[awaited] = self._table(list(chain.from_iterable(awaited)))
        lists = self._table([number for awaited in waits for number in (places[awaited], len(awaited))])
        return [
            f"own = sync + {lists} + 2 * (y * {grid.x} + x)",
            "pair = sync + tl.load(own)",
            "poison = -0.0",
            "for i in range(tl.load(own + 1)):",
            f"    poison += _wait(sync, tl.load(pair + 2 * i), tl.load(pair + 2 * i + 1), {index}, x, y)",
            "return poison",
        ]

    def _start_lines(self, stage: Stage) -> list[str]:
        dependency, stages = self._pipeline.dependency_of(stage.name), self._pipeline.stages
        assert dependency is not None, "callers ask for consumers only"
        names = [other.name for other in stages]
        index = names.index(stage.name)
        body = [
            f"_wait(sync, {REPORT_WORDS + names.index(producer)}, 1, {index}, -1, -1)"
            for producer in dependency.producers
        ]
        said = (
            "A kernel of one program, ahead of the stage on its stream: ends when its producers have started."
        )
        return self._function(stage, "wait_for_start", "sync", said, body)

    def _table(self, numbers: Sequence[int]) -> int:
        place = self._counters + len(self._tables)
        self._tables += numbers
        return place


def _shares(semaphores: Sequence[int]) -> tuple[int, ...]:
    counts: dict[int, int] = {}
    for semaphore in semaphores:
        counts[semaphore] = counts.get(semaphore, 0) + 1
    return tuple(counts[semaphore] for semaphore in semaphores)


def _in_python(text: str, extents: dict[str, int]) -> str:
    """A C++ formula of non-negative integers in Python: extents as numbers, whole division, min."""
    for word, number in extents.items():
        text = re.sub(rf"\b{word}\b", str(number), text)
    return text.replace(" / ", " // ").replace("smaller(", "tl.minimum(")


def _statements(line: str) -> list[str]:
    parts = re.split(r", (?=\w+ = )", line.removeprefix("const int ").removesuffix(";"))
    return [part.strip() for part in parts]
