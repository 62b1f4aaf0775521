"""The first comment of a generated header: what it is for, which options it uses, the lines to add.

Example: a CUTLASS-style kernel gains three lines: one at its top that says which tile it computes, one
wait before it loads a chunk of A, one post after its epilogue.
"""

import textwrap
from collections.abc import Iterator

from wavesim.codegen.cuda_text import Sizes
from wavesim.codegen.names import Names
from wavesim.codegen.options import AVOID_WAIT_KERNEL, REORDER_LOADS, Option, is_used
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.plan.semaphores import edges_of
from wavesim.safe_io.escaping import cuda_comment, one_line
from wavesim.safety.deadlock import safety_of

LONGEST_PARAGRAPH = 4_000  # letters


def usage_lines(
    pipeline: Pipeline,
    plan: Plan,
    device: Device,
    options: tuple[Option, ...],
    names: Names,
    space: str,
    sizes: Sizes,
) -> list[str]:
    """The comment block."""
    orders = ", ".join(f"{stage.name} {plan.order_of(stage.name).name}" for stage in pipeline.stages)
    words = [
        f"{pipeline.name} on {device.name}: {plan.label}. Orders: {orders}.",
        "Written by wavesim gen; change the description and write it again, not this file.",
        "",
        *_dependency_words(pipeline),
        "",
        _safety_words(pipeline, plan, device, sizes),
        "",
        *(_option_words(options) if sizes.is_constant else _size_words(pipeline, options, names, space)),
        *_kernel_words(pipeline, plan, options, names, space, sizes),
    ]
    return [f"// {cuda_comment(line)}".rstrip() for text in words for line in _wrapped(text)] + [""]


def _wrapped(text: str) -> list[str]:
    if text.startswith("    "):
        return [text]
    indent = "  " if text.startswith("- ") else ""
    return textwrap.wrap(one_line(text, LONGEST_PARAGRAPH), 104, subsequent_indent=indent) or [""]


def _dependency_words(pipeline: Pipeline) -> list[str]:
    return ["What reads what:", *(f"- {dependency}" for dependency in pipeline.dependencies)]


def _safety_words(pipeline: Pipeline, plan: Plan, device: Device, sizes: Sizes) -> str:
    """Whether the plan can deadlock; of a header for every size what is true at all of them."""
    found = safety_of(pipeline, plan, device)
    if sizes.is_constant or found.basis == "cuda":
        return found.text[0].upper() + found.text[1:] + "."
    return (
        "Safety: rests on more than CUDA promises, on what depends on the sizes; wavesim gen says it of each."
    )


def _option_words(options: tuple[Option, ...]) -> Iterator[str]:
    if options:
        yield "Options:"
        for option in options:
            yield f"- {option.name}, {option.subject}: {'yes' if option.is_used else 'no'}, {option.why}."
        yield ""


def _size_words(pipeline: Pipeline, options: tuple[Option, ...], names: Names, space: str) -> Iterator[str]:
    """What a header that leaves its sizes to run time promises, word for word the same at every size."""
    yield (
        "Sizes are known at run time: fill the grids in on the host, pass each kernel its own stage as a "
        "parameter, and call its members on that."
    )
    grids = ", ".join(f"{{{names.stage(stage.name)} columns, rows, slices}}" for stage in pipeline.stages)
    yield f"    const {space}::Run run = {space}::run_with({grids});"
    yield (
        "What is read is written as described, with the description's own constants: this header serves all "
        "sizes for which wavesim gen writes the very same text. Whether the wait-kernel may go depends on "
        "them."
    )
    yield ""
    if options:
        yield "Options:"
        for option in options:
            if option.name != AVOID_WAIT_KERNEL:
                yield f"- {option.name}, {option.subject}: {'yes' if option.is_used else 'no'}."
        yield ""


def _kernel_words(
    pipeline: Pipeline, plan: Plan, options: tuple[Option, ...], names: Names, space: str, sizes: Sizes
) -> Iterator[str]:
    consumers = {consumer for _, consumer in edges_of(pipeline)}
    stage_word, count = ("STAGE::", f"{space}::") if sizes.is_constant else ("stage.", "run.")
    at_most = "as many blocks as fit at once, at most " if plan.schedule.fetches_tiles else ""
    yield (
        f"Lines to add. Launch each kernel as a one-dimensional grid of {at_most}{stage_word}blocks() "
        f"blocks; `counters` is unsigned[{count}counter_count] in global memory, zeroed when it is made."
    )
    if plan.runs_one_after_another and not plan.sync.has_semaphores:
        yield "Stream sync: launch the kernels one after another on one stream; nobody waits or posts."
    for stage in pipeline.stages:
        word = f"{space}::{names.stage(stage.name)}"
        at = f"{word}::" if sizes.is_constant else "stage."
        yield ""
        yield f"In the kernel of {names.stage(stage.name)}:"
        if not sizes.is_constant:
            yield f"    ... (const __grid_constant__ {word} stage, unsigned* counters, ...) {{"
        if plan.schedule.fetches_tiles:
            yield f"    for (each position = {at}next_position(counters) below {at}blocks()) {{"
            yield f"    const {space}::Tile tile = {at}tile_at(position);"
        else:
            yield f"    const {space}::Tile tile = {at}begin(counters);  // in place of blockIdx"
        if stage.name in consumers and plan.sync.has_semaphores:
            yield from _wait_lines(pipeline, stage.name, options, names, space, sizes)
        else:
            yield "    ... main loop ..."
        yield "    ... epilogue: store the tile ..."
        if pipeline.consumers_of(stage.name) and plan.sync.has_semaphores:
            slices = " (split-K: only the block that stores the sum)" if stage.grid.z > 1 else ""
            yield f"    {at}post(counters, tile);  // after the last store{slices}"
        if plan.schedule.fetches_tiles:
            yield "    }"
    yield ""
    yield (
        "begin, wait and post are called by all threads of a block. Kernels whose warps have roles of their "
        "own, or whose blocks compute tile after tile, use what they are made of from one thread each: "
        "next_position, tile_at, wait_tile and post_tile."
    )
    run = "" if sizes.is_constant else "run, "
    if plan.sync.has_semaphores:
        yield from _check_lines(plan, space, run)
    elif plan.schedule.fetches_tiles:
        yield f"On the host, before every run: {space}::prepare_run({run}counters, stream)."
    yield from _host_lines(pipeline, plan, options, names, space, sizes)


def _check_lines(plan: Plan, space: str, run: str) -> Iterator[str]:
    """What the host does around a run; `run`: the argument before `counters`, if there is one."""
    has_streams = plan.launch.is_multi_stream
    stream = "first_stream" if has_streams else "stream"
    yield ""
    yield (
        "On the host, around every run. A wait that sees no post for WAVESIM_WAIT_LIMIT_NS gives up: wait "
        "returns false, the block returns without a post, and so do all that wait for it. Nothing else says "
        "so: outputs then hold what they held before."
    )
    yield "    const char* missing;"
    yield f"    if ({space}::prepare_run({run}counters, {stream}) != cudaSuccess) ... fail ..."
    if has_streams:
        yield "    ... every other stream waits for first_stream (cudaStreamWaitEvent): for its zeros ..."
    yield "    ... the launches ..."
    if has_streams:
        yield "    ... first_stream waits for every other stream: the next run zeroes what this one polls ..."
    yield f"    if ({space}::check_run({run}counters, missing) != cudaSuccess) ... fail: missing says why ..."
    yield (
        f"A host without CUDA's runtime API reads counters[{space}::gave_up] itself: zero, or what a call of "
        "missing_tile turns into words. It zeroes gave_up after having read it, never before."
    )


def _wait_lines(
    pipeline: Pipeline, consumer: str, options: tuple[Option, ...], names: Names, space: str, sizes: Sizes
) -> Iterator[str]:
    is_gemm = isinstance(pipeline.stage(consumer).work, Gemm)
    yield "    for (each chunk of the main loop) {"
    if is_used(options, REORDER_LOADS, consumer):
        yield "        ... load the chunk of B: nobody has to be waited for ..."
    for producer, reader in edges_of(pipeline):
        if reader == consumer:
            edge = sizes.reach(
                f"{space}::{names.edge((producer, consumer))}", f"stage.from_{names.stage(producer)}"
            )
            what = "the chunk's columns of A" if is_gemm else f"tile (column, row) of {names.stage(producer)}"
            yield f"        if (!{edge}wait(counters, column, row)) return;  // before loading {what}"
    yield "        ... load the rest and compute ..."
    yield "    }"


def _one_stream_lines(pipeline: Pipeline, plan: Plan) -> Iterator[str]:
    yield "On the host: all kernels on one stream, producers launched first."
    early = [s.name for i, s in enumerate(pipeline.stages) if plan.turn_of(pipeline, i).is_early]
    if not early:
        return
    names = ", ".join(early)
    yield (
        f"Launch {names} with the attribute programmaticStreamSerialization, any other without. The first "
        "instruction of each kernel is griddepcontrol.launch_dependents: the next one starts once every "
        "block before it has."
    )
    if plan.waits_for_grids:
        yield (
            f"Every block of {names} executes griddepcontrol.wait before it first reads a producer's tile: "
            "it returns when the whole kernel before has ended."
        )
    else:
        yield (
            f"Every block of {names} executes griddepcontrol.wait before it ends, also where wait returned "
            "false: else it can end before the kernel that it reads, and what the stream does next, such as "
            "the next prepare_run, need not wait for both."
        )


def _no_wait_kernel_text(pipeline: Pipeline, options: tuple[Option, ...], sizes: Sizes) -> str:
    if not sizes.is_constant:
        return "No wait-kernel: at some sizes that can deadlock; wavesim gen says it of each."
    if is_used(options, AVOID_WAIT_KERNEL, pipeline.name):
        return "No wait-kernel: see its option above for why that is safe on this device, and only there."
    return "No wait-kernel: see its option above for how these kernels can deadlock. Add it, or change them."


def _host_lines(
    pipeline: Pipeline, plan: Plan, options: tuple[Option, ...], names: Names, space: str, sizes: Sizes
) -> Iterator[str]:
    if not plan.sync.has_semaphores and not plan.waits_for_grids:
        return
    yield ""
    if plan.schedule.is_fused:
        yield "On the host: one launch of as many blocks as fit at once, each fetching tiles to the end."
        return
    if not plan.launch.is_multi_stream:
        yield from _one_stream_lines(pipeline, plan)
        return
    yield "On the host: a stream per kernel, producers launched first."
    if not plan.launch.wait_kernel:
        yield _no_wait_kernel_text(pipeline, options, sizes)
        return
    yield "Before each consumer, on its stream, one thread that ends once its producers have started:"
    yield "    __global__ void wait_for_start(unsigned* counters, int started) {"
    yield f"        {space}::wait_for(counters, started, 1);"
    yield "    }"
    for producer, consumer in edges_of(pipeline):
        name = f"{space}::{names.stage(producer)}"
        yield f"    wait_for_start<<<1, 32, 0, {names.stage(consumer)}_stream>>>(counters, {name}::started);"
